// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/recording/recordtest"
	"github.com/glassback/glassback/pkg/report"
)

// TestPace goes through one rollout: numbers alone are written every ten seconds, and whatever else changes is written at once.
func TestPace(t *testing.T) {
	s := newServer(application(func(a *v1.Application) { a.Spec.Replicas = ptr.To[int32](30) })).settle(t)
	s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" })
	o := s.connect()
	if requests, _, err := o.sync(t); err != nil || !slices.Equal(requests, []string{"apply deployments"}) {
		t.Fatalf("requests %q, error %v; want one apply", requests, err)
	}
	status := func(change func(*appsv1.DeploymentStatus)) func() {
		return func() {
			alter(s, "deployments", "kube-controller-manager", func(d *appsv1.Deployment) {
				d.Status.ObservedGeneration = d.Generation
				change(&d.Status)
			})
		}
	}
	// rollout is how far the Deployment has come.
	rollout := func(updated, available int32, progressing, reason string) func() {
		return status(func(d *appsv1.DeploymentStatus) {
			d.UpdatedReplicas, d.AvailableReplicas = updated, available
			c := &d.Conditions[1]
			c.Status, c.Reason, c.Message = corev1.ConditionStatus(progressing), reason, "so far"
		})
	}
	fewPods := status(func(d *appsv1.DeploymentStatus) {
		d.AvailableReplicas = 20
		d.Conditions[0].Status, d.Conditions[0].Reason = corev1.ConditionFalse, "MinimumReplicasUnavailable"
	})
	const goesOn = "ReplicaSetUpdated"
	for _, step := range []struct {
		says    string
		at      int // seconds since the start
		change  func()
		request bool
		after   int // seconds
	}{
		{"the rollout begins: at once", 0, rollout(1, 30, "True", goesOn), true, 0},
		{"a number: ten seconds after the last write", 1, rollout(2, 30, "True", goesOn), false, 9},
		{"another number, and the Deployment's reason: the same moment", 5, rollout(6, 29, "True", "FoundNewReplicaSet"), false, 5},
		{"the moment comes: all at once", 10, func() {}, true, 0},
		{"nothing new: no write, and no other moment", 11, func() {}, false, 0},
		{"a number: ten seconds after that", 12, rollout(9, 29, "True", goesOn), false, 8},
		{"too few are available: at once", 13, fewPods, true, 0},
		{"a number: ten seconds after that", 14, rollout(15, 22, "True", goesOn), false, 9},
		{"it takes too long: at once", 15, rollout(15, 22, "False", "ProgressDeadlineExceeded"), true, 0},
		{"it goes on: at once", 16, rollout(16, 22, "True", goesOn), true, 0},
		{"another generation: at once", 17, func() { s.edit(func(*v1.Application) {}) }, true, 0},
		{"the rollout is complete: at once", 18, s.rollOut, true, 0},
		{"a number long after: at once", 3600, status(func(d *appsv1.DeploymentStatus) { d.ReadyReplicas = 29 }), true, 0},
	} {
		s.clock.SetTime(t0.Add(time.Duration(step.at) * time.Second))
		step.change()
		o.catchUp()
		requests, after, err := o.sync(t)
		must.Succeed(t, err)
		if wrote := slices.Equal(requests, []string{statusRequest}); wrote != step.request || !wrote && len(requests) > 0 {
			t.Errorf("%s: requests %q, want the status: %t", step.says, requests, step.request)
		}
		if want := time.Duration(step.after) * time.Second; after != want {
			t.Errorf("%s: after %s, want %s", step.says, after, want)
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

// TestStatusWritesFromCreationToReady counts the writes of a new Application. The first status says that the spec was observed, and which
// children exist. The last one says that the Application is Ready.
func TestStatusWritesFromCreationToReady(t *testing.T) {
	s := newServer(application())
	o := s.connect()
	deployment := func(available int32, conditions ...appsv1.DeploymentCondition) func() {
		return func() {
			alter(s, "deployments", "kube-controller-manager", func(d *appsv1.Deployment) {
				d.Status = appsv1.DeploymentStatus{
					ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: available, AvailableReplicas: available,
					Conditions: conditions,
				}
			})
		}
	}
	var writes []string
	for n, step := range []func(){
		func() {},
		func() {}, // Without a Deployment controller, this is the end.
		deployment(0, is(appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetCreated")),
		deployment(0, is(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable"),
			is(appsv1.DeploymentProgressing, corev1.ConditionTrue, "ReplicaSetUpdated")),
		deployment(1, rolledOut...),
		func() {}, // The cache shows the status.
	} {
		step()
		o.catchUp()
		requests, _, err := o.sync(t)
		must.Succeed(t, err)
		if len(requests) > 0 {
			ready := reasonOf(s.app(), glassback.ConditionReady)
			writes = append(writes, strings.TrimSpace(strconv.Itoa(n)+" "+strings.Join(requests, ", ")+" "+ready))
		}
		s.clock.SetTime(s.clock.Now().Add(time.Second))
	}
	want := []string{
		"0 create services, create deployments, create ingresses", "1 " + statusRequest + " " + reasonRollout,
		"4 " + statusRequest + " " + reasonRolledOut,
	}
	if !slices.Equal(writes, want) {
		t.Errorf("writes %q, want %q", writes, want)
	}
	if events := o.sent(); !slices.Equal(events, []string{"Normal RolledOut Pods: 1 wanted, 1 available"}) {
		t.Errorf("events %q, want one at the end: until then, the Deployment has its own", events)
	}
}

// image is what a client does that fights over the image.
func image(s *server) {
	alter(s, "deployments", "other-client", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "theirs" })
}

// deploy is what the Deployment's controller does, if there is a Deployment.
func deploy(s *server) {
	if d, ok := s.child("deployments").(*appsv1.Deployment); ok && d.Status.ObservedGeneration < d.Generation {
		s.rollOut()
	}
}

// TestWhatIsGoneIsForgotten deletes an Application, and creates it again: what was held back is then written at once.
func TestWhatIsGoneIsForgotten(t *testing.T) {
	for sentence, test := range map[string]struct {
		held    func(*testing.T, *server, *operator)
		request string
	}{
		"a repair in a fight": {func(t *testing.T, s *server, o *operator) {
			image(s)
			o.run(t, 10*time.Minute, func() { image(s); deploy(s) })
		}, "apply deployments"},
		"a change of numbers": {func(t *testing.T, s *server, o *operator) {
			for n := range int32(2) {
				alter(s, "deployments", "kube-controller-manager", func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 7 + n })
				o.catchUp()
				if _, _, err := o.sync(t); err != nil {
					t.Fatal(err)
				}
				o.catchUp()
			}
		}, statusRequest},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(application()).settle(t)
			o := s.connect()
			test.held(t, s, o)
			if requests, after, err := o.sync(t); err != nil || len(requests) > 0 || after <= 0 {
				t.Fatalf("requests %q after %s, error %v; want none, and to wait", requests, after, err)
			}
			app := s.app()
			s.Remove("applications", key)
			o.catchUp()
			if requests, _, err := o.sync(t); err != nil || len(requests) > 0 {
				t.Errorf("requests %q, error %v without an Application; want none", requests, err)
			}
			s.Put(app)
			o.catchUp()
			if requests, _, err := o.sync(t); err != nil || !slices.Equal(requests, []string{test.request}) {
				t.Errorf("requests %q, error %v; want %s at once", requests, err, test.request)
			}
		})
	}
}

// syncRow is one sync.
type syncRow struct {
	fresh  bool                    // whether nothing was done yet; else all was
	app    []func(*v1.Application) // the Application
	given  []func(*server)         // what happened then
	before func(fakeapi.Request) error
	want   syncWant
}

// syncWant is the result of a sync.
type syncWant struct {
	requests []string
	after    time.Duration
	err      string
	events   []string
	ready    string // reason of the condition Ready
	degraded string // reason of the condition Degraded
	conflict string // message of the condition Conflict, if it is True
	noStatus bool
}

// settled is the result of a sync that has nothing to change.
var settled = syncWant{ready: reasonRolledOut, degraded: report.ReasonAsExpected}

// wrote is settled with requests, after which the sync waits for the caches.
func wrote(requests ...string) syncWant {
	w := settled
	w.requests, w.after = requests, toSee
	return w
}

// TestSync runs one sync for each row.
func TestSync(t *testing.T) {
	for topic, rows := range map[string]map[string]syncRow{
		"children": childRows(), "problems": problemRows(), "specs and deletions": specRows(),
	} {
		for sentence, row := range rows {
			t.Run(topic+"/"+sentence, row.run)
		}
	}
}

func (row syncRow) run(t *testing.T) {
	want := row.want
	s := newServer(application(row.app...))
	if !row.fresh {
		s.settle(t)
	}
	for _, change := range row.given {
		change(s)
	}
	s.Before = row.before
	o, was := s.connect(), s.children()
	requests, after, err := o.sync(t)
	if !slices.Equal(requests, want.requests) {
		t.Errorf("requests %q, want %q", requests, want.requests)
	}
	if after != want.after {
		t.Errorf("after %s, want %s", after, want.after)
	}
	if text := fmt.Sprint(err); text != cmp.Or(want.err, "<nil>") {
		t.Errorf("error %q, want %q", text, want.err)
	}
	if events := o.sent(); !slices.EqualFunc(events, want.events, strings.HasPrefix) {
		t.Errorf("events %q, want %q", events, want.events)
	}
	for resource, child := range was {
		if child.GetUID() == "foreign" && s.child(resource) != child {
			t.Errorf("another owner's object among the %s was changed", resource)
		}
	}
	if s.app() == nil {
		return
	}
	if none := len(s.app().Status.Conditions) == 0; none != want.noStatus {
		t.Fatalf("status %+v, want none: %t", s.app().Status, want.noStatus)
	}
	for kind, reason := range map[string]string{glassback.ConditionReady: want.ready, glassback.ConditionDegraded: want.degraded} {
		if got := reasonOf(s.app(), kind); got != reason {
			t.Errorf("%s has reason %q, want %q", kind, got, reason)
		}
	}
	conflict := meta.FindStatusCondition(s.app().Status.Conditions, v1.ConditionConflict)
	is := conflict != nil && conflict.Status == metav1.ConditionTrue
	if is != (want.conflict != "") || is && conflict.Message != want.conflict {
		t.Errorf("Conflict is %+v, want %q", conflict, want.conflict)
	}
}

// edited is an edit of the Application.
func edited(change func(*v1.Application)) func(*server) {
	return func(s *server) { s.edit(change) }
}

func removed(resource string) func(*server) {
	return func(s *server) { s.remove(resource) }
}

// childRows are about the children of an Application that nothing keeps from being reconciled.
func childRows() map[string]syncRow {
	fresh := func(requests ...string) syncWant { return syncWant{requests: requests, after: toSee, noStatus: true} }
	return map[string]syncRow{
		"from nothing: exactly three children, and no status yet": {
			fresh: true, want: fresh("create services", "create deployments", "create ingresses"),
		},
		"from nothing, with all kinds: six children": {
			fresh: true, app: []func(*v1.Application){full},
			want: fresh("create services", "create deployments", "create ingresses", "create httproutes",
				"create horizontalpodautoscalers", "create poddisruptionbudgets"),
		},
		"others' fields are left, also before the Deployment's controller has looked at them": {
			given: []func(*server){func(s *server) {
				alter(s, "deployments", "other-client", func(d *appsv1.Deployment) {
					d.Labels["theirs"], d.Annotations = "1", map[string]string{"theirs": "1"}
					pod := &d.Spec.Template
					pod.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "now"}
					pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "sidecar", Image: "envoy"})
					pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "THEIRS", Value: "1"}}
				})
				alter(s, "services", "other-client", func(child *corev1.Service) {
					child.Spec.ClusterIP, child.Spec.Ports[0].NodePort = "10.0.0.1", 30000
				})
			}},
			want: settled,
		},
		"another port is applied to all that have it": {
			given: []func(*server){edited(func(a *v1.Application) { a.Spec.Port = ptr.To[int32](9000) })},
			want:  wrote("apply services", "apply deployments", "apply ingresses"),
		},
		"an Ingress that is not wanted any more and has lost its label is found by the status": {
			given: []func(*server){unlabel("ingresses"), edited(noIngress)},
			want: syncWant{
				requests: []string{"get ingresses", "delete ingresses", statusRequest}, ready: reasonRolledOut, degraded: report.ReasonAsExpected,
			},
		},
	}
}

