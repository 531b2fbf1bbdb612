// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/metrics"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/spans"
	"github.com/glassback/glassback/pkg/trace"
)

var leases = coordinationv1.Resource("leases")

// leaseServer is an API server that has one Lease.
type leaseServer struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease // nil if the Lease does not exist
	version int
	changed chan struct{} // closed and replaced with every write
}

func newLeaseServer() *leaseServer { return &leaseServer{changed: make(chan struct{})} }

// holder returns the identity of the holder of the Lease.
func (s *leaseServer) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil {
		return ""
	}
	return ptr.Deref(s.lease.Spec.HolderIdentity, "")
}

// answer reads, creates or updates the Lease for a request, and returns the answer of an API server.
func (s *leaseServer) answer(method string, body []byte) (*coordinationv1.Lease, *apierrors.StatusError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if method == http.MethodGet {
		if s.lease == nil {
			return nil, apierrors.NewNotFound(leases, "glassback")
		}
		return s.lease.DeepCopy(), nil
	}
	sent := &coordinationv1.Lease{}
	if err := json.Unmarshal(body, sent); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	switch {
	case method == http.MethodPost && s.lease != nil:
		return nil, apierrors.NewAlreadyExists(leases, "glassback")
	case method == http.MethodPut && sent.ResourceVersion != s.lease.ResourceVersion:
		return nil, apierrors.NewConflict(leases, "glassback", fmt.Errorf("it has version %s", s.lease.ResourceVersion))
	}
	s.version++
	sent.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	sent.ResourceVersion = strconv.Itoa(s.version)
	s.lease = sent
	close(s.changed)
	s.changed = make(chan struct{})
	return sent.DeepCopy(), nil
}

