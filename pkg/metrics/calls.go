// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/redisnode"
)

// maxRegions limits the values of the label region: Alibaba Cloud has about thirty regions, but users can write any name.
const maxRegions = 64

// newCloud returns the observer that counts the requests to Alibaba Cloud. It looks up the labels for each request, since there are few.
func newCloud(in promauto.Factory) aliyun.Observer {
	total := in.NewCounterVec(prometheus.CounterOpts{
		Name: "glassback_cloud_requests_total",
		Help: "Requests to Alibaba Cloud by action and region (other: beyond the first 64). " +
			"The result is success, or the class of the error as in conditions and logs, such as Throttled.",
	}, []string{"action", "region", "result"})
	took := in.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "glassback_cloud_request_duration_seconds",
		Help:    "How long requests to Alibaba Cloud took. Waiting for the operator's own rate limits is not included.",
		Buckets: []float64{0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60},
	}, []string{"action"})
	seen := &regions{names: map[string]bool{}}
	return func(_ context.Context, action, region string, class aliyun.Class, duration time.Duration) {
		result := string(class)
		if class == "" {
			result = "success"
		}
		total.WithLabelValues(action, seen.label(region), result).Inc()
		took.WithLabelValues(action).Observe(duration.Seconds())
	}
}

// regions holds the regions that have their own label value. All others share the value "other".
type regions struct {
	mu    sync.Mutex
	names map[string]bool
}

func (r *regions) label(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.names[name] {
		if len(r.names) == maxRegions {
			return "other"
		}
		r.names[name] = true
	}
	return name
}

// newRedis returns the observer that counts the requests to redis-servers.
func newRedis(in promauto.Factory) redisnode.Observer {
	total := in.NewCounterVec(prometheus.CounterOpts{
		Name: "glassback_redis_requests_total",
		Help: "Requests to Redis nodes by command. VIEW is the round trip that reads the state of a node. The result is success, " +
			"refused (the node answered with an error), password (it refused the login), unreachable, or canceled (the caller no longer waits).",
	}, []string{"command", "result"})
	took := in.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "glassback_redis_request_duration_seconds",
		Help:    "How long requests to Redis nodes took, including connecting.",
		Buckets: []float64{0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
	}, []string{"command"})
	return func(_ context.Context, command string, result redisnode.Result, duration time.Duration) {
		total.WithLabelValues(command, string(result)).Inc()
		took.WithLabelValues(command).Observe(duration.Seconds())
	}
}