// troubled is the result of a sync that reports a problem, after requests.
func troubled(reason, message string, requests ...string) syncWant {
	w := syncWant{
		requests: append(requests, statusRequest), after: child.Recheck, ready: reason, degraded: reason,
		events: []string{"Warning " + reason + " " + message},
	}
	if reason == child.ReasonConflict {
		w.conflict = message
	}
	return w
}

// problemRows are about objects of other owners, and errors of the API server: see also the tests of package child.
func problemRows() map[string]syncRow {
	refused := errors.New("connection refused")
	invalid := apierrors.NewInvalid(kinds["ingresses"].GroupKind(), "sample", nil)
	return map[string]syncRow{
		"another owner's that no cache shows, and all else is there: reported": {
			given: []func(*server){taken("services", false, nil)},
			want:  troubled(child.ReasonConflict, takenMessage, "create services", "get services"),
		},
		"another owner's, reported already: no write": {
			given: []func(*server){taken("services", true, nil), syncedOnce},
			want:  syncWant{after: child.Recheck, ready: child.ReasonConflict, degraded: child.ReasonConflict, conflict: takenMessage},
		},
		"a child that is there and stays hidden: reported": {
			given: []func(*server){hide},
			want: troubled("ServiceHidden", "Service sample exists, but something removes its label app.aiops.org/application, "+
				"by which glassback watches", "create services", "get services", "apply services"),
		},
		"invalid: reported, and retried in half a minute": {
			given: []func(*server){removed("ingresses")}, before: failing("create ingresses", invalid),
			want: troubled("IngressRejected", `create Ingress sample: Ingress.networking.k8s.io "sample" is invalid`, "create ingresses"),
		},
		"a delete that fails does not delay the others": {
			app: []func(*v1.Application){full},
			given: []func(*server){edited(func(a *v1.Application) {
				a.Spec.Autoscaling, a.Spec.PDB, a.Spec.Image = nil, nil, "nginx:1.30"
			})},
			before: failing("delete horizontalpodautoscalers", refused),
			want: func() syncWant {
				w := wrote("apply deployments", "delete horizontalpodautoscalers", "delete poddisruptionbudgets")
				w.err = "delete HorizontalPodAutoscaler sample: connection refused"
				return w
			}(),
		},
	}
}

