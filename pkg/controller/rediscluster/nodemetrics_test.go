// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"reflect"
	"testing"

	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

func TestNodeMetrics(t *testing.T) {
	shown := map[cache.ObjectName][]NodeMetrics{}
	SetNodesObserver(func(cluster cache.ObjectName, nodes []NodeMetrics) { shown[cluster] = nodes })
	t.Cleanup(func() { SetNodesObserver(func(cache.ObjectName, []NodeMetrics) {}) })

	o := six()
	o.members[0].view.Stats = redisnode.Stats{MemoryUsed: 7, Clients: 2}
	o.members[1].view.Keys = 12
	o.members[3].view.Offset = 900
	o.members[4].view.LinkUp = false
	s := newStage(t, o).settle()
	silent := o.members[2]
	s.views[silent.ip()] = nil
	if _, _, err := s.sync(); err != nil {
		t.Fatal(err)
	}

	want := []NodeMetrics{
		{Pod: "demo-0", Answers: true, Master: true, Slots: 5461, Keys: 10, Offset: 1000, Lag: -1,
			Stats: redisnode.Stats{MemoryUsed: 7, Clients: 2}},
		{Pod: "demo-1", Answers: true, Master: true, Slots: 5462, Keys: 12, Offset: 1000, Lag: -1},
		{Pod: "demo-2"},
		{Pod: "demo-3", Answers: true, LinkUp: true, Keys: 10, Offset: 900, Lag: 100},
		{Pod: "demo-4", Answers: true, Keys: 10, Offset: 1000, Lag: 0},
		{Pod: "demo-5", Answers: true, LinkUp: true, Keys: 10, Offset: 1000, Lag: -1},
	}
	if got := shown[demoKey]; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}

	s.edit(func(rdc *v1.RedisCluster) { rdc.Annotations = map[string]string{glassback.AnnotationPaused: "true"} })
	if _, _, err := s.sync(); err != nil {
		t.Fatal(err)
	}
	if got := shown[demoKey]; got != nil {
		t.Errorf("the nodes of a paused RedisCluster are %+v", got)
	}
}
