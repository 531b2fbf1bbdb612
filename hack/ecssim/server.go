// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim

import (
	"cmp"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Config is the configuration of a Server. Every field is optional.
type Config struct {
	// Accounts are the accounts that may call. By default there is one: its number is 1234567890123456, its access key has the ID test and
	// the secret test.
	Accounts []Account
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Delays are the durations of an instance's state changes.
	Delays Delays
	// Speed divides all Delays; 0 means 1.
	Speed float64
	// TokenLife is the time for which a ClientToken is remembered; 0 means 30 minutes. ECS publishes no number.
	TokenLife time.Duration
	// Seed is the seed of the IDs and addresses of instances.
	Seed uint64
	// OnCall is called after each call, also if the call got no answer. It may call the Server.
	OnCall func(Call)
}

// Account is an access key and the account that owns it. Several may have the same ID. Instances belong to the ID.
type Account struct {
	ID              string // of the account: 16 digits
	AccessKeyID     string
	AccessKeySecret string
	// SecurityToken is the token that requests must carry; "" if the key needs none.
	SecurityToken string
}

// Delays are the durations of the states that an instance leaves by itself. 0 means about the time that ECS takes.
type Delays struct {
	Pending  time.Duration // 10 s, from a create to Stopped, or to Starting for RunInstances
	Starting time.Duration // 10 s
	Stopping time.Duration // 8 s
	Release  time.Duration // 3 s, from a delete until DescribeInstances omits the instance
}

// or replaces zero delays by the defaults, and divides all by speed.
func (d Delays) or(defaults Delays, speed float64) Delays {
	scale := func(wanted, otherwise time.Duration) time.Duration {
		return time.Duration(float64(cmp.Or(wanted, otherwise)) / cmp.Or(max(speed, 0), 1))
	}
	return Delays{
		Pending:  scale(d.Pending, defaults.Pending),
		Starting: scale(d.Starting, defaults.Starting),
		Stopping: scale(d.Stopping, defaults.Stopping),
		Release:  scale(d.Release, defaults.Release),
	}
}

// The defaults of a Config.
var (
	defaultAccount   = Account{ID: "1234567890123456", AccessKeyID: "test", AccessKeySecret: "test"}
	defaultDelays    = Delays{Pending: 10 * time.Second, Starting: 10 * time.Second, Stopping: 8 * time.Second, Release: 3 * time.Second}
	defaultTokenLife = 30 * time.Minute
)

// Server is a simulated ECS with its instances: see the package. It is an http.Handler. It is safe for concurrent use.
type Server struct {
	accounts map[string]Account // by access key ID
	now      func() time.Time
	delays   Delays
	// vanishing is the time for which an instance is Pending if its creation then fails.
	vanishing time.Duration
	onCall    func(Call)

	mu       sync.Mutex
	random   *rand.Rand
	fault    func(Call) Fault
	calls    []Call
	counts   map[string]int
	machines []*machine // all, also released ones, in order of creation
	live     []*machine // those that visible has not removed yet
	byID     map[string]*machine
	tokens   *recent[tokenKey, *memory]
	nonces   *recent[nonceKey, struct{}]
	private  addresses
	public   addresses
}

// New returns a Server without instances. The Server starts no goroutine, and need not be closed.
func New(config Config) *Server {
	if len(config.Accounts) == 0 {
		config.Accounts = []Account{defaultAccount}
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	random := rand.New(rand.NewPCG(config.Seed, 0))
	s := &Server{
		accounts:  map[string]Account{},
		now:       config.Now,
		delays:    config.Delays.or(defaultDelays, config.Speed),
		vanishing: Delays{}.or(Delays{Pending: 10 * time.Minute}, config.Speed).Pending,
		onCall:    config.OnCall,
		random:    random,
		counts:    map[string]int{},
		byID:      map[string]*machine{},
		tokens:    newRecent[tokenKey, *memory](cmp.Or(config.TokenLife, defaultTokenLife)),
		nonces:    newRecent[nonceKey, struct{}](nonceLife),
		private:   newAddresses("172.16.0.0/12", random),
		public:    newAddresses("198.18.0.0/15", random), // For benchmarks (RFC 2544): no machine has them.
	}
	for _, account := range config.Accounts {
		s.accounts[account.AccessKeyID] = account
	}
	return s
}

// Instances returns the present state of all instances, also released ones, in order of creation.
func (s *Server) Instances() []Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	instances := make([]Instance, 0, len(s.machines))
	for _, m := range s.machines {
		m.advance(now)
		instances = append(instances, m.Instance.clone())
	}
	return instances
}

// Update changes an instance as a user does in the console: its name, type, tags, security groups, locks, protection and state, and its
// release, if Released is set to any time. A state that leads to another one does so. The ID, the account, the region, the token and the
// creation stay as they are. It panics if there never was such an instance. change must not call the Server.
func (s *Server) Update(id string, change func(*Instance)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.byID[id]
	if m == nil {
		panic("ecssim: update of " + id + ", which never was")
	}
	now := s.now()
	m.advance(now)
	edited := m.Instance.clone()
	change(&edited)
	m.edit(edited, now, s.delays)
}

// Calls returns the requests that named an action, since the start or the last Forget, in the order of their execution. Do not change
// their Params.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Count returns the number of Calls of an action.
func (s *Server) Count(action string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[action]
}

// Forget drops the Calls and keeps everything else.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = nil
	clear(s.counts)
}

// SetFault sets a function that returns the fault of each call before its execution. Code and Status of its argument are not set yet. f
// may call the Server. With nil, there are no faults.
func (s *Server) SetFault(f func(Call) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

var _ http.Handler = (*Server)(nil)
