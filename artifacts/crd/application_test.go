// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/glassback/glassback/pkg/must"
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

// ingress returns an Application whose Ingress has one field of the given value.
func ingress(name string) func(value string) map[string]any {
	return func(value string) map[string]any {
		return application(map[string]any{"ingress": map[string]any{name: value}})
	}
}

func TestSchemaAndValidateAgreeOnImages(t *testing.T) {
	agreeOnEach(t, "Application", map[string]bool{
		"nginx": true, "nginx:1.27": true, "library/nginx": true, "ghcr.io/owner/app:v1.2.3-rc.1_x86": true, "localhost:5000/a/b/c": true,
		"[::1]:5000/app": true, "EXAMPLE.com/app:Tag": true, "my-app__x.y": true, "0/0:0": true,
		"nginx@sha256:" + strings.Repeat("a", 64): true, "nginx:1@sha256:" + strings.Repeat("0F", 32): true, strings.Repeat("x", 1024): true,

		"": false, " ": false, " nginx": false, "nginx ": false, "my image": false, "nginx\n": false, "nginx\t": false, "ngi\x00nx": false,
		"nginx\u00a0": false, "Nginx": false, "ghcr.io/owner/App": false, "nginx:": false, "nginx:a b": false, "/nginx": false, "nginx/": false,
		"https://nginx": false, "nginx@": false, "nginx@sha256": false, "nginx:1:2": false, "-nginx": false, "nginx-": false, "${IMAGE}": false,
		"nginx,busybox": false, "[nginx]": false, "宋": false, strings.Repeat("x", 1025): false,
	}, func(image string) map[string]any { return application(map[string]any{"image": image}) })
}

func TestSchemaAndValidateAgreeOnHosts(t *testing.T) {
	agreeOnEach(t, "Application", map[string]bool{
		"example.foo.com": true, "localhost": true, "*.example.com": true, "*.com": true, "1.example.com": true,
		"10.0.0": true, "10.0.0.1.nip.io": true,
		"xn--bcher-kva.example": true, "a-b--c.d": true, strings.Repeat("x", 63) + ".com": true, strings.Repeat("x.", 126) + "x": true,

		" ": false, "Example.com": false, "exAmple.com": false, "my shop": false, "my_shop.com": false,
		"example.com.": false, ".example.com": false,
		"a..b": false, "-a.com": false, "a-.com": false, "10.0.0.1": false, "256.256.256.256": false, "::1": false, "[::1]": false,
		"http://example.com": false, "example.com/": false, "example.com:8080": false, "host:8080": false,
		"user@example.com": false, "bücher.example": false,
		"*": false, "*.": false, "*example.com": false, "*.*.example.com": false, "a.*.example.com": false, "**.example.com": false,
		"example.com\n": false, "\texample.com": false, strings.Repeat("x", 64) + ".com": false, strings.Repeat("x.", 127) + "x": false,
	}, ingress("host"))
}

func TestSchemaAndValidateAgreeOnPaths(t *testing.T) {
	agreeOnEach(t, "Application", map[string]bool{
		"/": true, "/shop": true, "/shop/": true, "/a.b/..c/d../.e/f.": true, "/...": true, "/~user/a-b_c": true,
		"/a:b@c;d=e,f+g!h$i&j'(k)*l": true, "/%20": true, "/%": true, "/" + strings.Repeat("x", 1023): true,

		" ": false, "shop": false, " /shop": false, "/my shop": false, "/shop ": false, "//": false, "/a//b": false,
		"/./": false, "/.": false, "/..": false,
		"/a/./b": false, "/a/../b": false, "/a/..": false, "/a/.": false, "/a%2fb": false, "/a%2Fb": false,
		"/%2F": false, "/a?b": false, "/a#b": false,
		"/a\\b": false, "/a\nb": false, "/\x00": false, "/{a}": false, "/^a": false, "/ü": false, "http://example.com/": false, "*": false,
		"/" + strings.Repeat("x", 1024): false,
	}, ingress("path"))
}

