// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	typed "github.com/glassback/glassback/pkg/generated/clientset/versioned/typed/alibabacloud/v1alpha1"
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
	workers   int    // of each operator
	token     string // the security token of the access key testID

	logAll bool // whether log gets every line, as text; otherwise lines keeps the last ones
	mu     sync.Mutex
	log    bytes.Buffer    // of all operators
	lines  []func() string // of all operators
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
	cloud, err := aliyun.New(aliyun.Config{Endpoint: "http://ecs.example.com", Transport: l})
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
		Secrets:      w.api.Kube().CoreV1(),
		Version:      w.api.ReadVersion,
		Refuse:       (&OwnCredentials{}).Refusal,
		Open:         func(key *aliyun.AccessKey, region string) Cloud { return cloud.Open(key, region) },
		Recorder:     recorder{w},
		Clock:        clock.RealClock{},
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

// RoundTrip carries a call of the operator to ECS.
func (l *operator) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	what := query.Get("Action")
	if what == "DescribeInstances" && query.Get("Tag.1.Key") != "" {
		what = "Find"
	}
	about := objectOf(r.Context())
	for _, name := range []string{"RegionId", "AccessKeyId", "ClientToken", "InstanceId", "ResourceId.1", "DryRun"} {
		about += " " + query.Get(name)
	}
	return callIfAlive(r.Context(), l, what, about, func() (*http.Response, error) {
		return l.world.cloud.Transport().RoundTrip(r)
	})
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
		b.WriteString(l())
	}
	return b.String()
}

// inWorld runs a test in a world with a running operator.
func inWorld(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.finish()
		w.start()
		test(w)
	})
}

// userData is a Secret with a script.
func userData(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string][]byte{"userData": []byte(script)}}
}

const script = "#!/bin/sh\necho hunter2IsThePassword\n"

func key(name string) cache.ObjectName { return cache.NewObjectName("default", name) }

// slowList is a Source whose LIST takes a millisecond. WaitForCacheSync looks at once and then every 100 ms: its first look never finds
// the list. So every run of a test takes the same time.
type slowList struct{ fakeapi.Source }

func (l slowList) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Millisecond):
		return l.Source.ListWithContext(ctx, options)
	}
}

// secret creates a Secret of credentials, or changes it.
func (w *world) secret(name, id, secret string) {
	data := map[string][]byte{v1alpha1.KeyAccessKeyID: []byte(id), v1alpha1.KeyAccessKeySecret: []byte(secret)}
	if id == testID && w.token != "" {
		data[v1alpha1.KeySecurityToken] = []byte(w.token)
	}
	if fakeapi.Get[*corev1.Secret](w.api, key(name)) == nil {
		w.api.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: data})
		return
	}
	w.editSecret(name, func(s *corev1.Secret) { s.Data = data })
}

func (w *world) editSecret(name string, change func(*corev1.Secret)) {
	fakeapi.Edit(w.api, key(name), "user", change)
}

func (w *world) deleteSecret(name string) { w.api.Delete("secrets", key(name)) }

// apply creates an ECSInstance like the sample, with changes.
func (w *world) apply(name string, change ...func(*v1alpha1.ECSInstance)) {
	ecs := &v1alpha1.ECSInstance{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(fmt.Sprintf("0a1b2c3d-0000-4000-8000-%012d", w.api.Version())),
		},
		Spec: v1alpha1.ECSInstanceSpec{
			RegionID: "cn-beijing", InstanceType: "ecs.g6.large", ImageID: "centos_7_8_x64_20G_alibase_20200519.vhd", InstanceName: "ins-0702",
			CredentialsSecretRef: &v1alpha1.SecretReference{Name: "aliyun"},
		},
	}
	for _, c := range change {
		c(ecs)
	}
	ecs.Default()
	w.api.Put(ecs)
}

// get returns an ECSInstance, or nil if it does not exist.
func (w *world) get(name string) *v1alpha1.ECSInstance {
	return fakeapi.Get[*v1alpha1.ECSInstance](w.api, key(name)).DeepCopy()
}

// all returns all ECSInstances.
func (w *world) all() []*v1alpha1.ECSInstance { return fakeapi.List[*v1alpha1.ECSInstance](w.api) }

// edit changes an ECSInstance as a user does. Each edit increases the generation. If the object does not exist, edit does nothing.
func (w *world) edit(name string, change func(*v1alpha1.ECSInstance)) {
	if w.get(name) == nil {
		return
	}
	fakeapi.Edit(w.api, key(name), "user", func(ecs *v1alpha1.ECSInstance) {
		ecs.Generation++
		change(ecs)
	})
}

