// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
)

// pause is the real time between two scrapes. They are remembered as being further apart, to
// have enough of them for the rates and alerts: see every.
const pause = time.Second

// simulated is why no Redis node answers.
const simulated = "RedisClusters do not form on simulated nodes"

// mayBeEmpty are the queries that find nothing while all is well, and why.
var mayBeEmpty = map[string]string{
	"Failed syncs B":            "no sync panics",
	"Memory of Redis nodes A":   simulated,
	"Commands of Redis nodes A": simulated,
	"Clients of Redis nodes A":  simulated,
	"Replication lag A":         simulated,

	"Age of the last good backup A":  "no backup has ended",
	"Size of the last good backup A": "no backup has ended",
}

// answering has the metrics of Redis nodes that answer: see TestNodeRunsRedisCluster in hack/devcluster/e2e.
const (
	answering = "the operator, if Redis nodes answer"
	backingUp = "the operator, if a RedisCluster has spec.backup"
)

// ofOthers are metrics of other programs, which are not scraped here, with their sources.
var ofOthers = map[string]string{
	"ALERTS": "Prometheus, of every alert that is pending or fires",

	"glassback_redis_node_master":                      answering,
	"glassback_redis_node_link_up":                     answering,
	"glassback_redis_node_slots":                       answering,
	"glassback_redis_node_keys":                        answering,
	"glassback_redis_node_memory_used_bytes":           answering,
	"glassback_redis_node_memory_max_bytes":            answering,
	"glassback_redis_node_clients":                     answering,
	"glassback_redis_node_commands_total":              answering,
	"glassback_redis_node_evicted_keys_total":          answering,
	"glassback_redis_node_replication_offset_bytes":    answering,
	"glassback_redis_node_replication_lag_bytes":       answering,
	"glassback_redis_node_last_save_timestamp_seconds": answering,

	"glassback_rediscluster_backup_failed":                         backingUp,
	"glassback_rediscluster_backup_interval_seconds":               backingUp,
	"glassback_rediscluster_backup_last_success_timestamp_seconds": backingUp,
	"glassback_rediscluster_backup_since_timestamp_seconds":        backingUp,
	"glassback_rediscluster_backup_last_keys":                      backingUp,
	"glassback_rediscluster_backup_last_bytes":                     backingUp,
}

// mayFire are the alerts that are pending or fire while all is well, and why.
var mayFire = map[string]string{
	"GlassbackObjectsDegraded": simulated,
}

// asTheyMayBe are the labels whose values depend on events that do not happen here, such as errors. Their possible values are compared
// with the source.
var asTheyMayBe = map[string]bool{"code": true, "result": true, "status": true}

// TestOnAScrape runs two replicas with all that artifacts/examples has. For a while all is well; then slots of a MyCronJob are missed.
func TestOnAScrape(t *testing.T) {
	w := newWorld(t)
	w.kubectl(t, "create", "namespace", namespace)
	replicas := []*replica{w.replica(t, "glassback-manager-a")}
	replicas[0].waitFor(t, "Started controller")
	replicas = append(replicas, w.replica(t, "glassback-manager-b"))

	m := memory{}
	at := time.Now().Truncate(time.Second)
	scrape := func(times int) {
		for range times {
			for _, r := range replicas {
				r.scrape(t, m, at)
			}
			m.stale(at)
			at = at.Add(every)
			time.Sleep(pause)
		}
	}
	scrape(4)
	w.kubectl(t, "apply", "-f", filepath.Join(root, "artifacts", "examples"))
	scrape(20)
	for _, kind := range []string{"apiexampleas", "applications", "ecsinstances", "mycronjobs"} {
		w.kubectl(t, "wait", "--for=condition=Ready", "--all", "--timeout=30s", kind)
	}
	scrape(4)

	t.Run("variables", func(t *testing.T) { checkVariables(t, m) })
	t.Run("dashboard", func(t *testing.T) { checkDashboard(t, m) })
	t.Run("alerts", func(t *testing.T) {
		for name, rule := range alerts(t) {
			if found := m.query(t, rule.Expr); len(found) > 0 && mayFire[name] == "" {
				t.Errorf("%s: all is well, and there is\n%v", name, found)
			}
		}
	})

	w.kubectl(t, "patch", "mycronjob", "mycronjob-labels", "--subresource=status", "--type=merge",
		"-p", fmt.Sprintf(`{"status": {"accountedTime": %q}}`, time.Now().Add(-10*time.Minute).UTC().Format(time.RFC3339)))
	scrape(4)
	t.Run("missed slots", func(t *testing.T) {
		for name, rule := range alerts(t) {
			var said []string
			for _, alert := range firing(t, rule, m) {
				said = append(said, say(t, rule.Annotations["summary"], alert))
			}
			want := ""
			if name == "GlassbackMyCronJobMissed" {
				want = "MyCronJobs in namespace default have missed slots."
			}
			if got := strings.Join(said, " "); got != want {
				t.Errorf("%s says %q, want %q", name, got, want)
			}
		}
	})
	t.Run("selectors", func(t *testing.T) { checkSelectors(t, m) })
	t.Run("document", func(t *testing.T) { checkDocument(t, m) })
}

