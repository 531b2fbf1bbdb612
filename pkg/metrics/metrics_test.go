// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/glassback/glassback/pkg/must"
)

// all are the metrics of all tests, beside those of client-go, which a process has once.
var all = New("v1.2.3", "0badc0de", shownObjects)

var serial atomic.Int64

// unique makes a name that no other test has, nor the same one when it runs again: what is counted in a process stays.
func unique(name string) string { return fmt.Sprintf("%s-%d", name, serial.Add(1)) }

// scraped is what a Prometheus reads, by name.
type scraped map[string]*dto.MetricFamily

func scrape(t testing.TB) scraped {
	t.Helper()
	w := httptest.NewRecorder()
	all.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(w.Body)
	must.Succeed(t, err)
	return families
}

// series returns the one with exactly these labels ("name=value", in any order); nil if there is none.
func (s scraped) series(name string, labels ...string) *dto.Metric {
	slices.Sort(labels)
	for _, m := range s[name].GetMetric() {
		var has []string
		for _, l := range m.GetLabel() {
			has = append(has, l.GetName()+"="+l.GetValue())
		}
		if slices.Sort(has); slices.Equal(has, labels) {
			return m
		}
	}
	return nil
}

// expect compares the value of a counter or a gauge, or the count of a histogram.
func (s scraped) expect(t *testing.T, want float64, name string, labels ...string) {
	t.Helper()
	m := s.series(name, labels...)
	if m == nil {
		t.Errorf("no %s%v in %v", name, labels, s[name])
		return
	}
	if got := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount()); got != want {
		t.Errorf("%s%v is %v, want %v", name, labels, got, want)
	}
}

// absent is the value of a metric that must not exist.
const absent = -1

func (s scraped) expectOrAbsent(t *testing.T, want float64, name string, labels ...string) {
	t.Helper()
	if want != absent {
		s.expect(t, want, name, labels...)
	} else if found := s.series(name, labels...); found != nil {
		t.Errorf("there is %s: %v", name, found)
	}
}

// promised are the families that dashboards, alerts and documents name.
var promised = map[dto.MetricType]string{
	dto.MetricType_GAUGE: `
		workqueue_depth workqueue_unfinished_work_seconds workqueue_longest_running_processor_seconds leader_election_master_status
		controller_runtime_active_workers controller_runtime_max_concurrent_reconciles controller_runtime_webhook_requests_in_flight
		glassback_webhook_certificate_expiry_timestamp_seconds glassback_build_info glassback_conditions glassback_object_condition
		glassback_informer_objects glassback_informer_synced glassback_informer_queue_length glassback_informer_backlog
		glassback_informer_watching glassback_redis_node_up glassback_redis_node_master glassback_redis_node_link_up
		glassback_redis_node_slots glassback_redis_node_keys glassback_redis_node_memory_used_bytes glassback_redis_node_memory_max_bytes
		glassback_redis_node_clients glassback_redis_node_replication_offset_bytes glassback_redis_node_replication_lag_bytes
		glassback_redis_node_last_save_timestamp_seconds glassback_redis_nodes_omitted glassback_rediscluster_backup_failed
		glassback_rediscluster_backup_interval_seconds glassback_rediscluster_backup_last_success_timestamp_seconds
		glassback_rediscluster_backup_since_timestamp_seconds glassback_rediscluster_backup_last_keys
		glassback_rediscluster_backup_last_bytes glassback_rediscluster_certificate_expiry_timestamp_seconds
		process_resident_memory_bytes go_goroutines go_memstats_heap_inuse_bytes`,
	dto.MetricType_COUNTER: `
		workqueue_adds_total workqueue_retries_total rest_client_requests_total controller_runtime_reconcile_total
		controller_runtime_reconcile_errors_total controller_runtime_reconcile_panics_total controller_runtime_webhook_requests_total
		certwatcher_read_certificate_total certwatcher_read_certificate_errors_total glassback_connections_refused_total
		glassback_reconcile_causes_total glassback_informer_watch_errors_total glassback_mycronjob_missed_total
		glassback_recorded_syncs_total glassback_cloud_requests_total glassback_redis_requests_total glassback_redis_node_commands_total
		glassback_redis_node_evicted_keys_total process_cpu_seconds_total`,
	dto.MetricType_HISTOGRAM: `
		workqueue_queue_duration_seconds workqueue_work_duration_seconds rest_client_request_duration_seconds
		controller_runtime_reconcile_time_seconds controller_runtime_webhook_latency_seconds glassback_cloud_request_duration_seconds
		glassback_redis_request_duration_seconds`,
	dto.MetricType_SUMMARY: `
		go_gc_duration_seconds`,
}

func TestAllThatWasPromisedIsScraped(t *testing.T) {
	feedControllers(t, unique("promised"))
	feedInformers(t)
	feedConditions(t)
	feedWebhooks(t)
	feedConnections(t)
	feedCertificates(t)
	feedMissed(t, unique("promised"))
	feedCloud(t)
	feedRedis(t)
	feedRedisNodes(t)
	feedRedisClusters(t)
	feedClient(t)
	feedElection(t)
	s := scrape(t)
	known := map[string]bool{}
	for kind, names := range promised {
		for name := range strings.FieldsSeq(names) {
			known[name] = true
			if family := s[name]; len(family.GetMetric()) == 0 || family.GetType() != kind {
				t.Errorf("%s: %d metrics of the type %s, want a %s", name, len(family.GetMetric()), family.GetType(), kind)
			}
		}
	}

	// What is ours has the names that Prometheus likes, and what everybody knows, a word about it.
	ours := slices.DeleteFunc(slices.Sorted(maps.Keys(s)), func(name string) bool {
		return !strings.HasPrefix(name, "glassback_") && !strings.HasPrefix(name, "controller_runtime_") &&
			!strings.HasPrefix(name, "certwatcher_")
	})
	var families []*dto.MetricFamily
	for _, name := range ours {
		if !known[name] {
			t.Errorf("%s is shown, and not promised", name)
		}
		if shared := !strings.HasPrefix(name, "glassback_"); shared != strings.HasSuffix(s[name].GetHelp(), kubebuilder) {
			t.Errorf("%s: whose name it is, its help does not tell: %s", name, s[name].GetHelp())
		}
		families = append(families, s[name])
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	must.Succeed(t, err)
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

// One metric that cannot be told leaves the others.
func TestABrokenMetricDoesNotHideTheOthers(t *testing.T) {
	broken := brokenCollector{prometheus.NewDesc("glassback_broken", "It is.", nil, nil)}
	legacyregistry.Registerer().MustRegister(broken)
	defer legacyregistry.Registerer().Unregister(broken)
	s := scrape(t)
	s.expect(t, 1, "glassback_build_info", "version=v1.2.3", "commit=0badc0de", "go_version="+runtime.Version())
}

type brokenCollector struct{ desc *prometheus.Desc }

func (c brokenCollector) Describe(to chan<- *prometheus.Desc) { to <- c.desc }
func (c brokenCollector) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.NewInvalidMetric(c.desc, os.ErrInvalid)
}
