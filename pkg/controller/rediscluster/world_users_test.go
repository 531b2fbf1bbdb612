// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

// worldClock is the clock of the operator in a world.
type worldClock struct {
	clock.RealClock
	w *world
}

func (c worldClock) Now() time.Time                  { return c.RealClock.Now().Add(time.Duration(c.w.shift.Load())) }
func (c worldClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// later lets the clock of the operator go on.
func (w *world) later(by time.Duration) { w.shift.Add(int64(by)) }

// login returns how the operator logs in to the node of a Pod.
func (w *world) login(p *corev1.Pod) redisnode.Login {
	if hasAccount(p) {
		return redisnode.Login{User: v1.UserOperator, Password: w.text(passwordRefOf(p))}
	}
	return redisnode.Login{Password: w.password}
}

// text returns the password in a Secret.
func (w *world) text(ref *v1.SecretKeyReference) string {
	secret, err := w.kube.Tracker().Get(corev1.SchemeGroupVersion.WithResource("secrets"), "default", ref.Name)
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimRight(string(secret.(*corev1.Secret).Data[ref.Key]), "\n")
}

// makeUsers does what users.sh does, and returns the directives of it.
func (w *world) makeUsers(p *corev1.Pod) []string {
	if w.dirs["users "+string(p.UID)] == "" {
		w.dirs["users "+string(p.UID)] = w.t.TempDir()
	}
	file, password := filepath.Join(w.dirs["users "+string(p.UID)], "users.acl"), w.text(passwordRefOf(p))
	lines := []string{"user default off"}
	if text, err := os.ReadFile(file); err == nil {
		lines = slices.DeleteFunc(strings.Split(strings.TrimSpace(string(text)), "\n"), func(line string) bool {
			return strings.HasPrefix(line, "user glassback ")
		})
	}
	lines = append(lines, "user glassback on #"+redisnode.HashPassword(password)+" ~* &* +@all")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return []string{"aclfile " + file, "masterauth " + password}
}

// setSecret creates a Secret with a password, or changes it.
func (w *world) setSecret(name, password string) {
	w.t.Helper()
	w.byPerson(func() {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"password": []byte(password)}}
		_, err := w.kube.CoreV1().Secrets("default").Create(context.Background(), secret, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			_, err = w.kube.CoreV1().Secrets("default").Update(context.Background(), secret, metav1.UpdateOptions{})
		}
		if err != nil {
			w.t.Fatal(err)
		}
	})
}

// accepts checks which nodes accept a login: all of them, or none.
func (w *world) accepts(login redisnode.Login, want bool) {
	w.t.Helper()
	for _, p := range w.pods() {
		if err := w.tryLogin(p, login); (err == nil) != want {
			w.t.Errorf("%s, login as %q: %v, want it accepted: %t", p.Name, login.User, err, want)
		}
	}
}

