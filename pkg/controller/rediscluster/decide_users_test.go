// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/recording/recordtest"
	"github.com/glassback/glassback/pkg/redisnode"
)

// The passwords of users in tests, by Secret.
var passwordOf = map[string]string{"app": "app-password", "redis": "redis-password"}

const accountPassword = "account-password"

// people has the spec have these users, and the Pods be as the spec says.
func people(users ...v1.User) alter {
	return func(o *observed) {
		withUsers(users...)(o.Object)
		for i, m := range o.Members {
			again := manifest.Pod(o.Object, i)
			m.Pod.Spec, m.Pod.Annotations = again.Spec, again.Annotations
		}
	}
}

// withoutAccount has Pods be from before the spec had users. They read a password if secret is not "".
func withoutAccount(secret string, ordinals ...int) alter {
	return func(o *observed) {
		before := *o.Object.DeepCopy()
		if before.Spec.Users = nil; secret != "" {
			before.Spec.AuthSecretRef = &v1.SecretKeyReference{Name: secret, Key: "password"}
		}
		for _, i := range ordinals {
			again := manifest.Pod(&before, i)
			o.Members[i].Pod.Spec, o.Members[i].Pod.Annotations = again.Spec, again.Annotations
		}
	}
}

// read sets what the operator has read: the password of its own user, and of the others.
func read(o *observed) *observed {
	o.accountHash = redisnode.HashPassword(accountPassword)
	o.users, o.userProblems = nil, nil
	o.wantUsers(func(ref v1.SecretKeyReference) (string, *problem) {
		if text, ok := passwordOf[ref.Name]; ok {
			return text, nil
		}
		return "", &problem{reasonNoPassword, ref.Name}
	})
	return o
}

// have has nodes have these users, with the rules of the spec. Each is a name, or a name with the passwords after it.
func have(users map[string][]string, ordinals ...int) alter {
	return func(o *observed) {
		for _, i := range ordinals {
			m := o.Members[i]
			m.users = map[string]redisnode.User{}
			for name, passwords := range users {
				var hashes []string
				for _, password := range passwords {
					hashes = append(hashes, redisnode.HashPassword(password))
				}
				slices.Sort(hashes)
				m.users[name] = redisnode.User{Hashes: hashes, Rules: "the rules of " + name}
			}
			own := m.users[v1.UserOperator]
			own.Rules = "on"
			m.users[v1.UserOperator] = own
			own.Rules = "on (~users:" + markOf(o.refusals.acceptedBy(m, o.users), m.users) + " resetchannels -@all)"
			m.users[v1.UserOperator] = own
		}
	}
}

var (
	defaultOff = aUser("default", "off", "")
	userApp    = aUser("app", "~* +@all", "app")
	// asSaid are the users of a node that has both users with their passwords; atStart are those of a new node.
	asSaid  = map[string][]string{"glassback": {accountPassword}, "default": nil, "app": {"app-password"}}
	atStart = map[string][]string{"glassback": {accountPassword}, "default": nil}
)

// asSaidBut has other passwords of one user.
func asSaidBut(name string, passwords ...string) map[string][]string {
	changed := maps.Clone(asSaid)
	changed[name] = passwords
	return changed
}

// rulesOf changes the rules that a member has for a user.
func rulesOf(ordinal int, name string, f func(string) string) alter {
	return changed(func(m *member) {
		u := m.users[name]
		u.Rules = f(u.Rules)
		m.users[name] = u
	}, ordinal)
}

