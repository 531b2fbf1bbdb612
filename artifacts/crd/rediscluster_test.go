// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/glassback/glassback/pkg/must"
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
			}
		})
	}
}

func TestFieldsOfRedisClusters(t *testing.T) {
	const kind = "RedisCluster"
	acceptsOnly(t, kind, "addr", map[string]bool{
		"0.0.0.0:1": true, "255.255.255.255:65535": true, "1.2.3.4:6": true, "[::1]:6379": true, "[::]:6379": true,
		"[2001:0DB8:0000:0000:0000:ff00:0042:8329]:6379": true, "[64:ff9b::1.2.3.4]:6379": true,

		" ": false, ":": false, "foo": false, "1.2.3.4:": false, ":6379": false, "6379": false, "1.2.3.4:00": false, "1.2.3.4:65536": false,
		"1.2.3.4:99999999999999999999": false, "1.2.3.4:-1": false, "1.2.3.4:+1": false, "1.2.3.4:1e3": false, "1.2.3.4:redis": false,
		"1.2.3.4:6379 ": false, " 1.2.3.4:6379": false, "1.2.3.4:6379\n": false, "1.2.3.4:6379:6379": false, "1.2.3:6379": false,
		"1.2.3.4.5:6379": false, "1.2.3.256:6379": false, "1.2.3.04:6379": false, "1..3.4:6379": false, ".:1": false,
		"0x1.2.3.4:6379": false, "16909060:6379": false, "redis://1.2.3.4:6379": false, "[::1]": false, "[::1]:": false,
		"[::1]6379": false, "[::1:6379": false, "::1]:6379": false, "[]:6379": false, "[1.2.3.4]:6379": false,
		"[::ffff:0102:0304]:6379": false, "[fe80::1%]:6379": false, "[::g]:6379": false, "[1::2::3]:6379": false, "[::1]:0": false,
		"[[::1]]:6379": false, "[::1]:6379]": false, "１.2.3.4:6379": false, "1.2.3.4:６379": false, "1.2.3.4:6379\x00": false,
		strings.Repeat("1", 1001): false,
	}, func(addr string) map[string]any { return redisCluster(map[string]any{"addr": addr}) })
	acceptsOnly(t, kind, "size", map[int64]bool{
		0: true, 5: true, 6: true, 7: true, 500: true, // The first two are raised.
		-1: false, 501: false, 1 << 31: false, -1<<31 - 1: false, 1 << 40: false,
	}, func(size int64) map[string]any { return redisCluster(map[string]any{"size": size}) })
	acceptsOnly(t, kind, "replicasPerMaster", map[int64]bool{0: true, 5: true, -1: false, 6: false, 1 << 31: false},
		func(replicas int64) map[string]any {
			return redisCluster(map[string]any{"replicasPerMaster": replicas})
		})
	// The pattern is an Application's.
	acceptsOnly(t, kind, "image", map[string]bool{strings.Repeat("x", 1024): true, "redis:": false, strings.Repeat("x", 1025): false},
		func(image string) map[string]any { return redisCluster(map[string]any{"image": image}) })
	acceptsOnly(t, kind, "name", map[string]bool{
		"a": true, "sessions-1": true, "a--b": true, strings.Repeat("x", 52): true,

		"": false, "sessions-": false, "-sessions": false, "Sessions": false, "my_sessions": false, "sessions\n": false, "ü": false,
		strings.Repeat("x", 53): false, strings.Repeat("x", 64): false, strings.Repeat("x", 254): false,
	}, func(name string) map[string]any {
		obj := redisCluster(nil)
		obj["metadata"] = map[string]any{"name": name}
		return obj
	})
	acceptsOnly(t, kind, "storageClassName", objectNames, func(name string) map[string]any {
		return stored(map[string]any{"size": "1Gi", "storageClassName": name})
	})
	acceptsOnly(t, kind, "authSecretRef", objectNames, func(name string) map[string]any {
		return redisCluster(map[string]any{"authSecretRef": map[string]any{"name": name}})
	})
	acceptsOnly(t, kind, "authSecretRef.key", map[string]bool{
		"a.B_c-1": true, ".password": true, strings.Repeat("x", 253): true,
		" ": false, "a/b": false, "a=": false, "a\n": false, "ü": false, strings.Repeat("x", 254): false,
	}, func(key string) map[string]any {
		return redisCluster(map[string]any{"authSecretRef": map[string]any{"name": "redis-password", "key": key}})
	})
	acceptsOnly(t, kind, "users.rules", map[string]bool{
		"off": true, "off ~app:* %R~other:* &app:* +@all -@dangerous +config|get (~x +get)": true, "nopass allkeys +@read": true,

		"": false, "~* +@all": false, "off >secret": false, "off #00": false, "off reset": false, "off  ~*": false,
		"off (~a +get": false, "off (~a (+get) +set)": false, "off ~a\n+@all": false,
	}, func(rules string) map[string]any {
		return redisCluster(map[string]any{"users": []any{map[string]any{"name": "default", "rules": rules}}})
	})
	acceptsOnly(t, kind, "config", map[string]bool{
		"maxmemory-policy": true, "a1": true, "a-": true, "cluster-node-timeout": true, "cluster-announce": true, "ports": true,
		"tls-cert-file": true, strings.Repeat("x", 64): true,

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
		"": false, " ": false, "PORT": false, "maxMemory": false, "max_memory": false, "max memory": false, "-a": false, "1a": false,
		"port ": false, " port": false, "port\n": false, "save \"\"\nport": false, "#": false, "a.b": false, "ä": false, "a\x00": false,
		strings.Repeat("x", 65): false,
	}, func(key string) map[string]any {
		return redisCluster(map[string]any{"config": map[string]any{"maxclients": "100", key: "1"}})
	})
	acceptsOnly(t, kind, "config.value", map[string]bool{
		"": true, " ": true, "3600 1 300 100": true, `"quoted \" text"`: true, "# text": true, "\u00a0": true, "\u0085": true, "\u2028": true,
		strings.Repeat("宋", 1024): true,

		"\n": false, "1gb\nport 1": false, "1gb\r": false, "\t": false, "\x00": false, "\x1b": false, "\x7f": false,
		strings.Repeat("x", 1025): false, strings.Repeat("宋", 1025): false,
	}, func(value string) map[string]any {
		return redisCluster(map[string]any{"config": map[string]any{"maxmemory": value}})
	})
	acceptsOnly(t, kind, "config.tls-protocols", map[string]bool{
		"": true, "TLSv1.2": true, "tlsv1.1 tlsv1.3": true, "TLSv1.1": false, "TLSv1": false, " ": false,
	}, func(value string) map[string]any {
		return redisCluster(map[string]any{"config": map[string]any{"tls-protocols": value}})
	})
	acceptsOnly(t, kind, "config.maxclients of 100 Pods", map[string]bool{
		"232": true, "10000": true, "0000000001": true, "-1": true, "many": true, "231": false, "99": false, "0": false,
	}, func(value string) map[string]any {
		return redisCluster(map[string]any{"size": int64(100), "config": map[string]any{"maxclients": value}})
	})
	acceptsOnly(t, kind, "config.maxclients of 2 Pods", map[string]bool{"100": true, "99": false}, func(value string) map[string]any {
		return redisCluster(map[string]any{"size": int64(2), "config": map[string]any{"maxclients": value}})
	})
	claim := map[string]any{"claimName": "backups"}
	acceptsOnly(t, kind, "backup.schedule", map[string]bool{
		"*/10 * * * *": true, "@daily": true, "0 3 1,15 jan-mar mon": true, "": true, "0  3 * * *": true,
		"0 24 * * *": false, "0 3 * *": false, "0 0 3 * * *": false, "@every 1h": false, "TZ=UTC 0 3 * * *": false, "0 3 5-1 * *": false,
		" @daily": false, strings.Repeat("0,", 60) + "0 * * * *": false,
	}, func(schedule string) map[string]any {
		return redisCluster(map[string]any{"backup": map[string]any{"schedule": schedule, "persistentVolumeClaim": claim}})
	})
	acceptsOnly(t, kind, "backup.s3.endpoint", map[string]bool{
		"https://s3.example.com": true, "http://10.0.0.1:9000": true, "https://[::1]:9000": true, "ftp://a": false, "https://": false,
		"https://a/b": false, "https://a:0": false, "https://a@b": false, "https://a\n": false, "https://a ": false,
		"https://" + strings.Repeat("a", 300): false,
	}, func(endpoint string) map[string]any {
		s3 := map[string]any{"endpoint": endpoint, "bucket": "backups", "credentialsSecretRef": map[string]any{"name": "s3"}}
		return redisCluster(map[string]any{"backup": map[string]any{"schedule": "@daily", "s3": s3}})
	})
	acceptsOnly(t, kind, "restoreFrom.backup", map[string]bool{
		"latest": true, "20260301T030000Z": true, "20260301T0300Z": false, "newest": false,
	}, func(id string) map[string]any {
		return redisCluster(map[string]any{"restoreFrom": map[string]any{"backup": id, "persistentVolumeClaim": claim}})
	})
}

