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
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/spans"
	"github.com/glassback/glassback/pkg/trace"
)

var leases = coordinationv1.Resource("leases")

// leaseServer is an API server that has one Lease.
type leaseServer struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease // nil: none
	version int
	changed chan struct{} // closed, and made anew, with every write
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

// answer does what a request asks for.
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

// watch sends the Lease, that this was the beginning, and then each state that lasts.
func (s *leaseServer) watch(w *io.PipeWriter, closed <-chan struct{}) {
	send := func(kind string, object any) {
		text, _ := json.Marshal(map[string]any{"type": kind, "object": object}) // A Lease can be encoded.
		_, _ = w.Write(text)                                                    // The client may be gone.
	}
	sent := ""
	for began := false; ; {
		s.mu.Lock()
		lease, version, changed := s.lease.DeepCopy(), s.version, s.changed
		s.mu.Unlock()
		if lease != nil && lease.ResourceVersion != sent {
			kind := "MODIFIED"
			if sent == "" {
				kind = "ADDED"
			}
			sent = lease.ResourceVersion
			send(kind, lease)
		}
		if !began {
			began = true
			mark := coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}}
			mark.ResourceVersion, mark.Annotations = strconv.Itoa(version), map[string]string{metav1.InitialEventsAnnotationKey: "true"}
			send("BOOKMARK", mark)
		}
		select {
		case <-changed:
		case <-closed:
			_ = w.Close() // It never fails.
			return
		}
	}
}

// line is the network between one operator and the server: how long a request takes there, and the answer back.
type line struct {
	*leaseServer

	mu    sync.Mutex
	delay func(method string) (there, back time.Duration)
}

const never = 1000 * time.Hour

func (l *line) set(delay func(method string) (there, back time.Duration)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = delay
}

func quick(string) (there, back time.Duration) { return time.Millisecond, time.Millisecond }

// watched is the body of a watch.
type watched struct {
	io.Reader
	close func()
}

func (w watched) Close() error { w.close(); return nil }

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
	if r.URL.Query().Get("watch") != "" {
		reader, writer := io.Pipe()
		closed := make(chan struct{})
		stop := sync.OnceFunc(func() { close(closed); _ = reader.Close() })
		context.AfterFunc(r.Context(), stop)
		go l.watch(writer, closed)
		response.Body = watched{reader, stop}
		return response, nil
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	there, back := l.delay(r.Method)
	l.mu.Unlock()
	if err := pause(r.Context(), there); err != nil {
		return nil, err
	}
	lease, failed := l.answer(r.Method, body)
	if err := pause(r.Context(), back); err != nil {
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
	*line

	lostAt time.Time
	end    func() // ends all that is only for the leader, and waits until the Lease is released
}

// contend starts a contender, whose controllers take some time to end once the Lease is lost.
func (s *leaseServer) contend(t *testing.T, take time.Duration, whenLost func(*contender)) *contender {
	t.Helper()
	c := s.contender(t)
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	var running sync.WaitGroup
	running.Go(func() {
		c.run(ctx, func() {
			c.lostAt = time.Now()
			if whenLost != nil {
				whenLost(c)
			}
			time.Sleep(take)
			cancel()
		})
	})
	c.end = func() { cancel(); running.Wait() }
	return c
}

// contender returns a contender that does not run.
func (s *leaseServer) contender(t *testing.T) *contender {
	t.Helper()
	c := &contender{line: &line{leaseServer: s, delay: quick}}
	config := &rest.Config{
		Host: "http://server", QPS: -1, Transport: c.line, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON},
	}
	o := &options.Options{Lease: options.Lease{
		Elect: true, Name: "glassback", Namespace: "glassback-system", Duration: 15 * time.Second,
		Deadline: 10 * time.Second, Retry: 2 * time.Second,
	}}
	var err error
	if c.leadership, err = newLeadership(o, &clients.Clients{Kube: kubernetes.NewForConfigOrDie(config)}, nil); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTwoNeverLead has a leader lose its API server right after a renewal. Controllers that do not
// end are ended with the process, before another operator leads.
func TestTwoNeverLead(t *testing.T) {
	for sentence, last := range map[string][]struct { // the delays of the last requests that the server gets
		method      string
		there, back time.Duration
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
				var ends time.Time // when the process of the first leader ends, whatever its controllers do
				first := server.contend(t, 0, func(c *contender) { ends = time.Now().Add(c.left()) })
				defer first.end()
				<-first.leads
				second := server.contend(t, 0, nil)
				defer second.end()
				time.Sleep(time.Minute)
				first.set(func(method string) (there, back time.Duration) {
					if len(last) == 0 || last[0].method != method {
						return never, never
					}
					now := last[0]
					last = last[1:]
					return now.there, now.back
				})
				<-second.leads
				follows := time.Now()
				synctest.Wait()
				if ends.IsZero() {
					t.Fatal("the first leader does not know that it leads no more")
				}
				if ends.After(follows) {
					t.Errorf("two lead for %s", ends.Sub(follows))
				}
				if left := ends.Sub(first.lostAt); left < time.Second {
					t.Errorf("controllers have %s to end, want some time", left)
				}
			})
		})
	}
}