func TestDecideUsers(t *testing.T) {
	spec, noSecret := people(defaultOff, userApp), people(defaultOff, aUser("app", "~* +@all", "none"))
	open := people(aUser("default", openRules, ""), userApp)
	settled, oldApp := have(asSaid, all...), have(asSaidBut("app", "old-password"), all...)
	both := asSaidBut("app", "old-password", "app-password")
	unread := changed(func(m *member) { m.users = nil }, 3)
	noReplicas := func(o *observed) { o.Object.Spec.ReplicasPerMaster = new(int32) }
	lockedBy := func(o *observed) { o.Object.Spec.AuthSecretRef = &v1.SecretKeyReference{Name: "none", Key: "password"} }
	for _, test := range []struct {
		sentence string
		want     string // the policy, and the commands of users
		alters   []alter
	}{
		{"as the spec says", "", []alter{spec, reading, settled}},
		{"new nodes", "waitForUsers: set users of demo-4 app", []alter{spec, reading, have(atStart, 4)}},
		{"one user less", "waitForUsers: " + strings.Join(every("set users of demo-%d app", all...), ", "),
			[]alter{people(defaultOff), reading, settled}},
		{"a user of another client", "waitForUsers: set users of demo-2 stranger",
			[]alter{spec, reading, settled, have(asSaidBut("stranger"), 2)}},
		{"rules that another client changed", "waitForUsers: set users of demo-3 app default",
			[]alter{spec, reading, settled, rulesOf(3, "app", func(string) string { return "the rules of another" })}},
		{"another client gave the operator's user a password", "waitForUsers: set users of demo-3 app default",
			[]alter{spec, reading, settled, have(asSaidBut("glassback", accountPassword, "theirs"), 3)}},
		{"another client changed the rules of the operator's user", "waitForUsers: set users of demo-3 app default",
			[]alter{spec, reading, settled, rulesOf(3, v1.UserOperator, func(was string) string { return "sanitize-payload " + was })}},
		{"a new node while two passwords are valid", "waitForUsers: set users of demo-4 app",
			[]alter{spec, reading, have(both, all...), have(atStart, 4)}},
		{"no Pod is replaced by one without a user", "rollPods waits", []alter{noSecret, reading, oldApp, podIs(old, 3)}},
		{"no Pod is replaced while the user default would have no password afterwards", "rollPods waits",
			[]alter{people(aUser("default", "~* +@all", "none"), userApp), withoutAccount("", 3), reading, settled}},
		{"no Pod is replaced after its image has refused rules", "rollPods waits",
			[]alter{spec, reading, refusing("app", ""), settled, podIs(old, 3)}},
		{"no replica is replaced to become a master without a user", "balanceSlots waits", []alter{noSecret, reading, oldApp, noReplicas}},
		{"another image accepts rules that the nodes refused", "waitForUsers: set users of demo-4 app",
			[]alter{spec, reading, podIs(old, all...), refusing("app", "redis:before"), podIs(image("redis:before"), 0, 1, 2, 3, 5),
				settled, have(atStart, 4)}},
		{"another password", "waitForUsers: set users of demo-1 app",
			[]alter{spec, reading, settled, have(asSaidBut("app", "old-password"), 1)}},
		{"both passwords are everywhere", "", []alter{spec, reading, have(both, all...)}},
		{"the old password was kept long enough", "waitForUsers: set users of demo-5 app",
			[]alter{spec, reading, settled, have(both, 5), func(o *observed) { o.retired = map[string]bool{"app": true} }}},
		{"a Secret that is missing leaves its user alone", "", []alter{noSecret, reading, oldApp}},
		{"but not if the user is off", "waitForUsers: set users of demo-5 app",
			[]alter{people(defaultOff, aUser("app", "~* +@all off", "none")), reading, have(asSaidBut("app"), all[:5]...),
				have(asSaidBut("app", "old-password"), 5)}},
		{"a node that is not asked", "waitForReplicas", []alter{spec, reading, settled, silenced(time.Second, 3), unread}},
		{"before the first Pod is replaced, all nodes have the operator's user", "waitForUsers: set users of demo-0 glassback",
			[]alter{spec, withoutAccount("", all...), reading, settled, have(map[string][]string{"default": nil}, 0)}},
		{"then they are replaced", "rollPods", []alter{spec, withoutAccount("", all...), reading, settled}},
		{"users go: the user default is open before a Pod is replaced", "waitForUsers: set users of demo-3 default",
			[]alter{spec, gone, reading, settled, rulesOf(3, v1.UserDefault, func(string) string { return "" })}},
		{"users go: Pods are replaced", "rollPods", []alter{open, gone, reading, settled}},
		{"users go, but the Secret of the password is missing: no Pod is replaced", "rollPods waits",
			[]alter{open, gone, reading, settled, lockedBy, reading}},
	} {
		t.Run(test.sentence, func(t *testing.T) {
			o := with(six(), test.alters...)
			o.markUsers()
			p := decide(o)
			recordtest.Check(t, Decisions, o, p)
			got := p.Policy
			if (p.Policy == "rollPods" || p.Policy == "balanceSlots") && len(p.Commands) == 0 {
				got += " waits"
			}
			p.Upkeep = slices.DeleteFunc(p.Upkeep, func(c command) bool { return c.verb != setUsers })
			if len(p.Upkeep) > 0 {
				got += ": " + strings.Join(inWords(p.Upkeep), ", ")
			}
			if got != test.want {
				t.Errorf("got %q (%s), want %q", got, p.Step, test.want)
			}
		})
	}
}

