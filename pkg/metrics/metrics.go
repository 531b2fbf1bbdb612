// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection" // leader_election_*
	_ "k8s.io/component-base/metrics/prometheus/restclient"              // rest_client_*
	_ "k8s.io/component-base/metrics/prometheus/workqueue"               // workqueue_*
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/recording"
	"github.com/glassback/glassback/pkg/redisnode"
)

// maxScrapes is the maximum number of concurrent scrapes. A scrape takes some milliseconds.
const maxScrapes = 8

// kubebuilder ends the help of a metric that has the same name in kubebuilder's operators.
const kubebuilder = " The name is the one that dashboards of kubebuilder's operators use."

// Metrics are the metrics of an operator. Its parts get what they call with their Config.
type Metrics struct {
	registry    *prometheus.Registry
	informers   informers
	nodes       redisNodes
	controllers *controllers
	webhooks    *webhooks
	certificate *certificateMetrics

	// Missed counts missed slots of MyCronJobs.
	Missed func(namespace string, slots int64)
	// Recorded counts records of syncs.
	Recorded func(result recording.Result, records int)
	// Cloud and Redis count requests.
	Cloud aliyun.Observer
	Redis redisnode.Observer
}

// New returns Metrics. version and commit are those of the build. objects is the number of objects whose conditions are shown one by one.
func New(version, commit string, objects int) *Metrics {
	registry := prometheus.NewRegistry()
	in := promauto.With(registry)
	in.NewGaugeVec(prometheus.GaugeOpts{
		Name: "glassback_build_info",
		Help: "Always 1: the labels are the version that runs.",
	}, []string{"version", "commit", "go_version"}).WithLabelValues(version, commit, runtime.Version()).Set(1)
	m := &Metrics{
		registry: registry, nodes: redisNodes{clusters: map[cache.ObjectName][]redisnode.Metrics{}},
		controllers: newControllers(in), webhooks: newWebhooks(in), certificate: newCertificate(in),
		Missed: newMissed(in), Recorded: newRecorded(in), Cloud: newCloud(in), Redis: newRedis(in),
	}
	registry.MustRegister(&m.informers, &conditions{informers: &m.informers, maxObjects: objects}, &m.nodes, &redisClusters{&m.informers})
	return m
}

// Handler answers every request with these metrics, and with those of client-go, which a process has once: see Protect.
func (m *Metrics) Handler() http.Handler {
	all := prometheus.Gatherers{legacyregistry.DefaultGatherer, m.registry}
	return promhttp.HandlerFor(all, promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError, // A broken metric does not hide the others.
		ErrorLog:            errorLog{},
		MaxRequestsInFlight: maxScrapes,
	})
}

type errorLog struct{}

// Println logs an error of a scrape.
func (errorLog) Println(args ...any) {
	klog.Background().Error(nil, "Could not show all metrics", "err", fmt.Sprint(args...))
}

// inTurns returns sorted items in another order, in which namespaces take turns: the first item of each, then the second of each. So a
// limit cuts off the last items of the namespaces that have the most.
func inTurns[T any](sorted []T, namespaceOf func(T) string) []T {
	type ranked struct {
		item T
		rank int
	}
	ranks, next := make([]ranked, len(sorted)), map[string]int{}
	for i, item := range sorted {
		namespace := namespaceOf(item)
		ranks[i] = ranked{item, next[namespace]}
		next[namespace]++
	}
	slices.SortStableFunc(ranks, func(a, b ranked) int { return a.rank - b.rank })
	inTurns := make([]T, len(ranks))
	for i := range ranks {
		inTurns[i] = ranks[i].item
	}
	return inTurns
}
