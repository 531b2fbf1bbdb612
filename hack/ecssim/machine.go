/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

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
	gone     = "" // not described any more
)

// The charge types of an instance.
const (
	postPaid = "PostPaid"
	prePaid  = "PrePaid"
)

// Instance is an instance as it is at some moment. State is its last one if it has been
// released.
type Instance struct {
	ID                 string
	AccountID          string
	RegionID           string
	ZoneID             string
	Name               string
	Description        string
	HostName           string
	Type               string
	ImageID            string
	State              string
	ChargeType         string
	KeyPairName        string
	VPCID              string
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
	Expires            time.Time // of one that is PrePaid
	Released           time.Time // zero: not yet
}

// clone returns a copy that shares nothing.
func (i Instance) clone() Instance {
	i.Tags = maps.Clone(i.Tags)
	i.SecurityGroupIDs = slices.Clone(i.SecurityGroupIDs)
	i.Locks = slices.Clone(i.Locks)
	return i
}

// machine is an instance with its state. Each read advances the state by the elapsed time.
//
//	CreateInstance → Pending ───────────→ Stopped ←─ Stopping ←─┐ StopInstance
//	RunInstances   → Pending → Starting → Running ──────────────┘
//	                              ↑ StartInstance, of a Stopped one
type machine struct {
	Instance

	seq     int // the how many-th of the server, from 1
	then    []step
	visible time.Time // describes do not show it before
	// releasing: it was deleted. It is still there, until its then is over.
	releasing bool
	bandwidth int // to the Internet, in Mbit/s
}

// step is a state that is reached at some time.
type step struct {
	at    time.Time
	state string
}

// settle takes the steps whose time has come.
func (m *machine) settle(now time.Time) {
	for len(m.then) > 0 && !now.Before(m.then[0].at) {
		if m.then[0].state == gone {
			m.Released = m.then[0].at
			m.then = nil
			return
		}
		m.State = m.then[0].state
		m.then = m.then[1:]
	}
}

// enter puts the machine in a state, from which it goes where that leads.
func (m *machine) enter(state string, now time.Time, d Delays) {
	m.State, m.then = state, nil
	switch state {
	case pending:
		m.then = []step{{now.Add(d.Pending), stopped}}
	case starting:
		m.then = []step{{now.Add(d.Starting), running}}
	case stopping:
		m.then = []step{{now.Add(d.Stopping), stopped}}
	}
}

// release has the machine leave. One that runs is stopping while it does.
func (m *machine) release(now time.Time, d Delays) {
	if m.State == running {
		m.State = stopping
	}
	m.releasing = true
	m.then = []step{{now.Add(d.Release), gone}}
}

// edit makes of the machine what it was edited to.
func (m *machine) edit(edited Instance, now time.Time, d Delays) {
	before := m.Instance
	edited.ID, edited.AccountID, edited.RegionID = before.ID, before.AccountID, before.RegionID
	edited.Token, edited.Created = before.Token, before.Created
	if edited.Tags == nil {
		edited.Tags = map[string]string{}
	}
	m.Instance = edited.clone() // change may have kept what it was given.
	switch {
	case !before.Released.IsZero():
		m.State, m.Released = before.State, before.Released // There is no way back.
	case !edited.Released.IsZero():
		m.Released, m.then = now, nil
	case edited.State != before.State:
		m.releasing = false
		m.enter(edited.State, now, d)
	}
}

// locked returns whether operations are locked for this reason.
func (m *machine) locked(reason string) bool { return slices.Contains(m.Locks, reason) }

// find returns an instance of the caller's that has not been released.
func (x *exchange) find(id string) (*machine, *problem) {
	m := x.s.byID[id]
	if m == nil || m.AccountID != x.account.ID || x.region != "" && x.region != m.RegionID {
		return nil, noInstance
	}
	if m.settle(x.now); !m.Released.IsZero() {
		return nil, noInstance
	}
	return m, nil
}

// shown returns the instances of the caller's in the region that the describes show, in
// order of creation.
func (x *exchange) shown() []*machine {
	var shown []*machine
	kept := x.s.live[:0]
	for _, m := range x.s.live {
		if m.settle(x.now); !m.Released.IsZero() {
			continue
		}
		kept = append(kept, m)
		if m.AccountID == x.account.ID && m.RegionID == x.region && !x.now.Before(m.visible) {
			shown = append(shown, m)
		}
	}
	clear(x.s.live[len(kept):])
	x.s.live = kept
	return shown
}

// instanceID returns a new one.
func (s *Server) instanceID() string {
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

// addresses hands out those of a network, each once, from a random one on.
type addresses struct {
	prefix netip.Prefix
	next   uint32
	used   map[string]bool
}

func privateAddresses(random *rand.Rand) addresses {
	return addresses{netip.MustParsePrefix("172.16.0.0/12"), random.Uint32(), map[string]bool{}}
}

// publicAddresses returns addresses for benchmarks (RFC 2544), which no machine has.
func publicAddresses(random *rand.Rand) addresses {
	return addresses{netip.MustParsePrefix("198.18.0.0/15"), random.Uint32(), map[string]bool{}}
}

// take returns a free address that does not look like that of a network or a broadcast.
func (a *addresses) take() string {
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

// reserve takes one address, and returns whether it was free.
func (a *addresses) reserve(address string) bool {
	if a.used[address] {
		return false
	}
	a.used[address] = true
	return true
}
