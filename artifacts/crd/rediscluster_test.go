// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

func redisCluster(spec map[string]any) map[string]any {
	merged := map[string]any{"addr": "192.168.1.10:6379"}
	maps.Copy(merged, spec)
	return map[string]any{
		"apiVersion": "bytewang123-redis.wzj.kubebuilder.io/v1", "kind": "RedisCluster",
		"metadata": map[string]any{"name": "sample"},
		"spec":     runtime.DeepCopyJSON(merged),
	}
}

// stored returns a RedisCluster with storage.
func stored(storage map[string]any) map[string]any {
	return redisCluster(map[string]any{"storage": storage})
}

func TestSchemaAndValidateAgreeOnAddresses(t *testing.T) {
	agreeOnEach(t, "RedisCluster", map[string]bool{
		"192.168.1.10:6379": true, "0.0.0.0:1": true, "255.255.255.255:65535": true, "1.2.3.4:6": true, "[::1]:6379": true, "[::]:6379": true,
		"[2001:db8::1]:6379": true, "[2001:0DB8:0000:0000:0000:ff00:0042:8329]:6379": true, "[64:ff9b::1.2.3.4]:6379": true,

		"": false, " ": false, ":": false, "foo:bar": false, "foo": false, "1.2.3.4": false, "1.2.3.4:": false, ":6379": false, "6379": false,
		"1.2.3.4:0": false, "1.2.3.4:00": false, "1.2.3.4:06379": false, "1.2.3.4:65536": false, "1.2.3.4:70000": false, "1.2.3.4:99999": false,
		"1.2.3.4:100000": false, "1.2.3.4:99999999999999999999": false, "1.2.3.4:-1": false, "1.2.3.4:+1": false, "1.2.3.4:1e3": false,
		"1.2.3.4:redis": false, "1.2.3.4:6379 ": false, " 1.2.3.4:6379": false, "1.2.3.4 :6379": false,
		"1.2.3.4:6379\n": false, "1.2.3.4:6379:6379": false,
		"1.2.3:6379": false, "1.2.3.4.5:6379": false, "1.2.3.256:6379": false, "1.2.3.04:6379": false, "1..3.4:6379": false, ".:1": false,
		"0x1.2.3.4:6379": false, "16909060:6379": false, "redis.example.com:6379": false, "localhost:6379": false, "redis://1.2.3.4:6379": false,
		"::1:6379": false, "::1": false, "[::1]": false, "[::1]:": false, "[::1]6379": false,
		"[::1:6379": false, "::1]:6379": false, "[]:6379": false,
		"[1.2.3.4]:6379": false, "[::ffff:1.2.3.4]:6379": false, "[::ffff:0102:0304]:6379": false,
		"[fe80::1%eth0]:6379": false, "[fe80::1%]:6379": false,
		"[::g]:6379": false, "[1::2::3]:6379": false, "[::1]:0": false, "[::1]:65536": false, "[[::1]]:6379": false, "[::1]:6379]": false,
		"１.2.3.4:6379": false, "1.2.3.4:６379": false, "1.2.3.4:6379\x00": false,
		strings.Repeat("a", 996) + ":123": false, strings.Repeat("1", 1001): false,
	}, func(addr string) map[string]any { return redisCluster(map[string]any{"addr": addr}) })
}

// What kubectl prints is the seed's, to the letter, whichever side says it.
func TestAnAddrThatIsNotThereIsRefusedInTheWordsOfTheSeed(t *testing.T) {
	const words = `spec.addr: Invalid value: "": invalid ip port, ip:port`
	server, good := servers(t)["RedisCluster"], redisCluster(nil)
	lacking := func(fields ...string) map[string]any {
		obj := redisCluster(nil)
		unstructured.RemoveNestedField(obj, fields...)
		return obj
	}
	for name, test := range map[string]struct {
		object   map[string]any
		inSchema bool
	}{
		"an empty addr, by both":               {redisCluster(map[string]any{"addr": ""}), true},
		"a missing addr, by Validate alone":    {lacking("spec", "addr"), false},
		"a null, which is a missing one":       {redisCluster(map[string]any{"addr": nil}), false},
		"no spec, in which there is none":      {lacking("spec"), false},
		"an empty addr of a size to be raised": {redisCluster(map[string]any{"addr": "", "size": int64(3)}), true},
	} {
		t.Run(name, func(t *testing.T) {
			for verb, old := range map[string]map[string]any{"create": nil, "update": good} {
				_, errs := server.judge(t, test.object, old)
				if test.inSchema && (len(errs) != 1 || errs[0].Error() != words) || !test.inSchema && len(errs) > 0 {
					t.Errorf("%s: the schema says %v", verb, errs)
				}
				inGo, err := verdicts["RedisCluster"](test.object, old)
				if err != nil || len(inGo.errs) != 1 || inGo.errs[0].Error() != words {
					t.Errorf("%s: Validate says %v (%v), want %s", verb, inGo.errs, err, words)
				}
				server.agreeOnUpdate(t, test.object, old)
			}
		})
	}
}

