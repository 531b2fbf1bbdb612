// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/fakeapi"
	listers "github.com/glassback/glassback/pkg/generated/listers/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/pipeline"
	"github.com/glassback/glassback/pkg/recording/recordtest"
)

func TestMain(m *testing.M) {
	// client-go's error handler compares two clocks and sleeps. One of the clocks is outside of the synctest bubble, so that the handler
	// would sleep for years.
	utilruntime.ErrorHandlers = nil
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // A world has a small heap and allocates much: the default spends a third of the time in the garbage collector.
	}
	os.Exit(m.Run())
}

var verbose = flag.Bool("ecs.log", false, "show what the operator logs")

// world is the operator's environment: a fake API server and a simulated ECS. It runs in a bubble of testing/synctest, where an hour
// passes at once.
type world struct {
	t         *testing.T
	random    *rand.Rand // random numbers for the test's own goroutine
	dice      *dice      // random numbers for all other goroutines
	cloud     *ecssim.Server
	api       *fakeapi.Server
	operators []*operator
	workers   int // of each operator

	logAll bool // whether log gets every line, as text; otherwise lines keeps the last ones
	mu     sync.Mutex
	log    bytes.Buffer // of all operators
	lines  []line       // of all operators
	syncs  int          // number of syncs without an error, of all operators
	events []string
	calls  map[string]int // number of writes to the API server and calls to ECS, by name
}

const (
	testID, testSecret   = "LTAI5tTestKeyOfTheOperator", "s3cr3tOfTheOperatorNeverLogged"
	otherID, otherSecret = "LTAI5tTestKeyOfOtherAccount", "s3cr3tOfOtherAccountNeverLogged"
	testAccount          = "1000000000000001"
	otherAccount         = "1000000000000002"
)

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), dice: &dice{seed: seed, rolls: map[string]uint64{}}, calls: map[string]int{}, workers: 3,
		cloud: ecssim.New(ecssim.Config{Seed: seed, Accounts: []ecssim.Account{
			{ID: testAccount, AccessKeyID: testID, AccessKeySecret: testSecret},
			{ID: otherAccount, AccessKeyID: otherID, AccessKeySecret: otherSecret},
		}}),
		api: fakeapi.New(),
	}
	w.api.Before = w.requireVersion
	w.secret("aliyun", testID, testSecret)
	return w
}

// requireVersion fails the test if a write has no resourceVersion: it could overwrite a version that the operator has not read.
func (w *world) requireVersion(r fakeapi.Request) error {
	if r.Unguarded() {
		w.t.Errorf("%s has no resourceVersion", r)
	}
	return nil
}

// Write receives the log of all operators.
func (w *world) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if *verbose {
		os.Stderr.Write(line)
	}
	return w.log.Write(line)
}

// operator is one process of the operator, from its start until it stops or dies. A dead operator still runs, but its calls have no effect.
type operator struct {
	world *world
	name  string // such as "life 3"; the random numbers of its calls depend on it
	stop  context.CancelFunc
	ended chan struct{}

	mu     sync.Mutex
	dead   bool
	budget int // number of writes and calls until it dies; negative: it does not die
}

// errDead is the error of every write and call of a dead operator.
var errDead = fmt.Errorf("dead: %w", context.Canceled)

