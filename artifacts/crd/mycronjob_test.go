// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/glassback/glassback/pkg/must"
)

func myCronJob(spec map[string]any) map[string]any {
	container := map[string]any{"name": "hello", "image": "busybox"}
	merged := map[string]any{"jobTemplate": map[string]any{"spec": map[string]any{"template": map[string]any{
		"spec": map[string]any{"containers": []any{container}, "restartPolicy": "Never"}}}}}
	maps.Copy(merged, spec)
	return map[string]any{
		"apiVersion": "batch.wzj.kubebuilder.io/v1", "kind": "MyCronJob",
		"metadata": map[string]any{"name": "sample"},
		"spec":     runtime.DeepCopyJSON(merged),
	}
}

func TestSchemaAndValidateAgreeOnSchedules(t *testing.T) {
	agreeOnEach(t, "MyCronJob", map[string]bool{
		"* * * * *": true, "*/5 * * * *": true, "0 30 6 * * mon-fri": true, "? ? ? ? ?": true, "0 0 1 JAN Sun": true,
		"0,15,30-45/5 8-18/2 1-7,31 */2 0-6": true, "59 59 23 31 12 6": true, "00 00 01 01 *": true, "5/15 * * * *": true,
		"0  0   1 1 *": true, "* * * 1-mar mon-5": true, "0-0 * * * *": true, "*/99 * * * *": true, "0 0 29 2 *": true,
		"@yearly": true, "@annually": true, "@monthly": true, "@weekly": true, "@daily": true, "@midnight": true, "@hourly": true,

		"0 0 30 2 *": false, "0 0 30-31 feb ?": false, "0 0 31 2,4,6,9,11 *": false, // only Validate can tell
		"": false, " ": false, "* * * *": false, "* * * * * * *": false, " * * * * *": false, "* * * * * ": false, "* * * * *\n": false,
		"*\t* * * *": false, "60 * * * *": false, "* 24 * * *": false, "* * 0 * *": false, "* * 32 * *": false, "* * * 0 *": false,
		"* * * 13 *": false, "* * * * 7": false, "60 * * * * *": false, "*/0 * * * *": false, "*/05 * * * *": false,
		"*/100 * * * *": false, "*/99999999999999999999 * * * *": false, "9-5 * * * *": false, "0 9-5/2 * * *": false,
		"1,9-5 * * * *": false, "0 0 1 1 6-0": false, "* * * * fri-mon": false, "* * * * SAT-1": false, "* * * dec-1 *": false,
		"* * * 2-JAN *": false, "1- * * * *": false, "-1 * * * *": false, "1-2-3 * * * *": false,
		"1/2/3 * * * *": false, "*-5 * * * *": false, ",1 * * * *": false, "1, * * * *": false, "1,,2 * * * *": false, "000 * * * *": false,
		"0 0 L * *": false, "0 0 15W * *": false, "0 0 * * 5#2": false, "* * * * monday": false, "* * * mon *": false, "jan * * * *": false,
		"@every 5s": false, "@every": false, "@Daily": false, "@daily ": false, "@noon": false, "@reboot": false, "@": false,
		"TZ=UTC * * * * *": false, "CRON_TZ=UTC * * * * *": false, "TZ=": false, "TZ=UTC": false, "every five minutes": false,
		"９ * * * *": false, "* * * * *\x00": false,
		strings.Repeat("0,", 55) + "0 * * * * ": false,
		strings.Repeat("0,", 55) + "0 * * * *":  true, strings.Repeat("0,", 56) + "0 * * * *": false,
	}, func(schedule string) map[string]any { return myCronJob(map[string]any{"schedule": schedule}) })
}

