// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
	"github.com/glassback/glassback/pkg/generated/informers/externalversions"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/recording/recordtest"
	"github.com/glassback/glassback/pkg/redisnode"
)

var demoKey = cache.NewObjectName("default", "demo")

// stage has a fake API server, fake nodes, a controller, and its caches. The caches show the objects of the API server only after catchUp.
type stage struct {
	t          *testing.T
	kube       *kubefake.Clientset
	client     *fake.Clientset
	clock      *testingclock.FakeClock
	events     *record.FakeRecorder
	controller *Controller
	informers  map[schema.GroupVersionResource]*quietInformer
	log        bytes.Buffer

	mu       sync.Mutex
	views    map[string]*redisnode.View     // views of the nodes, by IP
	errs     map[string]error               // errors instead of views, by IP
	commands []string                       // commands to nodes in the last sync
	password string                         // password of all nodes
	reacts   func(command, ip string) error // what a node does when it gets REPLICATE
	users    map[string]redisnode.User      // users of all nodes; SetUser does not change them

	settable map[string]string            // directives that nodes can set, with their first values; nil if nodes forbid CONFIG
	values   map[string]map[string]string // directives that SetDirective set, by IP
	recorded map[string]map[string]string // the values at the last patch of a Pod, by Pod
}

// watched are the kinds of which the controller has a cache.
var watched = map[schema.GroupVersionResource]runtime.Object{
	corev1.SchemeGroupVersion.WithResource("pods"):                   &corev1.Pod{},
	corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"): &corev1.PersistentVolumeClaim{},
	corev1.SchemeGroupVersion.WithResource("services"):               &corev1.Service{},
	corev1.SchemeGroupVersion.WithResource("configmaps"):             &corev1.ConfigMap{},
	policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"): &policyv1.PodDisruptionBudget{},
	networkingv1.SchemeGroupVersion.WithResource("networkpolicies"):  &networkingv1.NetworkPolicy{},
	batchv1.SchemeGroupVersion.WithResource("jobs"):                  &batchv1.Job{},
	v1.SchemeGroupVersion.WithResource("redisclusters"):              &v1.RedisCluster{},
}

// quietInformer receives no events. It lets a test call the handlers.
type quietInformer struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

func (q *quietInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	q.handlers = append(q.handlers, handler)
	return nil, nil
}

// fakeNode is the fake node at an IP. It records the commands in the stage. Of moves and functions, it has no command.
type fakeNode struct {
	Node
	*stage
	ip, password string
}

func (p fakeNode) View(context.Context) (*redisnode.View, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.errs[p.ip] != nil:
		return nil, p.errs[p.ip]
	case p.password != p.stage.password:
		return nil, fmt.Errorf("HELLO: %w: the node has another one", redisnode.ErrPassword)
	case p.views[p.ip] == nil:
		return nil, errors.New("connection refused")
	}
	view := *p.views[p.ip]
	view.Table = slices.Clone(view.Table)
	return &view, nil
}

func (p fakeNode) record(words ...any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commands = append(p.commands, p.ip+" "+strings.TrimSpace(fmt.Sprintln(words...)))
	return nil
}

func (p fakeNode) Meet(_ context.Context, ip string, _, _ int) error { return p.record("meet", ip) }
func (p fakeNode) Forget(_ context.Context, id string) error         { return p.record("forget", id) }
func (p fakeNode) AddSlots(_ context.Context, slots redisnode.Slots) error {
	return p.record("add", slots)
}
func (p fakeNode) Replicate(_ context.Context, id string) error {
	return errors.Join(p.record("replicate", id), p.reacts("replicate", p.ip))
}
func (p fakeNode) Reconnect(_ context.Context, id, other string) error {
	return errors.Join(p.record("reconnect", id, other), p.reacts("reconnect", p.ip))
}
func (p fakeNode) Failover(_ context.Context, how redisnode.Failover) error {
	return p.record("failover", how)
}
func (p fakeNode) PauseWrites(_ context.Context, duration time.Duration) error {
	return p.record("pause", duration)
}
func (p fakeNode) ResumeWrites(context.Context) error { return p.record("resume") }
func (p fakeNode) SetSlots(_ context.Context, slots redisnode.Slots, how redisnode.SlotState, id string) error {
	return p.record("set", slots, how, id)
}
func (p fakeNode) Directives(_ context.Context, names []string) (map[string]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settable == nil {
		return nil, redisnode.ErrNoConfig
	}
	values := map[string]string{}
	for _, name := range names {
		if value, ok := cmp.Or(p.values[p.ip][name], p.settable[name]), p.settable[name] != ""; ok {
			values[name] = value
		}
	}
	return values, nil
}
func (p fakeNode) SetDirective(_ context.Context, name, value string) error {
	p.mu.Lock()
	if p.values[p.ip] == nil {
		p.values[p.ip] = map[string]string{}
	}
	p.values[p.ip][name] = value
	p.mu.Unlock()
	_ = p.record("config set", name, value) // It returns no error.
	return p.errs[p.ip+" config set "+value]
}
func (p fakeNode) Connect(context.Context) error { return p.errs[p.ip+" connect"] }
func (p fakeNode) Announce(_ context.Context, ip string, port, tlsPort, busPort int) error {
	return p.record("announce", ip, port, tlsPort, busPort)
}
func (p fakeNode) Users(context.Context) (map[string]redisnode.User, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.users), nil
}
func (p fakeNode) SetUser(_ context.Context, name string, rules []string) error {
	return p.record("set user", name, strings.Join(rules, " "))
}
func (p fakeNode) DeleteUsers(_ context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	return p.record("delete users", strings.Join(names, " "))
}
func (p fakeNode) EndConnections(_ context.Context, user string) error {
	return p.record("end connections of", user)
}
func (p fakeNode) SwitchTLS(_ context.Context, on bool, port, _, _ int) error {
	return p.record("switch TLS", on, port)
}
func (p fakeNode) ReloadCertificate(context.Context) error {
	_ = p.record("reload certificate") // It returns no error.
	return p.errs[p.ip+" reload"]
}
func (p fakeNode) SaveUsers(context.Context) error { return p.record("save users") }
func (p fakeNode) Close()                          {}

