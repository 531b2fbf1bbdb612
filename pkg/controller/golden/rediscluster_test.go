// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/controller/rediscluster"
	"github.com/glassback/glassback/pkg/fakeapi"
	informers "github.com/glassback/glassback/pkg/generated/informers/externalversions/redis/v1"
	listers "github.com/glassback/glassback/pkg/generated/listers/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
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
	for _, path := range append(exampleFiles(t, "rediscluster"), "../rediscluster/manifest/testdata/full.yaml") {
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
		(*r).binds = true
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

// redis is the Redis Cluster of a scenario: an ideal one, whose nodes know at once what one of
// them knows. It has no keys, and holds no election.
type redis struct {
	w *world

	mu    sync.Mutex
	nodes map[string]*redisServer // by ID
	boots map[string]int          // how often a node of that Pod started
	pods  map[types.UID]bool      // those that exist, at the time of the last request to a node
	epoch int64

	settable bool // whether nodes set directives while they run; otherwise they have no command CONFIG
	binds    bool // whether claims get volumes
}

// redisServer is one node.
type redisServer struct {
	id, pod, ip string
	uid         types.UID // of the Pod
	port        int
	knows       map[string]bool // IDs, shared by all that know each other
	slots       redisnode.Slots
	master      string // the ID of its master, "" for a master
	epoch       int64
	config      map[string]string // directives that were set
	users       map[string]redisnode.User
}

func newRedis(w *world) *redis {
	r := &redis{w: w, nodes: map[string]*redisServer{}, boots: map[string]int{}}
	w.Admit = func(was, now object) {
		if was == nil {
			r.boot(now)
		}
	}
	return r
}

// boot is what a kubelet does with a new Pod, and a provisioner with a new claim. A node with a volume is the one that it was.
func (r *redis) boot(obj object) {
	if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok && r.binds {
		claim.Spec.VolumeName = "volume-" + claim.Name
		return
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.boots[pod.Name]++
	ordinal, err := strconv.Atoi(pod.Name[strings.LastIndexByte(pod.Name, '-')+1:])
	if err != nil {
		panic(err)
	}
	life := r.boots[pod.Name]
	if slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil }) {
		life = 1
	}
	id := strings.Repeat(fmt.Sprintf("%x%x", ordinal, life), 20)
	node := r.nodes[id]
	if node == nil {
		node = &redisServer{id: id, pod: pod.Name, knows: map[string]bool{id: true}}
		r.nodes[id] = node
	}
	node.uid, node.ip = pod.UID, fmt.Sprintf("10.244.%d.%d", r.boots[pod.Name], ordinal+1)
	node.config = map[string]string{}
	node.users = map[string]redisnode.User{"default": {Rules: "off"}, "glassback": {Rules: "on"}}
	node.port = int(pod.Spec.Containers[0].Ports[0].ContainerPort)
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: node.ip, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
}

// dial returns the node at an address.
func (r *redis) dial(ip string, _ int, _ redisnode.Login) rediscluster.Node {
	return redisConn{redis: r, ip: ip}
}

// redisConn is a connection to the node at an IP. The nodes have neither keys nor functions, so the methods for them are not called.
type redisConn struct {
	*redis
	rediscluster.Node // nil

	ip string
}

