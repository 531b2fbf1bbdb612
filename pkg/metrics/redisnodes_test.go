// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/apis/glassback"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

// poll has the nodes of a RedisCluster shown until the test ends.
func poll(t *testing.T, name string, nodes ...redisnode.Metrics) {
	t.Helper()
	cluster := cache.NewObjectName("default", name)
	all.nodes.observe(cluster, nodes)
	t.Cleanup(func() { all.nodes.observe(cluster, nil) })
}

func feedRedisNodes(t *testing.T) {
	t.Helper()
	poll(t, "promised", redisnode.Metrics{Pod: "promised-0", Answers: true})
}

func TestRedisNodes(t *testing.T) {
	poll(t, "demo",
		redisnode.Metrics{
			Pod: "demo-0", Answers: true, Master: true, Slots: 5461, Keys: 7, Offset: 1000, Lag: -1,
			Stats: redisnode.Stats{
				MemoryUsed: 1 << 20, MemoryMax: 4 << 20, Clients: 3, Commands: 1234, Evicted: 5, LastSave: time.Unix(1763900000, 0),
			},
		},
		redisnode.Metrics{Pod: "demo-1", Answers: true, LinkUp: true, Keys: 7, Offset: 990, Lag: 10},
		redisnode.Metrics{Pod: "demo-2", Answers: true, Offset: 500, Lag: -1},
		redisnode.Metrics{Pod: "demo-3"},
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

	all.nodes.observe(cache.NewObjectName("default", "demo"), nil)
	if found := scrape(t)["glassback_redis_node_up"]; found != nil {
		t.Errorf("there is still %v", found)
	}
}

func TestRedisNodesAreLimited(t *testing.T) {
	nodes := make([]redisnode.Metrics, maxRedisNodes+2)
	for i := range nodes {
		nodes[i] = redisnode.Metrics{Pod: fmt.Sprintf("large-%04d", i), Answers: i != maxRedisNodes+1}
	}
	poll(t, "large", nodes...)
	s := scrape(t)
	if n := len(s["glassback_redis_node_up"].GetMetric()); n != maxRedisNodes {
		t.Errorf("%d nodes are shown, want %d", n, maxRedisNodes)
	}
	s.expect(t, 2, "glassback_redis_nodes_omitted")
	s.expect(t, 0, "glassback_redis_node_up", "namespace=default", "rediscluster=large", "node="+nodes[maxRedisNodes+1].Pod)

	for i := range nodes {
		nodes[i].Answers = false // A tenant can have as many silent nodes as it wants.
	}
	poll(t, "large", nodes...)
	other := cache.NewObjectName("other", "small")
	all.nodes.observe(other, []redisnode.Metrics{{Pod: "small-0", Answers: true}})
	t.Cleanup(func() { all.nodes.observe(other, nil) })
	scrape(t).expect(t, 1, "glassback_redis_node_up", "namespace=other", "rediscluster=small", "node=small-0")
}

// backedUp returns a RedisCluster with backups, which it is shown with.
func backedUp(namespace, name string, change func(*redisv1.RedisCluster)) *redisv1.RedisCluster {
	rdc := &redisv1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	rdc.Spec.Backup, rdc.Status.Backup = &redisv1.Backup{}, &redisv1.BackupStatus{}
	if change != nil {
		change(rdc)
	}
	return rdc
}

func failedBackup(rdc *redisv1.RedisCluster) {
	rdc.Status.Conditions = []metav1.Condition{{Type: redisv1.ConditionBackedUp, Status: metav1.ConditionFalse, Reason: "BackupFailed"}}
}

func feedRedisClusters(t *testing.T) {
	t.Helper()
	show(t, caches(t, backedUp("default", "promised", func(rdc *redisv1.RedisCluster) {
		at := metav1.Unix(1763900000, 0)
		rdc.Spec.TLS, rdc.Status.TLS = &redisv1.TLS{}, &redisv1.TLSStatus{NotAfter: &at}
		rdc.Status.Backup = &redisv1.BackupStatus{
			Schedule: "@hourly", ScheduledSince: &at, LastSuccessfulTime: &at, Last: &redisv1.BackupResult{},
		}
	})))
}

func TestRedisClusters(t *testing.T) {
	at, since := metav1.Unix(1763900000, 0), metav1.Unix(1763700000, 0)
	show(t, caches(t,
		backedUp("default", "good", func(rdc *redisv1.RedisCluster) {
			rdc.Annotations = map[string]string{glassback.AnnotationPaused: "true"}
			rdc.Status.Backup = &redisv1.BackupStatus{
				Schedule: "@hourly", ScheduledSince: &since, LastSuccessfulTime: &at, Last: &redisv1.BackupResult{Keys: 7, Bytes: 900},
			}
		}),
		backedUp("default", "bad", func(rdc *redisv1.RedisCluster) {
			failedBackup(rdc)
			rdc.Status.Backup.Schedule, rdc.Status.Backup.ScheduledSince = "@daily", &since
			rdc.Spec.TLS, rdc.Status.TLS = &redisv1.TLS{}, &redisv1.TLSStatus{NotAfter: &at}
		}),
		backedUp("default", "requested", func(rdc *redisv1.RedisCluster) {
			rdc.Status.Backup = &redisv1.BackupStatus{LastSuccessfulTime: &at, Last: &redisv1.BackupResult{Keys: 8, Bytes: 950}}
		}),
		backedUp("default", "without", func(rdc *redisv1.RedisCluster) { rdc.Spec.Backup = nil })))
	s := scrape(t)
	for name, want := range map[string]map[string]float64{
		"backup_failed":                         {"good": 0, "bad": 1, "requested": 0, "without": absent},
		"backup_interval_seconds":               {"good": 3600, "bad": 86400, "requested": absent},
		"backup_since_timestamp_seconds":        {"good": 1763700000, "bad": 1763700000, "requested": absent},
		"backup_last_success_timestamp_seconds": {"good": 1763900000, "bad": absent, "requested": 1763900000},
		"backup_last_keys":                      {"good": 7, "bad": absent, "requested": 8},
		"backup_last_bytes":                     {"good": 900, "bad": absent, "requested": 950},
		"certificate_expiry_timestamp_seconds":  {"good": absent, "bad": 1763900000, "requested": absent},
	} {
		for cluster, value := range want {
			s.expectOrAbsent(t, value, "glassback_rediscluster_"+name, "namespace=default", "rediscluster="+cluster)
		}
	}
}

func TestRedisClustersAreLimited(t *testing.T) {
	clusters := []metav1.Object{backedUp("default", "z", failedBackup)}
	for i := range maxClusters {
		clusters = append(clusters, backedUp("default", fmt.Sprintf("a-%d", i), nil))
	}
	show(t, caches(t, clusters...))
	s := scrape(t)
	shown := len(s["glassback_rediscluster_backup_failed"].GetMetric())
	if z := s.series("glassback_rediscluster_backup_failed", "namespace=default", "rediscluster=z"); z == nil || shown != maxClusters {
		t.Errorf("%d RedisClusters are shown, and the failed one is %v", shown, z)
	}
}
