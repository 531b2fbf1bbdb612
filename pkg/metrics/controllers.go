// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/recording"
	"github.com/glassback/glassback/pkg/trace"
)

var resultNames = [loop.Results]string{
	loop.Success: "success", loop.Error: "error", loop.Panic: "error", loop.Requeue: "requeue", loop.RequeueAfter: "requeue_after",
}

// controllers makes the metrics of controllers.
type controllers struct {
	total, errors, panics, causes *prometheus.CounterVec
	durations                     *prometheus.HistogramVec
	active, workers               *prometheus.GaugeVec
}

func newControllers(in promauto.Factory) *controllers {
	byName := []string{"controller"}
	return &controllers{
		total: in.NewCounterVec(prometheus.CounterOpts{
			Name: "controller_runtime_reconcile_total",
			Help: "Syncs by result. error: it failed, and is retried with backoff. requeue_after: it requested a later sync. " +
				"requeue: it had a conflict with another client, and is retried; controller-runtime counts that as an error." + kubebuilder,
		}, []string{"controller", "result"}),
		errors: in.NewCounterVec(prometheus.CounterOpts{
			Name: "controller_runtime_reconcile_errors_total",
			Help: "Failed syncs, without conflicts." + kubebuilder,
		}, byName),
		panics: in.NewCounterVec(prometheus.CounterOpts{
			Name: "controller_runtime_reconcile_panics_total",
			Help: "Syncs that panicked. They count as failed, too." + kubebuilder,
		}, byName),
		durations: in.NewHistogramVec(prometheus.HistogramOpts{
			Name: "controller_runtime_reconcile_time_seconds",
			Help: "The duration of syncs." + kubebuilder,
			Buckets: []float64{
				0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1,
				1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
			},
		}, byName),
		active: in.NewGaugeVec(prometheus.GaugeOpts{
			Name: "controller_runtime_active_workers",
			Help: "Workers that are busy with a sync." + kubebuilder,
		}, byName),
		workers: in.NewGaugeVec(prometheus.GaugeOpts{
			Name: "controller_runtime_max_concurrent_reconciles",
			Help: "Workers of all namespaces together; 0 while another replica leads." + kubebuilder,
		}, byName),
		causes: in.NewCounterVec(prometheus.CounterOpts{
			Name: "glassback_reconcile_causes_total",
			Help: "Causes of syncs, at most eight of each sync. With a kind: an object of it was Added, Updated, Deleted, or unchanged (Sync). " +
				"Without one: an earlier sync requested this one (After) or failed (Retry), or the operator started (Start).",
		}, []string{"controller", "kind", "verb"}),
	}
}

// Controller returns the metrics of the controller of that name. From now on its series exist, with the value 0, except the
// series of causes. Loops may share a name: with --namespaces, each namespace has a Loop of each controller.
func (m *Metrics) Controller(name string) loop.Observer {
	c := m.controllers
	observer := &controller{
		errors:    c.errors.WithLabelValues(name),
		panics:    c.panics.WithLabelValues(name),
		durations: c.durations.WithLabelValues(name),
		active:    c.active.WithLabelValues(name),
		workers:   c.workers.WithLabelValues(name),
		causes:    c.causes.MustCurryWith(prometheus.Labels{"controller": name}),
		byCause:   map[cause]prometheus.Counter{},
	}
	for result, text := range resultNames {
		observer.results[result] = c.total.WithLabelValues(name, text)
	}
	return observer
}

// controller is a loop.Observer that counts for one controller. Its labels are resolved: counting allocates nothing.
type controller struct {
	loop.NoObserver

	results         [loop.Results]prometheus.Counter
	errors, panics  prometheus.Counter
	durations       prometheus.Observer
	active, workers prometheus.Gauge

	causes  *prometheus.CounterVec
	mu      sync.RWMutex
	byCause map[cause]prometheus.Counter
}

type cause struct{ kind, verb string }

func (c *controller) Run(_ context.Context, workers int) (end func()) {
	c.workers.Add(float64(workers))
	return func() { c.workers.Sub(float64(workers)) }
}

func (c *controller) Begin(ctx context.Context, e trace.Event) context.Context {
	c.active.Inc()
	for i := range e.Causes {
		c.counterOf(cause{e.Causes[i].Kind, e.Causes[i].Verb}).Inc()
	}
	return ctx
}

func (c *controller) counterOf(k cause) prometheus.Counter {
	c.mu.RLock()
	counter := c.byCause[k]
	c.mu.RUnlock()
	if counter == nil {
		counter = c.causes.WithLabelValues(k.kind, k.verb)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.byCause[k] = counter
	}
	return counter
}

func (c *controller) End(_ context.Context, e trace.Event, result loop.Result) {
	c.active.Dec()
	c.results[result].Inc()
	c.durations.Observe(e.Duration.Seconds())
	if result == loop.Panic {
		c.panics.Inc()
	}
	if result == loop.Error || result == loop.Panic {
		c.errors.Inc()
	}
}

// newMissed returns a function that counts missed slots of MyCronJobs.
func newMissed(in promauto.Factory) func(namespace string, slots int64) {
	total := in.NewCounterVec(prometheus.CounterOpts{
		Name: "glassback_mycronjob_missed_total",
		Help: "Missed slots of MyCronJobs, by the namespace of the MyCronJob: the increase of status.missedTotal.",
	}, []string{"namespace"})
	return func(namespace string, slots int64) { total.WithLabelValues(namespace).Add(float64(slots)) }
}

// newRecorded returns a function that counts records of syncs.
func newRecorded(in promauto.Factory) func(result recording.Result, records int) {
	total := in.NewCounterVec(prometheus.CounterOpts{
		Name: "glassback_recorded_syncs_total",
		Help: "Syncs that --record has handled. written: its files have them. dropped: the disk was too slow, or failed.",
	}, []string{"result"})
	for _, result := range []recording.Result{recording.Written, recording.Dropped} {
		total.WithLabelValues(string(result))
	}
	return func(result recording.Result, records int) {
		total.WithLabelValues(string(result)).Add(float64(records))
	}
}
