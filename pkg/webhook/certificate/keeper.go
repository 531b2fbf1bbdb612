// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/trace"
)

// Name is the keeper's name, for logs and traces.
const Name = "certificates"

// A failed sync is retried after retryFirst, then twice as long each time, but never longer than retryMost.
const (
	retryFirst = 100 * time.Millisecond
	retryMost  = 30 * time.Second
)

// Store is where the CAs are kept.
type Store interface {
	// Get returns the Secret in the cache, or nil if there is none.
	Get() (*corev1.Secret, error)
	// Live returns the Secret of the API server, or nil if there is none.
	Live(ctx context.Context) (*corev1.Secret, error)
	// Put writes a changed Secret from Get, or a new Secret without a resourceVersion. It returns an error and writes nothing after a
	// conflict, or if the new Secret exists already.
	Put(ctx context.Context, secret *corev1.Secret) error
}

// Registration is a webhook configuration, whose caBundles API servers trust.
type Registration interface {
	// Bundles returns the caBundle of every webhook of this operator, from the cache; none if the configuration does not exist.
	Bundles() ([][]byte, error)
	// UpToDate reports whether the cached configuration has this caBundle in every webhook of this operator, and its other fields as desired.
	UpToDate(caBundle []byte) (bool, error)
	// Trust writes the caBundle and the other desired fields of the configuration.
	Trust(ctx context.Context, caBundle []byte) error
}

// Config is the configuration of a Keeper.
type Config struct {
	Store         Store
	Registrations []Registration
	// Published is a copy of the caBundle for other clients, or nil. What it holds decides nothing: whoever may write a ConfigMap can neither
	// make API servers trust a CA, nor delay the next one.
	Published Registration
	// Shared says that other processes serve under the same names: a CA that is in a caBundle, and not in the Store, may be theirs.
	Shared bool
	// Names are the DNS names and IP addresses by which API servers call the webhooks.
	Names     []string
	Lifetimes Lifetimes
	// Now returns the time of the API server, which decides whether certificates are valid.
	Now func() time.Time
	// Clock measures how long a caBundle has been seen.
	Clock     clock.WithTicker
	Observers []loop.Observer
	// Serving is called for each new serving certificate, with its expiry; nil for no such call.
	Serving func(expiry time.Time)
}

// Keeper keeps the CAs, makes API servers trust them, and serves certificates that they
// sign. Every replica of the operator has one. See the package's documentation.
type Keeper struct {
	Config
	loop *loop.Loop
	leaf Leaf

	// Only Sync uses the fields below, and only one Sync runs at a time.
	targets []Registration        // all that Trust is called of
	bundles [][]*x509.Certificate // the CAs in each caBundle of Registrations
	trusted map[string]time.Time  // the time since when all caBundles hold a CA, by the CA
	wrote   []time.Time           // when the caBundle of each registration was last written
	putOver string                // the resourceVersion that the last Put replaced
	putAt   time.Time             // the time of that Put
}

// key is the only key in the workqueue.
var key = cache.ObjectName{Name: Name}

// New returns a Keeper. It starts nothing.
func New(config Config) *Keeper {
	targets := slices.Clone(config.Registrations)
	if config.Published != nil {
		targets = append(targets, config.Published)
	}
	k := &Keeper{
		Config: config, leaf: Leaf{given: make(chan struct{}), serving: config.Serving},
		targets: targets, trusted: map[string]time.Time{}, wrote: make([]time.Time, len(targets)),
	}
	k.loop = loop.New(loop.Config{
		Name: Name, Kind: "Certificate", Sync: k.Sync, MinRetry: retryFirst, MaxRetry: retryMost, Clock: config.Clock,
		Observers: config.Observers,
	})
	return k
}

// Watch enqueues a sync for each change of an object of the informer. The Store or a Registration reads these objects.
func (k *Keeper) Watch(informer cache.SharedIndexInformer, kind string) error {
	return k.loop.Watch(informer, kind, theOnlyOne)
}

