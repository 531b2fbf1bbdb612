// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/pkg/trace"
)

const (
	// PollEvery is how often a Poller reads a source: a change is known within a minute.
	PollEvery = 45 * time.Second
	// PollSoon is how often it reads a source that does not exist. It is also the time after the first request that fails.
	PollSoon = 5 * time.Second

	pollTimeout = 5 * time.Second       // of a request
	pollPause   = 20 * time.Millisecond // between two requests
	pollBatch   = 50                    // requests, until all sources are looked at again
)

// Source is an object that a key uses.
type Source struct {
	Kind string // of core/v1: ConfigMap or Secret
	cache.ObjectName
}

// Version tells an object, and a state of it, from all others. The zero Version says that there is no such object.
type Version struct {
	UID             types.UID
	ResourceVersion string
}

// VersionOf returns the version of an object.
func VersionOf(obj metav1.Object) Version { return Version{obj.GetUID(), obj.GetResourceVersion()} }

// ReadVersion asks the API server for the version of an object, without its data.
type ReadVersion func(context.Context, Source) (Version, error)

// Poller adds keys to the queue when a source that they use has changed. It reads each source by its name. A watch of all objects of a kind
// needs the right to list them. A watch of each source needs 60 KiB: whoever may create objects could fill the memory of the operator.
type Poller struct {
	read  ReadVersion
	clock clock.WithTicker
	add   func(cache.ObjectName, trace.Cause)
	first time.Duration
	added chan struct{} // A source was added.
	turn  string        // the namespace of the last request of Run

	mu     sync.Mutex
	polled map[Source]*polled
	used   map[cache.ObjectName]use
}

// use is what a key uses.
type use struct {
	generation int64
	sources    []Source
}

// polled is a source that keys use.
type polled struct {
	source   Source
	users    map[cache.ObjectName]bool
	due      time.Time // of the next request
	asked    int       // how often Use has made the version unknown
	known    bool      // whether version is what was found since then
	version  Version
	failures int   // how many requests have failed since one succeeded
	err      error // of the last request
}

// NewPoller returns a Poller that adds keys with add: see Loop.Add. It reads a source for the first time when the source has been used for
// the time first: a Sync that reads its sources itself reports them with Saw.
func NewPoller(read ReadVersion, add func(cache.ObjectName, trace.Cause), clock clock.WithTicker, first time.Duration) *Poller {
	return &Poller{
		read: read, clock: clock, add: add, first: first, added: make(chan struct{}, 1),
		polled: map[Source]*polled{}, used: map[cache.ObjectName]use{},
	}
}

// Use polls these sources for a key, and no longer its other ones. With another generation than the last time, the versions are unknown
// until they are read again: a user who changes a source and then the object of the key means both.
func (p *Poller) Use(user cache.ObjectName, generation int64, sources ...Source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.used[user]
	if before.generation == generation && slices.Equal(before.sources, sources) {
		return
	}
	for _, s := range sources {
		one := p.polled[s]
		if one == nil {
			one = &polled{source: s, users: map[cache.ObjectName]bool{}}
			p.polled[s] = one
		} else if before.generation == generation && one.users[user] {
			continue
		}
		one.asked++
		one.known, one.due, one.users[user] = false, p.clock.Now().Add(p.first), true
		select {
		case p.added <- struct{}{}:
		default:
		}
	}
	for _, s := range before.sources {
		if one := p.polled[s]; one != nil && !slices.Contains(sources, s) {
			if delete(one.users, user); len(one.users) == 0 {
				delete(p.polled, s)
			}
		}
	}
	if p.used[user] = (use{generation, slices.Clone(sources)}); len(sources) == 0 {
		delete(p.used, user)
	}
}

// Version returns what was found of a source that is used, and whether that is known. If the last two requests have failed, it returns the
// error of the last one.
func (p *Poller) Version(s Source) (version Version, known bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.polled[s]
	switch {
	case one == nil:
		return Version{}, false, nil
	case one.failures > 1:
		err = one.err
	}
	return one.version, one.known, err
}

// Saw records what a Sync has read. If another version was known, it adds all keys that use the source.
func (p *Poller) Saw(s Source, version Version) { p.record(s, version, nil, bySync) }

// bySync says that a Sync has read the source.
const bySync = -1

