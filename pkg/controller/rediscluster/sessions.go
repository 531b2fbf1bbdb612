// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/recording"
	"github.com/glassback/glassback/pkg/redisnode"
)

// Node is the connection to one redis-server: see redisnode.Node. fakeNode and countingNode, for tests, have its methods, too: one that is
// missing there is found only when it is called.
type Node interface {
	View(ctx context.Context) (*redisnode.View, error)
	Meet(ctx context.Context, ip string, port, busPort int) error
	Forget(ctx context.Context, id string) error
	AddSlots(ctx context.Context, slots redisnode.Slots) error
	Replicate(ctx context.Context, masterID string) error
	Reconnect(ctx context.Context, masterID, otherID string) error
	Failover(ctx context.Context, how redisnode.Failover) error
	PauseWrites(ctx context.Context, duration time.Duration) error
	ResumeWrites(ctx context.Context) error
	SetSlots(ctx context.Context, slots redisnode.Slots, how redisnode.SlotState, id string) error
	Keys(ctx context.Context, slots redisnode.Slots, maxKeys int) (map[int][]string, error)
	Sizes(ctx context.Context, keys []string) ([]int64, error)
	Migrate(ctx context.Context, ip string, port int, login redisnode.Login, timeout time.Duration, keys []string) error
	Libraries(ctx context.Context) (map[string]string, error)
	DumpFunctions(ctx context.Context) (string, error)
	RestoreFunctions(ctx context.Context, dump string) error
	DeleteLibrary(ctx context.Context, name string) error
	Directives(ctx context.Context, names []string) (map[string]string, error)
	SetDirective(ctx context.Context, name, value string) error
	Connect(ctx context.Context) error
	Announce(ctx context.Context, ip string, port, tlsPort, busPort int) error
	Users(ctx context.Context) (map[string]redisnode.User, error)
	SetUser(ctx context.Context, name string, rules []string) error
	SwitchTLS(ctx context.Context, on bool, port, busPort, announcedBus int) error
	ReloadCertificate(ctx context.Context) error
	DeleteUsers(ctx context.Context, names []string) error
	EndConnections(ctx context.Context, user string) error
	SaveUsers(ctx context.Context) error
	Close()
}

// DialFunc returns the Node at an address. It connects with the first request.
type DialFunc func(ip string, port int, login redisnode.Login) Node

// Dial returns the DialFunc for real redis-servers. The observers observe all requests.
func Dial(observers ...redisnode.Observer) DialFunc {
	return func(ip string, port int, login redisnode.Login) Node {
		return redisnode.Dial(ip, port, login, observers...)
	}
}

// minPasswordAge is how long the operator waits before it reads a refused password again.
const minPasswordAge = 10 * time.Second

// sessions holds one session for each RedisCluster.
type sessions struct {
	kube  kubernetes.Interface
	dial  DialFunc
	clock clock.PassiveClock

	mu    sync.Mutex
	byKey map[cache.ObjectName]*session
}

// session holds what the controller remembers of one RedisCluster between syncs. All of it may be
// lost: it saves connections, and records for how long a fact has been true. The workqueue ensures that
// one sync at a time uses a session.
type session struct {
	uid   types.UID
	conns map[types.UID]conn // by the UID of the Pod

	secret   v1.SecretKeyReference
	password string
	readAt   time.Time // when the password was read; zero if there is none
	refused  bool      // whether a node refused the password
	// secrets are the passwords of the users, and those with which the operator logs in; nil if the operator has no user of its own.
	secrets  map[v1.SecretKeyReference]secretText
	refusals refusals

	// tls is the Secret of spec.tls, and certificate its certificate; nil if no node has or gets one.
	tls         tlsSecret
	certificate *certificate

	failure         error // the error of the last commands, and when they failed
	failedAt        time.Time
	failureKept     bool      // whether the operator has only waited since
	evictionRefused string    // why the last eviction was refused; "" if it was not
	actedAt         time.Time // when the last plan was carried out that did not only wait

	growthRefused   *problem // why the API server refused the last larger volume; nil if it did not
	growthRefusedAt time.Time

	tried     string    // the revision of the last dry run that had a result
	triedAt   time.Time // when that was
	rejection string    // its result: see observed

	rules directiveRules
	asked map[types.UID]answer // by the UID of the Pod

	results       map[types.UID]*jobResult // by the UID of the Job
	jobRejection  string                   // why the API server rejected the last Job; "" if it did not
	jobRejectedAt time.Time
	jobFailure    string                // why a Job could not be deleted; "" if all could
	jobFailureOf  types.UID             // which Job that is
	reachedNodes  map[types.UID]reached // by the UID of the Pod
	// unusedServices are the Services whose addresses no node announced at the last sync, by name.
	unusedServices map[string]bool
	// loadRefusals are why nodes refused to load a certificate, by the facts of factLoaded.
	loadRefusals map[string]string

	// moves are the slots whose move has failed and is not over.
	moves   map[int]failedMove
	timeout nodeTimeout

	linked  map[string]link      // by the ID of the replica
	reached map[string]time.Time // when a member was last connected to a node, by the node's ID

	since map[string]time.Time // when a fact was first observed, by its text
	seen  map[string]bool      // the facts that this sync has observed
}