// watch sends the Lease, a bookmark that ends the initial events, and then each change. Of changes in quick succession it sends the last.
func (s *leaseServer) watch(w *io.PipeWriter, closed <-chan struct{}) {
	send := func(kind string, lease *coordinationv1.Lease) {
		text, _ := json.Marshal(map[string]any{"type": kind, "object": lease}) // A Lease can be encoded.
		_, _ = w.Write(text)                                                   // The client may be gone.
	}
	sent := ""
	for first := true; ; first = false {
		s.mu.Lock()
		lease, version, changed := s.lease.DeepCopy(), s.version, s.changed
		s.mu.Unlock()
		if lease != nil && lease.ResourceVersion != sent {
			send(map[bool]string{true: "ADDED", false: "MODIFIED"}[sent == ""], lease)
			sent = lease.ResourceVersion
		}
		if first {
			send("BOOKMARK", &coordinationv1.Lease{
				TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
				ObjectMeta: metav1.ObjectMeta{
					ResourceVersion: strconv.Itoa(version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
				},
			})
		}
		select {
		case <-changed:
		case <-closed:
			_ = w.Close() // Close never fails.
			return
		}
	}
}

// network is the network between one operator and the server. delay returns how long a request takes to the server, and its answer to the
// client.
type network struct {
	*leaseServer

	mu    sync.Mutex
	delay func(method string) (toServer, toClient time.Duration)
}

const never = 1000 * time.Hour

func (n *network) setDelay(delay func(method string) (toServer, toClient time.Duration)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = delay
}

func quick(string) (toServer, toClient time.Duration) { return time.Millisecond, time.Millisecond }

// watchBody is the body of the answer to a watch.
type watchBody struct {
	io.Reader
	close func()
}

func (b watchBody) Close() error { b.close(); return nil }

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
	if r.URL.Query().Get("watch") != "" {
		reader, writer := io.Pipe()
		closed := make(chan struct{})
		stop := sync.OnceFunc(func() { close(closed); _ = reader.Close() })
		context.AfterFunc(r.Context(), stop)
		go n.watch(writer, closed)
		response.Body = watchBody{reader, stop}
		return response, nil
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	n.mu.Lock()
	toServer, toClient := n.delay(r.Method)
	n.mu.Unlock()
	if err := pause(r.Context(), toServer); err != nil {
		return nil, err
	}
	lease, failed := n.answer(r.Method, body)
	if err := pause(r.Context(), toClient); err != nil {
		return nil, err
	}
	var text []byte
	var err error
	if failed != nil {
		response.StatusCode = int(failed.ErrStatus.Code)
		text, err = json.Marshal(failed.ErrStatus)
	} else {
		text, err = json.Marshal(lease)
	}
	response.Body = io.NopCloser(bytes.NewReader(text))
	return response, err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// contender is an operator that competes for the Lease.
type contender struct {
	*leadership
	*network

	lostAt time.Time
	end    func() // ends the contender's run, and waits until it has released the Lease
}

// startContender starts a contender. If it loses the Lease, it calls onLost, and its controllers end after shutdown.
func (s *leaseServer) startContender(t *testing.T, shutdown time.Duration, onLost func(*contender)) *contender {
	t.Helper()
	c := s.newContender(t)
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	var running sync.WaitGroup
	running.Go(func() {
		c.run(ctx, func() {
			c.lostAt = time.Now()
			if onLost != nil {
				onLost(c)
			}
			time.Sleep(shutdown)
			cancel()
		})
	})
	c.end = func() { cancel(); running.Wait() }
	return c
}

// newContender returns a contender that does not run.
func (s *leaseServer) newContender(t *testing.T) *contender {
	t.Helper()
	c := &contender{network: &network{leaseServer: s, delay: quick}}
	config := &rest.Config{
		Host: "http://server", QPS: -1, Transport: c.network, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON},
	}
	o := &options.Options{Lease: options.Lease{
		Elect: true, Name: "glassback", Namespace: "glassback-system", Duration: 15 * time.Second,
		Deadline: 10 * time.Second, Retry: 2 * time.Second,
	}}
	var err error
	c.leadership, err = newLeadership(o, &clients.Clients{Kube: kubernetes.NewForConfigOrDie(config)}, nil, metrics.New("", "", 0))
	must.Succeed(t, err)
	return c
}

// TestTwoNeverLead cuts a leader off from the API server right after a renewal. The process of that leader must end before another operator
// leads, even if its controllers do not end.
func TestTwoNeverLead(t *testing.T) {
	for sentence, delays := range map[string][]struct { // of the last requests before the leader is cut off
		method             string
		toServer, toClient time.Duration
	}{
		"a renewal takes no time":                  {{http.MethodPut, 0, 0}},
		"the answer to a renewal takes long":       {{http.MethodPut, 0, 4900 * time.Millisecond}},
		"a renewal takes long to reach the server": {{http.MethodPut, 4900 * time.Millisecond, 0}},
		"an answer is lost, and the next takes long": {
			{http.MethodPut, 0, never}, {http.MethodGet, 0, 4 * time.Second}, {http.MethodPut, 0, 900 * time.Millisecond},
		},
		"all requests of a renewal take long": {
			{http.MethodPut, never, 0}, {http.MethodGet, time.Second, 2 * time.Second}, {http.MethodPut, 0, 1900 * time.Millisecond},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newLeaseServer()
				var processEnd time.Time // when the process of the first leader ends at the latest
				first := server.startContender(t, 0, func(c *contender) { processEnd = time.Now().Add(c.left()) })
				defer first.end()
				<-first.leads
				second := server.startContender(t, 0, nil)
				defer second.end()
				time.Sleep(time.Minute)
				first.setDelay(func(method string) (toServer, toClient time.Duration) {
					if len(delays) == 0 || delays[0].method != method {
						return never, never
					}
					next := delays[0]
					delays = delays[1:]
					return next.toServer, next.toClient
				})
				<-second.leads
				secondLeads := time.Now()
				synctest.Wait()
				if processEnd.IsZero() {
					t.Fatal("the first leader has not noticed that it lost the Lease")
				}
				if processEnd.After(secondLeads) {
					t.Errorf("two operators lead for %s", processEnd.Sub(secondLeads))
				}
				if left := processEnd.Sub(first.lostAt); left < time.Second {
					t.Errorf("the controllers have %s to end, want 1s or more", left)
				}
			})
		})
	}
}

// TestALeaderThatEndsReleasesItsLease tests a leader that is asked to end, and a leader that no longer gets answers.
func TestALeaderThatEndsReleasesItsLease(t *testing.T) {
	const shutdown = 500 * time.Millisecond
	for sentence, end := range map[string]func(*contender){
		"it is asked to end": func(c *contender) { go c.end() },
		"the server stores its renewals, but it gets no answer until it gives up": func(c *contender) {
			c.setDelay(func(string) (toServer, toClient time.Duration) { return 0, never })
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newLeaseServer()
				first := server.startContender(t, shutdown, func(c *contender) { c.setDelay(quick) })
				defer first.end()
				<-first.leads
				firstIdentity := first.lock.Identity()
				time.Sleep(time.Minute)
				second := server.startContender(t, 0, nil)
				defer second.end()
				time.Sleep(time.Second)
				end(first)
				for server.holder() == firstIdentity {
					time.Sleep(100 * time.Millisecond)
				}
				if lost := first.lostAt; !lost.IsZero() && (time.Since(lost) < shutdown || time.Since(lost) > shutdown+time.Second) {
					t.Errorf("the Lease is released %s after it was lost, want soon after the controllers ended, at %s", time.Since(lost), shutdown)
				}
				released := time.Now()
				<-second.leads
				if took := time.Since(released); took > time.Second {
					t.Errorf("the next operator leads %s after the Lease was released", took)
				}
			})
		})
	}
}

