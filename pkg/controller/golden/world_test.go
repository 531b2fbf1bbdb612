// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/fakeapi"
	glassbackscheme "github.com/glassback/glassback/pkg/generated/clientset/versioned/scheme"
	"github.com/glassback/glassback/pkg/generated/informers/externalversions"
	"github.com/glassback/glassback/pkg/must"
)

func TestMain(m *testing.M) {
	// client-go's own error handler sleeps by the difference of two clocks, which mixes up the bubbles of synctest.
	utilruntime.ErrorHandlers = nil
	fakeapi.Prepare() // Outside of a bubble: it takes a while.
	os.Exit(m.Run())
}

// examples holds the objects that the documents tell users to apply.
const examples = "../../../artifacts/examples"

// namespace is that of all objects.
const namespace = "default"

func named(name string) cache.ObjectName { return cache.NewObjectName(namespace, name) }

// decoder reads objects of all kinds.
var decoder = serializer.NewCodecFactory(fakeapi.Scheme).UniversalDeserializer()

// world is one scenario: a fake API server and one controller, in a bubble of synctest. Its clock begins on 2000-01-01.
type world struct {
	*server

	t        *testing.T
	kubeFrom kubeinformers.SharedInformerFactory
	ownFrom  externalversions.SharedInformerFactory
	recorder record.EventRecorder
	resumed  chan struct{} // Open while a step acts.
}

// controller is what a scenario runs.
type controller interface {
	Run(ctx, drain context.Context, workers int)
}

// scenario runs what play does to a world with the controller that make returns, and adds all writes to f.
func scenario(t *testing.T, f *file, name string, make func(*world) (controller, error), play func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		w := &world{
			server: s, t: t, recorder: &record.FakeRecorder{},
			kubeFrom: kubeinformers.NewSharedInformerFactory(s.kube, 0), ownFrom: externalversions.NewSharedInformerFactory(s.own, 0),
		}
		c, err := make(w)
		must.Succeed(t, err)
		w.notes.scenario(name)
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		w.kubeFrom.StartWithContext(ctx)
		w.ownFrom.StartWithContext(ctx)
		w.kubeFrom.WaitForCacheSyncWithContext(ctx)
		w.ownFrom.WaitForCacheSyncWithContext(ctx)
		ended := false
		go func() {
			c.Run(ctx, ctx, 1)
			ended = true
		}()
		play(w)
		w.mu.Lock()
		w.notes.left(w.left())
		f.text.Write(w.notes.text.Bytes())
		w.mu.Unlock()
		cancel()
		w.kubeFrom.Shutdown()
		w.ownFrom.Shutdown()
		synctest.Wait()
		if !ended {
			t.Error("the controller has not ended")
		}
	})
}

// step does something on behalf of a user or of another controller, and waits until the
// operator has done all that it does in the next so much time.
func (w *world) step(name string, wait time.Duration, do func()) {
	w.t.Helper()
	w.mu.Lock()
	w.notes.step(name)
	resumed := make(chan struct{})
	w.resumed = resumed
	w.mu.Unlock()
	if do != nil {
		do()
	}
	synctest.Wait()
	close(resumed)
	time.Sleep(wait)
	synctest.Wait()
}

// pause waits while a step acts and until the caches have all of what it did. A sync that sees one half of it writes
// something else than a sync that sees all.
func (w *world) pause() {
	w.mu.Lock()
	resumed := w.resumed
	w.mu.Unlock()
	if resumed != nil {
		<-resumed
	}
}

// read returns the objects of a YAML file.
func (w *world) read(path string) []object {
	w.t.Helper()
	data, err := os.ReadFile(path)
	must.Succeed(w.t, err)
	var all []object
	for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
		obj, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			w.t.Fatalf("%s: %v", path, err)
		}
		all = append(all, obj.(object))
	}
	return all
}

// defaulted is an object of ours, with what the CustomResourceDefinition or a webhook sets.
type defaulted interface{ Default() }

// apply creates objects as kubectl does. Their UIDs follow from their names.
func (w *world) apply(objects ...object) {
	w.t.Helper()
	for _, obj := range objects {
		if d, ok := obj.(defaulted); ok {
			d.Default()
		}
		if secret, ok := obj.(*corev1.Secret); ok {
			secret.Data = map[string][]byte{}
			for key, value := range secret.StringData {
				secret.Data[key] = []byte(value)
			}
			secret.StringData = nil
		}
		obj.SetNamespace(namespace)
		if obj.GetUID() == "" {
			obj.SetUID(types.UID("0a1b2c3d-0000-4000-8000-" + obj.GetName()))
		}
	}
	w.Put(objects...) // All at once, so that no sync sees one half of them.
}

// change changes a stored object of that type on behalf of a user or of another controller. managedFields stay as they are.
func change[T object](w *world, name string, change func(T)) {
	fakeapi.Edit(w.Server, named(name), "", change)
}

// remove deletes objects of that type on behalf of a user.
func remove[T object](w *world, names ...string) {
	w.t.Helper()
	for _, name := range names {
		change(w, name, func(obj T) { obj.SetDeletionTimestamp(ptr.To(metav1.NewTime(time.Now()))) })
	}
}

// left returns what exists at the end: all objects that the operator may have made, without what
// an API server adds, and the status of all objects of ours.
func (w *world) left() map[string]map[string]any {
	all := map[string]map[string]any{}
	for _, obj := range w.All() {
		resource, fields := fakeapi.ResourceOf(obj), fieldsOf(obj)
		name := resource + "/" + obj.GetName()
		_, _, err := glassbackscheme.Scheme.ObjectKinds(obj)
		switch ours := err == nil; {
		case resource == "secrets":
		case ours:
			all[name] = map[string]any{"status": fields["status"]}
		default:
			all[name] = withoutServerFields(fields)
		}
	}
	return all
}

// exampleFiles returns the examples of a kind.
func exampleFiles(t *testing.T, kind string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(examples, kind+"*.yaml"))
	if err != nil || len(all) == 0 {
		t.Fatalf("there are no examples of %s: %v", kind, err)
	}
	return all
}

// title is what a scenario with an example is called.
func title(path string) string { return strings.TrimSuffix(filepath.Base(path), ".yaml") }