// delete deletes an ECSInstance as a user does.
func (w *world) delete(name string) { w.api.Delete("ecsinstances", key(name)) }

// client is the clientset of one operator. It has the two kinds of writes that the controller makes.
type client struct {
	versioned.Interface
	typed.AlibabacloudV1alpha1Interface
	typed.ECSInstanceInterface

	operator *operator
}

func (c client) AlibabacloudV1alpha1() typed.AlibabacloudV1alpha1Interface { return c }

func (c client) ECSInstances(namespace string) typed.ECSInstanceInterface {
	c.ECSInstanceInterface = c.Interface.AlibabacloudV1alpha1().ECSInstances(namespace)
	return c
}

func (c client) UpdateStatus(
	ctx context.Context, ecs *v1alpha1.ECSInstance, options metav1.UpdateOptions,
) (*v1alpha1.ECSInstance, error) {
	return callIfAlive(ctx, c.operator, "update status", ecs.Name, func() (*v1alpha1.ECSInstance, error) {
		return c.ECSInstanceInterface.UpdateStatus(ctx, ecs, options)
	})
}

func (c client) Patch(
	ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string,
) (*v1alpha1.ECSInstance, error) {
	return callIfAlive(ctx, c.operator, "patch", name, func() (*v1alpha1.ECSInstance, error) {
		return c.ECSInstanceInterface.Patch(ctx, name, kind, data, options, subresources...)
	})
}

// dice is the source of random numbers for all goroutines of a world but the test's own. The n-th roll for a purpose depends only on the
// seed, the purpose and n. It is the same in every run, in whatever order goroutines roll for other purposes.
type dice struct {
	seed uint64

	mu    sync.Mutex
	rolls map[string]uint64
}

// roll returns a source of random numbers for one decision.
func (d *dice) roll(purpose string) *rand.Rand {
	d.mu.Lock()
	d.rolls[purpose]++
	n := d.rolls[purpose]
	d.mu.Unlock()
	sum := fnv.New64a()
	sum.Write([]byte(purpose))
	return rand.New(rand.NewPCG(d.seed, sum.Sum64()+n))
}

// maxLines is how many lines a ring of logs keeps.
const maxLines = 60

// logs is the LogSink of one operator. It keeps the object that is synced, and passes every line to text. If text is nil, it keeps the
// last lines in the world and formats them only when a test fails.
type logs struct {
	world  *world
	text   logr.LogSink
	object string
}

func (l *logs) Init(logr.RuntimeInfo) {}

func (l *logs) Enabled(level int) bool { return l.text != nil || level <= 4 }

func (l *logs) Info(level int, msg string, values ...any) {
	if l.text != nil {
		l.text.Info(level, msg, values...)
		return
	}
	l.keep(nil, msg, values)
}

func (l *logs) Error(err error, msg string, values ...any) {
	if l.text != nil {
		l.text.Error(err, msg, values...)
		return
	}
	l.keep(err, msg, values)
}

func (l *logs) keep(err error, msg string, values []any) {
	at := time.Now()
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	if len(l.world.lines) >= 2*maxLines {
		l.world.lines = append(l.world.lines[:0], l.world.lines[maxLines:]...)
	}
	l.world.lines = append(l.world.lines, func() string {
		return fmt.Sprintf("%s %s object=%s err=%v %v\n", at.Format("15:04:05.000000"), msg, l.object, err, values)
	})
}

func (l *logs) WithValues(values ...any) logr.LogSink {
	with := *l
	for i := 0; i+1 < len(values); i += 2 {
		if values[i] == "object" {
			with.object = fmt.Sprint(values[i+1])
		}
	}
	if l.text != nil {
		with.text = l.text.WithValues(values...)
	}
	return &with
}

func (l *logs) WithName(name string) logr.LogSink {
	with := *l
	if l.text != nil {
		with.text = l.text.WithName(name)
	}
	return &with
}

// objectOf returns the object that is synced with a context, "" for none.
func objectOf(ctx context.Context) string {
	if l, ok := klog.FromContext(ctx).GetSink().(*logs); ok {
		return l.object
	}
	return ""
}