// TestDecideAccount is about a Secret of the operator's user that does not exist, or that no Pod can mount. Only the creation of Pods
// waits for it. So no Pod is deleted either that would have to be created again.
func TestDecideAccount(t *testing.T) {
	missing := func(o *observed) { o.AccountMissing = true }
	rejected := func(o *observed) { o.AccountProblem = &problem{reasonNoSecret, "rejected"} }
	ready := func(o *observed, alters ...alter) *observed {
		return with(o, append([]alter{people(defaultOff, userApp), reading, have(asSaid, append(all, 6)[:len(o.Members)]...)}, alters...)...)
	}
	three := func() *observed { return cluster(sixOf()[:3]...) }
	noReplicas := func(o *observed) { o.Object.Spec.ReplicasPerMaster = new(int32) }
	larger := func(o *observed) { o.Object.Spec.Storage.Size = resource.MustParse("2Gi") }
	forgets := "forgetNodes: " + strings.Join(every("forget demo-%d id-5", 0, 1, 2, 3, 4), ", ")
	for sentence, test := range map[string]struct {
		o            *observed
		upkeep, want string // the policy and the commands
	}{
		"it is created before a Pod, and before a node has its password": {
			with(six(), people(defaultOff, userApp), withoutAccount("", all...), reading, have(map[string][]string{"default": nil}, all...),
				noPod(5), missing), "create Secret", forgets},
		"it is lost, and Pods have its password: users are set": {
			ready(six(), have(atStart, 4), missing), "create Secret, set users of demo-4 app", "waitForUsers: "},
		"it is rejected: nothing else waits":      {ready(six(), rejected), "", "waitForAccount: "},
		"it is rejected: no Pod is created":       {ready(six(), noPod(5), rejected), "", forgets},
		"it is rejected: no Pod is replaced":      {ready(six(), podIs(old, 3), rejected), "", "waitForAccount: "},
		"it is being created: no Pod is replaced": {ready(six(), podIs(old, 3), missing), "create Secret", "waitForAccount: "},
		"it is rejected: a Pod that cannot run stays": {
			ready(six(), podIs(both(old, crashing), 3), silenced(time.Hour, 3), rejected), "", "waitForReplicas: "},
		"it is rejected: no replica is replaced to become a master": {ready(six(), noReplicas, rejected), "", "waitForAccount: "},
		"it is rejected: no master is emptied":                      {ready(three(), replicas(0), allOld, rejected), "", "waitForAccount: "},
		"it is rejected: a Pod whose volume is deleted stays": {
			ready(six(), stored, people(defaultOff, userApp), terminating(3), rejected), "", "waitForAccount: "},
		"it is rejected: a Pod that is not needed is deleted": {ready(sixAnd(replica(0)), sized(6), rejected), "",
			"removePods: " + strings.Join(append(every("forget demo-%d id-6", all...), "delete Pod demo-6"), ", ")},
		"it is rejected: a replica takes over from a lost master": {
			ready(six(), renewed(0), unlinked(time.Minute, 1000, 3), rejected), "", "replaceLostMasters: failover demo-3 FORCE"},
		"it is rejected: volumes grow": {
			ready(three(), replicas(0), stored, people(defaultOff, userApp), have(asSaid, 0, 1, 2), larger, rejected),
			"grow claim of demo-0, grow claim of demo-1, grow claim of demo-2", "waitForAccount: "},
		"users are gone: no new Pod needs it": {ready(six(), gone, noPod(5), rejected), "create Pod demo-5", forgets},
	} {
		t.Run(sentence, func(t *testing.T) {
			test.o.markUsers()
			p := decide(test.o)
			recordtest.Check(t, Decisions, test.o, p)
			upkeep, got := strings.Join(inWords(p.Upkeep), ", "), p.Policy+": "+strings.Join(inWords(p.Commands), ", ")
			if upkeep != test.upkeep || got != test.want || p.Step == "" {
				t.Errorf("got %q and %q (%s), want %q and %q", upkeep, got, p.Step, test.upkeep, test.want)
			}
		})
	}
}

