/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

// Node is what the controller asks of one redis-server: see redisnode.Node.
type Node interface {
	View(ctx context.Context) (*redisnode.View, error)
	Meet(ctx context.Context, ip string, port, busPort int) error
	Forget(ctx context.Context, id string) error
	AddSlots(ctx context.Context, slots redisnode.Slots) error
	Replicate(ctx context.Context, masterID string) error
	Failover(ctx context.Context, how redisnode.Failover) error
	SetSlots(ctx context.Context, slots redisnode.Slots, how redisnode.SlotState, id string) error
	Keys(ctx context.Context, slots redisnode.Slots, most int) (map[int][]string, error)
	Migrate(ctx context.Context, ip string, port int, password string, timeout time.Duration, keys []string) error
	Libraries(ctx context.Context) (map[string]string, error)
	DumpFunctions(ctx context.Context) (string, error)
	RestoreFunctions(ctx context.Context, dump string) error
	Close()
}

// DialFunc returns the Node at an address. It connects with the first request.
type DialFunc func(ip string, port int, password string) Node

// Dial is the DialFunc of real redis-servers.
func Dial(ip string, port int, password string) Node { return redisnode.Dial(ip, port, password) }

// passwordAge is how long a password that a node refused is not asked for again.
const passwordAge = 10 * time.Second

// sessions are what is remembered of every RedisCluster from one sync to the next. All of
// it can be lost: it spares connections, and says how long something has been so.
type sessions struct {
	kube  kubernetes.Interface
	dial  DialFunc
	clock clock.PassiveClock

	mu    sync.Mutex
	byKey map[cache.ObjectName]*session
}

// session is what is remembered of one RedisCluster. The queue sees to it that only one
// sync at a time uses it.
type session struct {
	uid   types.UID
	conns map[types.UID]conn // by Pod

	secret   v1.SecretKeyReference
	password string
	read     time.Time // when the password was; zero if there is none
	refused  bool      // whether a node has refused it

	reported time.Time // when the status was written
	failure  error     // what came of the last commands
	held     string    // why the last eviction was refused; "" if it was not
	acted    time.Time // when there were commands, or nothing was to be done

	linked  map[string]link      // by the ID of each replica
	reached map[string]time.Time // when a member was last connected to a node, by its ID

	since map[string]time.Time // when something was first seen, by what
	seen  map[string]bool      // what was seen in this sync
}

// link is when a replica was last seen to be linked to its master.
type link struct {
	master string // its ID
	at     time.Time
}

// conn is the connection to a Pod.
type conn struct {
	Node
	ip       string
	password string
}

// of returns the session of a RedisCluster.
func (s *sessions) of(rdc *v1.RedisCluster) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := cache.MetaObjectToName(rdc)
	mine := s.byKey[key]
	if mine == nil || mine.uid != rdc.UID {
		if mine != nil {
			mine.close()
		}
		mine = &session{uid: rdc.UID, conns: map[types.UID]conn{},
			linked: map[string]link{}, reached: map[string]time.Time{}, since: map[string]time.Time{}}
		s.byKey[key] = mine
	}
	return mine
}

// forget drops the session of a RedisCluster that is gone.
func (s *sessions) forget(key cache.ObjectName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mine := s.byKey[key]; mine != nil {
		mine.close()
	}
	delete(s.byKey, key)
}

// close closes all sessions.
func (s *sessions) close() {
	for _, key := range s.keys() {
		s.forget(key)
	}
}

func (s *sessions) keys() []cache.ObjectName {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []cache.ObjectName
	for key := range maps.Keys(s.byKey) {
		all = append(all, key)
	}
	return all
}

func (s *session) close() {
	for _, c := range s.conns {
		c.Close()
	}
}

// errNoPassword says that the Secret does not hold the password.
type errNoPassword string

func (e errNoPassword) Error() string { return string(e) }

