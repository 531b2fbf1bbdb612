// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/must"
)

func deployment(change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Spec.Template.Spec.Containers = []corev1.Container{
		{Name: "app", Image: "nginx:1", Env: []corev1.EnvVar{{Name: "A", Value: "hunter2-a"}, {Name: "B", Value: "hunter2-b"}}},
		{Name: "log", Args: []string{"-v"}},
	}
	for _, f := range change {
		f(d)
	}
	return d
}

func replicas(n int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To(n) }
}

func TestDiff(t *testing.T) {
	containers := func(d *appsv1.Deployment) []corev1.Container { return d.Spec.Template.Spec.Containers }
	const path = "spec.template.spec.containers"
	for sentence, test := range map[string]struct {
		before, after any
		want          []string
	}{
		"equal objects": {deployment(), deployment(), nil},
		"a new number":  {deployment(), deployment(replicas(3)), []string{"spec.replicas: none → 3"}},
		"a string in a list of items with names": {
			deployment(), deployment(func(d *appsv1.Deployment) { containers(d)[0].Image = "nginx:2" }),
			[]string{path + "[app].image: nginx:1 → nginx:2"},
		},
		"an item is inserted: only that item": {
			deployment(), deployment(func(d *appsv1.Deployment) {
				d.Spec.Template.Spec.Containers = slices.Insert(containers(d), 0, corev1.Container{Name: "new", Image: "n"})
			}),
			[]string{path + "[new].image: none → n", path + "[new].name: none → new"},
		},
		"a list of strings: by index": {
			deployment(), deployment(func(d *appsv1.Deployment) { containers(d)[1].Args = []string{"-q", "-x"} }),
			[]string{path + "[log].args[0]: -v → -q", path + "[log].args[1]: none → -x"},
		},
		"a label with a dot": {
			deployment(), deployment(func(d *appsv1.Deployment) { d.Labels = map[string]string{"a.b/c": "d"} }),
			[]string{"metadata.labels[a.b/c]: none → d"},
		},
		"conditions: by type": {
			map[string]any{"status": map[string]any{"conditions": []metav1.Condition{{Type: "Ready", Status: "True"}}}},
			map[string]any{"status": map[string]any{"conditions": []metav1.Condition{{Type: "Ready", Status: "False"}}}},
			[]string{"status.conditions[Ready].status: True → False"},
		},
		"two items with the same name: by index": {
			map[string]any{"a": []any{map[string]any{"name": "x"}, map[string]any{"name": "x"}}},
			map[string]any{"a": []any{map[string]any{"name": "x"}}},
			[]string{"a[1].name: x → none"},
		},
		"environment variables: no values": {
			deployment(), deployment(func(d *appsv1.Deployment) {
				containers(d)[0].Env = []corev1.EnvVar{{Name: "B", Value: "hunter2-c"}, {Name: "C", Value: "hunter2-d"}}
			}),
			[]string{
				path + "[app].env[A].name: A → none", path + "[app].env[A].value: changed, values not shown",
				path + "[app].env[B].value: changed, values not shown",
				path + "[app].env[C].name: none → C", path + "[app].env[C].value: changed, values not shown",
			},
		},
		"a ConfigMap: no values": {
			&corev1.ConfigMap{Data: map[string]string{"a": "hunter2-a"}}, &corev1.ConfigMap{BinaryData: map[string][]byte{"b": []byte("hunter2-b")}},
			[]string{"binaryData.b: changed, values not shown", "data.a: changed, values not shown"},
		},
		"a Secret: no values": {
			nil, &corev1.Secret{StringData: map[string]string{"a": "hunter2-a"}, Data: map[string][]byte{"a": []byte("hunter2-a")}},
			[]string{"data.a: changed, values not shown", "stringData.a: changed, values not shown"},
		},
		"a map replaces a string": {
			map[string]any{"a": "text"}, map[string]any{"a": map[string]any{"b": 1}}, []string{`a: text → {"b":1}`},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			fields, err := Diff(test.before, test.after)
			must.Succeed(t, err)
			var got []string
			for _, f := range fields {
				got = append(got, f.String())
				if f.Hidden && f.Old+f.New != "" {
					t.Errorf("%s is hidden, and has the values %q and %q", f.Path, f.Old, f.New)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	if _, err := Diff(nil, func() {}); err == nil {
		t.Error("no error for a value that has no JSON")
	}
}

func TestALongValueIsTruncated(t *testing.T) {
	long := Field{Path: "a", Old: string(make([]byte, maxShown)), New: "-" + string(slices.Repeat([]byte("ß"), maxShown))}
	if got, want := long.String(), "a: "+long.Old+" → "+long.New[:maxShown-1]+"…"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// DiffOwned also returns the fields that another client has set, with their present values.
func TestFieldsOfAnotherClient(t *testing.T) {
	object := func(a, b string) map[string]any {
		return map[string]any{"spec": map[string]any{"a": a, "b": b}, "data": map[string]any{"c": a}}
	}
	owned := map[string]any{"spec": map[string]any{"a": "mine"}}
	fields, err := DiffOwned(owned, object("mine", "wanted"), object("mine", "theirs"))
	if err != nil || len(fields) != 2 || fields[0] != (Field{Path: "data.c", Hidden: true}) ||
		fields[1] != (Field{Path: "spec.b", Old: "theirs", New: "wanted"}) {
		t.Errorf("got %+v, error %v", fields, err)
	}
	fields, err = DiffOwned(owned, object("mine", "same"), object("mine", "same"))
	if err != nil || len(fields) != 2 || fields[1].String() != "spec.b: same, which another client set, too" {
		t.Errorf("got %+v, error %v", fields, err)
	}
}