// newStage returns a stage with the objects and nodes of an observation.
func newStage(t *testing.T, o *observed) *stage {
	t.Helper()
	o.Object.Spec.AuthSecretRef = nil
	s := &stage{
		t: t, kube: kubefake.NewClientset(), client: fake.NewClientset(o.Object), clock: testingclock.NewFakeClock(seenAt),
		events: record.NewFakeRecorder(100), informers: map[schema.GroupVersionResource]*quietInformer{},
		views: map[string]*redisnode.View{}, errs: map[string]error{}, values: map[string]map[string]string{},
		recorded: map[string]map[string]string{},
	}
	s.reacts = func(string, string) error { return nil }
	s.kube.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		name := action.(clienttesting.PatchAction).GetName()
		for ordinal := range o.Members {
			if manifest.PodName(o.Object, ordinal) == name {
				s.recorded[name] = maps.Clone(s.values[ipOf(ordinal)])
			}
		}
		return false, nil, nil
	})
	for _, m := range o.Members {
		if m.Pod != nil {
			s.add(m.Pod)
			s.views[m.ip()] = m.View
		}
		if m.Claim != nil {
			s.add(m.Claim)
		}
	}
	s.connect()
	return s
}

func (s *stage) add(object runtime.Object) {
	s.t.Helper()
	must.Succeed(s.t, s.kube.Tracker().Add(object))
}

// connect creates another controller. Its caches show all objects.
func (s *stage) connect() {
	s.t.Helper()
	kube, own := kubeinformers.NewSharedInformerFactory(s.kube, 0), externalversions.NewSharedInformerFactory(s.client, 0)
	for resource, example := range watched {
		informer := &quietInformer{SharedIndexInformer: cache.NewSharedIndexInformer(nil, example, 0,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
		s.informers[resource] = informer
		if resource.Group == v1.SchemeGroupVersion.Group {
			own.InformerFor(example, func(versioned.Interface, time.Duration) cache.SharedIndexInformer { return informer })
		} else {
			kube.InformerFor(example, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return informer })
		}
	}
	c, err := New(Config{
		Kube: newEvicting(s.kube), Client: s.client, RedisClusters: own.Redis().V1().RedisClusters(),
		Pods: kube.Core().V1().Pods(), Claims: kube.Core().V1().PersistentVolumeClaims(), Services: kube.Core().V1().Services(),
		ConfigMaps: kube.Core().V1().ConfigMaps(), Budgets: kube.Policy().V1().PodDisruptionBudgets(),
		Policies: kube.Networking().V1().NetworkPolicies(), OperatorNamespace: "operators",
		Jobs: kube.Batch().V1().Jobs(), BackupImage: testImage,
		Dial:     func(ip string, _ int, login redisnode.Login) Node { return fakeNode{nil, s, ip, login.Password} },
		Recorder: s.events, Clock: s.clock,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.loop.Queue.ShutDown)
	s.controller = c
	s.catchUp()
}

// catchUp makes the caches show the present objects.
func (s *stage) catchUp() {
	s.t.Helper()
	for resource, informer := range s.informers {
		tracker := s.kube.Tracker()
		if resource.Group == v1.SchemeGroupVersion.Group {
			tracker = s.client.Tracker()
		}
		kind := reflect.TypeOf(watched[resource]).Elem().Name()
		list, err := tracker.List(resource, resource.GroupVersion().WithKind(kind), "default")
		must.Succeed(s.t, err)
		objects, err := meta.ExtractList(list)
		must.Succeed(s.t, err)
		all := make([]any, len(objects))
		for i, object := range objects {
			if all[i], err = TrimPod(object.DeepCopyObject()); err != nil {
				s.t.Fatal(err)
			}
		}
		must.Succeed(s.t, informer.GetStore().Replace(all, ""))
	}
}

// sync runs one sync. It returns the writes to the API server, and then the commands to nodes.
func (s *stage) sync() (writes []string, after time.Duration, err error) {
	s.t.Helper()
	s.kube.ClearActions()
	s.client.ClearActions()
	s.commands = nil
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(10), textlogger.Output(&s.log)))
	after, err = s.controller.Sync(recordtest.Context(klog.NewContext(s.t.Context(), logger), s.t, Decisions), demoKey)
	for _, action := range slices.Concat(s.kube.Actions(), s.client.Actions()) {
		words := action.GetVerb() + " " + action.GetResource().Resource
		if action.GetSubresource() == "eviction" {
			words = "evict pods"
		}
		if create, ok := action.(clienttesting.CreateActionImpl); ok && isDryRun(create) {
			continue
		}
		switch a := action.(type) {
		case clienttesting.PatchAction:
			words += " " + a.GetName()
		case clienttesting.CreateAction: // UpdateAction has the same methods.
			if object, err := meta.Accessor(a.GetObject()); err == nil {
				words += " " + object.GetName()
			}
		case clienttesting.DeleteAction:
			words += " " + a.GetName()
		}
		if verb := action.GetVerb(); verb != "get" && verb != "list" {
			writes = append(writes, words)
		}
	}
	return append(writes, s.commands...), after, err
}

// synced runs one sync, without an error, and returns its writes.
func (s *stage) synced() []string {
	s.t.Helper()
	writes, _, err := s.sync()
	must.Succeed(s.t, err)
	return writes
}

// next is synced, and then the caches show what was written.
func (s *stage) next() []string {
	s.t.Helper()
	writes := s.synced()
	s.catchUp()
	return writes
}

