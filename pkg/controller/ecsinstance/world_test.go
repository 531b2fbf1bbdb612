/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

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
	"github.com/glassback/glassback/pkg/pipeline"
	"github.com/glassback/glassback/pkg/recording/recordtest"
)

func TestMain(m *testing.M) {
	// client-go's own error handler sleeps by the difference of two clocks, which mixes up
	// synctest's bubbles.
	utilruntime.ErrorHandlers = nil
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // Worlds are small, and make much garbage: a third of their time went into its collection.
	}
	os.Exit(m.Run())
}

var verbose = flag.Bool("ecs.log", false, "show what the operator logs")

// world is the operator's environment: a fake API server and a simulated ECS. It runs in a bubble of testing/synctest, in which hours
// take no time.
type world struct {
	t      *testing.T
	random *rand.Rand // of the test's own goroutine
	dice   *dice      // of all others
	cloud  *ecssim.Server
	api    *fakeapi.Server
	lives  []*operator

	logAll bool // whether the log has every line, as text; otherwise lines has the last ones
	mu     sync.Mutex
	log    bytes.Buffer // of all lives
	lines  []line       // of all lives
	syncs  int          // of all lives, that returned no error
	events []string
	calls  map[string]int // writes and calls that were let through
}

const (
	testID, testSecret   = "LTAI5tTestKeyOfTheOperator", "s3cr3tOfTheOperatorNobodySees"
	otherID, otherSecret = "LTAI5tTestKeyOfSomebodyElse", "s3cr3tOfSomebodyElseNobodySees"
	testAccount          = "1000000000000001"
	otherAccount         = "1000000000000002"
)

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), dice: &dice{seed: seed, rolls: map[string]uint64{}}, calls: map[string]int{},
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

// requireVersion fails the test if a write can hit a version that the operator has not read.
func (w *world) requireVersion(r fakeapi.Request) error {
	if r.Unguarded() {
		w.t.Errorf("%s names no version", r)
	}
	return nil
}

// Write is for the logger of all lives.
func (w *world) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if *verbose {
		os.Stderr.Write(line)
	}
	return w.log.Write(line)
}

// operator is one run of the operator, from its start to its end, or its death.
type operator struct {
	world *world
	name  string // such as "life 3"
	stop  context.CancelFunc
	ended chan struct{}

	mu     sync.Mutex
	dead   bool
	budget int // of writes and calls, until it dies; negative for any number
}

// errDead is what a life gets to hear once it has ended: nothing that it does has any effect.
var errDead = fmt.Errorf("dead: %w", context.Canceled)

// mortal does something for a life, unless it is dead: what it is, such as "find", and about
// which object or instance. What a life dies of has an effect, of which it does not get to hear.
func mortal[T any](ctx context.Context, l *operator, what, about string, do func() (T, error)) (T, error) {
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

// latency is how long a call takes to get there. No two take the same time, down to the
// nanosecond, so that calls get there one after the other, and in the same order in every run.
func (w *world) latency(call string) time.Duration {
	return 10*time.Millisecond + time.Duration(w.dice.roll(call).Int64N(int64(90*time.Millisecond)))
}

// die has the life end after some more writes and calls.
func (l *operator) die(after int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if after == 0 {
		l.dead = true
	}
	l.budget = after
}

// start begins another life.
func (w *world) start() *operator {
	l := &operator{world: w, name: fmt.Sprintf("life %d", len(w.lives)), budget: -1, ended: make(chan struct{})}
	cloud, err := aliyun.New(aliyun.Config{Endpoint: "http://ecs.example.com", Transport: w.cloud.Transport()})
	if err != nil {
		w.t.Fatal(err)
	}
	informer := pipeline.New(pipeline.Config{
		Resource: "ecsinstances", Object: &v1alpha1.ECSInstance{},
		ListerWatcher: slowList{fakeapi.Source{
			Server: w.api, Name: l.name + " instances", Example: &v1alpha1.ECSInstance{}, ListFirst: true,
		}},
		Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	controller, err := New(Config{
		Client:       client{Interface: w.api.Glassback(), life: l},
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
			return mortalCloud{l, name, cloud.Open(key, region)}
		},
		Recorder: recorder{w},
		Clock:    clock.RealClock{},
	})
	if err != nil {
		w.t.Fatal(err)
	}
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
		controller.Run(ctx, ctx, 3)
	})
	go func() {
		running.Wait()
		close(l.ended)
	}()
	w.lives = append(w.lives, l)
	return l
}

