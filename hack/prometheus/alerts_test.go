// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"sigs.k8s.io/yaml"
)

// root is the product's module.
var root = filepath.Join("..", "..")

// every is the time between two samples of a series, and between two evaluations of a rule.
const every = 30 * time.Second

var (
	syntax = parser.NewParser(parser.Options{})
	engine = promql.NewEngine(promql.EngineOpts{
		MaxSamples: 10_000_000, Timeout: time.Hour, LookbackDelta: 5 * time.Minute, Parser: syntax,
		EnableAtModifier: true, EnableNegativeOffset: true,
	})
)

// memory holds series, like a Prometheus.
type memory []*series

type series struct {
	labels labels.Labels
	times  []int64
	values []float64
}

// iterator has the samples as a Prometheus stores them.
func (s *series) iterator(reuse chunkenc.Iterator) chunkenc.Iterator {
	chunk := chunkenc.NewXORChunk()
	to, err := chunk.Appender()
	if err != nil {
		panic(err) // There is no reason.
	}
	for i, at := range s.times {
		to.Append(0, at, s.values[i])
	}
	return chunk.Iterator(reuse)
}

// load returns the samples in the notation of promtool's tests, a series a line: those in `up 1 0x3` are 1, 0, 0, 0 and 0. The first one is
// at the beginning of time, and one every so often.
func load(t *testing.T, text string) memory {
	t.Helper()
	var m memory
	for line := range strings.Lines(strings.TrimSpace(text)) {
		of, values, err := syntax.ParseSeriesDesc(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		s := &series{labels: of}
		for i, v := range values {
			if !v.Omitted {
				s.times, s.values = append(s.times, int64(i)*every.Milliseconds()), append(s.values, v.Value)
			}
		}
		m = append(m, s)
	}
	return m
}

func (m memory) queryable() storage.Queryable {
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			all := &seriesSet{SeriesSet: storage.EmptySeriesSet()}
			for _, s := range m {
				if !slices.ContainsFunc(matchers, func(by *labels.Matcher) bool { return !by.Matches(s.labels.Get(by.Name)) }) {
					all.left = append(all.left, &storage.SeriesEntry{Lset: s.labels, SampleIteratorFn: s.iterator})
				}
			}
			return all
		},
	}}
}

// seriesSet are series that were found, without an error.
type seriesSet struct {
	storage.SeriesSet
	current storage.Series
	left    []storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.current, s.left = s.left[0], s.left[1:]
	return true
}

func (s *seriesSet) At() storage.Series { return s.current }

// query evaluates an expression for every step of an hour.
func (m memory) query(t *testing.T, expr string) promql.Matrix {
	t.Helper()
	start := time.Unix(0, 0)
	query, err := engine.NewRangeQuery(t.Context(), m.queryable(), nil, expr, start, start.Add(time.Hour), every)
	if err != nil {
		t.Fatalf("%v in\n%s", err, expr)
	}
	matrix, err := query.Exec(t.Context()).Matrix() // It stays valid, as nothing closes the query.
	if err != nil {
		t.Fatalf("%v in\n%s", err, expr)
	}
	return matrix
}

// selectors returns the selectors in an expression.
func selectors(t *testing.T, expr string) []*parser.VectorSelector {
	t.Helper()
	parsed, err := syntax.ParseExpr(expr)
	if err != nil {
		t.Fatalf("%v in\n%s", err, expr)
	}
	var all []*parser.VectorSelector
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			all = append(all, s)
		}
		return nil
	})
	return all
}

// alerts are those of artifacts/prometheus, by name.
func alerts(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "artifacts", "prometheus", "rules.yaml"))
	succeed(t, err)
	var object struct {
		Spec any `json:"spec"`
	}
	succeed(t, yaml.Unmarshal(data, &object))
	spec, err := yaml.Marshal(object.Spec)
	succeed(t, err)
	groups, errs := rulefmt.Parse(spec, false, model.LegacyValidation, syntax, nil)
	for _, err := range errs {
		t.Fatal(err)
	}
	all := map[string]rulefmt.Rule{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			if _, twice := all[rule.Alert]; twice || rule.Alert == "" {
				t.Errorf("group %s: the alert %q is there twice, or has no name", group.Name, rule.Alert)
			}
			all[rule.Alert] = rule
		}
	}
	return all
}