// fails has the API server answer requests with an error.
func (s *stage) fails(verb, resource string, err error) {
	s.kube.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

// is returns a condition of the status.
func (s *stage) is(kind string) metav1.Condition {
	s.t.Helper()
	if c := meta.FindStatusCondition(s.rdc().Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func (s *stage) ready() metav1.Condition { return s.is(glassback.ConditionReady) }

// pod returns a Pod of the API server.
func (s *stage) pod(name string) *corev1.Pod {
	s.t.Helper()
	p, err := s.kube.CoreV1().Pods("default").Get(s.t.Context(), name, metav1.GetOptions{})
	must.Succeed(s.t, err)
	return p.DeepCopy()
}

// settle syncs until a sync writes nothing.
func (s *stage) settle() *stage {
	s.t.Helper()
	for range 10 {
		writes, _, err := s.sync()
		must.Succeed(s.t, err)
		s.catchUp()
		s.clock.Step(textEvery)
		if len(writes) == 0 {
			s.takeEvents()
			return s
		}
	}
	s.t.Fatal("ten syncs in a row wrote something")
	return nil
}

func (s *stage) rdc() *v1.RedisCluster {
	s.t.Helper()
	rdc, err := s.client.RedisV1().RedisClusters("default").Get(s.t.Context(), "demo", metav1.GetOptions{})
	must.Succeed(s.t, err)
	return rdc
}

// edit changes the RedisCluster as a user does.
func (s *stage) edit(f func(*v1.RedisCluster)) {
	s.t.Helper()
	rdc := s.rdc().DeepCopy()
	f(rdc)
	must.Succeed(s.t, s.client.Tracker().Update(v1.SchemeGroupVersion.WithResource("redisclusters"), rdc, "default"))
	s.catchUp()
}

// destroy removes an object of the core group.
func (s *stage) destroy(resource, name string) {
	s.t.Helper()
	must.Succeed(s.t, s.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource(resource), "default", name))
	s.catchUp()
}

// takeEvents returns the events since its last call.
func (s *stage) takeEvents() []string {
	var all []string
	for {
		select {
		case event := <-s.events.Events:
			all = append(all, event)
		default:
			return all
		}
	}
}

// sixStored returns the cluster six with volumes.
func sixStored() *observed { return with(six(), stored) }

const statusWrite = "update redisclusters demo"

func paused(rdc *v1.RedisCluster) {
	rdc.Annotations = map[string]string{glassback.AnnotationPaused: "true"}
}

func authenticated(rdc *v1.RedisCluster) {
	rdc.Spec.AuthSecretRef = &v1.SecretKeyReference{Name: "auth", Key: "password"}
}

func TestSync(t *testing.T) {
	podOfAnotherOwner := func(labelled bool) func(*stage) {
		return func(s *stage) {
			s.destroy("pods", "demo-4")
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "demo-4", Namespace: "default", UID: "theirs"}}
			if labelled {
				p.Labels = manifest.Selector(s.rdc())
			}
			s.add(p)
			if s.catchUp(); !labelled { // The cache has only Pods with the labels.
				must.Succeed(s.t, s.informers[corev1.SchemeGroupVersion.WithResource("pods")].GetStore().Delete(p))
			}
		}
	}
	deletedPod := func(s *stage) { s.destroy("pods", "demo-4") }
	deletedPodAnd := func(f func(*v1.RedisCluster)) func(*stage) { return func(s *stage) { deletedPod(s); s.edit(f) } }
	for name, test := range map[string]struct {
		given    func(*stage)
		writes   []string
		after    time.Duration
		err      string
		reason   string // of Degraded; "" if it is not True
		message  string // a part of the message of Degraded
		noReport bool   // whether this sync writes no status
	}{
		"a Pod that is gone is created again": {given: deletedPod, writes: []string{"create pods demo-4", statusWrite}, after: check},
		"a Pod of another owner has the name: a condition reports it, and nothing is created": {
			given: podOfAnotherOwner(true), writes: []string{statusWrite}, after: poll, reason: reasonConflict,
			message: "Pod demo-4 exists already and is not controlled by this RedisCluster",
		},
		"a Pod of another owner has the name, and no cache shows it: the next sync reports it": {
			given: podOfAnotherOwner(false), writes: []string{"create pods demo-4", statusWrite},
			err: "create Pod demo-4: Pod demo-4 exists already", after: check,
		},
		"a Service of another owner has the name: a condition reports it, and it is left alone": {
			given: func(s *stage) {
				s.destroy("services", "demo")
				labels := manifest.Selector(s.rdc())
				s.add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "default", UID: "theirs", Labels: labels}})
				s.catchUp()
			},
			writes: []string{statusWrite}, after: poll, reason: reasonConflict, message: "Service demo exists already and has no controller",
		},
		"a Service that is gone is created again": {
			given: func(s *stage) { s.destroy("services", "demo") }, writes: []string{"patch services demo"}, after: 5 * time.Second, noReport: true,
		},
		"paused: nothing is done": {given: deletedPodAnd(paused), noReport: true},
		"being deleted: nothing is done": {
			given: deletedPodAnd(func(rdc *v1.RedisCluster) { rdc.DeletionTimestamp = ptr.To(metav1.NewTime(seenAt)) }), noReport: true,
		},
		"an invalid spec is reported, and nothing else is done": {
			given:  deletedPodAnd(func(rdc *v1.RedisCluster) { rdc.Spec.Addr = "nowhere" }),
			writes: []string{statusWrite}, reason: reasonInvalidSpec, message: "spec.addr",
		},
		"the Secret is missing: the revision changes first, and nothing else is done": {
			// The revision includes the Secret's name: Pods of another Secret have another revision.
			given:  func(s *stage) { s.edit(authenticated) },
			writes: []string{"patch configmaps demo-*"}, after: 5 * time.Second, noReport: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, sixStored()).settle()
			if test.given != nil {
				test.given(s)
			}
			writes, after, err := s.sync()
			for i, w := range writes {
				if strings.HasPrefix(w, "patch configmaps demo-") {
					writes[i] = "patch configmaps demo-*"
				}
			}
			if !slices.Equal(writes, test.writes) {
				t.Errorf("writes %q, want %q", writes, test.writes)
			}
			if (err == nil) != (test.err == "") || (err != nil && !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, want one with %q", err, test.err)
			}
			if after != test.after {
				t.Errorf("after %s, want %s", after, test.after)
			}
			degraded := s.is(glassback.ConditionDegraded)
			bad := degraded.Status == metav1.ConditionTrue
			if !test.noReport && (bad != (test.reason != "") || (bad && degraded.Reason != test.reason)) {
				t.Errorf("Degraded is %s with the reason %s, want %q", degraded.Status, degraded.Reason, test.reason)
			}
			if !strings.Contains(degraded.Message, test.message) {
				t.Errorf("the message of Degraded is %q, want a part %q", degraded.Message, test.message)
			}
		})
	}
}