// with calls do with the node, under the lock.
func (c redisConn) with(do func(*redisServer) error) error {
	pods := map[types.UID]bool{}
	for _, pod := range fakeapi.List[*corev1.Pod](c.w.Server) { // Without mu, since the server calls boot with its own lock.
		pods[pod.UID] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods = pods
	for _, node := range c.nodes {
		if node.ip == c.ip && pods[node.uid] {
			return do(node)
		}
	}
	return errors.New("connection refused")
}

// at returns the node at an IP.
func (r *redis) at(ip string) *redisServer {
	for _, node := range r.nodes {
		if node.ip == ip {
			return node
		}
	}
	return nil
}

// next returns an epoch that is later than all others.
func (r *redis) next() int64 {
	r.epoch++
	return r.epoch
}

func (c redisConn) View(context.Context) (*redisnode.View, error) {
	var view *redisnode.View
	err := c.with(func(node *redisServer) error {
		view = &redisnode.View{ID: node.id, Version: "7.2.4", Epoch: c.epoch, Master: node.master == "", LinkUp: node.master != "", Offset: 100}
		var assigned redisnode.Slots
		for _, id := range slices.Sorted(maps.Keys(node.knows)) {
			other := c.nodes[id]
			lives := c.pods[other.uid]
			assigned = assigned.Union(other.slots)
			view.Table = append(view.Table, redisnode.Entry{
				ID: id, IP: other.ip, Port: other.port, BusPort: other.port + 10000, Myself: other == node, Master: other.master == "",
				MasterID: other.master, Epoch: other.epoch, Connected: lives, Failed: !lives, Slots: other.slots,
			})
		}
		view.StateOK = assigned.Len() == redisnode.SlotCount
		return nil
	})
	return view, err
}

func (c redisConn) Meet(_ context.Context, ip string, _, _ int) error {
	return c.with(func(node *redisServer) error {
		all := maps.Clone(node.knows)
		maps.Copy(all, c.at(ip).knows)
		for id := range all {
			c.nodes[id].knows = all
		}
		return nil
	})
}

func (c redisConn) Forget(_ context.Context, id string) error {
	return c.with(func(node *redisServer) error {
		delete(node.knows, id)
		return nil
	})
}

func (c redisConn) AddSlots(_ context.Context, some redisnode.Slots) error {
	return c.with(func(node *redisServer) error {
		node.slots, node.epoch = node.slots.Union(some), c.next()
		return nil
	})
}

func (c redisConn) Replicate(_ context.Context, id string) error {
	return c.with(func(node *redisServer) error {
		node.master = id
		return nil
	})
}

func (c redisConn) Failover(context.Context, redisnode.Failover) error {
	return c.with(func(node *redisServer) error {
		was := c.nodes[node.master]
		node.slots, node.master, node.epoch = was.slots, "", c.next()
		was.slots = nil
		for _, other := range c.nodes {
			if other == was || other.master == was.id {
				other.master = node.id
			}
		}
		return nil
	})
}

func (c redisConn) PauseWrites(context.Context, time.Duration) error { return nil }

func (c redisConn) ResumeWrites(context.Context) error { return nil }

// Directives returns 0 for each directive that was not set.
func (c redisConn) Directives(_ context.Context, names []string) (map[string]string, error) {
	values := map[string]string{}
	return values, c.with(func(node *redisServer) error {
		if !c.settable {
			return redisnode.ErrNoConfig
		}
		for _, name := range names {
			values[name] = cmp.Or(node.config[name], "0")
		}
		return nil
	})
}

func (c redisConn) SetDirective(_ context.Context, name, value string) error {
	return c.with(func(node *redisServer) error {
		node.config[name] = value
		return nil
	})
}

func (c redisConn) Users(context.Context) (map[string]redisnode.User, error) {
	var users map[string]redisnode.User
	return users, c.with(func(node *redisServer) error {
		users = maps.Clone(node.users)
		return nil
	})
}

// SetUser keeps the rules as they are. It writes a selector as a node does.
func (c redisConn) SetUser(_ context.Context, name string, rules []string) error {
	return c.with(func(node *redisServer) error {
		user := node.users[name]
		for _, rule := range rules {
			if hash, ok := strings.CutPrefix(rule, "#"); ok {
				user.Hashes = append(user.Hashes, hash)
			} else if rule == "reset" {
				user = redisnode.User{}
			} else {
				user.Rules = strings.TrimSpace(user.Rules + " " + strings.Replace(rule, ")", " resetchannels -@all)", 1))
			}
		}
		node.users[name] = user
		return nil
	})
}

func (c redisConn) DeleteUsers(context.Context, []string) error  { return nil }
func (c redisConn) EndConnections(context.Context, string) error { return nil }
func (c redisConn) SaveUsers(context.Context) error              { return nil }

func (c redisConn) Close() {}

// shard returns the Pods of the master that has a slot, and of its replicas.
func (r *redis) shard(slot int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var pods []string
	for _, node := range slices.SortedFunc(maps.Values(r.nodes), func(a, b *redisServer) int { return cmp.Compare(a.id, b.id) }) {
		if master := r.nodes[node.master]; node.slots.Has(slot) || (master != nil && master.slots.Has(slot)) {
			pods = append(pods, node.pod)
		}
	}
	return pods
}
