// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/glassback/glassback/pkg/descriptor"
	"github.com/glassback/glassback/pkg/kinds"
	"github.com/glassback/glassback/pkg/must"
)

// parse decodes JSON into maps, lists and simple values.
func parse(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return value
}

func print(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	must.Succeed(t, err)
	return string(text)
}

// apply applies a JSON Patch, and decodes the result.
func apply(text, patch []byte) (result any, err error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	if text, err = operations.Apply(text); err != nil {
		return nil, err
	}
	err = json.Unmarshal(text, &result)
	return result, err
}

func TestDifference(t *testing.T) {
	for name, test := range map[string]struct{ raw, from, to, want, result string }{
		"unchanged values keep their text": {`{"a":1.0,"b":null}`, `{"a":1,"c":0}`, `{"a":1,"c":0}`, `null`, `{"a":1.0,"b":null}`},
		"a field is added with its parents": {`{}`, `{"a":{"b":{}}}`, `{"a":{"b":{"c":1}}}`,
			`[{"op":"add","path":"/a","value":{"b":{"c":1}}}]`, `{"a":{"b":{"c":1}}}`},
		"false, 0 and an empty text are values": {
			`{"a":true,"b":1,"c":"x","d":[1],"e":1}`, `{"a":true,"b":1,"c":"x","d":[1],"e":1}`, `{"a":false,"b":0,"c":"","d":[],"e":{}}`,
			`[{"op":"replace","path":"/a","value":false},{"op":"replace","path":"/b","value":0},{"op":"replace","path":"/c","value":""},` +
				`{"op":"replace","path":"/d","value":[]},{"op":"replace","path":"/e","value":{}}]`, `{"a":false,"b":0,"c":"","d":[],"e":{}}`,
		},
		"a parent that is null is replaced": {`{"a":null}`, `{"a":{}}`, `{"a":{"b":1}}`,
			`[{"op":"replace","path":"/a","value":{"b":1}}]`, `{"a":{"b":1}}`},
		"a field is removed": {`{"a":1,"x":2}`, `{"a":1}`, `{}`, `[{"op":"remove","path":"/a"}]`, `{"x":2}`},
		"a key is escaped": {
			`{"a/b~c":{"x":1}}`, `{"a/b~c":{}}`, `{"a/b~c":{"~1":1}}`, `[{"op":"add","path":"/a~1b~0c/~01","value":1}]`, `{"a/b~c":{"x":1,"~1":1}}`,
		},
		"a key may be empty": {`{"":{"x":1}}`, `{"":{}}`, `{"":{"":1}}`, `[{"op":"add","path":"//","value":1}]`, `{"":{"x":1,"":1}}`},
		"only one element of a list changes": {`{"a":[{"x":1},{"b":0,"x":2}]}`, `{"a":[{},{"b":0}]}`, `{"a":[{},{"b":1}]}`,
			`[{"op":"replace","path":"/a/1/b","value":1}]`, `{"a":[{"x":1},{"b":1,"x":2}]}`},
		"a list that grew": {`{"a":[1]}`, `{"a":[1]}`, `{"a":[1,2]}`, `[{"op":"replace","path":"/a","value":[1,2]}]`, `{"a":[1,2]}`},
	} {
		t.Run(name, func(t *testing.T) {
			operations := appendDifference(nil, "", parse(t, test.raw), parse(t, test.from), parse(t, test.to))
			patch := print(t, operations)
			if patch != test.want {
				t.Errorf("got %s, want %s", patch, test.want)
			}
			result, err := apply([]byte(test.raw), []byte(patch))
			must.Succeed(t, err)
			if want := parse(t, test.result); !reflect.DeepEqual(result, want) {
				t.Errorf("the patch results in %v, want %v", result, want)
			}
		})
	}
}