// valuesOf evaluates the variables of the dashboard, each with those before it.
func valuesOf(t *testing.T, d dashboard, m memory) map[string][]string {
	t.Helper()
	values := map[string][]string{}
	for _, v := range d.Templating.List {
		query := labelValues.FindStringSubmatch(v.Definition)
		if query == nil {
			continue // the data source
		}
		found := map[string]bool{}
		for _, selector := range selectors(t, fill(query[1], values)) {
			for _, s := range m.selects(selector.LabelMatchers...) {
				found[s.labels.Get(query[2])] = true
			}
		}
		values[v.Name] = slices.Sorted(maps.Keys(found))
	}
	return values
}

func checkVariables(t *testing.T, m memory) {
	got := fmt.Sprint(valuesOf(t, readDashboard(t), m))
	want := fmt.Sprint(map[string][]string{
		"namespace":  {namespace},
		"pod":        {"glassback-manager-a", "glassback-manager-b"},
		"controller": {"apiexamplea", "application", "certificates", "ecsinstance", "mycronjob", "rediscluster"},
	})
	if got != want {
		t.Errorf("they are %s, want %s", got, want)
	}
}

func checkDashboard(t *testing.T, m memory) {
	d := readDashboard(t)
	values := valuesOf(t, d, m)
	reasons := maps.Clone(mayBeEmpty)
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			name := p.Title + " " + q.RefID
			found := m.query(t, fill(q.Expr, values))
			if reason, may := reasons[name]; may {
				delete(reasons, name)
				if len(found) > 0 {
					t.Errorf("%s finds something, although %s:\n%v", name, reason, found)
				}
				continue
			}
			if len(found) == 0 {
				t.Errorf("%s finds nothing:\n%s", name, q.Expr)
			}
			if err := checkLegend(q.LegendFormat, found); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for name := range reasons {
		t.Errorf("there is no query %s that may be empty", name)
	}
	leader := m.query(t, fill(d.panel(t, "Leader").Targets[0].Expr, values))
	if len(leader) != 1 || leader[0].Metric.Get("pod") != "glassback-manager-a" {
		t.Errorf("the leader is %v", leader)
	}
}

var legendLabel = regexp.MustCompile(`{{(\w+)}}`)

// checkLegend checks that the legend distinguishes the lines, by labels that they have.
func checkLegend(format string, lines promql.Matrix) error {
	for _, label := range legendLabel.FindAllStringSubmatch(format, -1) {
		if !slices.ContainsFunc(lines, func(line promql.Series) bool { return line.Metric.Get(label[1]) != "" }) {
			return fmt.Errorf("no line has the label %s, which the legend %q wants", label[1], format)
		}
	}
	seen := map[string]bool{}
	for _, line := range lines {
		legend := legendLabel.ReplaceAllStringFunc(format, func(label string) string { return line.Metric.Get(strings.Trim(label, "{}")) })
		if seen[legend] {
			return fmt.Errorf("two lines are called %q", legend)
		}
		seen[legend] = true
	}
	return nil
}