// link records when a replica was last seen connected to its master.
type link struct {
	master string // the master's ID
	at     time.Time
}

// conn is the connection to a Pod.
type conn struct {
	Node
	ip    string
	login redisnode.Login
}

// get returns the session of a RedisCluster. It creates one if there is none for this UID.
func (s *sessions) get(rdc *v1.RedisCluster) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := cache.MetaObjectToName(rdc)
	known := s.byKey[key]
	if known != nil && known.uid == rdc.UID {
		return known
	}
	if known != nil {
		known.close()
	}
	s.byKey[key] = &session{uid: rdc.UID, conns: map[types.UID]conn{}, asked: map[types.UID]answer{},
		rules:    directiveRules{map[[2]string]bool{}, map[[3]string]bool{}, map[[2]string]string{}, map[string]rejection{}},
		refusals: refusals{}, loadRefusals: map[string]string{}, results: map[types.UID]*jobResult{},
		linked: map[string]link{}, reached: map[string]time.Time{}, since: map[string]time.Time{}, moves: map[int]failedMove{}}
	return s.byKey[key]
}

// forget closes and drops the session of a RedisCluster that is gone.
func (s *sessions) forget(key cache.ObjectName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.byKey[key]; known != nil {
		known.close()
	}
	delete(s.byKey, key)
}

func (s *sessions) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.byKey {
		known.close()
	}
	clear(s.byKey)
}

func (s *session) close() {
	for _, c := range s.conns {
		c.Close()
	}
}

// authenticate reads the password of spec.authSecretRef if it was not read yet, or if a node refused it. It returns a problem if
// there is no password.
func (s *sessions) authenticate(ctx context.Context, rdc *v1.RedisCluster) (*problem, error) {
	current, ref := s.get(rdc), rdc.Spec.AuthSecretRef
	current.secrets = nil
	if ref == nil {
		current.secret, current.password, current.readAt = v1.SecretKeyReference{}, "", time.Time{}
		return nil, nil
	}
	known := !current.readAt.IsZero() && current.secret == *ref
	if known && (!current.refused || s.clock.Since(current.readAt) < minPasswordAge) {
		return nil, nil
	}
	secret, err := s.kube.CoreV1().Secrets(rdc.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		message := fmt.Sprintf("Secret %s does not exist: create it, with the password in the key %s", ref.Name, ref.Key)
		return &problem{reasonNoPassword, message}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Secret %s, which has the password: %w", ref.Name, err)
	}
	// The scripts do the same: "kubectl create secret --from-file" adds the newline of the file.
	password := strings.TrimRight(string(secret.Data[ref.Key]), "\n")
	if password == "" {
		return &problem{reasonNoPassword,
			fmt.Sprintf("Secret %s has no password in %s: set it, or name another key in spec.authSecretRef", ref.Name, ref.Key)}, nil
	}
	current.secret, current.password, current.readAt, current.refused = *ref, password, s.clock.Now(), false
	return nil, nil
}

// node returns the connection to a Pod of the RedisCluster.
func (s *sessions) node(rdc *v1.RedisCluster, pod *corev1.Pod) Node {
	current := s.get(rdc)
	c, ok := current.conns[pod.UID]
	port, login := s.connection(rdc, pod)
	if ok && c.ip == pod.Status.PodIP && c.login == login {
		return c.Node
	}
	if ok {
		c.Close()
	}
	c = conn{Node: s.dial(pod.Status.PodIP, port, login), ip: pod.Status.PodIP, login: login}
	current.conns[pod.UID] = c
	return c.Node
}

