// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/glassback/glassback/pkg/must"
)

// onlyInGo matches the errors of Validate for which the schema has no rule: addr is required, and a schedule has a next time.
var onlyInGo = regexp.MustCompile(`^spec\.(backup\.)?schedule: .*: never comes: |^spec\.addr: Invalid value: "": `)

// accepts returns whether the schema accepts obj in the place of old, nil for a new object. It fails the test if the Go code rejects an
// object that the schema accepts, cannot decode it, or gives it other defaults.
func (s *server) accepts(t *testing.T, obj, old map[string]any) bool {
	t.Helper()
	admitted, errs := s.judge(t, obj, old)
	if len(errs) > 0 {
		return false
	}
	kind := obj["kind"].(string)
	inGo, err := verdicts[kind](obj, old)
	if err != nil {
		t.Errorf("the schema accepts an object that Go cannot decode: %v\n%v", err, obj)
		return true
	}
	switch more := without(inGo.errs, onlyInGo); {
	case len(more) > 0:
		t.Errorf("the schema accepts an object with the errors %v\n%v", more.ToAggregate(), obj)
	case len(inGo.errs) == 0:
		wantSameDefaults(t, kind, obj, admitted)
	}
	return true
}

// acceptsOnly tries many values of one field. The schema must accept those that are true.
func acceptsOnly[T comparable](t *testing.T, kind, field string, accepted map[T]bool, with func(value T) map[string]any) {
	t.Helper()
	t.Run(field, func(t *testing.T) {
		for value, want := range accepted {
			if got := servers(t)[kind].accepts(t, with(value), nil); got != want {
				t.Errorf("%#v: accepted: %t, want %t", value, got, want)
			}
		}
	})
}

// judge returns obj with defaults, and what the API server has against it in the place of
// old, nil for a new one.
func (s *server) judge(t *testing.T, obj, old map[string]any) (map[string]any, field.ErrorList) {
	t.Helper()
	admitted, err := s.admit(obj)
	must.Succeed(t, err)
	if old == nil {
		return admitted, s.create(admitted)
	}
	admittedOld, err := s.admit(old)
	must.Succeed(t, err)
	return admitted, s.update(admitted, admittedOld)
}

func without(errs field.ErrorList, pattern *regexp.Regexp) field.ErrorList {
	return slices.DeleteFunc(slices.Clone(errs), func(err *field.Error) bool { return pattern.MatchString(err.Error()) })
}

// TestNoRequestIsMoreThanItsLimit compares quantities in all of their forms.
func TestNoRequestIsMoreThanItsLimit(t *testing.T) {
	ascending := []any{
		"-1", int64(0), "1n", "100m", ".5", int64(1), "2.", "1e1", "1k", "1Ki", "+64Mi", "1Gi", int64(1<<30 + 1), "1Ei", "1e99",
	}
	for kind, with := range map[string]func(map[string]any) map[string]any{"Application": application, "RedisCluster": redisCluster} {
		for _, resource := range []string{"cpu", "memory", "nvidia.com/gpu"} {
			for i, request := range ascending {
				for j, limit := range ascending {
					obj := with(map[string]any{"resources": map[string]any{
						"requests": map[string]any{resource: request}, "limits": map[string]any{resource: limit, "hugepages-2Mi": int64(0)}}})
					if got, want := servers(t)[kind].accepts(t, obj, nil), i <= j || resource == "nvidia.com/gpu"; got != want {
						t.Errorf("%s: %s: a request of %v with a limit of %v: accepted: %t, want %t", kind, resource, request, limit, got, want)
					}
				}
			}
		}
	}
}

// A client of a Deployment can write "cpu: 0.5". In a custom resource, a quantity is a text or an integer.
func TestANumberWithAFractionHasOneError(t *testing.T) {
	for kind, obj := range map[string]map[string]any{
		"Application":  application(map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": 0.5}}}),
		"RedisCluster": redisCluster(map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": 0.5}}}),
		"MyCronJob": myCronJob(map[string]any{"jobTemplate": map[string]any{"spec": map[string]any{"template": map[string]any{
			"spec": map[string]any{"restartPolicy": "Never", "containers": []any{map[string]any{
				"name": "a", "image": "b", "resources": map[string]any{"requests": map[string]any{"cpu": 0.5}},
			}}},
		}}}}),
	} {
		_, errs := servers(t)[kind].judge(t, obj, nil)
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), `requests.cpu in body must be of type integer,string: "number"`) {
			t.Errorf("%s: got %v", kind, errs)
		}
	}
}