// callIfAlive makes a call for an operator, unless the operator is dead. The call has a name, such as "find", and is about an object or
// an instance. The call with which the operator dies takes effect, but the operator does not get its answer.
func callIfAlive[T any](ctx context.Context, l *operator, what, about string, do func() (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	l.mu.Lock()
	dead := l.dead
	l.mu.Unlock()
	if dead {
		return none, errDead
	}
	time.Sleep(l.world.latency(l.name + " " + what + " " + about))
	result, err := do()
	l.world.mu.Lock()
	l.world.calls[what]++
	l.world.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.budget > 0 {
		l.budget--
	}
	if l.dead = l.dead || l.budget == 0; l.dead {
		return none, errDead
	}
	return result, err
}

// latency returns how long a call takes to arrive. Two calls never take the same number of nanoseconds. So the calls arrive one after
// the other, and in the same order in every run of the test.
func (w *world) latency(call string) time.Duration {
	return 10*time.Millisecond + time.Duration(w.dice.roll(call).Int64N(int64(90*time.Millisecond)))
}

// die makes the operator die after a number of further writes and calls; 0 is at once.
func (l *operator) die(after int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if after == 0 {
		l.dead = true
	}
	l.budget = after
}

// start starts another operator.
func (w *world) start() *operator {
	l := &operator{world: w, name: fmt.Sprintf("life %d", len(w.operators)), budget: -1, ended: make(chan struct{})}
	cloud, err := aliyun.New(aliyun.Config{Endpoint: "http://ecs.example.com", Transport: w.cloud.Transport()})
	must.Succeed(w.t, err)
	informer := pipeline.New(pipeline.Config{
		Resource: "ecsinstances", Object: &v1alpha1.ECSInstance{},
		ListerWatcher: slowList{fakeapi.Source{
			Server: w.api, Name: l.name + " instances", Example: &v1alpha1.ECSInstance{}, ListFirst: true,
		}},
		Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	controller, err := New(Config{
		Client:       client{Interface: w.api.Glassback(), operator: l},
		ECSInstances: source{informer},
		Secret: func(_, name string) cache.SharedIndexInformer {
			return pipeline.New(pipeline.Config{
				Resource: "secrets", Object: &corev1.Secret{},
				ListerWatcher: slowList{fakeapi.Source{
					Server: w.api, Name: l.name + " Secret " + name, Example: &corev1.Secret{}, ListFirst: true,
					Match: func(obj fakeapi.Object) bool { return obj.GetName() == name },
				}},
			})
		},
		Open: func(key *aliyun.AccessKey, region string) Cloud {
			name := region
			if key != nil {
				name += " " + key.ID + " " + key.Secret
			}
			return operatorCloud{l, name, cloud.Open(key, region)}
		},
		Recorder: recorder{w},
		Clock:    clock.RealClock{},
	})
	must.Succeed(w.t, err)
	sink := &logs{world: w}
	if w.logAll || *verbose {
		sink.text = textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(10), textlogger.Output(w))).WithCallDepth(1).GetSink()
	}
	ctx := klog.NewContext(recordtest.Context(context.Background(), w.t, Decisions), logr.New(sink))
	ctx, l.stop = context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	running.Go(func() {
		cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
		controller.Run(ctx, ctx, w.workers)
	})
	go func() {
		running.Wait()
		close(l.ended)
	}()
	w.operators = append(w.operators, l)
	return l
}

// end stops an operator, and returns after it has stopped.
func (l *operator) end() {
	l.stop()
	<-l.ended
}

// finish stops all operators.
func (w *world) finish() {
	for _, l := range w.operators {
		l.end()
	}
}

// source adds the typed lister to an informer.
type source struct{ cache.SharedIndexInformer }

func (s source) Informer() cache.SharedIndexInformer { return s.SharedIndexInformer }
func (s source) Lister() listers.ECSInstanceLister {
	return listers.NewECSInstanceLister(s.GetIndexer())
}

// recorder keeps the events in the world.
type recorder struct{ w *world }

func (r recorder) Event(_ runtime.Object, kind, reason, message string) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.events = append(r.w.events, kind+" "+reason+" "+message)
}

func (r recorder) Eventf(obj runtime.Object, kind, reason, format string, args ...any) {
	r.Event(obj, kind, reason, fmt.Sprintf(format, args...))
}

func (r recorder) AnnotatedEventf(obj runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	r.Event(obj, kind, reason, fmt.Sprintf(format, args...))
}

func (r recorder) WithLogger(klog.Logger) record.EventRecorderLogger { return r }

// operatorCloud is the Cloud of one operator.
type operatorCloud struct {
	operator *operator
	name     string // of the region and the access key
	Cloud
}

// cloudCall is callIfAlive for a call to ECS. The call is about the object that is synced, and about an instance if id is not empty.
func cloudCall[T any](ctx context.Context, m operatorCloud, what, id string, do func() (T, error)) (T, error) {
	return callIfAlive(ctx, m.operator, what, m.name+" "+objectOf(ctx)+" "+id, do)
}

func (m operatorCloud) Account(ctx context.Context) (string, error) {
	return cloudCall(ctx, m, "account", "", func() (string, error) { return m.Cloud.Account(ctx) })
}

func (m operatorCloud) Create(ctx context.Context, request aliyun.CreateRequest) (string, error) {
	return cloudCall(ctx, m, "create", request.ClientToken, func() (string, error) { return m.Cloud.Create(ctx, request) })
}

func (m operatorCloud) Describe(ctx context.Context, ids []string) ([]aliyun.Instance, error) {
	return cloudCall(ctx, m, "describe", "", func() ([]aliyun.Instance, error) { return m.Cloud.Describe(ctx, ids) })
}

func (m operatorCloud) Find(ctx context.Context, tags map[string]string) ([]aliyun.Instance, error) {
	return cloudCall(ctx, m, "find", "", func() ([]aliyun.Instance, error) { return m.Cloud.Find(ctx, tags) })
}