// authenticate reads the password, if it was not read yet, or a node has refused it.
func (s *sessions) authenticate(ctx context.Context, rdc *v1.RedisCluster, mine *session) error {
	ref := rdc.Spec.AuthSecretRef
	if ref == nil {
		mine.secret, mine.password, mine.read = v1.SecretKeyReference{}, "", time.Time{}
		return nil
	}
	fresh := !mine.read.IsZero() && mine.secret == *ref
	if fresh && (!mine.refused || s.clock.Since(mine.read) < passwordAge) {
		return nil
	}
	secret, err := s.kube.CoreV1().Secrets(rdc.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get Secret %s, which has the password: %w", ref.Name, err)
	}
	// As the scripts read it: "kubectl create secret --from-file" has the newline of the file.
	password := strings.TrimRight(string(secret.Data[ref.Key]), "\n")
	if password == "" {
		return errNoPassword(fmt.Sprintf("Secret %s has no password in %s: set it, or name another key in spec.authSecretRef", ref.Name, ref.Key))
	}
	mine.secret, mine.password, mine.read, mine.refused = *ref, password, s.clock.Now(), false
	return nil
}

// node returns the connection to a Pod of the RedisCluster.
func (s *sessions) node(rdc *v1.RedisCluster, pod *corev1.Pod) Node {
	mine := s.of(rdc)
	c, ok := mine.conns[pod.UID]
	if ok && (c.ip != pod.Status.PodIP || c.password != mine.password) {
		c.Close()
		ok = false
	}
	if !ok {
		c = conn{Node: s.dial(pod.Status.PodIP, listens(rdc, pod), mine.password), ip: pod.Status.PodIP, password: mine.password}
		mine.conns[pod.UID] = c
	}
	return c.Node
}

// keep closes the connections to all but these Pods.
func (s *session) keep(pods map[types.UID]bool) {
	for uid, c := range s.conns {
		if !pods[uid] {
			c.Close()
			delete(s.conns, uid)
		}
	}
}

// lasting returns for how long something has been so, by all syncs up to this one. At
// first that is a moment, and not nothing.
func (s *session) lasting(what string, now time.Time) time.Duration {
	first, ok := s.since[what]
	if !ok {
		first = now
		s.since[what] = now
	}
	s.seen[what] = true
	return max(now.Sub(first), 1)
}

// links notes which replicas are linked to their masters, and says of the others for how
// long they have not been. One that was restarted since does not know that itself.
func (s *session) links(o *observed) {
	for _, m := range o.answering() {
		if m.view.Master {
			continue
		}
		id := m.self().MasterID
		if m.view.LinkUp {
			s.linked[m.id] = link{id, o.now}
			continue
		}
		m.unlinked = m.view.LinkDown
		if was, ok := s.linked[m.id]; ok && was.master == id && (m.unlinked < 0 || o.now.Sub(was.at) < m.unlinked) {
			m.unlinked = o.now.Sub(was.at)
		}
	}
	maps.DeleteFunc(s.linked, func(id string, _ link) bool { return o.byID[id] == nil })
}

// misses notes which nodes a member is connected to, and says of the others for how long
// none has been, and whether that is all of the time.
func (s *session) misses(o *observed) {
	for id, n := range o.nodes {
		if !o.dead(id) {
			s.reached[id] = o.now
			continue
		}
		n.missed = s.lasting("missed "+id, o.now)
		n.witnessed = o.now.Sub(s.reached[id])-n.missed <= o.patience()
	}
	if len(o.answering()) > 0 {
		maps.DeleteFunc(s.reached, func(id string, _ time.Time) bool { return o.nodes[id] == nil })
	}
}

// begin is called before a sync looks for what lasts, and end after it: what it did not
// see has ended.
func (s *session) begin() { s.seen = map[string]bool{} }

func (s *session) end() {
	for what := range s.since {
		if !s.seen[what] {
			delete(s.since, what)
		}
	}
}

// acts notes what came of a plan: why an eviction was refused, "" if none was, and the error of
// what failed.
func (s *session) acts(p plan, held string, err error, now time.Time) {
	s.held, s.failure = held, err
	if err == nil {
		delete(s.since, failing)
	} else if _, ok := s.since[failing]; !ok {
		s.since[failing] = now
	}
	if !p.waits() || s.acted.IsZero() {
		s.acted = now
	}
}