// record records a result. It adds the users if another version is found, and if the source can no longer be read, or again. It also adds
// them if the version was unknown, and the Poller has read it: asked is what it was before the request. If Use has asked again meanwhile,
// the result may be older than that.
func (p *Poller) record(s Source, version Version, err error, asked int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.polled[s]
	if one == nil || asked != bySync && asked != one.asked {
		return
	}
	cause := trace.Cause{
		Object: trace.Object{Kind: s.Kind, Namespace: s.Namespace, Name: s.Name}, Verb: string(cache.Updated),
		ResourceVersion: version.ResourceVersion, Urgent: true,
	}
	var changed bool
	if one.err = err; err != nil {
		one.due = p.clock.Now().Add(PollEvery)
		if one.failures++; one.failures == 1 {
			one.due = p.clock.Now().Add(PollSoon)
		}
		changed = one.failures == 2
	} else {
		changed = one.failures > 1 || one.known && one.version != version || !one.known && asked != bySync
		one.known, one.version, one.failures = true, version, 0
		one.due = p.clock.Now().Add(PollEvery)
		if version == (Version{}) {
			one.due, cause.Verb = p.clock.Now().Add(PollSoon), string(cache.Deleted)
		}
	}
	if !changed {
		return
	}
	byName := func(a, b cache.ObjectName) int { return cmp.Compare(a.String(), b.String()) }
	for _, user := range slices.SortedFunc(maps.Keys(one.users), byName) {
		p.add(user, cause)
	}
}

// Poll reads the sources of a key now: for a Controller that does not run.
func (p *Poller) Poll(ctx context.Context, user cache.ObjectName) {
	p.mu.Lock()
	sources := p.used[user].sources
	p.mu.Unlock()
	for _, s := range sources {
		p.poll(ctx, s)
	}
}

// Run polls until ctx ends.
func (p *Poller) Run(ctx context.Context) {
	for ctx.Err() == nil {
		due, wait := p.next()
		begin := p.clock.Now()
		for _, s := range due {
			p.turn = s.Namespace
			p.poll(ctx, s)
			p.sleep(ctx, pollPause, nil)
			if p.clock.Since(begin) >= pollBatch*pollPause { // Requests are slow: another namespace may have a new source.
				break
			}
		}
		if len(due) == 0 {
			p.sleep(ctx, wait, p.added)
		}
	}
}

func (p *Poller) poll(ctx context.Context, s Source) {
	reading, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	asked := 0
	p.mu.Lock()
	if one := p.polled[s]; one != nil {
		asked = one.asked
	}
	p.mu.Unlock()
	version, err := p.read(reading, s)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Could not read the version", "kind", s.Kind, "name", s.ObjectName, "err", err)
	}
	p.record(s, version, err, asked)
}

func (p *Poller) sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := p.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C():
	}
}

// next returns up to pollBatch sources to poll now, or else how long to wait, at most PollSoon: Saw makes no source due sooner. The
// namespaces take turns: a namespace with thousands of sources delays its own polls, and not those of others.
func (p *Poller) next() ([]Source, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, wait := p.clock.Now(), PollSoon
	due := map[string][]*polled{} // of each namespace, the first ones
	for _, one := range p.polled {
		if until := one.due.Sub(now); until > 0 {
			wait = min(wait, until)
			continue
		}
		of := due[one.source.Namespace]
		if at, _ := slices.BinarySearchFunc(of, one, byDue); at < pollBatch {
			of = slices.Insert(of, at, one)
			due[one.source.Namespace] = of[:min(len(of), pollBatch)]
		}
	}
	namespaces := slices.Sorted(maps.Keys(due))
	after, had := slices.BinarySearch(namespaces, p.turn)
	if had {
		after++
	}
	namespaces = slices.Concat(namespaces[after:], namespaces[:after])
	namespaces = namespaces[:min(len(namespaces), pollBatch)]
	var next []Source
	for turn := range pollBatch {
		for _, namespace := range namespaces {
			if of := due[namespace]; turn < len(of) && len(next) < pollBatch {
				next = append(next, of[turn].source)
			}
		}
	}
	return next, wait
}

func byDue(a, b *polled) int {
	return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.source.Kind, b.source.Kind), cmp.Compare(a.source.Name, b.source.Name))
}