// Clients cannot parse 1e1.5, or a port of more than 32 bits, and parse 1e-99999999 for minutes. One object with such a value
// would stop the informers of all objects of its kind. It must not stop the API server either: a rule compares quantities.
func TestTheSchemaRejectsNumbersThatClientsCannotParse(t *testing.T) {
	try := func(value any, accepted bool, obj map[string]any) {
		t.Helper()
		if _, errs := servers(t)[obj["kind"].(string)].judge(t, obj, nil); (len(errs) == 0) != accepted {
			t.Errorf("%.50q in %s: accepted: %t, want %t: %v", value, obj["kind"], len(errs) == 0, accepted, errs)
		}
	}
	inContainer := func(field string, value any) map[string]any {
		obj := myCronJob(nil)
		containers, _, err := unstructured.NestedSlice(obj, "spec", "jobTemplate", "spec", "template", "spec", "containers")
		must.Succeed(t, err)
		containers[0].(map[string]any)[field] = value
		must.Succeed(t, unstructured.SetNestedSlice(obj, containers, "spec", "jobTemplate", "spec", "template", "spec", "containers"))
		return obj
	}
	for quantity, accepted := range map[string]bool{
		"1e1.5": false, "1e-99999999": false, "1e+99999999": false, "1E99999999999": false, "1e-009": false, "64MB": false, "": false,
		"1e3": true, "250m": true, "1.5Gi": true, "1e-9": true, "1E+99": true, strings.Repeat("9", 1000): true,
	} {
		for _, resource := range []string{"cpu", "memory", "nvidia.com/gpu"} {
			quantities := map[string]any{resource: quantity}
			resources := map[string]any{"limits": quantities, "requests": quantities}
			try(quantity, accepted, application(map[string]any{"resources": resources}))
			try(quantity, accepted, redisCluster(map[string]any{"resources": resources}))
			try(quantity, accepted, inContainer("resources", resources))
		}
		try(quantity, accepted, application(map[string]any{"env": []any{map[string]any{"name": "A", "valueFrom": map[string]any{
			"resourceFieldRef": map[string]any{"resource": "limits.cpu", "divisor": quantity}}}}}))
	}
	for port, accepted := range map[any]bool{
		int64(1<<31 - 1): true, int64(1 << 31): false, int64(-1 << 31): true, int64(-1<<31 - 1): false, "80": true,
	} {
		for _, handler := range []string{"httpGet", "tcpSocket"} {
			probe := map[string]any{handler: map[string]any{"port": port}}
			for _, name := range []string{"liveness", "readiness", "startup"} {
				try(port, accepted, application(map[string]any{"probes": map[string]any{name: probe}}))
			}
			try(port, accepted, inContainer("livenessProbe", probe))
		}
	}
}

// TestPodTemplates: a podTemplate sets nothing of the operator, nothing that the operator may set later, and has no endless lists.
func TestPodTemplates(t *testing.T) {
	for kind, test := range map[string]struct {
		with     func(map[string]any) map[string]any
		most     map[string]int
		reserved map[string][]string
	}{
		"Application": {
			with: application,
			most: map[string]int{"containers": 16, "initContainers": 16, "volumes": 32, "imagePullSecrets": 16},
			reserved: map[string][]string{
				"labels":      {"app.kubernetes.io/name", "app.aiops.org/application"},
				"annotations": {"app.aiops.org/later"},
				"containers":  {"app"}, "initContainers": {"app"}, "imagePullSecrets": {""},
			},
		},
		"RedisCluster": {
			with: redisCluster,
			most: map[string]int{"containers": 16, "initContainers": 16, "volumes": 32, "imagePullSecrets": 16, "env": 100},
			reserved: map[string][]string{
				"labels":      {"app", "bytewang123-redis.wzj.kubebuilder.io/rediscluster"},
				"annotations": {"bytewang123-redis.wzj.kubebuilder.io/later"},
				"containers":  {"redis"}, "initContainers": {"redis"}, "volumes": {"data", "glassback-tls"},
				"env": {"POD_IP", "GLASSBACK_LATER"}, "imagePullSecrets": {""},
			},
		},
	} {
		try := func(field string, value any, want bool) {
			t.Helper()
			if got := servers(t)[kind].accepts(t, test.with(map[string]any{"podTemplate": map[string]any{field: value}}), nil); got != want {
				t.Errorf("%s with %s %v: accepted: %t, want %t", kind, field, value, got, want)
			}
		}
		for field, names := range test.reserved {
			for _, name := range names {
				if field == "labels" || field == "annotations" {
					try(field, map[string]any{name: "1"}, false)
				} else {
					try(field, []any{map[string]any{"name": name}}, false)
				}
			}
		}
		for field, most := range test.most {
			for _, n := range []int{most, most + 1} {
				var list []any
				for i := range n {
					list = append(list, map[string]any{"name": fmt.Sprint("n", i)})
				}
				try(field, list, n <= most)
			}
		}
	}
}
