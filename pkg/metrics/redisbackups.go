// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/controller/rediscluster"
)

// maxBackups limits the RedisClusters whose backups are shown. Each has up to 6 series. Those with a failed backup come first.
const maxBackups = 1000

// redisBackups collects the metrics of the backups of RedisClusters, as the leader last observed them.
type redisBackups struct {
	mu       sync.Mutex
	clusters map[cache.ObjectName]rediscluster.BackupMetrics
}

var backedUp = redisBackups{clusters: map[cache.ObjectName]rediscluster.BackupMetrics{}}

// observe is a rediscluster.BackupsObserver.
func (r *redisBackups) observe(cluster cache.ObjectName, backups *rediscluster.BackupMetrics) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if backups == nil {
		delete(r.clusters, cluster)
	} else {
		r.clusters[cluster] = *backups
	}
}

// redisBackupMetric is a metric of the backups of a RedisCluster. A RedisCluster has the metric if exists returns true.
type redisBackupMetric struct {
	desc   *prometheus.Desc
	exists func(rediscluster.BackupMetrics) bool
	value  func(rediscluster.BackupMetrics) float64
}

func newRedisBackupMetric(name, help string, exists func(rediscluster.BackupMetrics) bool,
	value func(rediscluster.BackupMetrics) float64,
) redisBackupMetric {
	return redisBackupMetric{
		prometheus.NewDesc("glassback_rediscluster_backup_"+name, help, []string{"namespace", "rediscluster"}, nil), exists, value,
	}
}

func always(rediscluster.BackupMetrics) bool { return true }

func scheduled(m rediscluster.BackupMetrics) bool { return m.Interval > 0 }

func succeeded(m rediscluster.BackupMetrics) bool { return !m.Succeeded.IsZero() }

var redisBackupMetrics = []redisBackupMetric{
	newRedisBackupMetric("failed", "1 if the last backup failed, or if none can be made.", always,
		func(m rediscluster.BackupMetrics) float64 { return float64(oneIf(m.Failed)) }),
	newRedisBackupMetric("interval_seconds", "The longest time between two of the next times of the schedule.", scheduled,
		func(m rediscluster.BackupMetrics) float64 { return m.Interval.Seconds() }),
	newRedisBackupMetric("since_timestamp_seconds", "When the operator noticed the schedule, in seconds since 1970.", scheduled,
		func(m rediscluster.BackupMetrics) float64 { return float64(m.Since.Unix()) }),
	newRedisBackupMetric("last_success_timestamp_seconds", "The end of the last good backup, in seconds since 1970.", succeeded,
		func(m rediscluster.BackupMetrics) float64 { return float64(m.Succeeded.Unix()) }),
	newRedisBackupMetric("last_keys", "Keys of the last good backup.", succeeded,
		func(m rediscluster.BackupMetrics) float64 { return float64(m.Keys) }),
	newRedisBackupMetric("last_bytes", "Size of the last good backup.", succeeded,
		func(m rediscluster.BackupMetrics) float64 { return float64(m.Bytes) }),
}

// Describe implements prometheus.Collector.
func (r *redisBackups) Describe(to chan<- *prometheus.Desc) {
	for _, m := range redisBackupMetrics {
		to <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (r *redisBackups) Collect(to chan<- prometheus.Metric) {
	r.mu.Lock()
	clusters := maps.Clone(r.clusters)
	r.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(clusters), func(a, b cache.ObjectName) int {
		return cmp.Or(oneIf(clusters[b].Failed)-oneIf(clusters[a].Failed), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, name := range names[:min(len(names), maxBackups)] {
		for _, m := range redisBackupMetrics {
			if m.exists(clusters[name]) {
				to <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, m.value(clusters[name]), name.Namespace, name.Name)
			}
		}
	}
}
