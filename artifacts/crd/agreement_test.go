/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package crd_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// onlyInGo matches what Validate says where the schema has no rule.
var onlyInGo = regexp.MustCompile(`^spec\.schedule: .*: never comes: `)

// agree takes an object to the schema and to the Go code, fails the test unless
// they say the same, and returns what they say.
func (s *server) agree(t *testing.T, obj map[string]any) (accepted bool) {
	t.Helper()
	admitted, err := s.admit(obj)
	if err != nil {
		t.Fatal(err)
	}
	inSchema := s.create(admitted)
	inGo, err := verdicts[obj["kind"].(string)](obj)
	if err != nil {
		if len(inSchema) == 0 {
			t.Errorf("the schema takes what Go cannot decode: %v\n%v", err, obj)
		}
		return false // Its values do not fit into the Go type.
	}
	both := slices.DeleteFunc(slices.Clone(inGo.errs), func(err *field.Error) bool { return onlyInGo.MatchString(err.Error()) })
	accepts, acceptsInGo := len(inSchema) == 0, len(inGo.errs) == 0
	if accepts && len(both) > 0 || !accepts && acceptsInGo {
		t.Errorf("the schema says %v\nbut Validate says %v\n%v", inSchema.ToAggregate(), inGo.errs.ToAggregate(), obj)
	}
	blames := blamed(inSchema)
	if !slices.ContainsFunc(inSchema, blocksRules) && (!blames.IsSuperset(blamed(both)) || !blamed(inGo.errs).IsSuperset(blames)) {
		t.Errorf("the schema says %v\nbut Validate blames other fields: %v\n%v", inSchema.ToAggregate(), inGo.errs.ToAggregate(), obj)
	}
	if accepts && acceptsInGo {
		wantSameDefaults(t, obj["kind"].(string), obj, admitted)
	}
	return acceptsInGo
}

// blamed returns the fields that the errors are about. The schema cannot name the
// fields of metadata.
func blamed(errs field.ErrorList) sets.Set[string] {
	fields := sets.New[string]()
	for _, err := range errs {
		if strings.HasPrefix(err.Field, "metadata.") {
			fields.Insert("metadata")
		} else {
			fields.Insert(err.Field)
		}
	}
	return fields
}

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
	server := servers(t)["MyCronJob"]
	for schedule, accepted := range map[string]bool{
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
		strings.Repeat("0,", 55) + "0 * * * * ": false, strings.Repeat("0,", 55) + "0 * * * *": true, strings.Repeat("0,", 56) + "0 * * * *": false,
	} {
		if got := server.agree(t, myCronJob(map[string]any{"schedule": schedule})); got != accepted {
			t.Errorf("%q: accepted: %t, want %t", schedule, got, accepted)
		}
	}
}

func TestSchemaAndValidateAgreeOnTimeZones(t *testing.T) {
	server := servers(t)["MyCronJob"]
	for zone, accepted := range map[string]bool{
		"UTC": true, "Europe/Berlin": true, "America/Argentina/ComodRivadavia": true, "America/Port-au-Prince": true, "Etc/GMT+12": true,
		"Etc/GMT-0": true, "Australia/Lord_Howe": true, "GB-Eire": true, "EST5EDT": true, "Zulu": true,

		"": false, " ": false, "Local": false, "local": false, "LOCAL": false, "localtime": false, "+02:00": false, "-05:00": false, "00:00": false,
		"02:00": false, "UTC+2": false, "CEST": false, "Europe": false, "Europe/": false, "Europe/Berlni": false, "europe/berlin": false,
		"/Europe/Berlin": false, "../Europe/Berlin": false, "Europe/../Europe/Berlin": false, "Europe\\Berlin": false, " UTC": false, "UTC ": false,
		"UTC\n": false, "zone.tab": false, "tzdata.zi": false, strings.Repeat("A", 64): false, strings.Repeat("A", 65): false, "Öst": false,
	} {
		if got := server.agree(t, myCronJob(map[string]any{"schedule": "0 6 * * *", "timeZone": zone})); got != accepted {
			t.Errorf("%q: accepted: %t, want %t", zone, got, accepted)
		}
	}
}

func TestSchemaAndValidateAgreeOnWhateverIsGenerated(t *testing.T) {
	server := servers(t)["MyCronJob"]
	const n = 2000
	g := generator{rand.New(rand.NewPCG(1, 2))}
	accepted := 0
	for range n {
		if server.agree(t, g.myCronJob()) {
			accepted++
		}
		if t.Failed() {
			return // One is enough to look at.
		}
	}
	if accepted < n/5 || accepted > n*4/5 {
		t.Errorf("%d of %d were accepted: the generator should give some of both", accepted, n)
	}
}

// generator makes objects most of whose fields are valid, or nearly.
type generator struct{ *rand.Rand }

func pick[T any](g generator, values ...T) T { return values[g.IntN(len(values))] }

func (g generator) oneIn(n int) bool { return g.IntN(n) == 0 }

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
		pod := obj["spec"].(map[string]any)["jobTemplate"].(map[string]any)["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
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

func (g generator) timeZone() string {
	return g.bend(pick(g, "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Etc/GMT+3", "Africa/Cairo", "Australia/Lord_Howe",
		"America/Indiana/Tell_City", "EST", "GMT0", "Pacific/Apia"), "eE/_+-:. 0lAü")
}

func (g generator) schedule() string {
	if g.oneIn(10) {
		return g.bend(pick(g, "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", "@every 1m"), "@ ydE")
	}
	fields := []string{g.list(0, 59), g.list(0, 23), g.list(1, 31),
		g.list(1, 12, "jan", "Feb", "MAR", "dec"), g.list(0, 6, "sun", "MON", "tHu", "sat")}
	if g.oneIn(3) {
		fields = append([]string{g.list(0, 59)}, fields...)
	}
	if g.oneIn(40) {
		fields = fields[g.IntN(3):]
	}
	return g.bend(strings.Join(fields, pick(g, " ", " ", " ", "  ")), "0123456789*?/-,, LW#aJ@=TZ\t\n日")
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

// bend changes text in one place, once in a while.
func (g generator) bend(text, alphabet string) string {
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