// specRows are about specs that are invalid or paused, deletions, Deployments that the operator cannot read, and rollouts.
func specRows() map[string]syncRow {
	invalid := troubled(reasonInvalidSpec, application(imageless).Validate(nil).ToAggregate().Error())
	invalid.after = 0
	return map[string]syncRow{
		"an invalid spec that got past admission: reported, and what runs is left as it is": {
			given: []func(*server){edited(func(a *v1.Application) { imageless(a); a.Spec.PDB = &v1.DisruptionBudget{} })}, want: invalid,
		},
		"what was made of an Application that is being deleted is left alone": {
			given: []func(*server){removed("services"), deleted}, want: settled,
		},
		"a paused Application is left alone": {
			fresh: true, app: []func(*v1.Application){paused}, want: syncWant{noStatus: true},
		},
		"an Application that is paused later is left alone": {
			given: []func(*server){edited(paused), edited(full), removed("services")}, want: settled,
		},
		"an Application that is gone needs nothing": {given: []func(*server){func(s *server) { s.Remove("applications", key) }}},
		"a child that is being deleted is left alone until it is gone, and reported": {
			given: []func(*server){terminate("ingresses"), edited(func(a *v1.Application) { a.Spec.Ingress.Host = "shop.example.com" })},
			want:  troubled("IngressTerminating", "Ingress sample is being deleted; the operator creates it again when it is gone"),
		},
		"a Deployment that is being deleted does not delay the others": {
			given: []func(*server){terminate("deployments"), removed("services")}, want: wrote("create services"),
		},
		"a Deployment with a variable that is twice: it gets the new image": {
			given: []func(*server){twice, edited(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" })}, want: wrote("apply deployments"),
		},
		"a Deployment with a variable that is twice, and an autoscaler: the same": {
			app:   []func(*v1.Application){full},
			given: []func(*server){twice, edited(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" })}, want: wrote("apply deployments"),
		},

		"the rollout is complete: reported once": {
			fresh: true, given: []func(*server){syncedOnce, (*server).rollOut},
			want: syncWant{
				requests: []string{statusRequest}, ready: reasonRolledOut, degraded: report.ReasonAsExpected,
				events: []string{"Normal RolledOut Pods: 1 wanted, 1 available"},
			},
		},
		"too few Pods are available: a warning": {
			given: []func(*server){func(s *server) {
				alter(s, "deployments", "kube-controller-manager", func(d *appsv1.Deployment) {
					d.Status.AvailableReplicas = 0
					d.Status.Conditions[0] = is(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable")
				})
			}},
			want: syncWant{
				requests: []string{statusRequest}, ready: "MinimumReplicasUnavailable", degraded: report.ReasonAsExpected,
				events: []string{"Warning MinimumReplicasUnavailable Pods: 1 wanted, 0 available"},
			},
		},
		"Pods are being added: no warning": {
			given: []func(*server){edited(func(a *v1.Application) { a.Spec.Replicas = ptr.To[int32](3) }), syncedOnce, func(s *server) {
				alter(s, "deployments", "kube-controller-manager", func(d *appsv1.Deployment) {
					d.Status.ObservedGeneration, d.Status.Replicas, d.Status.UpdatedReplicas = d.Generation, 3, 3
				})
			}},
			want: syncWant{
				requests: []string{statusRequest}, ready: reasonScaling, degraded: report.ReasonAsExpected,
				events: []string{"Normal ScalingInProgress Pods: 3 wanted, 1 available"},
			},
		},
	}
}

// TestEventsOfEveryKindLeadToASync deletes the Application, and each kind of child, of its own and of another owner.
func TestEventsOfEveryKindLeadToASync(t *testing.T) {
	fakeapi.Prepare() // Outside of the bubble: it takes a while.
	synctest.Test(t, func(t *testing.T) {
		s := newServer(application(full)).settle(t)
		config, informers := s.config()
		c, err := New(config)
		must.Succeed(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		for _, factory := range informers {
			factory.StartWithContext(ctx)
			defer factory.Shutdown()
		}
		defer cancel()
		go c.Run(ctx, ctx, 0) // Handlers add keys, and no worker takes them.
		synctest.Wait()
		expect := func(what string, change func(), want ...cache.ObjectName) {
			t.Helper()
			change()
			synctest.Wait()
			var keys []cache.ObjectName
			for range c.loop.Queue.Len() {
				key, _ := c.loop.Queue.Get()
				c.loop.Queue.Done(key)
				keys = append(keys, key)
			}
			if !slices.Equal(keys, want) {
				t.Errorf("%s: syncs of %v, want %v", what, keys, want)
			}
		}
		expect("the first objects", func() {}, key)
		theirs := &metav1.OwnerReference{APIVersion: "other/v1", Kind: "Application", Name: "sample", Controller: ptr.To(true)}
		for _, resource := range resourceNames {
			expect("one of the "+resource, func() { s.remove(resource) }, key)
			expect("another owner's of the "+resource, func() { s.Put(foreign(resource, true, theirs)) })
			expect("another owner's of the "+resource+" is gone", func() { s.remove(resource) })
		}
		expect("the Application", func() { s.Remove("applications", key) }, key)
	})
}

// TestANewLeaderDoesNotUndoAChange: the caches of a standby show the present children, but a former Application. It becomes the leader.
func TestANewLeaderDoesNotUndoAChange(t *testing.T) {
	for sentence, edit := range map[string]func(*v1.Application){
		"another image": func(a *v1.Application) { a.Spec.Image = "nginx:1.30" },
		"an autoscaler": func(a *v1.Application) { a.Spec.Autoscaling = &v1.Autoscaling{MaxReplicas: 5} },
		"no Ingress":    noIngress,
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(application()).settle(t)
			standby := s.connect()
			s.edit(edit)
			s.settle(t)
			for resource, shown := range standby.caches {
				if resource != "applications" {
					shown.CatchUp()
				}
			}
			was := s.Version()
			if requests, _, err := standby.sync(t); !apierrors.IsConflict(err) || s.Version() != was {
				t.Errorf("requests %q, error %v, want a conflict and no change", requests, err)
			}
			standby.catchUp()
			if requests, _, err := standby.sync(t); err != nil || len(requests) > 0 {
				t.Errorf("requests %q, error %v when the cache shows the Application, want none", requests, err)
			}
		})
	}
}

// TestNoReadAfterAnOwnStatus: a process that has written the status of an Application does not read it before it changes a child. It reads
// another Application of that name.
func TestNoReadAfterAnOwnStatus(t *testing.T) {
	s := newServer(application())
	o := s.connect()
	sync := func() (requests []string) {
		o.catchUp()
		made := len(s.Requests())
		_, _, err := o.sync(t)
		must.Succeed(t, err)
		for _, r := range s.Requests()[made:] {
			requests = append(requests, requestText(r))
		}
		return requests
	}
	sync() // the children
	sync() // the status
	s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" })
	if got := sync(); !slices.Equal(got, []string{"apply deployments"}) {
		t.Errorf("requests %q, want one that applies the Deployment", got)
	}
	another := s.app()
	another.UID, another.Status.ObservedGeneration = "another", 1
	s.Put(another)
	for _, resource := range []string{"deployments", "services", "ingresses"} {
		s.Remove(resource, s.key)
	}
	s.clock.Step(time.Minute) // The cache will not show the Deployment that was applied.
	if got := sync(); len(got) != 4 || got[0] != "list applications" {
		t.Errorf("requests %q, want a read of the other Application before its children are created", got)
	}
}

// TestAStaleCacheDoesNotChangeObjectsOfOtherOwners gives the Service another owner. The cache still shows the former Service.
func TestAStaleCacheDoesNotChangeObjectsOfOtherOwners(t *testing.T) {
	shop := metav1.OwnerReference{Kind: "Shop", Name: "other", UID: "other", Controller: ptr.To(true)}
	for sentence, changeOwner := range map[string]func(*server){
		"an object of another owner replaces the Service": taken("services", true, &shop),
		"another owner adopts the Service, which keeps its UID": func(s *server) {
			alter(s, "services", "other-client", func(child object) { child.SetOwnerReferences([]metav1.OwnerReference{shop}) })
		},
	} {
		for write, edit := range map[string]func(*v1.Application){
			"an update": func(a *v1.Application) { a.Spec.Service.Port = ptr.To[int32](80) },
			"a delete":  onlyDeployment,
		} {
			t.Run(sentence+", before "+write, func(t *testing.T) {
				s := newServer(application()).settle(t)
				o := s.connect()
				changeOwner(s)
				before := s.child("services")
				s.edit(edit)
				o.caches["applications"].CatchUp()
				requests, _, err := o.sync(t)
				if err != nil && !apierrors.IsConflict(err) {
					t.Fatal(err)
				}
				if !slices.ContainsFunc(requests, func(request string) bool { return strings.HasSuffix(request, " services") }) {
					t.Errorf("requests %q, want one for the Service", requests)
				}
				if s.child("services") != before {
					t.Error("the Service of another owner was changed or deleted")
				}
			})
		}
	}
}

func TestPlan(t *testing.T) {
	const password = "hunter2-in-an-environment"
	for sentence, test := range map[string]struct {
		change func(*server)
		want   []string // nil for no plan
	}{
		"settled: nothing to do": {func(*server) {}, []string{"nothing to do"}},
		"a variable: its value is not shown": {
			edited(func(a *v1.Application) { a.Spec.Env = []v1.EnvVar{{Name: "PASSWORD", Value: password}} }),
			[]string{
				"update Deployment sample", "    spec.template.spec.containers[app].env[PASSWORD].name: none → PASSWORD",
				"    spec.template.spec.containers[app].env[PASSWORD].value: changed, values not shown",
			},
		},
		"a child that the spec no longer has: it is deleted": {
			edited(func(a *v1.Application) { a.Spec.Autoscaling, a.Spec.Replicas = nil, ptr.To[int32](2) }),
			[]string{"delete HorizontalPodAutoscaler sample"},
		},
		"an invalid spec: the status says so": {edited(imageless), []string{"update Application sample"}},
		"paused: no plan":                     {edited(paused), nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(application(full)).settle(t)
			test.change(s)
			o := s.connect()
			s.Forget()
			plan, err := o.Plan(t.Context(), key, false)
			if err != nil || (plan == nil) != (test.want == nil) {
				t.Fatalf("plan %v, error %v", plan, err)
			}
			if requests := s.Requests(); len(requests) > 0 {
				t.Errorf("it made the requests %v", requests)
			}
			if plan == nil {
				return
			}
			lines := plan.Lines(100)
			if len(lines) < len(test.want) || !slices.Equal(lines[:len(test.want)], test.want) ||
				plan.Settled() != (test.want[0] == "nothing to do") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(test.want, "\n"))
			}
			if leaks := (must.Secrets{"a variable": password}).In(strings.Join(lines, "\n")); len(leaks) > 0 {
				t.Error(leaks)
			}
		})
	}
}

// TestAClusterWithoutHTTPRoutes: an Application that wants one gets its other children, and Degraded says why. One that no longer wants it
// does not list it any more.
func TestAClusterWithoutHTTPRoutes(t *testing.T) {
	s := newServer(application(full)).settle(t)
	s.remove("httproutes")
	s.Before = func(r fakeapi.Request) error {
		if r.Resource == "httproutes" {
			return apierrors.NewGenericServerResponse(404, r.Verb, gatewayv1.Resource("httproutes"), r.Name, "", 0, true)
		}
		return nil
	}
	s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" })
	for range 3 {
		_, _, _ = s.connect().sync(t) // It fails, and is tried again.
		s.rollOut()
	}
	c := meta.FindStatusCondition(s.app().Status.Conditions, glassback.ConditionDegraded)
	if image := s.child("deployments").(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Image; c.Reason != "HTTPRouteNotApplied" ||
		!strings.Contains(c.Message, "NotFound") || image != "nginx:1.30" {
		t.Errorf("the image is %s, Degraded is %+v", image, c)
	}
	s.edit(func(a *v1.Application) { a.Spec.Gateway = nil })
	s.settle(t)
	app := s.app()
	if slices.ContainsFunc(app.Status.Resources, func(r v1.ResourceReference) bool { return r.Kind == "HTTPRoute" }) ||
		meta.IsStatusConditionTrue(app.Status.Conditions, glassback.ConditionDegraded) {
		t.Errorf("the status is %+v", app.Status)
	}
}

func TestRecord(t *testing.T) {
	recordtest.Covers(t, observed{}, recordedObserved{}, "app", "deployment", "service", "ingress", "route", "autoscaler", "budget")
	recordtest.Plain(t, nil, observed{})
}

// TestAHiddenDeploymentKeepsItsScale: the autoscaler has just scaled, its status is behind, and the spec no longer asks for it.
func TestAHiddenDeploymentKeepsItsScale(t *testing.T) {
	s := newServer(application(full)).settle(t)
	for _, change := range []func(*server){
		scaled(4), scaled(5), unlabel("deployments"), edited(func(a *v1.Application) { a.Spec.Autoscaling = nil }),
	} {
		change(s)
	}
	alter(s, "horizontalpodautoscalers", "kube-controller-manager", func(h *autoscalingv2.HorizontalPodAutoscaler) {
		h.Status.DesiredReplicas = 4
	})
	o := s.connect()
	o.catchUp()
	_, _, err := o.sync(t)
	must.Succeed(t, err)
	if s.child("deployments").GetLabels()[v1.LabelApplication] == "" || replicasOf(s) != 5 {
		t.Errorf("the Deployment has the labels %v and %d replicas, want its own and 5", s.child("deployments").GetLabels(), replicasOf(s))
	}
}
