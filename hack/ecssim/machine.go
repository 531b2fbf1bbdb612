// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// The states of an instance.
const (
	pending  = "Pending"
	starting = "Starting"
	running  = "Running"
	stopping = "Stopping"
	stopped  = "Stopped"
	gone     = "" // released: ECS does not show it any more
)

// The charge types of an instance.
const (
	postPaid = "PostPaid"
	prePaid  = "PrePaid"
)

// Instance is a copy of an instance at one moment. State is the last state if the instance is released.
type Instance struct {
	ID                 string
	AccountID          string
	RegionID           string
	ZoneID             string
	Name               string
	Type               string
	ImageID            string
	State              string
	ChargeType         string
	KeyPairName        string
	VSwitchID          string
	PrivateIP          string
	PublicIP           string // "" without one
	Tags               map[string]string
	SecurityGroupIDs   []string
	Locks              []string // why operations are locked, such as "security" or "financial"
	DeletionProtection bool
	StoppedMode        string
	Token              string // the ClientToken of its create
	UserData           string // as it was sent, in base64
	Created            time.Time
	Expires            time.Time // set only if ChargeType is PrePaid
	Released           time.Time // zero if it is not released
}

// clone returns a deep copy.
func (i Instance) clone() Instance {
	i.Tags = maps.Clone(i.Tags)
	i.SecurityGroupIDs = slices.Clone(i.SecurityGroupIDs)
	i.Locks = slices.Clone(i.Locks)
	return i
}

// machine is an instance with its state. Each read advances the state by the elapsed time.
//
//	CreateInstance → Pending → Stopped ←─ Stopping ←─┐ StopInstance
//	                              ↓ StartInstance    │
//	                           Starting → Running ───┘
type machine struct {
	Instance

	seq         int       // its number in the order of creation, from 1
	steps       []step    // future changes of the state, in order of time
	visibleFrom time.Time // before this time, Describe and List calls leave it out
	releasing   bool      // DeleteInstance has succeeded; the last step releases the instance
	bandwidth   int       // to the Internet, in Mbit/s
}

// step is a change to a state at a time.
type step struct {
	at    time.Time
	state string
}

// advance applies all steps up to now.
func (m *machine) advance(now time.Time) {
	for len(m.steps) > 0 && !now.Before(m.steps[0].at) {
		if m.steps[0].state == gone {
			m.Released = m.steps[0].at
			m.steps = nil
			return
		}
		m.State = m.steps[0].state
		m.steps = m.steps[1:]
	}
}

// setState sets the state. It also schedules the next state if ECS leaves this one by itself.
func (m *machine) setState(state string, now time.Time, d delays) {
	m.State, m.steps = state, nil
	switch state {
	case pending:
		m.steps = []step{{now.Add(d.pending), stopped}}
	case starting:
		m.steps = []step{{now.Add(d.starting), running}}
	case stopping:
		m.steps = []step{{now.Add(d.stopping), stopped}}
	}
}

// release begins the release of the machine, which takes d.release. Until then a running machine is Stopping.
func (m *machine) release(now time.Time, d delays) {
	if m.State == running {
		m.State = stopping
	}
	m.releasing = true
	m.steps = []step{{now.Add(d.release), gone}}
}

// edit replaces the instance by an edited copy. It keeps the fields that never change, and applies a new state or a release at now.
func (m *machine) edit(edited Instance, now time.Time, d delays) {
	before := m.Instance
	edited.ID, edited.AccountID, edited.RegionID = before.ID, before.AccountID, before.RegionID
	edited.Token, edited.Created = before.Token, before.Created
	if edited.Tags == nil {
		edited.Tags = map[string]string{}
	}
	m.Instance = edited.clone() // The caller of Update may still hold the maps and slices.
	switch {
	case !before.Released.IsZero():
		m.State, m.Released = before.State, before.Released // A release is final.
	case !edited.Released.IsZero():
		m.Released, m.steps = now, nil
	case edited.State != before.State:
		m.releasing = false
		m.setState(edited.State, now, d)
	}
}

// locked returns whether operations are locked for this reason.
func (m *machine) locked(reason string) bool { return slices.Contains(m.Locks, reason) }

// find returns the caller's instance with an ID, or noInstance if there is none or it is released.
func (x *exchange) find(id string) (*machine, *problem) {
	m := x.s.byID[id]
	if m == nil || m.AccountID != x.account.ID || x.region != "" && x.region != m.RegionID {
		return nil, noInstance
	}
	if m.advance(x.now); !m.Released.IsZero() {
		return nil, noInstance
	}
	return m, nil
}

// visible returns the caller's instances in the region, in order of creation. It leaves out released ones and those that are not visible
// yet. It also removes released machines from Server.live.
func (x *exchange) visible() []*machine {
	var visible []*machine
	kept := x.s.live[:0]
	for _, m := range x.s.live {
		if m.advance(x.now); !m.Released.IsZero() {
			continue
		}
		kept = append(kept, m)
		if m.AccountID == x.account.ID && m.RegionID == x.region && !x.now.Before(m.visibleFrom) {
			visible = append(visible, m)
		}
	}
	clear(x.s.live[len(kept):])
	x.s.live = kept
	return visible
}

// newInstanceID returns a random ID that no instance has.
func (s *Server) newInstanceID() string {
	const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
	for {
		id := []byte("i-")
		for range 22 {
			id = append(id, alphabet[s.random.IntN(len(alphabet))])
		}
		if s.byID[string(id)] == nil {
			return string(id)
		}
	}
}

// addresses allocates each address of a network at most once, in order from a random one.
type addresses struct {
	prefix netip.Prefix
	next   uint32
	used   map[string]bool
}

func newAddresses(prefix string, random *rand.Rand) addresses {
	return addresses{netip.MustParsePrefix(prefix), random.Uint32(), map[string]bool{}}
}

// allocate returns a free address. It skips those that end in 0 or 255: they look like the address of a network, or a broadcast address.
func (a *addresses) allocate() string {
	base := a.prefix.Addr().As4()
	size := uint32(1) << (32 - a.prefix.Bits())
	for {
		host := a.next % size
		a.next++
		address := netip.AddrFrom4([4]byte{base[0], base[1] | byte(host>>16), byte(host >> 8), byte(host)}).String()
		if last := byte(host); last != 0 && last != 255 && !a.used[address] {
			a.used[address] = true
			return address
		}
	}
}