func TestSchemaAndValidateAgreeOnSizes(t *testing.T) {
	agreeOnEach(t, "RedisCluster", map[int64]bool{
		0: true, 1: true, 3: true, 5: true, 6: true, 7: true, 499: true, 500: true,
		-1: true, -1 << 31: true, // Default raises them; without it, the API server refuses them.
		501: false, 1 << 31: false, -1<<31 - 1: false, 1 << 40: false,
	}, func(size int64) map[string]any { return redisCluster(map[string]any{"size": size}) })
	agreeOnEach(t, "RedisCluster", map[int64]bool{0: true, 1: true, 5: true, -1: false, 6: false, 1 << 31: false},
		func(replicas int64) map[string]any {
			return redisCluster(map[string]any{"replicasPerMaster": replicas})
		})
}

// Without a webhook nothing raises a size before the API server stores it: that is left to
// the controller. A negative one it does not store, since there is a scale subresource.
func TestTheSchemaTakesASizeThatIsTooSmallAsItIs(t *testing.T) {
	server := servers(t)["RedisCluster"]
	for size, want := range map[int64]string{
		3: "", 0: "", -1: ".spec.size: Invalid value: -1: should be a non-negative integer",
	} {
		admitted, errs := server.judge(t, redisCluster(map[string]any{"size": size}), nil)
		if (want == "") != (len(errs) == 0) || want != "" && errs[0].Error() != want {
			t.Errorf("%d: got %v, want %q", size, errs, want)
		}
		if got := admitted["spec"].(map[string]any)["size"]; got != size {
			t.Errorf("%d became %v", size, got)
		}
	}
}

func TestSchemaAndValidateAgreeOnImagesOfNodes(t *testing.T) {
	agreeOnEach(t, "RedisCluster", map[string]bool{
		"redis": true, "redis:7": true, "ghcr.io/owner/redis:7.2-alpine": true,
		"[::1]:5000/redis": true, "redis@sha256:" + strings.Repeat("a", 64): true, strings.Repeat("x", 1024): true,

		" ": false, "my redis": false, "Redis": false, "redis:": false, "redis\n": false,
		"https://redis": false, strings.Repeat("x", 1025): false,
	}, func(image string) map[string]any { return redisCluster(map[string]any{"image": image}) })
}

func TestSchemaAndValidateAgreeOnNamesOfRedisClusters(t *testing.T) {
	agreeOnEach(t, "RedisCluster", map[string]bool{
		"a": true, "sessions": true, "sessions-1": true, "a--b": true, strings.Repeat("x", 52): true,

		"": false, "1st": false, "sessions.a": false, "sessions-": false, "-sessions": false, "Sessions": false,
		"my_sessions": false, "sessions\n": false,
		"ü": false, strings.Repeat("x", 53): false, strings.Repeat("x", 63): false,
		strings.Repeat("x", 64): false, strings.Repeat("x", 254): false,
	}, func(name string) map[string]any {
		obj := redisCluster(nil)
		obj["metadata"] = map[string]any{"name": name}
		return obj
	})
}

func TestSchemaAndValidateAgreeOnNamesOfAClassAndASecret(t *testing.T) {
	names := map[string]bool{
		"standard": true, "fast.ssd-2": true, "1": true, "a--b": true, strings.Repeat("x", 253): true,

		"": false, " ": false, "Standard": false, "my_class": false, "a.": false, ".a": false, "a..b": false,
		"a-": false, "-a": false, "a/b": false, "a\n": false, "ü": false, strings.Repeat("x", 254): false,
	}
	t.Run("class", func(t *testing.T) {
		agreeOnEach(t, "RedisCluster", names, func(name string) map[string]any {
			return stored(map[string]any{"size": "1Gi", "storageClassName": name})
		})
	})
	t.Run("secret", func(t *testing.T) {
		agreeOnEach(t, "RedisCluster", names, func(name string) map[string]any {
			return redisCluster(map[string]any{"authSecretRef": map[string]any{"name": name}})
		})
	})
	t.Run("key", func(t *testing.T) {
		agreeOnEach(t, "RedisCluster", map[string]bool{
			"password": true, "a.B_c-1": true, ".password": true, "1": true, strings.Repeat("x", 253): true,

			" ": false, "my password": false, "a/b": false, "a=": false, "a\n": false, "ü": false, strings.Repeat("x", 254): false,
		}, func(key string) map[string]any {
			return redisCluster(map[string]any{"authSecretRef": map[string]any{"name": "redis-password", "key": key}})
		})
	})
}

