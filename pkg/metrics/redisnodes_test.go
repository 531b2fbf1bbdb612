// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/controller/rediscluster"
	"github.com/glassback/glassback/pkg/redisnode"
)

// poll has the nodes of a RedisCluster shown until the test ends.
func poll(t *testing.T, name string, nodes ...rediscluster.NodeMetrics) {
	t.Helper()
	cluster := cache.NewObjectName("default", name)
	polled.observe(cluster, nodes)
	t.Cleanup(func() { polled.observe(cluster, nil) })
}

func feedRedisNodes(t *testing.T) {
	t.Helper()
	poll(t, "promised", rediscluster.NodeMetrics{Pod: "promised-0", Answers: true})
}

func TestRedisNodes(t *testing.T) {
	poll(t, "demo",
		rediscluster.NodeMetrics{
			Pod: "demo-0", Answers: true, Master: true, Slots: 5461, Keys: 7, Offset: 1000, Lag: -1,
			Stats: redisnode.Stats{
				MemoryUsed: 1 << 20, MemoryMax: 4 << 20, Clients: 3, Commands: 1234, Evicted: 5, LastSave: time.Unix(1763900000, 0),
			},
		},
		rediscluster.NodeMetrics{Pod: "demo-1", Answers: true, LinkUp: true, Keys: 7, Offset: 990, Lag: 10},
		rediscluster.NodeMetrics{Pod: "demo-2", Answers: true, Offset: 500, Lag: -1},
		rediscluster.NodeMetrics{Pod: "demo-3"},
	)
	s := scrape(t)
	for name, want := range map[string][4]float64{
		"up":                          {1, 1, 1, 0},
		"master":                      {1, 0, 0, absent},
		"link_up":                     {absent, 1, 0, absent},
		"slots":                       {5461, 0, 0, absent},
		"keys":                        {7, 7, 0, absent},
		"memory_used_bytes":           {1 << 20, 0, 0, absent},
		"memory_max_bytes":            {4 << 20, 0, 0, absent},
		"clients":                     {3, 0, 0, absent},
		"commands_total":              {1234, 0, 0, absent},
		"evicted_keys_total":          {5, 0, 0, absent},
		"replication_offset_bytes":    {1000, 990, 500, absent},
		"replication_lag_bytes":       {absent, 10, absent, absent},
		"last_save_timestamp_seconds": {1763900000, float64(time.Time{}.Unix()), float64(time.Time{}.Unix()), absent},
	} {
		for i, value := range want {
			s.expectOrAbsent(t, value, "glassback_redis_node_"+name, "namespace=default", "rediscluster=demo", fmt.Sprintf("node=demo-%d", i))
		}
	}
	s.expect(t, 0, "glassback_redis_nodes_omitted")

	polled.observe(cache.NewObjectName("default", "demo"), nil)
	if found := scrape(t)["glassback_redis_node_up"]; found != nil {
		t.Errorf("there is still %v", found)
	}
}

func TestRedisNodesAreLimited(t *testing.T) {
	nodes := make([]rediscluster.NodeMetrics, maxRedisNodes+2)
	for i := range nodes {
		nodes[i] = rediscluster.NodeMetrics{Pod: fmt.Sprintf("large-%04d", i), Answers: i != maxRedisNodes+1}
	}
	poll(t, "large", nodes...)
	s := scrape(t)
	if n := len(s["glassback_redis_node_up"].GetMetric()); n != maxRedisNodes {
		t.Errorf("%d nodes are shown, want %d", n, maxRedisNodes)
	}
	s.expect(t, 2, "glassback_redis_nodes_omitted")
	s.expect(t, 0, "glassback_redis_node_up", "namespace=default", "rediscluster=large", "node="+nodes[maxRedisNodes+1].Pod)
}

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
			s.expectOrAbsent(t, value, "glassback_rediscluster_backup_"+name, "namespace=default", "rediscluster="+cluster)
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