// connection returns on which port the operator connects to a Pod of the RedisCluster, and how it logs in and verifies the node.
func (s *sessions) connection(rdc *v1.RedisCluster, pod *corev1.Pod) (int, redisnode.Login) {
	current := s.get(rdc)
	login, authorities := current.loginTo(pod), ""
	if current.certificate != nil {
		authorities = current.certificate.authorities
	}
	port, trust := connectionTo(rdc, pod, authorities)
	login.TLS, login.Tenant = trust, rdc.Namespace
	return port, login
}

// closeOthers closes the connections to all Pods but these.
func (s *session) closeOthers(pods map[types.UID]bool) {
	for uid, c := range s.conns {
		if !pods[uid] {
			c.Close()
			delete(s.conns, uid)
		}
	}
}

// The facts that a session remembers while each sync observes them: see endFacts. What must outlive a sync that does not, such as one
// while a node is silent, needs a map of its own. After some, the name of a Pod or a user, or the ID of a node, follows.
const (
	factSilent          = "silent "
	factPromoted        = "promoted "
	factNotLoaded       = "certificate not loaded "
	factLoaded          = "made to load certificate "
	factUnknown         = "unknown "
	factUnreachable     = "unreachable "
	factFunctionsDiffer = "functions differ"
	factNoFailover      = "no failover"
	factNewPassword     = "password is everywhere "
	factUnassigned      = "slots unassigned"
	factUnreached       = "unreached "
	factAddressMissed   = "address missed "
	factFailing         = "commands fail"
)

// recall remembers what this sync observed, and copies into o for how long that has been true.
func (s *session) recall(o *observed) {
	s.beginFacts()
	refusals := map[string]string{}
	for _, m := range o.Members {
		if !m.answers() {
			m.SilentFor = duration(s.ageOf(factSilent+m.Name, o.Now))
		}
		if m.StaleCertificate {
			m.StaleFor = duration(s.ageOf(factNotLoaded+m.Name+" "+o.Certificate.Fingerprint, o.Now))
			loaded := factLoaded + m.Name + " " + o.Certificate.Fingerprint
			if at, ok := s.since[loaded]; ok && o.Now.Sub(at) < loadEvery {
				m.LoadedFor = duration(s.ageOf(loaded, o.Now))
			}
			if m.LoadRefusal = s.loadRefusals[loaded]; m.LoadRefusal != "" {
				refusals[loaded] = m.LoadRefusal
			}
		}
		if at, ok := s.since[factPromoted+m.Name]; ok && o.Now.Sub(at) < failoverPatience {
			m.PromotedFor = duration(s.ageOf(factPromoted+m.Name, o.Now))
		}
	}
	s.loadRefusals = refusals
	for _, n := range o.unknownNodes() {
		n.UnknownFor = duration(s.ageOf(factUnknown+n.ID, o.Now))
	}
	s.recordReachable(o)
	s.recordLinks(o)
	s.recallPasswords(o)
	s.recallAddresses(o)
	if slices.ContainsFunc(o.Members, (*member).preventsFailover) {
		o.NoFailoverFor = duration(s.ageOf(factNoFailover, o.Now))
	}
	if o.functionDifference() != "" {
		o.FunctionsDifferFor = duration(s.ageOf(factFunctionsDiffer, o.Now))
	}
	if o.assigned().Len() < redisnode.SlotCount {
		o.UnassignedFor = duration(s.ageOf(factUnassigned, o.Now))
	}
	s.recallFailure(o)
	o.GrowthRefused, o.GrowthRefusedAt = s.growthRefused, recording.Wall(o.Now, s.growthRefusedAt)
	o.EvictionRefused, o.ActedAt = s.evictionRefused, recording.Wall(o.Now, s.actedAt)
	maps.DeleteFunc(s.moves, func(slot int, _ failedMove) bool {
		return !slices.ContainsFunc(o.answering(), func(m *member) bool { return isMarked(m, redisnode.NewSlots(slot)) })
	})
	o.Moves = maps.Clone(s.moves)
	s.endFacts()
}

// recallFailure sets the error of the last commands, and for how long commands have failed.
func (s *session) recallFailure(o *observed) {
	if s.failure == nil {
		return
	}
	o.Failure, o.FailingFor = problemOf(s.failure), duration(s.ageOf(factFailing, o.Now))
	if s.failureKept {
		o.FailingFor = duration(s.failedAt.Sub(s.since[factFailing]))
	}
}

