// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
	"github.com/glassback/glassback/pkg/generated/informers/externalversions"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/recording/recordtest"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

// world is the environment of a controller. The API server is fake, but the nodes are real: method kubelet runs a redis-server for each
// Pod, with its own IP. The server's directory outlives the server, as the volume of a Pod does.
//
// The test itself calls Sync, and so controls the time of each sync. It can kill the controller before any write, and continue with
// another controller. After live, the controller runs as it does in the operator.
type world struct {
	t          testing.TB
	kube       *kubefake.Clientset
	client     *fake.Clientset
	config     Config
	controller *Controller
	events     *record.FakeRecorder

	name     string
	servers  map[types.UID]*redistest.Server
	dirs     map[string]string // directories of volumes, by the UID of the claim or the Pod
	stopped  map[string]bool   // Pods whose servers the kubelet does not start
	limits   map[string]int64  // maximal size of a file, by Pod
	password string
	as       redisnode.Login             // the login of clients; if empty, they log in with the password
	overTLS  bool                        // whether clients use TLS
	slow     bool                        // whether the kubelet delays changes of Secrets
	shift    atomic.Int64                // how many nanoseconds the operator's clock is ahead
	machine  string                      // IP of the machine of all Pods
	proxies  map[string]*redistest.Proxy // ports of Services
	blocked  map[string]bool             // ports of Services to which nothing connects, by the names of both
	nextIP   []string                    // IPs of the next Pods; later ones get any free IP

	lives  func(write int) bool // whether the controller survives its n-th write; nil if it always does
	writes int                  // number of writes of this controller
	last   string               // the present write
	dumped func()               // called after each FUNCTION DUMP; may be nil
	deaths int                  // number of killed controllers
	lively bool                 // see live
	all    []string             // writes of all controllers
	writer *writer              // the clients that write; nil if none do

	asked, askedConfig atomic.Int64 // numbers of Views and of CONFIG GETs
	mu                 sync.Mutex
}

// killed is the panic that kills a controller. It is an error, because a panic of a goroutine of the sync arrives wrapped.
type killed struct{}

func (killed) Error() string { return "killed" }

// died recovers from the panic that kills a controller, and sets dead. It is deferred.
func died(dead *bool) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); !ok || !errors.Is(err, killed{}) {
		panic(p)
	}
	*dead = true
}

const worldName = "world"

// newWorld returns a world with one RedisCluster. Its cluster-node-timeout gives nodes time on a busy machine: no node is elected while
// none is killed.
func newWorld(t testing.TB, name string, change ...func(*v1.RedisCluster)) *world {
	t.Helper()
	redistest.Binary(t)
	rdc := &v1.RedisCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name + "-uid"), Generation: 1},
		Spec: v1.RedisClusterSpec{Addr: "10.0.0.1:6379", Config: map[string]v1.ConfigValue{
			"cluster-node-timeout": "15000", "enable-debug-command": "yes",
		}},
	}
	for _, c := range change {
		c(rdc)
	}
	rdc.Default()
	w := &world{
		t: t, name: name, kube: kubefake.NewClientset(), client: fake.NewClientset(rdc), events: record.NewFakeRecorder(10000),
		servers: map[types.UID]*redistest.Server{}, dirs: map[string]string{}, stopped: map[string]bool{}, limits: map[string]int64{},
		machine: redistest.FreeIP(t), proxies: map[string]*redistest.Proxy{}, blocked: map[string]bool{},
	}
	w.react()
	w.start()
	return w
}

// hasty makes nodes notice early that another one is gone: for stories about failovers.
func hasty(rdc *v1.RedisCluster) { rdc.Spec.Config["cluster-node-timeout"] = "2000" }