// defaulted checks the defaults of an object from a client. It returns the paths that the patch changed. If the object cannot be decoded,
// it returns false.
func defaulted(t *testing.T, d *descriptor.Descriptor, raw []byte) ([]string, bool) {
	t.Helper()
	mutate := func(raw []byte) []operation {
		o := &content{}
		if json.Unmarshal(raw, o) != nil {
			return nil
		}
		o.Status = nil // As decodeReview does.
		operations, err := kind{d}.mutate(&request{Object: o})
		if err != nil {
			t.Fatalf("%v for %s", err, raw)
		}
		return operations
	}
	decode := func(raw []byte) (descriptor.Object, error) {
		o, obj := &content{}, d.Custom.New()
		if err := json.Unmarshal(raw, o); err != nil {
			return nil, err
		}
		o.Status = nil
		_, err := decode(o.json(), obj)
		return obj, err
	}
	operations := mutate(raw)
	before, err := decode(raw)
	if err != nil {
		if len(operations) > 0 {
			t.Errorf("an object that cannot be decoded, %s, gets the patch %+v", raw, operations)
		}
		return nil, false
	}
	after := before.DeepCopyObject().(descriptor.Object)
	after.Default()
	if len(operations) == 0 && !equality.Semantic.DeepEqual(before, after) {
		t.Errorf("%s lacks defaults, but gets no patch", raw)
	}
	patch := print(t, operations)
	given := parse(t, string(raw))
	result, err := apply(raw, []byte(patch))
	if err != nil {
		t.Fatalf("error %v of the patch %s for %s", err, patch, raw)
	}
	patched := []byte(print(t, result))
	got, err := decode(patched)
	if err != nil {
		t.Fatalf("after the patch %s, %s cannot be decoded: %v", patch, raw, err)
	}
	if !equality.Semantic.DeepEqual(got, after) {
		t.Errorf("the patch %s results in %s for %s, want %s", patch, patched, raw, print(t, after))
	}
	if more := mutate(patched); len(more) > 0 {
		t.Errorf("after the patch %s, %s gets another patch: %+v", patch, raw, more)
	}
	paths := make([]string, 0, len(operations))
	for _, o := range operations {
		paths = append(paths, o.Path)
	}
	kept(t, "", given, result, paths)
	return paths, true
}

// kept checks that the result has all given values, except those that a patch replaced.
func kept(t *testing.T, path string, given, result any, replaced []string) {
	t.Helper()
	switch was := given.(type) {
	case map[string]any:
		if result, ok := result.(map[string]any); ok {
			for key, value := range was {
				child, there := result[key]
				if !there {
					t.Errorf("the result lacks %s/%s", path, pointer.Replace(key))
				}
				kept(t, path+"/"+pointer.Replace(key), value, child, replaced)
			}
			return
		}
	case []any:
		if result, ok := result.([]any); ok && len(result) == len(was) {
			for i := range was {
				kept(t, fmt.Sprintf("%s/%d", path, i), was[i], result[i], replaced)
			}
			return
		}
	default:
		if reflect.DeepEqual(given, result) || slices.Contains(replaced, path) {
			return
		}
	}
	t.Errorf("%s is %v, want %v", path, result, given)
}

// replaced has the paths that the patches of each kind replace, without the numbers in them. In a hundred random objects, a patch must
// replace each of these paths at least once.
var replaced = map[string][]string{
	"ApiExampleA": nil,
	"Application": {
		"/spec", "/spec/autoscaling/minReplicas", "/spec/env/N/valueFrom/fileKeyRef/optional", "/spec/ingress", "/spec/ingress/className",
		"/spec/ingress/enabled", "/spec/ingress/host", "/spec/ingress/path", "/spec/podTemplate/automountServiceAccountToken",
		"/spec/podTemplate/containers/N/ports/N", "/spec/podTemplate/containers/N/ports/N/protocol",
		"/spec/podTemplate/initContainers/N/ports/N", "/spec/podTemplate/initContainers/N/ports/N/protocol",
		"/spec/port", "/spec/probes/liveness/grpc/service",
		"/spec/probes/readiness/grpc/service", "/spec/probes/startup/grpc/service", "/spec/replicas", "/spec/service", "/spec/service/enabled",
		"/spec/service/type"},
	"ECSInstance": {
		"/spec", "/spec/deletionPolicy", "/spec/instanceChargeType", "/spec/instanceTypeChangePolicy", "/spec/powerState", "/spec/recreatePolicy",
		"/spec/userDataSecretRef/key"},
	"MyCronJob": {
		"/spec", "/spec/concurrencyPolicy", "/spec/failedJobsHistoryLimit", "/spec/missedRunPolicy", "/spec/successfulJobsHistoryLimit",
		"/spec/suspend"},
	"RedisCluster": {
		"/spec", "/spec/authSecretRef/key", "/spec/backup/retention", "/spec/image",
		"/spec/podTemplate/containers/N/ports/N", "/spec/podTemplate/containers/N/ports/N/protocol",
		"/spec/podTemplate/initContainers/N/ports/N", "/spec/podTemplate/initContainers/N/ports/N/protocol",
		"/spec/replicasPerMaster", "/spec/restoreFrom/backup", "/spec/size", "/spec/tls/mode", "/spec/tls/port",
		"/spec/users/N", "/spec/users/N/keepOldPasswordSeconds", "/spec/users/N/passwordSecretRef/key"},
}

var number = regexp.MustCompile(`/[0-9]+(/|$)`)