func TestSchemaAndValidateAgreeOnTimeZones(t *testing.T) {
	agreeOnEach(t, "MyCronJob", map[string]bool{
		"UTC": true, "Europe/Berlin": true, "America/Argentina/ComodRivadavia": true, "America/Port-au-Prince": true, "Etc/GMT+12": true,
		"Etc/GMT-0": true, "Australia/Lord_Howe": true, "GB-Eire": true, "EST5EDT": true, "Zulu": true,

		"": false, " ": false, "Local": false, "local": false, "LOCAL": false, "localtime": false,
		"+02:00": false, "-05:00": false, "00:00": false,
		"02:00": false, "UTC+2": false, "CEST": false, "Europe": false, "Europe/": false, "Europe/Berlni": false, "europe/berlin": false,
		"/Europe/Berlin": false, "../Europe/Berlin": false, "Europe/../Europe/Berlin": false,
		"Europe\\Berlin": false, " UTC": false, "UTC ": false,
		"UTC\n": false, "zone.tab": false, "tzdata.zi": false, strings.Repeat("A", 64): false, strings.Repeat("A", 65): false, "Öst": false,
	}, func(zone string) map[string]any {
		return myCronJob(map[string]any{"schedule": "0 6 * * *", "timeZone": zone})
	})
}

func TestSchemaAndValidateAgreeOnEveryMyCronJob(t *testing.T) {
	agreeOnAll(t, "MyCronJob", generator.myCronJob)
}

func (g generator) myCronJob() map[string]any {
	spec := map[string]any{}
	if g.oneIn(2) {
		spec["schedule"] = g.schedule()
		if g.oneIn(2) {
			spec["timeZone"] = g.timeZone()
		}
	}
	if _, has := spec["schedule"]; !has || g.oneIn(20) {
		g.number(spec, "intervalSeconds", 1, 31536000)
	}
	if _, has := spec["schedule"]; !has && g.oneIn(20) {
		spec["timeZone"] = g.timeZone()
	}
	g.number(spec, "startingDeadlineSeconds", 1, 31536000)
	g.number(spec, "successfulJobsHistoryLimit", 0, 10000)
	g.number(spec, "failedJobsHistoryLimit", 0, 10000)
	if g.oneIn(3) {
		g.number(spec, "jitterSeconds", 0, pick[int64](g, 4, 5, 3599, 86400))
	}
	g.choice(spec, "concurrencyPolicy", "Allow", "Forbid", "Replace")
	g.choice(spec, "missedRunPolicy", "Latest", "Skip", "All")
	if g.oneIn(3) {
		spec["suspend"] = pick[any](g, true, false, nil)
	}
	obj := myCronJob(spec)
	if g.oneIn(20) {
		obj["metadata"].(map[string]any)["name"] = strings.Repeat("x", pick(g, 1, 51, 52, 53, 200))
	}
	if g.oneIn(20) {
		job := obj["spec"].(map[string]any)["jobTemplate"].(map[string]any)["spec"].(map[string]any)
		pod := job["template"].(map[string]any)["spec"].(map[string]any)
		switch g.IntN(3) {
		case 0:
			pod["containers"] = []any{}
		case 1:
			pod["restartPolicy"] = pick[any](g, "OnFailure", "Always", "", "never")
		default:
			delete(pod, "restartPolicy")
		}
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

// No client can read these, or not in time: an object that has one would stop the informers of all.
func TestTheSchemaRefusesNumbersThatClientsCannotRead(t *testing.T) {
	server := servers(t)["MyCronJob"]
	for _, test := range []struct {
		cpu, port any
		accepted  bool
	}{
		{"1e1.5", 80, false}, {"1e-99999999", 80, false}, {"1", 1 << 40, false}, {"1", -1 << 40, false},
		{"1e3", 80, true}, {"250m", "http", true}, {"1.5Gi", 1<<31 - 1, true},
	} {
		obj := myCronJob(nil)
		template := obj["spec"].(map[string]any)["jobTemplate"].(map[string]any)["spec"].(map[string]any)["template"].(map[string]any)
		container := template["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
		container["resources"] = map[string]any{"limits": map[string]any{"cpu": test.cpu}}
		if port, number := test.port.(int); number {
			test.port = int64(port)
		}
		container["livenessProbe"] = map[string]any{"httpGet": map[string]any{"port": test.port}}
		admitted, err := server.admit(obj)
		must.Succeed(t, err)
		if errs := server.create(admitted); (len(errs) == 0) != test.accepted {
			t.Errorf("cpu %v, port %v: accepted: %t, want %t: %v", test.cpu, test.port, len(errs) == 0, test.accepted, errs)
		}
	}
}
