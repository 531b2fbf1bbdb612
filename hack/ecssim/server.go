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
	// Speed divides the durations of an instance's state changes; 0 means 1.
	Speed float64
	// Seed is the seed of the IDs and addresses of instances.
	Seed uint64
	// OnCall is called after each call, also if the call got no answer. It may call the Server.
	OnCall func(Call)
}

// Account is an access key and the account that owns it. Several keys may have the same ID: they share its instances.
type Account struct {
	ID              string // of the account: 16 digits
	AccessKeyID     string
	AccessKeySecret string
	// SecurityToken is the token that requests must carry; "" if the key needs none.
	SecurityToken string
}

// delays are the durations of the states that an instance leaves by itself.
type delays struct {
	pending   time.Duration // from a create to Stopped
	starting  time.Duration
	stopping  time.Duration
	release   time.Duration // from a delete until DescribeInstances omits the instance
	vanishing time.Duration // from a create that fails later until the instance is gone
}

// delaysAt returns the approximate delays of ECS, divided by speed; 0 means 1.
func delaysAt(speed float64) delays {
	scale := func(d time.Duration) time.Duration { return time.Duration(float64(d) / cmp.Or(max(speed, 0), 1)) }
	return delays{
		pending:   scale(10 * time.Second),
		starting:  scale(10 * time.Second),
		stopping:  scale(8 * time.Second),
		release:   scale(3 * time.Second),
		vanishing: scale(10 * time.Minute),
	}
}

// tokenLife is the time for which a ClientToken is remembered. ECS publishes no number.
const tokenLife = 30 * time.Minute

// defaultAccount is the account of a Config without Accounts.
var defaultAccount = Account{ID: "1234567890123456", AccessKeyID: "test", AccessKeySecret: "test"}

// Server is a simulated ECS with its instances: see the package. It is an http.Handler. It is safe for concurrent use.
type Server struct {
	accounts map[string]Account // by access key ID
	now      func() time.Time
	delays   delays
	onCall   func(Call)

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
		accounts: map[string]Account{},
		now:      config.Now,
		delays:   delaysAt(config.Speed),
		onCall:   config.OnCall,
		random:   random,
		counts:   map[string]int{},
		byID:     map[string]*machine{},
		tokens:   newRecent[tokenKey, *memory](tokenLife),
		nonces:   newRecent[nonceKey, struct{}](nonceLife),
		private:  newAddresses("172.16.0.0/12", random),
		public:   newAddresses("198.18.0.0/15", random), // For benchmarks (RFC 2544): no machine has them.
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

// Update changes an instance as a user does in the console: its name, type, tags, security groups, locks, protection and state. If change
// sets Released to any time, Update releases the instance. After a transitional state, such as Starting, the next state follows. The ID,
// the account, the region, the token and the creation do not change. Update panics if the server never had the instance. change must not
// call the Server.
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

// SetFault sets f, which returns the fault of a call. The Server calls f before it executes a call: Code and Status of f's argument are not
// set yet. f may call the Server. With nil, there are no faults.
func (s *Server) SetFault(f func(Call) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

var _ http.Handler = (*Server)(nil)