func (w *world) tryLogin(p *corev1.Pod, login redisnode.Login) error {
	client := redis.NewClient(&redis.Options{
		Addr: fmt.Sprintf("%s:%d", p.Status.PodIP, redistest.DefaultPort), Username: login.User, Password: login.Password, MaxRetries: -1,
	})
	defer client.Close()
	err := client.Get(context.Background(), "no-such-key").Err()
	if err != nil && (errors.Is(err, redis.Nil) || strings.HasPrefix(err.Error(), "MOVED")) {
		return nil
	}
	return err
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

// TestUsersAreAddedAndRemoved adds users to a running cluster without any, closes it for others, changes a password, and takes all of
// it back, while clients write.
func TestUsersAreAddedAndRemoved(t *testing.T) {
	t.Parallel()
	for sentence, lives := range map[string]func() func(int) bool{
		"in one life":                     nil,
		"though every life has one write": oneWrite,
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "users")
			w.ready("the cluster to be formed")
			if lives != nil {
				w.lives = lives()
			}
			before, load := w.uids(), w.load(t)
			w.setSecret("app", "first-password")
			app := redisnode.Login{User: "app", Password: "first-password"}

			w.change(withUsers(aUser("default", openRules, ""), aUser("app", "~* +@all", "app")))
			w.ready("the users")
			for name, uid := range w.uids() {
				if uid == before[name] {
					t.Errorf("%s was not replaced", name)
				}
			}
			w.accepts(app, true)
			w.accepts(redisnode.Login{}, true)
			if lost := load.lost(); lost > 0 {
				t.Errorf("%d keys lost what was acknowledged", lost)
			}

			before, w.as = w.uids(), app
			load = w.load(t)
			w.change(withUsers(aUser("default", "off", ""), aUser("app", "~* +@all", "app")))
			w.ready("the cluster to be closed")
			w.accepts(redisnode.Login{}, false)
			w.accepts(app, true)

			w.setSecret("app", "second-password")
			w.later(secretEvery)
			newer := redisnode.Login{User: "app", Password: "second-password"}
			w.until("the new password", func() bool {
				return !slices.ContainsFunc(w.pods(), func(p *corev1.Pod) bool { return w.tryLogin(p, newer) != nil })
			})
			w.accepts(app, true)
			w.sync()
			w.later(time.Minute)
			w.until("the old password to be invalid", func() bool {
				return !slices.ContainsFunc(w.pods(), func(p *corev1.Pod) bool { return w.tryLogin(p, app) == nil })
			})
			w.accepts(newer, true)
			w.ready("the new password alone")

			// A container that restarts has its users before the operator notices.
			w.servers[w.pod("users-1").UID].Kill()
			w.kubelet()
			if err := w.tryLogin(w.pod("users-1"), newer); err != nil {
				t.Errorf("after a restart: %v", err)
			}
			if err := w.tryLogin(w.pod("users-1"), redisnode.Login{}); err == nil {
				t.Error("after a restart, anyone can log in")
			}
			w.until("all nodes to be connected", func() bool {
				return !slices.ContainsFunc(w.pods(), func(p *corev1.Pod) bool {
					return slices.ContainsFunc(w.view(p.Name).Table, func(e redisnode.Entry) bool { return !e.Connected && !e.Myself })
				})
			})
			w.ready("the cluster after the restart")
			if after := w.uids(); !maps.Equal(after, before) {
				t.Errorf("Pods were replaced: %v, and before %v", after, before)
			}

			w.as = newer // The writer has an open connection since the first one.
			w.change(withUsers())
			w.ready("no users")
			w.as = redisnode.Login{}
			w.accepts(redisnode.Login{}, true)
			for _, p := range w.pods() {
				if hasAccount(p) {
					t.Errorf("%s still has the operator's user", p.Name)
				}
			}
			if lost := load.lost(); lost > 0 {
				t.Errorf("%d keys lost what was acknowledged", lost)
			}
			t.Logf("%d lives, %d writes, events: %q", w.deaths+1, len(w.all), w.takeEvents())
			if text := strings.Join(w.takeEvents(), " ") + w.describe(); strings.Contains(text, "password") && strings.Contains(text, "-password") {
				t.Errorf("a password is in %s", text)
			}
		})
	}
}

// TestUsersThatAreOff opens connections as two users, switches one off and removes the other. Their connections end, and no link between
// nodes does.
func TestUsersThatAreOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "users", calm, withUsers(
		aUser("default", openRules, ""), aUser("app", "~* &* +@all", "app"), aUser("job", "~* &* +@all", "app")))
	w.setSecret("app", "app-password")
	w.ready("the cluster to be formed")
	connect := func(user, password string) *redis.PubSub {
		client := redis.NewClient(&redis.Options{
			Addr: w.servers[w.pod("users-1").UID].Address(), Username: user, Password: password, MaxRetries: -1,
		})
		t.Cleanup(func() { client.Close() })
		subscription := client.Subscribe(t.Context(), "news")
		if _, err := subscription.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		return subscription
	}
	connections := func(user string) string { // Of all nodes, by their IDs.
		var all []string
		for _, p := range w.pods() {
			login := w.login(p)
			client := redis.NewClient(&redis.Options{
				Addr: w.servers[p.UID].Address(), Username: login.User, Password: login.Password, MaxRetries: -1,
			})
			list, err := client.ClientList(t.Context()).Result()
			client.Close()
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(list) {
				id, _, _ := strings.Cut(line, " ")
				if link := strings.Contains(line, " flags=S") && user == "links"; link || strings.Contains(line, " user="+user+" ") {
					all = append(all, p.Name+" "+id)
				}
			}
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	}
	connect("", "")
	connect("app", "app-password")
	connect("job", "app-password")
	links := connections("links")
	if links == "" || connections("app") == "" || connections("job") == "" {
		t.Fatalf("the links are %q, the connections of app %q, of job %q", links, connections("app"), connections("job"))
	}
	w.change(withUsers(aUser("default", "off", ""), aUser("app", "~* &* +@all off", "app")))
	w.ready("one user off, and one gone")
	for _, user := range []string{"default", "app", "job"} {
		if left := connections(user); left != "" {
			t.Errorf("%s has the connections %s", user, left)
		}
	}
	if after := connections("links"); after != links {
		t.Errorf("the links were %s, and are %s", links, after)
	}
	w.checkOnlyStatusWrites(t)
}