// TestIsOff follows the rules of a user from left to right, as Redis does.
func TestIsOff(t *testing.T) {
	for rules, want := range map[string]bool{
		"off": true, "~* +@all off": true, "off on": false, "on off": true, "~off +@all": false, "nopass ~* +@all": false,
		"off ~* (+get ~on)": true,
	} {
		if got := (user{rules: rules}).isOff(); got != want {
			t.Errorf("%q is off: %t", rules, got)
		}
	}
}

func reading(o *observed) { read(o) }

// refusing has Redis of an image have refused the rules of a user; "" is the image of the spec.
func refusing(name, image string) alter {
	return func(o *observed) {
		i := slices.IndexFunc(o.Object.Spec.Users, func(u v1.User) bool { return u.Name == name })
		refused := refusedUser{name, cmp.Or(image, o.Object.Spec.Image)}
		o.refusals = refusals{refused: {o.Object.Spec.Users[i].Rules, "demo-0", "modifier '+new'"}}
	}
}

func image(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Image = name }
}

// gone has the spec have no users, with Pods from before.
func gone(o *observed) { o.Object.Spec.Users = nil }

// TestTheUserDefault checks what the user default may do while Pods with and without the operator's user exist.
func TestTheUserDefault(t *testing.T) {
	for sentence, test := range map[string]struct {
		o           *observed
		rules, hash string
	}{
		"all Pods have it": {with(six(), people(defaultOff, userApp)), "off", ""},
		"a Pod without a password": {
			with(six(), people(defaultOff, userApp), withoutAccount("", 3)), manifest.AlmostEverything + " nopass", "",
		},
		"a Pod with a password": {
			with(six(), people(defaultOff, userApp), withoutAccount("redis", 3)), manifest.AlmostEverything, "redis-password",
		},
		"no users any more":           {with(six(), people(defaultOff, userApp), gone), manifest.AlmostEverything + " nopass", ""},
		"a password instead of users": {with(six(), people(defaultOff, userApp), gone, locked), manifest.AlmostEverything, "redis-password"},
		"the same, with a Pod that has one": {
			with(six(), people(defaultOff, userApp), withoutAccount("redis", 3), gone, locked), manifest.AlmostEverything, "redis-password"},
	} {
		i := slices.IndexFunc(read(test.o).users, func(u user) bool { return u.name == v1.UserDefault })
		want := user{name: v1.UserDefault, rules: test.rules}
		if test.hash != "" {
			want.hash = redisnode.HashPassword(test.hash)
		}
		got := test.o.users[i]
		if got.keep = 0; got != want {
			t.Errorf("%s: got %+v, want %+v", sentence, got, want)
		}
	}
}

func locked(o *observed) {
	o.Object.Spec.AuthSecretRef = &v1.SecretKeyReference{Name: "redis", Key: "password"}
}

// TestANewNodeGetsOldPasswords is about a Pod that is created while two passwords are valid.
func TestANewNodeGetsOldPasswords(t *testing.T) {
	passwords := []string{"old-password", "app-password"}
	both := map[string][]string{"glassback": {accountPassword}, "default": passwords, "app": passwords}
	o := with(six(), people(aUser("default", "~* +@all", "app"), aUser("app", "~* +@all", "app")), reading, have(both, all...))
	new := map[string]redisnode.User{"default": {Rules: "off"}}
	for _, u := range o.users {
		if got, want := o.hashes(new, u), o.Members[0].users[u.name].Hashes; !slices.Equal(got, want) {
			t.Errorf("%s gets %q, want both: %q", u.name, got, want)
		}
		o.retired = map[string]bool{u.name: true}
		if got := o.hashes(new, u); !slices.Equal(got, []string{u.hash}) {
			t.Errorf("after the time of the old one %s gets %q, want the new one alone", u.name, got)
		}
	}
}