// start starts the informers, and creates the first controller.
func (w *world) start() {
	w.t.Helper()
	kube := kubeinformers.NewSharedInformerFactory(w.kube, 0)
	own := externalversions.NewSharedInformerFactory(w.client, 0)
	w.config = Config{
		Kube: fakeapi.Evicting(w.kube), Client: w.client, RedisClusters: own.Redis().V1().RedisClusters(),
		Pods: kube.Core().V1().Pods(), Claims: kube.Core().V1().PersistentVolumeClaims(), Services: kube.Core().V1().Services(),
		ConfigMaps: kube.Core().V1().ConfigMaps(), Budgets: kube.Policy().V1().PodDisruptionBudgets(),
		Policies: kube.Networking().V1().NetworkPolicies(), OperatorNamespace: "operators",
		Jobs: kube.Batch().V1().Jobs(), BackupImage: testImage,
		Dial: w.dial, Recorder: w.events, Clock: worldClock{w: w},
	}
	must.Succeed(w.t, w.config.Pods.Informer().SetTransform(TrimPod))
	must.Succeed(w.t, addIndex(w.config))
	w.controller = newController(w.config)
	ctx, cancel := context.WithCancel(w.t.Context())
	kube.StartWithContext(ctx)
	own.StartWithContext(ctx)
	kube.WaitForCacheSyncWithContext(ctx)
	own.WaitForCacheSyncWithContext(ctx)
	w.t.Cleanup(func() {
		cancel()
		w.controller.sessions.closeAll()
	})
}

// live runs another controller, with a loop that calls Sync, until the returned func is called. The test runs the kubelet alone.
func (w *world) live() (end func()) {
	w.t.Helper()
	w.controller.sessions.closeAll()
	controller, err := New(w.config)
	must.Succeed(w.t, err)
	ctx, cancel := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() { controller.Run(ctx, ctx, 16) })
	w.controller, w.lively = controller, true
	end = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		w.lively = false
	})
	w.t.Cleanup(end)
	return end
}

// react adds to the fake API server what the controller relies on. Objects get UIDs, and a deleted claim stays while a Pod uses it. It also
// counts the writes.
func (w *world) react() {
	uid := atomic.Int64{}
	w.kube.PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if object, err := meta.Accessor(action.(clienttesting.CreateAction).GetObject()); err == nil {
			object.SetUID(types.UID(fmt.Sprintf("%s-%d", w.name, uid.Add(1))))
		}
		return false, nil, nil
	})
	w.kube.PrependReactor("delete", "persistentvolumeclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.DeleteAction).GetName()
		if w.pod(strings.TrimPrefix(name, "data-")) == nil {
			return false, nil, nil
		}
		resource := corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
		held, err := w.kube.Tracker().Get(resource, action.GetNamespace(), name)
		if err != nil {
			return true, nil, err
		}
		claim := held.(*corev1.PersistentVolumeClaim).DeepCopy()
		claim.DeletionTimestamp = ptr.To(metav1.Now())
		return true, claim, w.kube.Tracker().Update(resource, claim, action.GetNamespace())
	})
	newEvicting(w.kube)
	countWrite := func(action clienttesting.Action) (bool, runtime.Object, error) {
		switch action.GetVerb() {
		case "create", "update", "patch", "delete":
			words := action.GetVerb() + " " + action.GetResource().Resource
			if action.GetSubresource() == "eviction" {
				words = "evict pods"
			}
			w.write(words)
		}
		return false, nil, nil
	}
	w.kube.PrependReactor("*", "*", countWrite)
	w.client.PrependReactor("*", "*", countWrite)
}

// write counts a write of the controller, or kills the controller before the write.
func (w *world) write(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	w.last = what
	if w.lives != nil && !w.lives(w.writes) {
		panic(killed{})
	}
	w.all = append(w.all, what)
}

// countingNode is a Node whose commands count as writes.
type countingNode struct {
	Node
	w *world
}

func (w *world) dial(ip string, port int, login redisnode.Login) Node {
	return countingNode{Node: redisnode.Dial(w.resolve(ip), port, login), w: w}
}

func (n countingNode) View(ctx context.Context) (*redisnode.View, error) {
	n.w.asked.Add(1)
	return n.Node.View(ctx)
}

func (n countingNode) Meet(ctx context.Context, ip string, port, busPort int) error {
	n.w.write("MEET")
	return n.Node.Meet(ctx, ip, port, busPort)
}

func (n countingNode) Forget(ctx context.Context, id string) error {
	n.w.write("FORGET")
	return n.Node.Forget(ctx, id)
}

func (n countingNode) AddSlots(ctx context.Context, slots redisnode.Slots) error {
	n.w.write("ADDSLOTS")
	return n.Node.AddSlots(ctx, slots)
}

func (n countingNode) Replicate(ctx context.Context, masterID string) error {
	n.w.write("REPLICATE")
	return n.Node.Replicate(ctx, masterID)
}

