/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecsinstance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/fakeapi"
)

// TestRandomWorlds has everything go wrong that can: ECS fails in every way that is known of,
// the operator dies after any write or call, caches are far behind, two operators run at once,
// and people edit, delete, and meddle in the console. When that is over, there is exactly one
// instance for each object, and none for those that are gone.
//
// A world follows from its seed, so "make test" runs the same worlds each time. "make worlds WORLDS=50000" runs more, and
// GLASSBACK_SEEDS=7-7 with the flag -ecs.log shows all that happens in the world of the seed 7. Run many after each change of
// the controller: a fault that takes a rare sequence shows in one world of thousands.
//
// Two runs of a world can still differ. Goroutines that wake at the same nanosecond of the
// bubble's clock run in any order, and so do three workers that find more than three keys. Maps
// are read in any order, and select takes any case that is ready. Nothing in a world depends on
// these on purpose: TestWorldsRepeat compares runs.
func TestRandomWorlds(t *testing.T) {
	for seed := range fakeapi.Seeds(t, 60, 10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				newMayhem(t, seed).run()
			})
		})
	}
}

// mayhem is a world in which everything goes wrong.
type mayhem struct {
	*world
	trouble float64 // how many calls fail
	names   []string
	others  bool // whether another client changed the state of an instance
}

func newMayhem(t *testing.T, seed uint64) *mayhem {
	m := &mayhem{world: newWorld(t, seed)}
	m.trouble = []float64{0, 0.1, 0.3, 0.6}[m.random.IntN(4)]
	slow := time.Duration(m.random.IntN(3)) * time.Second
	behind := func(watch string) time.Duration {
		random := m.dice.roll(watch)
		late := time.Millisecond + time.Duration(random.Int64N(int64(4*time.Millisecond))) // never at the same moment as the write
		if slow > 0 && random.IntN(3) == 0 {
			late += time.Duration(random.Int64N(int64(slow)))
		}
		return late
	}
	m.api.Lag = behind
	m.cloud.SetFault(m.fault)
	return m
}

// fault is the fault of a call.
func (m *mayhem) fault(call ecssim.Call) ecssim.Fault {
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
	create := call.Action == "CreateInstance"
	switch random.IntN(16) {
	case 0:
		return ecssim.Fault{LoseRequest: true}
	case 1, 2:
		return ecssim.Fault{LoseAnswer: true}
	case 3:
		return ecssim.Fault{Hang: true}
	case 4:
		return ecssim.Fault{Before: ecssim.Throttled400()}
	case 5:
		return ecssim.Fault{Before: ecssim.Throttled429()}
	case 6:
		return ecssim.Fault{Before: ecssim.BadGateway()}
	case 7:
		return ecssim.Fault{After: ecssim.BadGateway()}
	case 8:
		return ecssim.Fault{Before: ecssim.EmptyOK()}
	case 9:
		return ecssim.Fault{After: ecssim.EmptyOK()}
	case 10:
		return ecssim.Fault{After: ecssim.NumericCode()}
	case 11:
		return ecssim.Fault{Skew: time.Hour}
	case 12:
		if create {
			return ecssim.Fault{PoisonToken: true}
		}
		return ecssim.Fault{Before: ecssim.Error(500, "InternalError", "something")}
	case 13:
		if create {
			return ecssim.Fault{Vanish: time.Minute}
		}
		return ecssim.Fault{After: ecssim.Error(503, "ServiceUnavailable", "something")}
	case 14:
		if create {
			return ecssim.Fault{Before: ecssim.Error(403, "OperationDenied.NoStock", "no stock")}
		}
	}
	if create {
		return ecssim.Fault{Invisible: time.Duration(random.IntN(60)) * time.Second, LoseAnswer: random.IntN(2) == 0}
	}
	return ecssim.Fault{LoseAnswer: true}
}

// run lets things go wrong for a while, and then right.
func (m *mayhem) run() {
	defer m.finish()
	life := m.start()
	for range 10 + m.random.IntN(15) {
		m.someone()
		m.pause()
		life = m.fate(life)
	}
	m.mu.Lock()
	m.trouble = 0
	m.mu.Unlock()
	for _, l := range m.lives {
		l.end()
	}
	m.secret("aliyun", testID, testSecret)
	m.secret("other", otherID, otherSecret)
	m.reconcile()
	m.start()
	for deadline := time.Now().Add(3 * time.Hour); len(m.wrong()) > 0 && time.Now().Before(deadline); {
		m.reconcile()
		time.Sleep(10 * time.Second)
	}
	time.Sleep(10 * time.Minute)
	if wrong := m.wrong(); len(wrong) > 0 {
		m.t.Fatalf("all is not well:\n%s\n%s", strings.Join(wrong, "\n"), m.describe())
	}
	m.check()
}

