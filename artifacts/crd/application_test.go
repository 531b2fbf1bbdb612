/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package crd_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

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
		"example.foo.com": true, "localhost": true, "*.example.com": true, "*.com": true, "1.example.com": true, "10.0.0": true, "10.0.0.1.nip.io": true,
		"xn--bcher-kva.example": true, "a-b--c.d": true, strings.Repeat("x", 63) + ".com": true, strings.Repeat("x.", 126) + "x": true,

		" ": false, "Example.com": false, "exAmple.com": false, "my shop": false, "my_shop.com": false, "example.com.": false, ".example.com": false,
		"a..b": false, "-a.com": false, "a-.com": false, "10.0.0.1": false, "256.256.256.256": false, "::1": false, "[::1]": false,
		"http://example.com": false, "example.com/": false, "example.com:8080": false, "host:8080": false, "user@example.com": false, "bücher.example": false,
		"*": false, "*.": false, "*example.com": false, "*.*.example.com": false, "a.*.example.com": false, "**.example.com": false,
		"example.com\n": false, "\texample.com": false, strings.Repeat("x", 64) + ".com": false, strings.Repeat("x.", 127) + "x": false,
	}, ingress("host"))
}

func TestSchemaAndValidateAgreeOnPaths(t *testing.T) {
	agreeOnEach(t, "Application", map[string]bool{
		"/": true, "/shop": true, "/shop/": true, "/a.b/..c/d../.e/f.": true, "/...": true, "/~user/a-b_c": true, "/a:b@c;d=e,f+g!h$i&j'(k)*l": true, "/%20": true,
		"/%": true, "/" + strings.Repeat("x", 1023): true,

		" ": false, "shop": false, " /shop": false, "/my shop": false, "/shop ": false, "//": false, "/a//b": false, "/./": false, "/.": false, "/..": false,
		"/a/./b": false, "/a/../b": false, "/a/..": false, "/a/.": false, "/a%2fb": false, "/a%2Fb": false, "/%2F": false, "/a?b": false, "/a#b": false,
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
	t.Run("pull secret", func(t *testing.T) {
		agreeOnEach(t, "Application", names, func(name string) map[string]any {
			return application(map[string]any{"imagePullSecrets": []any{map[string]any{"name": name}}})
		})
	})
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

		"": false, "1shop": false, "shop.a": false, "shop-": false, "-shop": false, "Shop": false, "my_shop": false, "my shop": false, "shop\n": false,
		"ü": false, strings.Repeat("x", 64): false, strings.Repeat("x", 254): false,
	}, func(name string) map[string]any {
		obj := application(nil)
		obj["metadata"] = map[string]any{"name": name}
		return obj
	})
}

func TestSchemaAndValidateAgreeOnVariables(t *testing.T) {
	agreeOnEach(t, "Application", map[string]bool{
		"A": true, "PATH": true, "_": true, "-": true, "a.b-c_d": true, ".a": true, "a..b": true, "A1234567890": true, strings.Repeat("A", 128): true,

		"": false, " ": false, ".": false, "..": false, "..a": false, "1": false, "1A": false, "A B": false, "A=": false, "=": false, "A\n": false,
		"A\x00": false, "Ä": false, "A$": false, "A/B": false, strings.Repeat("A", 129): false,
		// The rule goes by sixteen characters at a time.
		strings.Repeat("A", 15) + "!": false, strings.Repeat("A", 16) + "!": false, strings.Repeat("A", 127) + "!": false,
	}, func(name string) map[string]any {
		return application(map[string]any{"env": []any{map[string]any{"name": "FIRST"}, map[string]any{"name": name}}})
	})
}

