// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"crypto/x509"
	"slices"
	"time"
)

// Lifetimes are the times for which CAs and certificates are valid. Each is much shorter than a third of the one above. For example, the
// keeper checks once every Settle whether a leaf is due, and must notice it within a third of the leaf's life.
type Lifetimes struct {
	// Authority is how long a CA is valid. When a third of it is left, another one is staged.
	Authority time.Duration
	// Leaf is how long a serving certificate is valid. When a third of it is left, another one is signed.
	Leaf time.Duration
	// Settle is how long a caBundle must have a CA before the keeper assumes that every API server has noticed it.
	Settle time.Duration
}

// DefaultLifetimes are those of production.
var DefaultLifetimes = Lifetimes{Authority: 365 * 24 * time.Hour, Leaf: 7 * 24 * time.Hour, Settle: time.Minute}

// situation has the inputs of a decision besides the Secret.
type situation struct {
	now       time.Time
	bundles   [][]*x509.Certificate        // the CAs in each caBundle; nil unless Config.Shared is set
	settled   func(*x509.Certificate) bool // whether every API server is believed to trust a CA
	lifetimes Lifetimes
}

// decide returns the desired contents of the Secret, and the changes in words. It calls mint, at most once, for another CA.
//
//	                 a third of its life is left,
//	                 or the annotation asks for it         every caBundle has held it
//	       ┌───────┐ ──────────────────────────▶ ┌───────┐ for Settle ─────▶ ┌─────────┐
//	mint ─▶│current│                             │current│                   │ current │
//	       └───────┘ ◀────────────────────────── │ next  │                   │ retiree │
//	                 every leaf that the retiree └───────┘ ◀──── next takes  └─────────┘
//	                 signed has expired                          over
//
// decide replaces a CA at once, without a stage, if it is missing, broken, expired or not valid yet. The previous CA stays trusted: a
// caBundle still has it.
func decide(c contents, s situation, mint func() (*authority, error)) (contents, []string, error) {
	var did []string
	if c.next != nil && !valid(c.next.cert, s.now) {
		c.next = nil
		did = append(did, "dropped a staged CA that is not valid now")
	}
	switch {
	case c.current != nil && valid(c.current.cert, s.now):
	case c.next != nil:
		c = c.promote()
		did = append(did, "had the staged CA take over from one that cannot sign")
	default:
		a, err := mint()
		if err != nil {
			return c, nil, err
		}
		c.current, c.rotate = a, false
		did = append(did, "made a CA")
	}
	due := !s.now.Before(c.current.cert.NotAfter.Add(-s.lifetimes.Authority / 3))
	switch {
	case c.next != nil && s.settled(c.next.cert):
		c = c.promote()
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

// promote makes the next CA the current one.
func (c contents) promote() contents {
	if c.current != nil {
		c.trusted = append(slices.Clone(c.trusted), c.current.cert)
	}
	c.current, c.next = c.next, nil
	return c
}

// trust decides which CAs are trusted.
func (c contents) trust(s situation, did []string) (contents, []string) {
	retirees, since := c.retirees(), c.retired
	if lost := c.lost(s); len(lost) > 0 {
		retirees = append(retirees, lost...)
		did = append(did, "had CAs trusted again that replicas may still serve")
	}
	c.trusted = []*x509.Certificate{c.current.cert}
	if c.next != nil {
		c.trusted = append(c.trusted, c.next.cert)
	}
	c.retired = map[string]time.Time{}
	for _, retiree := range retirees {
		name := fingerprint(retiree)
		at, known := since[name]
		if !known || at.After(s.now) {
			at = s.now
		}
		// Then every leaf that the retiree has signed has expired.
		over := !s.now.Before(at.Add(s.lifetimes.Leaf + s.lifetimes.Settle))
		switch {
		case holds(c.trusted, retiree):
		case over || !valid(retiree, s.now):
			did = append(did, "dropped a CA that nothing is signed by any more")
		default:
			c.trusted = append(c.trusted, retiree)
			c.retired[name] = at
		}
	}
	return c, did
}

// lost returns the CAs that a caBundle has and the Secret lacks, if a client other than a Keeper last changed the Secret. In a Secret that
// a Keeper wrote, the signing CA is trusted, and was in every caBundle before it signed.
func (c contents) lost(s situation) []*x509.Certificate {
	if holds(c.trusted, c.current.cert) && everywhere(c.current.cert, s.bundles) {
		return nil
	}
	var lost []*x509.Certificate
	for _, bundle := range s.bundles {
		for _, ca := range bundle {
			if ca.IsCA && valid(ca, s.now) && !c.signs(ca) && !holds(c.trusted, ca) && !holds(lost, ca) {
				lost = append(lost, ca)
			}
		}
	}
	return lost
}