// Leaf returns the certificate that the webhook server serves.
func (k *Keeper) Leaf() *Leaf { return &k.leaf }

// Loop returns the keeper's workqueue and worker, for the page that shows them.
func (k *Keeper) Loop() *loop.Loop { return k.loop }

// Run keeps the certificates until ctx is done (see loop.Loop.Run).
func (k *Keeper) Run(ctx, drain context.Context) {
	k.loop.Add(key, trace.Cause{Verb: trace.VerbStart})
	k.loop.Run(ctx, drain, 1)
}

// Sync does at most one write of the Secret, then writes the caBundles, and then changes the serving certificate. Each step follows from
// the observed state, so that a crash between any two steps does no harm.
func (k *Keeper) Sync(ctx context.Context, _ cache.ObjectName) (time.Duration, error) {
	logger, now := klog.FromContext(ctx), k.Now()
	secret, err := k.Store.Get()
	if err != nil {
		return 0, err
	}
	held, problems := read(secret)
	if err := k.observe(held.trusted); err != nil {
		return 0, err
	}
	situation := situation{now: now, settled: k.settled, lifetimes: k.Lifetimes}
	if k.Shared {
		situation.bundles = k.bundles
	}
	wanted, did, err := decide(held, situation, func() (*authority, error) { return newAuthority(now, k.Lifetimes.Authority) })
	if err != nil {
		return 0, err
	}
	changed := &corev1.Secret{}
	if secret != nil {
		changed = secret.DeepCopy()
	}
	if !wanted.write(changed) {
		pause, trustErr := k.trust(ctx, secret, wanted)
		return cmp.Or(pause, k.Lifetimes.Settle), errors.Join(trustErr, k.serve(logger, wanted, now))
	}
	wait, putErr := k.put(ctx, changed, did, errors.Join(problems...))
	if held.current == nil || !valid(held.current.cert, now) {
		return wait, putErr
	}
	// Until the cache shows the write, or while writes fail, the keeper uses the Secret in the cache. It writes no caBundle without a CA that
	// only the new Secret keeps.
	var trustErr error
	if len(held.lost(situation)) == 0 {
		_, trustErr = k.trust(ctx, secret, held)
	}
	return wait, errors.Join(putErr, trustErr, k.serve(logger, held, now))
}

// put writes the Secret. It delays the repetition of a write that the cache does not show: the
// cache may be stale, or another client undoes the write.
func (k *Keeper) put(ctx context.Context, secret *corev1.Secret, did []string, problems error) (time.Duration, error) {
	if pause := k.pause(k.putAt); pause > 0 && secret.ResourceVersion == k.putOver {
		return pause, nil
	}
	replaced := secret.ResourceVersion
	if err := k.Store.Put(ctx, secret); err != nil {
		return 0, fmt.Errorf("write the Secret of the webhooks' CA: %w", err)
	}
	k.putOver, k.putAt = replaced, k.Clock.Now()
	klog.FromContext(ctx).Info("Changed the CAs of the webhooks", "did", did, "unreadable", problems)
	return retryFirst, nil // By then, or earlier after an event, Get returns the new Secret.
}

// pause returns how long to wait until the next write, given the time of the last one; not more than 0 if the wait is over. The wait keeps
// the Keeper from racing another client that writes the same object.
func (k *Keeper) pause(written time.Time) time.Duration {
	return k.Lifetimes.Settle/12 - k.Clock.Since(written)
}

