/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/options"
)

// leadership is the right to run controllers, which one of several operators has at a time:
// the one that holds a Lease. client-go's elector acquires and renews it. In addition, a standby
// watches the Lease and does not poll it. It takes the Lease over as soon as it is released, or
// has not been renewed for its duration.
//
// leadership corrects two faults of the elector. The elector would release a Lease while
// controllers still run: run releases it after they have ended. And the elector counts the time
// for which it may lead from the answer to its last request. The API server may have stored the Lease long
// before, and other operators count from then. So this counts from before the request.
type leadership struct {
	options.Lease

	lock    resourcelock.Interface
	client  coordinationclient.LeaseInterface
	elector *leaderelection.LeaderElector
	watch   *factories
	leads   chan struct{} // closed, by started, as soon as this operator leads

	mu      sync.Mutex
	seen    sighting
	changed chan struct{} // closed and replaced when the Lease is observed
	renewed time.Time     // when the request began that was the last to renew the Lease
	expiry  *time.Timer   // ends the elector's attempt when the Lease was not renewed in time
}

// sighting is the state of the Lease that the watch last showed.
type sighting struct {
	holder   string // empty if there is none, or no Lease
	renewed  time.Time
	duration time.Duration
	at       time.Time // when it was seen, by this process's clock
}

var errLeaseLost = errors.New("lost the Lease: it could not be renewed in time, and another operator may lead now")

// newLeadership returns nil if there is none to be elected.
func newLeadership(o *options.Options, c *clients.Clients, recorder record.EventRecorder) (*leadership, error) {
	if !o.Lease.Elect {
		return nil, nil
	}
	namespace := cmp.Or(o.Lease.Namespace, command.OwnNamespace())
	if namespace == "" {
		return nil, errors.New("--leader-elect outside of a Pod needs --leader-elect-resource-namespace: the namespace of the Lease")
	}
	identity, err := identity()
	if err != nil {
		return nil, err
	}
	l := &leadership{
		Lease: o.Lease, client: c.Kube.CoordinationV1().Leases(namespace),
		leads: make(chan struct{}), changed: make(chan struct{}),
	}
	l.lock = &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: o.Lease.Name},
		Client:     c.Kube.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity, EventRecorder: recorder},
	}
	l.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name:          o.Lease.Name,
		Lock:          patientLock{l.lock, l},
		LeaseDuration: o.Lease.Duration,
		RenewDeadline: o.Lease.Deadline,
		RetryPeriod:   o.Lease.Retry,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: l.started,
			OnStoppedLeading: func() {}, // run sees it
		},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the leader election: %w", err)
	}
	l.watch = newFactories(c, namespace, o.Queue, nil)
	informer := l.watch.lease(o.Lease.Name).Informer()
	// A Lease that is deleted is not free: its leader makes it again, as long as there is one.
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { l.sees(obj) },
		UpdateFunc: func(_, obj any) { l.sees(obj) },
	})
	return l, err
}