// A stored object without TLS may have the volume, and must go on.
func TestTheSchemaReservesTheVolumeOfCertificates(t *testing.T) {
	server := servers(t)["RedisCluster"]
	volumes := map[string]any{"volumes": []any{map[string]any{"name": "glassback-tls", "emptyDir": map[string]any{}}}}
	obj := redisCluster(map[string]any{"podTemplate": volumes})
	old, errs := server.judge(t, obj, nil)
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "cannot have the name of a volume of the operator") {
		t.Errorf("got %v", errs)
	}
	labelled := map[string]any{"labels": map[string]any{"team": "shop"}, "volumes": volumes["volumes"]}
	for _, spec := range []map[string]any{{"podTemplate": volumes, "size": int64(9)}, {"podTemplate": labelled}} {
		if errs := server.update(redisCluster(spec), old); len(errs) > 0 {
			t.Errorf("an update of a stored object with %v: %v", spec, errs)
		}
	}
}

// TestFieldsOfRedisClustersThatDependOnOthers is about TLS, backups and access from outside.
func TestFieldsOfRedisClustersThatDependOnOthers(t *testing.T) {
	tls := func(addr string, port int64, config ...string) map[string]any {
		directives := map[string]any{}
		for _, name := range config {
			directives[name] = "x"
		}
		return redisCluster(map[string]any{"addr": addr, "config": directives, "tls": map[string]any{
			"secretRef": map[string]any{"name": "redis-tls"}, "mode": "Required", "port": port,
		}})
	}
	backup := func(retention int64, stores ...string) map[string]any {
		s3 := map[string]any{"endpoint": "https://a", "bucket": "backups", "credentialsSecretRef": map[string]any{"name": "s3"}}
		all := map[string]any{"persistentVolumeClaim": map[string]any{"claimName": "backups"}, "s3": s3}
		spec := map[string]any{"retention": retention}
		for _, store := range stores {
			spec[store] = all[store]
		}
		return redisCluster(map[string]any{"backup": spec})
	}
	opened := func(of, field string, value any) map[string]any {
		return redisCluster(map[string]any{"access": map[string]any{"external": map[string]any{"type": of, field: value}}})
	}
	hosts := func(of string, ips ...string) map[string]any {
		var list []any
		for i, ip := range ips {
			list = append(list, map[string]any{"name": fmt.Sprintf("machine-%d", i), "ip": ip})
		}
		return opened(of, "hosts", list)
	}
	ranges := func(of string, networks ...any) map[string]any {
		return opened(of, "loadBalancerSourceRanges", slices.Concat([]any{}, networks))
	}
	named := func(of, hostname string) map[string]any { return opened(of, "hostname", hostname) }
	preferring := func(object map[string]any) map[string]any {
		object["spec"].(map[string]any)["config"] = map[string]any{"cluster-preferred-endpoint-type": "hostname"}
		return object
	}
	type row struct {
		object map[string]any
		want   bool
	}
	tests := map[string]row{
		"TLS on another port":                    {tls("192.168.1.10:6379", 6380), true},
		"TLS on the port of the bus":             {tls("192.168.1.10:6379", 16379), false},
		"TLS on the port of a bus that is lower": {tls("192.168.1.10:60000", 50000), false},
		"10000 above a port with a lower bus":    {tls("192.168.1.10:60000", 60001), true},
		"TLS on less than a port":                {tls("192.168.1.10:6379", -1), false},
		"TLS beyond all ports":                   {tls("192.168.1.10:6379", 65536), false},
		"a directive that says how TLS is used":  {tls("192.168.1.10:6379", 6380, "tls-ciphers"), true},
		"another rule for clients in config":     {tls("192.168.1.10:6379", 6380, "tls-auth-clients"), false},

		"two stores of backups": {backup(7, "persistentVolumeClaim", "s3"), false},
		"too few backups":       {backup(0, "s3"), false},
		"too many backups":      {backup(1001, "s3"), false},

		"IPs of machines":                {hosts("NodePort", "192.0.2.7", "2001:db8::7"), true},
		"an IP with leading zeros":       {hosts("NodePort", "192.0.2.07"), false},
		"an IP with a zone":              {hosts("NodePort", "fe80::1%eth0"), false},
		"IPv4 in IPv6":                   {hosts("NodePort", "::ffff:192.0.2.7"), false},
		"no IPs of machines of one":      {hosts("LoadBalancer"), true},
		"hostnames":                      {named("LoadBalancer", "{pod}.redis.example.com"), true},
		"hostnames with {pod} twice":     {named("LoadBalancer", "{pod}.{pod}-x.example.com"), false},
		"hostnames of machines":          {named("NodePort", "{pod}.redis.example.com"), false},
		"hostnames with a newline":       {named("LoadBalancer", "{pod}.example.com\n"), false},
		"the longest hostname":           {named("LoadBalancer", "{pod}."+strings.Repeat("a.", 92)), false},
		"the longest hostname of a name": {named("LoadBalancer", "{pod}."+strings.Repeat("a.", 91)+"ab"), true},
		"a longer hostname":              {named("LoadBalancer", "{pod}."+strings.Repeat("a.", 91)+"abc"), false},
		"hostnames, and a directive":     {preferring(named("LoadBalancer", "{pod}.example.com")), false},
		"no hostnames, and a directive":  {preferring(named("LoadBalancer", "")), true},
		"networks":                       {ranges("LoadBalancer", "192.0.2.0/24", "192.0.2.7/8", "2001:db8::/32"), true},
		"a network twice":                {ranges("LoadBalancer", "192.0.2.0/24", "192.0.2.0/24"), false},
		"a network with leading zeros":   {ranges("LoadBalancer", "192.0.2.0/024"), false},
		"a network of IPv4 in IPv6":      {ranges("LoadBalancer", "::ffff:192.0.2.0/120"), false},
		"a network with spaces":          {ranges("LoadBalancer", " 192.0.2.0/24"), false},

		"a machine twice": {
			opened("NodePort", "hosts", slices.Repeat([]any{map[string]any{"name": "a", "ip": "192.0.2.7"}}, 2)), false,
		},
		"a user twice": {
			redisCluster(map[string]any{"users": slices.Repeat([]any{map[string]any{"name": "default", "rules": "off"}}, 2)}), false,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := servers(t)["RedisCluster"].accepts(t, test.object, nil); got != test.want {
				t.Errorf("accepted: %t, want %t", got, test.want)
			}
		})
	}
}

