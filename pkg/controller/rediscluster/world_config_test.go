// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// value asks a Pod's node for a directive.
func (w *world) value(pod, directive string) string {
	w.t.Helper()
	node := w.node(pod)
	defer node.Close()
	values, err := node.Directives(w.t.Context(), []string{directive})
	if err != nil {
		w.t.Fatal(err)
	}
	return values[directive]
}

// haveValue checks that all nodes have the value of a directive.
func (w *world) haveValue(directive, want string) {
	w.t.Helper()
	for _, name := range w.names() {
		if got := w.value(name, directive); got != want {
			w.t.Errorf("%s has %s %q, want %q", name, directive, got, want)
		}
	}
}

func (w *world) uids() map[string]types.UID {
	uids := map[string]types.UID{}
	for _, p := range w.pods() {
		uids[p.Name] = p.UID
	}
	return uids
}

func config(name, value string) func(*v1.RedisCluster) {
	return func(rdc *v1.RedisCluster) { rdc.Spec.Config[name] = v1.ConfigValue(value) }
}

// newOperator ends the operator between two syncs, and starts another one.
func (w *world) newOperator() {
	w.controller.sessions.closeAll()
	w.controller = newController(w.config)
}

// TestDirectivesAreSet changes directives that Redis can set while it runs, under load. No Pod is replaced.
func TestDirectivesAreSet(t *testing.T) {
	t.Parallel()
	for sentence, lives := range map[string]func() func(int) bool{
		"in one life":                     nil,
		"though every life has one write": oneWrite,
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "config")
			w.ready("the cluster to be formed")
			before, load := w.uids(), w.load(t)
			if lives != nil {
				w.lives = lives()
			}
			for _, step := range []struct {
				what   string
				change func(*v1.RedisCluster)
				want   map[string]string
			}{
				{"a new directive", config("maxmemory", "64mb"), map[string]string{"maxmemory": "67108864"}},
				{"another value", config("maxmemory", "65mb"), map[string]string{"maxmemory": "68157440"}},
				{"a directive of redis.conf", config("cluster-node-timeout", "2500"), map[string]string{"cluster-node-timeout": "2500"}},
				{"a preference of the operator", config("save", "3600 1"), map[string]string{"save": "3600 1"}},
				{"a value that Redis writes in its own way", config("notify-keyspace-events", "KEA"),
					map[string]string{"notify-keyspace-events": "AKE"}},
				{"the value of redis.conf", config("cluster-node-timeout", "2000"), map[string]string{"cluster-node-timeout": "2000"}},
				{"fewer directives", func(rdc *v1.RedisCluster) {
					delete(rdc.Spec.Config, "maxmemory")
					delete(rdc.Spec.Config, "save")
				}, map[string]string{"maxmemory": "0", "save": "", "notify-keyspace-events": "AKE"}},
			} {
				w.change(step.change)
				w.ready(step.what)
				for directive, want := range step.want {
					w.haveValue(directive, want)
				}
			}
			if after := w.uids(); !maps.Equal(after, before) {
				t.Errorf("Pods were replaced: %v, and before %v", after, before)
			}
			if lost := load.lost(); lost > 0 {
				t.Errorf("%d keys lost what was acknowledged", lost)
			}
			t.Logf("%d lives, %d writes, events: %q", w.deaths+1, len(w.all), w.takeEvents())
		})
	}
}

// TestDirectivesAreSetAgain restarts a container, whose redis.conf has the old value, and then the operator.
func TestDirectivesAreSetAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "config")
	w.ready("the cluster to be formed")
	w.change(config("maxmemory", "64mb"))
	w.ready("the directive")
	settled := func() {
		t.Helper()
		w.sync()
		writes, asked := len(w.all), w.askedConfig.Load()
		for range 5 {
			w.sync()
		}
		if n := w.askedConfig.Load() - asked; n > 0 || len(w.all) > writes {
			t.Errorf("a settled cluster is asked for directives %d times, and there are writes: %q", n, w.all[writes:])
		}
	}
	settled()
	w.servers[w.pod("config-1").UID].Kill()
	w.kubelet()
	if got := w.value("config-1", "maxmemory"); got != "0" {
		t.Errorf("after a restart maxmemory is %s", got)
	}
	w.until("the directive to be set again", func() bool { return w.value("config-1", "maxmemory") == "67108864" })
	w.ready("the cluster to be well again")
	settled()

	w.newOperator()
	writes, asked := len(w.all), w.askedConfig.Load()
	for range 5 {
		w.sync()
	}
	if n := w.askedConfig.Load() - asked; n != 6 || len(w.all) > writes {
		t.Errorf("a new operator asks 6 nodes %d times, want once each, and there are writes: %q", n, w.all[writes:])
	}

	// A Pod that is created anew starts with the value.
	w.deletePods("config-5")
	w.notReady()
	w.ready("the Pod to be there again")
	if w.pod("config-5").Annotations[AnnotationDirectives] != "" {
		t.Error("the directive was set in a node that started with it")
	}
	w.haveValue("maxmemory", "67108864")
}