func (n countingNode) Reconnect(ctx context.Context, masterID, otherID string) error {
	n.w.write("REPLICATE")
	return n.Node.Reconnect(ctx, masterID, otherID)
}

func (n countingNode) Failover(ctx context.Context, how redisnode.Failover) error {
	n.w.write("FAILOVER")
	return n.Node.Failover(ctx, how)
}

// PauseWrites does not count as a write, and ResumeWrites does: so a controller with one write is killed between FAILOVER and UNPAUSE.
func (n countingNode) ResumeWrites(ctx context.Context) error {
	n.w.write("CLIENT UNPAUSE")
	return n.Node.ResumeWrites(ctx)
}

func (n countingNode) SetSlots(ctx context.Context, slots redisnode.Slots, how redisnode.SlotState, id string) error {
	n.w.write("SETSLOT " + string(how))
	return n.Node.SetSlots(ctx, slots, how, id)
}

func (n countingNode) Migrate(ctx context.Context, ip string, port int, login redisnode.Login, timeout time.Duration, keys []string) error {
	n.w.write("MIGRATE")
	return n.Node.Migrate(ctx, ip, port, login, timeout, keys)
}

func (n countingNode) Directives(ctx context.Context, names []string) (map[string]string, error) {
	n.w.askedConfig.Add(1)
	return n.Node.Directives(ctx, names)
}

// SetDirective counts as a write only if it changes the value.
func (n countingNode) SetDirective(ctx context.Context, name, value string) error {
	if values, err := n.Node.Directives(ctx, []string{name}); err != nil || values[name] != value {
		n.w.write("CONFIG SET " + name)
	}
	return n.Node.SetDirective(ctx, name, value)
}

func (n countingNode) Announce(ctx context.Context, ip string, port, tlsPort, busPort int) error {
	n.w.write("ANNOUNCE")
	return n.Node.Announce(ctx, ip, port, tlsPort, busPort)
}

func (n countingNode) SwitchTLS(ctx context.Context, on bool, port, busPort, announcedBus int) error {
	n.w.write("SWITCH TLS")
	return n.Node.SwitchTLS(ctx, on, port, busPort, announcedBus)
}

func (n countingNode) ReloadCertificate(ctx context.Context) error {
	n.w.write("RELOAD CERTIFICATE")
	return n.Node.ReloadCertificate(ctx)
}

func (n countingNode) SetUser(ctx context.Context, name string, rules []string) error {
	n.w.write("ACL SETUSER " + name)
	return n.Node.SetUser(ctx, name, rules)
}

func (n countingNode) DeleteUsers(ctx context.Context, names []string) error {
	if len(names) > 0 {
		n.w.write("ACL DELUSER")
	}
	return n.Node.DeleteUsers(ctx, names)
}

func (n countingNode) EndConnections(ctx context.Context, user string) error {
	n.w.write("CLIENT KILL USER " + user)
	return n.Node.EndConnections(ctx, user)
}

func (n countingNode) SaveUsers(ctx context.Context) error {
	n.w.write("ACL SAVE")
	return n.Node.SaveUsers(ctx)
}

func (n countingNode) DumpFunctions(ctx context.Context) (string, error) {
	dump, err := n.Node.DumpFunctions(ctx)
	if n.w.dumped != nil {
		n.w.dumped()
	}
	return dump, err
}

func (n countingNode) RestoreFunctions(ctx context.Context, dump string) error {
	n.w.write("FUNCTION RESTORE")
	return n.Node.RestoreFunctions(ctx, dump)
}

func (n countingNode) DeleteLibrary(ctx context.Context, name string) error {
	n.w.write("FUNCTION DELETE")
	return n.Node.DeleteLibrary(ctx, name)
}

// sync runs the kubelet and then one sync. It returns whether the controller survived, the time until the next sync, and the sync's error.
func (w *world) sync() (alive bool, after time.Duration, err error) {
	w.kubelet()
	if w.lively {
		return true, time.Second, nil
	}
	var dead bool
	func() {
		defer died(&dead)
		after, err = w.controller.Sync(recordtest.Context(w.t.Context(), w.t, Decisions), cache.NewObjectName("default", w.name))
	}()
	if dead {
		w.deaths++
		w.writes = 0
		w.controller.sessions.closeAll()
		w.controller = newController(w.config)
	}
	return !dead, after, err
}