func TestSchemaAndValidateAgreeOnNamesOfOtherObjects(t *testing.T) {
	names := map[string]bool{
		"nginx": true, "nginx.example.com": true, "1": true, "a-b": true, "a--b": true, strings.Repeat("x", 253): true,

		" ": false, "Nginx": false, "my_class": false, "my class": false, "a.": false, ".a": false, "a-": false, "-a": false, "a/b": false,
		"a\n": false, "ü": false, strings.Repeat("x", 254): false,
	}
	t.Run("class", func(t *testing.T) { agreeOnEach(t, "Application", names, ingress("className")) })
	maps.Copy(names, map[string]bool{"": false, "a..b": false, "a.-b": false})
	t.Run("secret", func(t *testing.T) {
		agreeOnEach(t, "Application", names, func(name string) map[string]any {
			return application(map[string]any{"ingress": map[string]any{"tls": map[string]any{"secretName": name}}})
		})
	})
}

func TestSchemaAndValidateAgreeOnNamesOfApplications(t *testing.T) {
	agreeOnEach(t, "Application", map[string]bool{
		"a": true, "shop": true, "shop-1": true, "a--b": true, strings.Repeat("x", 63): true,

		"": false, "1shop": false, "shop.a": false, "shop-": false, "-shop": false, "Shop": false,
		"my_shop": false, "my shop": false, "shop\n": false, "ü": false, strings.Repeat("x", 64): false, strings.Repeat("x", 254): false,
	}, func(name string) map[string]any {
		obj := application(nil)
		obj["metadata"] = map[string]any{"name": name}
		return obj
	})
}

func TestSchemaAndValidateAgreeOnNamesOfVariables(t *testing.T) {
	agreeOnEach(t, "Application", map[string]bool{
		"A": true, "PATH": true, "_": true, "-": true, ".": true, "a.b-c_d": true, ".a": true,
		"A1234567890": true, strings.Repeat("A", 253): true,

		"": false, " ": false, "1": false, "1A": false, "A B": false, "A=": false, "=": false, "A\n": false,
		"A\x00": false, "Ä": false, "A$": false, "A/B": false, strings.Repeat("A", 254): false,
	}, func(name string) map[string]any {
		return application(map[string]any{"env": []any{map[string]any{"name": "FIRST"}, map[string]any{"name": name}}})
	})
}

// everySubset calls with for every subset of the fields of all.
func everySubset(all map[string]any, with func(subset map[string]any)) {
	names := slices.Sorted(maps.Keys(all))
	for bits := range 1 << len(names) {
		subset := map[string]any{}
		for i, name := range names {
			if bits&(1<<i) != 0 {
				subset[name] = all[name]
			}
		}
		with(subset)
	}
}

func TestSchemaAndValidateAgreeOnSourcesOfVariables(t *testing.T) {
	server := servers(t)["Application"]
	key := map[string]any{"name": "settings", "key": "mode"}
	everySubset(map[string]any{
		"configMapKeyRef": key, "secretKeyRef": key, "fieldRef": map[string]any{"fieldPath": "metadata.name"},
		"resourceFieldRef": map[string]any{"resource": "limits.cpu"}, "fileKeyRef": map[string]any{"volumeName": "a", "path": "b", "key": "c"},
	}, func(from map[string]any) {
		_, file := from["fileKeyRef"] // Both ignore it: an Application has no volumes.
		for value, isSet := range map[any]bool{nil: false, "": false, "fast": true} {
			entry := map[string]any{"name": "MODE", "value": value, "valueFrom": from}
			want := !isSet && (len(from) == 1 && !file || len(from) == 2 && file)
			if got := server.agree(t, application(map[string]any{"env": []any{map[string]any{"name": "FIRST"}, entry}})); got != want {
				t.Errorf("%v: accepted: %t, want %t", entry, got, want)
			}
		}
	})
}

func TestSchemaAndValidateAgreeOnHandlersOfProbes(t *testing.T) {
	server := servers(t)["Application"]
	everySubset(map[string]any{
		"httpGet": map[string]any{"port": "http"}, "tcpSocket": map[string]any{"port": int64(80)},
		"grpc": map[string]any{"port": int64(80)}, "exec": map[string]any{},
	}, func(handlers map[string]any) {
		for _, probe := range []string{"liveness", "readiness", "startup"} {
			obj := application(map[string]any{"probes": map[string]any{probe: handlers}})
			if got, want := server.agree(t, obj), len(handlers) == 1; got != want {
				t.Errorf("%s with %v: accepted: %t, want %t", probe, handlers, got, want)
			}
		}
	})
}