func TestSchemaAndValidateAgreeOnSourcesOfVariables(t *testing.T) {
	from := func(source string) func(ref map[string]any) map[string]any {
		return func(ref map[string]any) map[string]any {
			return application(map[string]any{"env": []any{map[string]any{"name": "A", "valueFrom": map[string]any{source: ref}}}})
		}
	}
	fieldRef, resourceFieldRef := from("fieldRef"), from("resourceFieldRef")
	t.Run("field", func(t *testing.T) {
		agreeOnEach(t, "Application", map[string]bool{
			"metadata.name": true, "metadata.namespace": true, "metadata.uid": true, "spec.nodeName": true, "spec.serviceAccountName": true,
			"status.hostIP": true, "status.hostIPs": true, "status.podIP": true, "status.podIPs": true,
			"metadata.labels['a']": true, "metadata.annotations['a']": true,

			"": false, "name": false, "metadata": false, "metadata.labels": false, "metadata.annotations": false, "spec.containers": false, "status.phase": false,
		}, func(path string) map[string]any { return fieldRef(map[string]any{"fieldPath": path}) })
	})
	t.Run("version", func(t *testing.T) {
		agreeOnEach(t, "Application", map[string]bool{"": true, "v1": true, "v2": false, "apps/v1": false},
			func(version string) map[string]any {
				return fieldRef(map[string]any{"apiVersion": version, "fieldPath": "metadata.name"})
			})
	})
	t.Run("resource", func(t *testing.T) {
		agreeOnEach(t, "Application", map[string]bool{
			"limits.cpu": true, "limits.memory": true, "limits.ephemeral-storage": true,
			"requests.cpu": true, "requests.memory": true, "requests.ephemeral-storage": true,

			"": false, "cpu": false, "limits": false, "limits.": false, "limits.nvidia.com/gpu": false,
		}, func(resource string) map[string]any { return resourceFieldRef(map[string]any{"resource": resource}) })
	})
	t.Run("divisor", func(t *testing.T) {
		agreeOnEach(t, "Application", map[any]bool{
			int64(0): true, int64(1): true, "0": true, "1": true, "1m": true, "1k": true, "1M": true, "1G": true, "1T": true, "1P": true, "1E": true,
			"1Ki": true, "1Mi": true, "1Gi": true, "1Ti": true, "1Pi": true, "1Ei": true,

			int64(2): false, int64(-1): false, "2": false, "10m": false, "2Mi": false, "": false,
		}, func(divisor any) map[string]any {
			return resourceFieldRef(map[string]any{"resource": "limits.memory", "divisor": divisor})
		})
	})
}

func TestSchemaAndValidateAgreeOnNumbersOfProbes(t *testing.T) {
	server := servers(t)["Application"]
	for _, probe := range []string{"liveness", "readiness", "startup"} {
		for _, number := range []string{"initialDelaySeconds", "timeoutSeconds", "periodSeconds", "failureThreshold", "successThreshold", "terminationGracePeriodSeconds"} {
			for _, value := range []int64{-1 << 31, -1, 0, 1, 2, 1<<31 - 1, 1 << 31} {
				want := value >= 0 && value < 1<<31
				if number == "successThreshold" && probe != "readiness" {
					want = value == 0 || value == 1
				} else if number == "terminationGracePeriodSeconds" {
					want = value >= 1 && probe != "readiness"
				}
				got := server.agree(t, application(map[string]any{"probes": map[string]any{
					probe: map[string]any{number: value, "tcpSocket": map[string]any{"port": int64(80)}}}}))
				if got != want {
					t.Errorf("%s.%s of %d: accepted: %t, want %t", probe, number, value, got, want)
				}
			}
		}
	}
}

func TestSchemaAndValidateAgreeOnShares(t *testing.T) {
	agreeOnEach(t, "Application", map[any]bool{
		int64(0): true, int64(1): true, int64(1<<31 - 1): true, "0%": true, "00%": true, "7%": true, "50%": true, "100%": true,

		int64(-1): false, int64(-1 << 31): false, int64(1 << 31): false, int64(1 << 40): false, "": false, "1": false, "101%": false, "1000%": false,
		"-1%": false, "%": false, "50 %": false, "50%%": false, "50%\n": false, "half": false, "0.5%": false,
	}, func(value any) map[string]any {
		return application(map[string]any{"pdb": map[string]any{"minAvailable": value}})
	})
}

