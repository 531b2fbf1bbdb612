// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	batchv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
)

var update = flag.Bool("update", false, "write the golden file of examples")

const (
	goldenFile   = "testdata/examples.yaml"
	goldenHeader = `# The children of the examples, and the status of the examples, as a real API server stores them.
# It was written at commit 0908c11. See pkg/controller/golden/doc.go, before you accept a change.
# go test ./e2e -run Examples -update writes it: see the target integration of the Makefile.
`
)

// goldenKinds are the kinds in the namespaces of the examples. ECSInstances have no children: pkg/controller/golden has their golden files.
var goldenKinds = []schema.GroupVersionResource{
	{Group: "groupa.k8s.zhuang.com", Version: "v1", Resource: "apiexampleas"},
	{Group: "app.aiops.org", Version: "v1", Resource: "applications"},
	{Group: "batch.wzj.kubebuilder.io", Version: "v1", Resource: "mycronjobs"},
	{Group: "bytewang123-redis.wzj.kubebuilder.io", Version: "v1", Resource: "redisclusters"},
	{Version: "v1", Resource: "configmaps"},
	{Version: "v1", Resource: "persistentvolumeclaims"},
	{Version: "v1", Resource: "pods"},
	{Version: "v1", Resource: "services"},
	{Group: "apps", Version: "v1", Resource: "deployments"},
	{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
	{Group: "batch", Version: "v1", Resource: "jobs"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
}

// testExamplesAreWrittenAsBefore applies the examples. The cluster has no kubelet and no other controllers, so that the operator has
// written all objects. Every MyCronJob is suspended, and creates one Job by run-now.
func testExamplesAreWrittenAsBefore(t *testing.T, w *world) {
	ns := w.bareNamespace(t)
	_, err := w.kube.CoreV1().ServiceAccounts(ns).Create(t.Context(), serviceAccount("default"), metav1.CreateOptions{})
	w.must(t, err)
	client, err := dynamic.NewForConfig(w.config)
	w.must(t, err)
	for _, kind := range []string{"apiexamplea", "application", "mycronjob", "rediscluster"} {
		files, err := filepath.Glob("../../../artifacts/examples/" + kind + "*.yaml")
		w.must(t, err)
		for _, file := range files {
			applyExample(t, w, client, ns, file)
		}
	}
	if *update {
		var last []byte
		since := time.Now()
		eventually(t, 60*time.Second, func(ctx context.Context) error {
			now, err := asStored(ctx, client, ns)
			if err == nil && !bytes.Equal(now, last) {
				last, since = now, time.Now()
			}
			if time.Since(since) < 10*time.Second {
				return fmt.Errorf("the objects still change: %w", err)
			}
			return err
		})
		w.must(t, os.WriteFile(goldenFile, last, 0o644))
	}
	want, err := os.ReadFile(goldenFile)
	w.must(t, err)
	eventually(t, 30*time.Second, func(ctx context.Context) error {
		got, err := asStored(ctx, client, ns)
		if err != nil {
			return err
		}
		return differs(goldenFile, want, got)
	})
}

// applyExample creates the object of a file.
func applyExample(t *testing.T, w *world, client dynamic.Interface, ns, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	w.must(t, err)
	object := &unstructured.Unstructured{}
	w.must(t, yaml.Unmarshal(data, &object.Object))
	at := slices.IndexFunc(goldenKinds, func(gvr schema.GroupVersionResource) bool {
		return gvr.Group == object.GroupVersionKind().Group && gvr.Resource == strings.ToLower(object.GetKind())+"s"
	})
	if object.GetKind() == "MyCronJob" {
		object.SetAnnotations(map[string]string{batchv1.AnnotationRunNow: "golden"})
		w.must(t, unstructured.SetNestedField(object.Object, true, "spec", "suspend"))
	}
	_, err = client.Resource(goldenKinds[at]).Namespace(ns).Create(t.Context(), object, metav1.CreateOptions{FieldManager: "e2e"})
	w.must(t, err)
}

// asStored returns the objects of a namespace as text, without random values.
func asStored(ctx context.Context, client dynamic.Interface, ns string) ([]byte, error) {
	all := bytes.NewBufferString(goldenHeader)
	for _, gvr := range goldenKinds {
		list, err := client.Resource(gvr).Namespace(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range list.Items { // The API server sorts them by name.
			// Pods and claims differ only in their ordinals. pkg/controller/golden shows them.
			object := &list.Items[i]
			if numbered := regexp.MustCompile(`-[1-9]\d*$`); numbered.MatchString(object.GetName()) {
				fmt.Fprintf(all, "---\n# %s %s\n", object.GetKind(), object.GetName())
				continue
			}
			text, err := yaml.Marshal(withoutRandom(object))
			if err != nil {
				return nil, err
			}
			all.WriteString("---\n")
			all.Write(uuidText.ReplaceAll(bytes.ReplaceAll(text, []byte(ns), []byte("(namespace)")), []byte("(uid)")))
		}
	}
	return all.Bytes(), nil
}

var (
	randomKeys = regexp.MustCompile(`^(uid|resourceVersion|creationTimestamp|clusterIP|clusterIPs|nodePort|healthCheckNodePort|` +
		`batch\.kubernetes\.io/controller-uid|controller-uid)$`)
	uuidText = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	timeText = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
)

// withoutRandom returns the fields of object without random values, and without the fields that other clients have written to an example.
func withoutRandom(object *unstructured.Unstructured) map[string]any {
	var own []metav1.ManagedFieldsEntry
	for _, entry := range object.GetManagedFields() {
		if entry.Time = nil; entry.Manager == glassback.Name {
			own = append(own, entry)
		}
	}
	object.SetManagedFields(own)
	fields := object.Object
	if own := goldenKinds[:4]; slices.ContainsFunc(own, func(gvr schema.GroupVersionResource) bool {
		return gvr.Group == object.GroupVersionKind().Group
	}) {
		fields = map[string]any{
			"kind": object.GetKind(), "status": fields["status"],
			"metadata": map[string]any{"name": object.GetName(), "managedFields": fields["metadata"].(map[string]any)["managedFields"]},
		}
	}
	return cleaned(fields).(map[string]any)
}

func cleaned(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if randomKeys.MatchString(key) {
				value[key] = "(random)"
				continue
			}
			value[key] = cleaned(field)
		}
	case []any:
		for i, item := range value {
			value[i] = cleaned(item)
		}
	case string:
		if strings.HasPrefix(value, "#!") {
			return "(script: see pkg/controller/golden)"
		}
		return timeText.ReplaceAllString(value, "(time)")
	}
	return value
}

// differs returns an error with the first difference of two texts, or nil.
func differs(file string, want, got []byte) error {
	if bytes.Equal(want, got) {
		return nil
	}
	was, is := strings.Split(string(want), "\n"), strings.Split(string(got), "\n")
	at := 0
	for at < min(len(was), len(is)) && was[at] == is[at] {
		at++
	}
	around := func(lines []string) string {
		return strings.Join(lines[min(max(0, at-8), len(lines)):min(at+8, len(lines))], "\n")
	}
	return fmt.Errorf("%s differs from the objects, first in line %d\nthe file:\n%s\nthe objects:\n%s", file, at+1, around(was), around(is))
}