// The first of the sizes no client can read, or not in time, as in TestTheSchemaRejectsNumbersThatClientsCannotParse.
func TestTheSchemaRefusesSizesOfVolumesThatClientsCannotRead(t *testing.T) {
	server := servers(t)["RedisCluster"]
	for size, accepted := range map[any]bool{
		"1e1.5": false, "1e-99999999": false, "1e+99999999": false, "1e-009": false, "64MB": false,
		"0": false, "-1Gi": false, "-0": false, "0e9": false, int64(0): false, int64(-1): false,
		"1e3": true, "1.5Gi": true, "+1": true, "1e-9": true, "1E+99": true, "1Ei": true, int64(1 << 30): true, strings.Repeat("9", 1000): true,
	} {
		obj, good := stored(map[string]any{"size": size}), stored(map[string]any{"size": "1n"})
		old, errs := server.judge(t, obj, nil)
		if (len(errs) == 0) != accepted {
			t.Errorf("%.50v: accepted: %t, want %t: %v", size, len(errs) == 0, accepted, errs)
		}
		if _, errs := server.judge(t, obj, good); (len(errs) == 0) != accepted {
			t.Errorf("%.50v in the place of another: accepted: %t, want %t: %v", size, len(errs) == 0, accepted, errs)
		}
		// If there ever was such an object, it can be put right.
		admitted, err := server.admit(good)
		must.Succeed(t, err)
		if errs := server.update(admitted, old); !accepted && len(errs) > 0 {
			t.Errorf("another in the place of %.50v: %v", size, errs)
		}
	}
}