// Of the keys of annotations the schema knows less than Validate.
func TestKeysOfAnnotations(t *testing.T) {
	type accepted struct{ bySchema, byGo bool }
	server := servers(t)["Application"]
	for key, want := range map[string]accepted{
		"team": {true, true}, "1": {true, true}, "example.com/team": {true, true}, "Example.COM/Team.a_b-c": {true, true},
		strings.Repeat("x", 63): {true, true}, strings.Repeat("x", 253) + "/" + strings.Repeat("y", 63): {true, true},

		"": {}, " ": {}, "my team": {}, "-team": {}, "team-": {}, "_team": {}, "/team": {}, "team/": {}, "a//b": {}, "a/b/c": {}, "ä": {}, "team\n": {}, "a:b": {}, "a=b": {},
		strings.Repeat("x", 254) + "/" + strings.Repeat("y", 63): {},

		strings.Repeat("x", 64): {true, false}, "a..b/c": {true, false}, "a_b/c": {true, false}, "a./b": {true, false}, "a/-b": {true, false},
	} {
		for _, of := range []string{"service", "ingress"} {
			obj := application(map[string]any{of: map[string]any{"annotations": map[string]any{"first": "", key: "value"}}})
			if got := server.agree(t, obj); got != want.byGo {
				t.Errorf("%s: %q: accepted by Validate: %t, want %t", of, key, got, want.byGo)
			}
			admitted, err := server.admit(obj)
			if err != nil {
				t.Fatal(err)
			}
			if errs := server.create(admitted); (len(errs) == 0) != want.bySchema || len(errs) > 1 {
				t.Errorf("%s: %q: accepted by the schema: %t, want %t: %v", of, key, len(errs) == 0, want.bySchema, errs.ToAggregate())
			}
		}
	}
}

// How a quantity is written only the schema sees: what takes Go forever to decode,
// or cannot be decoded, must not come so far. Nothing but the schema looks at them
// here.
func TestQuantitiesThatMustNotReachGo(t *testing.T) {
	server := servers(t)["Application"]
	for resource, quantities := range map[string][]any{
		"cpu":    {"1e3", "1E3", "1e1.5", "1e-99999999", "1e99999999999", "-1e-9", "0." + strings.Repeat("0", 40) + "1", strings.Repeat("9", 1000), "lots", ""},
		"memory": {"1e-99999999", "1e99999999999", "64MB", "64 Mi"},
		// The others are whole numbers.
		"nvidia.com/gpu": {"1e3", "1e-99999999", "1k", "100m", "1.0", "-1", strings.Repeat("9", 1000)},
		"hugepages-2Mi":  {"1e-99999999", "64Mi"},
	} {
		for _, of := range []string{"limits", "requests"} {
			for _, quantity := range quantities {
				admitted, err := server.admit(application(map[string]any{"resources": map[string]any{of: map[string]any{resource: quantity}}}))
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				if errs := server.create(admitted); len(errs) != 1 {
					t.Errorf("%s.%s: %.50q: want one error, got %v", of, resource, quantity, errs.ToAggregate())
				}
				if took := time.Since(start); took > 5*time.Second {
					t.Errorf("%s.%s: %.50q: took %v", of, resource, quantity, took)
				}
			}
		}
	}
	divisor := func(value any) map[string]any {
		return application(map[string]any{"env": []any{map[string]any{"name": "A", "valueFrom": map[string]any{
			"resourceFieldRef": map[string]any{"resource": "limits.cpu", "divisor": value}}}}})
	}
	for _, value := range []any{"1e-99999999", "1000m", "2", int64(2), int64(-1)} {
		admitted, err := server.admit(divisor(value))
		if err != nil {
			t.Fatal(err)
		}
		if errs := server.create(admitted); len(errs) != 1 {
			t.Errorf("divisor %v: want one error, got %v", value, errs.ToAggregate())
		}
	}
}