func TestSchemaAndValidateAgreeOnRequestsAndLimits(t *testing.T) {
	server := servers(t)["Application"]
	ascending := []any{
		"-1", int64(0), "1n", "100m", ".5", int64(1), "2.", "1e1", "1k", "1Ki", "+64Mi", "1073741823", "1Gi", int64(1<<30 + 1), "1E", "1Ei",
		"1e99",
	}
	for _, resource := range []string{"cpu", "memory", "ephemeral-storage", "nvidia.com/gpu"} {
		for i, request := range ascending {
			for j, limit := range ascending {
				obj := application(map[string]any{"resources": map[string]any{
					"requests": map[string]any{resource: request}, "limits": map[string]any{resource: limit, "hugepages-2Mi": int64(0)}}})
				if got, want := server.agree(t, obj), i <= j || resource == "nvidia.com/gpu"; got != want {
					t.Errorf("%s: a request of %v with a limit of %v: accepted: %t, want %t", resource, request, limit, got, want)
				}
			}
		}
	}
}

func TestSchemaAndValidateAgreeOnShares(t *testing.T) {
	agreeOnEach(t, "Application", map[any]bool{
		int64(0): true, int64(1): true, int64(1<<31 - 1): true, "0%": true, "00%": true, "7%": true, "50%": true, "100%": true,

		int64(-1): false, int64(-1 << 31): false, int64(1 << 31): false, int64(1 << 40): false, "": false,
		"1": false, "101%": false, "1000%": false,
		"-1%": false, "%": false, "50 %": false, "50%%": false, "50%\n": false, "half": false, "0.5%": false,
	}, func(value any) map[string]any {
		return application(map[string]any{"pdb": map[string]any{"minAvailable": value}})
	})
}

// Clients cannot parse 1e1.5, or a port of more than 32 bits, and parse 1e-99999999 for minutes. One object with such a value
// would stop the informers of all Applications. It must not stop the API server either: a rule compares quantities.
func TestTheSchemaRejectsNumbersThatClientsCannotParse(t *testing.T) {
	server := servers(t)["Application"]
	try := func(value any, accepted bool, spec map[string]any) {
		t.Helper()
		admitted, err := server.admit(application(spec))
		must.Succeed(t, err)
		if errs := server.create(admitted); (len(errs) == 0) != accepted {
			t.Errorf("%.50q in %v: accepted: %t, want %t: %v", value, slices.Collect(maps.Keys(spec)), len(errs) == 0, accepted, errs)
		}
	}
	for quantity, accepted := range map[string]bool{
		"1e1.5": false, "1e-99999999": false, "1e+99999999": false, "1E99999999999": false, "1e-009": false, "64MB": false, "": false,
		"1e3": true, "250m": true, "1.5Gi": true, "1e-9": true, "1E+99": true, strings.Repeat("9", 1000): true,
	} {
		for _, resource := range []string{"cpu", "memory", "nvidia.com/gpu"} {
			quantities := map[string]any{resource: quantity}
			try(quantity, accepted, map[string]any{"resources": map[string]any{"limits": quantities, "requests": quantities}})
		}
		try(quantity, accepted, map[string]any{"env": []any{map[string]any{"name": "A", "valueFrom": map[string]any{
			"resourceFieldRef": map[string]any{"resource": "limits.cpu", "divisor": quantity}}}}})
	}
	for port, accepted := range map[any]bool{
		int64(1<<31 - 1): true, int64(1 << 31): false, int64(-1 << 31): true, int64(-1<<31 - 1): false, "80": true,
	} {
		for _, probe := range []string{"liveness", "readiness", "startup"} {
			for _, handler := range []string{"httpGet", "tcpSocket"} {
				try(port, accepted, map[string]any{"probes": map[string]any{probe: map[string]any{handler: map[string]any{"port": port}}}})
			}
		}
	}
}

// The largest lists with the longest names stay within the cost limit of rules. The schema rejects one more entry.
func TestSchemaAndValidateAgreeOnTheLargestLists(t *testing.T) {
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
	server, tooMany := servers(t)["Application"], spec(1)
	if !server.agree(t, application(spec(0))) {
		t.Error("the largest lists were rejected")
	}
	for name, value := range tooMany {
		if server.agree(t, application(map[string]any{name: value})) {
			t.Errorf("one more entry in %s was accepted", name)
		}
	}
}

func TestSchemaAndValidateAgreeOnEveryApplication(t *testing.T) {
	agreeOnAll(t, "Application", generator.application)
}

