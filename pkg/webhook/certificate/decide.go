/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package certificate

import (
	"crypto/x509"
	"slices"
	"time"
)

// Lifetimes are how long things last. Each is at most a third of the one before it.
type Lifetimes struct {
	// Authority is how long a CA is valid. When a third of it is left, another one is
	// staged.
	Authority time.Duration
	// Leaf is how long a serving certificate is valid. When a third of it is left,
	// another one is signed.
	Leaf time.Duration
	// Settle is how long a caBundle must have held a CA before every API server is
	// believed to have noticed.
	Settle time.Duration
}

// DefaultLifetimes are those of production.
var DefaultLifetimes = Lifetimes{Authority: 365 * 24 * time.Hour, Leaf: 7 * 24 * time.Hour, Settle: time.Minute}

// situation is what a decision depends on besides what the Secret says.
type situation struct {
	now       time.Time
	serving   *x509.Certificate            // the CA of what this replica serves, nil if it serves nothing yet
	settled   func(*x509.Certificate) bool // whether every API server is believed to trust a CA
	lifetimes Lifetimes
}

// decide returns what the Secret is to say, and what was done for it. It calls mint, at
// most once, for another CA.
//
//	                 a third of its life is left,
//	                 or the annotation asks for it         every caBundle has held it
//	       ┌───────┐ ──────────────────────────▶ ┌───────┐ for Settle ─────▶ ┌─────────┐
//	mint ─▶│current│                             │current│                   │ current │
//	       └───────┘ ◀────────────────────────── │ next  │                   │ retiree │
//	                 every leaf that the retiree └───────┘ ◀──── next takes  └─────────┘
//	                 signed has expired                          over
//
// A CA that is missing, broken, expired, or not valid yet is replaced without a stage:
// what it signed is of no use any more, or goes on being trusted as long as this replica
// serves it.
func decide(c contents, s situation, mint func() (*authority, error)) (contents, []string, error) {
	var did []string
	if c.next != nil && !valid(c.next.cert, s.now) {
		c.next = nil
		did = append(did, "dropped a staged CA that is not valid now")
	}
	switch {
	case c.current != nil && valid(c.current.cert, s.now):
	case c.next != nil:
		c = c.promote(s.now)
		did = append(did, "had the staged CA take over from one that cannot sign")
	default:
		a, err := mint()
		if err != nil {
			return c, nil, err
		}
		c.current, c.retired, c.rotate = a, s.now, false
		did = append(did, "made a CA")
	}
	due := !s.now.Before(c.current.cert.NotAfter.Add(-s.lifetimes.Authority / 3))
	switch {
	case c.next != nil && s.settled(c.next.cert):
		c = c.promote(s.now)
		did = append(did, "had the staged CA take over")
	case c.next == nil && (due || c.rotate):
		a, err := mint()
		if err != nil {
			return c, nil, err
		}
		c.next = a
		did = append(did, "staged the next CA")
	}
	c.rotate = false
	c, did = c.trust(s, did)
	return c, did, nil
}

// promote has the next CA take over.
func (c contents) promote(now time.Time) contents {
	if c.current != nil {
		c.trusted = append(slices.Clone(c.trusted), c.current.cert)
	}
	c.current, c.next, c.retired = c.next, nil, now
	return c
}

// trust decides which CAs are trusted.
func (c contents) trust(s situation, did []string) (contents, []string) {
	retirees := c.retirees()
	if s.serving != nil && !c.signs(s.serving) && !holds(retirees, s.serving) && valid(s.serving, s.now) {
		// Somebody took it out of the Secret, while it is still needed.
		retirees = append(retirees, s.serving)
		c.retired = s.now
		did = append(did, "had a CA trusted again that is still in use")
	}
	if c.retired.IsZero() || c.retired.After(s.now) {
		c.retired = s.now
	}
	c.trusted = []*x509.Certificate{c.current.cert}
	if c.next != nil {
		c.trusted = append(c.trusted, c.next.cert)
	}
	// By then every leaf that a retiree has signed has expired.
	over := !s.now.Before(c.retired.Add(s.lifetimes.Leaf + s.lifetimes.Settle))
	for _, retiree := range retirees {
		switch {
		case holds(c.trusted, retiree):
		case !valid(retiree, s.now), over && !retiree.Equal(s.serving):
			did = append(did, "dropped a CA that nothing is signed by any more")
		default:
			c.trusted = append(c.trusted, retiree)
		}
	}
	return c, did
}