// refuse makes ECS answer every call of the actions with an error. Without actions, it does so for all calls.
func (w *world) refuse(with *ecssim.Reply, actions ...string) {
	w.cloud.SetFault(func(call ecssim.Call) ecssim.Fault {
		if len(actions) == 0 || slices.Contains(actions, call.Action) {
			return ecssim.Fault{Before: with}
		}
		return ecssim.Fault{}
	})
}

// once injects faults into the first calls of an action, one after the other.
func (w *world) once(action string, faults ...ecssim.Fault) {
	w.cloud.SetFault(func(call ecssim.Call) ecssim.Fault {
		w.mu.Lock()
		defer w.mu.Unlock()
		if call.Action != action || len(faults) == 0 {
			return ecssim.Fault{}
		}
		fault := faults[0]
		faults = faults[1:]
		return fault
	})
}

// writes returns the number of writes to the API server.
func (w *world) writes() int { return w.count("update status") + w.count("patch") }

// measureHour returns the number of calls and writes in an hour, without the dry runs that confirm an empty answer.
func (w *world) measureHour() (calls, writes int) {
	w.cloud.Forget()
	before := w.writes()
	time.Sleep(time.Hour)
	for _, c := range w.cloud.Calls() {
		if c.Code != "DryRunOperation" {
			calls++
		}
	}
	return calls, w.writes() - before
}

// limitHour fails the test if the operator makes more calls or writes than these in an hour.
func (w *world) limitHour(calls, writes int) {
	w.t.Helper()
	c, n := w.measureHour()
	if c > calls || n > writes {
		w.t.Errorf("in an hour, the operator made %d calls and %d writes, want at most %d and %d\n%s", c, n, calls, writes, w.describe())
	}
}

// noChanges fails the test if a call since the last Forget changes something in ECS.
func (w *world) noChanges() {
	w.t.Helper()
	for _, c := range w.cloud.Calls() {
		if !strings.HasPrefix(c.Action, "Describe") && !strings.HasPrefix(c.Action, "Get") {
			w.t.Errorf("the operator called %s", c.Action)
		}
	}
}

// condition returns a condition of an object, or an empty one.
func (w *world) condition(name, kind string) metav1.Condition {
	if ecs := w.get(name); ecs != nil {
		if is := meta.FindStatusCondition(ecs.Status.Conditions, kind); is != nil {
			return *is
		}
	}
	return metav1.Condition{}
}

// waitForAdvice waits until Ready is False with a reason. It fails the test if the message lacks one of the parts, or if the condition
// Stalled is not as given.
func (w *world) waitForAdvice(name, reason string, stalled bool, parts ...string) {
	w.t.Helper()
	is := w.waitForReason(name, reason)
	for _, part := range parts {
		if !strings.Contains(is.Message, part) {
			w.t.Errorf("the message with %s lacks %q: %s", reason, part, is.Message)
		}
	}
	if s := w.condition(name, v1alpha1.ConditionStalled); (s.Status == metav1.ConditionTrue) != stalled {
		w.t.Errorf("with %s, Stalled is %s with the reason %s", reason, s.Status, s.Reason)
	}
}

// onlyInstance returns the only instance that is not released. It fails the test if their number is not one.
func (w *world) onlyInstance() ecssim.Instance {
	w.t.Helper()
	alive := w.alive("")
	if len(alive) != 1 {
		w.t.Fatalf("there are %d instances\n%s", len(alive), w.describe())
	}
	return alive[0]
}

// readySoon waits until an object is Ready, at most for two minutes.
func (w *world) readySoon(name string) {
	w.t.Helper()
	w.within(2*time.Minute, name+" to be Ready soon", func() bool { return w.isReady(name) })
}

// countEvents returns the number of events with a prefix: a kind and a reason.
func (w *world) countEvents(prefix string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, e := range w.events {
		if strings.HasPrefix(e, prefix) {
			n++
		}
	}
	return n
}

// neverTwo fails the test if two instances of one object existed at the same time.
func (w *world) neverTwo() {
	w.t.Helper()
	all := w.cloud.Instances()
	for n, b := range all {
		for _, a := range all[:n] {
			uid := b.Tags[v1alpha1.TagUID]
			if uid != "" && uid == a.Tags[v1alpha1.TagUID] && (a.Released.IsZero() || a.Released.After(b.Created)) {
				w.t.Errorf("%s and %s existed at the same time\n%s", a.ID, b.ID, w.describe())
			}
		}
	}
}

func setType(name string) func(*v1alpha1.ECSInstance) {
	return func(e *v1alpha1.ECSInstance) { e.Spec.InstanceType = name }
}