// TestChangesOfRedisClusters is about storage and a restore. All else may change.
func TestChangesOfRedisClusters(t *testing.T) {
	none := redisCluster(nil)
	of := func(size any, class ...string) map[string]any {
		storage := map[string]any{"size": size}
		for _, name := range class {
			storage["storageClassName"] = name
		}
		return stored(storage)
	}
	from := func(backup, claim string) map[string]any {
		return redisCluster(map[string]any{
			"restoreFrom": map[string]any{"backup": backup, "persistentVolumeClaim": map[string]any{"claimName": claim}},
		})
	}
	latest := from("latest", "backups")
	inS3 := func(secret, bucket string) map[string]any {
		return redisCluster(map[string]any{"restoreFrom": map[string]any{"s3": map[string]any{
			"endpoint": "https://s3.example.com", "bucket": bucket, "credentialsSecretRef": map[string]any{"name": secret}}}})
	}
	other := of("1Gi")
	maps.Copy(other["spec"].(map[string]any), map[string]any{
		"addr": "[::1]:1", "size": int64(9), "replicasPerMaster": int64(2), "image": "redis:8",
		"resources": map[string]any{}, "config": map[string]any{}, "authSecretRef": map[string]any{"name": "a"},
	})
	for name, test := range map[string]struct {
		old, obj map[string]any
		want     bool
	}{
		"storage stays as it is":                      {of("1Gi", "a"), of("1Gi", "a"), true},
		"storage is added":                            {none, of("1Gi"), false},
		"storage is taken away by a null":             {of("1Gi"), redisCluster(map[string]any{"storage": nil}), false},
		"storage grows, in other units":               {of("1G"), of("1Gi"), true},
		"storage is the same in other units":          {of("1Gi"), of(int64(1 << 30)), true},
		"storage shrinks, in other units":             {of("1Gi"), of("1G"), false},
		"storage shrinks by one byte":                 {of(int64(1 << 30)), of(int64(1<<30 - 1)), false},
		"storage shrinks to nothing":                  {of("1Gi"), of("0"), false},
		"the class changes":                           {of("1Gi", "a"), of("1Gi", "b"), false},
		"a class is said":                             {of("1Gi"), of("1Gi", "a"), false},
		"a class is left out":                         {of("1Gi", "a"), of("1Gi"), false},
		"all else changes":                            {of("1Gi"), other, true},
		"a restore is set at the creation":            {nil, latest, true},
		"a restore is removed":                        {latest, none, true},
		"a restore is added":                          {none, latest, false},
		"a restore changes, to that of one backup":    {latest, from("20260301T030000Z", "backups"), false},
		"a restore changes, to that of another store": {latest, from("latest", "redis-backups"), false},
		"a restore gets another Secret":               {inS3("a", "redis-backups"), inS3("b", "redis-backups"), true},
		"a restore gets another bucket":               {inS3("a", "redis-backups"), inS3("a", "other"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := servers(t)["RedisCluster"].accepts(t, test.obj, test.old); got != test.want {
				t.Errorf("accepted: %t, want %t", got, test.want)
			}
		})
	}
}

// The largest config is within what its rules may cost when they run. One more directive
// is too many.
func TestTheLargestConfig(t *testing.T) {
	for more, want := range []bool{true, false} {
		config := map[string]any{}
		for i := range 64 + more {
			config[fmt.Sprintf("%s%03d", strings.Repeat("a", 61), i)] = strings.Repeat("宋", 1024)
		}
		if got := servers(t)["RedisCluster"].accepts(t, redisCluster(map[string]any{"config": config}), nil); got != want {
			t.Errorf("%d directives: accepted: %t, want %t", len(config), got, want)
		}
	}
}