func TestDefaultsOfRandomObjects(t *testing.T) {
	for d := range kinds.Custom() {
		t.Run(d.Kind, func(t *testing.T) {
			paths := map[string]bool{}
			read := 0
			const objects = 800
			for seed := range uint64(objects) {
				g := generator{Rand: rand.New(rand.NewPCG(seed, 1))}
				if seed%10 == 0 {
					g.wrong = 0.01
				}
				raw := print(t, g.value(reflect.TypeOf(d.Custom.New()).Elem(), 0))
				patched, ok := defaulted(t, d, []byte(raw))
				if t.Failed() {
					t.Fatalf("the seed is %d", seed)
				}
				if ok {
					read++
				}
				for _, path := range patched {
					paths[number.ReplaceAllString(path, "/N$1")] = true
				}
			}
			if read < objects*3/4 || read == objects {
				t.Errorf("only %d of %d objects could be decoded", read, objects)
			}
			if got := slices.Sorted(maps.Keys(paths)); !slices.Equal(got, replaced[d.Kind]) {
				t.Errorf("the patches replaced %q, want %q", got, replaced[d.Kind])
			}
		})
	}
}

// generator creates random JSON for a type. It leaves out fields, and adds unknown fields, nulls, and values of another type.
type generator struct {
	*rand.Rand
	wrong float64 // share of the values with another type
}

func (g generator) chance(p float64) bool { return g.Float64() < p }

func pick[T any](g generator, values ...T) T { return values[g.IntN(len(values))] }

// strange are keys that no field has. They include names of fields in another case, and characters that a JSON Pointer escapes.
var strange = []string{"x-unknown", "un/known", "un~known", "~1", "~0/", "", "Spec", "SIZE", "Env", "0", "-"}

// value returns a random value of a type, at a depth.
func (g generator) value(of reflect.Type, depth int) any {
	switch {
	case g.chance(0.05) && depth > 0:
		return nil
	case g.chance(g.wrong):
		return pick[any](g, true, 1.5, "a", []any{}, map[string]any{})
	}
	switch of {
	case reflect.TypeFor[resource.Quantity]():
		return pick[any](g, "1", 1, "100m", "1.50Gi", "1e3")
	case reflect.TypeFor[intstr.IntOrString]():
		return pick[any](g, 1, "50%", "http")
	case reflect.TypeFor[metav1.Time]():
		return "2026-01-01T00:00:00Z"
	case reflect.TypeFor[metav1.FieldsV1]():
		return g.anything(0)
	}
	switch of.Kind() {
	case reflect.Pointer:
		return g.value(of.Elem(), depth)
	case reflect.Struct:
		fields := map[string]any{}
		g.fields(fields, of, depth)
		for g.chance(0.3) {
			fields[pick(g, strange...)] = g.anything(0)
		}
		return fields
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return "AAAA"
		}
		list := make([]any, g.IntN(4))
		for i := range list {
			list[i] = g.value(of.Elem(), depth+1)
		}
		return list
	case reflect.Map:
		entries := map[string]any{}
		for range g.IntN(4) {
			entries[pick(g, "a", "app.kubernetes.io/name", "a~b", "")] = g.value(of.Elem(), depth+1)
		}
		return entries
	case reflect.String:
		return pick(g, "", "a", "a/b", "~", "\u0000<\u2028", "x: y")
	case reflect.Bool:
		return g.chance(0.5)
	case reflect.Int32, reflect.Int64:
		return pick(g, 0, 1, 3, 6, 12, -1, 100000)
	default:
		panic("a field of type " + of.String())
	}
}

// fields sets some of the fields of a struct: most of them near the root, and fewer at a greater depth.
func (g generator) fields(fields map[string]any, of reflect.Type, depth int) {
	share := 0.25
	if depth < 3 {
		share = 0.6
	}
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "" && field.Anonymous:
			g.fields(fields, field.Type, depth)
		case name != "" && name != "-" && g.chance(share):
			fields[name] = g.value(field.Type, depth+1)
		}
	}
}

// anything returns random JSON of any type.
func (g generator) anything(depth int) any {
	switch n := g.IntN(8); {
	case n == 0 && depth < 3:
		return map[string]any{pick(g, strange...): g.anything(depth + 1), "key": g.anything(depth + 1)}
	case n == 1 && depth < 3:
		return []any{g.anything(depth + 1), g.anything(depth + 1)}
	default:
		return pick[any](g, nil, true, "text", 1, -2.5, map[string]any{}, []any{})
	}
}

func TestNoWarningQuotesAnObject(t *testing.T) {
	object := map[string]any{"password": "x"}
	for _, o := range []operation{
		{Op: replace, Path: "/spec", Value: object, was: "x"}, {Op: replace, Path: "/spec/env", Value: "x", was: []any{object}},
	} {
		if got := o.warning(); got != "" {
			t.Errorf("got %q, want no warning", got)
		}
	}
}