func (g generator) application() map[string]any {
	spec := map[string]any{"image": g.mutate(pick(g, "nginx", "nginx:1.27", "ghcr.io/owner/app:v1"), "A :/@\n-ü")}
	g.number(spec, "replicas", 0, 10000)
	g.number(spec, "port", 1, 65535)
	for _, part := range []struct {
		name  string
		value any
	}{
		{"env", g.env()}, {"envFrom", g.envFrom()}, {"resources", g.resources()}, {"probes", g.probes()}, {"imagePullSecrets", g.pullSecrets()},
		{"service", g.service()}, {"ingress", g.ingress()}, {"autoscaling", g.autoscaling()}, {"pdb", g.budget()},
	} {
		if g.oneIn(4) {
			spec[part.name] = part.value
		}
	}
	obj := application(spec)
	switch g.IntN(40) {
	case 0:
		obj["spec"].(map[string]any)["image"] = pick[any](g, nil, "")
	case 1:
		delete(obj, "spec")
	case 2:
		obj["metadata"].(map[string]any)["name"] = pick(g, "a.b", "1a", "A", strings.Repeat("x", 63), strings.Repeat("x", 64))
	}
	return obj
}

func (g generator) env() any {
	env := make([]any, 0, 3)
	for i := range 1 + g.IntN(3) {
		name := g.mutate(pick(g, "MODE", "a.b-c", "_X1"), "1. =Ü")
		if !g.oneIn(10) {
			name = fmt.Sprintf("%s_%d", name, i) // Makes the name unique.
		}
		entry := map[string]any{"name": name}
		if g.oneIn(2) {
			entry["value"] = pick(g, "", "fast")
		}
		if _, has := entry["value"]; !has || g.oneIn(10) {
			entry["valueFrom"] = g.envSource()
		}
		if g.oneIn(60) {
			delete(entry, "name")
		}
		env = append(env, entry)
	}
	return env
}

func (g generator) envSource() map[string]any {
	from := map[string]any{}
	for range pick(g, 1, 1, 1, 1, 1, 1, 1, 1, 0, 2) {
		switch g.IntN(9) {
		case 0, 1:
			from["configMapKeyRef"] = map[string]any{"name": "settings", "key": "mode", "optional": g.oneIn(2)}
		case 2, 3:
			from["secretKeyRef"] = map[string]any{"key": "mode"}
		case 4, 5:
			from["fieldRef"] = map[string]any{"fieldPath": pick(g, "metadata.name", "metadata.labels['a']", "")}
		case 6, 7:
			from["resourceFieldRef"] = map[string]any{"resource": "limits.cpu", "divisor": pick[any](g, "1Mi", "1k", int64(0), "100m")}
		default:
			if g.oneIn(4) {
				from["fileKeyRef"] = map[string]any{"volumeName": "a", "path": "b", "key": "c"}
			}
		}
	}
	return from
}

func (g generator) envFrom() any {
	from := make([]any, 0, 2)
	for range 1 + g.IntN(2) {
		entry := map[string]any{}
		for range pick(g, 1, 1, 1, 1, 1, 0, 2) {
			entry[pick(g, "configMapRef", "secretRef")] = pick(g, map[string]any{"name": "settings"},
				map[string]any{"name": "settings", "optional": true}, map[string]any{"name": "passwords"}, map[string]any{})
		}
		if g.oneIn(3) {
			entry["prefix"] = "SHOP_"
		}
		from = append(from, entry)
	}
	return from
}

func (g generator) resources() any {
	resources := map[string]any{}
	for _, field := range []string{"limits", "requests"} {
		quantities := map[string]any{}
		for _, resource := range []struct {
			name   string
			values []any
		}{
			{"cpu", []any{"100m", "0.5", int64(1), "1", "2", "1e1", "-100m", "-0", "plenty"}},
			{"memory", []any{"64Mi", "1Gi", "500M", int64(1 << 30), int64(0), "1E", "1.5e9", "64MB"}},
			{"ephemeral-storage", []any{"1Gi", "2Gi", "3000000000", "10G", "+1"}},
			{"nvidia.com/gpu", []any{int64(1), "1", "2", "100m"}},
		} {
			if g.oneIn(3) {
				quantities[resource.name] = pick(g, resource.values...)
			}
		}
		if g.oneIn(2) {
			resources[field] = quantities
		}
	}
	return resources
}