// TestFixedDirectives changes a directive that Redis sets only when it starts.
func TestFixedDirectives(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "config", storage)
	w.ready("the cluster to be formed")
	before, load := w.uids(), w.load(t)
	w.change(func(rdc *v1.RedisCluster) { rdc.Spec.Config["databases"], rdc.Spec.Config["maxmemory"] = "32", "64mb" })
	w.until("the directive that needs no new Pod", func() bool {
		return len(slices.DeleteFunc(w.names(), func(name string) bool { return w.value(name, "maxmemory") == "67108864" })) == 0
	})
	w.ready("the new Pods")
	w.haveValue("databases", "32")
	for name, uid := range w.uids() {
		if uid == before[name] {
			t.Errorf("%s was not replaced", name)
		}
		if set := w.pod(name).Annotations[AnnotationDirectives]; set != "" {
			t.Errorf("%s started with all directives, and has the annotation %s", name, set)
		}
	}

	// The default of a directive of redis.conf is not known.
	before = w.uids()
	w.change(func(rdc *v1.RedisCluster) { delete(rdc.Spec.Config, "maxmemory") })
	w.ready("the directive to be gone")
	w.haveValue("maxmemory", "0")
	for name, uid := range w.uids() {
		if uid == before[name] {
			t.Errorf("%s was not replaced", name)
		}
	}
	if lost := load.lost(); lost > 0 {
		t.Errorf("%d keys lost what was acknowledged", lost)
	}
}

// TestDirectivesAreRejected has values that Redis does not take. No Pod is replaced, and a new one starts.
func TestDirectivesAreRejected(t *testing.T) {
	t.Parallel()
	for sentence, test := range map[string]struct{ name, value, reason string }{
		"a wrong value":     {"maxmemory", "lots-and-secret", "argument must be a memory value"},
		"an unknown one":    {"maxmemroy", "1", "Unknown option"},
		"of the redis.conf": {"cluster-node-timeout", "soon", "argument couldn't be parsed into an integer"},
		"an unknown word":   {"maxmemory-policy", "random", "argument(s) must be one of the following"},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "config")
			w.ready("the cluster to be formed")
			w.change(config("maxmemory", "64mb"))
			w.ready("a directive")
			before := w.uids()
			reported := func() {
				t.Helper()
				w.until("the value to be reported", func() bool { return w.condition(glassback.ConditionDegraded).Reason == reasonDirective })
				w.checkOnlyStatusWrites(t)
				if c := w.condition(glassback.ConditionReady); c.Status != "False" || c.Reason != reasonDirective ||
					!strings.Contains(c.Message, test.name+": "+test.reason) || strings.Contains(c.Message, "secret") {
					t.Errorf("Ready is %+v", c)
				}
				w.haveValue("maxmemory", "67108864")
				if after := w.uids(); !maps.Equal(after, before) {
					t.Errorf("Pods were replaced: %v, and before %v", after, before)
				}
			}
			w.change(config(test.name, test.value))
			reported()
			w.newOperator()
			writes := len(w.all)
			w.until("the new operator to try", func() bool {
				return slices.Contains(w.all[writes:], "CONFIG SET "+test.name) && w.all[len(w.all)-1] == "update redisclusters" &&
					slices.Contains(w.all[writes:], "delete configmaps")
			})
			reported()

			w.deletePods("config-5")
			w.until("the Pod to be there again", func() bool {
				p := w.pod("config-5")
				return p != nil && p.Status.Phase == corev1.PodRunning && w.view("config-5").LinkUp
			})
			before["config-5"] = w.pod("config-5").UID
			reported()
			w.change(func(rdc *v1.RedisCluster) {
				if delete(rdc.Spec.Config, test.name); test.name != "maxmemroy" {
					rdc.Spec.Config["maxmemory"], rdc.Spec.Config["cluster-node-timeout"] = "64mb", "2000"
				}
			})
			w.ready("the spec to be corrected")
			w.haveValue("maxmemory", "67108864")
		})
	}
}