// firing returns the alerts of a rule that fire at some time: that have been true for as long
// as the rule says. Each is as it was when it began to.
func firing(t *testing.T, rule rulefmt.Rule, m memory) []promql.Sample {
	t.Helper()
	var all []promql.Sample
	for _, s := range m.query(t, rule.Expr) {
		since := s.Floats[0].T
		for i, p := range s.Floats {
			if i > 0 && p.T-s.Floats[i-1].T > every.Milliseconds() {
				since = p.T
			}
			if p.T-since >= time.Duration(rule.For).Milliseconds() {
				all = append(all, promql.Sample{Metric: s.Metric, T: p.T, F: p.F})
				break
			}
		}
	}
	return all
}

func TestAlertsSayWhatToDo(t *testing.T) {
	for name, rule := range alerts(t) {
		t.Run(name, func(t *testing.T) {
			for _, s := range selectors(t, rule.Expr) {
				ofOperator := func(by *labels.Matcher) bool { return by.String() == `job="glassback-metrics"` }
				if !strings.HasPrefix(s.Name, "apiserver_") && !slices.ContainsFunc(s.LabelMatchers, ofOperator) {
					t.Errorf("it is about %s of whatever job", s)
				}
			}
			if severity := rule.Labels["severity"]; severity != "critical" && severity != "warning" {
				t.Errorf("the severity is %q", severity)
			}
			for _, annotation := range []string{"summary", "description"} {
				if text := rule.Annotations[annotation]; !strings.HasSuffix(text, ".") || strings.Contains(text, "\n") {
					t.Errorf("the %s is %q", annotation, text)
				}
			}
		})
	}
}

// say returns an annotation as it is sent.
func say(t *testing.T, text string, alert promql.Sample) string {
	t.Helper()
	const variables = "{{$labels := .Labels}}{{$value := .Value}}"
	data := template.AlertTemplateData(alert.Metric.Map(), nil, "", alert)
	noQueries := func(context.Context, string, time.Time) (promql.Vector, error) {
		return nil, fmt.Errorf("no server")
	}
	said, err := template.NewTemplateExpander(t.Context(), variables+text, "annotation", data, model.Time(alert.T), noQueries, nil,
		[]string{"missingkey=error"}).Expand()
	if err != nil {
		t.Errorf("%v in %s", err, text)
	}
	return said
}

// Two replicas in Pods a and b, of which a leads.
const (
	a      = `job="glassback-metrics",namespace="glassback-system",pod="a",instance="10.0.0.1:8443"`
	b      = `job="glassback-metrics",namespace="glassback-system",pod="b",instance="10.0.0.2:8443"`
	aLeads = `leader_election_master_status{` + a + `,name="glassback"} 1x120
		leader_election_master_status{` + b + `,name="glassback"} 0x120
		`
	ofDemo = `{` + a + `,exported_namespace="team",rediscluster="demo"}`
)

// degraded are MyCronJobs whose condition Degraded has that status.
func degraded(replica, status, samples string) string {
	return `glassback_conditions{` + replica + `,kind="MyCronJob",exported_namespace="team",type="Degraded",reason="MissedSlots",status="` +
		status + `"} ` + samples + "\n"
}

// redisNode is a metric of a Redis node.
func redisNode(metric, samples string) string {
	return "glassback_redis_node_" + metric + `{` + a + `,exported_namespace="team",rediscluster="demo",node="demo-0"} ` + samples + "\n"
}

// histogram is one in which every request takes longer than le, of 1 a scrape.
func histogram(name, by, le string) string {
	return fmt.Sprintf("%s_bucket{%s,%s,le=%q} 0x120\n%s_bucket{%s,%s,le=\"+Inf\"} 0+1x120", name, a, by, le, name, a, by)
}