func TestSchemaAndValidateAgreeOnDirectives(t *testing.T) {
	agreeOnEach(t, "RedisCluster", map[string]bool{
		"maxmemory": true, "maxmemory-policy": true, "save": true, "appendfsync": true, "hash-max-listpack-entries": true, "a1": true, "a-": true,
		"cluster-node-timeout": true, "cluster-require-full-coverage": true, "cluster-announce": true, "ports": true, "tls-cert-file": true,
		strings.Repeat("x", 64): true,

		// What the operator sets, or another field of spec.
		"aclfile": false, "appenddirname": false, "appendfilename": false, "appendonly": false, "bind": false, "bind-source-addr": false,
		"cluster-announce-": false, "cluster-announce-bus-port": false,
		"cluster-announce-hostname": false, "cluster-announce-human-nodename": false,
		"cluster-announce-ip": false, "cluster-announce-port": false, "cluster-announce-tls-port": false, "cluster-config-file": false,
		"cluster-enabled": false, "cluster-port": false, "cluster-replica-no-failover": false, "cluster-slave-no-failover": false,
		"daemonize": false, "dbfilename": false, "dir": false, "include": false, "loadmodule": false, "logfile": false, "masterauth": false,
		"masteruser": false, "pidfile": false, "port": false, "protected-mode": false, "rename-command": false, "replicaof": false,
		"requirepass": false, "slaveof": false, "supervised": false, "syslog-enabled": false, "tls-cluster": false, "tls-port": false,
		"tls-replication": false, "unixsocket": false, "user": false,

		// What is no directive.
		"": false, " ": false, "Port": false, "PORT": false, "maxMemory": false, "max_memory": false,
		"max memory": false, "-a": false, "1a": false,
		"port ": false, " port": false, "port\n": false, "save \"\"\nport": false, "#": false, "a.b": false, "ä": false, "a\x00": false,
		strings.Repeat("x", 65): false,
	}, func(key string) map[string]any {
		return redisCluster(map[string]any{"config": map[string]any{"maxclients": "100", key: "1"}})
	})
}

func TestSchemaAndValidateAgreeOnValuesOfDirectives(t *testing.T) {
	agreeOnEach(t, "RedisCluster", map[string]bool{
		"": true, " ": true, "100mb": true, "3600 1 300 100": true, `"quoted \" text"`: true, "# text": true,
		"ü宋": true, "\u00a0": true, "\u0085": true, "\u2028": true, strings.Repeat("x", 1024): true, strings.Repeat("宋", 1024): true,

		"\n": false, "1gb\nport 1": false, "1gb\r": false, "\t": false, "\x00": false, "\x1b": false, "\x1f": false, "\x7f": false,
		strings.Repeat("x", 1025): false, strings.Repeat("宋", 1025): false,
	}, func(value string) map[string]any {
		return redisCluster(map[string]any{"config": map[string]any{"maxmemory": value}})
	})
}

func TestSchemaAndValidateAgreeOnRequestsAndLimitsOfNodes(t *testing.T) {
	server := servers(t)["RedisCluster"]
	ascending := []any{"-1", int64(0), "100m", int64(1), "1k", "64Mi", "1Gi", int64(1<<30 + 1), "1E", "1e30"}
	for _, resource := range []string{"cpu", "memory", "ephemeral-storage", "example.com/device"} {
		for i, request := range ascending {
			for j, limit := range ascending {
				obj := redisCluster(map[string]any{"resources": map[string]any{
					"requests": map[string]any{resource: request}, "limits": map[string]any{resource: limit}}})
				if got, want := server.agree(t, obj), i <= j || resource == "example.com/device"; got != want {
					t.Errorf("%s: a request of %v with a limit of %v: accepted: %t, want %t", resource, request, limit, got, want)
				}
			}
		}
	}
}

func TestSchemaAndValidateAgreeOnTLS(t *testing.T) {
	tls := func(addr string, port int64, config ...string) map[string]any {
		directives := map[string]any{}
		for _, name := range config {
			directives[name] = "x"
		}
		return redisCluster(map[string]any{"addr": addr, "config": directives, "tls": map[string]any{
			"secretRef": map[string]any{"name": "redis-tls"}, "mode": "Required", "port": port,
		}})
	}
	server := servers(t)["RedisCluster"]
	for name, test := range map[string]struct {
		object map[string]any
		want   bool
	}{
		"another port":                          {tls("192.168.1.10:6379", 6380), true},
		"the port of addr":                      {tls("192.168.1.10:6379", 6379), false},
		"the port of the bus":                   {tls("192.168.1.10:6379", 16379), false},
		"the port of a bus that is lower":       {tls("192.168.1.10:60000", 50000), false},
		"10000 above a port with a lower bus":   {tls("192.168.1.10:60000", 60001), true},
		"less than a port":                      {tls("192.168.1.10:6379", -1), false},
		"beyond all ports":                      {tls("192.168.1.10:6379", 65536), false},
		"a directive that says how TLS is used": {tls("192.168.1.10:6379", 6380, "tls-protocols"), true},
		"a certificate in config":               {tls("192.168.1.10:6379", 6380, "tls-cert-file"), false},
		"another rule for clients in config":    {tls("192.168.1.10:6379", 6380, "tls-auth-clients"), false},
		"a certificate in config, without tls":  {redisCluster(map[string]any{"config": map[string]any{"tls-cert-file": "x"}}), true},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := server.judge(t, test.object, nil)
			if (len(errs) == 0) != test.want {
				t.Errorf("the schema says %v, want it accepted: %t", errs, test.want)
			}
			server.agreeOnUpdate(t, test.object, nil)
		})
	}
	agreeOnEach(t, "RedisCluster", map[string]bool{"Preferred": true, "Required": true, "required": false},
		func(mode string) map[string]any {
			return redisCluster(map[string]any{"tls": map[string]any{"secretRef": map[string]any{"name": "a"}, "mode": mode}})
		})
}