// TestSpansDoNotDelayTheReleaseOfTheLease ends an operator whose collector of spans does not answer.
func TestSpansDoNotDelayTheReleaseOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newLeaseServer()
		first := server.newContender(t)
		requested := make(chan struct{})
		tracer, err := spans.Start(klog.NewContext(t.Context(), klog.Logger{}), spans.Config{
			Endpoint: "http://collector:4318", Transport: hangingCollector(requested),
		})
		must.Succeed(t, err)
		op := &operator{
			leadership: first.leadership, selfCheck: &selfCheck{}, probes: newProbes(), observers: &observers{spans: tracer},
		}
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		defer cancel()
		result := make(chan error)
		go func() { result <- op.run(ctx) }()
		<-first.leads
		key := trace.Object{Kind: "MyCronJob", Namespace: "default", Name: "a"}
		e := trace.Event{Source: "mycronjob", Object: key, For: key}
		tracer.End(tracer.Begin(ctx, e), e, loop.Success)
		canceled := time.Now()
		cancel()
		<-requested
		time.Sleep(100 * time.Millisecond)
		if holder := server.holder(); holder != "" {
			t.Errorf("%s has the Lease while spans are sent", holder)
		}
		<-result
		if took := time.Since(canceled); took < time.Second || took > 5*time.Second {
			t.Errorf("the operator waited %s for the collector", took)
		}
	})
}

// hangingCollector is a collector that never answers. Its first and only request closes the channel.
type hangingCollector chan struct{}

func (c hangingCollector) RoundTrip(r *http.Request) (*http.Response, error) {
	close(c)
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestAnAttemptIsNotGivenUpOnceItHasSucceeded has a stale watch. The watch shows that another operator holds the Lease, while the
// elector of this operator acquires the Lease.
func TestAnAttemptIsNotGivenUpOnceItHasSucceeded(t *testing.T) {
	for sentence, leadsFirst := range map[string]bool{"it leads": true, "it has given up": false} {
		t.Run(sentence, func(t *testing.T) {
			l := &leadership{leads: make(chan struct{})}
			attempt, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			if leadsFirst {
				l.started(attempt)
			}
			if leads := l.stopWaiting(giveUp); leads != leadsFirst {
				t.Errorf("leads: %t", leads)
			}
			l.started(attempt)
			if l.led() != leadsFirst || (attempt.Err() == nil) != leadsFirst {
				t.Errorf("leads: %t, and the attempt has ended with %v", l.led(), attempt.Err())
			}
		})
	}
}

// TestAfterALostLeaseTheProcessEndsOnlyIfControllersDoNot tests await. If the controllers end in time, await lets the process continue,
// because webhooks have more time to answer.
func TestAfterALostLeaseTheProcessEndsOnlyIfControllersDoNot(t *testing.T) {
	lease := options.Lease{Duration: 15 * time.Second, Deadline: 10 * time.Second, Retry: 2 * time.Second}
	for sentence, test := range map[string]struct {
		renewed time.Duration // the time from the last renewal to the loss
		ends    time.Duration // the time from the loss to the end of the controllers; 0: they never end
		exits   time.Duration // the time from the loss to the exit of the process; 0: it does not exit
	}{
		"controllers end at once":            {renewed: 12 * time.Second, ends: time.Millisecond},
		"controllers end in time":            {renewed: 12 * time.Second, ends: 2 * time.Second},
		"controllers do not end":             {renewed: 12 * time.Second, exits: 3 * time.Second},
		"the loss was found late":            {renewed: 14 * time.Second, exits: time.Second},
		"another client overwrote the Lease": {renewed: time.Second, exits: 3 * time.Second},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				exited := time.Duration(0)
				start := time.Now()
				osExit := klog.OsExit
				klog.OsExit = func(int) { exited = time.Since(start) }
				defer func() { klog.OsExit = osExit }()
				leading, end := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
				defer end()
				if test.ends > 0 {
					time.AfterFunc(test.ends, end)
				}
				l := &leadership{Lease: lease, renewed: start.Add(-test.renewed)}
				l.await(leading)
				if exited != test.exits {
					t.Errorf("the process ends after %s, want %s", exited, test.exits)
				}
				if test.ends > 0 && time.Since(start) != test.ends {
					t.Errorf("it waits %s for the controllers, want %s", time.Since(start), test.ends)
				}
			})
		})
	}
}

