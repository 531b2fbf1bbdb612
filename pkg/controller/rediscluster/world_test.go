// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
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
	as       redisnode.Login   // the login of clients; if empty, they log in with the password
	overTLS  bool              // whether clients use TLS
	slow     bool              // whether the kubelet delays changes of Secrets
	shift    atomic.Int64      // how many nanoseconds the operator's clock is ahead
	machine  string            // IP of the machine of all Pods; "" if there is no access from outside
	proxies  map[string]*proxy // ports of Services
	blocked  map[string]bool   // ports of Services to which nothing connects, by the names of both
	nextIP   []string          // IPs of the next Pods; later ones get any free IP

	lives  func(write int) bool // whether the controller survives its n-th write; nil if it always does
	writes int                  // number of writes of this controller
	last   string               // the present write
	dumped func()               // called after each FUNCTION DUMP; may be nil
	deaths int                  // number of killed controllers
	lively bool                 // see live
	all    []string             // writes of all controllers
	asked  atomic.Int64         // number of Views

	askedConfig atomic.Int64 // number of CONFIG GETs
	mu          sync.Mutex
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

// newWorld returns a world with one RedisCluster, in its own namespace.
func newWorld(t testing.TB, name string, change ...func(*v1.RedisCluster)) *world {
	t.Helper()
	redistest.Binary(t)
	rdc := &v1.RedisCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name + "-uid"), Generation: 1},
		Spec: v1.RedisClusterSpec{Addr: "10.0.0.1:6379", Config: map[string]v1.ConfigValue{
			"cluster-node-timeout": "2000", "enable-debug-command": "yes",
		}},
	}
	for _, c := range change {
		c(rdc)
	}
	rdc.Default()
	w := &world{
		t: t, name: name, kube: kubefake.NewClientset(), client: fake.NewClientset(rdc), events: record.NewFakeRecorder(10000),
		servers: map[types.UID]*redistest.Server{}, dirs: map[string]string{}, stopped: map[string]bool{}, limits: map[string]int64{},
	}
	w.react()
	w.start()
	return w
}

// calm gives nodes time on a busy machine: no node is elected while none is killed.
func calm(rdc *v1.RedisCluster) { rdc.Spec.Config["cluster-node-timeout"] = "15000" }

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
	if err := w.config.Pods.Informer().SetTransform(TrimPod); err != nil {
		w.t.Fatal(err)
	}
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
	if err != nil {
		w.t.Fatal(err)
	}
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
	return countingNode{Node: Dial(w.resolve(ip), port, login), w: w}
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
	patience := 5 * time.Minute // On a busy machine, a roll without replicas takes two minutes.
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

// ready syncs until the cluster is Ready, and then checks all nodes.
func (w *world) ready(what string) {
	w.t.Helper()
	w.until(what, func() bool {
		rdc := w.rdc()
		return meta.IsStatusConditionTrue(rdc.Status.Conditions, glassback.ConditionReady) && rdc.Status.ObservedGeneration == rdc.Generation
	})
	// The nodes have a timeout of two seconds. After half of that without an answer, a node drops a connection and opens a new one. On a
	// busy machine this can happen at any time.
	w.until("the nodes to reach each other after "+what, func() bool { return w.unreached() == "" })
	w.check()
}

// unreached describes a node that does not reach another one, or is in a handshake. It returns "" if there is no such node.
func (w *world) unreached() string {
	w.t.Helper()
	rdc := w.rdc()
	for ordinal := range int(*rdc.Spec.Size) {
		view := w.view(podName(rdc, ordinal))
		for _, e := range view.Table {
			if e.Failed || e.MaybeFailed || e.Handshake || (!e.Connected && !e.Myself) {
				return fmt.Sprintf("%s has this entry: %+v", podName(rdc, ordinal), e)
			}
		}
		if !view.Master && !view.LinkUp {
			return fmt.Sprintf("the link of %s is down", podName(rdc, ordinal))
		}
	}
	return ""
}