// observe reads the caBundles of all webhooks that are registered, and remembers since when each CA is in all of them. If there are none,
// it remembers since when the Secret has a CA: it is published then.
func (k *Keeper) observe(inSecret []*x509.Certificate) error {
	var all [][]*x509.Certificate
	seen := map[string]bool{} // Most of the time they are all the same.
	for _, r := range k.Registrations {
		bundles, err := r.Bundles()
		if err != nil {
			return err
		}
		for _, bundle := range bundles {
			if !seen[string(bundle)] {
				seen[string(bundle)] = true
				all = append(all, parseBundle(bundle))
			}
		}
	}
	before := k.trusted
	k.bundles, k.trusted = all, map[string]time.Time{}
	if len(all) == 0 {
		all = [][]*x509.Certificate{inSecret}
	}
	for _, ca := range slices.Concat(all...) {
		if !everywhere(ca, all) {
			continue
		}
		since, known := before[string(ca.Raw)]
		if !known {
			since = k.Clock.Now()
		}
		k.trusted[string(ca.Raw)] = since
	}
	return nil
}

// everywhere reports whether a CA is in every bundle.
func everywhere(ca *x509.Certificate, bundles [][]*x509.Certificate) bool {
	return !slices.ContainsFunc(bundles, func(bundle []*x509.Certificate) bool { return !holds(bundle, ca) })
}

// settled reports whether every client presumably trusts a CA. It returns true if there is none.
func (k *Keeper) settled(ca *x509.Certificate) bool {
	if len(k.bundles) == 0 && k.Published == nil {
		return true
	}
	since, everywhere := k.trusted[string(ca.Raw)]
	return everywhere && k.Clock.Since(since) >= k.Lifetimes.Settle
}

// trust makes all registrations trust the CAs of c. If it is too early for a write, it returns how long to wait.
func (k *Keeper) trust(ctx context.Context, secret *corev1.Secret, c contents) (wait time.Duration, err error) {
	bundle := formatBundle(c.trusted)
	var behind []int
	for i, r := range k.targets {
		upToDate, err := r.UpToDate(bundle)
		if err != nil {
			return 0, err
		}
		switch pause := k.pause(k.wrote[i]); {
		case upToDate:
		case pause > 0:
			wait = max(wait, pause)
		default:
			behind = append(behind, i)
		}
	}
	if len(behind) == 0 {
		return wait, nil
	}
	// With a stale cache, API servers would lose the newest CA again.
	live, err := k.Store.Live(ctx)
	if err != nil {
		return 0, fmt.Errorf("get the Secret of the webhooks' CA: %w", err)
	}
	if live == nil || live.ResourceVersion != secret.ResourceVersion {
		return wait, nil // The event with the newer Secret leads to the next sync.
	}
	var errs []error
	for _, i := range behind {
		err := k.targets[i].Trust(ctx, bundle)
		if err == nil {
			k.wrote[i] = k.Clock.Now()
		}
		errs = append(errs, err)
	}
	return wait, errors.Join(errs...)
}

// serve changes the serving certificate, if that is due.
func (k *Keeper) serve(logger klog.Logger, c contents, now time.Time) error {
	if !k.due(c.current.cert, now) {
		return nil
	}
	leaf, err := c.current.leaf(k.Names, now, k.Lifetimes.Leaf)
	if err != nil {
		return err
	}
	k.leaf.store(leaf, c.current.cert)
	logger.Info("Serving a new certificate", "names", k.Names, "notAfter", leaf.Leaf.NotAfter, "ca", c.current.cert.Subject.CommonName)
	return nil
}

// due reports whether to serve a new certificate, which ca signs.
func (k *Keeper) due(ca *x509.Certificate, now time.Time) bool {
	switch held := k.leaf.held.Load(); {
	case held == nil:
		return len(k.bundles) == 0 || holds(slices.Concat(k.bundles...), ca) // Otherwise no API server trusts it.
	case !valid(held.cert.Leaf, now) || !valid(held.ca, now):
		return true
	case !held.ca.Equal(ca):
		return k.settled(ca)
	default:
		until := earlier(now.Add(k.Lifetimes.Leaf), ca.NotAfter)
		return until.Sub(held.cert.Leaf.NotAfter) >= k.Lifetimes.Leaf*2/3
	}
}

// theOnlyOne is the key of every object that a Keeper watches.
func theOnlyOne(metav1.Object) (cache.ObjectName, bool) { return key, true }