// until syncs until done returns true.
func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	patience := 10 * time.Minute // On a busy machine, a roll without replicas takes two minutes.
	if w.lively {
		patience = time.Hour
	}
	deadline := time.Now().Add(patience)
	var last error
	for !done() {
		alive, after, err := w.sync()
		if err != nil && !apierrors.IsConflict(err) {
			last = err
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("waited for %s\nlast error: %v\nstatus: %s\nlast writes: %q", what, last, w.describe(), w.all[max(0, len(w.all)-30):])
		}
		if alive {
			if err != nil {
				after = loop.Soonest(after, 20*time.Millisecond)
			}
			time.Sleep(min(max(after, time.Millisecond), 200*time.Millisecond))
		}
	}
}

// reach syncs until why returns "".
func (w *world) reach(what string, why func() string) {
	w.t.Helper()
	defer func() {
		if w.t.Failed() {
			w.t.Logf("%s: %s", what, why())
		}
	}()
	w.until(what, func() bool { return why() == "" })
}

// ready syncs until the cluster is Ready, and then checks all nodes. On a busy machine, a node may drop a connection and open another one
// at any time.
func (w *world) ready(what string) {
	w.t.Helper()
	w.sync()
	w.until(what, func() bool {
		rdc := w.rdc()
		return meta.IsStatusConditionTrue(rdc.Status.Conditions, glassback.ConditionReady) && rdc.Status.ObservedGeneration == rdc.Generation
	})
	w.reach("the nodes to reach each other after "+what, w.unreached)
	w.check()
}

// notReady syncs until Ready is False.
func (w *world) notReady() {
	w.t.Helper()
	w.until("Ready to be False", func() bool { return w.condition(glassback.ConditionReady).Status == metav1.ConditionFalse })
}

// degraded syncs until Degraded has a reason, and checks that the controller then writes only the status.
func (w *world) degraded(reason string) {
	w.t.Helper()
	w.until("Degraded for "+reason, func() bool { return w.condition(glassback.ConditionDegraded).Reason == reason })
	w.checkOnlyStatusWrites()
}

// checkOnlyStatusWrites checks that the controller writes only the status.
func (w *world) checkOnlyStatusWrites() {
	w.t.Helper()
	before := len(w.all)
	for range 20 {
		w.sync()
		time.Sleep(20 * time.Millisecond)
	}
	for _, write := range w.all[before:] {
		if write != "update redisclusters" {
			w.t.Errorf("the controller wrote: %s", write)
		}
	}
}

// unreached describes a node that does not reach another one, or is in a handshake. It returns "" if there is no such node.
func (w *world) unreached() string {
	for _, name := range w.names() {
		view := w.view(name)
		for _, e := range view.Table {
			if e.Failed || e.MaybeFailed || e.Handshake || (!e.Connected && !e.Myself) {
				return fmt.Sprintf("%s has this entry: %+v", name, e)
			}
		}
		if !view.Master && !view.LinkUp {
			return fmt.Sprintf("the link of %s is down", name)
		}
	}
	return ""
}

// check compares the views of all nodes with the spec and the status.
func (w *world) check() {
	w.t.Helper()
	rdc := w.rdc()
	masters, slots := 0, redisnode.Slots(nil)
	for ordinal := range int(*rdc.Spec.Size) {
		view := w.view(manifest.PodName(rdc, ordinal))
		if len(view.Table) != int(*rdc.Spec.Size) {
			w.t.Errorf("the table of %s has %d nodes: %+v", manifest.PodName(rdc, ordinal), len(view.Table), view.Table)
		}
		for _, e := range view.Table {
			if e.Migrating != nil || e.Importing != nil {
				w.t.Errorf("%s has this entry: %+v", manifest.PodName(rdc, ordinal), e)
			}
			if !e.Myself {
				continue
			}
			if both := slots.Intersect(e.Slots); both.Len() > 0 {
				w.t.Errorf("%s has slots that another node has too: %s", manifest.PodName(rdc, ordinal), both)
			}
			slots = slots.Union(e.Slots)
		}
		if view.Master {
			masters++
		}
		if !view.StateOK {
			w.t.Errorf("%s reports cluster_state:fail", manifest.PodName(rdc, ordinal))
		}
	}
	if slots.Len() != redisnode.SlotCount {
		w.t.Errorf("only the slots %s have a master", slots)
	}
	if masters != int(rdc.Spec.Masters()) {
		w.t.Errorf("the cluster has %d masters", masters)
	}
	for _, shard := range rdc.Status.Shards {
		if n := len(shard.Replicas); n < int(*rdc.Spec.ReplicasPerMaster) {
			w.t.Errorf("%s has %d replicas", shard.Master, n)
		}
		share := redisnode.SlotCount / masters
		if parsed, err := redistest.ParseSlots(shard.Slots); err != nil || parsed.Len() < share || parsed.Len() > share+1 {
			w.t.Errorf("%s has the slots %s, want an equal share", shard.Master, shard.Slots)
		}
	}
	if len(w.pods()) != int(*rdc.Spec.Size) || len(rdc.Status.Shards) != masters || rdc.Status.Endpoint != rdc.Spec.Addr {
		w.t.Errorf("%d Pods, and status %s", len(w.pods()), w.describe())
	}
}