// check compares the views of all nodes with the spec and the status.
func (w *world) check() {
	w.t.Helper()
	rdc := w.rdc()
	masters, replicas, slots := 0, 0, redisnode.Slots(nil)
	for ordinal := range int(*rdc.Spec.Size) {
		view := w.view(podName(rdc, ordinal))
		if len(view.Table) != int(*rdc.Spec.Size) {
			w.t.Errorf("the table of %s has %d nodes: %+v", podName(rdc, ordinal), len(view.Table), view.Table)
		}
		for _, e := range view.Table {
			if e.Migrating != nil || e.Importing != nil {
				w.t.Errorf("%s has this entry: %+v", podName(rdc, ordinal), e)
			}
			if !e.Myself {
				continue
			}
			if both := slots.Intersect(e.Slots); both.Len() > 0 {
				w.t.Errorf("%s has slots that another node has too: %s", podName(rdc, ordinal), both)
			}
			slots = slots.Union(e.Slots)
		}
		if view.Master {
			masters++
		} else {
			replicas++
		}
		if !view.StateOK {
			w.t.Errorf("%s reports cluster_state:fail", podName(rdc, ordinal))
		}
	}
	if slots.Len() != redisnode.SlotCount {
		w.t.Errorf("only the slots %s have a master", slots)
	}
	if masters != int(rdc.Spec.Masters()) || masters+replicas != int(*rdc.Spec.Size) {
		w.t.Errorf("the cluster has %d masters and %d replicas", masters, replicas)
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
	view, err := node.View(w.t.Context())
	if err != nil {
		w.t.Fatalf("%s: %v", pod, err)
	}
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
	if err != nil {
		w.t.Fatal(err)
	}
	return rdc
}

// change changes the spec as a user does, and waits until the controller's cache shows it.
func (w *world) change(change func(*v1.RedisCluster)) {
	w.t.Helper()
	w.byPerson(func() {
		rdc := w.rdc()
		change(rdc)
		rdc.Generation++
		if _, err := w.client.RedisV1().RedisClusters("default").Update(context.Background(), rdc, metav1.UpdateOptions{}); err != nil {
			w.t.Fatal(err)
		}
		for {
			cached, err := w.controller.clusters.RedisClusters("default").Get(w.name)
			if err == nil && cached.Generation == rdc.Generation {
				return
			}
			time.Sleep(time.Millisecond)
		}
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

func (w *world) pods() []*corev1.Pod {
	list, err := w.kube.Tracker().List(corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod"), "default")
	if err != nil {
		w.t.Fatal(err)
	}
	var pods []*corev1.Pod
	for i := range list.(*corev1.PodList).Items {
		pods = append(pods, &list.(*corev1.PodList).Items[i])
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
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
			if err := w.kube.CoreV1().Pods("default").Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
				w.t.Fatal(err)
			}
		}
	})
	w.kubelet()
}

// bind gives the claim of a Pod its volume, as happens after scheduling.
func (w *world) bind(p *corev1.Pod) {
	for _, c := range w.claims() {
		if c.Name != "data-"+p.Name || c.Spec.VolumeName != "" {
			continue
		}
		c.Spec.VolumeName = "volume-" + string(c.UID)
		if err := w.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), &c, "default"); err != nil {
			w.t.Fatal(err)
		}
	}
}

// kubelet starts a redis-server for each Pod, and stops the servers of deleted Pods.
func (w *world) kubelet() {
	w.t.Helper()
	exists := map[types.UID]bool{}
	pods := w.pods()
	for _, p := range pods {
		exists[p.UID] = true
	}
	for uid, server := range w.servers {
		if !exists[uid] {
			server.Stop()
			delete(w.servers, uid)
		}
	}
	w.release()
	w.writeCertificates()
	defer w.proxyServices()
	for _, p := range pods {
		server := w.servers[p.UID]
		if w.stopped[p.Name] || (server != nil && server.Running()) {
			continue
		}
		ip := p.Status.PodIP
		if ip == "" {
			ip = w.ip()
		}
		password, directives := w.password, append(w.directives(p), w.startHostname(p)...)
		if hasAccount(p) {
			password, directives = "", append(directives, w.makeUsers(p)...)
		}
		w.servers[p.UID] = redistest.Start(w.t, redistest.Config{
			IP: ip, Dir: w.volume(p), Password: password, FileLimit: w.limits[p.Name], Directives: append(directives, w.makeTLS(p)...),
			TLSPort: portFor(p, true),
		})
		w.bind(p)
		running := p.DeepCopy()
		running.Spec.NodeName = "machine"
		running.Status.Phase, running.Status.PodIP = corev1.PodRunning, ip
		running.Status.HostIP = w.machine
		running.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if err := w.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), running, "default"); err != nil {
			w.t.Fatal(err)
		}
	}
}

// release removes deleted claims whose Pods no longer exist.
func (w *world) release() {
	resource := corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	for _, c := range w.claims() {
		if c.DeletionTimestamp != nil && w.pod(strings.TrimPrefix(c.Name, "data-")) == nil {
			if err := w.kube.Tracker().Delete(resource, "default", c.Name); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

func (w *world) claims() []corev1.PersistentVolumeClaim {
	list, err := w.kube.Tracker().List(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), "default")
	if err != nil {
		w.t.Fatal(err)
	}
	return list.(*corev1.PersistentVolumeClaimList).Items
}

func (w *world) ip() string {
	if len(w.nextIP) > 0 {
		ip := w.nextIP[0]
		w.nextIP = w.nextIP[1:]
		return ip
	}
	return redistest.FreeIP(w.t)
}

// volume returns the directory of the Pod's claim or, without a claim, of the Pod.
func (w *world) volume(p *corev1.Pod) string {
	uid := string(p.UID)
	for _, c := range w.claims() {
		if c.Name == "data-"+p.Name {
			uid = string(c.UID)
		}
	}
	if w.dirs[uid] == "" {
		w.dirs[uid] = filepath.Join(w.t.TempDir(), uid)
	}
	return w.dirs[uid]
}

// directives returns the directives of the Pod's redis.conf, without ports, directories and files: redistest chooses these.
func (w *world) directives(p *corev1.Pod) []string {
	name := p.Spec.Volumes[1].ConfigMap.Name
	cm, err := w.kube.Tracker().Get(corev1.SchemeGroupVersion.WithResource("configmaps"), "default", name)
	if err != nil {
		w.t.Fatal(err)
	}
	conf := cm.(*corev1.ConfigMap).Data["redis.conf"]
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(conf), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "port ") || strings.HasPrefix(line, "dir ") || strings.HasPrefix(line, "aclfile ") ||
			strings.Contains(line, dirTLS) || strings.Contains(line, fileTLS)
	})
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