func TestSchemaAndValidateAgreeOnBackups(t *testing.T) {
	claim, bucket := map[string]any{"claimName": "backups"}, func(endpoint string) map[string]any {
		return map[string]any{"endpoint": endpoint, "bucket": "backups", "credentialsSecretRef": map[string]any{"name": "s3"}}
	}
	agreeOnEach(t, "RedisCluster", map[string]bool{
		"0 3 * * *": true, "*/10 * * * *": true, "@daily": true, "0 3 1,15 jan-mar mon": true, "0 24 * * *": false, "0 3 * *": false,
		"0 0 3 * * *": false, "@every 1h": false, "TZ=UTC 0 3 * * *": false, "": true, "0 3 5-1 * *": false, "0  3 * * *": true,
		" @daily":                              false,
		strings.Repeat("0,", 60) + "0 * * * *": false,
	}, func(schedule string) map[string]any {
		return redisCluster(map[string]any{"backup": map[string]any{"schedule": schedule, "persistentVolumeClaim": claim}})
	})
	agreeOnEach(t, "RedisCluster", map[string]bool{
		"https://s3.example.com": true, "http://10.0.0.1:9000": true, "https://[::1]:9000": true, "s3.example.com": false, "ftp://a": false,
		"https://": false, "https://a/b": false, "https://a:0": false, "https://a@b": false, "https://a\n": false, "https://a ": false,
		"https://" + strings.Repeat("a", 300): false,
	}, func(endpoint string) map[string]any {
		return redisCluster(map[string]any{"backup": map[string]any{"schedule": "@daily", "s3": bucket(endpoint)}})
	})
	agreeOnEach(t, "RedisCluster", map[string]bool{"latest": true, "20260301T030000Z": true, "20260301T0300Z": false, "newest": false},
		func(id string) map[string]any {
			return redisCluster(map[string]any{"restoreFrom": map[string]any{"backup": id, "persistentVolumeClaim": claim}})
		})
	server := servers(t)["RedisCluster"]
	for name, test := range map[string]struct {
		backup map[string]any
		want   bool
	}{
		"no store":    {map[string]any{"schedule": "@daily"}, false},
		"two stores":  {map[string]any{"schedule": "@daily", "persistentVolumeClaim": claim, "s3": bucket("https://a")}, false},
		"no schedule": {map[string]any{"persistentVolumeClaim": claim}, true},
		"too few":     {map[string]any{"schedule": "@daily", "persistentVolumeClaim": claim, "retention": int64(0)}, false},
		"too many":    {map[string]any{"schedule": "@daily", "persistentVolumeClaim": claim, "retention": int64(1001)}, false},
		"as many":     {map[string]any{"schedule": "@daily", "persistentVolumeClaim": claim, "retention": int64(1000)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := server.agree(t, redisCluster(map[string]any{"backup": test.backup})); got != test.want {
				t.Errorf("accepted: %t, want %t", got, test.want)
			}
		})
	}
}

func TestSchemaAndValidateAgreeOnChangesOfARestore(t *testing.T) {
	server := servers(t)["RedisCluster"]
	from := func(backup string) map[string]any {
		return redisCluster(map[string]any{
			"restoreFrom": map[string]any{"backup": backup, "persistentVolumeClaim": map[string]any{"claimName": "backups"}},
		})
	}
	none := redisCluster(nil)
	for name, test := range map[string]struct {
		old, now map[string]any
		want     bool
	}{
		"it is set at the creation": {nil, from("latest"), true},
		"it stays":                  {from("latest"), from("latest"), true},
		"it is removed":             {from("latest"), none, true},
		"it is added":               {none, from("latest"), false},
		"it changes":                {from("latest"), from("20260301T030000Z"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := server.agreeOnUpdate(t, test.now, test.old); got != test.want {
				t.Errorf("accepted: %t, want %t", got, test.want)
			}
		})
	}
}

