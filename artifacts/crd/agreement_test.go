// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/glassback/glassback/pkg/must"
)

// onlyInGo matches what Validate says where the schema has no rule: an addr may be left
// out for all that the schema knows.
var onlyInGo = regexp.MustCompile(`^spec\.(backup\.)?schedule: .*: never comes: |^spec\.addr: Invalid value: "": `)

// onlyInSchema matches what the API server says where Validate has nothing to say: Default
// has raised a size that is negative.
var onlyInSchema = regexp.MustCompile(`^\.spec\.size: .*: should be a non-negative integer`)

// agree takes an object to the schema and to the Go code, fails the test unless
// they say the same, and returns what they say.
func (s *server) agree(t *testing.T, obj map[string]any) (accepted bool) {
	t.Helper()
	return s.agreeOnUpdate(t, obj, nil)
}

// agreeOnUpdate is agree for an object in the place of old, nil for a new one.
func (s *server) agreeOnUpdate(t *testing.T, obj, old map[string]any) (accepted bool) {
	t.Helper()
	admitted, inSchema := s.judge(t, obj, old)
	inGo, err := verdicts[obj["kind"].(string)](obj, old)
	if err != nil {
		if len(inSchema) == 0 {
			t.Errorf("the schema takes what Go cannot decode: %v\n%v", err, obj)
		}
		return false // Its values do not fit into the Go type.
	}
	bothInGo, bothInSchema := without(inGo.errs, onlyInGo), without(inSchema, onlyInSchema)
	accepts, acceptsInGo := len(inSchema) == 0, len(inGo.errs) == 0
	if accepts && len(bothInGo) > 0 || len(bothInSchema) > 0 && acceptsInGo {
		t.Errorf("the schema says %v\nbut Validate says %v\n%v", inSchema.ToAggregate(), inGo.errs.ToAggregate(), obj)
	}
	if !slices.ContainsFunc(inSchema, blocksRules) && (!blamesAll(bothInGo, inSchema) || !blamesNoOther(inGo.errs, bothInSchema)) {
		t.Errorf("the schema says %v\nbut Validate blames other fields: %v\n%v", inSchema.ToAggregate(), inGo.errs.ToAggregate(), obj)
	}
	if accepts && acceptsInGo {
		wantSameDefaults(t, obj["kind"].(string), obj, admitted)
	}
	return acceptsInGo
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

// blamesAll tells whether the schema blames every field that the Go code does.
func blamesAll(inGo, inSchema field.ErrorList) bool {
	return !slices.ContainsFunc(inGo, func(goErr *field.Error) bool {
		return !slices.ContainsFunc(inSchema, func(err *field.Error) bool { return within(goErr.Field, err.Field) })
	})
}

// blamesNoOther tells whether the Go code blames every field that the schema does.
func blamesNoOther(inGo, inSchema field.ErrorList) bool {
	return !slices.ContainsFunc(inSchema, func(err *field.Error) bool {
		return !slices.ContainsFunc(inGo, func(goErr *field.Error) bool { return within(goErr.Field, err.Field) })
	})
}

// within tells whether a field that the Go code blames is the one that the schema
// blames, or a part of it: the schema cannot name the fields of metadata, and a
// rule about a list not its entries.
func within(inGo, inSchema string) bool {
	inSchema = strings.TrimPrefix(inSchema, ".") // The scale subresource has paths like this.
	rest, ok := strings.CutPrefix(inGo, inSchema)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// agreeOnAll takes many generated objects of a kind to the schema and to the Go
// code.
func agreeOnAll(t *testing.T, kind string, generate func(g generator) map[string]any) {
	t.Helper()
	server := servers(t)[kind]
	const n = 2000
	g := generator{rand.New(rand.NewPCG(1, 2))}
	accepted := 0
	for range n {
		if server.agree(t, generate(g)) {
			accepted++
		}
		if t.Failed() {
			return // One is enough to look at.
		}
	}
	t.Logf("%d of %d were accepted", accepted, n)
	if accepted < n/5 || accepted > n*4/5 {
		t.Errorf("%d of %d were accepted: the generator should give some of both", accepted, n)
	}
}

// agreeOnChanges takes many generated changes of valid objects to the schema and to the
// Go code.
func agreeOnChanges(t *testing.T, generate func(g generator) (old, obj map[string]any)) {
	t.Helper()
	g := generator{rand.New(rand.NewPCG(1, 2))}
	accepted, refused := 0, 0
	for accepted+refused < 1000 && !t.Failed() {
		old, obj := generate(g)
		server := servers(t)[obj["kind"].(string)]
		if _, errs := server.judge(t, old, nil); len(errs) > 0 {
			continue
		}
		if server.agreeOnUpdate(t, obj, old) {
			accepted++
		} else {
			refused++
		}
	}
	if accepted < 200 || refused < 200 {
		t.Errorf("%d were accepted, %d refused: the generator should give some of both", accepted, refused)
	}
}

// agreeOnEach takes each of many values of one field to the schema and to the Go
// code, which must accept those that are true.
func agreeOnEach[T comparable](t *testing.T, kind, field string, accepted map[T]bool, with func(value T) map[string]any) {
	t.Helper()
	t.Run(field, func(t *testing.T) {
		for value, want := range accepted {
			if got := servers(t)[kind].agree(t, with(value)); got != want {
				t.Errorf("%#v: accepted: %t, want %t", value, got, want)
			}
		}
	})
}

// TestSchemaAndValidateAgreeOnRequestsAndLimits compares quantities in all of their forms, as a rule and as Go do.
func TestSchemaAndValidateAgreeOnRequestsAndLimits(t *testing.T) {
	ascending := []any{
		"-1", int64(0), "1n", "100m", ".5", int64(1), "2.", "1e1", "1k", "1Ki", "+64Mi", "1Gi", int64(1<<30 + 1), "1Ei", "1e99",
	}
	for kind, with := range map[string]func(map[string]any) map[string]any{"Application": application, "RedisCluster": redisCluster} {
		for _, resource := range []string{"cpu", "memory", "nvidia.com/gpu"} {
			for i, request := range ascending {
				for j, limit := range ascending {
					obj := with(map[string]any{"resources": map[string]any{
						"requests": map[string]any{resource: request}, "limits": map[string]any{resource: limit, "hugepages-2Mi": int64(0)}}})
					if got, want := servers(t)[kind].agree(t, obj), i <= j || resource == "nvidia.com/gpu"; got != want {
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
