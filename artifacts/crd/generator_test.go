// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// generator makes objects most of whose fields are valid, or nearly.
type generator struct{ *rand.Rand }

// fields are the values that a field can have, by its name.
type fields = map[string][]any

func pick[T any](g generator, values ...T) T { return values[g.IntN(len(values))] }

func (g generator) oneIn(n int) bool { return g.IntN(n) == 0 }

// some returns an object with one in n of the fields.
func (g generator) some(n int, of fields) map[string]any {
	obj := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if g.oneIn(n) {
			obj[name] = pick(g, of[name]...)
		}
	}
	return obj
}

// one returns an object with one of the fields, or, rarely, with none of them or with two.
func (g generator) one(of fields) map[string]any {
	obj, names := map[string]any{}, slices.Sorted(maps.Keys(of))
	for range pick(g, 1, 1, 1, 1, 1, 1, 1, 1, 0, 2) {
		name := pick(g, names...)
		obj[name] = pick(g, of[name]...)
	}
	return obj
}

// number returns a number that is in the range, or, rarely, just outside, or nothing.
func (g generator) number(low, high int64) any {
	switch g.IntN(20) {
	case 0:
		return pick(g, low-1, high+1, -1<<31, 1<<31-1, 1<<40)
	case 1:
		return nil
	case 2, 3, 4, 5, 6, 7:
		return pick(g, low, high)
	}
	return low + g.Int64N(high-low+1)
}