func TestSchemaAndValidateAgreeOnAccess(t *testing.T) {
	opened := func(external map[string]any) map[string]any {
		return redisCluster(map[string]any{"access": map[string]any{"service": map[string]any{}, "external": external}})
	}
	hosts := func(of string, ips ...string) map[string]any {
		var list []any
		for i, ip := range ips {
			list = append(list, map[string]any{"name": fmt.Sprintf("machine-%d", i), "ip": ip})
		}
		return opened(map[string]any{"type": of, "hosts": list})
	}
	ranges := func(of string, networks ...any) map[string]any {
		return opened(map[string]any{"type": of, "loadBalancerSourceRanges": slices.Concat([]any{}, networks)})
	}
	named := func(of, hostname string) map[string]any {
		return opened(map[string]any{"type": of, "hostname": hostname})
	}
	preferring := func(object map[string]any) map[string]any {
		object["spec"].(map[string]any)["config"] = map[string]any{"cluster-preferred-endpoint-type": "hostname"}
		return object
	}
	secured := opened(map[string]any{"type": "NodePort"})
	secured["spec"].(map[string]any)["tls"] = map[string]any{"secretRef": map[string]any{"name": "redis-tls"}}
	server := servers(t)["RedisCluster"]
	for name, test := range map[string]struct {
		object map[string]any
		want   bool
	}{
		"ports of machines":              {opened(map[string]any{"type": "NodePort"}), true},
		"load balancers":                 {opened(map[string]any{"type": "LoadBalancer"}), true},
		"no type":                        {opened(map[string]any{}), false},
		"another type":                   {opened(map[string]any{"type": "ExternalName"}), false},
		"IPs of machines":                {hosts("NodePort", "192.0.2.7", "2001:db8::7"), true},
		"an IP with leading zeros":       {hosts("NodePort", "192.0.2.07"), false},
		"an IP with a zone":              {hosts("NodePort", "fe80::1%eth0"), false},
		"IPv4 in IPv6":                   {hosts("NodePort", "::ffff:192.0.2.7"), false},
		"the name of a machine":          {hosts("NodePort", "machine-1"), false},
		"IPs of machines of balancers":   {hosts("LoadBalancer", "192.0.2.7"), false},
		"no IPs of machines of one":      {hosts("LoadBalancer"), true},
		"with TLS":                       {secured, true},
		"networks":                       {ranges("LoadBalancer", "192.0.2.0/24", "192.0.2.7/8", "2001:db8::/32"), true},
		"no networks":                    {ranges("NodePort"), true},
		"hostnames":                      {named("LoadBalancer", "{pod}.redis.example.com"), true},
		"hostnames with {pod} twice":     {named("LoadBalancer", "{pod}.{pod}-x.example.com"), false},
		"hostnames of machines":          {named("NodePort", "{pod}.redis.example.com"), false},
		"no hostnames of machines":       {named("NodePort", ""), true},
		"one hostname for all":           {named("LoadBalancer", "redis.example.com"), false},
		"hostnames in upper case":        {named("LoadBalancer", "{pod}.Redis.example.com"), false},
		"hostnames with a port":          {named("LoadBalancer", "{pod}.example.com:6379"), false},
		"hostnames with a newline":       {named("LoadBalancer", "{pod}.example.com\n"), false},
		"the longest hostname":           {named("LoadBalancer", "{pod}."+strings.Repeat("a.", 92)), false},
		"the longest hostname of a name": {named("LoadBalancer", "{pod}."+strings.Repeat("a.", 91)+"ab"), true},
		"a longer hostname":              {named("LoadBalancer", "{pod}."+strings.Repeat("a.", 91)+"abc"), false},
		"hostnames, and a directive":     {preferring(named("LoadBalancer", "{pod}.example.com")), false},
		"no hostnames, and a directive":  {preferring(named("LoadBalancer", "")), true},
		"a directive without access":     {preferring(redisCluster(map[string]any{})), true},
		"networks of machines":           {ranges("NodePort", "192.0.2.0/24"), false},
		"a network twice":                {ranges("LoadBalancer", "192.0.2.0/24", "192.0.2.0/24"), false},
		"an IP for a network":            {ranges("LoadBalancer", "192.0.2.0"), false},
		"a network with leading zeros":   {ranges("LoadBalancer", "192.0.2.0/024"), false},
		"a network of IPv4 in IPv6":      {ranges("LoadBalancer", "::ffff:192.0.2.0/120"), false},
		"a network with spaces":          {ranges("LoadBalancer", " 192.0.2.0/24"), false},
		"a Service for clients, and TLS": {redisCluster(map[string]any{"access": map[string]any{"service": map[string]any{}}}), true},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := server.judge(t, test.object, nil)
			if (len(errs) == 0) != test.want {
				t.Errorf("the schema says %v, want it accepted: %t", errs, test.want)
			}
			server.agreeOnUpdate(t, test.object, nil)
		})
	}
}