// TestAForeignSecretStopsOnlyPods has another owner's Secret take the place of the operator's in a running cluster. A master is lost, and a
// user is switched off: all of that continues, but no Pod is created until the operator's Secret is there again.
func TestAForeignSecretStopsOnlyPods(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "users", withUsers(aUser("default", "off", ""), aUser("app", "~* +@all", "app")))
	w.setSecret("app", "app-password")
	w.ready("the cluster to be formed")
	secrets, ref := w.kube.CoreV1().Secrets("default"), accountRef(w.rdc())
	account := w.text(&ref)
	remove := func() {
		if err := secrets.Delete(t.Context(), ref.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.byPerson(func() {
		remove()
		owner := metav1.OwnerReference{UID: "theirs", Name: "theirs", Kind: "Certificate", Controller: ptr.To(true)}
		_, err := secrets.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: ref.Name, OwnerReferences: []metav1.OwnerReference{owner}},
			Data:       map[string][]byte{ref.Key: []byte("theirs")},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	})
	w.later(secretEvery)
	w.until("the Secret to be reported", func() bool { return w.condition(glassback.ConditionDegraded).Reason == reasonConflict })
	lost, writes := w.rdc().Status.Shards[0].Master, len(w.all)
	w.deletePods(lost)
	w.change(withUsers(aUser("default", "off", ""), aUser("app", "~* +@all off", "app")))
	w.until("a replica to take over, and the user to be off", func() bool {
		for _, p := range w.pods() {
			node := Dial(p.Status.PodIP, redistest.DefaultPort, redisnode.Login{User: v1.UserOperator, Password: account})
			users, err := node.Users(t.Context())
			node.Close()
			if err != nil || !strings.HasPrefix(users["app"].Rules, "off ") {
				return false
			}
		}
		return w.condition(v1.ConditionSlotsCovered).Status == metav1.ConditionTrue &&
			!slices.ContainsFunc(w.rdc().Status.Shards, func(s v1.Shard) bool { return s.Master == lost })
	})
	if slices.Contains(w.all[writes:], "create pods") {
		t.Error("a Pod was created")
	}
	w.byPerson(remove)
	w.later(secretEvery)
	w.ready("the Secret, and the Pod")
	if w.text(&ref) != account {
		t.Error("the Secret has another password")
	}
}

// TestUsersWithAPassword replaces authSecretRef by users, and back, while a client writes with the same password.
func TestUsersWithAPassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "users", storage, func(rdc *v1.RedisCluster) { rdc.Spec.AuthSecretRef = &v1.SecretKeyReference{Name: "password"} })
	w.password = "the servers have this"
	w.setSecret("password", w.password)
	w.ready("the cluster to be formed")
	load := w.load(t)
	w.change(withUsers(aUser("default", "~* &* +@all", "password")))
	w.ready("the users")
	w.accepts(redisnode.Login{}, false)
	w.change(func(rdc *v1.RedisCluster) {
		rdc.Spec.Users, rdc.Spec.AuthSecretRef = nil, &v1.SecretKeyReference{Name: "password", Key: "password"}
	})
	w.ready("the password alone")
	w.accepts(redisnode.Login{}, false)
	if lost := load.lost(); lost > 0 {
		t.Errorf("%d keys lost what was acknowledged", lost)
	}
}