// reconcile gives each object credentials of the account that its instance came to be in.
func (m *mayhem) reconcile() {
	for _, ecs := range m.all() {
		secret := map[string]string{"": "aliyun", testAccount: "aliyun", otherAccount: "other"}[ecs.Status.AccountID]
		if ecs.Spec.CredentialsSecretRef.Name != secret {
			m.edit(ecs.Name, func(e *v1alpha1.ECSInstance) { e.Spec.CredentialsSecretRef.Name = secret })
		}
	}
}

// turn makes the next actions of users follow from the seed and the number of turns.
func (m *mayhem) turn() { m.random = m.dice.roll("people") }

func (m *mayhem) chance(one, of int) bool { return m.random.IntN(of) < one }

func (m *mayhem) pick(n int) int { return m.random.IntN(n) }

func (m *mayhem) pause() {
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

// fate is what becomes of a life: it goes on, dies soon, or has another one beside it.
func (m *mayhem) fate(life *operator) *operator {
	m.turn()
	switch m.pick(8) {
	case 0, 1, 2:
		life.die(1 + m.pick(12))
		time.Sleep(time.Duration(m.pick(90)) * time.Second)
		life.die(0)
		life.end()
		return m.start()
	case 3:
		m.others = true
		other := m.start() // while the first one still thinks that it leads
		for range m.pick(4) {
			m.someone()
			time.Sleep(time.Duration(m.pick(8000)) * time.Millisecond)
		}
		life.end()
		return other
	}
	return life
}

// someone does something.
func (m *mayhem) someone() {
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

func (m *mayhem) create() {
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

// editor returns an edit of a spec. What cannot be changed any more is not.
func (m *mayhem) editor() func(*v1alpha1.ECSInstance) {
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

func (m *mayhem) delete(name string) {
	m.world.delete(name)
	m.names = slices.DeleteFunc(m.names, func(n string) bool { return n == name })
}

// console has a user change the instance of an object.
func (m *mayhem) console(name string) {
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

// wrong returns the differences from the desired final state.
func (m *mayhem) wrong() []string {
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
func (m *mayhem) differences(ecs *v1alpha1.ECSInstance) []string {
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
		{"region", i.RegionID, ecs.Status.Create.RegionID}, // The spec's may have been changed before the answer came.
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
func (m *mayhem) check() {
	if n := m.countEvents("Warning TypeChangeRefused"); n > 0 {
		m.t.Errorf("ECS refuses no type here, and the operator says so %d times\n%s", n, m.describe())
	}
	all := m.cloud.Instances()
	for n, a := range all {
		for _, b := range all[:n] {
			uid := a.Tags[v1alpha1.TagUID]
			if uid != "" && uid == b.Tags[v1alpha1.TagUID] && (b.Released.IsZero() || b.Released.After(a.Created)) {
				m.t.Errorf("%s and %s were there at the same time for %s\n%s", b.ID, a.ID, uid, m.describe())
			}
		}
	}
	for _, c := range m.cloud.Calls() {
		allowed := map[string][]string{
			"StartInstance": {"Stopped"}, "StopInstance": {"Running"}, "DeleteInstance": {"Stopped", "Running"}, "ModifyInstanceSpec": {"Stopped"},
		}[c.Action]
		// Other clients, also a second operator, may have changed more than this operator has observed.
		if allowed != nil && !m.others && c.State != "" && !slices.Contains(allowed, c.State) {
			m.t.Errorf("%s was called for %s, which was %s\n%s", c.Action, c.InstanceID, c.State, m.describe())
		}
	}
}

// TestWorldsRepeat: the same calls get to ECS at the same moments, with the same answers.
func TestWorldsRepeat(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			var first []string
			for range 2 {
				var calls []string
				synctest.Test(t, func(t *testing.T) {
					m := newMayhem(t, seed)
					m.run()
					for _, c := range m.cloud.Calls() {
						calls = append(calls, fmt.Sprintln(c.At.Format(time.RFC3339Nano), c.Action, c.InstanceID, c.State, c.Code))
					}
				})
				if first == nil {
					first = calls
				}
				for n := range calls {
					if n >= len(first) || calls[n] != first[n] {
						t.Fatalf("call %d of %d is another one: %s", n, len(calls), calls[n])
					}
				}
			}
		})
	}
}
