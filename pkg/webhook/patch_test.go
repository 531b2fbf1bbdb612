/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/json"

	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// parse reads JSON as a value of maps, lists and so on.
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
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// apply returns what a JSON Patch makes of a value: of RFC 6902 as much as a difference
// uses, with every mistake an error.
func apply(value any, patch []byte) (any, error) {
	var operations []struct {
		Op, Path string
		Value    *stdjson.RawMessage
	}
	if err := stdjson.Unmarshal(patch, &operations); err != nil {
		return nil, err
	}
	for _, o := range operations {
		var operand any
		switch {
		case o.Op == remove:
		case o.Op != add && o.Op != replace:
			return nil, fmt.Errorf("%s: there is no operation %q", o.Path, o.Op)
		case o.Value == nil:
			return nil, fmt.Errorf("%s: %s without a value", o.Path, o.Op)
		default:
			if err := json.Unmarshal(*o.Value, &operand); err != nil {
				return nil, err
			}
		}
		tokens := strings.Split(o.Path, "/")
		if tokens[0] != "" {
			return nil, fmt.Errorf("%q is no JSON Pointer", o.Path)
		}
		for i, token := range tokens {
			tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		}
		var err error
		if value, err = changed(value, o.Op, tokens[1:], operand); err != nil {
			return nil, fmt.Errorf("%s %s: %w", o.Op, o.Path, err)
		}
	}
	return value, nil
}

// changed returns a value after one operation at the path of tokens.
func changed(value any, op string, tokens []string, operand any) (any, error) {
	if len(tokens) == 0 {
		return operand, nil
	}
	token, last := tokens[0], len(tokens) == 1
	switch value := value.(type) {
	case map[string]any:
		value = maps.Clone(value)
		child, there := value[token]
		switch {
		case !there && (!last || op != add):
			return nil, fmt.Errorf("there is no %q", token)
		case last && op == remove:
			delete(value, token)
			return value, nil
		}
		child, err := changed(child, op, tokens[1:], operand)
		value[token] = child
		return value, err
	case []any:
		i, err := strconv.Atoi(token)
		if err != nil || i < 0 || i >= len(value) || last && op != replace {
			return nil, fmt.Errorf("no element %q, or another number of elements", token)
		}
		value = slices.Clone(value)
		value[i], err = changed(value[i], op, tokens[1:], operand)
		return value, err
	}
	return nil, errors.New("neither an object nor a list")
}

