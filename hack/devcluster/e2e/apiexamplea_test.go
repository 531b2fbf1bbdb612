// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/pkg/apis/glassback"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
)

// TestApiExampleA follows objects from their creation to their deletion.
func TestApiExampleA(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{})
	o := launch(t, "--kubeconfig", w.Kubeconfig(), "--install-crds", "--controllers=apiexamplea")
	o.waitFor("Started controller")
	ns := w.namespace(t)
	examples, configMaps := w.glassback.GroupaV1().ApiExampleAs(ns), w.kube.CoreV1().ConfigMaps(ns)
	create := func(name string, spec groupav1.ApiExampleASpec) {
		t.Helper()
		_, err := examples.Create(t.Context(), &groupav1.ApiExampleA{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec},
			metav1.CreateOptions{})
		w.must(t, err)
	}
	reports := func(name string, state groupav1.State, greeting, reason string) {
		t.Helper()
		eventually(t, 60*time.Second, func(ctx context.Context) error {
			e, err := examples.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			ready := meta.FindStatusCondition(e.Status.Conditions, glassback.ConditionReady)
			if ready == nil || ready.Reason != reason || e.Status.Status != state || e.Status.Greeting != greeting ||
				e.Status.ObservedGeneration != e.Generation {
				return fmt.Errorf("status %+v, want %s %q %s", e.Status, state, greeting, reason)
			}
			return nil
		})
	}
	holds := func(name string, want map[string]string) {
		t.Helper()
		eventually(t, 10*time.Second, func(ctx context.Context) error {
			m, err := configMaps.Get(ctx, name+"-greeting", metav1.GetOptions{})
			if err != nil || !maps.Equal(m.Data, want) {
				return fmt.Errorf("data %v, want %v: %w", m.Data, want, err)
			}
			return nil
		})
	}

	create("sample", groupav1.ApiExampleASpec{Foo: "bar"})
	reports("sample", groupav1.StateRunning, "Greetings to bar", "Greeted")
	create("jimmy", groupav1.ApiExampleASpec{FirstName: "Jimmy", LastName: "Song"})
	const greeting = "Greetings to Jimmy Song"
	reports("jimmy", groupav1.StateRunning, greeting, "Greeted")
	o.waitFor(greeting)
	holds("jimmy", map[string]string{"greeting": greeting})

	// The test edits the ConfigMap and adds a key, deletes it, and changes the greeting in the spec.
	_, err := configMaps.Patch(t.Context(), "jimmy-greeting", types.MergePatchType, []byte(`{"data":{"greeting":"Go away","theirs":"stays"}}`),
		metav1.PatchOptions{})
	w.must(t, err)
	holds("jimmy", map[string]string{"greeting": greeting, "theirs": "stays"})
	w.must(t, configMaps.Delete(t.Context(), "jimmy-greeting", metav1.DeleteOptions{}))
	holds("jimmy", map[string]string{"greeting": greeting})
	_, err = examples.Patch(t.Context(), "jimmy", types.MergePatchType, []byte(`{"spec":{"first_name":"John"}}`), metav1.PatchOptions{})
	w.must(t, err)
	reports("jimmy", groupav1.StateRunning, "Greetings to John Song", "Greeted")
	holds("jimmy", map[string]string{"greeting": "Greetings to John Song"})

	// The name belongs to a foreign ConfigMap first, which the test deletes later.
	foreign, err := configMaps.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "late-greeting"}, Data: map[string]string{"greeting": "mine"},
	}, metav1.CreateOptions{})
	w.must(t, err)
	create("late", groupav1.ApiExampleASpec{})
	reports("late", groupav1.StateFailed, "", "Conflict")
	live, err := configMaps.Get(t.Context(), foreign.Name, metav1.GetOptions{})
	w.must(t, err)
	if live.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("the operator changed the foreign ConfigMap: %+v", live)
	}
	w.must(t, configMaps.Delete(t.Context(), foreign.Name, metav1.DeleteOptions{}))
	reports("late", groupav1.StateRunning, "Greetings to late", "Greeted")

	w.must(t, examples.Delete(t.Context(), "jimmy", metav1.DeleteOptions{}))
	// The garbage collector looks for new kinds of owners every 30 seconds.
	eventually(t, 90*time.Second, func(ctx context.Context) error {
		if _, err := configMaps.Get(ctx, "jimmy-greeting", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the ConfigMap still exists: %w", err)
		}
		return nil
	})
	if log := o.log.String(); strings.Contains(log, "Sync failed") {
		t.Error("a sync has failed")
	}
}