func (m operatorCloud) do(ctx context.Context, what, id string, do func() error) error {
	_, err := cloudCall(ctx, m, what, id, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

func (m operatorCloud) Start(ctx context.Context, id string) error {
	return m.do(ctx, "start", id, func() error { return m.Cloud.Start(ctx, id) })
}

func (m operatorCloud) Stop(ctx context.Context, id string) error {
	return m.do(ctx, "stop", id, func() error { return m.Cloud.Stop(ctx, id) })
}

func (m operatorCloud) Delete(ctx context.Context, id string, force bool) error {
	return m.do(ctx, "delete", id, func() error { return m.Cloud.Delete(ctx, id, force) })
}

func (m operatorCloud) SetType(ctx context.Context, id, instanceType string) error {
	return m.do(ctx, "set type", id, func() error { return m.Cloud.SetType(ctx, id, instanceType) })
}

func (m operatorCloud) Modify(ctx context.Context, id string, change aliyun.Change) error {
	return m.do(ctx, "modify", id, func() error { return m.Cloud.Modify(ctx, id, change) })
}

func (m operatorCloud) Tag(ctx context.Context, id string, tags map[string]string) error {
	return m.do(ctx, "tag", id, func() error { return m.Cloud.Tag(ctx, id, tags) })
}

func (m operatorCloud) Untag(ctx context.Context, id string, keys []string) error {
	return m.do(ctx, "untag", id, func() error { return m.Cloud.Untag(ctx, id, keys) })
}

// within waits until done returns true. It fails the test after the limit.
func (w *world) within(limit time.Duration, what string, done func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(limit); !done(); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited %s for %s\n%s", limit, what, w.describe())
		}
	}
}

// ready waits until an object is Ready with its present generation, and returns the object.
func (w *world) ready(name string) *v1alpha1.ECSInstance {
	w.t.Helper()
	w.within(5*time.Minute, name+" to be Ready", func() bool { return w.isReady(name) })
	return w.get(name)
}

func (w *world) isReady(name string) bool {
	ecs := w.get(name)
	if ecs == nil {
		return false
	}
	is := meta.FindStatusCondition(ecs.Status.Conditions, glassback.ConditionReady)
	return is != nil && is.Status == metav1.ConditionTrue && is.ObservedGeneration == ecs.Generation
}

// waitForReason waits until the condition Ready is False with the reason, and returns the condition.
func (w *world) waitForReason(name, reason string) metav1.Condition {
	w.t.Helper()
	var is *metav1.Condition
	w.within(15*time.Minute, name+" to have the reason "+reason, func() bool {
		ecs := w.get(name)
		if ecs == nil {
			return false
		}
		is = meta.FindStatusCondition(ecs.Status.Conditions, glassback.ConditionReady)
		return is != nil && is.Status == metav1.ConditionFalse && is.Reason == reason
	})
	return *is
}

// gone waits until an object no longer exists.
func (w *world) gone(name string) {
	w.t.Helper()
	w.within(15*time.Minute, name+" to be gone", func() bool { return w.get(name) == nil })
}

// alive returns the instances that are not released. If uid is not empty, it returns only those of the object with the UID.
func (w *world) alive(uid string) []ecssim.Instance {
	return slices.DeleteFunc(w.cloud.Instances(), func(i ecssim.Instance) bool {
		return !i.Released.IsZero() || (uid != "" && i.Tags[v1alpha1.TagUID] != uid)
	})
}

// count returns the number of calls or writes with a name, such as "create" or "patch".
func (w *world) count(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[what]
}

// describe returns the objects, the instances, the last calls and the last lines of the log, for the message of a failed test.
func (w *world) describe() string {
	var b strings.Builder
	for _, ecs := range w.all() {
		fmt.Fprintf(&b, "object %s uid %s generation %d deleted %v finalizers %v\n  spec %+v\n  status %+v\n",
			ecs.Name, ecs.UID, ecs.Generation, ecs.DeletionTimestamp, ecs.Finalizers, ecs.Spec, ecs.Status)
		if ecs.Status.Create != nil {
			fmt.Fprintf(&b, "  create %+v\n", *ecs.Status.Create)
		}
	}
	for _, i := range w.cloud.Instances() {
		fmt.Fprintf(&b, "instance %s %s token %s tags %v created %s released %s\n", i.ID, i.State, i.Token, i.Tags, i.Created, i.Released)
	}
	calls := w.cloud.Calls()
	for _, c := range calls[max(0, len(calls)-40):] {
		fmt.Fprintf(&b, "call %s %s %s %s -> %q\n", c.At.Format(time.TimeOnly), c.Action, c.InstanceID, c.State, c.Code)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := strings.Split(w.log.String(), "\n")
	b.WriteString(strings.Join(lines[max(0, len(lines)-maxLines):], "\n"))
	for _, l := range w.lines[max(0, len(w.lines)-maxLines):] {
		b.WriteString(l.String() + "\n")
	}
	return b.String()
}