// view returns the view of a Pod's node.
func (w *world) view(pod string) *redisnode.View {
	w.t.Helper()
	node := w.node(pod)
	defer node.Close()
	var view *redisnode.View
	w.eventually(pod+" to answer", func() (answers bool) {
		var err error
		view, err = node.View(w.t.Context())
		return err == nil
	})
	return view
}

func (w *world) node(pod string) Node {
	w.t.Helper()
	p := w.pod(pod)
	if p == nil {
		w.t.Fatalf("there is no Pod %s", pod)
	}
	return w.connect(p)
}

func (w *world) rdc() *v1.RedisCluster {
	w.t.Helper()
	rdc, err := w.client.RedisV1().RedisClusters("default").Get(context.Background(), w.name, metav1.GetOptions{})
	must.Succeed(w.t, err)
	return rdc
}

// change changes the spec as a user does, and waits until the controller's cache shows it.
func (w *world) change(change func(*v1.RedisCluster)) {
	w.t.Helper()
	w.byPerson(func() {
		rdc := w.rdc()
		change(rdc)
		rdc.Generation++
		_, err := w.client.RedisV1().RedisClusters("default").Update(context.Background(), rdc, metav1.UpdateOptions{})
		must.Succeed(w.t, err)
		w.eventually("the cache to show the change", func() bool {
			cached, err := w.controller.clusters.RedisClusters("default").Get(w.name)
			return err == nil && cached.Generation == rdc.Generation
		})
	})
}

// byPerson calls do as a user: its writes do not count as the controller's.
func (w *world) byPerson(do func()) {
	if w.lively {
		do()
		return
	}
	lives := w.lives
	w.lives = nil
	writes, all := w.writes, len(w.all)
	do()
	w.lives, w.writes, w.all = lives, writes, w.all[:all]
}

// eventually waits without a sync.
func (w *world) eventually(what string, done func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited for %s: %s", what, w.describe())
		}
	}
}

// listed returns the objects of the core group.
func listed(t testing.TB, kube *kubefake.Clientset, resource, kind string) runtime.Object {
	t.Helper()
	version := corev1.SchemeGroupVersion
	list, err := kube.Tracker().List(version.WithResource(resource), version.WithKind(kind), "default")
	must.Succeed(t, err)
	return list
}

// update changes an object of the core group, as another client does.
func update(t testing.TB, kube *kubefake.Clientset, resource string, object runtime.Object) {
	t.Helper()
	must.Succeed(t, kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource(resource), object, "default"))
}

