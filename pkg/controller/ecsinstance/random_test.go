// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/fakeapi"
)

// TestRandomWorlds runs the controller in random worlds. ECS fails in every known way. The operator dies after any write or call. Caches
// are very stale, and two operators run at once. Users edit and delete objects, and change instances in the console. After the faults
// end, each object has exactly one instance, and deleted objects have none.
//
// A world depends only on its seed, so that "make test" runs the same worlds each time. "make worlds WORLDS=50000" runs more of them.
// GLASSBACK_SEEDS=7-7 with the flag -ecs.log shows the whole log of the world of the seed 7. Run many worlds after each change of the
// controller: a fault that needs a rare sequence appears in one world of thousands.
//
// Two runs of a world can still differ. Goroutines that wake at the same nanosecond of the bubble's clock run in any order. Three workers
// take more than three keys in any order. The order of maps is random, and select takes any case that is ready.
func TestRandomWorlds(t *testing.T) {
	for seed := range fakeapi.Seeds(t, 60, 10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				newFaultyWorld(t, seed).run()
			})
		})
	}
}

// faultyWorld is a world in which calls to ECS fail, caches are stale, operators die and users change objects, all at random.
type faultyWorld struct {
	*world
	trouble float64 // share of the calls that fail
	names   []string
	others  bool // whether another client changed the state of an instance
}

func newFaultyWorld(t *testing.T, seed uint64) *faultyWorld {
	m := &faultyWorld{world: newWorld(t, seed)}
	m.trouble = []float64{0, 0.1, 0.3, 0.6}[m.random.IntN(4)]
	slow := time.Duration(m.random.IntN(3)) * time.Second
	behind := func(watch string) time.Duration {
		random := m.dice.roll(watch)
		late := time.Millisecond + time.Duration(random.Int64N(int64(4*time.Millisecond))) // never at the time of the write itself
		if slow > 0 && random.IntN(3) == 0 {
			late += time.Duration(random.Int64N(int64(slow)))
		}
		return late
	}
	m.api.Lag = behind
	m.cloud.SetFault(m.fault)
	return m
}

// fault returns the fault to inject into a call.
func (m *faultyWorld) fault(call ecssim.Call) ecssim.Fault {
	random := m.dice.roll(strings.Join([]string{
		"fault", call.Action, call.AccountID, call.RegionID, call.InstanceID,
		call.Params.Get("ClientToken"), call.Params.Get("Tag.1.Value"),
	}, " "))
	m.mu.Lock()
	trouble := m.trouble
	m.mu.Unlock()
	if random.Float64() >= trouble {
		return ecssim.Fault{}
	}
	faults := []ecssim.Fault{
		{LoseRequest: true}, {LoseAnswer: true}, {LoseAnswer: true}, {Hang: true},
		{Before: ecssim.Throttled400()}, {Before: ecssim.Throttled429()},
		{Before: ecssim.BadGateway()}, {After: ecssim.BadGateway()}, {Before: ecssim.EmptyOK()}, {After: ecssim.EmptyOK()},
		{After: ecssim.NumericCode()}, {Skew: time.Hour}, answered(500, "InternalError"),
		{After: ecssim.Error(503, "ServiceUnavailable", "something")}, {LoseAnswer: true}, {LoseAnswer: true},
	}
	n := random.IntN(len(faults))
	if call.Action == "CreateInstance" {
		copy(faults[12:], []ecssim.Fault{
			{PoisonToken: true}, {Vanish: time.Minute}, answered(403, "OperationDenied.NoStock"),
			{Invisible: time.Duration(random.IntN(60)) * time.Second, LoseAnswer: random.IntN(2) == 0},
		})
	}
	return faults[n]
}