// TestACrashBeforeUsersAreSaved ends the life of the operator before it saves the users of a node. The next one saves them: else, a
// container that restarts would have the users of before.
func TestACrashBeforeUsersAreSaved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "users", withUsers(aUser("default", openRules, "")))
	w.ready("the cluster to be formed")
	died := false
	w.lives = func(int) bool {
		if w.last != "ACL SAVE" || died {
			return true
		}
		died = true
		return false
	}
	w.change(withUsers(aUser("default", "off", "")))
	w.ready("the cluster to be closed")
	for _, p := range w.pods() {
		text, err := os.ReadFile(filepath.Join(w.dirs["users "+string(p.UID)], "users.acl"))
		if err != nil || strings.Contains(string(text), "nopass") {
			t.Errorf("%s begins with the users %q, error %v; want the user default off", p.Name, text, err)
		}
	}
	if !died {
		t.Error("no life ended")
	}
}

// TestUsersFromTheBeginning forms a cluster with users and changes them, also to what Redis refuses; then it scales.
func TestUsersFromTheBeginning(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "users", withUsers(aUser("default", "off", ""), aUser("app", "~* +@all", "app")))
	w.until("the Secret to be missed", func() bool { return w.condition(glassback.ConditionDegraded).Reason == reasonNoPassword })
	w.setSecret("app", "first-password")
	w.later(secretEvery)
	w.as = redisnode.Login{User: "app", Password: "first-password"}
	w.ready("the cluster to be formed")
	w.accepts(w.as, true)
	w.accepts(redisnode.Login{}, false)
	if account := w.text(ptr.To(accountRef(w.rdc()))); len(account) < 20 {
		t.Errorf("the operator's password has %d characters", len(account))
	}
	w.checkOnlyStatusWrites(t)

	// Another operator finds nothing to do.
	writes := len(w.all)
	w.newOperator()
	for range 5 {
		w.sync()
	}
	if len(w.all) > writes {
		t.Errorf("a new operator writes %q", w.all[writes:])
	}

	// A user of another client is deleted, and a change by it undone.
	node := w.node("users-2")
	for name, rules := range map[string][]string{
		"stranger": {"on", "nopass", "+@all"}, "app": {"-@all"}, v1.UserOperator: {">theirs", "(~theirs +get)"},
	} {
		if err := node.SetUser(t.Context(), name, rules); err != nil {
			t.Fatal(err)
		}
	}
	w.until("the stranger to be gone", func() bool {
		users, err := node.Users(t.Context())
		_, there := users["stranger"]
		own := users[v1.UserOperator]
		return err == nil && !there && strings.Contains(users["app"].Rules, "+@all") && len(own.Hashes) == 1 &&
			!strings.Contains(own.Rules, "theirs")
	})
	node.Close()

	w.change(withUsers(aUser("default", "off", ""), aUser("app", "~* +@all", "app"), aUser("bad", "off +no-such-command", "")))
	w.until("the rules to be refused", func() bool { return w.condition(glassback.ConditionDegraded).Reason == reasonUser })
	w.checkOnlyStatusWrites(t)
	if message := w.condition(glassback.ConditionReady).Message; !strings.Contains(message, "user bad: modifier '+no-such-command'") {
		t.Errorf("Ready is %q", message)
	}
	load := w.load(t)
	w.change(func(rdc *v1.RedisCluster) {
		rdc.Spec.Users = rdc.Spec.Users[:2]
		rdc.Spec.Size = ptr.To[int32](8)
	})
	w.ready("two more nodes")
	w.accepts(w.as, true)
	w.accepts(redisnode.Login{}, false)

	// The operator knows the password of a Secret that a person deletes. Another one does not.
	remove := func() {
		w.byPerson(func() {
			if err := w.kube.CoreV1().Secrets("default").Delete(t.Context(), accountRef(w.rdc()).Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
	lost := w.text(ptr.To(accountRef(w.rdc())))
	remove()
	w.later(secretEvery)
	w.until("the Secret to be there again", func() bool { return w.all[len(w.all)-1] == "create secrets" })
	if w.text(ptr.To(accountRef(w.rdc()))) != lost {
		t.Error("the Secret has another password")
	}
	w.ready("the cluster with the Secret")
	remove()
	w.newOperator()
	w.until("the loss of the Secret to be reported", func() bool { return w.condition(glassback.ConditionDegraded).Reason == reasonNoAccount })
	w.checkOnlyStatusWrites(t)
	w.setSecret(accountRef(w.rdc()).Name, lost+"\n")
	w.later(secretEvery)
	w.ready("the Secret that a person made")
	if lost := load.lost(); lost > 0 {
		t.Errorf("%d keys lost what was acknowledged", lost)
	}
}