// The largest lists with the longest names are within what a rule may cost when it
// runs.
func TestTheLargestListsAreTaken(t *testing.T) {
	var env, secrets []any
	for i := range 256 {
		env = append(env, map[string]any{"name": fmt.Sprintf("%s%03d", strings.Repeat("A", 125), i),
			"valueFrom": map[string]any{"fieldRef": map[string]any{"apiVersion": "v1", "fieldPath": "status.podIPs"}}})
	}
	for i := range 16 {
		secrets = append(secrets, map[string]any{"name": fmt.Sprintf("%s%03d", strings.Repeat("a", 250), i)})
	}
	annotations := map[string]any{}
	for i := range 64 {
		annotations[fmt.Sprintf("%s/%s%03d", strings.Repeat("a", 253), strings.Repeat("b", 60), i)] = ""
	}
	spec := map[string]any{"env": env, "imagePullSecrets": secrets,
		"service": map[string]any{"annotations": annotations}, "ingress": map[string]any{"annotations": annotations}}
	if !servers(t)["Application"].agree(t, application(spec)) {
		t.Error("they were refused")
	}
}

func TestSchemaAndValidateAgreeOnEveryApplication(t *testing.T) {
	agreeOnAll(t, "Application", generator.application)
}

func (g generator) application() map[string]any {
	spec := map[string]any{"image": g.bend(pick(g, "nginx", "nginx:1.27", "ghcr.io/owner/app:v1"), "A :/@\n-ü")}
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
		name := g.bend(pick(g, "MODE", "a.b-c", "_X1"), "1. =Ü")
		if !g.oneIn(10) {
			name = fmt.Sprintf("%s_%d", name, i) // Without it, they may be the same.
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
			from["configMapKeyRef"] = g.key()
		case 2, 3:
			from["secretKeyRef"] = g.key()
		case 4, 5:
			from["fieldRef"] = map[string]any{"apiVersion": pick(g, "", "v1", "v1", "v1", "v2"),
				"fieldPath": pick(g, "metadata.name", "status.podIP", "metadata.labels['a']", "metadata.annotations['a']", "spec.nodeName", "metadata.labels", "")}
		case 6, 7:
			ref := map[string]any{"resource": pick(g, "limits.cpu", "requests.memory", "limits.memory", "cpu")}
			if g.oneIn(2) {
				ref["divisor"] = pick[any](g, "1Mi", "1", "1k", int64(0), int64(1), "1m", "100m", int64(2))
			}
			from["resourceFieldRef"] = ref
		default:
			if g.oneIn(4) {
				from["fileKeyRef"] = map[string]any{"volumeName": "a", "path": "b", "key": "c"}
			}
		}
	}
	return from
}

func (g generator) key() map[string]any {
	ref := map[string]any{"name": pick(g, "settings", "settings", "settings", "settings", ""), "key": pick(g, "mode", "mode", "mode", "mode", "")}
	if g.oneIn(20) {
		delete(ref, pick(g, "name", "key"))
	}
	if g.oneIn(3) {
		ref["optional"] = g.oneIn(2)
	}
	return ref
}

