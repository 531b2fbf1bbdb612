// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	batchv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/must"
)

const examples = "../examples"

// read returns the examples that match a pattern, by the name of the file.
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

// parse decodes a manifest without a schema.
func parse(t *testing.T, manifest []byte) map[string]any {
	t.Helper()
	obj := map[string]any{}
	must.Succeed(t, yaml.UnmarshalStrict(manifest, &obj))
	return obj
}

// warnings holds the expected warnings of the examples that have some.
var warnings = map[string][]string{
	"application.yaml": {"spec.ingress.host: all Applications without one share example.foo.com"},
	"ecsinstance.yaml": {
		"spec.vSwitchID: without a vSwitch, the operator requests the classic network, which ECS rejects for most accounts",
	},
	"rediscluster-access.yaml":   {"spec.access.external: without authSecretRef and users, clients need no password"},
	"rediscluster-exporter.yaml": {"spec.storage: without it a Pod's data is gone with the Pod"},
	"rediscluster-backup.yaml":   {"spec.storage: without it a Pod's data is gone with the Pod"},
	"rediscluster-tls.yaml":      {"spec.storage: without it a Pod's data is gone with the Pod"},
	"rediscluster-users.yaml":    {"spec.storage: without it a Pod's data is gone with the Pod"},
	"rediscluster.yaml":          {"spec.storage: without it a Pod's data is gone with the Pod"},
}

func TestTheSchemaAcceptsTheExamples(t *testing.T) {
	servers := servers(t)
	seen := map[string]string{}
	files := read(t, "*.yaml")
	// The example for cert-manager is not among the others: its Secret does not exist without cert-manager.
	for name, manifest := range read(t, "cert-manager/*.yaml") {
		files[name], _, _ = bytes.Cut(manifest, []byte("---\n"))
	}
	for name := range warnings {
		if files[name] == nil {
			t.Errorf("there is no example %s", name)
		}
	}
	for name, manifest := range files {
		t.Run(name, func(t *testing.T) {
			raw := parse(t, manifest)
			kind := raw["kind"].(string)
			id := fmt.Sprint(kind, "/", (&unstructured.Unstructured{Object: raw}).GetName())
			if other := seen[id]; other != "" {
				t.Errorf("%s is also in %s", id, other)
			}
			seen[id] = name

			admitted, err := servers[kind].decode(manifest)
			must.Succeed(t, err)
			if errs := servers[kind].create(admitted); len(errs) > 0 {
				t.Errorf("create: %v", errs.ToAggregate())
			}
			if errs := servers[kind].update(admitted, admitted); len(errs) > 0 {
				t.Errorf("update: %v", errs.ToAggregate())
			}
			if missing := lost(raw, admitted, ""); missing != "" {
				t.Errorf("%s was pruned", missing)
			}
			inGo := wantSameDefaults(t, kind, raw, admitted)
			if want := warnings[name]; !slices.Equal(inGo.warnings, want) {
				t.Errorf("got the warnings %q, want %q", inGo.warnings, want)
			}
		})
	}
}

// defaultsOnlyInGo applies the defaults that Default sets and a schema cannot set, by kind: a raised number, and a default
// that depends on another field.
var defaultsOnlyInGo = map[string]func(decoded any){
	"ECSInstance": func(decoded any) {
		spec := &decoded.(*ecsv1alpha1.ECSInstance).Spec
		adopts := spec.AdoptInstanceID != ""
		if spec.PeriodUnit == "" && spec.InstanceChargeType == ecsv1alpha1.PrePaid && !adopts {
			spec.PeriodUnit = ecsv1alpha1.Month
		}
		switch {
		case spec.DeletionPolicy != "":
		case adopts:
			spec.DeletionPolicy = ecsv1alpha1.DeletionRetain
		default:
			spec.DeletionPolicy = ecsv1alpha1.DeletionDelete
		}
	},
	"RedisCluster": func(decoded any) {
		spec := &decoded.(*redisv1.RedisCluster).Spec
		spec.Size = ptr.To(max(*spec.Size, spec.LeastSize()))
	},
}

