/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package crd_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	batchv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
)

const examples = "../examples"

// goVerdicts says by kind what Default makes of an object, and what Validate says
// to that.
var goVerdicts = map[string]func(obj map[string]any) (any, field.ErrorList, error){
	"MyCronJob": inGo[batchv1.MyCronJob],
}

// read returns the files that match a pattern below artifacts/examples.
func read(t *testing.T, pattern string) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(examples, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no examples match %s (%v)", pattern, err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		if files[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// parse decodes a manifest without the help of a schema.
func parse(t *testing.T, manifest []byte) map[string]any {
	t.Helper()
	obj := map[string]any{}
	if err := yaml.UnmarshalStrict(manifest, &obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestTheExamplesAreTakenAsTheyAre(t *testing.T) {
	servers := servers(t)
	seen := map[string]string{}
	for name, manifest := range read(t, "*.yaml") {
		t.Run(name, func(t *testing.T) {
			raw := parse(t, manifest)
			kind := raw["kind"].(string)
			id := fmt.Sprint(kind, "/", (&unstructured.Unstructured{Object: raw}).GetName())
			if other := seen[id]; other != "" {
				t.Errorf("is the same object as %s: %s", other, id)
			}
			seen[id] = name

			admitted, err := servers[kind].decode(manifest)
			if err != nil {
				t.Fatal(err)
			}
			if errs := servers[kind].create(admitted); len(errs) > 0 {
				t.Errorf("create: %v", errs.ToAggregate())
			}
			if errs := servers[kind].update(admitted, admitted); len(errs) > 0 {
				t.Errorf("update: %v", errs.ToAggregate())
			}
			if missing := lost(raw, admitted, ""); missing != "" {
				t.Errorf("%s was pruned", missing)
			}
			defaulted := wantSameDefaults(t, kind, raw, admitted)
			if _, errs, _ := goVerdicts[kind](defaulted); len(errs) > 0 {
				t.Errorf("Validate: %v", errs.ToAggregate())
			}
		})
	}
}

// wantSameDefaults fails the test unless Default makes of raw what the schema made
// of it. It returns what the schema made.
func wantSameDefaults(t *testing.T, kind string, raw, admitted map[string]any) map[string]any {
	t.Helper()
	raw = runtime.DeepCopyJSON(roundTrip(raw))
	delete(raw, "metadata") // the API server fills it in besides
	bare := maps.Clone(admitted)
	delete(bare, "metadata")
	want, _, err := goVerdicts[kind](raw)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	wanted := map[string]any{}
	if err := convert(want, &wanted); err != nil {
		t.Fatal(err)
	}
	// Through the Go type, so that what it always writes is in both.
	typed, _, err := goVerdicts[kind](bare)
	if err != nil {
		t.Fatal(err)
	}
	if err := convert(typed, &got); err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(got, wanted) {
		t.Errorf("the schema makes of it\n%s\nbut Default makes of it\n%s", compact(got), compact(wanted))
	}
	return admitted
}

func roundTrip(obj map[string]any) map[string]any {
	copied := map[string]any{}
	if err := convert(obj, &copied); err != nil {
		panic(err)
	}
	return copied
}

func compact(v any) string {
	data, _ := json.Marshal(v)
	return string(data)
}

// lost returns the path of something in from that is not in to.
func lost(from, to any, path string) string {
	switch from := from.(type) {
	case map[string]any:
		to, _ := to.(map[string]any)
		for key, value := range from {
			if missing := lost(value, to[key], path+"."+key); missing != "" {
				return missing
			}
		}
	case []any:
		to, _ := to.([]any)
		if len(to) != len(from) {
			return path
		}
		for i := range from {
			if missing := lost(from[i], to[i], fmt.Sprintf("%s[%d]", path, i)); missing != "" {
				return missing
			}
		}
	default:
		if fmt.Sprint(from) != fmt.Sprint(to) {
			return path
		}
	}
	return ""
}

func TestTheSeedIsVerbatim(t *testing.T) {
	const seed = "cda90ae80387c2a4acfedd05128f896710ba6d861e12a6d4ecc368e1f791855c"
	if sum := fmt.Sprintf("%x", sha256.Sum256(read(t, "mycronjob.yaml")["mycronjob.yaml"])); sum != seed {
		t.Errorf("mycronjob.yaml is not the seed's manifest any more: sha256 is %s", sum)
	}
}

func TestTheBadExamplesAreRefusedForWhatTheySay(t *testing.T) {
	servers := servers(t)
	for name, manifest := range read(t, "bad/*.yaml") {
		t.Run(name, func(t *testing.T) {
			first, _, _ := strings.Cut(string(manifest), "\n")
			want, ok := strings.CutPrefix(first, "# want: ")
			if !ok || want == "" {
				t.Fatal("the first line must be: # want: <what the message must contain>")
			}
			raw := parse(t, manifest)
			kind := raw["kind"].(string)
			bad, err := servers[kind].decode(manifest)
			if err != nil {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("decode: got %v, want %s", err, want)
				}
				return // A field that the Go type does not know: Validate never sees it.
			}
			// The same object as it should be, but for its name.
			good, err := servers[kind].decode(read(t, strings.ToLower(kind)+".yaml")[strings.ToLower(kind)+".yaml"])
			if err != nil {
				t.Fatal(err)
			}
			(&unstructured.Unstructured{Object: good}).SetName((&unstructured.Unstructured{Object: bad}).GetName())

			created := wantOne(t, "create", servers[kind].create(bad), want)
			wantOne(t, "update", servers[kind].update(bad, good), want)
			_, errs, err := goVerdicts[kind](raw)
			if err != nil {
				t.Fatal(err)
			}
			// Validate knows metadata's fields, the schema does not.
			if inGo := wantOne(t, "Validate", errs, ""); created != nil && inGo != nil && !strings.HasPrefix(inGo.Field, created.Field) {
				t.Errorf("the schema blames %s, but Validate %s", created.Field, inGo.Field)
			}
		})
	}
}

// wantOne fails the test unless there is one error, which contains want.
func wantOne(t *testing.T, verb string, errs field.ErrorList, want string) *field.Error {
	t.Helper()
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
		t.Errorf("%s: want one error with %q, got %d: %v", verb, want, len(errs), errs.ToAggregate())
		return nil
	}
	return errs[0]
}
