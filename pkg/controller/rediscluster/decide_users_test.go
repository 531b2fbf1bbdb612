// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/recording/recordtest"
	"github.com/glassback/glassback/pkg/redisnode"
)

// The passwords of users in tests, by Secret.
var passwordOf = map[string]string{"app": "app-password", "redis": "redis-password"}

const accountPassword = "account-password"

// people has the spec have these users, and the Pods be as the spec says.
func people(users ...v1.User) alter {
	return func(o *observed) {
		withUsers(users...)(o.rdc)
		for i, m := range o.members {
			again := pod(o.rdc, i)
			m.pod.Spec, m.pod.Annotations = again.Spec, again.Annotations
		}
	}
}

// withoutAccount has Pods be from before the spec had users. They read a password if secret is not "".
func withoutAccount(secret string, ordinals ...int) alter {
	return func(o *observed) {
		before := *o.rdc.DeepCopy()
		if before.Spec.Users = nil; secret != "" {
			before.Spec.AuthSecretRef = &v1.SecretKeyReference{Name: secret, Key: "password"}
		}
		for _, i := range ordinals {
			again := pod(&before, i)
			o.members[i].pod.Spec, o.members[i].pod.Annotations = again.Spec, again.Annotations
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
			m := o.members[i]
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

func TestDecideUsers(t *testing.T) {
	closed, open := aUser("default", "off", ""), aUser("default", openRules, "")
	app := aUser("app", "~* +@all", "app")
	settled := map[string][]string{"glassback": {accountPassword}, "default": nil, "app": {"app-password"}}
	but := func(name string, passwords ...string) map[string][]string {
		changed := maps.Clone(settled)
		changed[name] = passwords
		return changed
	}
	for sentence, test := range map[string]struct {
		o      *observed
		want   []string // commands of users
		policy string
	}{
		"as the spec says": {with(six(), people(closed, app), reading, have(settled, all...)), nil, ""},
		"new nodes": {with(six(), people(closed, app), reading, have(map[string][]string{"glassback": {accountPassword}, "default": nil}, 4)),
			[]string{"set users of demo-4 app"}, "waitForUsers"},
		"one user less": {with(six(), people(closed), reading, have(settled, all...)), []string{
			"set users of demo-0 app", "set users of demo-1 app", "set users of demo-2 app", "set users of demo-3 app", "set users of demo-4 app",
			"set users of demo-5 app",
		}, "waitForUsers"},
		"a user of another client": {with(six(), people(closed, app), reading, have(settled, all...), have(but("stranger"), 2)),
			[]string{"set users of demo-2 stranger"}, "waitForUsers"},
		"rules that another client changed": {with(six(), people(closed, app), reading, have(settled, all...), func(o *observed) {
			user := o.members[3].users["app"]
			user.Rules = "the rules of another"
			o.members[3].users["app"] = user
		}), []string{"set users of demo-3 app default"}, "waitForUsers"},
		"another client gave the operator's user a password": {with(six(), people(closed, app), reading, have(settled, all...),
			have(but("glassback", accountPassword, "theirs"), 3)), []string{"set users of demo-3 app default"}, "waitForUsers"},
		"another client changed the rules of the operator's user": {with(six(), people(closed, app), reading, have(settled, all...),
			func(o *observed) {
				own := o.members[3].users[v1.UserOperator]
				own.Rules = "sanitize-payload " + own.Rules
				o.members[3].users[v1.UserOperator] = own
			}), []string{"set users of demo-3 app default"}, "waitForUsers"},
		"a new node while two passwords are valid": {with(six(), people(closed, app), reading,
			have(but("app", "old-password", "app-password"), all...),
			have(map[string][]string{"glassback": {accountPassword}, "default": nil}, 4)), []string{"set users of demo-4 app"}, "waitForUsers"},
		"no Pod is replaced by one without a user": {with(six(), people(closed, aUser("app", "~* +@all", "none")), reading,
			have(but("app", "old-password"), all...), podIs(old, 3)), nil, "rollPods waits"},
		"no Pod is replaced while the user default would have no password afterwards": {
			with(six(), people(aUser("default", "~* +@all", "none"), app), withoutAccount("", 3), reading, have(settled, all...)),
			nil, "rollPods waits"},
		"no Pod is replaced after its image has refused rules": {with(six(), people(closed, app), reading,
			refusing("app", ""), have(settled, all...), podIs(old, 3)), nil, "rollPods waits"},
		"no replica is replaced to become a master without a user": {
			with(six(), people(closed, aUser("app", "~* +@all", "none")), reading, have(but("app", "old-password"), all...),
				func(o *observed) { o.rdc.Spec.ReplicasPerMaster = new(int32) }), nil, "balanceSlots waits"},
		"another image accepts rules that the nodes refused": {with(six(), people(closed, app), reading, podIs(old, all...),
			refusing("app", "redis:before"), podIs(image("redis:before"), 0, 1, 2, 3, 5), have(settled, all...),
			have(map[string][]string{"glassback": {accountPassword}, "default": nil}, 4)),
			[]string{"set users of demo-4 app"}, "waitForUsers"},
		"another password": {with(six(), people(closed, app), reading, have(but("app", "old-password"), 1), have(settled, 0, 2, 3, 4, 5)),
			[]string{"set users of demo-1 app"}, "waitForUsers"},
		"both passwords are everywhere": {
			with(six(), people(closed, app), reading, have(but("app", "old-password", "app-password"), all...)), nil, "",
		},
		"the old password was kept long enough": {
			with(six(), people(closed, app), reading, have(settled, all...), have(but("app", "old-password", "app-password"), 5),
				func(o *observed) { o.retired = map[string]bool{"app": true} }),
			[]string{"set users of demo-5 app"}, "waitForUsers",
		},
		"a Secret that is missing leaves its user alone": {
			with(six(), people(closed, aUser("app", "~* +@all", "none")), reading, have(but("app", "old-password"), all...)), nil, "",
		},
		"but not if the user is off": {
			with(six(), people(closed, aUser("app", "~* +@all off", "none")), reading, have(settled, 0, 1, 2, 4, 5), have(but("app"), all[:5]...),
				have(but("app", "old-password"), 5)), []string{"set users of demo-5 app"}, "waitForUsers"},
		"a node that is not asked": {
			with(six(), people(closed, app), reading, have(settled, all...), silenced(time.Second, 3),
				func(o *observed) { o.members[3].users = nil }),
			nil, "waitForReplicas",
		},
		"before the first Pod is replaced, all nodes have the operator's user": {
			with(six(), people(closed, app), withoutAccount("", all...), reading,
				have(map[string][]string{"default": nil}, 0), have(settled, 1, 2, 3, 4, 5)),
			[]string{"set users of demo-0 glassback"}, "waitForUsers",
		},
		"then they are replaced": {
			with(six(), people(closed, app), withoutAccount("", all...), reading, have(settled, all...)), nil, "rollPods",
		},
		"users go: the user default is open before a Pod is replaced": {
			with(six(), people(closed, app), gone, reading, have(settled, all...),
				func(o *observed) { o.members[3].users["default"] = redisnode.User{} }),
			[]string{"set users of demo-3 default"}, "waitForUsers",
		},
		"users go: Pods are replaced": {with(six(), people(open, app), gone, reading, have(settled, all...)), nil, "rollPods"},
		"users go, but the Secret of the password is missing: no Pod is replaced": {
			with(six(), people(open, app), gone, reading, have(settled, all...), func(o *observed) {
				o.rdc.Spec.AuthSecretRef = &v1.SecretKeyReference{Name: "none", Key: "password"}
			}, reading), nil, "rollPods waits"},
	} {
		t.Run(sentence, func(t *testing.T) {
			test.o.markUsers()
			p := decide(test.o)
			var got []string
			for _, c := range p.upkeep {
				if c.verb == setUsers {
					got = append(got, c.String())
				}
			}
			recordtest.Check(t, Decisions, test.o, p)
			if (p.policy == "rollPods" || p.policy == "balanceSlots") && len(p.commands) == 0 {
				p.policy += " waits"
			}
			if !slices.Equal(got, test.want) || p.policy != test.policy {
				t.Errorf("got %q by %q (%s), want %q by %q", got, p.policy, p.step, test.want, test.policy)
			}
		})
	}
}

// TestDecideAccount is about a Secret of the operator's user that does not exist, or that no Pod can mount. Only the creation of Pods
// waits for it. So no Pod is deleted either that would have to be created again.
func TestDecideAccount(t *testing.T) {
	closed, app := aUser("default", "off", ""), aUser("app", "~* +@all", "app")
	settled := map[string][]string{"glassback": {accountPassword}, "default": nil, "app": {"app-password"}}
	missing := func(o *observed) { o.accountMissing = true }
	rejected := func(o *observed) { o.accountProblem = &problem{reasonNoSecret, "rejected"} }
	ready := func(o *observed, alters ...alter) *observed {
		return with(o, append([]alter{people(closed, app), reading, have(settled, []int{0, 1, 2, 3, 4, 5, 6}[:len(o.members)]...)}, alters...)...)
	}
	forgets := every("forget demo-%d id-5", 0, 1, 2, 3, 4)
	three := func() *observed { return cluster(master("0-5460"), master("5461-10922"), master("10923-16383")) }
	for sentence, test := range map[string]struct {
		o                *observed
		upkeep, commands []string
		policy           string
	}{
		"it is created before a Pod, and before a node has its password": {
			with(six(), people(closed, app), withoutAccount("", all...), reading, have(map[string][]string{"default": nil}, all...),
				noPod(5), missing),
			[]string{"create Secret"}, forgets, "forgetNodes"},
		"it is lost, and Pods have its password: users are set": {
			ready(six(), have(map[string][]string{"glassback": {accountPassword}, "default": nil}, 4), missing),
			[]string{"create Secret", "set users of demo-4 app"}, nil, "waitForUsers"},
		"it is rejected: nothing else waits":      {ready(six(), rejected), nil, nil, "waitForAccount"},
		"it is rejected: no Pod is created":       {ready(six(), noPod(5), rejected), nil, forgets, "forgetNodes"},
		"it is rejected: no Pod is replaced":      {ready(six(), podIs(old, 3), rejected), nil, nil, "waitForAccount"},
		"it is being created: no Pod is replaced": {ready(six(), podIs(old, 3), missing), []string{"create Secret"}, nil, "waitForAccount"},
		"it is rejected: a Pod that cannot run stays": {
			ready(six(), podIs(both(old, crashing), 3), silenced(time.Hour, 3), rejected), nil, nil, "waitForReplicas"},
		"it is rejected: no replica is replaced to become a master": {
			ready(six(), func(o *observed) { o.rdc.Spec.ReplicasPerMaster = new(int32) }, rejected), nil, nil, "waitForAccount"},
		"it is rejected: no master is emptied": {ready(three(), replicas(0), allOld, rejected), nil, nil, "waitForAccount"},
		"it is rejected: a Pod whose volume is deleted stays": {
			ready(six(), stored, people(closed, app), terminating(3), rejected), nil, nil, "waitForAccount"},
		"it is rejected: a Pod that is not needed is deleted": {ready(sixAnd(replica(0)), sized(6), rejected), nil,
			append(every("forget demo-%d id-6", 0, 1, 2, 3, 4, 5), "delete Pod demo-6"), "removePods"},
		"it is rejected: a replica takes over from a lost master": {
			ready(six(), renewed(0), unlinked(time.Minute, 1000, 3), rejected), nil, []string{"failover demo-3 FORCE"}, "replaceLostMasters"},
		"it is rejected: volumes grow": {
			ready(three(), replicas(0), stored, people(closed, app), have(settled, 0, 1, 2),
				func(o *observed) { o.rdc.Spec.Storage.Size = resource.MustParse("2Gi") }, rejected),
			nil, every("grow claim of demo-%d", 0, 1, 2), "growVolumes"},
		"users are gone: no new Pod needs it": {ready(six(), gone, noPod(5), rejected), []string{"create Pod demo-5"}, forgets, "forgetNodes"},
	} {
		t.Run(sentence, func(t *testing.T) {
			test.o.markUsers()
			p := decide(test.o)
			recordtest.Check(t, Decisions, test.o, p)
			if upkeep, commands := textsOf(p.upkeep), textsOf(p.commands); !slices.Equal(upkeep, test.upkeep) ||
				!slices.Equal(commands, test.commands) || p.policy != test.policy || p.step == "" {
				t.Errorf("got %q and %q by %q (%s), want %q and %q by %q", upkeep, commands, p.policy, p.step, test.upkeep, test.commands, test.policy)
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
		i := slices.IndexFunc(o.rdc.Spec.Users, func(u v1.User) bool { return u.Name == name })
		refused := refusedUser{name, cmp.Or(image, o.rdc.Spec.Image)}
		o.refusals = refusals{refused: {o.rdc.Spec.Users[i].Rules, "demo-0", "modifier '+new'"}}
	}
}

func image(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Image = name }
}

// gone has the spec have no users, with Pods from before.
func gone(o *observed) { o.rdc.Spec.Users = nil }

// TestTheUserDefault checks what the user default may do while Pods with and without the operator's user exist.
func TestTheUserDefault(t *testing.T) {
	closed, app := aUser("default", "off", ""), aUser("app", "~* +@all", "app")
	for sentence, test := range map[string]struct {
		o           *observed
		rules, hash string
	}{
		"all Pods have it":            {with(six(), people(closed, app)), "off", ""},
		"a Pod without a password":    {with(six(), people(closed, app), withoutAccount("", 3)), almostEverything + " nopass", ""},
		"a Pod with a password":       {with(six(), people(closed, app), withoutAccount("redis", 3)), almostEverything, "redis-password"},
		"no users any more":           {with(six(), people(closed, app), gone), almostEverything + " nopass", ""},
		"a password instead of users": {with(six(), people(closed, app), gone, locked), almostEverything, "redis-password"},
		"the same, with a Pod that has one": {
			with(six(), people(closed, app), withoutAccount("redis", 3), gone, locked), almostEverything, "redis-password",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			i := slices.IndexFunc(read(test.o).users, func(u user) bool { return u.name == v1.UserDefault })
			want := user{name: v1.UserDefault, rules: test.rules}
			if test.hash != "" {
				want.hash = redisnode.HashPassword(test.hash)
			}
			got := test.o.users[i]
			if got.keep = 0; got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func locked(o *observed) {
	o.rdc.Spec.AuthSecretRef = &v1.SecretKeyReference{Name: "redis", Key: "password"}
}

// TestANewNodeGetsOldPasswords is about a Pod that is created while two passwords are valid.
func TestANewNodeGetsOldPasswords(t *testing.T) {
	passwords := []string{"old-password", "app-password"}
	both := map[string][]string{"glassback": {accountPassword}, "default": passwords, "app": passwords}
	o := with(six(), people(aUser("default", "~* +@all", "app"), aUser("app", "~* +@all", "app")), reading, have(both, all...))
	atStart := map[string]redisnode.User{"default": {Rules: "off"}}
	for _, u := range o.users {
		if got, want := o.hashes(atStart, u), o.members[0].users[u.name].Hashes; !slices.Equal(got, want) {
			t.Errorf("%s gets %q, want both: %q", u.name, got, want)
		}
		o.retired = map[string]bool{u.name: true}
		if got := o.hashes(atStart, u); !slices.Equal(got, []string{u.hash}) {
			t.Errorf("after the time of the old one %s gets %q, want the new one alone", u.name, got)
		}
	}
}

// TestOldPasswordsAreKept follows the time for which an old password stays valid.
func TestOldPasswordsAreKept(t *testing.T) {
	s := &session{since: map[string]time.Time{}}
	app := aUser("app", "~* +@all", "app")
	look := func(after time.Duration, alters ...alter) bool {
		o := with(six(), append([]alter{people(aUser("default", "off", ""), app), reading}, alters...)...)
		o.now = seenAt.Add(after)
		s.beginFacts()
		s.recallPasswords(o)
		s.endFacts()
		return o.retired["app"]
	}
	with := func(passwords ...string) map[string][]string {
		return map[string][]string{"glassback": {accountPassword}, "default": nil, "app": passwords}
	}
	both := have(with("old-password", "app-password"), all...)
	for _, step := range []struct {
		what   string
		after  time.Duration
		alters []alter
		want   bool
	}{
		{"a node has only the old one", 0, []alter{both, have(with("old-password"), 2)}, false},
		{"not long since", time.Hour, []alter{both}, false},
		{"a node is silent meanwhile", time.Hour + 30*time.Second, []alter{both, func(o *observed) { o.members[1].users = nil }}, false},
		{"long enough, but a node is silent", time.Hour + 61*time.Second, []alter{both, func(o *observed) { o.members[1].users = nil }}, false},
		{"long enough", time.Hour + 62*time.Second, []alter{both}, true},
		{"one node is left", time.Hour + 63*time.Second,
			[]alter{have(with("app-password"), all...), have(with("old-password", "app-password"), 4)}, true},
		{"none is left", time.Hour + 64*time.Second, []alter{have(with("app-password"), all...)}, false},
		{"another change", 3 * time.Hour, []alter{both}, false},
	} {
		if got := look(step.after, step.alters...); got != step.want {
			t.Errorf("%s: retired is %t", step.what, got)
		}
	}
}
