// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

func application(spec map[string]any) map[string]any {
	merged := map[string]any{"image": "nginx"}
	maps.Copy(merged, spec)
	return map[string]any{
		"apiVersion": "app.aiops.org/v1", "kind": "Application",
		"metadata": map[string]any{"name": "sample"},
		"spec":     runtime.DeepCopyJSON(merged),
	}
}

// objectNames are the names of objects of other kinds.
var objectNames = map[string]bool{
	"standard": true, "fast.ssd-2": true, "1": true, "a--b": true, strings.Repeat("x", 253): true,

	" ": false, "Standard": false, "my_class": false, "a.": false, ".a": false, "a-": false, "-a": false, "a/b": false, "a\n": false,
	"ü": false, strings.Repeat("x", 254): false,
}

func TestFieldsOfApplications(t *testing.T) {
	ingress := func(name string) func(value string) map[string]any {
		return func(value string) map[string]any {
			return application(map[string]any{"ingress": map[string]any{name: value}})
		}
	}
	acceptsOnly(t, "Application", "image", map[string]bool{
		"nginx:1.27": true, "ghcr.io/owner/app:v1.2.3-rc.1_x86": true, "localhost:5000/a/b/c": true, "[::1]:5000/app": true,
		"EXAMPLE.com/app:Tag": true, "my-app__x.y": true, "0/0:0": true, "nginx@sha256:" + strings.Repeat("a", 64): true,
		"nginx:1@sha256:" + strings.Repeat("0F", 32): true, strings.Repeat("x", 1024): true,

		" nginx": false, "nginx ": false, "nginx\t": false, "ngi\x00nx": false, "nginx\u00a0": false, "ghcr.io/owner/App": false,
		"nginx:": false, "nginx:a b": false, "/nginx": false, "nginx/": false, "https://nginx": false, "nginx@": false,
		"nginx@sha256": false, "nginx:1:2": false, "-nginx": false, "nginx-": false, "${IMAGE}": false, "nginx,busybox": false,
		"[nginx]": false, "宋": false, strings.Repeat("x", 1025): false,
	}, func(image string) map[string]any { return application(map[string]any{"image": image}) })
	acceptsOnly(t, "Application", "host", map[string]bool{
		"localhost": true, "*.com": true, "1.example.com": true, "10.0.0": true, "10.0.0.1.nip.io": true, "xn--bcher-kva.example": true,
		"a-b--c.d": true, strings.Repeat("x", 63) + ".com": true, strings.Repeat("x.", 126) + "x": true,

		" ": false, "exAmple.com": false, ".example.com": false, "a..b": false, "-a.com": false, "a-.com": false, "256.256.256.256": false,
		"::1": false, "[::1]": false, "example.com/": false, "user@example.com": false, "bücher.example": false, "*.": false,
		"*example.com": false, "*.*.example.com": false, "**.example.com": false, "example.com\n": false, "\texample.com": false,
		strings.Repeat("x", 64) + ".com": false, strings.Repeat("x.", 127) + "x": false,
	}, ingress("host"))
	acceptsOnly(t, "Application", "path", map[string]bool{
		"/": true, "/shop/": true, "/a.b/..c/d../.e/f.": true, "/...": true, "/~user/a-b_c": true, "/a:b@c;d=e,f+g!h$i&j'(k)*l": true,
		"/%20": true, "/%": true, "/" + strings.Repeat("x", 1023): true,

		" ": false, " /shop": false, "//": false, "/./": false, "/.": false, "/..": false, "/a/./b": false, "/a/.": false, "/a%2Fb": false,
		"/a#b": false, "/a\\b": false, "/a\nb": false, "/\x00": false, "/{a}": false, "/^a": false, "/ü": false, "http://a/": false,
		"*": false, "/" + strings.Repeat("x", 1024): false,
	}, ingress("path"))
	acceptsOnly(t, "Application", "class", objectNames, ingress("className"))
	acceptsOnly(t, "Application", "secret", objectNames, func(name string) map[string]any {
		return application(map[string]any{"ingress": map[string]any{"tls": map[string]any{"secretName": name}}})
	})
	acceptsOnly(t, "Application", "name", map[string]bool{
		"a": true, "shop-1": true, "a--b": true, strings.Repeat("x", 63): true,

		"": false, "1shop": false, "shop.a": false, "shop-": false, "-shop": false, "Shop": false, "my_shop": false, "shop\n": false,
		"ü": false, strings.Repeat("x", 64): false, strings.Repeat("x", 254): false,
	}, func(name string) map[string]any {
		obj := application(nil)
		obj["metadata"] = map[string]any{"name": name}
		return obj
	})
	acceptsOnly(t, "Application", "variable", map[string]bool{
		"PATH": true, "_": true, "-": true, ".": true, "a.b-c_d": true, "A1": true, strings.Repeat("A", 253): true,

		" ": false, "1A": false, "A B": false, "=": false, "A\n": false, "A\x00": false, "Ä": false, "A$": false, "A/B": false,
		strings.Repeat("A", 254): false,
	}, func(name string) map[string]any {
		return application(map[string]any{"env": []any{map[string]any{"name": "FIRST"}, map[string]any{"name": name}}})
	})
	acceptsOnly(t, "Application", "share", map[any]bool{
		int64(0): true, int64(1<<31 - 1): true, "0%": true, "00%": true, "7%": true, "100%": true,

		int64(-1 << 31): false, int64(1 << 31): false, int64(1 << 40): false, "": false, "1": false, "1000%": false,
		"-1%": false, "%": false, "50 %": false, "50%%": false, "50%\n": false, "0.5%": false,
	}, func(value any) map[string]any {
		return application(map[string]any{"pdb": map[string]any{"minAvailable": value}})
	})
}