// pods returns the Pods, by name.
func (w *world) pods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, p := range listed(w.t, w.kube, "pods", "Pod").(*corev1.PodList).Items {
		pods = append(pods, &p)
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

func (w *world) names() []string {
	var names []string
	for _, p := range w.pods() {
		names = append(names, p.Name)
	}
	return names
}

func (w *world) uids() map[string]types.UID {
	uids := map[string]types.UID{}
	for _, p := range w.pods() {
		uids[p.Name] = p.UID
	}
	return uids
}

// expectPods compares the Pods with those of before: all were replaced, or none.
func (w *world) expectPods(replaced bool, before map[string]types.UID) {
	w.t.Helper()
	for name, uid := range w.uids() {
		if (uid != before[name]) != replaced {
			w.t.Errorf("%s was replaced: %t, want %t", name, !replaced, replaced)
		}
	}
}

// podWith returns the name of a Pod whose node has this role.
func (w *world) podWith(role v1.Role) string {
	w.t.Helper()
	nodes := w.rdc().Status.Nodes
	return nodes[slices.IndexFunc(nodes, func(n v1.Node) bool { return n.Role == role })].Pod
}

// pod returns the Pod, or nil.
func (w *world) pod(name string) *corev1.Pod {
	for _, p := range w.pods() {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// deletePods deletes Pods, as a user or a drain does.
func (w *world) deletePods(names ...string) {
	w.t.Helper()
	w.byPerson(func() {
		for _, name := range names {
			must.Succeed(w.t, w.kube.CoreV1().Pods("default").Delete(context.Background(), name, metav1.DeleteOptions{}))
		}
	})
	w.kubelet()
}

// describe returns the status and the tables of all nodes, for the message of a failed test.
func (w *world) describe() string {
	status := w.rdc().Status
	var b strings.Builder
	for _, c := range status.Conditions {
		fmt.Fprintf(&b, "\n  %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	for _, n := range status.Nodes {
		fmt.Fprintf(&b, "\n  %+v", n)
	}
	if status.Operation != nil {
		fmt.Fprintf(&b, "\n  %s: %s", status.Operation.Type, status.Operation.Step)
	}
	for _, p := range w.pods() {
		node := w.connect(p)
		view, err := node.View(context.Background())
		node.Close()
		if err != nil {
			fmt.Fprintf(&b, "\n  %s: %v", p.Name, err)
			continue
		}
		fmt.Fprintf(&b, "\n  the table of %s, epoch %d:", p.Name, view.Epoch)
		for _, e := range view.Table {
			fmt.Fprintf(&b, "\n    %+v", e)
		}
	}
	return b.String()
}

// takeEvents returns the events since its last call.
func (w *world) takeEvents() []string {
	var all []string
	for {
		select {
		case event := <-w.events.Events:
			all = append(all, event)
		default:
			return all
		}
	}
}

// condition returns a condition of the status.
func (w *world) condition(kind string) metav1.Condition {
	if c := meta.FindStatusCondition(w.rdc().Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// newOperator ends the operator between two syncs, and starts another one.
func (w *world) newOperator() {
	w.controller.sessions.closeAll()
	w.controller = newController(w.config)
}

// seen is what the controller sees now.
func (w *world) seen() *observed {
	w.t.Helper()
	rdc, err := w.controller.fetch(cache.NewObjectName("default", w.name))
	must.Succeed(w.t, err)
	o, err := w.controller.observeObjects(rdc)
	must.Succeed(w.t, errors.Join(err, w.controller.observe(w.t.Context(), o)))
	return o
}

// setSecret creates a Secret, or changes it.
func (w *world) setSecret(name string, data map[string][]byte) {
	w.t.Helper()
	w.byPerson(func() {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
		_, err := w.kube.CoreV1().Secrets("default").Create(context.Background(), secret, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			_, err = w.kube.CoreV1().Secrets("default").Update(context.Background(), secret, metav1.UpdateOptions{})
		}
		must.Succeed(w.t, err)
	})
}

func (w *world) setPassword(name, password string) {
	w.t.Helper()
	w.setSecret(name, map[string][]byte{"password": []byte(password)})
}

func (w *world) secret(name string) *corev1.Secret {
	secret, err := w.kube.Tracker().Get(corev1.SchemeGroupVersion.WithResource("secrets"), "default", name)
	if err != nil {
		return nil
	}
	return secret.(*corev1.Secret)
}

// deleteSecret deletes a Secret, as a person does.
func (w *world) deleteSecret(name string) {
	w.t.Helper()
	w.byPerson(func() {
		must.Succeed(w.t, w.kube.CoreV1().Secrets("default").Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
}

// passwordOf returns the password in a Secret.
func (w *world) passwordOf(ref *v1.SecretKeyReference) string {
	w.t.Helper()
	return strings.TrimRight(string(w.secret(ref.Name).Data[ref.Key]), "\n")
}

// login returns how the operator logs in to the node of a Pod.
func (w *world) login(p *corev1.Pod) redisnode.Login {
	if manifest.HasAccount(p) {
		return redisnode.Login{User: v1.UserOperator, Password: w.passwordOf(manifest.PasswordRefOf(p))}
	}
	return redisnode.Login{Password: w.password}
}

// connect returns the operator's connection to the node of a Pod.
func (w *world) connect(p *corev1.Pod) Node {
	port, trust := ConnectionTo(w.rdc(), p, w.secret("redis-tls"))
	login := w.login(p)
	login.TLS = trust
	return redisnode.Dial(p.Status.PodIP, port, login)
}

// value asks a Pod's node for a directive.
func (w *world) value(pod, directive string) string {
	w.t.Helper()
	node := w.node(pod)
	defer node.Close()
	values, err := node.Directives(w.t.Context(), []string{directive})
	must.Succeed(w.t, err)
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

// worldClock is the clock of the operator in a world.
type worldClock struct {
	clock.RealClock
	w *world
}

func (c worldClock) Now() time.Time                  { return c.RealClock.Now().Add(time.Duration(c.w.shift.Load())) }
func (c worldClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// later lets the clock of the operator go on.
func (w *world) later(by time.Duration) { w.shift.Add(int64(by)) }

// oneWrite kills the first 300 controllers before their second write. These are enough for every kind of write to be the last one. It kills
// later controllers before their 98th write.
func oneWrite() func(write int) bool {
	deaths := 0
	return func(write int) bool {
		maxWrites := 1
		if deaths >= 300 {
			maxWrites = 97
		}
		if write <= maxWrites {
			return true
		}
		deaths++
		return false
	}
}

// diesAround ends a life of the controller before its first write of this kind, and the next one right after it.
func (w *world) diesAround(write string) func(int) bool {
	tries, next := 0, false
	return func(int) bool {
		if next {
			next = false
			return false
		}
		if w.last == write {
			tries++
			next = tries == 2
		}
		return tries != 1 || w.last != write
	}
}

// The functions below change a RedisCluster.

func size(n int32) func(*v1.RedisCluster) {
	return func(rdc *v1.RedisCluster) { rdc.Spec.Size = ptr.To(n) }
}

func storage(rdc *v1.RedisCluster) { rdc.Spec.Storage = &v1.Storage{Size: quantity("1Gi")} }

func quantity(text string) resource.Quantity { return resource.MustParse(text) }

func config(name, value string) func(*v1.RedisCluster) {
	return func(rdc *v1.RedisCluster) { rdc.Spec.Config[name] = v1.ConfigValue(value) }
}

func withPassword(rdc *v1.RedisCluster) {
	rdc.Spec.Users, rdc.Spec.AuthSecretRef = nil, &v1.SecretKeyReference{Name: "password", Key: "password"}
}

const openRules = "nopass ~* &* +@all"

func withUsers(users ...v1.User) func(*v1.RedisCluster) {
	return func(rdc *v1.RedisCluster) {
		rdc.Spec.AuthSecretRef, rdc.Spec.Users = nil, users
		rdc.Default()
	}
}

func aUser(name, rules, secret string) v1.User {
	u := v1.User{Name: name, Rules: rules, KeepOldPasswordSeconds: ptr.To[int32](60)}
	if secret != "" {
		u.PasswordSecretRef = &v1.SecretKeyReference{Name: secret, Key: "password"}
	}
	return u
}

func withTLSMode(mode v1.TLSMode) func(*v1.RedisCluster) {
	return func(rdc *v1.RedisCluster) {
		rdc.Spec.TLS = nil
		if mode != "" {
			rdc.Spec.TLS = &v1.TLS{SecretRef: v1.SecretReference{Name: "redis-tls"}, Mode: mode}
		}
		rdc.Default()
	}
}

func external(of v1.ExternalType) func(*v1.RedisCluster) {
	return func(rdc *v1.RedisCluster) {
		rdc.Spec.Access = &v1.Access{Service: &v1.ClientService{}, External: &v1.ExternalAccess{Type: of}}
	}
}

func noAccess(rdc *v1.RedisCluster) { rdc.Spec.Access = nil }

func hostnames(template string) func(*v1.RedisCluster) {
	return func(rdc *v1.RedisCluster) {
		rdc.Spec.Access = &v1.Access{External: &v1.ExternalAccess{Type: v1.ExternalLoadBalancer, Hostname: template}}
	}
}
