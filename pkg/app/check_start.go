/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/check"
)

// recheckFailed is how often it is asked again as long as something fails. While all is well,
// nothing is: a right that is taken away later fails a watch, or a sync.
const recheckFailed = 30 * time.Second

// standingLimit is how long each of its checks may take.
const standingLimit = 10 * time.Second

// standing is how it is with what the operator stands on: the API server, the CRDs and its
// permissions. The checks are those of the command check. They are asked at the start, and then
// until none fails; the log has a line for each that changes, and /readyz the first that fails.
type standing struct {
	checker *checker
	version func(context.Context) check.Result
	asked   chan struct{} // closed once it was asked for the first time

	mu   sync.Mutex
	last check.Report
	told map[string]check.State // by ID
}

// newStanding returns the standing of an operator with the options o.
func newStanding(c *clients, o *options) (*standing, error) {
	s := &standing{told: map[string]check.State{}, asked: make(chan struct{})}
	own := cmp.Or(ownNamespace(), defaultNamespace)
	lease := types.NamespacedName{Namespace: own, Name: defaultLeaseName} // of others, if this one elects no leader
	if o.lease.elect {
		lease = types.NamespacedName{Namespace: cmp.Or(o.lease.namespace, own), Name: o.lease.name}
	}
	s.checker = &checker{
		options: &checkOptions{options: *o, operatorNamespace: own, leaseName: lease.Name, leaseNamespace: lease.Namespace, limit: standingLimit},
		clients: c,
		inside:  o.inCluster(),
		account: ownAccess(c.kube),
	}
	s.version = s.checker.checkVersion
	_, err := s.sections()
	return s, err
}

func (s *standing) sections() ([]check.Section, error) {
	c := s.checker
	crds, err := c.crdChecks()
	if err != nil {
		return nil, err
	}
	var lease types.NamespacedName
	if c.options.lease.elect {
		lease = types.NamespacedName{Namespace: c.options.leaseNamespace, Name: c.options.leaseName}
	}
	wants := operatorWants(&c.options.options, c.options.webhookMode(), c.options.operatorNamespace, lease)
	return []check.Section{
		{ID: "cluster", Title: "Cluster", Checks: []check.Check{
			{ID: "cluster/version", Title: versionTitle, Run: s.version},
			{ID: "cluster/clock", Title: clockTitle, Run: c.checkClock},
		}},
		{ID: "crds", Title: "CustomResourceDefinitions", Checks: crds},
		{ID: "permissions", Title: "Permissions", Checks: c.accessChecks(wants)},
		{ID: "lease", Title: "Leader election", Checks: []check.Check{
			{ID: "lease/rival", Title: "no other operator does the same work", Run: s.checkRival},
		}},
	}, nil
}

// checkRival looks for an operator that leads, while this one works without being elected.
func (s *standing) checkRival(ctx context.Context) check.Result {
	if s.checker.options.lease.elect {
		return check.Pass("")
	}
	o := s.checker.options
	lease, err := s.checker.clients.kube.CoordinationV1().Leases(o.leaseNamespace).Get(ctx, o.leaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return check.Pass("")
	}
	if err != nil {
		return unanswered(err)
	}
	if t := tenureOf(lease, s.checker.clients.time.Now()); t.held() {
		return check.Warn(fmt.Sprintf("the Lease %s/%s is held: %s", o.leaseNamespace, o.leaseName, t),
			"stop one of the two, or give this one --leader-elect and the same Lease")
	}
	return check.Pass("")
}

// ask asks once, and reports whether something has failed.
func (s *standing) ask(ctx context.Context) (failed bool, err error) {
	sections, err := s.sections()
	if err != nil {
		return false, err
	}
	runner := check.Runner{Limit: standingLimit, Slow: "see what keeps the API server", Observer: tell{s, klog.FromContext(ctx)}}
	report := runner.Run(ctx, sections)
	if report.Interrupted {
		return false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = report
	return report.State() == check.Failed, nil
}

// run asks until nothing fails, or ctx ends.
func (s *standing) run(ctx context.Context) error {
	first := sync.OnceFunc(func() { close(s.asked) })
	for {
		failed, err := s.ask(ctx)
		first()
		if !failed || err != nil {
			return err
		}
		timer := time.NewTimer(recheckFailed)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// ready returns an error that names the first check that fails: it is a condition of /readyz.
func (s *standing) ready(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.last.Outcomes(check.Failed) {
		return fmt.Errorf("%s: %s: %s: %s", o.ID, o.Title, o.Reason, o.Remedy)
	}
	return nil
}

// tell logs what a run says that the one before it has not.
type tell struct {
	standing *standing
	logger   klog.Logger
}

// Begin is part of check.Observer.
func (tell) Begin(check.Section) {}

// Done is part of check.Observer.
func (t tell) Done(o check.Outcome) {
	before, known := t.standing.told[o.ID]
	if known && before == o.State {
		return
	}
	t.standing.told[o.ID] = o.State
	logger := t.logger.WithValues("check", o.ID, "state", o.State)
	switch bad := o.State == check.Failed || o.State == check.Warning; {
	case bad:
		logger.Info("Check: " + strings.Join([]string{o.Title, o.Reason, o.Remedy}, ": "))
	case known && (before == check.Failed || before == check.Warning):
		logger.Info("Check: " + o.Title)
	default:
		logger.V(2).Info("Check: "+o.Title, "reason", o.Reason)
	}
}

// End is part of check.Observer.
func (t tell) End(r check.Report) {
	logger := t.logger.V(2)
	if len(t.standing.last.Sections) == 0 {
		logger = t.logger
	}
	logger.Info("Checked", "ok", len(r.Outcomes(check.OK)), "warnings", len(r.Outcomes(check.Warning)),
		"failed", len(r.Outcomes(check.Failed)), "skipped", len(r.Outcomes(check.Skipped)))
}