// The largest lists with the longest names stay within the cost limit of rules. The schema rejects one more entry.
func TestTheLargestLists(t *testing.T) {
	long := func(i int) string { return fmt.Sprintf("%s%03d", strings.Repeat("a", 250), i) }
	list := func(n int, entry func(name string) map[string]any) (entries []any) {
		for i := range n {
			entries = append(entries, entry(long(i)))
		}
		return entries
	}
	annotations := func(n int) any {
		annotations := map[string]any{}
		for i := range n {
			annotations[long(i)] = ""
		}
		return map[string]any{"annotations": annotations}
	}
	spec := func(more int) map[string]any {
		return map[string]any{
			"env": list(256+more, func(name string) map[string]any {
				return map[string]any{"name": name, "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "status.podIPs"}}}
			}),
			"envFrom": list(64+more, func(name string) map[string]any {
				return map[string]any{"configMapRef": map[string]any{"name": name}}
			}),
			"imagePullSecrets": list(16+more, func(name string) map[string]any { return map[string]any{"name": name} }),
			"service":          annotations(64 + more),
			"ingress":          annotations(64 + more),
		}
	}
	server := servers(t)["Application"]
	if !server.accepts(t, application(spec(0)), nil) {
		t.Error("the largest lists were rejected")
	}
	for name, value := range spec(1) {
		if server.accepts(t, application(map[string]any{name: value}), nil) {
			t.Errorf("one more entry in %s was accepted", name)
		}
	}
}

// TestTheErrorOfAVariableDoesNotQuoteItsValue: it may be a secret.
func TestTheErrorOfAVariableDoesNotQuoteItsValue(t *testing.T) {
	from := map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.name"}}
	_, errs := servers(t)["Application"].judge(t, application(map[string]any{
		"env": []any{map[string]any{"name": "A", "value": "hunter2", "valueFrom": from}},
	}), nil)
	const want = `spec.env: Invalid value: A must have either value or valueFrom, `
	if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), want) || strings.Contains(errs[0].Error(), "hunter2") {
		t.Errorf("got %v, want %s", errs, want)
	}
}

func apiExampleA(spec map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "groupa.k8s.zhuang.com/v1", "kind": "ApiExampleA",
		"metadata": map[string]any{"name": "sample"},
		"spec":     runtime.DeepCopyJSON(spec),
	}
}

func TestWords(t *testing.T) {
	for _, name := range []string{"foo", "first_name", "last_name"} {
		acceptsOnly(t, "ApiExampleA", name, map[string]bool{
			"": true, " ": true, "bar": true, "Jimmy Song": true, "宋净超": true, "<b>&amp;</b>": true, "\u00a0": true,
			strings.Repeat("x", 100): true, strings.Repeat("宋", 100): true,

			strings.Repeat("x", 101): false, strings.Repeat("宋", 101): false, strings.Repeat("x", 1001): false,
			"\n": false, "Jimmy\n": false, "Jimmy\r\nSong": false, "\tJimmy": false, "\x00": false, "\x1b[31m": false, "\x7f": false,
		}, func(words string) map[string]any { return apiExampleA(map[string]any{name: words}) })
	}
}