// run injects faults for a while, ends them, and checks that all objects and instances become correct.
func (m *faultyWorld) run() {
	defer m.finish()
	current := m.start()
	for range 10 + m.random.IntN(15) {
		m.actAsUser()
		m.pause()
		current = m.disturb(current)
	}
	m.mu.Lock()
	m.trouble = 0
	m.mu.Unlock()
	for _, l := range m.operators {
		l.end()
	}
	m.secret("aliyun", testID, testSecret)
	m.secret("other", otherID, otherSecret)
	m.useMatchingSecrets()
	m.start()
	for deadline := time.Now().Add(3 * time.Hour); len(m.problems()) > 0 && time.Now().Before(deadline); {
		m.useMatchingSecrets()
		time.Sleep(10 * time.Second)
	}
	time.Sleep(10 * time.Minute)
	if problems := m.problems(); len(problems) > 0 {
		m.t.Fatalf("problems remain:\n%s\n%s", strings.Join(problems, "\n"), m.describe())
	}
	m.check()
}

// useMatchingSecrets gives each object credentials of the account that has its instance.
func (m *faultyWorld) useMatchingSecrets() {
	for _, ecs := range m.all() {
		secret := map[string]string{"": "aliyun", testAccount: "aliyun", otherAccount: "other"}[ecs.Status.AccountID]
		if ecs.Spec.CredentialsSecretRef.Name != secret {
			m.edit(ecs.Name, func(e *v1alpha1.ECSInstance) { e.Spec.CredentialsSecretRef.Name = secret })
		}
	}
}

// turn makes the next actions of users depend only on the seed and the number of turns.
func (m *faultyWorld) turn() { m.random = m.dice.roll("people") }

func (m *faultyWorld) chance(one, of int) bool { return m.random.IntN(of) < one }

func (m *faultyWorld) pick(n int) int { return m.random.IntN(n) }

func (m *faultyWorld) pause() {
	m.turn()
	switch m.pick(4) {
	case 0:
		time.Sleep(time.Duration(m.pick(2000)) * time.Millisecond)
	case 1, 2:
		time.Sleep(time.Duration(m.pick(60)) * time.Second)
	default:
		time.Sleep(time.Duration(m.pick(600)) * time.Second)
	}
}

// disturb does one of three things with the operator, at random. The operator runs on, dies and is replaced, or runs for a while beside
// its successor.
func (m *faultyWorld) disturb(current *operator) *operator {
	m.turn()
	switch m.pick(8) {
	case 0, 1, 2:
		current.die(1 + m.pick(12))
		time.Sleep(time.Duration(m.pick(90)) * time.Second)
		current.die(0)
		current.end()
		return m.start()
	case 3:
		m.others = true
		other := m.start() // The first operator still runs as the leader.
		for range m.pick(4) {
			m.actAsUser()
			time.Sleep(time.Duration(m.pick(8000)) * time.Millisecond)
		}
		current.end()
		return other
	}
	return current
}

// actAsUser makes a random change of a user: to an object, a Secret or an instance.
func (m *faultyWorld) actAsUser() {
	m.turn()
	if len(m.names) == 0 || m.chance(1, 5) {
		m.create()
		return
	}
	name := m.names[m.pick(len(m.names))]
	switch m.pick(12) {
	case 0, 1:
		m.delete(name)
	case 2:
		m.console(name)
	case 3:
		m.secret("aliyun", []string{testID, otherID}[m.pick(2)], []string{testSecret, otherSecret, "wrong"}[m.pick(3)])
	case 4:
		m.secret("aliyun", testID, testSecret)
	default:
		m.edit(name, m.editor())
	}
}

func (m *faultyWorld) create() {
	name := fmt.Sprintf("vm-%d", m.pick(5)) // Names are used again.
	if m.get(name) != nil {
		return
	}
	keep := m.chance(1, 5)
	script := m.chance(1, 4)
	m.names = append(m.names, name)
	if script {
		if m.api.Get("secrets", key(name)) == nil {
			m.api.Put(userData(name))
		}
	}
	m.apply(name, func(e *v1alpha1.ECSInstance) {
		e.Spec.RecreatePolicy = v1alpha1.RecreateAlways
		e.Spec.InstanceTypeChangePolicy = v1alpha1.TypeChangeRestart
		if keep {
			e.Spec.DeletionPolicy = v1alpha1.DeletionRetain
		}
		if script {
			e.Spec.UserDataSecretRef = &v1alpha1.SecretKeyReference{Name: name, Key: "userData"}
		}
		m.editor()(e)
	})
}

