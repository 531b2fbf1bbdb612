// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/must"
)

// TestPace goes through one rollout: numbers alone are written every ten seconds, and whatever else changes is written at once.
func TestPace(t *testing.T) {
	s := newServer(application(func(a *v1.Application) { a.Spec.Replicas = ptr.To[int32](30) })).settle(t)
	s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" })
	o := s.connect()
	if requests, _, err := o.sync(t); err != nil || !slices.Equal(requests, []string{"apply deployments"}) {
		t.Fatalf("requests %q, error %v; want one apply", requests, err)
	}
	// rollout is how far the Deployment has come.
	rollout := func(updated, available int32, progressing, reason string) {
		alter(s, "deployments", "kube-controller-manager", func(d *appsv1.Deployment) {
			d.Status.ObservedGeneration, d.Status.UpdatedReplicas, d.Status.AvailableReplicas = d.Generation, updated, available
			c := &d.Status.Conditions[1]
			c.Status, c.Reason, c.Message = corev1.ConditionStatus(progressing), reason, "so far"
		})
	}
	for _, step := range []struct {
		says    string
		at      time.Duration
		change  func()
		request bool
		after   time.Duration
	}{
		{"the rollout begins: at once", 0, func() { rollout(1, 30, "True", "ReplicaSetUpdated") }, true, 0},
		{
			"a number: ten seconds after the last write", 1 * time.Second, func() { rollout(2, 30, "True", "ReplicaSetUpdated") },
			false, 9 * time.Second,
		},
		{"another number: the same moment", 4 * time.Second, func() { rollout(5, 29, "True", "ReplicaSetUpdated") }, false, 6 * time.Second},
		{
			"the Deployment's reason and words: the same moment", 5 * time.Second,
			func() { rollout(6, 29, "True", "FoundNewReplicaSet") }, false, 5 * time.Second,
		},
		{"the moment comes: all at once", 10 * time.Second, func() {}, true, 0},
		{"nothing new: no write, and no other moment", 11 * time.Second, func() {}, false, 0},
		{"a number: ten seconds after that", 12 * time.Second, func() { rollout(9, 29, "True", "ReplicaSetUpdated") }, false, 8 * time.Second},
		{"too few are available: at once", 13 * time.Second, func() {
			alter(s, "deployments", "kube-controller-manager", func(d *appsv1.Deployment) {
				d.Status.AvailableReplicas = 20
				d.Status.Conditions[0].Status, d.Status.Conditions[0].Reason = corev1.ConditionFalse, "MinimumReplicasUnavailable"
			})
		}, true, 0},
		{"a number: ten seconds after that", 14 * time.Second, func() { rollout(15, 22, "True", "ReplicaSetUpdated") }, false, 9 * time.Second},
		{"it takes too long: at once", 15 * time.Second, func() { rollout(15, 22, "False", "ProgressDeadlineExceeded") }, true, 0},
		{"it goes on: at once", 16 * time.Second, func() { rollout(16, 22, "True", "ReplicaSetUpdated") }, true, 0},
		{"another generation: at once", 17 * time.Second, func() { s.edit(func(*v1.Application) {}) }, true, 0},
		{"the rollout is complete: at once", 18 * time.Second, s.rollOut, true, 0},
		{"a number long after: at once", time.Hour, func() {
			alter(s, "deployments", "kube-controller-manager", func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 29 })
		}, true, 0},
	} {
		s.clock.SetTime(t0.Add(step.at))
		step.change()
		o.catchUp()
		requests, after, err := o.sync(t)
		must.Succeed(t, err)
		if wrote := slices.Equal(requests, []string{statusRequest}); wrote != step.request || !wrote && len(requests) > 0 {
			t.Errorf("%s: requests %q, want the status: %t", step.says, requests, step.request)
		}
		if after != step.after {
			t.Errorf("%s: after %s, want %s", step.says, after, step.after)
		}
		o.catchUp()
	}
	want := []string{
		"Normal RolloutInProgress Pods: 30 wanted, 30 available, 1 of the latest version",
		"Warning ProgressDeadlineExceeded so far", // Ready and Degraded have it in common.
		"Normal RolloutInProgress Pods: 30 wanted, 22 available, 16 of the latest version",
		"Normal AsExpected Nothing is wrong",
		"Normal RolledOut Pods: 30 wanted, 30 available",
	}
	if events := o.sent(); !slices.Equal(events, want) {
		t.Errorf("events %q, want %q", events, want)
	}
}

