// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

func apiExampleA(spec map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "groupa.k8s.zhuang.com/v1", "kind": "ApiExampleA",
		"metadata": map[string]any{"name": "sample"},
		"spec":     runtime.DeepCopyJSON(spec),
	}
}

func TestSchemaAndValidateAgreeOnWords(t *testing.T) {
	for _, name := range []string{"foo", "first_name", "last_name"} {
		t.Run(name, func(t *testing.T) {
			agreeOnEach(t, "ApiExampleA", map[string]bool{
				"": true, " ": true, "bar": true, "Jimmy Song": true, "宋净超": true, "<b>&amp;</b>": true, "\u00a0": true,
				strings.Repeat("x", 100): true, strings.Repeat("宋", 100): true,

				strings.Repeat("x", 101): false, strings.Repeat("宋", 101): false, strings.Repeat("x", 1001): false,
				"\n": false, "Jimmy\n": false, "Jimmy\r\nSong": false, "\tJimmy": false, "\x00": false, "\x1b[31m": false, "\x7f": false,
			}, func(words string) map[string]any { return apiExampleA(map[string]any{name: words}) })
		})
	}
}

func TestSchemaAndValidateAgreeOnEveryApiExampleA(t *testing.T) {
	agreeOnAll(t, "ApiExampleA", generator.apiExampleA)
}

func (g generator) apiExampleA() map[string]any {
	spec := map[string]any{}
	for _, name := range []string{"foo", "first_name", "last_name"} {
		switch g.IntN(20) {
		case 0, 1:
			spec[name] = strings.Repeat(pick(g, "x", "ü", "宋"), pick(g, 99, 100, 101, 1000, 1001))
		case 2:
			spec[name] = pick[any](g, nil, "")
		case 3, 4, 5:
		default:
			spec[name] = g.mutate(pick(g, "bar", "Jimmy", "Song", "van der Berg", "净超"), "\n\t\x00\x7f\x1b xü")
		}
	}
	obj := apiExampleA(spec)
	switch g.IntN(20) {
	case 0:
		delete(obj, "spec")
	case 1, 2:
		obj["metadata"].(map[string]any)["name"] = strings.Repeat("x", pick(g, 1, 62, 63, 64, 200))
	}
	return obj
}