// TestAReplicaConnectsAgain: demo-4 asks at an old IP of its master demo-1.
func TestAReplicaConnectsAgain(t *testing.T) {
	const replicate, reconnect = "10.1.0.4 replicate id-1", "10.1.0.4 reconnect id-1 id-0"
	for server, test := range map[string]struct {
		reacts func(*stage) func(command, ip string) error
		want   []string
		fails  bool
	}{
		"Redis": {func(s *stage) func(string, string) error {
			return func(_, ip string) error {
				moved := *s.views[ip]
				moved.MasterIP = ipOf(1)
				s.views[ip] = &moved
				return nil
			}
		}, []string{replicate}, false},
		"Valkey, where the first command does nothing": {func(*stage) func(string, string) error {
			return func(string, string) error { return nil }
		}, []string{replicate, reconnect}, false},
		"Valkey, and demo-5 has just taken over from demo-1": {func(s *stage) func(string, string) error {
			return func(command, ip string) error {
				if command != "reconnect" {
					return nil
				}
				moved := *s.views[ip]
				moved.Table = slices.Clone(moved.Table)
				moved.Table[1].MasterID, moved.Table[1].Master = idOf(5), false
				s.views[ip] = &moved
				return errors.New("ERR I can only replicate a master, not a replica")
			}
		}, []string{replicate, reconnect, "10.1.0.4 replicate id-5"}, true},
	} {
		t.Run(server, func(t *testing.T) {
			s := newStage(t, sixStored()).settle()
			s.views[ipOf(4)].LinkUp, s.views[ipOf(4)].MasterIP = false, "10.9.9.9"
			s.reacts = test.reacts(s)
			_, _, err := s.sync()
			if !slices.Equal(s.commands, test.want) || (err != nil) != test.fails {
				t.Errorf("commands %q, error %v; want %q", s.commands, err, test.want)
			}
		})
	}
}

func TestSyncOfADeletedClusterDropsItsSession(t *testing.T) {
	s := newStage(t, sixStored()).settle()
	if len(s.controller.sessions.byKey) != 1 {
		t.Fatal("there is no session")
	}
	must.Succeed(t, s.client.Tracker().Delete(v1.SchemeGroupVersion.WithResource("redisclusters"), "default", "demo"))
	s.catchUp()
	if writes, after, err := s.sync(); len(writes) > 0 || after != 0 || err != nil {
		t.Errorf("writes %q, after %s, error %v; want nothing", writes, after, err)
	}
	if known := s.controller.sessions.byKey; len(known) > 0 {
		t.Errorf("sessions %v, want none", known)
	}
}

// TestSyncContinuesAfterAnError: the API server rejects one of six Pods. The sync creates the others, and a later sync creates this one.
// An error that lasts is the reason of Ready.
func TestSyncContinuesAfterAnError(t *testing.T) {
	s := newStage(t, with(six(), clearStatus, noPod(0, 1, 2, 3, 4, 5)))
	s.next()
	fails := true
	s.kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		created := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		return fails && created.Name == "demo-2", nil, errors.New("exceeded quota")
	})
	for _, want := range []string{reasonForming, reasonFailing} {
		if _, _, err := s.sync(); err == nil || !strings.Contains(err.Error(), "create Pod demo-2: exceeded quota") {
			t.Errorf("error %v, want the error of demo-2", err)
		}
		if got := s.ready().Reason; got != want {
			t.Errorf("the reason of Ready is %s, want %s", got, want)
		}
		s.catchUp()
		s.clock.Step(failingTooLong + time.Second)
	}
	fails = false
	writes, _, err := s.sync()
	if !slices.Contains(writes, "create pods demo-2") || slices.Contains(writes, "create pods demo-1") || err != nil {
		t.Errorf("writes %q, error %v; want only the missing Pod demo-2", writes, err)
	}
	if s.controller.sessions.get(s.rdc()).failure != nil {
		t.Error("the session still has the failure after a successful sync")
	}
}

// An error is remembered while the operator only waits before it tries again, but its age ends with the last failure.
func TestAFailureIsRememberedForAWhile(t *testing.T) {
	fails, waits := plan{Commands: []command{{verb: meet}}}, plan{Step: "Waiting"}
	s, o := &session{since: map[string]time.Time{}, seen: map[string]bool{}}, six()
	for _, step := range []struct {
		at   time.Duration
		plan plan
		err  error
		want time.Duration // for how long commands have failed; negative if they have not
	}{
		{0, fails, errors.New("it fails"), 1},
		{5 * time.Second, waits, nil, 0},
		{40 * time.Second, fails, errors.New("it fails"), 40 * time.Second},
		{60 * time.Second, waits, nil, 40 * time.Second},
		{40*time.Second + keepFailure, waits, nil, -1},
	} {
		o.Now, o.Failure, o.FailingFor = seenAt.Add(step.at), nil, duration(-1)
		s.recordResult(step.plan, "", step.err, o.Now)
		s.recallFailure(o)
		if o.FailingFor.Duration != step.want {
			t.Errorf("after %s, commands have failed for %s, want %s", step.at, o.FailingFor.Duration, step.want)
		}
	}
}

func TestSyncWaitsForItsCaches(t *testing.T) {
	s := newStage(t, sixStored()).settle()
	s.destroy("pods", "demo-4")
	if writes, _, err := s.sync(); !slices.Contains(writes, "create pods demo-4") || err != nil {
		t.Fatalf("writes %q, error %v; want the creation of demo-4", writes, err)
	}
	s.clock.Step(time.Second)
	writes, after, err := s.sync()
	if len(writes) > 0 || after <= 0 || err != nil {
		t.Errorf("while the cache does not show the Pod: writes %q, after %s, error %v; want a wait without writes", writes, after, err)
	}
	s.catchUp()
	if writes, _, err := s.sync(); slices.Contains(writes, "create pods demo-4") || err != nil {
		t.Errorf("when the cache shows the Pod: writes %q, error %v; want no creation", writes, err)
	}
}

// explosive is an error that panics when it is examined.
type explosive struct{}

func (explosive) Error() string { return "explosive" }
func (explosive) Is(error) bool { panic("examined") }

// TestAPanicDuringAViewReachesTheLoop: the loop recovers only from a panic of the goroutine that calls Sync. Any other panic ends the
// operator.
func TestAPanicDuringAViewReachesTheLoop(t *testing.T) {
	s := newStage(t, six()).settle()
	s.errs[ipOf(2)] = explosive{}
	defer func() {
		if p := fmt.Sprint(recover()); !strings.HasPrefix(p, "examined\n") || !strings.Contains(p, "explosive.Is") {
			t.Errorf("the panic is %s", p)
		}
	}()
	_, _, err := s.sync()
	t.Errorf("Sync returned, error %v", err)
}