// editor returns an edit of a spec. The edit leaves a field alone that is immutable by now.
func (m *faultyWorld) editor() func(*v1alpha1.ECSInstance) {
	n, k := m.pick(9), m.pick(4)
	return func(e *v1alpha1.ECSInstance) {
		s := &e.Spec
		switch n {
		case 0:
			s.InstanceName = fmt.Sprintf("name-%d", k)
		case 1:
			s.Tags = map[string]string{"team": fmt.Sprint(k), fmt.Sprintf("tag-%d", k): "x"}
		case 2:
			s.Tags = nil
		case 3:
			s.InstanceType = []string{"ecs.g6.large", "ecs.g6.xlarge"}[k%2]
		case 4:
			s.PowerState = []v1alpha1.PowerState{v1alpha1.PowerRunning, v1alpha1.PowerStopped}[k%2]
		case 5:
			s.SecurityGroupIDs = []string{"sg-a", "sg-b", "sg-c"}[:1+k%3]
		case 6, 8:
			if e.Status.InstanceID == "" {
				s.RegionID = []string{"cn-beijing", "cn-hangzhou"}[k%2]
			}
		case 7:
			if e.Status.InstanceID == "" {
				s.InternetMaxBandwidthOut = ptr.To(int32(k))
			}
		}
	}
}

func (m *faultyWorld) delete(name string) {
	m.world.delete(name)
	m.names = slices.DeleteFunc(m.names, func(n string) bool { return n == name })
}

// console has a user change the instance of an object.
func (m *faultyWorld) console(name string) {
	ecs := m.get(name)
	if ecs == nil || ecs.Status.InstanceID == "" || ecs.DeletionTimestamp != nil {
		return
	}
	what := m.pick(4)
	m.others = m.others || what >= 2
	m.cloud.Update(ecs.Status.InstanceID, func(i *ecssim.Instance) {
		switch what {
		case 0:
			i.Name = "renamed"
		case 1:
			if _, ok := i.Tags["team"]; ok {
				i.Tags["team"] = "other"
			}
			i.Tags["console"] = "is left alone"
		case 2:
			if i.State == "Running" {
				i.State = "Stopped"
			}
		case 3:
			if i.Released.IsZero() {
				i.Released = time.Now()
			}
		}
	})
}

// problems returns the differences from the desired final state.
func (m *faultyWorld) problems() []string {
	var wrong []string
	live := map[string]bool{}
	for _, ecs := range m.all() {
		if ecs.DeletionTimestamp != nil {
			wrong = append(wrong, ecs.Name+" is not gone")
			continue
		}
		live[string(ecs.UID)] = true
		wrong = append(wrong, m.differences(ecs)...)
	}
	for _, i := range m.alive("") {
		if uid, tagged := i.Tags[v1alpha1.TagUID]; tagged && !live[uid] {
			wrong = append(wrong, "instance "+i.ID+" is left of an object that is gone")
		}
	}
	return wrong
}

// differences returns the differences between the instance of an existing object and its spec.
func (m *faultyWorld) differences(ecs *v1alpha1.ECSInstance) []string {
	mine := m.alive(string(ecs.UID))
	if len(mine) != 1 {
		return []string{fmt.Sprintf("%s has %d instances", ecs.Name, len(mine))}
	}
	i, s := mine[0], ecs.Spec
	var wrong []string
	for _, c := range []struct {
		what     string
		is, want any
	}{
		{"instanceID", ecs.Status.InstanceID, i.ID},
		{"name", i.Name, s.InstanceName},
		{"type", i.Type, s.InstanceType},
		{"state", i.State, string(s.PowerState)},
		{"region", i.RegionID, ecs.Status.Create.RegionID}, // The region of the spec may have changed before the answer arrived.
		{"ready", m.isReady(ecs.Name), true},
		{"account", i.AccountID, ecs.Status.AccountID},
	} {
		if c.is != c.want {
			wrong = append(wrong, fmt.Sprintf("%s: %s is %v and not %v", ecs.Name, c.what, c.is, c.want))
		}
	}
	if groups := slices.Sorted(slices.Values(i.SecurityGroupIDs)); len(s.SecurityGroupIDs) > 0 && !slices.Equal(groups, s.SecurityGroupIDs) {
		wrong = append(wrong, fmt.Sprintf("%s: groups are %v and not %v", ecs.Name, groups, s.SecurityGroupIDs))
	}
	tags := maps.Clone(i.Tags)
	maps.DeleteFunc(tags, func(key, _ string) bool { return strings.HasPrefix(key, v1alpha1.TagPrefix) })
	delete(tags, "console")
	if !maps.Equal(tags, s.Tags) && len(tags)+len(s.Tags) > 0 {
		wrong = append(wrong, fmt.Sprintf("%s: tags are %v and not %v", ecs.Name, tags, s.Tags))
	}
	return wrong
}

