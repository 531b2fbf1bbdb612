// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"regexp"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/controller/rediscluster"
	"github.com/glassback/glassback/pkg/fakeapi"
	informers "github.com/glassback/glassback/pkg/generated/informers/externalversions/redis/v1"
	listers "github.com/glassback/glassback/pkg/generated/listers/redis/v1"
)

// newRedisCluster returns what makes a controller of a Redis Cluster, which it stores in at.
func newRedisCluster(at **redis) func(*world) (controller, error) {
	return func(w *world) (controller, error) {
		*at = newRedis(w)
		return rediscluster.New(rediscluster.Config{
			Kube: fakeapi.Evicting(w.kube), Client: w.own, RedisClusters: pausing{w.ownFrom.Redis().V1().RedisClusters(), w},
			Pods:       w.kubeFrom.Core().V1().Pods(),
			Claims:     w.kubeFrom.Core().V1().PersistentVolumeClaims(),
			Services:   w.kubeFrom.Core().V1().Services(),
			ConfigMaps: w.kubeFrom.Core().V1().ConfigMaps(), Budgets: w.kubeFrom.Policy().V1().PodDisruptionBudgets(),
			Policies: w.kubeFrom.Networking().V1().NetworkPolicies(), OperatorNamespace: "glassback-system",
			Jobs: w.kubeFrom.Batch().V1().Jobs(), BackupImage: "glassback/glassback:dev",
			Dial: (*at).dial, Recorder: w.recorder, Clock: clock.RealClock{},
		})
	}
}

// pausing is an informer whose lister waits while a step acts: steps delete several Pods.
type pausing struct {
	informers.RedisClusterInformer
	w *world
}

func (p pausing) Lister() listers.RedisClusterLister {
	return pausingLister{p.RedisClusterInformer.Lister(), p.w}
}

type pausingLister struct {
	listers.RedisClusterLister
	w *world
}

func (l pausingLister) RedisClusters(namespace string) listers.RedisClusterNamespaceLister {
	l.w.pause()
	return l.RedisClusterLister.RedisClusters(namespace)
}

func TestRedisClusterExamples(t *testing.T) {
	f, r := &file{name: "rediscluster-examples"}, new(*redis)
	for _, path := range append(exampleFiles(t, "rediscluster"), "../rediscluster/testdata/full.yaml") {
		scenario(t, f, title(path), newRedisCluster(r), func(w *world) {
			objects := w.read(path)
			if auth := objects[0].(*v1.RedisCluster).Spec.AuthSecretRef; auth != nil {
				w.apply(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: auth.Name}, StringData: map[string]string{"password": "test"}})
			}
			slices.Reverse(objects) // Secrets come first, so that no sync misses one.
			w.step("applied", 5*time.Minute, func() { w.apply(objects...) })
		})
	}
	f.compare(t)
}

func TestRedisClusterPhases(t *testing.T) {
	const name = "rediscluster-sample"
	f, r := &file{name: "rediscluster-phases"}, new(*redis)
	edit := func(w *world, do func(*v1.RedisClusterSpec)) func() {
		return func() { change(w, name, func(c *v1.RedisCluster) { do(&c.Spec) }) }
	}
	scenario(t, f, "rolled", newRedisCluster(r), func(w *world) {
		w.step("applied", 5*time.Minute, func() { w.apply(w.read(examples + "/rediscluster.yaml")...) })
		w.step("another directive", 10*time.Minute, edit(w, func(s *v1.RedisClusterSpec) {
			s.Config = map[string]v1.ConfigValue{"maxmemory": "96mb"}
		}))
		w.step("the spec is invalid", 5*time.Minute, edit(w, func(s *v1.RedisClusterSpec) { s.Addr = "" }))
	})
	scenario(t, f, "configured", newRedisCluster(r), func(w *world) {
		(*r).settable = true
		w.step("applied", 5*time.Minute, func() { w.apply(w.read(examples + "/rediscluster.yaml")...) })
		w.step("another directive", 5*time.Minute, edit(w, func(s *v1.RedisClusterSpec) {
			s.Config = map[string]v1.ConfigValue{"maxmemory": "96mb"}
		}))
		w.step("another value", 5*time.Minute, edit(w, func(s *v1.RedisClusterSpec) { s.Config["maxmemory"] = "97mb" }))
		w.step("no directive", 5*time.Minute, edit(w, func(s *v1.RedisClusterSpec) { s.Config = nil }))
	})
	scenario(t, f, "volumes grow", newRedisCluster(r), func(w *world) {
		objects := w.read(examples + "/rediscluster-storage.yaml")
		objects[0].SetName(name)
		w.step("applied", 5*time.Minute, func() { w.apply(objects...) })
		w.step("larger volumes", 5*time.Minute, edit(w, func(s *v1.RedisClusterSpec) { s.Storage.Size = resource.MustParse("2Gi") }))
	})
	scenario(t, f, "a shard is lost", newRedisCluster(r), func(w *world) {
		w.step("applied, with a size that is raised", 5*time.Minute, func() {
			objects := w.read(examples + "/rediscluster.yaml")
			objects[0].(*v1.RedisCluster).Spec.Size = ptr.To[int32](3)
			w.apply(objects...)
		})
		w.step("all Pods of a shard are deleted", 5*time.Minute, func() { remove[*corev1.Pod](w, (*r).shard(0)...) })
		w.step("the loss is accepted", 5*time.Minute, func() {
			change(w, name, func(c *v1.RedisCluster) {
				asked := regexp.MustCompile(rediscluster.AnnotationAcceptDataLoss + "=([0-9a-f]+)")
				loss := meta.FindStatusCondition(c.Status.Conditions, v1.ConditionDataLoss)
				c.Annotations = map[string]string{rediscluster.AnnotationAcceptDataLoss: asked.FindStringSubmatch(loss.Message)[1]}
			})
		})
	})
	f.compare(t)
}
