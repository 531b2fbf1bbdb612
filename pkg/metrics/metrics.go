// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection" // leader_election_*
	_ "k8s.io/component-base/metrics/prometheus/restclient"              // rest_client_*
	_ "k8s.io/component-base/metrics/prometheus/workqueue"               // workqueue_*
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/controller/mycronjob"
	"github.com/glassback/glassback/pkg/controller/rediscluster"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/recording"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/webhook"
	"github.com/glassback/glassback/pkg/webhook/certificate"
)

// maxScrapes is the maximum number of concurrent scrapes. A scrape takes some milliseconds.
const maxScrapes = 8

// kubebuilder ends the help of a metric that has the same name in kubebuilder's operators.
const kubebuilder = " The name is the one that dashboards of kubebuilder's operators use."

// Register registers the metrics of all parts of the process; Handler serves them. Call it before any part is created: parts that exist
// already do not count. Calls after the first have no effect.
//
// version and commit are those of the build. objects is the number of objects whose conditions are shown one by one.
func Register(version, commit string, objects int) {
	registered.Do(func() { register(legacyregistry.Registerer(), version, commit, objects) })
}

var (
	registered sync.Once
	counting   atomic.Bool // whether AddInformer records informers, because metrics are served
)

func register(registerer prometheus.Registerer, version, commit string, objects int) {
	in := promauto.With(registerer)
	in.NewGaugeVec(prometheus.GaugeOpts{
		Name: "glassback_build_info",
		Help: "Always 1: the labels are the version that runs.",
	}, []string{"version", "commit", "go_version"}).WithLabelValues(version, commit, runtime.Version()).Set(1)
	registerer.MustRegister(&watched, &conditions{informers: &watched, maxObjects: objects}, &polled,
		&redisClusters{&watched})
	counting.Store(true)

	loop.SetMetricsProvider(newControllers(in))
	webhook.SetMetricsProvider(newWebhooks(in))
	certificate.SetReadObserver(newCertificates(in))
	certificate.SetExpiryObserver(newExpiry(in))
	mycronjob.SetMissedObserver(newMissed(in))
	aliyun.AddObserver(newCloud(in))
	redisnode.AddObserver(newRedis(in))
	rediscluster.SetNodesObserver(polled.observe)
	recording.SetObserver(newRecorded(in))
}

// Handler answers every request with all metrics: see Protect.
func Handler() http.Handler {
	return promhttp.HandlerFor(legacyregistry.DefaultGatherer, promhttp.HandlerOpts{
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