func (g generator) envFrom() any {
	from := make([]any, 0, 2)
	for range 1 + g.IntN(2) {
		entry := map[string]any{}
		for range pick(g, 1, 1, 1, 1, 1, 0, 2) {
			entry[pick(g, "configMapRef", "secretRef")] = pick(g, map[string]any{"name": "settings"}, map[string]any{"name": "settings", "optional": true},
				map[string]any{"name": "passwords"}, map[string]any{"name": ""}, map[string]any{})
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
	for _, of := range []string{"limits", "requests"} {
		quantities := map[string]any{}
		for _, resource := range []struct {
			name   string
			values []any
		}{
			{"cpu", []any{"100m", "0.5", int64(1), "1", "2", "-100m", int64(-1), "-0", "plenty"}},
			{"memory", []any{"64Mi", "1Gi", "500M", int64(1 << 30), int64(0), "1E", "-64Mi", "64MB"}},
			{"ephemeral-storage", []any{"1Gi", "2Gi", "3000000000", "10G", "-1"}},
			{"nvidia.com/gpu", []any{int64(1), "1", "2", int64(0), int64(-1), "100m", "0.5"}},
		} {
			if g.oneIn(3) {
				quantities[resource.name] = pick(g, resource.values...)
			}
		}
		if g.oneIn(2) {
			resources[of] = quantities
		}
	}
	if g.oneIn(20) {
		resources["claims"] = pick(g, []any{}, []any{map[string]any{"name": "gpu"}})
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
		port := pick[any](g, int64(80), int64(65535), "http", int64(8080), "http", int64(8080), "http", int64(8080), int64(0), int64(65536), int64(1<<40), "80", "https", "")
		switch g.IntN(4) {
		case 0:
			get := map[string]any{"port": port}
			g.choice(get, "scheme", "HTTP", "HTTPS")
			probe["httpGet"] = get
		case 1:
			probe["tcpSocket"] = map[string]any{"port": port}
		case 2:
			rpc := map[string]any{"port": int64(80)}
			g.number(rpc, "port", 1, 65535)
			if rpc["port"] != nil && g.oneIn(2) {
				rpc["service"] = "health"
			}
			probe["grpc"] = rpc
		default:
			probe["exec"] = pick(g, map[string]any{"command": []any{"true"}}, map[string]any{"command": []any{"/bin/check", ""}},
				map[string]any{"command": []any{}}, map[string]any{})
		}
	}
	for _, name := range []string{"initialDelaySeconds", "timeoutSeconds", "periodSeconds", "failureThreshold"} {
		if g.oneIn(8) {
			g.number(probe, name, 0, 1<<31-1)
		}
	}
	if g.oneIn(8) {
		g.number(probe, "successThreshold", 0, 1)
	}
	if g.oneIn(8) {
		g.number(probe, "terminationGracePeriodSeconds", 1, 1<<40)
	}
	return probe
}

func (g generator) pullSecrets() any {
	secrets := make([]any, 0, 2)
	for i := range 1 + g.IntN(2) {
		name := g.bend(pick(g, "registry", "my.registry-2"), "R_ -.")
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
		{"className", g.bend(pick(g, "nginx", "traefik.internal"), "N_ -.")},
		{"host", g.bend(pick(g, "shop.example.com", "*.example.com", "10.0.0.1.nip.io"), "E_ -.*:/1")},
		{"path", g.bend(pick(g, "/", "/shop", "/a/b.c"), "/.%2F ?")},
	} {
		if text.value != "" && g.oneIn(3) { // "" is nothing to Go.
			ingress[text.name] = text.value
		}
	}
	if g.oneIn(4) {
		ingress["enabled"] = pick[any](g, true, false, nil)
	}
	if g.oneIn(4) {
		ingress["tls"] = pick(g, map[string]any{"secretName": g.bend("shop-tls", "T_ -.")}, map[string]any{"secretName": "shop.tls"}, map[string]any{})
	}
	if g.oneIn(3) {
		ingress["annotations"] = g.annotations()
	}
	return ingress
}

func (g generator) annotations() map[string]any {
	annotations := map[string]any{}
	for range 1 + g.IntN(3) {
		annotations[g.bend(pick(g, "team", "example.com/team", "cert-manager.io/issuer"), " /_-.T:")] = pick(g, "", "shop", "a\nb")
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
		budget[pick(g, "minAvailable", "maxUnavailable")] = pick[any](g, int64(0), int64(1), int64(10), "0%", "50%", "100%", nil, int64(-1), "101%", "1")
	}
	return budget
}
