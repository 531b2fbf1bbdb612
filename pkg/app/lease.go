// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

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
	"github.com/glassback/glassback/pkg/metrics"
	"github.com/glassback/glassback/pkg/options"
)

// leadership is the right to run controllers. Only the operator that holds the Lease has it. client-go's elector acquires and renews the
// Lease. A standby watches the Lease and does not poll it. It takes over a Lease that is released, or not renewed for its duration.
//
// leadership corrects two faults of the elector. First, the elector would release the Lease while controllers still run: run releases it
// after they have ended. Second, the elector counts the time for which it may lead from the answer to its last request. The API server may
// have stored the Lease long before the answer, and other operators count from then. So leadership counts from the start of the request.
type leadership struct {
	options.Lease

	lock    resourcelock.Interface
	client  coordinationclient.LeaseInterface
	elector *leaderelection.LeaderElector
	watch   *informers
	leads   chan struct{} // closed, by started, as soon as this operator leads

	mu      sync.Mutex
	last    leaseSnapshot
	changed chan struct{} // closed and replaced when last changes
	renewed time.Time     // the start of the last request that renewed the Lease
	expiry  *time.Timer   // ends the elector's attempt if the Lease is not renewed in time
}

// leaseSnapshot is the Lease as the watch last showed it.
type leaseSnapshot struct {
	holder   string // "" if no operator holds the Lease, or no Lease exists
	renewed  time.Time
	duration time.Duration
	at       time.Time // when this process received it, by its own clock
}

var errLeaseLost = errors.New("lost the Lease: it could not be renewed in time, and another operator may lead now")

// newLeadership returns nil without --leader-elect.
func newLeadership(o *options.Options, c *clients.Clients, recorder record.EventRecorder, m *metrics.Metrics) (*leadership, error) {
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
		Lock:          watchedLock{l.lock, l},
		LeaseDuration: o.Lease.Duration,
		RenewDeadline: o.Lease.Deadline,
		RetryPeriod:   o.Lease.Retry,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: l.started,
			OnStoppedLeading: func() {}, // Then elector.Run returns: see attempt.
		},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the leader election: %w", err)
	}
	l.watch = newInformers(c, namespace, o.Queue, &observers{metrics: m}) // The page shows no Lease.
	informer := l.watch.Lease(o.Lease.Name).Informer()
	// A deletion does not free the Lease: a leader that still runs creates it again.
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { l.record(obj) },
		UpdateFunc: func(_, obj any) { l.record(obj) },
	})
	return l, err
}

// identity returns a name that is unique to this Pod or, outside of a cluster, to this process. If the process of a leader dies, the next
// process in the same Pod can lead at once.
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

// run competes for the Lease until ctx is done, and then releases it. The leader's goroutines must have ended before ctx is done. If this
// operator loses the Lease, run calls lost, which returns when these goroutines have ended. Then run also releases the Lease: this
// operator may still hold it, if only the answers of the API server did not arrive.
func (l *leadership) run(ctx context.Context, lost func()) {
	logger := klog.FromContext(ctx).WithValues("lease", l.lock.Describe(), "identity", l.lock.Identity())
	ctx = klog.NewContext(ctx, logger)
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	l.watch.Start(watching)
	defer func() {
		stopWatching()
		l.watch.Shutdown()
	}()
	if !l.watch.WaitForSync(ctx) {
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

// attempt lets the elector acquire the Lease and renew it, until it loses the Lease.
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

// renew records a request that has renewed the Lease, and sets expiry. The elector leads while it tries to renew the Lease. The first try
// comes one retry period after the last renewal.
func (l *leadership) renew(record *resourcelock.LeaderElectionRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = record.RenewTime.Time // the time before the request, by this process's clock
	l.expiry.Reset(time.Until(l.renewed) + l.Deadline + l.Retry)
}

// left returns how long a leader that has lost its Lease may still run. It is less than Margin if the leader noticed the loss late.
func (l *leadership) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(l.Margin(), time.Until(l.renewed)+l.Duration)
}

// await waits until the context leading ends, which happens after the controllers have ended. If they take longer than left, await ends
// the process.
func (l *leadership) await(leading context.Context) {
	select {
	case <-leading.Done():
	case <-time.After(l.left()):
		klog.FromContext(leading).Error(errLeaseLost, "Controllers still run, and another operator may lead now: the process ends")
		klog.FlushAndExit(flushPatience, command.Failed)
	}
}

// flushPatience is the longest time that the process waits to write its log before it ends.
const flushPatience = 100 * time.Millisecond

// started closes leads. The elector calls it when it has acquired the Lease.
func (l *leadership) started(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() == nil && !l.led() { // The attempt may have ended at the same moment.
		close(l.leads)
	}
}

// stopWaiting ends an attempt of the elector, unless this operator leads already. It returns whether this operator leads.
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

// yield ends an attempt of the elector when the watch shows that another operator holds the Lease. Without yield, a waiting elector would
// continue to poll. A leading elector would continue to lead until its attempts to renew the lost Lease have reached their deadline.
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

// lost reads the live Lease, since the watch may be stale, and reports whether this operator no longer holds it.
func (l *leadership) lost(ctx context.Context) bool {
	ctx, cancel := l.patience(ctx)
	defer cancel()
	lease, err := l.client.Get(ctx, l.Name, metav1.GetOptions{})
	return err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") != l.lock.Identity()
}

// patience returns a context with the timeout of one request: a request without an answer leaves time for a second request.
func (l *leadership) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(time.Second, l.Deadline/2))
}

// awaitFree waits until this operator may take the Lease. It returns false if ctx ends first.
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

// free reports whether this operator may take the Lease, by the last snapshot. If not, it may take the Lease after wait, unless the Lease
// changes. changed is closed when the Lease changes.
func (l *leadership) free() (free bool, wait time.Duration, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last.holder == "" || l.last.holder == l.lock.Identity() {
		return true, 0, l.changed
	}
	wait = l.last.duration - time.Since(l.last.at)
	return wait <= 0, wait, l.changed
}

func (l *leadership) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.holder
}

// record updates the snapshot from the watch. The times in the Lease come from another machine's clock, so only the time at which this
// process receives a renewal counts.
func (l *leadership) record(obj any) {
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok {
		return
	}
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	now := leaseSnapshot{
		holder: record.HolderIdentity, renewed: record.RenewTime.Time,
		duration: time.Duration(record.LeaseDurationSeconds) * time.Second, at: time.Now(),
	}
	if now.duration <= 0 {
		now.duration = l.Duration
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if before := l.last; before.holder == now.holder && before.renewed.Equal(now.renewed) && before.duration == now.duration {
		return // The change is no renewal; for example, only a label changed.
	}
	l.last = now
	close(l.changed)
	l.changed = make(chan struct{})
}

// release releases the Lease if this operator holds it. It reads the Lease first: if the answer to a request did not arrive, this operator
// does not know whether it holds the Lease.
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

// releasePatience is the longest time that release waits for an API server, and releaseRetry the time between its requests.
const (
	releasePatience = 5 * time.Second
	releaseRetry    = 100 * time.Millisecond
)

// check returns an error if this leader still runs long after its Lease has expired. Then the kubelet restarts the container.
func (l *leadership) check(context.Context) error { return l.elector.Check(leaseTolerance) }

const leaseTolerance = 20 * time.Second