// TestALeaderThatEndsReleasesItsLease: whether it was asked to end, or got no answers any more.
func TestALeaderThatEndsReleasesItsLease(t *testing.T) {
	const take = 500 * time.Millisecond
	for sentence, test := range map[string]struct {
		ends func(*contender)
	}{
		"it is asked to end": {func(c *contender) { go c.end() }},
		"its renewals are stored, and no answer comes until it gives up": {func(c *contender) {
			c.set(func(string) (there, back time.Duration) { return 0, never })
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newLeaseServer()
				first := server.contend(t, take, func(c *contender) { c.set(quick) })
				defer first.end()
				<-first.leads
				own := first.lock.Identity()
				time.Sleep(time.Minute)
				second := server.contend(t, 0, nil)
				defer second.end()
				time.Sleep(time.Second)
				test.ends(first)
				for server.holder() == own {
					time.Sleep(100 * time.Millisecond)
				}
				if lost := first.lostAt; !lost.IsZero() && (time.Since(lost) < take || time.Since(lost) > take+time.Second) {
					t.Errorf("the Lease is released %s after it was lost, want when the controllers have ended, after %s", time.Since(lost), take)
				}
				began := time.Now()
				<-second.leads
				if took := time.Since(began); took > time.Second {
					t.Errorf("the next operator leads %s after the Lease was released", took)
				}
			})
		})
	}
}

// TestSpansDoNotDelayTheReleaseOfTheLease has an operator end while its collector does not answer.
func TestSpansDoNotDelayTheReleaseOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newLeaseServer()
		first := server.contender(t)
		asked := make(chan struct{})
		tracer, err := spans.Start(klog.NewContext(t.Context(), klog.Logger{}), spans.Config{
			Endpoint: "http://collector:4318", Transport: hangs(asked),
		})
		must.Succeed(t, err)
		op := &operator{leadership: first.leadership, selfCheck: &selfCheck{}, probes: newProbes()}
		op.sendSpans(tracer)
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		defer cancel()
		ended := make(chan error)
		go func() { ended <- op.run(ctx) }()
		<-first.leads
		key := trace.Object{Kind: "MyCronJob", Namespace: "default", Name: "a"}
		for _, stage := range []trace.Stage{trace.Sync, trace.Done} {
			tracer.Observe(trace.Event{Stage: stage, Source: "mycronjob", Object: key, For: key})
		}
		began := time.Now()
		cancel()
		<-asked
		time.Sleep(100 * time.Millisecond)
		if holder := server.holder(); holder != "" {
			t.Errorf("%s has the Lease while spans are sent", holder)
		}
		<-ended
		if took := time.Since(began); took < time.Second || took > 5*time.Second {
			t.Errorf("the operator waited %s for the collector", took)
		}
	})
}

// hangs is a collector that never answers. The channel is closed by the first request.
type hangs chan struct{}

func (h hangs) RoundTrip(r *http.Request) (*http.Response, error) {
	close(h)
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestAnAttemptIsNotGivenUpOnceItHasSucceeded is about a watch that is behind: it shows that another
// one has the Lease at the moment when this operator gets it.
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

// TestAfterALostLeaseTheProcessEndsOnlyIfControllersDoNot: webhooks, which have more time, are answered to the end.
func TestAfterALostLeaseTheProcessEndsOnlyIfControllersDoNot(t *testing.T) {
	lease := options.Lease{Duration: 15 * time.Second, Deadline: 10 * time.Second, Retry: 2 * time.Second}
	for sentence, test := range map[string]struct {
		renewed time.Duration // since then
		ends    time.Duration // 0: never
		exits   time.Duration // 0: never
	}{
		"controllers end at once":            {renewed: 12 * time.Second, ends: time.Millisecond},
		"controllers end in time":            {renewed: 12 * time.Second, ends: 2 * time.Second},
		"controllers do not end":             {renewed: 12 * time.Second, exits: 3 * time.Second},
		"the loss was found late":            {renewed: 14 * time.Second, exits: time.Second},
		"the Lease was taken by force early": {renewed: time.Second, exits: 3 * time.Second},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				exited := time.Duration(0)
				start := time.Now()
				exit := klog.OsExit
				klog.OsExit = func(int) { exited = time.Since(start) }
				defer func() { klog.OsExit = exit }()
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
					t.Errorf("it waits for %s, want %s", time.Since(start), test.ends)
				}
			})
		})
	}
}