const ownIdentity, otherIdentity = "own", "other"

// stored is a lock whose record is in memory.
type stored struct {
	resourcelock.LeaseLock

	record resourcelock.LeaderElectionRecord
}

func (s *stored) Identity() string { return ownIdentity }

func (s *stored) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record := s.record
	return &record, nil, nil
}

func leaseOf(holder string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &metav1.MicroTime{Time: renewed},
	}}
}

func TestALeaseIsTakenOver(t *testing.T) {
	for sentence, test := range map[string]struct {
		seen   *coordinationv1.Lease // nil: none
		later  time.Duration
		isFree bool
	}{
		"if there is none":                           {isFree: true},
		"if it was released":                         {seen: leaseOf("", time.Now()), isFree: true},
		"but not while it is renewed":                {seen: leaseOf(otherIdentity, time.Now()), later: 15*time.Second - 1},
		"once it was not renewed for long":           {seen: leaseOf(otherIdentity, time.Now()), later: 15 * time.Second, isFree: true},
		"but not because the leader's clock is slow": {seen: leaseOf(otherIdentity, time.Unix(0, 0)), later: 14 * time.Second},
		"even if the leader's clock is fast": {
			seen: leaseOf(otherIdentity, time.Now().AddDate(1, 0, 0)), later: 16 * time.Second, isFree: true,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &leadership{Lease: options.Lease{Duration: 15 * time.Second}, lock: &stored{}, changed: make(chan struct{})}
				if test.seen != nil {
					l.record(test.seen)
				}
				time.Sleep(test.later)
				free, wait, _ := l.free()
				if free != test.isFree {
					t.Errorf("free: %t", free)
				}
				if !free && wait != 15*time.Second-test.later {
					t.Errorf("it waits for %s", wait)
				}
			})
		})
	}
}

func TestALeaseThatIsLabelledIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leadership{lock: &stored{}, changed: make(chan struct{})}
		lease := leaseOf(otherIdentity, time.Now())
		for range 3 {
			l.record(lease)
			time.Sleep(5 * time.Second)
			lease = lease.DeepCopy()
			lease.ResourceVersion += "1"
		}
		if free, wait, _ := l.free(); !free {
			t.Errorf("it waits for another %s", wait)
		}
	})
}

func TestTheElectorSeesALeaseAsTheWatchHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		renewed := time.Now()
		lock := &stored{record: resourcelock.LeaderElectionRecord{HolderIdentity: otherIdentity, RenewTime: metav1.NewTime(renewed)}}
		l := &leadership{Lease: options.Lease{Deadline: 10 * time.Second}, lock: lock, changed: make(chan struct{})}
		holder := func() string {
			record, _, err := watchedLock{lock, l}.Get(t.Context())
			must.Succeed(t, err)
			return record.HolderIdentity
		}
		l.record(leaseOf(otherIdentity, renewed))
		if holder() != otherIdentity {
			t.Error("it is free at once")
		}
		time.Sleep(15 * time.Second)
		if holder() != "" {
			t.Error("it is not free when it has run out")
		}
		lock.record.RenewTime = metav1.NewTime(renewed.Add(14 * time.Second))
		if holder() != otherIdentity {
			t.Error("it is free although it has been renewed, which the watch has not shown yet")
		}
		l.record(leaseOf(ownIdentity, renewed))
		lock.record = resourcelock.LeaderElectionRecord{HolderIdentity: ownIdentity, RenewTime: metav1.NewTime(renewed)}
		if holder() != ownIdentity {
			t.Error("a leader is told that it does not lead")
		}
	})
}

func TestIdentity(t *testing.T) {
	t.Setenv("POD_NAME", "")
	a, err1 := identity()
	b, err2 := identity()
	if err1 != nil || err2 != nil || a == b {
		t.Errorf("two processes are called %q and %q: %v, %v", a, b, err1, err2)
	}
	t.Setenv("POD_NAME", "glassback-manager-x")
	t.Setenv("POD_UID", "u")
	if a, _ := identity(); a != "glassback-manager-x_u" {
		t.Errorf("a Pod is called %q", a)
	}
}
