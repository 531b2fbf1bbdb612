// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

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

func TestWithin(t *testing.T) {
	for name, test := range map[string]struct {
		inGo, inSchema string
		want           bool
	}{
		"the same field":                     {"spec.env", "spec.env", true},
		"an entry of the list":               {"spec.env[3].name", "spec.env", true},
		"a field of the object":              {"metadata.name", "metadata", true},
		"a field of a subresource":           {"spec.replicas", ".spec.replicas", true},
		"a field with a longer name is not":  {"spec.envFrom", "spec.env", false},
		"the whole is not one of its parts":  {"spec.env", "spec.env[3]", false},
		"another field of the object is not": {"spec.port", "spec.env", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := within(test.inGo, test.inSchema); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
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

// agreeOnEach takes each of many values of one field to the schema and to the Go
// code, which must accept those that are true.
func agreeOnEach[T comparable](t *testing.T, kind string, accepted map[T]bool, with func(value T) map[string]any) {
	t.Helper()
	server := servers(t)[kind]
	for value, want := range accepted {
		if got := server.agree(t, with(value)); got != want {
			t.Errorf("%#v: accepted: %t, want %t", value, got, want)
		}
	}
}

// generator makes objects most of whose fields are valid, or nearly.
type generator struct{ *rand.Rand }

func pick[T any](g generator, values ...T) T { return values[g.IntN(len(values))] }

func (g generator) oneIn(n int) bool { return g.IntN(n) == 0 }

// number sets a field to a number that is in its range, or just outside, or to
// nothing.
func (g generator) number(spec map[string]any, name string, low, high int64) {
	switch g.IntN(20) {
	case 0:
		spec[name] = pick(g, low-1, high+1, -1<<31, 1<<31-1, 1<<40)
	case 1, 2, 3:
		spec[name] = pick(g, low, high)
	case 4, 5, 6, 7, 8:
		spec[name] = low + g.Int64N(high-low+1)
	case 9:
		spec[name] = nil
	}
}

// choice sets a field to one of the values, or to another, or to nothing. Not to
// "": to Go that is nothing.
func (g generator) choice(spec map[string]any, name string, values ...string) {
	switch g.IntN(40) {
	case 0:
		spec[name] = strings.ToLower(pick(g, values...))
	case 1:
		spec[name] = nil
	default:
		if g.oneIn(2) {
			spec[name] = pick(g, values...)
		}
	}
}

// mutate changes one character of one text in eight.
func (g generator) mutate(text, alphabet string) string {
	if !g.oneIn(8) {
		return text
	}
	runes := []rune(text)
	at := g.IntN(len(runes))
	char := pick(g, []rune(alphabet)...)
	switch g.IntN(3) {
	case 0:
		runes[at] = char
	case 1:
		runes = slices.Delete(runes, at, at+1)
	default:
		runes = slices.Insert(runes, at, char)
	}
	return string(runes)
}