// TestSyncToleratesAShortSilence: a node does not answer one sync. The status changes only if the node stays silent.
func TestSyncToleratesAShortSilence(t *testing.T) {
	s := newStage(t, sixStored()).settle()
	s.errs[ipOf(4)] = errors.New("i/o timeout")
	if writes, after, err := s.sync(); len(writes) > 0 || after != check || err != nil {
		t.Errorf("writes %q, after %s, error %v; want no writes and a requeue after %s", writes, after, err, check)
	}
	s.clock.Step(shortSilence + time.Second)
	if writes, _, err := s.sync(); !slices.Equal(writes, []string{statusWrite}) || err != nil {
		t.Errorf("after a longer silence: writes %q, error %v; want the status", writes, err)
	}
}

// TestSyncIntroducesNoReplacedPod: before CLUSTER MEET, the sync reads the live Pod and the node's view again. It sends no MEET if one of
// them has changed since the observation.
func TestSyncIntroducesNoReplacedPod(t *testing.T) {
	for name, given := range map[string]func(*stage, *corev1.Pod){
		"the Pod has another UID":     func(_ *stage, p *corev1.Pod) { p.UID = "another" },
		"the Pod has another address": func(_ *stage, p *corev1.Pod) { p.Status.PodIP = "10.1.6.6" },
		"the Pod is being deleted":    func(_ *stage, p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(seenAt)) },
		"its node has another ID": func(s *stage, _ *corev1.Pod) {
			s.changeViewBeforeMeet(4, func(v *redisnode.View) { v.ID = "another" })
		},
		"its node knows a node of another cluster": func(s *stage, _ *corev1.Pod) {
			s.changeViewBeforeMeet(4, func(v *redisnode.View) {
				v.Table = append(slices.Clone(v.Table), redisnode.Entry{ID: "another", IP: "10.1.6.6", Port: 6379})
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, sixStored()).settle()
			s.views[ipOf(3)] = with(six(), forgotten("id-4", 3)).Members[3].View
			if writes, _, err := s.sync(); !slices.Contains(writes, "10.1.0.3 meet 10.1.0.4") || err != nil {
				t.Fatalf("without a change: writes %q, error %v; want a MEET with demo-4", writes, err)
			}
			s.catchUp()
			s.setPod("demo-4", func(p *corev1.Pod) { given(s, p) })
			if writes, _, err := s.sync(); slices.ContainsFunc(writes, func(w string) bool { return strings.Contains(w, "meet") }) || err == nil {
				t.Errorf("writes %q, error %v; want no MEET, and an error", writes, err)
			}
		})
	}
}

// changeViewBeforeMeet changes the view of a member after the sync has observed it: a meet first reads the live Pods.
func (s *stage) changeViewBeforeMeet(ordinal int, change func(*redisnode.View)) {
	s.kube.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		changed := *s.views[ipOf(ordinal)]
		change(&changed)
		s.views[ipOf(ordinal)] = &changed
		return false, nil, nil
	})
}

func TestSyncTombstones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, with(six(), stored, spec(func(s *v1.RedisClusterSpec) { s.NetworkPolicy = &v1.NetworkPolicy{} })))
		s.add(manifest.BackupJob(defaulted(s.rdc(), backedUpHourly), dueID, testImage, manifest.Access{}))
		s.edit(backedUpHourly)
		s.settle()
		objects := map[string]any{"redisclusters": s.rdc()}
		for resource, informer := range s.informers {
			if list := informer.GetStore().List(); len(list) > 0 {
				objects[resource.Resource] = list[0]
			}
		}
		if len(objects) != 8 {
			t.Fatalf("%d kinds of objects, want 8", len(objects))
		}
		queue := s.controller.loop.Queue
		go s.controller.Run(t.Context(), t.Context(), 0) // Handlers add keys, and no worker takes them.
		synctest.Wait()
		if key, _ := queue.Get(); key != demoKey {
			t.Errorf("the first key is %s, want %s", key, demoKey)
		}
		queue.Done(demoKey)
		for resource, informer := range s.informers {
			if len(informer.handlers) != 1 {
				t.Fatalf("%d handlers for %s, want 1", len(informer.handlers), resource.Resource)
			}
			informer.handlers[0].OnDelete(cache.DeletedFinalStateUnknown{Key: "default/any", Obj: objects[resource.Resource]})
			if queue.Len() != 1 {
				t.Fatalf("a tombstone of %s enqueues %d keys, want 1", resource.Resource, queue.Len())
			}
			key, _ := queue.Get()
			if queue.Done(key); key != demoKey {
				t.Errorf("a tombstone of %s enqueues %s, want %s", resource.Resource, key, demoKey)
			}
		}
	})
}

// TestSyncKeepsThePassword: the condition Ready reports what is wrong with the password. Errors, status, events and log never show it.
func TestSyncKeepsThePassword(t *testing.T) {
	const password = "hunter2hunter2"
	secretWith := func(data map[string][]byte) func(*stage) {
		return func(s *stage) {
			s.add(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "auth", Namespace: "default"}, Data: data})
		}
	}
	good := secretWith(map[string][]byte{"password": []byte(password + "\n")})
	for name, test := range map[string]struct {
		given  func(*stage)
		reason string // of Ready
	}{
		"there is no Secret":              {func(*stage) {}, reasonNoPassword},
		"the Secret has another key":      {secretWith(map[string][]byte{"pass": []byte(password)}), reasonNoPassword},
		"the Secret has the password":     {good, reasonFormed},
		"the nodes have another password": {func(s *stage) { good(s); s.password = "another" }, reasonPassword},
		"a node does not answer for long": {func(s *stage) { good(s); s.errs[ipOf(4)] = errors.New("i/o timeout") }, reasonSilent},
		"the sync sends commands to nodes": {func(s *stage) {
			good(s)
			s.views[ipOf(3)] = with(six(), forgotten("id-4", 3)).Members[3].View
		}, reasonForming},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, with(six(), spec(func(s *v1.RedisClusterSpec) {
				s.AuthSecretRef = &v1.SecretKeyReference{Name: "auth", Key: "password"}
			})))
			s.edit(authenticated)
			for _, p := range s.informers[corev1.SchemeGroupVersion.WithResource("pods")].GetStore().List() {
				p.(*corev1.Pod).Annotations[manifest.AnnotationRevision] = manifest.Revision(s.rdc())
			}
			s.password = password
			test.given(s)
			var errorTexts strings.Builder
			for range 6 {
				_, _, err := s.sync()
				s.catchUp()
				fmt.Fprintln(&errorTexts, err)
				s.clock.Step(silentTooLong)
			}
			status, err := json.Marshal(s.rdc())
			must.Succeed(t, err)
			if all := errorTexts.String() + string(status) + strings.Join(s.takeEvents(), "\n") + s.log.String(); strings.Contains(all, password) {
				t.Errorf("the output has the password: %s", all)
			}
			if s.log.Len() == 0 {
				t.Error("the log is empty: the test has not checked any line of it")
			}
			if got := s.ready(); got.Reason != test.reason {
				t.Errorf("the reason of Ready is %s: %s, want %s", got.Reason, got.Message, test.reason)
			}
		})
	}
}