// TestStatusWritesFromCreationToReady counts the writes of a new Application's status. The first one says that the spec was
// observed, and which children exist. The last one says that the Application is Ready.
func TestStatusWritesFromCreationToReady(t *testing.T) {
	s := newServer(application())
	o := s.connect()
	deployment := func(available int32, conditions ...appsv1.DeploymentCondition) {
		alter(s, "deployments", "kube-controller-manager", func(d *appsv1.Deployment) {
			d.Status = appsv1.DeploymentStatus{
				ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: available, AvailableReplicas: available,
				Conditions: conditions,
			}
		})
	}
	var statuses []string
	for n, step := range []func(){
		func() {}, // The children are created.
		func() {}, // Without a Deployment controller, this is the end.
		func() {
			deployment(0, is(appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetCreated"))
		},
		func() {
			deployment(0, is(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable"),
				is(appsv1.DeploymentProgressing, corev1.ConditionTrue, "ReplicaSetUpdated"))
		},
		func() {
			deployment(1, is(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable"),
				is(appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetAvailable"))
		},
		func() {}, // The cache shows the status.
	} {
		step()
		o.catchUp()
		requests, _, err := o.sync(t)
		must.Succeed(t, err)
		if n > 0 && len(requests) > 0 {
			statuses = append(statuses, strconv.Itoa(n)+" "+strings.Join(requests, ", ")+": "+reasonOf(s.app(), glassback.ConditionReady))
		}
		s.clock.SetTime(s.clock.Now().Add(time.Second))
	}
	want := []string{"1 " + statusRequest + ": " + reasonRollout, "4 " + statusRequest + ": " + reasonRolledOut}
	if !slices.Equal(statuses, want) {
		t.Errorf("writes %q, want %q", statuses, want)
	}
}

// TestPaceIsForgotten deletes an Application, and creates it again: numbers alone are then written at once.
func TestPaceIsForgotten(t *testing.T) {
	s := newServer(application()).settle(t)
	o := s.connect()
	available := func(n int32) {
		alter(s, "deployments", "kube-controller-manager", func(d *appsv1.Deployment) { d.Status.ReadyReplicas = n })
		o.catchUp()
	}
	available(2)
	if requests, _, err := o.sync(t); err != nil || !slices.Equal(requests, []string{statusRequest}) {
		t.Fatalf("requests %q, error %v; want the status", requests, err)
	}
	o.catchUp()
	available(1)
	if requests, after, err := o.sync(t); err != nil || len(requests) > 0 || after != minorEvery {
		t.Fatalf("requests %q after %s, error %v; want none, and to wait", requests, after, err)
	}
	app := s.app()
	for _, now := range []*v1.Application{nil, app} {
		s.Remove("applications", key)
		if now != nil {
			s.Put(now)
		}
		o.catchUp()
		requests, _, err := o.sync(t)
		if want := now != nil; err != nil || slices.Equal(requests, []string{statusRequest}) != want {
			t.Errorf("requests %q, error %v; want the status: %t", requests, err, want)
		}
	}
}

func TestWithoutNumbers(t *testing.T) {
	settled := newServer(application()).settle(t).app().Status
	condition := func(status *v1.ApplicationStatus, kind string) int {
		for i, c := range status.Conditions {
			if c.Type == kind {
				return i
			}
		}
		t.Fatalf("there is no condition %s", kind)
		return 0
	}
	for sentence, test := range map[string]struct {
		change func(*v1.ApplicationStatus)
		want   bool
	}{
		"nothing": {func(*v1.ApplicationStatus) {}, false},
		"numbers": {func(s *v1.ApplicationStatus) {
			s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas = 9, 9, 9, 9
		}, false},
		"what Ready says of numbers": {
			func(s *v1.ApplicationStatus) { s.Conditions[condition(s, glassback.ConditionReady)].Message = "9" }, false,
		},
		"what Progressing says": {func(s *v1.ApplicationStatus) {
			s.Conditions[condition(s, glassback.ConditionProgressing)].Message = "9"
		}, false},
		"the reason of Progressing": {func(s *v1.ApplicationStatus) {
			s.Conditions[condition(s, glassback.ConditionProgressing)].Reason = "New"
		}, false},
		"what Available says": {func(s *v1.ApplicationStatus) { s.Conditions[condition(s, v1.ConditionAvailable)].Message = "9" }, false},
		"the reason of Ready": {func(s *v1.ApplicationStatus) { s.Conditions[condition(s, glassback.ConditionReady)].Reason = "New" }, true},
		"whether it is Ready": {func(s *v1.ApplicationStatus) { s.Conditions[condition(s, glassback.ConditionReady)].Status = "False" }, true},
		"whether it is Progressing": {func(s *v1.ApplicationStatus) {
			s.Conditions[condition(s, glassback.ConditionProgressing)].Status = "True"
		}, true},
		"whether it is Available": {func(s *v1.ApplicationStatus) { s.Conditions[condition(s, v1.ConditionAvailable)].Status = "False" }, true},
		"what Degraded says": {
			func(s *v1.ApplicationStatus) { s.Conditions[condition(s, glassback.ConditionDegraded)].Message = "9" }, false,
		},
		"what Conflict says": {func(s *v1.ApplicationStatus) { s.Conditions[condition(s, v1.ConditionConflict)].Message = "9" }, false},
		"the URL":            {func(s *v1.ApplicationStatus) { s.URL = "http://other" }, true},
		"the objects":        {func(s *v1.ApplicationStatus) { s.Resources = s.Resources[1:] }, true},
		"the generation":     {func(s *v1.ApplicationStatus) { s.ObservedGeneration++ }, true},
		"numbers, and whether it is Degraded": {func(s *v1.ApplicationStatus) {
			s.Replicas = 9
			s.Conditions[condition(s, glassback.ConditionDegraded)].Status = "True"
		}, true},
	} {
		t.Run(sentence, func(t *testing.T) {
			changed := *settled.DeepCopy()
			test.change(&changed)
			is := *changed.DeepCopy()
			if got := !equality.Semantic.DeepEqual(withoutMinorFields(settled), withoutMinorFields(changed)); got != test.want {
				t.Errorf("more than numbers has changed: %t, want %t", got, test.want)
			}
			if !equality.Semantic.DeepEqual(changed, is) {
				t.Error("the comparison has changed the status")
			}
		})
	}
}