// No client can parse the first of the quantities, and the second takes minutes. An object
// that has one would stop the informers of all, and it must not stop the API server either:
// rules compare quantities.
func TestTheSchemaRefusesSizesOfVolumesThatClientsCannotRead(t *testing.T) {
	server := servers(t)["RedisCluster"]
	for size, accepted := range map[any]bool{
		"1e1.5": false, "1e-99999999": false, "1e+99999999": false, "1E99999999999": false, "1e-009": false,
		"1e.5": false, "64MB": false, "": false,
		"a lot": false, "0": false, "-1Gi": false, "-0": false, "0e9": false, int64(0): false, int64(-1): false,
		"1e3": true, "1Gi": true, "1.5Gi": true, "+1": true, "1e-9": true, "1E+99": true, "1E": true, "1Ei": true, int64(1 << 30): true,
		strings.Repeat("9", 1000): true,
	} {
		obj, good := stored(map[string]any{"size": size}), stored(map[string]any{"size": "1n"})
		admitted, errs := server.judge(t, obj, nil)
		if (len(errs) == 0) != accepted {
			t.Errorf("%.50v: accepted: %t, want %t: %v", size, len(errs) == 0, accepted, errs)
		}
		if _, errs := server.judge(t, obj, good); (len(errs) == 0) != accepted {
			t.Errorf("%.50v in the place of another: accepted: %t, want %t: %v", size, len(errs) == 0, accepted, errs)
		}
		// If there ever was such an object, it can be put right.
		old := admitted
		admitted, err := server.admit(good)
		if err != nil {
			t.Fatal(err)
		}
		if errs := server.update(admitted, old); !accepted && len(errs) > 0 {
			t.Errorf("another in the place of %.50v: %v", size, errs)
		}
	}
}

func TestSchemaAndValidateAgreeOnChangesOfStorage(t *testing.T) {
	server := servers(t)["RedisCluster"]
	none := redisCluster(nil)
	of := func(size any, class ...string) map[string]any {
		storage := map[string]any{"size": size}
		for _, name := range class {
			storage["storageClassName"] = name
		}
		return stored(storage)
	}
	for name, test := range map[string]struct {
		old, obj map[string]any
		want     bool
	}{
		"none stays none":               {none, none, true},
		"it stays as it is":             {of("1Gi", "a"), of("1Gi", "a"), true},
		"it is added":                   {none, of("1Gi"), false},
		"it is taken away":              {of("1Gi"), none, false},
		"it is taken away by a null":    {of("1Gi"), redisCluster(map[string]any{"storage": nil}), false},
		"none becomes a null":           {none, redisCluster(map[string]any{"storage": nil}), true},
		"it grows":                      {of("1Gi"), of("1025Mi"), true},
		"it grows, in other units":      {of("1G"), of("1Gi"), true},
		"it is the same in other units": {of("1Gi"), of(int64(1 << 30)), true},
		"it shrinks":                    {of("1Gi"), of("1023Mi"), false},
		"it shrinks, in other units":    {of("1Gi"), of("1G"), false},
		"it shrinks by one byte":        {of(int64(1 << 30)), of(int64(1<<30 - 1)), false},
		"it shrinks by an exponent":     {of("1e3"), of("999"), false},
		"it shrinks to nothing":         {of("1Gi"), of("0"), false},
		"the class changes":             {of("1Gi", "a"), of("1Gi", "b"), false},
		"a class is said":               {of("1Gi"), of("1Gi", "a"), false},
		"a class is left out":           {of("1Gi", "a"), of("1Gi"), false},
		"the class changes to none":     {of("1Gi", "a"), of("1Gi", ""), false},
		"it grows, and the class stays": {of("1Gi", "a"), of("2Gi", "a"), true},
		"both change":                   {of("1Gi", "a"), of("1Mi", "b"), false},
		"all else changes": {of("1Gi"), func() map[string]any {
			obj := of("1Gi")
			maps.Copy(obj["spec"].(map[string]any), map[string]any{"addr": "[::1]:1", "size": int64(9),
				"replicasPerMaster": int64(2), "image": "redis:8",
				"resources": map[string]any{}, "config": map[string]any{}, "authSecretRef": map[string]any{"name": "a"}})
			return obj
		}(), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := server.agreeOnUpdate(t, test.obj, test.old); got != test.want {
				t.Errorf("accepted: %t, want %t", got, test.want)
			}
		})
	}
}

func TestSchemaAndValidateAgreeOnPodTemplates(t *testing.T) {
	named := func(n int) (list []any) {
		for i := range n {
			list = append(list, map[string]any{"name": fmt.Sprint("n", i)})
		}
		return list
	}
	server := servers(t)["RedisCluster"]
	for field, most := range map[string]int{"containers": 16, "initContainers": 16, "volumes": 32, "env": 100, "imagePullSecrets": 16} {
		for _, n := range []int{0, most, most + 1} {
			accepted := server.agree(t, redisCluster(map[string]any{"podTemplate": map[string]any{field: named(n)}}))
			if accepted != (n <= most) {
				t.Errorf("%d of %s: accepted: %t", n, field, accepted)
			}
		}
	}
}

// The largest config is within what its rules may cost when they run. One more directive
// is too many.
func TestSchemaAndValidateAgreeOnTheLargestConfig(t *testing.T) {
	server := servers(t)["RedisCluster"]
	for more, want := range []bool{true, false} {
		config := map[string]any{}
		for i := range 64 + more {
			config[fmt.Sprintf("%s%03d", strings.Repeat("a", 61), i)] = strings.Repeat("宋", 1024)
		}
		if got := server.agree(t, redisCluster(map[string]any{"config": config})); got != want {
			t.Errorf("%d directives: accepted: %t, want %t", len(config), got, want)
		}
	}
}