// TestWhenANodeIsAsked: a sync asks a node when the container redis runs. The Pod can still be Pending because of other containers.
func TestWhenANodeIsAsked(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"all containers run":               {func(*corev1.Pod) {}, ""},
		"another container does not start": {sidecarsCrashing, ""},
		"an init container does not end":   {both(unstarted, blocked), "CrashLoopBackOff: back-off 10s"},
		"no container has started":         {unstarted, "the Pod does not run yet"},
		"the Pod is being deleted":         {both(sidecarsCrashing, beingDeleted), "the Pod is being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			p := podAt(six().Object, 0)
			test.change(p)
			if err := whyNotAsked(p); (err == nil) != (test.want == "") || (err != nil && err.Error() != test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// movingNode has keys in slots. A MIGRATE moves them, or returns failure.
type movingNode struct {
	fakeNode
	keys    map[int][]string
	sizes   map[string]int64
	takes   time.Duration // how long a MIGRATE takes
	failure error
}

func (n *movingNode) Keys(_ context.Context, slots redisnode.Slots, _ int) (map[int][]string, error) {
	keys := maps.Clone(n.keys)
	maps.DeleteFunc(keys, func(slot int, keys []string) bool { return !slots.Has(slot) || len(keys) == 0 })
	return keys, nil
}

func (n *movingNode) Sizes(_ context.Context, keys []string) ([]int64, error) {
	sizes := make([]int64, len(keys))
	for i, key := range keys {
		sizes[i] = n.sizes[key]
	}
	return sizes, nil
}

func (n *movingNode) Migrate(_ context.Context, _ string, _ int, _ redisnode.Login, timeout time.Duration, keys []string) error {
	n.clock.Step(n.takes)
	if n.failure == nil {
		for slot := range n.keys {
			n.keys[slot] = slices.DeleteFunc(slices.Clone(n.keys[slot]), func(key string) bool { return slices.Contains(keys, key) })
		}
		n.heardOf(n.keys)
	}
	return errors.Join(n.record("migrate", strings.Join(keys, ","), timeout), n.failure)
}

// heardOf has the node hear that another one owns the slots that have no more keys: moveSlots waits for that.
func (n *movingNode) heardOf(keys map[int][]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	view := *n.views[n.ip]
	view.Table = slices.Clone(view.Table)
	for i := range view.Table {
		for slot, left := range keys {
			if view.Table[i].Myself && len(left) == 0 {
				view.Table[i].Slots = view.Table[i].Slots.Without(redisnode.NewSlots(slot))
			}
		}
	}
	n.views[n.ip] = &view
}

// moves makes the node at an IP a movingNode, and returns it.
func (s *stage) moves(ip string) *movingNode {
	dial, node := s.controller.sessions.dial, &movingNode{sizes: map[string]int64{}}
	s.controller.sessions.dial = func(at string, port int, login redisnode.Login) Node {
		fake := dial(at, port, login).(fakeNode)
		if at != ip {
			return fake
		}
		node.fakeNode = fake
		return node
	}
	return node
}

// newMove returns a settled stage, whose first node then gives the slot 7, with keys, to the second one.
func newMove(t *testing.T, keys ...string) (*stage, *movingNode) {
	t.Helper()
	s := newStage(t, six())
	source := s.moves(ipOf(0))
	source.keys = map[int][]string{7: keys}
	s.settle()
	for _, m := range with(six(), moving("7", 0, 1, true)).Members[:2] {
		s.views[m.ip()] = m.View
	}
	return s, source
}

// TestASlowMoveEnds has a MIGRATE that takes too long. The sync ends then: the slots do not go to the new master yet, and keep their marks.
func TestASlowMoveEnds(t *testing.T) {
	s := newStage(t, with(sixAnd(master(""), replica(6)), sized(8)))
	source := s.moves(ipOf(0))
	source.keys, source.takes = map[int][]string{0: {"a"}, 1: {"b"}}, maxMoveTime+1
	var err error
	for syncs := 0; syncs < 5 && len(s.commands) == 0; syncs++ { // The first ones make children.
		_, _, err = s.sync()
		s.catchUp()
	}
	want := []string{ipOf(6) + " set 0-63 IMPORTING id-0", ipOf(0) + " set 0-63 MIGRATING id-6", ipOf(0) + " migrate a 5s"}
	if err != nil || !slices.Equal(s.commands, want) {
		t.Errorf("commands %q, error %v, want %q", s.commands, err, want)
	}
}

// TestALargeKeyMoves: a key of 160 MiB is sent alone. Meanwhile all nodes wait longer for the two that send it: 5 s + 3 * 15 s.
func TestALargeKeyMoves(t *testing.T) {
	s, source := newMove(t, "a", "b", "large")
	source.sizes["large"] = 160 << 20
	s.next()
	all := func(value string) []string {
		var set []string
		for ordinal := range 6 {
			set = append(set, fmt.Sprintf("%s config set cluster-node-timeout %s", ipOf(ordinal), value))
		}
		return set
	}
	want := slices.Concat(all("5000"), []string{ipOf(0) + " migrate a,b 5s"}, all("50000"), []string{ipOf(0) + " migrate large 15s"},
		all("5000"), []string{ipOf(1) + " set 7 NODE id-1"})
	got := s.commands[:min(len(want), len(s.commands))]
	for first := 0; first < len(got); first += 7 { // Nodes are told at once.
		slices.Sort(got[first:min(first+6, len(got))])
	}
	if !slices.Equal(got, want) {
		t.Errorf("commands %q, want %q", got, want)
	}
}

// TestASlotThatCannotMove: the attempts become rare, and the status says why the slot does not move, without the name of the key.
func TestASlotThatCannotMove(t *testing.T) {
	s, source := newMove(t, "secret-name")
	source.failure, source.sizes["secret-name"] = errors.New("MIGRATE: OOM"), 3<<20
	var attempts []time.Duration
	for begun := s.clock.Now(); s.clock.Since(begun) < 30*time.Minute; s.clock.Step(minMoveDelay) {
		if _, _, err := s.sync(); err != nil {
			attempts = append(attempts, s.clock.Since(begun))
		}
		s.catchUp()
	}
	var want []time.Duration
	for at, delay := time.Duration(0), minMoveDelay; at < 30*time.Minute; at, delay = at+delay, min(2*delay, maxMoveDelay) {
		want = append(want, at)
	}
	if !slices.Equal(attempts, want) {
		t.Errorf("attempts after %s, want %s", attempts, want)
	}
	message := "Keys of the slot 7 cannot be moved, the largest takes 3.0 MiB of memory: MIGRATE: OOM. The operator tries again"
	if got := s.ready(); got.Reason != reasonNotMoved || !strings.HasPrefix(got.Message, message) {
		t.Errorf("Ready has the reason %s and the message %q, want %s and %q", got.Reason, got.Message, reasonNotMoved, message)
	}
	source.sizes["secret-name"] = maxKeySize + 1
	s.clock.Step(maxMoveDelay)
	writes, _, err := s.sync()
	if err == nil || !strings.Contains(err.Error(), "takes 512.0 MiB") || strings.Contains(strings.Join(writes, "\n"), "migrate") {
		t.Errorf("writes %q, error %v; want an error without a MIGRATE", writes, err)
	}
}

// TestSessionRecordsReachable has a master be lost while the operator looks, and while it does not.
func TestSessionRecordsReachable(t *testing.T) {
	lost := noPod(0)
	type step struct {
		after time.Duration
		is    []alter
	}
	for name, test := range map[string]struct {
		steps     []step
		missed    time.Duration
		witnessed bool
	}{
		"seen alive, and then lost":       {[]step{{0, nil}, {time.Second, []alter{lost}}, {time.Minute, []alter{lost}}}, time.Minute, true},
		"lost before it was looked at":    {[]step{{0, []alter{lost}}, {time.Minute, []alter{lost}}}, time.Minute, false},
		"lost while it was not looked at": {[]step{{0, nil}, {time.Hour, []alter{lost}}, {time.Minute, []alter{lost}}}, time.Minute, false},
		"lost while no member answered": {
			[]step{{0, nil}, {time.Hour, []alter{silenced(1, 0, 1, 2, 3, 4, 5)}}, {time.Second, []alter{lost}}}, 1, false,
		},
		"members were silent for a moment": {
			[]step{{0, nil}, {time.Second, []alter{silenced(1, 0, 1, 2, 3, 4, 5)}}, {time.Second, []alter{lost}}}, 1, true,
		},
		"lost, alive once more, and then not": {[]step{{0, []alter{lost}}, {time.Hour, nil}, {time.Second, []alter{lost}}}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, now := &session{reached: map[string]time.Time{}, since: map[string]time.Time{}}, seenAt
			var last *observed
			for _, step := range test.steps {
				last = with(six(), step.is...)
				now = now.Add(step.after)
				last.Now = now
				s.beginFacts()
				s.recordReachable(last)
				s.endFacts()
			}
			if n := last.nodes["id-0"]; n.UnreachableFor.Duration != test.missed || n.LossSeen != test.witnessed {
				t.Errorf("missed for %s, witnessed: %t; want %s, %t", n.UnreachableFor.Duration, n.LossSeen, test.missed, test.witnessed)
			}
			s.recordReachable(with(cluster(master("0-16383"))))
			if len(s.reached) != 1 {
				t.Errorf("nodes that are gone are remembered: %v", s.reached)
			}
		})
	}
}

// TestSessionRecordsLinks has a replica lose its link, and be restarted.
func TestSessionRecordsLinks(t *testing.T) {
	s, now := &session{linked: map[string]link{}}, seenAt
	for _, step := range []struct {
		what  string
		after time.Duration
		is    alter
		want  time.Duration
	}{
		{"never seen with a link", 0, unlinked(-1, 0, 3), -1},
		{"never seen with a link, by its own account", 0, unlinked(time.Hour, 17, 3), time.Hour},
		{"linked", time.Minute, func(*observed) {}, 0},
		{"it knows itself", 10 * time.Second, unlinked(4*time.Second, 900, 3), 4 * time.Second},
		{"restarted", 10 * time.Second, unlinked(-1, 0, 3), 20 * time.Second},
		{"silent", 10 * time.Second, silenced(time.Second, 3), 0},
		{"restarted once more", 10 * time.Second, unlinked(-1, 0, 3), 40 * time.Second},
		{"of another master", 10 * time.Second, func(o *observed) {
			unlinked(-1, 0, 3)(o)
			orphaned(3)(o)
		}, -1},
	} {
		o := with(six(), step.is)
		now = now.Add(step.after)
		o.Now = now
		s.recordLinks(o)
		if got := o.Members[3].UnlinkedFor.Duration; got != step.want {
			t.Errorf("%s: without a link for %s, want %s", step.what, got, step.want)
		}
	}
	s.recordLinks(with(cluster(master("0-16383"))))
	if _, ok := s.linked["id-3"]; ok {
		t.Error("a node that is gone is remembered")
	}
}

func TestPlan(t *testing.T) {
	const password = "hunter2-of-the-redis-cluster"
	silent := func(s *stage) { s.views[ipOf(3)] = nil }
	edited := func(f func(*v1.RedisCluster)) func(*stage) { return func(s *stage) { s.edit(f) } }
	const unasked = "the redis-servers were not asked"
	for sentence, test := range map[string]struct {
		change     func(*stage)
		offline    bool
		want       []string // the lines of the plan without fields; nil for no plan
		incomplete string   // the beginning
	}{
		"settled: nothing to do": {change: func(*stage) {}, want: []string{"nothing to do"}},
		"another revision: a roll begins": {change: edited(func(rdc *v1.RedisCluster) { rdc.Spec.Image = "redis:8" }),
			want: []string{"create ConfigMap", "rollPods: ", "update RedisCluster demo", "evict Pod demo-"}},
		"another revision, offline: the Pods": {change: edited(func(rdc *v1.RedisCluster) { rdc.Spec.Image = "redis:8" }), offline: true,
			want: []string{"Pods with another revision, which are replaced one by one: 6 of 6"}, incomplete: unasked},
		"a directive that can perhaps be set: it is tried": {change: func(s *stage) {
			s.settable = map[string]string{"maxmemory": "0"}
			s.edit(func(rdc *v1.RedisCluster) { rdc.Spec.Config = configOf("maxmemory 97mb") })
		}, want: []string{
			"create ConfigMap", "Setting directives in 6 nodes: maxmemory", "patch Pod demo-0", "Redis: set directives of demo-0 maxmemory",
		}},
		"an address that the others do not reach: it is given up before the node leaves it": {change: func(s *stage) {
			s.edit(external(v1.ExternalNodePort))
			s.addServices()
			o := with(six(), announcing(all...))
			for i := range all {
				s.views[ipOf(i)] = o.Members[i].View
			}
			s.setPod("demo-3", func(p *corev1.Pod) { p.Annotations[manifest.AnnotationUnreachable] = nodePortsOf(3).String() })
		}, want: []string{"correctAddresses: ", "Redis: announce address of demo-3 10.1.0.3:6379@16379"}},
		"no access from outside any more: Services are deleted": {change: func(s *stage) { s.addServices() },
			want: []string{"delete Service demo-0", "delete Service demo-5"}},
		"a ready Pod that does not answer: it is incomplete": {change: silent, incomplete: "demo-3 does not answer: connection refused"},
		"an invalid spec: the status says so": {change: edited(func(rdc *v1.RedisCluster) { rdc.Spec.Addr = "" }),
			want: []string{"update RedisCluster demo"}},
		"a password: it is not shown": {change: func(s *stage) {
			s.add(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "auth", Namespace: "default"}, Data: map[string][]byte{"password": []byte(password)},
			})
			s.password = password
			s.edit(authenticated)
		}, want: []string{"rollPods: ", "evict Pod demo-"}},
		"a backup is due: its Job": {change: edited(func(rdc *v1.RedisCluster) {
			backedUpHourly(rdc)
			rdc.Status.Backup = &v1.BackupStatus{Schedule: rdc.Spec.Backup.Schedule, LastScheduleTime: ptr.To(at(12, 30))}
		}), want: []string{"update RedisCluster demo", "create Job demo-backup-20260109t130000z"}},
		"paused: no plan": {change: edited(paused)},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newStage(t, six()).settle()
			test.change(s)
			s.connect()
			s.kube.ClearActions()
			s.client.ClearActions()
			s.commands = nil
			plan, err := s.controller.Plan(t.Context(), demoKey, test.offline)
			if err != nil || (plan == nil) != (test.want == nil && test.incomplete == "") {
				t.Fatalf("plan %v, error %v", plan, err)
			}
			for _, action := range slices.Concat(s.kube.Actions(), s.client.Actions()) {
				if action.GetVerb() != "get" {
					t.Errorf("it made the request %s %s", action.GetVerb(), action.GetResource().Resource)
				}
			}
			if len(s.commands) > 0 {
				t.Errorf("the nodes got %q", s.commands)
			}
			if plan == nil {
				return
			}
			lines := plan.Lines(1000)
			for _, want := range test.want {
				if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) }) {
					t.Errorf("the plan has no line %q", want)
				}
			}
			settled := test.want == nil || test.want[0] == "nothing to do"
			if plan.Settled() != settled || !strings.HasPrefix(plan.Incomplete, test.incomplete) ||
				(plan.Incomplete == "") != (test.incomplete == "") {
				t.Errorf("settled %t, incomplete %q", plan.Settled(), plan.Incomplete)
			}
			if leaks := (must.Secrets{"the password": password}).In(strings.Join(lines, "\n")); len(leaks) > 0 {
				t.Error(leaks)
			}
			if t.Failed() {
				t.Log(strings.Join(lines, "\n"))
			}
		})
	}
}

