// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/controller/rediscluster"
)

// backUp has the backups of a RedisCluster shown until the test ends.
func backUp(t *testing.T, name string, backups rediscluster.BackupMetrics) {
	t.Helper()
	cluster := cache.NewObjectName("default", name)
	backedUp.observe(cluster, &backups)
	t.Cleanup(func() { backedUp.observe(cluster, nil) })
}

func feedRedisBackups(t *testing.T) {
	t.Helper()
	backUp(t, "promised", rediscluster.BackupMetrics{Succeeded: time.Unix(1763900000, 0), Interval: time.Hour})
}

func TestRedisBackups(t *testing.T) {
	backUp(t, "good", rediscluster.BackupMetrics{
		Since: time.Unix(1763700000, 0), Succeeded: time.Unix(1763900000, 0), Keys: 7, Bytes: 900, Interval: time.Hour,
	})
	backUp(t, "bad", rediscluster.BackupMetrics{Failed: true, Since: time.Unix(1763800000, 0), Interval: 24 * time.Hour})
	backUp(t, "requested", rediscluster.BackupMetrics{Succeeded: time.Unix(1763900000, 0), Keys: 8, Bytes: 950})
	const absent = -1
	s := scrape(t)
	for name, want := range map[string]map[string]float64{
		"failed":                         {"good": 0, "bad": 1, "requested": 0},
		"interval_seconds":               {"good": 3600, "bad": 86400, "requested": absent},
		"since_timestamp_seconds":        {"good": 1763700000, "bad": 1763800000, "requested": absent},
		"last_success_timestamp_seconds": {"good": 1763900000, "bad": absent, "requested": 1763900000},
		"last_keys":                      {"good": 7, "bad": absent, "requested": 8},
		"last_bytes":                     {"good": 900, "bad": absent, "requested": 950},
	} {
		for cluster, value := range want {
			of := []string{"namespace=default", "rediscluster=" + cluster}
			if value != absent {
				s.expect(t, value, "glassback_rediscluster_backup_"+name, of...)
			} else if found := s.series("glassback_rediscluster_backup_"+name, of...); found != nil {
				t.Errorf("%s has the metric %s: %v", cluster, name, found)
			}
		}
	}
	backedUp.observe(cache.NewObjectName("default", "bad"), nil)
	if found := scrape(t).series("glassback_rediscluster_backup_failed", "namespace=default", "rediscluster=bad"); found != nil {
		t.Errorf("there is still %v", found)
	}
}

func TestRedisBackupsAreLimited(t *testing.T) {
	for i := range maxBackups {
		backUp(t, fmt.Sprintf("a-%d", i), rediscluster.BackupMetrics{})
	}
	backUp(t, "z", rediscluster.BackupMetrics{Failed: true})
	s := scrape(t)
	shown := len(s["glassback_rediscluster_backup_failed"].GetMetric())
	if z := s.series("glassback_rediscluster_backup_failed", "namespace=default", "rediscluster=z"); z == nil || shown != maxBackups {
		t.Errorf("%d RedisClusters are shown, and the failed one is %v", shown, z)
	}
}
