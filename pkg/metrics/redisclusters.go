// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/controller/rediscluster"
)

// maxClusters limits the RedisClusters that are shown. Each has up to 7 series. Namespaces take turns, and those of a namespace with a
// failed backup come first.
const maxClusters = 1000

// redisClusters shows what the status of each cached RedisCluster says. So a RedisCluster that is paused, or whose spec is invalid, keeps
// its metrics.
type redisClusters struct{ informers *informers }

// figures are what the metrics show of a RedisCluster.
type figures struct {
	*redisv1.RedisCluster
	rediscluster.BackupMetrics
}

func newRedisClusterMetric(name, help string, has func(figures) bool, value func(figures) float64) objectMetric[figures] {
	desc := prometheus.NewDesc("glassback_rediscluster_"+name, help, []string{"namespace", "rediscluster"}, nil)
	return objectMetric[figures]{desc, prometheus.GaugeValue, has, value}
}

func (f figures) backsUp() bool { return f.Spec.Backup != nil && f.Status.Backup != nil }

func (f figures) scheduled() bool { return f.Interval > 0 }

func (f figures) succeeded() bool { return !f.Succeeded.IsZero() }

func (f figures) hasCertificate() bool {
	return f.Spec.TLS != nil && f.Status.TLS != nil && f.Status.TLS.NotAfter != nil
}

var redisClusterMetrics = objectMetrics[figures]{
	newRedisClusterMetric("backup_failed", "1 if the last backup failed, or if none can be made.", figures.backsUp,
		func(f figures) float64 { return float64(oneIf(f.Failed)) }),
	newRedisClusterMetric("backup_interval_seconds", "The longest time between two of the next times of the schedule.", figures.scheduled,
		func(f figures) float64 { return f.Interval.Seconds() }),
	newRedisClusterMetric("backup_since_timestamp_seconds", "When the operator noticed the schedule, in seconds since 1970.",
		figures.scheduled, func(f figures) float64 { return float64(f.Since.Unix()) }),
	newRedisClusterMetric("backup_last_success_timestamp_seconds", "The end of the last good backup, in seconds since 1970.",
		figures.succeeded, func(f figures) float64 { return float64(f.Succeeded.Unix()) }),
	newRedisClusterMetric("backup_last_keys", "Keys of the last good backup.", figures.succeeded,
		func(f figures) float64 { return float64(f.Keys) }),
	newRedisClusterMetric("backup_last_bytes", "Size of the last good backup.", figures.succeeded,
		func(f figures) float64 { return float64(f.Bytes) }),
	newRedisClusterMetric("certificate_expiry_timestamp_seconds", "When the certificate of spec.tls expires, in seconds since 1970.",
		figures.hasCertificate, func(f figures) float64 { return float64(f.Status.TLS.NotAfter.Unix()) }),
}

// Describe implements prometheus.Collector.
func (r *redisClusters) Describe(to chan<- *prometheus.Desc) { redisClusterMetrics.Describe(to) }

// Collect implements prometheus.Collector.
func (r *redisClusters) Collect(to chan<- prometheus.Metric) {
	var all []figures
	for _, m := range r.informers.running() {
		if m.Kind() != "RedisCluster" {
			continue
		}
		for _, cached := range m.GetStore().List() {
			rdc := cached.(*redisv1.RedisCluster) //nolint:forcetypeassert // The cache has only these.
			f := figures{RedisCluster: rdc, BackupMetrics: rediscluster.BackupMetricsOf(rdc, time.Now())}
			if f.backsUp() || f.hasCertificate() {
				all = append(all, f)
			}
		}
	}
	slices.SortFunc(all, func(a, b figures) int {
		return cmp.Or(oneIf(b.Failed)-oneIf(a.Failed), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	all = inTurns(all, func(f figures) string { return f.Namespace })
	for _, f := range all[:min(len(all), maxClusters)] {
		redisClusterMetrics.collect(to, f, f.Namespace, f.Name)
	}
}