// check looks for states that must never occur.
func (m *faultyWorld) check() {
	if n := m.countEvents("Warning TypeChangeRefused"); n > 0 {
		m.t.Errorf("ECS refuses no instance type in this test, but %d events report a refusal\n%s", n, m.describe())
	}
	m.neverTwo()
	for _, c := range m.cloud.Calls() {
		allowed := map[string][]string{
			"AllocatePublicIpAddress": {"Stopped"}, "StartInstance": {"Stopped"},
			"StopInstance": {"Running"}, "DeleteInstance": {"Stopped", "Running"}, "ModifyInstanceSpec": {"Stopped"},
		}[c.Action]
		// Other clients, also a second operator, may have changed more than this operator has observed.
		if allowed != nil && !m.others && c.State != "" && !slices.Contains(allowed, c.State) {
			m.t.Errorf("the operator called %s for %s in the state %s\n%s", c.Action, c.InstanceID, c.State, m.describe())
		}
	}
}

// TestDeathAfterEveryStep: the operator dies of each of its writes and calls in turn, whose
// answer it never gets, while it makes an instance and while it deletes it.
func TestDeathAfterEveryStep(t *testing.T) {
	for n := range 30 {
		t.Run(strconv.Itoa(n+1), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				defer w.finish()
				live := func(until string, done func() bool) {
					l := w.start()
					l.die(n + 1)
					time.Sleep(time.Minute)
					l.end()
					w.start()
					w.within(15*time.Minute, until, done)
				}
				w.apply("vm", func(e *v1alpha1.ECSInstance) {
					e.Spec.Tags, e.Spec.SecurityGroupIDs = map[string]string{"team": "a"}, []string{"sg-a", "sg-b"}
				})
				live("it to be Ready", func() bool { return w.isReady("vm") })
				w.onlyInstance()
				if all := w.cloud.Instances(); len(all) > 1 {
					t.Errorf("%d instances were made", len(all))
				}
				for _, l := range w.operators {
					l.end()
				}
				w.delete("vm")
				live("it to be gone", func() bool { return w.get("vm") == nil })
				if alive := w.alive(""); len(alive) > 0 {
					t.Errorf("there still is %+v", alive)
				}
			})
		})
	}
}

// TestCacheThatIsBehind: a write of another owner that the cache does not show yet keeps the
// operator from asking for an instance that no object wants any more.
func TestCacheThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.finish()
		var late atomic.Bool
		w.api.Lag = func(string) time.Duration {
			if late.Load() {
				return 2 * time.Minute
			}
			return 0
		}
		w.start()
		w.deleteSecret("aliyun")
		w.apply("vm")
		w.waitForReason("vm", reasonSecretMissing)
		time.Sleep(time.Minute)
		late.Store(true)
		w.edit("vm", setType("ecs.g6.xlarge"))
		time.Sleep(time.Second)
		late.Store(false)
		w.secret("aliyun", testID, testSecret)
		time.Sleep(100 * time.Second)
		if w.count("Find") == 0 || w.count("update status") < 2 {
			t.Errorf("it did not even try\n%s", w.describe())
		}
		if n := w.count("CreateInstance"); n > 0 {
			t.Errorf("by an older version of the object, an instance was made")
		}
		w.ready("vm")
		if i := w.onlyInstance(); i.Type != "ecs.g6.xlarge" || w.count("CreateInstance") != 1 {
			t.Errorf("it is %+v, after %d calls", i, w.count("CreateInstance"))
		}
	})
}
