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
	const absent = -1
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
			of := []string{"namespace=default", "rediscluster=demo", fmt.Sprintf("node=demo-%d", i)}
			if value != absent {
				s.expect(t, value, "glassback_redis_node_"+name, of...)
			} else if found := s.series("glassback_redis_node_"+name, of...); found != nil {
				t.Errorf("node %d has the metric %s: %v", i, name, found)
			}
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