func TestSchemaAndValidateAgreeOnEveryRedisCluster(t *testing.T) {
	agreeOnAll(t, "RedisCluster", generator.redisCluster)
}

func TestSchemaAndValidateAgreeOnEveryChangeOfARedisCluster(t *testing.T) {
	server := servers(t)["RedisCluster"]
	g := generator{rand.New(rand.NewPCG(1, 2))}
	accepted, refused := 0, 0
	for accepted+refused < 1000 && !t.Failed() {
		old := g.redisCluster()
		if _, errs := server.judge(t, old, nil); len(errs) > 0 {
			continue
		}
		obj := g.redisCluster()
		if server.agreeOnUpdate(t, obj, old) {
			accepted++
		} else {
			refused++
		}
	}
	t.Logf("%d were accepted, %d refused", accepted, refused)
	if accepted < 200 || refused < 200 {
		t.Error("the generator should give some of both")
	}
}

func (g generator) redisCluster() map[string]any {
	spec := map[string]any{
		"addr": g.mutate(pick(g, "192.168.1.10:6379", "10.0.0.1:7000", "[::1]:6379", "[2001:db8::1]:65535"), "0159.:[]f %\n-ü"),
	}
	g.number(spec, "size", 0, 500)
	g.number(spec, "replicasPerMaster", 0, 5)
	if g.oneIn(2) {
		spec["image"] = g.mutate(pick(g, "redis", "redis:7", "ghcr.io/owner/redis:7.2"), "A :/@\n-ü")
	}
	for _, part := range []struct {
		name  string
		value any
	}{
		{"storage", g.storage()}, {"resources", g.resources()}, {"config", g.config()}, {"authSecretRef", g.secretKey()},
		{"tls", g.tls()}, {"backup", g.backup()}, {"access", g.access()},
		{"podTemplate", g.podTemplate()}, {"networkPolicy", g.networkPolicy()},
	} {
		if g.oneIn(6) {
			spec[part.name] = part.value
		}
	}
	if g.oneIn(8) {
		spec["restoreFrom"] = map[string]any{
			"name": g.mutate(pick(g, "other", "sessions"), "A_/\n.-"), "namespace": pick(g, "shop", "shop", "shop_a", ""),
			"backup":                pick(g, "latest", "20260301T030000Z", "20260301", "Latest"),
			"persistentVolumeClaim": map[string]any{"claimName": "backups"},
		}
	}
	obj := redisCluster(spec)
	switch g.IntN(40) {
	case 0:
		obj["spec"].(map[string]any)["addr"] = pick[any](g, nil, "")
	case 1:
		delete(obj, "spec")
	case 2:
		obj["metadata"].(map[string]any)["name"] = pick(g, "a.b", "1a", "A", strings.Repeat("x", 52), strings.Repeat("x", 53))
	}
	return obj
}

func (g generator) backup() any {
	backup := map[string]any{"schedule": g.mutate(pick(g, "0 3 * * *", "@daily", "*/5 1-7 ? jan-mar mon,sun", "0 0 30 2 *"), "0@/-, \nü")}
	if g.oneIn(2) {
		backup["retention"] = pick[any](g, int64(1), int64(7), int64(1000), int64(0), int64(1001))
	}
	if g.oneIn(2) {
		backup["persistentVolumeClaim"] = map[string]any{"claimName": g.mutate(pick(g, "backups", "backups.a"), "A_/\n.-")}
	}
	if g.oneIn(2) {
		backup["s3"] = map[string]any{
			"endpoint": g.mutate(pick(g, "https://s3.example.com", "http://10.0.0.1:9000", "https://[::1]:9000"), "A/:[ \nü"),
			"bucket":   g.mutate(pick(g, "redis-backups", "a.b"), "A_/\n.-"), "prefix": g.mutate(pick(g, "a/b", "production"), "A_/ \n.-"),
			"region": g.mutate(pick(g, "eu-central-1", "local"), "A_/\n.-"), "credentialsSecretRef": map[string]any{"name": pick(g, "s3", "S3")},
		}
	}
	return backup
}

func (g generator) tls() any {
	tls := map[string]any{"secretRef": map[string]any{"name": g.mutate(pick(g, "redis-tls", "tls.a"), "A_/\n.-")}}
	if g.oneIn(2) {
		tls["mode"] = pick[any](g, "Preferred", "Required", "Preferred", "Required", "required", nil)
	}
	if g.oneIn(2) {
		tls["port"] = pick[any](g, int64(6380), int64(7443), int64(6379), int64(16379), int64(17000), int64(55535), int64(-1), int64(65536))
	}
	if g.oneIn(20) {
		delete(tls, pick(g, "secretRef", "mode"))
	}
	return tls
}