func TestDifference(t *testing.T) {
	for name, test := range map[string]struct{ raw, from, to, want, result string }{
		"nothing": {`{}`, `{}`, `{}`, `null`, `{}`},
		"what does not change is left as it was written": {`{"a":1.0,"b":null}`, `{"a":1,"c":0}`, `{"a":1,"c":0}`, `null`, `{"a":1.0,"b":null}`},
		"a field is added": {`{"b":1}`, `{"b":1}`, `{"a":2,"b":1}`,
			`[{"op":"add","path":"/a","value":2}]`, `{"a":2,"b":1}`},
		"a field that the type has anyway is added": {`{}`, `{"a":""}`, `{"a":"x"}`,
			`[{"op":"add","path":"/a","value":"x"}]`, `{"a":"x"}`},
		"a field is added with its parents": {`{}`, `{"a":{"b":{}}}`, `{"a":{"b":{"c":1}}}`,
			`[{"op":"add","path":"/a","value":{"b":{"c":1}}}]`, `{"a":{"b":{"c":1}}}`},
		"a field is replaced, and what is beside it is left": {`{"a":1,"x":{"y":[null]}}`, `{"a":1}`, `{"a":2}`,
			`[{"op":"replace","path":"/a","value":2}]`, `{"a":2,"x":{"y":[null]}}`},
		"false, 0 and nothing are values": {
			`{"a":true,"b":1,"c":"x","d":[1],"e":1}`, `{"a":true,"b":1,"c":"x","d":[1],"e":1}`, `{"a":false,"b":0,"c":"","d":[],"e":{}}`,
			`[{"op":"replace","path":"/a","value":false},{"op":"replace","path":"/b","value":0},{"op":"replace","path":"/c","value":""},` +
				`{"op":"replace","path":"/d","value":[]},{"op":"replace","path":"/e","value":{}}]`, `{"a":false,"b":0,"c":"","d":[],"e":{}}`,
		},
		"null is replaced": {`{"a":null}`, `{}`, `{"a":1}`,
			`[{"op":"replace","path":"/a","value":1}]`, `{"a":1}`},
		"a parent that is null is replaced": {`{"a":null}`, `{"a":{}}`, `{"a":{"b":1}}`,
			`[{"op":"replace","path":"/a","value":{"b":1}}]`, `{"a":{"b":1}}`},
		"a field is removed":                  {`{"a":1,"x":2}`, `{"a":1}`, `{}`, `[{"op":"remove","path":"/a"}]`, `{"x":2}`},
		"a field that was not there stays so": {`{"x":2}`, `{"a":0}`, `{}`, `null`, `{"x":2}`},
		"a key is escaped": {
			`{"a/b~c":{"x":1}}`, `{"a/b~c":{}}`, `{"a/b~c":{"~1":1}}`, `[{"op":"add","path":"/a~1b~0c/~01","value":1}]`, `{"a/b~c":{"x":1,"~1":1}}`,
		},
		"a key may be empty": {`{"":{"x":1}}`, `{"":{}}`, `{"":{"":1}}`, `[{"op":"add","path":"//","value":1}]`, `{"":{"x":1,"":1}}`},
		"keys come in order": {
			`{}`, `{}`, `{"b":1,"a":1,"c":1}`,
			`[{"op":"add","path":"/a","value":1},{"op":"add","path":"/b","value":1},{"op":"add","path":"/c","value":1}]`, `{"a":1,"b":1,"c":1}`,
		},
		"an element of a list, and not the others": {`{"a":[{"x":1},{"b":0,"x":2}]}`, `{"a":[{},{"b":0}]}`, `{"a":[{},{"b":1}]}`,
			`[{"op":"replace","path":"/a/1/b","value":1}]`, `{"a":[{"x":1},{"b":1,"x":2}]}`},
		"a list of lists":     {`[[1,2],[3]]`, `[[1,2],[3]]`, `[[1,4],[3]]`, `[{"op":"replace","path":"/0/1","value":4}]`, `[[1,4],[3]]`},
		"a list that grew":    {`{"a":[1]}`, `{"a":[1]}`, `{"a":[1,2]}`, `[{"op":"replace","path":"/a","value":[1,2]}]`, `{"a":[1,2]}`},
		"a list that shrank":  {`{"a":[1,2]}`, `{"a":[1,2]}`, `{"a":[2]}`, `[{"op":"replace","path":"/a","value":[2]}]`, `{"a":[2]}`},
		"a list that is null": {`{"a":null}`, `{}`, `{"a":[1]}`, `[{"op":"replace","path":"/a","value":[1]}]`, `{"a":[1]}`},
	} {
		t.Run(name, func(t *testing.T) {
			raw := parse(t, test.raw)
			operations := appendDifference(nil, "", []byte(test.raw), []byte(test.from), []byte(test.to))
			patch := print(t, operations)
			if patch != test.want {
				t.Errorf("got %s, want %s", patch, test.want)
			}
			result, err := apply(raw, []byte(patch))
			if err != nil {
				t.Fatal(err)
			}
			if want := parse(t, test.result); !reflect.DeepEqual(result, want) {
				t.Errorf("it makes %v of it, want %v", result, want)
			}
		})
	}
}

