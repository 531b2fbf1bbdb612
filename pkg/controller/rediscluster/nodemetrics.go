// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

func (c *Controller) observeNodes(cluster cache.ObjectName, nodes []redisnode.Metrics) {
	if c.nodes != nil {
		c.nodes(cluster, nodes)
	}
}

// nodeMetrics returns one redisnode.Metrics for each Pod that exists.
func (o *observed) nodeMetrics() []redisnode.Metrics {
	var all []redisnode.Metrics
	for _, m := range o.Members {
		switch {
		case m.Pod == nil:
		case !m.answers():
			all = append(all, redisnode.Metrics{Pod: m.Name})
		default:
			all = append(all, redisnode.Metrics{
				Pod: m.Name, Answers: true, Master: m.View.Master, LinkUp: m.View.LinkUp, Slots: o.slots[m.ID].Len(),
				Keys: m.View.Keys, Offset: m.View.Offset, Lag: o.lag(m), Stats: m.View.Stats,
			})
		}
	}
	return all
}

// lag returns how many bytes a replica lacks, or -1 if that is unknown. The two nodes answer at different moments, so the master may seem
// to be behind.
func (o *observed) lag(m *member) int64 {
	master := o.byID[m.self().MasterID]
	if m.View.Master || master == nil || !master.answers() {
		return -1
	}
	return max(master.View.Offset-m.View.Offset, 0)
}

// BackupMetrics are the figures of the backups of a RedisCluster, as its status has them.
type BackupMetrics struct {
	// Failed is whether the last backup failed, or none can be made.
	Failed bool
	// Succeeded is when the last good backup ended; zero if there is none. Keys and Bytes are its numbers.
	Succeeded   time.Time
	Keys, Bytes int64
	// Since is when the operator noticed the schedule; zero without one.
	Since time.Time
	// Interval is the longest time between two consecutive backups, over the next times of the schedule; 0 without one.
	Interval time.Duration
}

// BackupMetricsOf returns the figures that the status of a RedisCluster with spec.backup has; zero without it.
func BackupMetricsOf(rdc *v1.RedisCluster, now time.Time) BackupMetrics {
	status := rdc.Status.Backup
	if rdc.Spec.Backup == nil || status == nil {
		return BackupMetrics{}
	}
	backedUp := meta.FindStatusCondition(rdc.Status.Conditions, v1.ConditionBackedUp)
	m := BackupMetrics{
		Failed:   backedUp != nil && backedUp.Status == metav1.ConditionFalse && backedUp.Reason != ReasonNoBackupYet,
		Interval: backupInterval(status.Schedule, now),
	}
	if status.ScheduledSince != nil {
		m.Since = status.ScheduledSince.Time
	}
	if status.Last != nil && status.LastSuccessfulTime != nil {
		m.Succeeded, m.Keys, m.Bytes = status.LastSuccessfulTime.Time, status.Last.Keys, status.Last.Bytes
	}
	return m
}