func TestAllFieldsAreRecorded(t *testing.T) {
	recordtest.Covers(t, observed{}, observed{}, "byID", "nodes", "slots", "configs", "rules", // merge sets byID, nodes and slots
		"users", "userProblems", "refusals", "accountHash", "retired") // MissingUser follows from them; hashes of passwords are secret.
	// markOutdated has used the others: Outdated, Pending and PendingUsers follow from them. Values of directives may be secret.
	recordtest.Covers(t, member{}, member{}, "entries", "config", "set", "wanted", "directives", "noConfig", "users",
		"service") // matchServices sets service.
	recordtest.Covers(t, plan{}, plan{})
}

func TestObservedIsPlain(t *testing.T) {
	recordtest.Plain(t, []any{corev1.Secret{}, session{}}, observed{})
}

func TestPoliciesHaveTheNamesOfTheirFunctions(t *testing.T) {
	recordtest.Named(t, policies)
}

// TestTheCorpusHasEveryPolicy keeps make decisions complete: it shows what a change of a policy changes.
func TestTheCorpusHasEveryPolicy(t *testing.T) {
	recordtest.InCorpus(t, "../../replay/testdata", Decisions, policies)
}

// TestScenesAreReplayed decides again on random states of a cluster, of which many never occur. GLASSBACK_SEEDS=n decides on so many.
func TestScenesAreReplayed(t *testing.T) {
	for seed := range fakeapi.Seeds(t, 1000, 100) {
		o := sceneOf(rand.New(rand.NewSource(int64(seed)))).observed
		if recordtest.Check(t, Decisions, o, decide(o)); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestAnImmutableConfigMapKeepsItsData: an earlier operator made the ConfigMap in another way, and then it lost the label of the caches.
func TestAnImmutableConfigMapKeepsItsData(t *testing.T) {
	s := newStage(t, six()).settle()
	maps, name := s.kube.CoreV1().ConfigMaps("default"), manifest.ConfigurationName(s.rdc())
	changed, err := maps.Get(t.Context(), name, metav1.GetOptions{})
	must.Succeed(t, err)
	changed.Labels, changed.Data = nil, map[string]string{"start.sh": "as it was made"}
	_, err = maps.Update(t.Context(), changed, metav1.UpdateOptions{})
	must.Succeed(t, err)
	must.Succeed(t, s.controller.configMapCache.Delete(changed))
	first := true
	s.kube.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		create := first
		first = false
		return create, nil, apierrors.NewConflict(corev1.Resource("configmaps"), name, errors.New("it exists"))
	})
	s.synced()
	now, err := maps.Get(t.Context(), name, metav1.GetOptions{})
	must.Succeed(t, err)
	if now.Labels[v1.LabelRedisCluster] != "demo" || len(now.Data) != 1 || now.Data["start.sh"] != "as it was made" {
		t.Errorf("the ConfigMap has the labels %v and the data %v, want its label and the same data", now.Labels, now.Data)
	}
}