func TestOperationsWarn(t *testing.T) {
	for name, test := range map[string]struct {
		operation operation
		want      string
	}{
		"a number that is replaced": {operation{Op: replace, Path: "/spec/size", Value: int64(6), was: int64(3)}, "spec.size: 3 is stored as 6"},
		"text that is replaced is in the warning": {
			operation{Op: replace, Path: "/spec/image", Value: "redis:7", was: ""}, `spec.image: "" is stored as "redis:7"`,
		},
		"a number that was left out since it was 0": {
			operation{Op: add, Path: "/spec/replicas", Value: int32(6), was: int64(0)}, "spec.replicas: 0 is stored as 6",
		},
		"what was not there needs none":             {operation{Op: add, Path: "/spec/size", Value: int64(6)}, ""},
		"what was null needs none":                  {operation{Op: replace, Path: "/spec/size", Value: int64(6)}, ""},
		"what is removed needs none":                {operation{Op: remove, Path: "/spec/size"}, ""},
		"an object in the place of a value is long": {operation{Op: replace, Path: "/spec", Value: stdjson.RawMessage(`{}`), was: "x"}, ""},
		"a list in the place of another one is long": {
			operation{Op: replace, Path: "/spec/env", Value: stdjson.RawMessage(`[]`), was: stdjson.RawMessage(`[1]`)}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.operation.warning(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// defaulted checks what becomes of an object that a client sent. It returns the paths
// that a patch changed, and false if the object cannot be read.
func defaulted[T any, P object[T]](t *testing.T, raw []byte) ([]string, bool) {
	t.Helper()
	mutate := func(raw []byte) []operation {
		operations, err := typed[T, P]{}.mutate(context.Background(), &admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: raw}})
		if err != nil {
			t.Fatalf("%v for %s", err, raw)
		}
		return operations
	}
	decode := func(raw []byte) (P, error) {
		obj, plain := P(new(T)), P(new(T))
		err := decode(raw, obj)
		if errors.Is(err, errNumber) {
			return nil, err // It may take hours to read.
		}
		switch plainErr := json.Unmarshal(raw, plain); {
		case (err == nil) != (plainErr == nil):
			t.Errorf("decoded with error %v, and plainly with %v: %s", err, plainErr, raw)
		case err == nil && !equality.Semantic.DeepEqual(obj, plain):
			t.Errorf("decoded as %s, and plainly as %s: %s", print(t, obj), print(t, plain), raw)
		}
		return obj, err
	}
	operations := mutate(raw)
	before, err := decode(raw)
	if err != nil {
		if len(operations) > 0 {
			t.Errorf("a patch for what cannot be read, %s: %+v", raw, operations)
		}
		return nil, false
	}
	after := P(before.DeepCopy())
	after.Default()
	if len(operations) == 0 && !equality.Semantic.DeepEqual(before, after) {
		t.Errorf("no patch for %s, which has other defaults", raw)
	}
	patch := print(t, operations)
	given := parse(t, string(raw))
	result, err := apply(given, []byte(patch))
	if err != nil {
		t.Fatalf("%v, of %s for %s", err, patch, raw)
	}
	patched := []byte(print(t, result))
	got, err := decode(patched)
	if err != nil {
		t.Fatalf("%s makes of %s what cannot be read: %v", patch, raw, err)
	}
	if !equality.Semantic.DeepEqual(got, after) {
		t.Errorf("%s makes %s of %s, want %s", patch, patched, raw, print(t, after))
	}
	if more := mutate(patched); len(more) > 0 {
		t.Errorf("%s makes of %s what needs a patch again: %+v", patch, raw, more)
	}
	paths := make([]string, 0, len(operations))
	for _, o := range operations {
		paths = append(paths, o.Path)
	}
	kept(t, "", given, result, paths)
	return paths, true
}

// kept checks that all given values are still there, except those that a patch replaced.
func kept(t *testing.T, path string, given, result any, replaced []string) {
	t.Helper()
	switch was := given.(type) {
	case map[string]any:
		if result, ok := result.(map[string]any); ok {
			for key, value := range was {
				child, there := result[key]
				if !there {
					t.Errorf("%s/%s is gone", path, escape(key))
				}
				kept(t, path+"/"+escape(key), value, child, replaced)
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
	t.Errorf("%s was %v and is %v", path, given, result)
}

// reviewed are the kinds, and what checks an object of theirs. Of what is replaced, paths
// without the numbers in them, a hundred objects must have had all.
var reviewed = map[string]struct {
	object   any
	check    func(*testing.T, []byte) ([]string, bool)
	replaced []string
}{
	"ApiExampleA": {groupav1.ApiExampleA{}, defaulted[groupav1.ApiExampleA], nil},
	"Application": {appv1.Application{}, defaulted[appv1.Application], []string{
		"/spec", "/spec/autoscaling/minReplicas", "/spec/env/N/valueFrom/fileKeyRef/optional", "/spec/ingress", "/spec/ingress/className",
		"/spec/ingress/enabled", "/spec/ingress/host", "/spec/ingress/path", "/spec/port", "/spec/probes/liveness/grpc/service",
		"/spec/probes/readiness/grpc/service", "/spec/probes/startup/grpc/service", "/spec/replicas", "/spec/service", "/spec/service/enabled",
		"/spec/service/type"}},
	"ECSInstance": {ecsv1alpha1.ECSInstance{}, defaulted[ecsv1alpha1.ECSInstance], []string{
		"/spec", "/spec/deletionPolicy", "/spec/instanceChargeType", "/spec/instanceTypeChangePolicy", "/spec/powerState", "/spec/recreatePolicy",
		"/spec/userDataSecretRef/key"}},
	"MyCronJob": {mcjv1.MyCronJob{}, defaulted[mcjv1.MyCronJob], []string{
		"/spec", "/spec/concurrencyPolicy", "/spec/failedJobsHistoryLimit", "/spec/missedRunPolicy", "/spec/successfulJobsHistoryLimit",
		"/spec/suspend"}},
	"RedisCluster": {redisv1.RedisCluster{}, defaulted[redisv1.RedisCluster], []string{
		"/spec", "/spec/authSecretRef/key", "/spec/image",
		"/spec/podTemplate/containers/N/ports/N", "/spec/podTemplate/containers/N/ports/N/protocol",
		"/spec/podTemplate/initContainers/N/ports/N", "/spec/podTemplate/initContainers/N/ports/N/protocol",
		"/spec/replicasPerMaster", "/spec/size", "/spec/tls/mode", "/spec/tls/port",
		"/spec/users/N", "/spec/users/N/keepOldPasswordSeconds", "/spec/users/N/passwordSecretRef/key"}},
}

var number = regexp.MustCompile(`/[0-9]+(/|$)`)

func TestDefaultsOfRandomObjects(t *testing.T) {
	if len(reviewed) != len(kinds) {
		t.Errorf("%d kinds, and not %d", len(reviewed), len(kinds))
	}
	for name, kind := range reviewed {
		t.Run(name, func(t *testing.T) {
			paths := map[string]bool{}
			read := 0
			const objects = 800
			for seed := range uint64(objects) {
				g := generator{Rand: rand.New(rand.NewPCG(seed, 1))}
				if seed%10 == 0 {
					g.wrong = 0.01
				}
				raw := print(t, g.value(reflect.TypeOf(kind.object), 0))
				replaced, ok := kind.check(t, []byte(raw))
				if t.Failed() {
					t.Fatalf("with seed %d", seed)
				}
				if ok {
					read++
				}
				for _, path := range replaced {
					paths[number.ReplaceAllString(path, "/N$1")] = true
				}
			}
			if read < objects*3/4 || read == objects {
				t.Errorf("%d of %d objects could be read", read, objects)
			}
			if got := slices.Sorted(maps.Keys(paths)); !slices.Equal(got, kind.replaced) {
				t.Errorf("patches are of %q, want %q", got, kind.replaced)
			}
		})
	}
}

// FuzzDefaults takes objects of all kinds, as an API server writes them.
func FuzzDefaults(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"spec":null}`,
		`{"spec":{"size":3,"Size":4,"image":"","authSecretRef":{"key":null,"a/b":{"~":1}}},"x":[{}]}`,
		`{"spec":{"env":[{"name":"a","valueFrom":{"fileKeyRef":{"key":"k","x":1}}},null],` +
			`"probes":{"liveness":{"grpc":{"port":1}},"startup":{"grpc":null}}}}`,
		`{"metadata":{"labels":{"a/b":"~"}},"spec":{"service":null,"ingress":{"tls":{}},"autoscaling":{}}}`,
		`{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"resources":{"limits":{"cpu":"1e3"}}}]}}}},"suspend":null}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var given map[string]any
		if json.Unmarshal(raw, &given) != nil {
			return
		}
		raw, err := json.Marshal(given)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range reviewed {
			kind.check(t, raw)
		}
	})
}

// generator makes random JSON for a type: with fields left out, fields that the type does
// not have, nulls, and values of another type.
type generator struct {
	*rand.Rand
	wrong float64 // how many values are of another type
}

func (g generator) chance(p float64) bool { return g.Float64() < p }

func pick[T any](g generator, values ...T) T { return values[g.IntN(len(values))] }

// Keys that no field has: also fields in another case, and what a JSON Pointer escapes.
var strange = []string{"x-unknown", "un/known", "un~known", "~1", "~0/", "", "Spec", "SIZE", "Env", "0", "-"}

// value returns a value of a type, at a depth.
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

// fields sets some of the fields of a struct: most near the root, and fewer below.
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

// anything returns any JSON.
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
