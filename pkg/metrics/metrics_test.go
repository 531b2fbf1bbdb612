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

func TestMain(m *testing.M) {
	Register("v1.2.3", "0badc0de", shownObjects)
	Register("again", "has no effect", 0)
	os.Exit(m.Run())
}

var serial atomic.Int64

// unique makes a name that no other test has, nor the same one when it runs again: what is counted in a process stays.
func unique(name string) string { return fmt.Sprintf("%s-%d", name, serial.Add(1)) }

// scraped is what a Prometheus reads, by name.
type scraped map[string]*dto.MetricFamily

func scrape(t testing.TB) scraped {
	t.Helper()
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
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

func TestBuildInfo(t *testing.T) {
	s := scrape(t)
	s.expect(t, 1, "glassback_build_info", "version=v1.2.3", "commit=0badc0de", "go_version="+runtime.Version())
	if n := len(s["glassback_build_info"].GetMetric()); n != 1 {
		t.Errorf("%d builds, want one", n)
	}
}

// promised are the families that dashboards, alerts and documents name.
var promised = map[string]dto.MetricType{
	"workqueue_depth":                             dto.MetricType_GAUGE,
	"workqueue_adds_total":                        dto.MetricType_COUNTER,
	"workqueue_queue_duration_seconds":            dto.MetricType_HISTOGRAM,
	"workqueue_work_duration_seconds":             dto.MetricType_HISTOGRAM,
	"workqueue_unfinished_work_seconds":           dto.MetricType_GAUGE,
	"workqueue_longest_running_processor_seconds": dto.MetricType_GAUGE,
	"workqueue_retries_total":                     dto.MetricType_COUNTER,

	"rest_client_requests_total":           dto.MetricType_COUNTER,
	"rest_client_request_duration_seconds": dto.MetricType_HISTOGRAM,
	"leader_election_master_status":        dto.MetricType_GAUGE,

	"controller_runtime_reconcile_total":                           dto.MetricType_COUNTER,
	"controller_runtime_reconcile_errors_total":                    dto.MetricType_COUNTER,
	"controller_runtime_reconcile_panics_total":                    dto.MetricType_COUNTER,
	"controller_runtime_reconcile_time_seconds":                    dto.MetricType_HISTOGRAM,
	"controller_runtime_active_workers":                            dto.MetricType_GAUGE,
	"controller_runtime_max_concurrent_reconciles":                 dto.MetricType_GAUGE,
	"controller_runtime_webhook_requests_total":                    dto.MetricType_COUNTER,
	"controller_runtime_webhook_latency_seconds":                   dto.MetricType_HISTOGRAM,
	"controller_runtime_webhook_requests_in_flight":                dto.MetricType_GAUGE,
	"certwatcher_read_certificate_total":                           dto.MetricType_COUNTER,
	"certwatcher_read_certificate_errors_total":                    dto.MetricType_COUNTER,
	"glassback_webhook_certificate_expiry_timestamp_seconds":       dto.MetricType_GAUGE,
	"glassback_connections_refused_total":                          dto.MetricType_COUNTER,
	"glassback_build_info":                                         dto.MetricType_GAUGE,
	"glassback_reconcile_causes_total":                             dto.MetricType_COUNTER,
	"glassback_conditions":                                         dto.MetricType_GAUGE,
	"glassback_object_condition":                                   dto.MetricType_GAUGE,
	"glassback_informer_objects":                                   dto.MetricType_GAUGE,
	"glassback_informer_synced":                                    dto.MetricType_GAUGE,
	"glassback_informer_queue_length":                              dto.MetricType_GAUGE,
	"glassback_informer_backlog":                                   dto.MetricType_GAUGE,
	"glassback_informer_watching":                                  dto.MetricType_GAUGE,
	"glassback_informer_watch_errors_total":                        dto.MetricType_COUNTER,
	"glassback_mycronjob_missed_total":                             dto.MetricType_COUNTER,
	"glassback_recorded_syncs_total":                               dto.MetricType_COUNTER,
	"glassback_cloud_requests_total":                               dto.MetricType_COUNTER,
	"glassback_cloud_request_duration_seconds":                     dto.MetricType_HISTOGRAM,
	"glassback_redis_requests_total":                               dto.MetricType_COUNTER,
	"glassback_redis_request_duration_seconds":                     dto.MetricType_HISTOGRAM,
	"glassback_redis_node_up":                                      dto.MetricType_GAUGE,
	"glassback_redis_node_master":                                  dto.MetricType_GAUGE,
	"glassback_redis_node_link_up":                                 dto.MetricType_GAUGE,
	"glassback_redis_node_slots":                                   dto.MetricType_GAUGE,
	"glassback_redis_node_keys":                                    dto.MetricType_GAUGE,
	"glassback_redis_node_memory_used_bytes":                       dto.MetricType_GAUGE,
	"glassback_redis_node_memory_max_bytes":                        dto.MetricType_GAUGE,
	"glassback_redis_node_clients":                                 dto.MetricType_GAUGE,
	"glassback_redis_node_commands_total":                          dto.MetricType_COUNTER,
	"glassback_redis_node_evicted_keys_total":                      dto.MetricType_COUNTER,
	"glassback_redis_node_replication_offset_bytes":                dto.MetricType_GAUGE,
	"glassback_redis_node_replication_lag_bytes":                   dto.MetricType_GAUGE,
	"glassback_redis_node_last_save_timestamp_seconds":             dto.MetricType_GAUGE,
	"glassback_redis_nodes_omitted":                                dto.MetricType_GAUGE,
	"glassback_rediscluster_backup_failed":                         dto.MetricType_GAUGE,
	"glassback_rediscluster_backup_interval_seconds":               dto.MetricType_GAUGE,
	"glassback_rediscluster_backup_last_success_timestamp_seconds": dto.MetricType_GAUGE,
	"glassback_rediscluster_backup_since_timestamp_seconds":        dto.MetricType_GAUGE,
	"glassback_rediscluster_backup_last_keys":                      dto.MetricType_GAUGE,
	"glassback_rediscluster_backup_last_bytes":                     dto.MetricType_GAUGE,
	"process_cpu_seconds_total":                                    dto.MetricType_COUNTER,
	"process_resident_memory_bytes":                                dto.MetricType_GAUGE,
	"go_goroutines":                                                dto.MetricType_GAUGE,
	"go_memstats_heap_inuse_bytes":                                 dto.MetricType_GAUGE,
	"go_gc_duration_seconds":                                       dto.MetricType_SUMMARY,
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
	feedRedisBackups(t)
	feedClient(t)
	feedElection(t)
	s := scrape(t)
	for name, kind := range promised {
		t.Run(name, func(t *testing.T) {
			family := s[name]
			if len(family.GetMetric()) == 0 {
				t.Fatal("there is no such metric")
			}
			if family.GetType() != kind {
				t.Errorf("it is a %s, want a %s", family.GetType(), kind)
			}
		})
	}

	// What is ours has the names that Prometheus likes, and what everybody knows, a word about it.
	ours := slices.DeleteFunc(slices.Sorted(maps.Keys(s)), func(name string) bool {
		return !strings.HasPrefix(name, "glassback_") && !strings.HasPrefix(name, "controller_runtime_") &&
			!strings.HasPrefix(name, "certwatcher_")
	})
	var families []*dto.MetricFamily
	for _, name := range ours {
		if _, ok := promised[name]; !ok {
			t.Errorf("%s is shown, and not promised", name)
		}
		if known := !strings.HasPrefix(name, "glassback_"); known != strings.HasSuffix(s[name].GetHelp(), kubebuilder) {
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
	scrape(t).expect(t, 1, "glassback_build_info", "version=v1.2.3", "commit=0badc0de", "go_version="+runtime.Version())
}

type brokenCollector struct{ desc *prometheus.Desc }

func (c brokenCollector) Describe(to chan<- *prometheus.Desc) { to <- c.desc }
func (c brokenCollector) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.NewInvalidMetric(c.desc, os.ErrInvalid)
}

func BenchmarkScrape(b *testing.B) {
	handler := Handler()
	size := 0
	for b.Loop() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		size = w.Body.Len()
	}
	b.ReportMetric(float64(size), "bytes/scrape")
}
