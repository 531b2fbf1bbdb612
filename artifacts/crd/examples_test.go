// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
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
	"github.com/glassback/glassback/pkg/apis/glassback"
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

// warnings holds the expected warnings of every example.
var warnings = map[string][]string{
	"apiexamplea-jimmy.yaml":      nil,
	"apiexamplea.yaml":            nil,
	"application-autoscaled.yaml": nil,
	"application-nodeport.yaml":   nil,
	"application-tls.yaml":        nil,
	"application-worker.yaml":     nil,
	"application.yaml":            nil,
	"ecsinstance-full.yaml":       nil,
	"ecsinstance-stopped.yaml":    nil,
	"ecsinstance.yaml": {
		"spec.vSwitchID: without a vSwitch, the operator requests the classic network, which ECS rejects for most accounts",
	},
	"mycronjob-forbid.yaml":      nil,
	"mycronjob-jitter.yaml":      nil,
	"mycronjob-labels.yaml":      nil,
	"mycronjob-schedule.yaml":    nil,
	"mycronjob.yaml":             nil,
	"rediscluster-access.yaml":   {"spec.access.external: without authSecretRef and users, clients need no password"},
	"rediscluster-exporter.yaml": {"spec.storage: without it a Pod's data is gone with the Pod"},
	"rediscluster-storage.yaml":  nil,
	"rediscluster-backup.yaml":   {"spec.storage: without it a Pod's data is gone with the Pod"},
	"rediscluster-users.yaml":    {"spec.storage: without it a Pod's data is gone with the Pod"},
	"rediscluster.yaml":          {"spec.storage: without it a Pod's data is gone with the Pod"},
}