// identity is unique to this process, or to this Pod: if the process of a leader dies, the next
// one in the same Pod leads at once.
func identity() (string, error) {
	if pod, uid := os.Getenv("POD_NAME"), os.Getenv("POD_UID"); pod != "" && uid != "" {
		return pod + "_" + uid, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("read the host name: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}

// run competes for the Lease until ctx is done, and releases it then: the leader's goroutines
// must have ended before. If this operator loses the lead, run calls lost, which returns when
// these goroutines have ended. run releases the Lease after that too: this operator may still
// hold it, if only the answers of the API server were lost.
func (l *leadership) run(ctx context.Context, lost func()) {
	logger := klog.FromContext(ctx).WithValues("lease", l.lock.Describe(), "identity", l.lock.Identity())
	ctx = klog.NewContext(ctx, logger)
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	l.watch.start(watching)
	defer func() {
		stopWatching()
		l.watch.shutdown()
	}()
	if !l.watch.synced(ctx) {
		return // ctx has ended
	}
	for !l.led() && l.awaitFree(ctx, logger) {
		l.attempt(ctx)
	}
	if ctx.Err() == nil {
		lost()
	}
	l.release(ctx, logger)
}

// attempt has the elector acquire the Lease, and renew it for as long as it can.
func (l *leadership) attempt(ctx context.Context) {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	expiry := time.AfterFunc(math.MaxInt64, giveUp)
	defer expiry.Stop()
	l.mu.Lock()
	l.expiry = expiry
	l.mu.Unlock()
	go l.yield(ctx, giveUp)
	l.elector.Run(ctx)
}

// renew takes note of a request that has renewed the Lease. The elector may lead for as long as
// it tries to renew it, which it begins to do when retry has passed.
func (l *leadership) renew(record *resourcelock.LeaderElectionRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = record.RenewTime.Time // of the time before the request, and of this process's clock
	l.expiry.Reset(time.Until(l.renewed) + l.Deadline + l.Retry)
}

// left returns how long a leader that has lost its Lease may take to end: less than margin, if it
// has learned of that late.
func (l *leadership) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(l.Margin(), time.Until(l.renewed)+l.Duration)
}

// await returns when leading ends, as it does once the controllers have. If they take longer
// than they may, the process ends.
func (l *leadership) await(leading context.Context) {
	select {
	case <-leading.Done():
	case <-time.After(l.left()):
		klog.FromContext(leading).Error(errLeaseLost, "Controllers still run, and another operator may lead now: the process ends")
		klog.FlushAndExit(flushPatience, command.Failed)
	}
}

// flushPatience is how long a log that cannot be written keeps such a process from its end.
const flushPatience = 100 * time.Millisecond

// started is called by the elector once it has the Lease.
func (l *leadership) started(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() == nil && !l.led() { // It may have been given up at the same moment.
		close(l.leads)
	}
}

// stopWaiting ends an attempt of the elector, unless this operator leads by now.
func (l *leadership) stopWaiting(giveUp context.CancelFunc) (leads bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.led() {
		giveUp()
	}
	return l.led()
}

// led reports whether this operator leads, or has led.
func (l *leadership) led() bool {
	select {
	case <-l.leads:
		return true
	default:
		return false
	}
}

// yield ends an attempt of the elector once the watch shows that the Lease is another one's. An
// elector that waits would go on to ask; and one that leads would go on to lead, until it has
// tried for its deadline to renew what it has lost.
func (l *leadership) yield(attempt context.Context, giveUp context.CancelFunc) {
	for {
		free, _, changed := l.free()
		if !free && l.stopWaiting(giveUp) && l.lost(attempt) {
			giveUp()
		}
		select {
		case <-attempt.Done():
			return
		case <-changed:
		}
	}
}

// lost reports whether the API server says that another one holds the Lease: the watch may be
// behind.
func (l *leadership) lost(ctx context.Context) bool {
	ctx, cancel := l.patience(ctx)
	defer cancel()
	lease, err := l.client.Get(ctx, l.Name, metav1.GetOptions{})
	return err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") != l.lock.Identity()
}

// patience bounds one request: one that hangs leaves time for another one.
func (l *leadership) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(time.Second, l.Deadline/2))
}

// awaitFree returns true once the Lease may be taken, and false once ctx is done.
func (l *leadership) awaitFree(ctx context.Context, logger klog.Logger) bool {
	last := ""
	for ctx.Err() == nil {
		free, wait, changed := l.free()
		if free {
			return true
		}
		if holder := l.holder(); holder != last {
			last = holder
			logger.Info("Standing by: another operator leads", "leader", holder)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
	return false
}

// free reports whether the Lease may be taken, by what was last seen of it; or else how long
// it is until it may, unless changed is closed before.
func (l *leadership) free() (free bool, wait time.Duration, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen.holder == "" || l.seen.holder == l.lock.Identity() {
		return true, 0, l.changed
	}
	wait = l.seen.duration - time.Since(l.seen.at)
	return wait <= 0, wait, l.changed
}

func (l *leadership) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen.holder
}

// sees takes note of what the watch shows. Times in the Lease are of another machine's clock,
// and not relied on: what counts is when one was first seen.
func (l *leadership) sees(obj any) {
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok {
		return
	}
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	now := sighting{
		holder: record.HolderIdentity, renewed: record.RenewTime.Time,
		duration: time.Duration(record.LeaseDurationSeconds) * time.Second, at: time.Now(),
	}
	if now.duration <= 0 {
		now.duration = l.Duration
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if before := l.seen; before.holder == now.holder && before.renewed.Equal(now.renewed) && before.duration == now.duration {
		return // It was not renewed, but changed in another way, such as by a label.
	}
	l.seen = now
	close(l.changed)
	l.changed = make(chan struct{})
}

// release gives the Lease back, if this operator has it: also if it does not know, since an
// answer was lost.
func (l *leadership) release(ctx context.Context, logger klog.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releasePatience)
	defer cancel()
	for ; ; time.Sleep(releaseRetry) {
		record, _, err := l.lock.Get(ctx)
		if apierrors.IsNotFound(err) || (err == nil && record.HolderIdentity != l.lock.Identity()) {
			return
		}
		if err == nil {
			now := metav1.Now()
			err = l.lock.Update(ctx, resourcelock.LeaderElectionRecord{
				LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now, LeaderTransitions: record.LeaderTransitions,
			})
		}
		switch {
		case err == nil:
			logger.Info("Released the Lease")
			return
		case ctx.Err() != nil:
			logger.Error(err, "Could not release the Lease; the next operator leads when it has run out")
			return
		}
	}
}

// releasePatience is how long an API server that does not answer can keep the end waiting, and
// releaseRetry how soon it is asked again.
const (
	releasePatience = 5 * time.Second
	releaseRetry    = 100 * time.Millisecond
)

// check returns an error if the Lease has not been renewed for long, and yet nothing has ended:
// such a process is better started again.
func (l *leadership) check(context.Context) error { return l.elector.Check(leaseTolerance) }

const leaseTolerance = 20 * time.Second