// end ends a life, and returns when it has.
func (l *operator) end() {
	l.stop()
	<-l.ended
}

// finish ends all lives.
func (w *world) finish() {
	for _, l := range w.lives {
		l.end()
	}
}

// source is a typed informer.
type source struct{ cache.SharedIndexInformer }

func (s source) Informer() cache.SharedIndexInformer { return s.SharedIndexInformer }
func (s source) Lister() listers.ECSInstanceLister {
	return listers.NewECSInstanceLister(s.GetIndexer())
}

// recorder keeps events.
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

// mortalCloud is the Cloud of one life.
type mortalCloud struct {
	life *operator
	name string // of the region and the access key
	Cloud
}

// mortalCall is mortal, for a call about an instance or, if it names none, the object that is synced.
func mortalCall[T any](ctx context.Context, m mortalCloud, what, id string, do func() (T, error)) (T, error) {
	return mortal(ctx, m.life, what, m.name+" "+objectOf(ctx)+" "+id, do)
}

func (m mortalCloud) Account(ctx context.Context) (string, error) {
	return mortalCall(ctx, m, "account", "", func() (string, error) { return m.Cloud.Account(ctx) })
}

func (m mortalCloud) Create(ctx context.Context, request aliyun.CreateRequest) (string, error) {
	return mortalCall(ctx, m, "create", request.ClientToken, func() (string, error) { return m.Cloud.Create(ctx, request) })
}

func (m mortalCloud) Describe(ctx context.Context, ids []string) ([]aliyun.Instance, error) {
	return mortalCall(ctx, m, "describe", "", func() ([]aliyun.Instance, error) { return m.Cloud.Describe(ctx, ids) })
}

func (m mortalCloud) Find(ctx context.Context, tags map[string]string) ([]aliyun.Instance, error) {
	return mortalCall(ctx, m, "find", "", func() ([]aliyun.Instance, error) { return m.Cloud.Find(ctx, tags) })
}

func (m mortalCloud) do(ctx context.Context, what, id string, do func() error) error {
	_, err := mortalCall(ctx, m, what, id, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

func (m mortalCloud) Start(ctx context.Context, id string) error {
	return m.do(ctx, "start", id, func() error { return m.Cloud.Start(ctx, id) })
}

func (m mortalCloud) Stop(ctx context.Context, id string) error {
	return m.do(ctx, "stop", id, func() error { return m.Cloud.Stop(ctx, id) })
}

func (m mortalCloud) Delete(ctx context.Context, id string, force bool) error {
	return m.do(ctx, "delete", id, func() error { return m.Cloud.Delete(ctx, id, force) })
}

func (m mortalCloud) SetType(ctx context.Context, id, instanceType string) error {
	return m.do(ctx, "set type", id, func() error { return m.Cloud.SetType(ctx, id, instanceType) })
}

func (m mortalCloud) Modify(ctx context.Context, id string, change aliyun.Change) error {
	return m.do(ctx, "modify", id, func() error { return m.Cloud.Modify(ctx, id, change) })
}

func (m mortalCloud) Tag(ctx context.Context, id string, tags map[string]string) error {
	return m.do(ctx, "tag", id, func() error { return m.Cloud.Tag(ctx, id, tags) })
}

func (m mortalCloud) Untag(ctx context.Context, id string, keys []string) error {
	return m.do(ctx, "untag", id, func() error { return m.Cloud.Untag(ctx, id, keys) })
}

// within waits until done, at most for some time.
func (w *world) within(limit time.Duration, what string, done func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(limit); !done(); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited %s for %s\n%s", limit, what, w.describe())
		}
	}
}

// ready waits until an object is Ready, for its generation.
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

// waitForReason waits until Ready is False for a reason, and returns Ready.
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

// gone waits until an object is.
func (w *world) gone(name string) {
	w.t.Helper()
	w.within(15*time.Minute, name+" to be gone", func() bool { return w.get(name) == nil })
}

// alive are the instances that there are, with some tag if one is named.
func (w *world) alive(uid string) []ecssim.Instance {
	return slices.DeleteFunc(w.cloud.Instances(), func(i ecssim.Instance) bool {
		return !i.Released.IsZero() || (uid != "" && i.Tags[v1alpha1.TagUID] != uid)
	})
}

// count returns how often the operator called, or wrote.
func (w *world) count(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[what]
}

// describe returns all that helps to find out why a test failed.
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