func TestAlertsFireOnWhatTheyAreFor(t *testing.T) {
	rules := alerts(t)
	silent := slices.Collect(maps.Keys(rules)) // until it is heard
	for name, test := range map[string]struct {
		alert   string
		samples string // an hour of them
		want    string // the summary; none if it must not fire
	}{
		"no replica can be scraped": {
			"GlassbackDown", `up{` + a + `} 1x10 0x110`, "No Glassback replica can be scraped.",
		},
		"one of two replicas is away for long": {
			"GlassbackReplicaDown", `up{` + a + `} 0x120
				up{` + b + `} 1x120`, "A Glassback replica cannot be scraped.",
		},
		"the leader leads, and cannot be scraped for some minutes": {
			"GlassbackNoLeader", `up{` + a + `} 1x10 0x9 1x100
				up{` + b + `} 1x120
				leader_election_master_status{` + a + `,name="glassback"} 1x10 stale _x8 1x100
				leader_election_master_status{` + b + `,name="glassback"} 0x120`, "",
		},
		"a replica is away, and the other one does not lead": {
			"GlassbackNoLeader", `up{` + a + `} 1x10 0x110
				up{` + b + `} 1x120
				leader_election_master_status{` + a + `,name="glassback"} 1x10 stale
				leader_election_master_status{` + b + `,name="glassback"} 0x120`, "Glassback replicas run, but none is the leader.",
		},
		"another installation runs": {
			"GlassbackDown", `up{job="glassback-metrics",namespace="other",pod="c"} 1x120`, "No Glassback replica can be scraped.",
		},
		"API servers do not reach a webhook": {
			"GlassbackWebhookUnreachable", `apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",` +
				`name="validate.redisclusters.bytewang123-redis.wzj.kubebuilder.io"} 0+1x120`,
			"API servers do not reach the webhook validate.redisclusters.bytewang123-redis.wzj.kubebuilder.io.",
		},
		"slots have no master": {
			"GlassbackRedisSlotsUncovered", `glassback_conditions{` + a + `,kind="RedisCluster",exported_namespace="team",type="SlotsCovered",` +
				`reason="SlotsUncovered",status="False"} 1x120`, "1 RedisClusters in namespace team have slots without a master.",
		},
		"slots have lost their data": {
			"GlassbackRedisDataLoss", `glassback_conditions{` + a + `,kind="RedisCluster",exported_namespace="team",type="DataLoss",` +
				`reason="DataLoss",status="True"} 1x120`, "1 RedisClusters in namespace team have lost the data of slots.",
		},
		"a Redis node does not answer": {
			"GlassbackRedisNodeDown", redisNode("up", "0x120"), "demo-0 in namespace team does not answer.",
		},
		"a certificate of a RedisCluster expires": {
			"GlassbackRedisCertificateExpires", `glassback_rediscluster_certificate_expiry_timestamp_seconds` + ofDemo + ` 90000x120`,
			"The certificate of demo in namespace team expires in 1d 0h 45m 0s.",
		},
		"no replica leads": {
			"GlassbackNoLeader", `leader_election_master_status{` + a + `,name="glassback"} 1x10 0x110
				leader_election_master_status{` + b + `,name="glassback"} 0x120`, "Glassback replicas run, but none is the leader.",
		},
		"the leader is killed, and another one follows after its lease": {
			"GlassbackNoLeader", `leader_election_master_status{` + a + `,name="glassback"} 1x10 stale
				leader_election_master_status{` + b + `,name="glassback"} 0x11 1x100`, "",
		},
		"two lead": {
			"GlassbackTwoLeaders", `leader_election_master_status{` + a + `,name="glassback"} 1x120
				leader_election_master_status{` + b + `,name="glassback"} 1x120`, "2 Glassback replicas report that they are the leader.",
		},
		"a leader is scraped before its successor, and the successor after that": {
			"GlassbackTwoLeaders", `leader_election_master_status{` + a + `,name="glassback"} 1x10 0x110
				leader_election_master_status{` + b + `,name="glassback"} 0x10 1x110`, "",
		},
		"a container starts again and again": {
			"GlassbackRestarting", `process_start_time_seconds{` + a + `} 100x10 200x10 300x10 400x90`,
			"a of Glassback has restarted 3 times in half an hour.",
		},
		"both replicas are replaced by an upgrade": {
			"GlassbackRestarting", `process_start_time_seconds{` + a + `} 100x10 stale
				process_start_time_seconds{` + b + `} 100x20 stale
				process_start_time_seconds{job="glassback-metrics",namespace="glassback-system",pod="c"} _x10 200x100`, "",
		},
		"a sync fails with an ever longer backoff": {
			"GlassbackSyncErrors",
			`controller_runtime_reconcile_errors_total{` + a + `,controller="application"} 0 1x5 2x10 3x20 4x20 5x20 6x20 7x20`,
			"Syncs of application have failed for more than half an hour.",
		},
		"a sync panics once": {
			"GlassbackPanics", `controller_runtime_reconcile_panics_total{` + a + `,controller="application"} 0x10 1x100`,
			"A sync of application panicked.",
		},
		"the leader's queue gets longer": {
			"GlassbackQueueNotDrained", aLeads + `workqueue_depth{` + a + `,name="mycronjob"} 1+1x120`,
			"The queue of mycronjob has not been empty for 20 minutes.",
		},
		"a standby's queue gets longer, as no worker empties it": {
			"GlassbackQueueNotDrained", aLeads + `workqueue_depth{` + a + `,name="mycronjob"} 0x120
				workqueue_depth{` + b + `,name="mycronjob"} 1+1x120`, "",
		},
		"the leader's queue is seen empty now and then": {
			"GlassbackQueueNotDrained", aLeads + `workqueue_depth{` + a + `,name="mycronjob"} 9x15 0 9x15 0 9x15 0 9x15 0 9x15 0 9x15 0 9x15 0`, "",
		},
		"a sync does not end": {
			"GlassbackSyncStuck", `workqueue_longest_running_processor_seconds{` + a + `,name="rediscluster"} 0+30x120`,
			"A sync of rediscluster has been running for more than ten minutes.",
		},
		"objects are degraded": {
			"GlassbackObjectsDegraded", degraded(a, "True", "2x120") + degraded(b, "True", "2x120") + degraded(a, "False", "9x120"),
			"2 objects of the kind MyCronJob in namespace team are Degraded.",
		},
		"an object is degraded for a moment": {"GlassbackObjectsDegraded", degraded(a, "True", "1x30 stale"), ""},
		"MyCronJobs wait for a worker": {
			"GlassbackMyCronJobLate", histogram("workqueue_queue_duration_seconds", `name="mycronjob"`, "10"), "MyCronJobs run 10s late.",
		},
		"a slot is missed where some were before": {
			"GlassbackMyCronJobMissed", `glassback_mycronjob_missed_total{` + a + `,exported_namespace="team"} 5x60 6x60`,
			"MyCronJobs in namespace team have missed slots.",
		},
		"a slot is missed by an operator that has just started": {
			"GlassbackMyCronJobMissed", `glassback_mycronjob_missed_total{` + a + `,exported_namespace="team"} _x60 1x60`,
			"MyCronJobs in namespace team have missed slots.",
		},
		"no WATCH opens": {
			"GlassbackWatchFailing", `glassback_informer_watching{` + b + `,resource="jobs.batch"} 1x60 0x60`,
			"b of Glassback does not see jobs.batch.",
		},
		"the first list does not end": {
			"GlassbackWatchFailing", `glassback_informer_watching{` + b + `,resource="jobs.batch"} 1x120
				glassback_informer_synced{` + b + `,resource="jobs.batch"} 0x120`, "b of Glassback does not see jobs.batch.",
		},
		"a scrape falls between two WATCHes": {
			"GlassbackWatchFailing", `glassback_informer_watching{` + b + `,resource="jobs.batch"} 1x10 0 1x10 0 1x90`, "",
		},
		"the API server refuses": {
			"GlassbackForbidden", `rest_client_requests_total{` + a + `,method="PATCH",code="403"} 0+1x120`,
			"The API server rejects PATCH requests of Glassback.",
		},
		"one of five requests gets no answer": {
			"GlassbackAPIErrors", `rest_client_requests_total{` + a + `,method="GET",code="200"} 0+4x120
				rest_client_requests_total{` + a + `,method="GET",code="<error>"} 0+1x120`, "20% of the requests of a to the API server fail.",
		},
		"a webhook panics": {
			"GlassbackWebhookErrors", `controller_runtime_webhook_requests_total{` + a + `,webhook="/validate",code="500"} 0x10 1+1x100`,
			"The webhook /validate fails.",
		},
		"a webhook has no memory left": {
			"GlassbackWebhookOverloaded", `controller_runtime_webhook_requests_total{` + a + `,webhook="/validate",code="429"} 0x10 1+1x100`,
			"The webhooks reject requests that would take too much memory.",
		},
		"a request is too large, which is no error of the webhook": {
			"GlassbackWebhookErrors", `controller_runtime_webhook_requests_total{` + a + `,webhook="/validate",code="507"} 0x10 1+1x100`, "",
		},
		"a webhook is slow": {
			"GlassbackWebhookSlow", histogram("controller_runtime_webhook_latency_seconds", `webhook="/validate"`, "2.5"),
			"The webhook /validate takes 2.5s.",
		},
		"certificate files cannot be read": {
			"GlassbackCertificateErrors", `certwatcher_read_certificate_errors_total{` + b + `} 0+1x120`,
			"The certificate of Glassback's webhooks cannot be read or written.",
		},
		"a certificate is not renewed": {
			"GlassbackCertificateExpires", `glassback_webhook_certificate_expiry_timestamp_seconds{` + b + `} 88200x120`,
			"The certificate of b's webhooks expires in 23h 44m 30s.",
		},
		"ECS throttles": {
			"GlassbackCloudThrottled",
			`glassback_cloud_requests_total{` + a + `,action="DescribeInstances",region="cn-beijing",result="Throttled"} 0+1x120`,
			"ECS throttles DescribeInstances in cn-beijing.",
		},
		"the access key is wrong": {
			"GlassbackCloudRefused",
			`glassback_cloud_requests_total{` + a + `,action="DescribeInstances",region="cn-beijing",result="BadCredentials"} 0+1x120`,
			"ECS refuses DescribeInstances: BadCredentials.",
		},
		"the password of Redis nodes is wrong": {
			"GlassbackRedisPassword", `glassback_redis_requests_total{` + a + `,command="VIEW",result="password"} 0+1x120`,
			"Redis nodes reject the password.",
		},
		"a Redis node is almost full": {
			"GlassbackRedisMemory", redisNode("memory_used_bytes", "95x120") + redisNode("memory_max_bytes", "100x120"),
			"demo-0 in namespace team uses 95% of maxmemory.",
		},
		"a replica lost its master": {
			"GlassbackRedisReplicaUnlinked", redisNode("link_up", "0x120"), "demo-0 in namespace team is not connected to its master.",
		},
		"the last backup failed": {
			"GlassbackRedisBackupFailed", `glassback_rediscluster_backup_failed` + ofDemo + ` 0x10 1x110`,
			"The last backup of demo in namespace team failed.",
		},
		"the last good backup is older than two intervals": {
			"GlassbackRedisBackupOld", `glassback_rediscluster_backup_last_success_timestamp_seconds` + ofDemo + ` 60x120
				glassback_rediscluster_backup_interval_seconds` + ofDemo + ` 600x120`,
			"The last good backup of demo in namespace team is old, or there is none.",
		},
		"there was never a good backup": {
			"GlassbackRedisBackupOld", `glassback_rediscluster_backup_since_timestamp_seconds` + ofDemo + ` 60x120
				glassback_rediscluster_backup_interval_seconds` + ofDemo + ` 600x120`,
			"The last good backup of demo in namespace team is old, or there is none.",
		},
		"the schedule is old, and the last good backup is not": {
			"GlassbackRedisBackupOld", `glassback_rediscluster_backup_since_timestamp_seconds` + ofDemo + ` 0x120
				glassback_rediscluster_backup_last_success_timestamp_seconds` + ofDemo + ` 3600x120
				glassback_rediscluster_backup_interval_seconds` + ofDemo + ` 2400x120`, "",
		},
		"a replica copies all data of its master": {"GlassbackRedisReplicaUnlinked", redisNode("link_up", "1x30 0x20 1x70"), ""},
	} {
		silent = slices.DeleteFunc(silent, func(alert string) bool { return alert == test.alert && test.want != "" })
		t.Run(name, func(t *testing.T) {
			rule, known := rules[test.alert]
			if !known {
				t.Fatalf("there is no alert %s", test.alert)
			}
			var said []string
			for _, alert := range firing(t, rule, load(t, test.samples)) {
				said = append(said, say(t, rule.Annotations["summary"], alert))
				say(t, rule.Annotations["description"], alert)
			}
			if got := strings.Join(said, " "); got != test.want {
				t.Errorf("%s says %q, want %q", test.alert, got, test.want)
			}
		})
	}
	if len(silent) > 0 {
		t.Errorf("these fire on nothing: %s", silent)
	}
}

// succeed fails the test, and ends it, if there is an error.
func succeed(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}