func (d dashboard) panel(t *testing.T, title string) panel {
	t.Helper()
	i := slices.IndexFunc(d.Panels, func(p panel) bool { return p.Title == title })
	if i < 0 {
		t.Fatalf("there is no panel %s", title)
	}
	return d.Panels[i]
}

// checkSelectors checks that alerts and dashboard use existing metrics: an alert without a result may have a wrong name.
func checkSelectors(t *testing.T, m memory) {
	d := readDashboard(t)
	values := valuesOf(t, d, m)
	exprs := map[string]string{}
	for name, rule := range alerts(t) {
		exprs["alert "+name] = rule.Expr
	}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			exprs["panel "+p.Title+" "+q.RefID] = fill(q.Expr, values)
		}
	}
	for name, expr := range exprs {
		for _, selector := range selectors(t, expr) {
			if ofOthers[selector.Name] != "" {
				continue
			}
			matchers := slices.DeleteFunc(slices.Clone(selector.LabelMatchers), func(by *matcher) bool { return asTheyMayBe[by.Name] })
			found := m.selects(matchers...)
			if len(found) == 0 {
				t.Errorf("%s: there is no %s", name, selector)
				continue
			}
			for _, by := range selector.LabelMatchers {
				if asTheyMayBe[by.Name] {
					checkOutcome(t, found, by)
				}
			}
		}
	}
}

// outcome matches a possible result of a call in the source.
var outcome = regexp.MustCompile(`\b(?:Class|Result) += "(\w+)"`)

// checkOutcome checks that a label exists, and that some result matches.
func checkOutcome(t *testing.T, of []*series, by *matcher) {
	t.Helper()
	if !slices.ContainsFunc(of, func(s *series) bool { return s.labels.Get(by.Name) != "" }) {
		t.Errorf("%s has no label %s", of[0].labels.Get(model.MetricNameLabel), by.Name)
	}
	if by.Name != "result" {
		return
	}
	known := map[string]bool{}
	for _, pattern := range []string{"pkg/cloud/aliyun/*.go", "pkg/redisnode/*.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		succeed(t, err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			succeed(t, err)
			for _, found := range outcome.FindAllStringSubmatch(string(data), -1) {
				known[found[1]] = true
			}
		}
	}
	for value := range strings.SplitSeq(by.Value, "|") {
		if !known[value] {
			t.Errorf("no call has the result %s: there are %s", value, slices.Sorted(maps.Keys(known)))
		}
	}
}

var (
	// suffix matches the suffixes of a histogram's series.
	suffix = regexp.MustCompile(`_(bucket|sum|count)$`)
	// documented is a metric in docs/metrics.md.
	documented = regexp.MustCompile("`((?:glassback|controller_runtime|certwatcher|workqueue|rest_client|leader_election|process)_[a-z_]+)`")
)

// checkDocument makes sure that docs/metrics.md has all that is the operator's own, and nothing that there is not.
func checkDocument(t *testing.T, m memory) {
	data, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	succeed(t, err)
	exported := map[string]bool{}
	for _, s := range m {
		exported[suffix.ReplaceAllString(s.labels.Get(model.MetricNameLabel), "")] = true
	}
	for name := range exported {
		for _, own := range []string{"glassback_", "controller_runtime_", "certwatcher_"} {
			if strings.HasPrefix(name, own) && !strings.Contains(string(data), "`"+name+"`") {
				t.Errorf("it does not have %s", name)
			}
		}
	}
	for _, name := range documented.FindAllStringSubmatch(string(data), -1) {
		if !exported[name[1]] && ofOthers[name[1]] == "" {
			t.Errorf("it has %s, which no operator tells", name[1])
		}
	}
	for name := range alerts(t) {
		if !strings.Contains(string(data), "| `"+name+"`") {
			t.Errorf("it does not have the alert %s", name)
		}
	}
}
