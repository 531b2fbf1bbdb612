// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/kinds"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/metrics"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/recording"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/spans"
	"github.com/glassback/glassback/pkg/trace"
	"github.com/glassback/glassback/pkg/version"
)

// observers observe the parts of the operator, which get them when they are made. The page adds itself to the Loops that it shows.
type observers struct {
	metrics *metrics.Metrics
	spans   *spans.Tracer       // nil without --otlp-endpoint
	records *recording.Recorder // nil without --record
	stages  *trace.Recorder     // nil if nothing reads the stages
}

// newObservers starts the observers. Stop them with stop.
func newObservers(ctx context.Context, o *options.Options) (*observers, error) {
	all := &observers{metrics: metrics.New(version.Version(), version.Commit(), o.MetricsObjects)}
	var err error
	all.spans, err = spans.Start(ctx, spans.Config{Endpoint: o.OTLPEndpoint, Version: version.Version(), Instance: instance()})
	if err != nil {
		return nil, err
	}
	all.records, err = recording.Start(ctx, recording.Config{
		Dir: o.Record, Version: version.Version(), Commit: version.Commit(), Instance: instance(), Kinds: kinds.Decisions(),
		Count: all.metrics.Recorded,
	})
	if err != nil {
		all.spans.Stop()
		return nil, err
	}
	all.stages = newStages(klog.FromContext(ctx).V(6).Enabled(), o, all.records)
	return all, nil
}

// stop sends the last spans, and writes the last records.
func (o *observers) stop() {
	o.spans.Stop()
	o.records.Stop()
}

// newStages returns the recorder that every stage reports to; nil if there is no page and no --record, and the log shows no stages.
func newStages(logged bool, o *options.Options, recorder *recording.Recorder) *trace.Recorder {
	kept := 0
	if o.InspectAddress != "" || logged {
		kept = keptStages
	}
	switch {
	case recorder != nil:
		return trace.NewRecorder(kept, recorder.Stage)
	case kept > 0:
		return trace.NewRecorder(kept)
	}
	return nil
}

// ofLoop returns what observes the Loop of a controller.
func (o *observers) ofLoop(name string) []loop.Observer {
	all := []loop.Observer{o.metrics.Controller(name)}
	if o.stages != nil {
		all = append(all, loop.Traced(o.stages))
	}
	if o.spans != nil {
		all = append(all, o.spans)
	}
	if o.records != nil {
		all = append(all, o.records)
	}
	return all
}

// ofRedis returns what observes requests to Redis.
func (o *observers) ofRedis() []redisnode.Observer {
	if o.spans == nil {
		return []redisnode.Observer{o.metrics.Redis}
	}
	return []redisnode.Observer{o.metrics.Redis, o.spans.Redis}
}

// ofCloud returns what observes requests to Alibaba Cloud.
func (o *observers) ofCloud() []aliyun.Observer {
	if o.spans == nil {
		return []aliyun.Observer{o.metrics.Cloud}
	}
	return []aliyun.Observer{o.metrics.Cloud, o.spans.Cloud}
}