// TestOldPasswordsAreKept follows the time for which an old password stays valid.
func TestOldPasswordsAreKept(t *testing.T) {
	s := &session{since: map[string]time.Time{}}
	look := func(after time.Duration, alters ...alter) bool {
		o := with(six(), append([]alter{people(defaultOff, userApp), reading}, alters...)...)
		o.Now = seenAt.Add(after)
		s.beginFacts()
		s.recallPasswords(o)
		s.endFacts()
		return o.retired["app"]
	}
	both, silent := have(asSaidBut("app", "old-password", "app-password"), all...), changed(func(m *member) { m.users = nil }, 1)
	for _, step := range []struct {
		what   string
		after  time.Duration
		alters []alter
		want   bool
	}{
		{"a node has only the old one", 0, []alter{both, have(asSaidBut("app", "old-password"), 2)}, false},
		{"not long since", time.Hour, []alter{both}, false},
		{"a node is silent meanwhile", time.Hour + 30*time.Second, []alter{both, silent}, false},
		{"long enough, but a node is silent", time.Hour + 61*time.Second, []alter{both, silent}, false},
		{"long enough", time.Hour + 62*time.Second, []alter{both}, true},
		{"one node is left", time.Hour + 63*time.Second,
			[]alter{have(asSaid, all...), have(asSaidBut("app", "old-password", "app-password"), 4)}, true},
		{"none is left", time.Hour + 64*time.Second, []alter{have(asSaid, all...)}, false},
		{"another change", 3 * time.Hour, []alter{both}, false},
	} {
		if got := look(step.after, step.alters...); got != step.want {
			t.Errorf("%s: retired is %t", step.what, got)
		}
	}
}

func createsPod(write string) bool { return strings.HasPrefix(write, "create pods") }

// accountSecret is a Secret with the name of the operator's.
func accountSecret(password string, owners ...metav1.OwnerReference) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "demo-glassback", Namespace: "default", OwnerReferences: owners},
		Data:       map[string][]byte{"password": []byte(password)},
	}
}

// theirs is another owner.
var theirs = metav1.OwnerReference{UID: "theirs", Name: "theirs", Kind: "Certificate", Controller: ptr.To(true)}

// isDegraded checks the condition Degraded.
func (s *stage) isDegraded(reason, message string) {
	s.t.Helper()
	if c := s.is(glassback.ConditionDegraded); c.Reason != reason || !strings.Contains(c.Message, message) {
		s.t.Errorf("Degraded is %s: %s, want the reason %s, and %q", c.Reason, c.Message, reason, message)
	}
}

// TestAForeignSecret has another owner's Secret have the name of the operator's. No Pod mounts it, and its password is never used, not even
// after it is gone.
func TestAForeignSecret(t *testing.T) {
	s := newStage(t, with(six(), clearStatus, noPod(all...)))
	s.add(accountSecret("theirs", theirs))
	s.edit(withUsers(aUser("default", openRules, "")))
	syncs := func() (writes []string) {
		for range 3 {
			writes = append(writes, s.next()...)
			s.clock.Step(time.Second)
		}
		return writes
	}
	if writes := syncs(); slices.ContainsFunc(writes, createsPod) {
		t.Errorf("it does %q, want no Pod", writes)
	}
	s.isDegraded(reasonConflict, "")
	s.destroy("secrets", "demo-glassback")
	s.clock.Step(secretEvery)
	writes := syncs()
	if i, j := slices.Index(writes, "create secrets demo-glassback"), slices.Index(writes, "create pods demo-0"); i < 0 || j < i {
		t.Errorf("it does %q, want the Secret, and then the Pods", writes)
	}
	own, err := s.kube.CoreV1().Secrets("default").Get(t.Context(), "demo-glassback", metav1.GetOptions{})
	must.Succeed(t, err)
	if password := own.StringData["password"] + string(own.Data["password"]); password == "theirs" || len(password) < 20 {
		t.Errorf("the operator's Secret has the password %q", password)
	}

	// Another owner's Secret takes the place of the operator's, less than secretEvery before a Pod is created.
	s.destroy("secrets", "demo-glassback")
	s.add(accountSecret("theirs", theirs))
	s.destroy("pods", "demo-0")
	s.destroy("pods", "demo-1")
	if writes, _, err := s.sync(); err == nil || slices.ContainsFunc(writes, createsPod) {
		t.Errorf("it does %q (error %v), want no Pod", writes, err)
	}
	if writes := syncs(); slices.ContainsFunc(writes, createsPod) {
		t.Errorf("it does %q, want no Pod", writes)
	}
	s.isDegraded(reasonConflict, "")
}