// recallPasswords sets the users whose old passwords have been valid for long enough since all nodes have had the new one.
func (s *session) recallPasswords(o *observed) {
	o.retired = map[string]bool{}
	for _, u := range o.users {
		fact := factNewPassword + u.name + " " + u.hash
		_, begun := s.since[fact]
		if everywhere := o.isEverywhere(u); o.hasOldPasswords(u) && (begun || everywhere) {
			o.retired[u.name] = everywhere && s.ageOf(fact, o.Now) > u.keep
			s.seen[fact] = true
		}
	}
}

// ageOf returns for how long a fact has been true, by all syncs up to this one. It is never 0.
func (s *session) ageOf(fact string, now time.Time) time.Duration {
	first, ok := s.since[fact]
	if !ok {
		first = now
		s.since[fact] = now
	}
	s.seen[fact] = true
	return max(now.Sub(first), 1)
}

// beginFacts starts the observation of a sync.
func (s *session) beginFacts() { s.seen = map[string]bool{} }

// endFacts forgets the facts that the sync did not observe: they are no longer true.
func (s *session) endFacts() {
	maps.DeleteFunc(s.since, func(fact string, _ time.Time) bool { return !s.seen[fact] })
}

// recordLinks remembers which replicas are linked to their masters. For each other replica it sets for
// how long the link has been down: a replica that was restarted since does not know that itself.
func (s *session) recordLinks(o *observed) {
	for _, m := range o.answering() {
		if m.View.Master {
			continue
		}
		id := m.self().MasterID
		if m.View.LinkUp {
			s.linked[m.ID] = link{id, o.Now}
			continue
		}
		m.UnlinkedFor = duration(m.View.LinkDown)
		if last, ok := s.linked[m.ID]; ok && last.master == id && (m.UnlinkedFor.Duration < 0 || o.Now.Sub(last.at) < m.UnlinkedFor.Duration) {
			m.UnlinkedFor = duration(o.Now.Sub(last.at))
		}
	}
	maps.DeleteFunc(s.linked, func(id string, _ link) bool { return o.byID[id] == nil })
}

// recordReachable remembers which nodes a member is connected to. For each other node it sets for how
// long no member has been, and whether the operator saw the loss of the last connection.
func (s *session) recordReachable(o *observed) {
	for id, n := range o.nodes {
		if !o.unreachable(id) {
			s.reached[id] = o.Now
			continue
		}
		n.UnreachableFor = duration(s.ageOf(factUnreachable+id, o.Now))
		n.LossSeen = o.Now.Sub(s.reached[id])-n.UnreachableFor.Duration <= o.patience()
	}
	if len(o.answering()) > 0 {
		maps.DeleteFunc(s.reached, func(id string, _ time.Time) bool { return o.nodes[id] == nil })
	}
}

// recordPromotion remembers that a replica was asked to take over from its master.
func (s *session) recordPromotion(m *member, now time.Time) { s.since[factPromoted+m.Name] = now }

// recordLoad remembers that a node was made to load a certificate, and why it refused it; nil if it did not.
func (s *session) recordLoad(m *member, fingerprint string, refused *redisnode.RefusedDirectiveError, now time.Time) {
	loaded := factLoaded + m.Name + " " + fingerprint
	s.since[loaded] = now
	delete(s.loadRefusals, loaded)
	if refused != nil {
		s.loadRefusals[loaded] = refused.Reason
	}
}

// keepFailure is for how long an error of commands is remembered while the operator only waits: it may wait before it repeats them.
const keepFailure = 2 * time.Minute

// recordResult remembers the result of a plan: why an eviction was refused ("" if none was), and the
// error of the commands.
func (s *session) recordResult(p plan, evictionRefused string, err error, now time.Time) {
	s.evictionRefused = evictionRefused
	s.failureKept = err == nil && p.waits() && now.Sub(s.failedAt) < keepFailure
	switch {
	case err != nil:
		s.failure, s.failedAt = err, now
		if _, ok := s.since[factFailing]; !ok {
			s.since[factFailing] = now
		}
	case !s.failureKept:
		s.failure = nil
		delete(s.since, factFailing)
	}
	if !p.waits() || s.actedAt.IsZero() {
		s.actedAt = now
	}
}
