// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
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

// kubectl create job --dry-run=client --output=yaml prints "creationTimestamp: null" in the metadata of templates.
func TestATemplateThatKubectlPrints(t *testing.T) {
	obj := myCronJob(nil)
	job := obj["spec"].(map[string]any)["jobTemplate"].(map[string]any)
	pod := job["spec"].(map[string]any)["template"].(map[string]any)
	for _, template := range []map[string]any{job, pod} {
		template["metadata"] = map[string]any{"creationTimestamp": nil}
	}
	if _, errs := servers(t)["MyCronJob"].judge(t, obj, nil); len(errs) > 0 {
		t.Error(errs)
	}
}

func TestSchedules(t *testing.T) {
	acceptsOnly(t, "MyCronJob", "schedule", map[string]bool{
		"* * * * *": true, "*/5 * * * *": true, "0 30 6 * * mon-fri": true, "? ? ? ? ?": true, "0 0 1 JAN Sun": true,
		"0,15,30-45/5 8-18/2 1-7,31 */2 0-6": true, "59 59 23 31 12 6": true, "00 00 01 01 *": true, "5/15 * * * *": true,
		"0  0   1 1 *": true, "* * * 1-mar mon-5": true, "0-0 * * * *": true, "*/99 * * * *": true, "0 0 29 2 *": true,
		"@yearly": true, "@annually": true, "@monthly": true, "@weekly": true, "@daily": true, "@midnight": true, "@hourly": true,

		"0 0 30 2 *": true, "0 0 30-31 feb ?": true, "0 0 31 2,4,6,9,11 *": true, // They never come, which Validate rejects.
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

func TestTimeZones(t *testing.T) {
	acceptsOnly(t, "MyCronJob", "timeZone", map[string]bool{
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