// TestASecretThatChangesStopsARoll has another Secret take the place of the operator's, less than secretEvery before a Pod is evicted.
// Nodes that refuse the known password make the operator use that of the Secret.
func TestASecretThatChangesStopsARoll(t *testing.T) {
	for sentence, test := range map[string]struct {
		now    *corev1.Secret
		evicts bool
	}{
		"the same password":     {accountSecret(accountPassword), true},
		"another password":      {accountSecret("another"), false},
		"another owner's":       {accountSecret(accountPassword, theirs), false},
		"no password, no owner": {accountSecret(""), false},
	} {
		t.Run(sentence, func(t *testing.T) {
			o := read(with(six(), people(aUser("default", openRules, ""))))
			have(atStart, 0)(o)
			s := newStage(t, o)
			s.users, s.password = o.Members[0].users, accountPassword
			s.add(accountSecret(accountPassword))
			s.settle()
			s.destroy("secrets", "demo-glassback")
			s.add(test.now)
			s.edit(func(rdc *v1.RedisCluster) { rdc.Spec.Image = "redis:another" })
			var writes []string
			for range 5 {
				some, _, _ := s.sync()
				writes = append(writes, some...)
				s.catchUp()
			}
			if slices.Contains(writes, "evict pods demo-3") != test.evicts {
				t.Errorf("it does %q", writes)
			}
			if test.evicts {
				return
			}
			s.isDegraded(reasonConflict, "")
			logsIn := func(refused int, password string) {
				t.Helper()
				known := s.controller.sessions.get(s.rdc()).secrets[manifest.AccountRef(s.rdc())]
				if known.accepted != (password == accountPassword) || (sentence == "another password" && known.text != password) {
					t.Errorf("after %d nodes refused it, the operator logs in with %q (accepted: %t)", refused, known.text, known.accepted)
				}
			}
			logsIn(0, accountPassword)
			for i, want := range []string{accountPassword, accountPassword, accountPassword, "another"} {
				s.errs[ipOf(i)] = redisnode.ErrPassword
				for range 2 {
					s.clock.Step(secretEvery)
					_, _, _ = s.sync()
					s.catchUp()
				}
				logsIn(i+1, want)
			}
		})
	}
}

// TestARejectedSecret has the API server reject the Secret of the operator's user. The operator reports that, tries again after some time,
// and creates the Pods after the Secret. An error that is no answer leads to an error of the sync, which is tried again at once.
func TestARejectedSecret(t *testing.T) {
	s := newStage(t, with(six(), clearStatus, noPod(all...)))
	secrets := schema.GroupResource{Resource: "secrets"}
	var answer func(password string) error
	s.kube.PrependReactor("create", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if answer == nil {
			return false, nil, nil
		}
		return true, nil, answer(string(action.(clienttesting.CreateAction).GetObject().(*corev1.Secret).Data["password"]))
	})
	s.edit(withUsers(aUser("default", openRules, "")))
	step := func(fails bool, want ...string) {
		t.Helper()
		writes, _, err := s.sync()
		s.catchUp()
		got := slices.DeleteFunc(writes, func(w string) bool { return !createsPod(w) && !strings.HasPrefix(w, "create secrets") })
		if !slices.Equal(got, want) || (err != nil) != fails {
			t.Errorf("it does %q (error %v), want %q", got, err, want)
		}
		s.clock.Step(2 * textEvery)
	}
	const create = "create secrets demo-glassback"
	step(false) // The other children come first.
	answer = func(password string) error {
		return apierrors.NewInternalError(fmt.Errorf("a webhook quotes %s, %v and %s", password, []byte(password),
			base64.StdEncoding.EncodeToString([]byte(password))))
	}
	step(true, create)
	if _, _, err := s.sync(); err == nil || !strings.Contains(err.Error(), "quotes …, […] and …") {
		t.Errorf("error %v", err)
	}
	for message, reject := range map[string]func(password string) error{
		"exceeded quota": func(string) error {
			return apierrors.NewForbidden(secrets, "demo-glassback", errors.New("exceeded quota: few"))
		},
		"a policy": func(string) error { return apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "a policy", nil) },
		"with …": func(password string) error {
			return apierrors.NewBadRequest("a webhook denied an object with " + password)
		},
	} {
		answer = reject
		step(false, create)
		step(false)
		s.isDegraded(reasonNoSecret, message)
		s.clock.Step(secretEvery)
	}
	answer = nil
	step(false, create)
	step(false, every("create pods demo-%d", all...)...)
	step(false)
	if c := s.is(glassback.ConditionDegraded); strings.Contains(c.Message, "Secret") {
		t.Errorf("Degraded is %s: %s", c.Reason, c.Message)
	}
}