// wantSameDefaults fails the test unless Default gives raw the same defaults as the schema, which returned admitted, and
// Validate accepts the result. It returns the verdict of the Go code.
func wantSameDefaults(t *testing.T, kind string, raw, admitted map[string]any) verdict {
	t.Helper()
	inGo, err := verdicts[kind](raw, nil)
	must.Succeed(t, err)
	inSchema, err := verdicts[kind](admitted, nil)
	must.Succeed(t, err)
	if setDefaults := defaultsOnlyInGo[kind]; setDefaults != nil {
		setDefaults(inSchema.decoded)
	}
	if got, want := inSchema.decoded, inGo.defaulted; !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("the schema and Default differ: %s", diff.Diff(got, want))
	}
	if len(inGo.errs) > 0 {
		t.Errorf("Validate: %v", inGo.errs.ToAggregate())
	}
	return inGo
}

// lost returns the path of a value that from has and to does not have, or "".
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

// fill sets a field of every type that a status has, and all fields of a struct. Its values are those that the rules of the schemas take.
func fill(v reflect.Value) {
	switch field := v.Addr().Interface().(type) {
	case *metav1.Time:
		*field = metav1.Now().Rfc3339Copy()
		return
	case *metav1.Condition:
		*field = metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, LastTransitionTime: metav1.Now().Rfc3339Copy(), Reason: "Because"}
		return
	case *redisv1.Role:
		*field = redisv1.RoleMaster
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.String:
		v.SetString("a")
	case reflect.Bool:
		v.SetBool(true)
	default:
		v.SetInt(1)
	}
}

// TestTheSchemaAcceptsEveryStatusField: an update with all fields succeeds, and prunes none of them.
func TestTheSchemaAcceptsEveryStatusField(t *testing.T) {
	for kind, test := range map[string]struct {
		status any // a pointer
		valid  map[string]any
	}{
		"ApiExampleA":  {&groupav1.ApiExampleAStatus{}, apiExampleA(map[string]any{})},
		"Application":  {&appv1.ApplicationStatus{}, application(nil)},
		"ECSInstance":  {&ecsv1alpha1.ECSInstanceStatus{}, ecsInstance(nil)},
		"MyCronJob":    {&batchv1.MyCronJobStatus{}, myCronJob(nil)},
		"RedisCluster": {&redisv1.RedisClusterStatus{}, redisCluster(nil)},
	} {
		t.Run(kind, func(t *testing.T) {
			fill(reflect.ValueOf(test.status).Elem())
			server := servers(t)[kind]
			old, err := server.admit(test.valid)
			must.Succeed(t, err)
			status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(test.status)
			must.Succeed(t, err)
			test.valid["status"] = status
			admitted, err := server.admit(test.valid)
			must.Succeed(t, err)
			if errs := server.update(admitted, old); len(errs) > 0 {
				t.Error(errs.ToAggregate())
			}
			if missing := lost(test.valid, admitted, ""); missing != "" {
				t.Errorf("%s was pruned", missing)
			}
		})
	}
}

func TestTheSampleMyCronJobIsOriginal(t *testing.T) {
	const original = "cda90ae80387c2a4acfedd05128f896710ba6d861e12a6d4ecc368e1f791855c"
	if sum := fmt.Sprintf("%x", sha256.Sum256(read(t, "mycronjob.yaml")["mycronjob.yaml"])); sum != original {
		t.Errorf("mycronjob.yaml differs from the manifest of the introductory post: its sha256 is %s", sum)
	}
}

func TestTheBadExamplesFailWithTheErrorInTheirFirstLine(t *testing.T) {
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
				return // The schema does not know the field.
			}
			// The valid example of the kind, with the name of the bad one.
			valid := strings.ToLower(kind) + ".yaml"
			good, err := servers[kind].decode(read(t, valid)[valid])
			must.Succeed(t, err)
			(&unstructured.Unstructured{Object: good}).SetName((&unstructured.Unstructured{Object: bad}).GetName())

			wantOne(t, "create", servers[kind].create(bad), want)
			wantOne(t, "update", without(servers[kind].update(bad, good), storageAdded), want)
		})
	}
}

// storageAdded matches the error for storage that is added to a RedisCluster: a bad example can have storage, the valid example has none.
var storageAdded = regexp.MustCompile(`: cannot be added to a cluster`)

// wantOne fails the test unless there is one error, which contains want.
func wantOne(t *testing.T, verb string, errs field.ErrorList, want string) {
	t.Helper()
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
		t.Errorf("%s: want one error with %q, got %d: %v", verb, want, len(errs), errs.ToAggregate())
	}
}
