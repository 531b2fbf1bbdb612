// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"slices"
	"sync"

	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/cache"
)

// maxRedisNodes is the maximum number of nodes that have metrics. Each node has up to 13 series.
const maxRedisNodes = 1000

// redisNodes collects the metrics of the nodes of RedisClusters, from the last poll of each cluster.
type redisNodes struct {
	mu       sync.Mutex
	clusters map[cache.ObjectName][]redisnode.Metrics
}

// Nodes is a redisnode.NodesObserver.
func (m *Metrics) Nodes(cluster cache.ObjectName, nodes []redisnode.Metrics) {
	m.nodes.observe(cluster, nodes)
}

// observe stores the nodes of a cluster, or removes the cluster if nodes is nil.
func (r *redisNodes) observe(cluster cache.ObjectName, nodes []redisnode.Metrics) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if nodes == nil {
		delete(r.clusters, cluster)
		return
	}
	r.clusters[cluster] = nodes
}

// redisNode is a node with the name of its cluster.
type redisNode struct {
	cluster cache.ObjectName
	redisnode.Metrics
}

// compareRedisNodes sorts nodes that do not answer first, so that maxRedisNodes omits other nodes of a namespace.
func compareRedisNodes(a, b redisNode) int {
	return cmp.Or(oneIf(a.Answers)-oneIf(b.Answers), cmp.Compare(a.cluster.Namespace, b.cluster.Namespace),
		cmp.Compare(a.cluster.Name, b.cluster.Name), cmp.Compare(a.Pod, b.Pod))
}

// all returns the nodes of all clusters. Namespaces take turns, each with its nodes in the order of compareRedisNodes.
func (r *redisNodes) all() []redisNode {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []redisNode
	for cluster, nodes := range r.clusters {
		for _, n := range nodes {
			all = append(all, redisNode{cluster, n})
		}
	}
	slices.SortFunc(all, compareRedisNodes)
	return inTurns(all, func(n redisNode) string { return n.cluster.Namespace })
}

// newRedisNodeMetric returns a metric of nodes. If has is nil, all nodes that answer have the metric.
func newRedisNodeMetric(name, help string, kind prometheus.ValueType, has func(*redisNode) bool,
	value func(*redisNode) float64,
) objectMetric[*redisNode] {
	if has == nil {
		has = func(n *redisNode) bool { return n.Answers }
	}
	desc := prometheus.NewDesc("glassback_redis_node_"+name, help, []string{"namespace", "rediscluster", "node"}, nil)
	return objectMetric[*redisNode]{desc, kind, has, value}
}

func isReplica(n *redisNode) bool { return n.Answers && !n.Master }

var (
	redisNodeMetrics = objectMetrics[*redisNode]{
		newRedisNodeMetric("up", "1 if the Redis node answered the last poll of the operator.",
			prometheus.GaugeValue, func(*redisNode) bool { return true }, func(n *redisNode) float64 { return float64(oneIf(n.Answers)) }),
		newRedisNodeMetric("master", "1 for a master, 0 for a replica.",
			prometheus.GaugeValue, nil, func(n *redisNode) float64 { return float64(oneIf(n.Master)) }),
		newRedisNodeMetric("link_up", "1 for a replica that is connected to its master.",
			prometheus.GaugeValue, isReplica, func(n *redisNode) float64 { return float64(oneIf(n.LinkUp)) }),
		newRedisNodeMetric("slots", "Slots that the node owns.",
			prometheus.GaugeValue, nil, func(n *redisNode) float64 { return float64(n.Slots) }),
		newRedisNodeMetric("keys", "Keys that the node has.",
			prometheus.GaugeValue, nil, func(n *redisNode) float64 { return float64(n.Keys) }),
		newRedisNodeMetric("memory_used_bytes", "Memory that the node has allocated.",
			prometheus.GaugeValue, nil, func(n *redisNode) float64 { return float64(n.MemoryUsed) }),
		newRedisNodeMetric("memory_max_bytes", "The limit of that memory, maxmemory; 0 means no limit.",
			prometheus.GaugeValue, nil, func(n *redisNode) float64 { return float64(n.MemoryMax) }),
		newRedisNodeMetric("clients", "Connected clients, without replicas.",
			prometheus.GaugeValue, nil, func(n *redisNode) float64 { return float64(n.Clients) }),
		newRedisNodeMetric("commands_total", "Commands that the node has processed since its start.",
			prometheus.CounterValue, nil, func(n *redisNode) float64 { return float64(n.Commands) }),
		newRedisNodeMetric("evicted_keys_total", "Keys that the node has deleted since its start because it had reached the limit of its memory.",
			prometheus.CounterValue, nil, func(n *redisNode) float64 { return float64(n.Evicted) }),
		newRedisNodeMetric("replication_offset_bytes", "Bytes of the replication stream that a master has sent, or a replica has applied.",
			prometheus.GaugeValue, nil, func(n *redisNode) float64 { return float64(n.Offset) }),
		newRedisNodeMetric("replication_lag_bytes", "Bytes of its master's replication stream that a replica lacks.",
			prometheus.GaugeValue, func(n *redisNode) bool { return isReplica(n) && n.Lag >= 0 },
			func(n *redisNode) float64 { return float64(n.Lag) }),
		newRedisNodeMetric("last_save_timestamp_seconds",
			"The time of the last snapshot, in seconds since 1970; the start of the node if there is none.",
			prometheus.GaugeValue, nil, func(n *redisNode) float64 { return float64(n.LastSave.Unix()) }),
	}
	redisNodesOmittedDesc = prometheus.NewDesc("glassback_redis_nodes_omitted",
		"Redis nodes that no metric shows, because there are more than 1,000. "+
			"Namespaces take turns; their nodes that do not answer come first.", nil, nil)
)

// Describe implements prometheus.Collector.
func (r *redisNodes) Describe(to chan<- *prometheus.Desc) {
	redisNodeMetrics.Describe(to)
	to <- redisNodesOmittedDesc
}

// Collect implements prometheus.Collector.
func (r *redisNodes) Collect(to chan<- prometheus.Metric) {
	all := r.all()
	shown := all[:min(len(all), maxRedisNodes)]
	for i := range shown {
		n := &shown[i]
		redisNodeMetrics.collect(to, n, n.cluster.Namespace, n.cluster.Name, n.Pod)
	}
	to <- prometheus.MustNewConstMetric(redisNodesOmittedDesc, prometheus.GaugeValue, float64(len(all)-len(shown)))
}