// choice returns one of the values, or, rarely, another, or nothing. Not "": to Go that is nothing.
func (g generator) choice(values ...string) any {
	switch g.IntN(40) {
	case 0:
		return strings.ToLower(pick(g, values...))
	case 1:
		return nil
	}
	return pick(g, values...)
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

// object returns an object with the spec. Now and then it has no spec, or one of the names.
func (g generator) object(obj map[string]any, names ...string) map[string]any {
	switch g.IntN(20) {
	case 0:
		obj["metadata"].(map[string]any)["name"] = pick(g, names...)
	case 1:
		delete(obj, "spec")
	}
	return obj
}

func (g generator) apiExampleA() map[string]any {
	spec := g.some(2, fields{
		"foo": {g.words()}, "first_name": {g.words()}, "last_name": {g.words()},
	})
	return g.object(apiExampleA(spec), "x", strings.Repeat("x", 200))
}

func (g generator) words() string {
	if g.oneIn(4) {
		return strings.Repeat(pick(g, "x", "ü", "宋"), pick(g, 99, 100, 101, 1000, 1001))
	}
	return g.mutate(pick(g, "bar", "Jimmy", "Song", "van der Berg", "净超"), "\n\t\x00\x7f\x1b xü")
}

func (g generator) application() map[string]any {
	spec := g.some(2, fields{"replicas": {g.number(0, 10000)}, "port": {g.number(1, 65535)}})
	maps.Copy(spec, g.some(4, fields{
		"env": {g.env()}, "envFrom": {g.envFrom()}, "resources": {g.resources()}, "imagePullSecrets": {g.pullSecrets()},
		"service": {g.service()}, "ingress": {g.ingress()}, "pdb": {g.one(fields{"minAvailable": shares, "maxUnavailable": shares})},
		"probes": {g.some(2, fields{"liveness": {g.probe()}, "readiness": {g.probe()}, "startup": {g.probe()}})},
		"autoscaling": {g.some(1, fields{
			"maxReplicas": {g.number(1, 10000)}, "minReplicas": {g.number(1, pick[int64](g, 1, 10, 10000))},
			"targetCPUUtilizationPercentage": {g.number(1, 1000)}, "targetMemoryUtilizationPercentage": {g.number(1, 1000), nil},
		})},
	}))
	spec["image"] = g.mutate(pick(g, "nginx", "nginx:1.27", "ghcr.io/owner/app:v1"), "A :/@\n-ü")
	if g.oneIn(40) {
		spec["image"] = pick[any](g, nil, "")
	}
	return g.object(application(spec), "a.b", "1a", "A", strings.Repeat("x", 63), strings.Repeat("x", 64))
}

// shares are numbers and percentages of Pods.
var shares = []any{int64(0), int64(1), int64(10), "0%", "50%", "100%", nil, int64(-1), "101%", "1"}

func (g generator) env() any {
	env := make([]any, 0, 3)
	for i := range 1 + g.IntN(3) {
		entry := g.some(2, fields{"value": {"", "fast"}})
		if len(entry) == 0 || g.oneIn(10) {
			entry["valueFrom"] = g.one(fields{
				"configMapKeyRef":  {map[string]any{"name": "settings", "key": "mode", "optional": g.oneIn(2)}},
				"secretKeyRef":     {map[string]any{"key": "mode"}},
				"fieldRef":         {map[string]any{"fieldPath": pick(g, "metadata.name", "metadata.labels['a']", "")}},
				"resourceFieldRef": {map[string]any{"resource": "limits.cpu", "divisor": pick[any](g, "1Mi", "1k", int64(0), "100m")}},
			})
		}
		if g.oneIn(40) {
			entry["valueFrom"] = map[string]any{"fileKeyRef": map[string]any{"volumeName": "a", "path": "b", "key": "c"}}
		}
		name := g.mutate(pick(g, "MODE", "a.b-c", "_X1"), "1. =Ü")
		if !g.oneIn(10) {
			name = fmt.Sprintf("%s_%d", name, i) // Makes the name unique.
		}
		if !g.oneIn(60) {
			entry["name"] = name
		}
		env = append(env, entry)
	}
	return env
}

func (g generator) envFrom() any {
	from := make([]any, 0, 2)
	for range 1 + g.IntN(2) {
		refs := []any{map[string]any{"name": "settings"}, map[string]any{"name": "settings", "optional": true}, map[string]any{}}
		entry := g.one(fields{"configMapRef": refs, "secretRef": refs})
		maps.Copy(entry, g.some(3, fields{"prefix": {"SHOP_"}}))
		from = append(from, entry)
	}
	return from
}

func (g generator) resources() any {
	quantities := fields{
		"cpu":               {"100m", "0.5", int64(1), "1", "2", "1e1", "-100m", "-0", "plenty"},
		"memory":            {"64Mi", "1Gi", "500M", int64(1 << 30), int64(0), "1E", "1.5e9", "64MB"},
		"ephemeral-storage": {"1Gi", "2Gi", "3000000000", "10G", "+1"},
		"nvidia.com/gpu":    {int64(1), "1", "2", "100m"},
	}
	return g.some(2, fields{"limits": {g.some(3, quantities)}, "requests": {g.some(3, quantities)}})
}

func (g generator) probe() map[string]any {
	port := pick[any](g, int64(80), "http", "80", int64(65536), int64(80), "http", int64(1<<40))
	get := g.some(2, fields{"scheme": {g.choice("HTTP", "HTTPS")}})
	get["port"] = port
	rpc := g.some(2, fields{"service": {"health"}})
	rpc["port"] = pick[any](g, int64(80), int64(0), int64(1<<31))
	probe := g.one(fields{
		"httpGet": {get}, "tcpSocket": {map[string]any{"port": port}}, "grpc": {rpc},
		"exec": {map[string]any{"command": []any{"true"}}, map[string]any{}},
	})
	maps.Copy(probe, g.some(8, fields{"periodSeconds": {int64(1), int64(1<<31 - 1), int64(-1), int64(1 << 31)}}))
	return probe
}

func (g generator) pullSecrets() any {
	secrets := make([]any, 0, 2)
	for i := range 1 + g.IntN(2) {
		name := pick(g, "registry", "my_registry")
		if !g.oneIn(5) {
			name = fmt.Sprint(name, i)
		}
		secrets = append(secrets, pick(g, map[string]any{"name": name}, map[string]any{"name": name}, map[string]any{}))
	}
	return secrets
}

func (g generator) service() any {
	return g.some(2, fields{
		"enabled": {true, true, false, nil}, "type": {g.choice("ClusterIP", "NodePort", "LoadBalancer")}, "port": {g.number(1, 65535)},
		"annotations": {g.annotations()},
	})
}

func (g generator) ingress() any {
	ingress := g.some(3, fields{
		"className": {g.mutate(pick(g, "nginx", "traefik.internal"), "N_ -.")},
		"host":      {g.mutate(pick(g, "shop.example.com", "*.example.com", "10.0.0.1.nip.io"), "E_ -.*:/1")},
		"path":      {g.mutate(pick(g, "/", "/shop", "/a/b.c"), "/.%2F ?")}, "enabled": {true, false, nil}, "annotations": {g.annotations()},
		"tls": {map[string]any{"secretName": g.mutate("shop-tls", "T_ -.")}, map[string]any{"secretName": "shop.tls"}, map[string]any{}},
	})
	maps.DeleteFunc(ingress, func(_ string, value any) bool { return value == "" }) // Go cannot tell it from a missing field.
	return ingress
}

func (g generator) annotations() map[string]any {
	annotations := g.some(2, fields{"team": {""}, "example.com/team": {"shop"}, "my team": {"a\nb"}})
	maps.Copy(annotations, g.some(20, fields{"kubernetes.io/ingress.class": {"nginx"}}))
	return annotations
}

func (g generator) ecsInstance() map[string]any {
	spec := g.some(3, fields{
		"instanceTypeChangePolicy": {g.choice("Never", "WhenStopped", "Restart")}, "powerState": {g.choice("Running", "Stopped")},
		"deletionPolicy": {g.choice("Delete", "Retain")},
	})
	for name, value := range map[string]string{
		"regionID": "cn-beijing", "instanceType": "ecs.g6.large", "imageID": "m-2ze", "instanceName": "ins-0702", "zoneID": "cn-beijing-h",
		"vSwitchID": "vsw-2ze", "keyPairName": "operations",
	} {
		if g.oneIn(3) {
			spec[name] = g.mutate(value, "aA1 -.\nü")
		}
	}
	if g.oneIn(3) {
		maps.Copy(spec, g.some(2, fields{"period": {g.number(1, 9)}, "periodUnit": {g.choice("Week", "Month")}}))
		spec["instanceChargeType"] = "PrePaid"
	}
	maps.Copy(spec, g.some(20, fields{"period": {int64(1), int64(10), int64(12)}}))
	disk := func(low, high int64) map[string]any {
		return g.some(2, fields{
			"sizeGiB": {g.number(low, high)}, "category": {"cloud_essd", "cloud_essd", "cloud_efficiency", "cloud auto"},
			"performanceLevel": {"PL0", "PL1", "pl1", nil},
		})
	}
	data, tags := disk(1, 65536), map[string]any{}
	maps.Copy(data, g.some(2, fields{"snapshotID": {g.mutate("s-2ze", "1 -ü")}}))
	for range 1 + g.IntN(3) {
		key := g.mutate(pick(g, "team", "cost-center", "http:/a", "acs", "aliyu"), "n:/ 团")
		tags[key] = g.mutate(pick(g, "web", "4711", "http:/a"), "/ \n团")
	}
	maps.Copy(spec, g.some(5, fields{
		"imageID": {nil}, "disks": {g.some(2, fields{"system": {disk(20, 2048)}, "data": {[]any{data}}})}, "tags": {tags},
		"securityGroupIDs": {[]any{"sg-1", g.mutate("sg-2", "1 -ü")}}, "internetMaxBandwidthOut": {int64(-1), int64(0), int64(100), int64(101)},
		"userDataSecretRef": {g.secretKey()}, "credentialsSecretRef": {map[string]any{"name": g.mutate("ecs-credentials", "P_ -.")}},
	}))
	if g.oneIn(5) {
		maps.Copy(spec, g.some(2, fields{"recreatePolicy": {g.choice("Never", "Always")}}))
		spec["adoptInstanceID"] = g.mutate("i-2ze", "aA1 -.\nü")
	}
	return ecsInstance(spec)
}

func (g generator) myCronJob() map[string]any {
	spec := g.some(2, fields{
		"schedule": {g.schedule()}, "startingDeadlineSeconds": {g.number(1, 31536000)}, "suspend": {true, false, nil},
		"successfulJobsHistoryLimit": {g.number(0, 10000)}, "failedJobsHistoryLimit": {g.number(0, 10000)},
		"concurrencyPolicy": {g.choice("Allow", "Forbid", "Replace")}, "missedRunPolicy": {g.choice("Latest", "Skip", "All")},
	})
	maps.Copy(spec, g.some(3, fields{
		"jitterSeconds": {g.number(0, pick[int64](g, 4, 5, 3599, 86400))}, "maxActive": {g.number(1, 10000)},
	}))
	_, scheduled := spec["schedule"]
	if !scheduled || g.oneIn(20) {
		maps.Copy(spec, g.some(2, fields{"intervalSeconds": {g.number(1, 31536000)}}))
	}
	if scheduled && g.oneIn(2) || g.oneIn(40) {
		spec["timeZone"] = g.timeZone()
	}
	obj := g.object(myCronJob(spec), strings.Repeat("x", 51), strings.Repeat("x", 52), strings.Repeat("x", 53), strings.Repeat("x", 200))
	if job, ok := obj["spec"].(map[string]any); ok && g.oneIn(20) {
		template := job["jobTemplate"].(map[string]any)["spec"].(map[string]any)["template"].(map[string]any)
		maps.Copy(template["spec"].(map[string]any), g.some(2, fields{
			"containers": {[]any{}}, "restartPolicy": {"OnFailure", "Always", "", "never", nil},
		}))
	}
	return obj
}

func (g generator) timeZone() string {
	return g.mutate(pick(g, "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Etc/GMT+3", "Africa/Cairo", "Australia/Lord_Howe",
		"America/Indiana/Tell_City", "EST", "GMT0", "Pacific/Apia"), "eE/_+-:. 0lAü")
}

func (g generator) schedule() string {
	if g.oneIn(10) {
		return g.mutate(pick(g, "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", "@every 1m"), "@ ydE")
	}
	fields := []string{g.list(0, 59), g.list(0, 23), g.list(1, 31),
		g.list(1, 12, "jan", "Feb", "MAR", "dec"), g.list(0, 6, "sun", "MON", "tHu", "sat")}
	if g.oneIn(3) {
		fields = append([]string{g.list(0, 59)}, fields...)
	}
	if g.oneIn(40) {
		fields = fields[g.IntN(3):]
	}
	return g.mutate(strings.Join(fields, pick(g, " ", " ", " ", "  ")), "0123456789*?/-,, LW#aJ@=TZ\t\n日")
}

// list makes one field of a schedule.
func (g generator) list(low, high int, names ...string) string {
	items := make([]string, 0, 3)
	for range pick(g, 1, 1, 1, 2, 3) {
		item := pick(g, "*", "*", "?", g.value(low, high, names))
		if item[0] != '*' && g.oneIn(3) {
			from := low + g.IntN(high-low+1)
			to := from + g.IntN(high-from+1)
			if g.oneIn(20) {
				from, to = to, from
			}
			item = fmt.Sprintf("%d-%d", from, to)
			if len(names) > 0 && g.oneIn(2) {
				item = pick(g, names...) + "-" + pick(g, names...)
			}
		}
		if g.oneIn(5) {
			item += fmt.Sprintf("/%d", pick(g, 1, 2, 5, 15, 99))
		}
		items = append(items, item)
	}
	return strings.Join(items, ",")
}

func (g generator) value(low, high int, names []string) string {
	if len(names) > 0 && g.oneIn(2) {
		return pick(g, names...)
	}
	if g.oneIn(60) {
		return fmt.Sprint(pick(g, low-1, high+1))
	}
	return fmt.Sprintf(pick(g, "%d", "%d", "%02d"), low+g.IntN(high-low+1))
}

func (g generator) redisCluster() map[string]any {
	spec := g.some(2, fields{
		"size": {g.number(0, 500)}, "replicasPerMaster": {g.number(0, 5)},
		"image": {g.mutate(pick(g, "redis", "redis:7", "ghcr.io/owner/redis:7.2"), "A :/@\n-ü")},
	})
	maps.Copy(spec, g.some(6, fields{
		"storage": {g.storage()}, "resources": {g.resources()}, "config": {g.config()}, "authSecretRef": {g.secretKey()}, "tls": {g.tls()},
		"backup": {g.backup()}, "access": {g.access()}, "podTemplate": {g.podTemplate()}, "networkPolicy": {g.networkPolicy()},
		"restoreFrom": {map[string]any{
			"name": g.mutate(pick(g, "other", "sessions"), "A_/\n.-"), "namespace": pick(g, "shop", "shop", "shop_a", ""),
			"backup":                pick(g, "latest", "20260301T030000Z", "20260301", "Latest"),
			"persistentVolumeClaim": map[string]any{"claimName": "backups"},
		}},
	}))
	spec["addr"] = g.mutate(pick(g, "192.168.1.10:6379", "10.0.0.1:7000", "[::1]:6379", "[2001:db8::1]:65535"), "0159.:[]f %\n-ü")
	if g.oneIn(40) {
		spec["addr"] = pick[any](g, nil, "")
	}
	return g.object(redisCluster(spec), "a.b", "1a", "A", strings.Repeat("x", 52), strings.Repeat("x", 53))
}

func (g generator) backup() any {
	backup := g.some(2, fields{
		"retention":             {int64(1), int64(7), int64(1000), int64(0), int64(1001)},
		"persistentVolumeClaim": {map[string]any{"claimName": g.mutate(pick(g, "backups", "backups.a"), "A_/\n.-")}},
		"s3": {map[string]any{
			"endpoint": g.mutate(pick(g, "https://s3.example.com", "http://10.0.0.1:9000", "https://[::1]:9000"), "A/:[ \nü"),
			"bucket":   g.mutate(pick(g, "redis-backups", "a.b"), "A_/\n.-"), "prefix": g.mutate(pick(g, "a/b", "production"), "A_/ \n.-"),
			"region": g.mutate(pick(g, "eu-central-1", "local"), "A_/\n.-"), "credentialsSecretRef": map[string]any{"name": pick(g, "s3", "S3")},
		}},
	})
	backup["schedule"] = g.mutate(pick(g, "0 3 * * *", "@daily", "*/5 1-7 ? jan-mar mon,sun", "0 0 30 2 *"), "0@/-, \nü")
	return backup
}

func (g generator) tls() any {
	tls := g.some(2, fields{
		"mode": {"Preferred", "Required", "Preferred", "Required", "required", nil},
		"port": {int64(6380), int64(7443), int64(6379), int64(16379), int64(17000), int64(55535), int64(-1), int64(65536)},
	})
	if !g.oneIn(20) {
		tls["secretRef"] = map[string]any{"name": g.mutate(pick(g, "redis-tls", "tls.a"), "A_/\n.-")}
	}
	return tls
}

func (g generator) access() any {
	external := g.some(3, fields{
		"hosts":                    {[]any{map[string]any{"name": "machine-1", "ip": g.mutate(pick(g, "192.0.2.7", "2001:db8::7"), "0.:g% ")}}},
		"loadBalancerSourceRanges": {[]any{g.mutate(pick(g, "192.0.2.0/24", "2001:db8::/32"), "0./:3 ")}},
		"hostname":                 {g.mutate(pick(g, "{pod}.example.com", "redis-{pod}.example.com", "redis.example.com"), "{}.-pA")},
		"annotations":              {map[string]any{"a": "b"}},
	})
	external["type"] = pick(g, "NodePort", "NodePort", "LoadBalancer", "ClusterIP")
	return g.some(2, fields{"external": {external}, "service": {map[string]any{"annotations": map[string]any{"a": "b"}}}})
}

func (g generator) storage() any {
	storage := g.some(2, fields{"storageClassName": {"standard", "standard", "fast.ssd", g.mutate("standard", "S_ -."), "", nil}})
	if !g.oneIn(20) {
		storage["size"] = pick[any](g, "1Gi", "1G", int64(1<<30), "10Gi", "500M", "1e9", "0", "-1Gi", "64MB")
	}
	return storage
}

func (g generator) config() any {
	config := map[string]any{}
	for range 1 + g.IntN(3) {
		key := g.mutate(pick(g, "maxmemory", "maxmemory-policy", "save", "appendfsync", "cluster-node-timeout", "maxclients"), "M_ -.1\n")
		if g.oneIn(20) {
			key = pick(g, "port", "requirepass", "cluster-announce-ip", "appendonly")
		}
		config[key] = g.mutate(pick(g, "100mb", "allkeys-lru", "3600 1", "5000", "99"), "\n\t\x7f ü")
	}
	return config
}

func (g generator) podTemplate() any {
	named := func(names ...string) (all []any) {
		for range 1 + g.IntN(2) {
			all = append(all, map[string]any{"name": pick(g, names...)})
		}
		return all
	}
	return g.some(4, fields{
		"labels":           {map[string]any{pick(g, "team", "app", "app.kubernetes.io/name", "app.kubernetes.io/part-of"): "shop"}},
		"annotations":      {map[string]any{pick(g, "app", "bytewang123-redis.wzj.kubebuilder.io/revision"): "1"}},
		"securityContext":  {map[string]any{}},
		"imagePullSecrets": {named("registry", "mirror", "")},
		"containers":       {named("exporter", "proxy", "shipper", "redis")},
		"initContainers":   {named("init", "fetch", "tune", "redis")},
		"volumes":          {named("cache", "certificates", "data")},
		"env":              {named("TZ", "LANG", "POD_IP", "GLASSBACK_AUTH")},
	})
}

func (g generator) networkPolicy() any {
	peers := []any{}
	for range g.IntN(35) {
		peer := g.some(40, fields{"namespaceSelector": {map[string]any{}}, "ipBlock": {map[string]any{"cidr": "10.0.0.0/8"}}})
		if !g.oneIn(40) {
			peer["podSelector"] = map[string]any{"matchLabels": map[string]any{"team": "shop"}}
		}
		peers = append(peers, peer)
	}
	port := map[string]any{"ports": []any{map[string]any{"port": int64(9121)}}}
	return g.some(2, fields{"from": {peers}, "ingress": {slices.Repeat([]any{port}, g.IntN(20))}})
}

func (g generator) secretKey() any {
	ref := g.some(2, fields{"key": {g.mutate("password", "P_ -./")}})
	if !g.oneIn(20) {
		ref["name"] = g.mutate("redis-password", "P_ -.")
	}
	return ref
}