func (g generator) probes() any {
	probes := map[string]any{}
	for _, name := range []string{"liveness", "readiness", "startup"} {
		if g.oneIn(2) {
			probes[name] = g.probe()
		}
	}
	return probes
}

func (g generator) probe() map[string]any {
	probe := map[string]any{}
	for range pick(g, 1, 1, 1, 1, 1, 1, 1, 1, 0, 2) {
		port := pick[any](g, int64(80), "http", "80", int64(65536), int64(80), "http", int64(1<<40))
		switch g.IntN(4) {
		case 0:
			get := map[string]any{"port": port}
			g.choice(get, "scheme", "HTTP", "HTTPS")
			probe["httpGet"] = get
		case 1:
			probe["tcpSocket"] = map[string]any{"port": port}
		case 2:
			rpc := map[string]any{"port": pick[any](g, int64(80), int64(0), int64(1<<31))}
			if g.oneIn(2) {
				rpc["service"] = "health"
			}
			probe["grpc"] = rpc
		default:
			probe["exec"] = pick(g, map[string]any{"command": []any{"true"}}, map[string]any{})
		}
	}
	if g.oneIn(8) {
		probe["periodSeconds"] = pick(g, int64(1), 1<<31-1, -1, 1<<31)
	}
	return probe
}

func (g generator) pullSecrets() any {
	secrets := make([]any, 0, 2)
	for i := range 1 + g.IntN(2) {
		name := pick(g, "registry", "my_registry")
		if !g.oneIn(5) {
			name = fmt.Sprint(name, i)
		}
		secrets = append(secrets, map[string]any{"name": name})
	}
	if g.oneIn(20) {
		delete(secrets[0].(map[string]any), "name")
	}
	return secrets
}

func (g generator) service() any {
	service := map[string]any{}
	if g.oneIn(4) {
		service["enabled"] = pick[any](g, true, true, false, nil)
	}
	g.choice(service, "type", "ClusterIP", "NodePort", "LoadBalancer")
	g.number(service, "port", 1, 65535)
	if g.oneIn(3) {
		service["annotations"] = g.annotations()
	}
	return service
}

func (g generator) ingress() any {
	ingress := map[string]any{}
	for _, text := range []struct{ name, value string }{
		{"className", g.mutate(pick(g, "nginx", "traefik.internal"), "N_ -.")},
		{"host", g.mutate(pick(g, "shop.example.com", "*.example.com", "10.0.0.1.nip.io"), "E_ -.*:/1")},
		{"path", g.mutate(pick(g, "/", "/shop", "/a/b.c"), "/.%2F ?")},
	} {
		if text.value != "" && g.oneIn(3) { // Go cannot tell "" from a missing field.
			ingress[text.name] = text.value
		}
	}
	if g.oneIn(4) {
		ingress["enabled"] = pick[any](g, true, false, nil)
	}
	if g.oneIn(4) {
		ingress["tls"] = pick(g, map[string]any{"secretName": g.mutate("shop-tls", "T_ -.")}, map[string]any{"secretName": "shop.tls"},
			map[string]any{})
	}
	if g.oneIn(3) {
		ingress["annotations"] = g.annotations()
	}
	return ingress
}

func (g generator) annotations() map[string]any {
	annotations := map[string]any{}
	for range 1 + g.IntN(3) {
		annotations[pick(g, "team", "example.com/team", "my team")] = pick(g, "", "shop", "a\nb")
	}
	if g.oneIn(20) {
		annotations["kubernetes.io/ingress.class"] = "nginx"
	}
	return annotations
}

func (g generator) autoscaling() any {
	autoscaling := map[string]any{"maxReplicas": int64(10)}
	g.number(autoscaling, "maxReplicas", 1, 10000)
	g.number(autoscaling, "minReplicas", 1, pick[int64](g, 1, 10, 10000))
	g.number(autoscaling, "targetCPUUtilizationPercentage", 1, 1000)
	g.number(autoscaling, "targetMemoryUtilizationPercentage", 1, 1000)
	return autoscaling
}

func (g generator) budget() any {
	budget := map[string]any{}
	for range pick(g, 0, 1, 1, 1, 2) {
		budget[pick(g, "minAvailable", "maxUnavailable")] = pick[any](g,
			int64(0), int64(1), int64(10), "0%", "50%", "100%", nil, int64(-1), "101%", "1")
	}
	return budget
}