func (g generator) access() any {
	external := map[string]any{"type": pick(g, "NodePort", "NodePort", "LoadBalancer", "ClusterIP")}
	if g.oneIn(2) {
		external["hosts"] = []any{map[string]any{"name": "machine-1", "ip": g.mutate(pick(g, "192.0.2.7", "2001:db8::7"), "0.:g% ")}}
	}
	if g.oneIn(4) {
		external["loadBalancerSourceRanges"] = []any{g.mutate(pick(g, "192.0.2.0/24", "2001:db8::/32"), "0./:3 ")}
	}
	if g.oneIn(4) {
		external["hostname"] = g.mutate(pick(g, "{pod}.example.com", "redis-{pod}.example.com", "redis.example.com"), "{}.-pA")
	}
	if g.oneIn(4) {
		external["annotations"] = map[string]any{"a": "b"}
	}
	access := map[string]any{}
	if !g.oneIn(4) {
		access["external"] = external
	}
	if g.oneIn(2) {
		access["service"] = map[string]any{"annotations": map[string]any{"a": "b"}}
	}
	return access
}

func (g generator) storage() any {
	storage := map[string]any{"size": pick[any](g, "1Gi", "1G", int64(1<<30), "10Gi", "500M", "1e9", "0", "-1Gi", "64MB")}
	if g.oneIn(2) {
		storage["storageClassName"] = pick[any](g, "standard", "standard", "fast.ssd", g.mutate("standard", "S_ -."), "", nil)
	}
	if g.oneIn(20) {
		delete(storage, "size")
	}
	return storage
}

func (g generator) config() any {
	config := map[string]any{}
	for range 1 + g.IntN(3) {
		key := g.mutate(pick(g, "maxmemory", "maxmemory-policy", "save", "appendfsync", "cluster-node-timeout"), "M_ -.1\n")
		if g.oneIn(20) {
			key = pick(g, "port", "requirepass", "cluster-announce-ip", "appendonly")
		}
		config[key] = g.mutate(pick(g, "100mb", "allkeys-lru", "3600 1", "5000"), "\n\t\x7f ü")
	}
	return config
}

func (g generator) podTemplate() any {
	template := map[string]any{}
	named := func(names ...string) []any {
		var list []any
		for range 1 + g.IntN(2) {
			list = append(list, map[string]any{"name": pick(g, names...)})
		}
		return list
	}
	for name, value := range map[string]any{
		"labels":           map[string]any{pick(g, "team", "app", "app.kubernetes.io/name", "app.kubernetes.io/part-of"): "shop"},
		"annotations":      map[string]any{pick(g, "app", "bytewang123-redis.wzj.kubebuilder.io/revision"): "1"},
		"securityContext":  map[string]any{},
		"imagePullSecrets": named("registry", "mirror", ""),
		"containers":       named("exporter", "proxy", "shipper", "redis"),
		"initContainers":   named("init", "fetch", "tune", "redis"),
		"volumes":          named("cache", "certificates", "data"),
		"env":              named("TZ", "LANG", "POD_IP", "GLASSBACK_AUTH"),
	} {
		if g.oneIn(4) {
			template[name] = value
		}
	}
	return template
}

func (g generator) networkPolicy() any {
	policy, peers := map[string]any{}, []any{}
	for range g.IntN(35) {
		peer := map[string]any{}
		for name, value := range map[string]any{
			"podSelector":       map[string]any{"matchLabels": map[string]any{"team": "shop"}},
			"namespaceSelector": map[string]any{}, "ipBlock": map[string]any{"cidr": "10.0.0.0/8"},
		} {
			if oftenAlone := name == "podSelector"; oftenAlone != g.oneIn(40) {
				peer[name] = value
			}
		}
		peers = append(peers, peer)
	}
	if g.oneIn(2) {
		policy["from"] = peers
	}
	if g.oneIn(2) {
		policy["ingress"] = slices.Repeat([]any{map[string]any{"ports": []any{map[string]any{"port": int64(9121)}}}}, g.IntN(20))
	}
	return policy
}

func (g generator) secretKey() any {
	ref := map[string]any{"name": g.mutate("redis-password", "P_ -.")}
	if g.oneIn(2) {
		ref["key"] = g.mutate("password", "P_ -./")
	}
	if g.oneIn(20) {
		delete(ref, "name")
	}
	return ref
}

func TestTheSchemaRefusesResourcesOfNodesThatClientsCannotRead(t *testing.T) {
	server := servers(t)["RedisCluster"]
	for quantity, accepted := range map[string]bool{
		"1e1.5": false, "1e-99999999": false, "1e+99999999": false, "64MB": false, "1e3": true, "250m": true,
	} {
		for _, resource := range []string{"cpu", "example.com/device"} {
			quantities := map[string]any{resource: quantity}
			_, errs := server.judge(t, redisCluster(map[string]any{"resources": map[string]any{"limits": quantities, "requests": quantities}}), nil)
			if (len(errs) == 0) != accepted {
				t.Errorf("%s: %s: accepted: %t, want %t: %v", resource, quantity, len(errs) == 0, accepted, errs)
			}
		}
	}
}