func TestTheSchemaAcceptsTheExamples(t *testing.T) {
	servers := servers(t)
	seen := map[string]string{}
	files := read(t, "*.yaml")
	if got, want := slices.Sorted(maps.Keys(files)), slices.Sorted(maps.Keys(warnings)); !slices.Equal(got, want) {
		t.Errorf("got the examples %v, want %v", got, want)
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

// The example for cert-manager is not among the others: its Secret does not exist without cert-manager.
func TestTheSchemaAcceptsTheExampleWithTLS(t *testing.T) {
	first, _, _ := bytes.Cut(read(t, "cert-manager/*.yaml")["rediscluster-tls.yaml"], []byte("---\n"))
	server := servers(t)["RedisCluster"]
	admitted, err := server.decode(first)
	must.Succeed(t, err)
	if errs := server.create(admitted); len(errs) > 0 {
		t.Errorf("create: %v", errs.ToAggregate())
	}
	wantSameDefaults(t, "RedisCluster", parse(t, first), admitted)
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

// TestTheSchemaAcceptsEveryStatusField: an update with all fields succeeds, and prunes none of them.
func TestTheSchemaAcceptsEveryStatusField(t *testing.T) {
	now := metav1.Now().Rfc3339Copy()
	conditions := func(types ...string) (all []metav1.Condition) {
		for _, kind := range append(types, glassback.ConditionReady, glassback.ConditionProgressing, glassback.ConditionDegraded) {
			all = append(all, metav1.Condition{
				Type: kind, Status: metav1.ConditionTrue, ObservedGeneration: 2, LastTransitionTime: now, Reason: "Because", Message: "It is."})
		}
		return all
	}
	for kind, test := range map[string]struct {
		status any // a pointer
		valid  map[string]any
	}{
		"ApiExampleA": {&groupav1.ApiExampleAStatus{
			ObservedGeneration: 2, Conditions: conditions(), Status: groupav1.StateRunning, Greeting: "Greetings to bar",
		}, apiExampleA(nil)},
		"Application": {&appv1.ApplicationStatus{
			ObservedGeneration: 2, Conditions: conditions(appv1.ConditionAvailable, appv1.ConditionConflict),
			Replicas: 4, UpdatedReplicas: 3, ReadyReplicas: 2, AvailableReplicas: 1, Selector: "app=a", URL: "http://example.foo.com/",
			Resources: []appv1.ResourceReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "sample"}},
		}, application(nil)},
		"ECSInstance": {&ecsv1alpha1.ECSInstanceStatus{
			ObservedGeneration: 2, Conditions: conditions(ecsv1alpha1.ConditionStalled),
			Create: &ecsv1alpha1.Create{
				Attempt: 2, Token: "3c9a4c0e-5f0e-4f6f-8a58-1d2b7a0f9d11-2", RegionID: "cn-beijing", Parameters: "07c37df", RequestedTime: now},
			AccountID: "1234567890123456", InstanceID: "i-2zeh8k2m5q1d4w7p9x3c", Adopted: true, State: "Running",
			InstanceType: "ecs.g6.large", RefusedInstanceType: "ecs.g7.large",
			ZoneID: "cn-beijing-h", IP: "39.96.0.1", PrivateIPs: []string{"172.16.0.1"}, PublicIPs: []string{"39.96.0.1"}, CreationTime: &now,
			TagKeys: []string{"team"},
		}, ecsInstance(nil)},
		"MyCronJob": {&batchv1.MyCronJobStatus{
			ObservedGeneration: 2, Conditions: conditions(), Schedule: "every 5s", Active: 1, MissedTotal: 3, SkewMillis: ptr.To[int64](7),
			Suspended: true, LastRunNow: "once", LastRunNowNumber: 1, LastScheduleTime: &now, LastSuccessfulTime: &now,
			NextScheduleTime: &now, AccountedTime: &now,
		}, myCronJob(nil)},
		"RedisCluster": {&redisv1.RedisClusterStatus{
			ObservedGeneration: 2, Conditions: conditions(redisv1.ConditionClusterFormed, redisv1.ConditionSlotsCovered, redisv1.ConditionDataLoss,
				redisv1.ConditionBackedUp),
			Size: 6, Masters: 3, SlotsAssigned: 16384, Selector: "app=a", Endpoint: "192.168.1.10:6379",
			Shards: []redisv1.Shard{{Master: "sample-0", Slots: "0-5460,6000", Replicas: []string{"sample-3"}}, {Master: "sample-1"}},
			Nodes: []redisv1.Node{{Pod: "sample-0", ID: "07c37df", IP: "10.0.0.1", Role: redisv1.RoleMaster},
				{Pod: "sample-3", Role: redisv1.RoleReplica, Master: "sample-0", Link: "up"}, {Pod: "sample-4"}},
			TLS: &redisv1.TLSStatus{
				Clients: redisv1.ProtocolBoth, Nodes: redisv1.ProtocolTLS, Fingerprint: strings.Repeat("a", 64), NotAfter: &now},
			Backup: &redisv1.BackupStatus{
				Schedule: "@daily", ScheduledSince: &now, LastScheduleTime: &now, LastBackupNow: "1",
				Running: "20260301T000000Z", LastSuccessfulTime: &now,
				Last:        &redisv1.BackupResult{ID: "20260228T000000Z", Keys: 30, Bytes: 900, Warning: "no right to delete"},
				LastFailure: &redisv1.BackupFailure{ID: "20260227T000000Z", Time: &now, Message: "no disk"},
			},
			Restore: &redisv1.RestoreStatus{
				StartedAt: &now, ID: "20260228T000000Z", Keys: 30, Skipped: 1, Expired: 2, Warning: "a library was kept", CompletedAt: &now},
			Operation: &redisv1.Operation{Type: "ScaleOut", Step: "1365 of 4096 slots moved", StartedAt: &now},
		}, redisCluster(nil)},
	} {
		t.Run(kind, func(t *testing.T) {
			for field, value := range reflect.ValueOf(test.status).Elem().Fields() {
				if value.IsZero() {
					t.Errorf("status.%s is not in this test", field.Name)
				}
			}
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
				return // A field that the Go type does not know: Validate never sees it.
			}
			// The valid example of the kind, with the name of the bad one.
			valid := strings.ToLower(kind) + ".yaml"
			good, err := servers[kind].decode(read(t, valid)[valid])
			must.Succeed(t, err)
			(&unstructured.Unstructured{Object: good}).SetName((&unstructured.Unstructured{Object: bad}).GetName())

			created := wantOne(t, "create", servers[kind].create(bad), want)
			wantOne(t, "update", without(servers[kind].update(bad, good), storageAdded), want)
			verdict, err := verdicts[kind](raw, nil)
			must.Succeed(t, err)
			if inGo := wantOne(t, "Validate", verdict.errs, ""); created != nil && inGo != nil && !within(inGo.Field, created.Field) {
				t.Errorf("the schema rejects %s, but Validate rejects %s", created.Field, inGo.Field)
			}
		})
	}
}

// storageAdded matches the error for storage that is added to a RedisCluster: a bad example can have storage, the valid example has none.
var storageAdded = regexp.MustCompile(`: cannot be added to a cluster`)

// wantOne fails the test unless there is one error, which contains want.
func wantOne(t *testing.T, verb string, errs field.ErrorList, want string) *field.Error {
	t.Helper()
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
		t.Errorf("%s: want one error with %q, got %d: %v", verb, want, len(errs), errs.ToAggregate())
		return nil
	}
	return errs[0]
}
