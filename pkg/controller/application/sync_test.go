// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/report"
)

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

// settled is the result of a sync that has nothing to change, and reported that of a sync that writes the status alone.
var (
	settled  = syncWant{ready: reasonRolledOut, degraded: report.ReasonAsExpected}
	reported = syncWant{ready: reasonRolledOut, degraded: report.ReasonAsExpected, requests: []string{statusRequest}}
)

// wrote is settled with requests, after which the sync waits for the caches.
func wrote(requests ...string) syncWant {
	w := settled
	w.requests, w.after = requests, toSee
	return w
}

// TestSync runs one sync for each row.
func TestSync(t *testing.T) {
	for topic, rows := range map[string]map[string]syncRow{
		"children": childRows(), "other owners": ownerRows(t), "errors": errorRows(), "specs and deletions": specRows(),
		"rollouts": rolloutRows(t),
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
	if text := errorText(err); text != want.err {
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

// childRows are about the children of an Application that nothing keeps from being reconciled.
func childRows() map[string]syncRow {
	return map[string]syncRow{
		"from nothing: exactly three children, and no status yet": {
			fresh: true,
			want:  syncWant{requests: []string{"create services", "create deployments", "create ingresses"}, after: toSee, noStatus: true},
		},
		"from nothing, with all kinds: five children": {
			fresh: true, app: []func(*v1.Application){full},
			want: syncWant{requests: []string{
				"create services", "create deployments", "create ingresses", "create horizontalpodautoscalers", "create poddisruptionbudgets",
			}, after: toSee, noStatus: true},
		},
		"without Service and Ingress: a Deployment alone": {
			fresh: true,
			app:   []func(*v1.Application){onlyDeployment},
			want:  syncWant{requests: []string{"create deployments"}, after: toSee, noStatus: true},
		},
		"settled: no request at all":                     {want: settled},
		"settled with all five: no request at all":       {app: []func(*v1.Application){full}, want: settled},
		"settled with the Deployment alone: none either": {app: []func(*v1.Application){onlyDeployment}, want: settled},
		"scaled by the autoscaler: the status alone": {
			app: []func(*v1.Application){full}, given: []func(*server){scaled(4), (*server).rollOut}, want: reported,
		},
		"others' fields are left: a label, an annotation, a sidecar, a variable, a restart": {
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
				s.rollOut()
			}},
			want: settled,
		},
		"an image that another client changed is put back": {
			given: []func(*server){func(s *server) {
				alter(s, "deployments", "other-client", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "evil" })
			}},
			want: wrote("apply deployments"),
		},
		"a field that another client removed is put back": {
			given: []func(*server){func(s *server) {
				alter(s, "services", "other-client", func(child *corev1.Service) { child.Labels = map[string]string{v1.LabelApplication: "sample"} })
			}},
			want: wrote("apply services"),
		},
		"a field that another client took over by force is taken back": {
			given: []func(*server){func(s *server) {
				alter(s, "ingresses", "other-client", func(i *networkingv1.Ingress) { i.Spec.IngressClassName = ptr.To("theirs") })
			}},
			want: wrote("apply ingresses"),
		},
		"the number of replicas that another client changed is put back": {given: []func(*server){scaled(7)}, want: wrote("apply deployments")},
		"a child that another client deleted is created again": {
			given: []func(*server){func(s *server) { s.remove("services") }}, want: wrote("create services"),
		},
		"another image is applied to the Deployment alone": {
			given: []func(*server){func(s *server) { s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" }) }},
			want:  wrote("apply deployments"),
		},
		"another port is applied to all that have it": {
			given: []func(*server){func(s *server) { s.edit(func(a *v1.Application) { a.Spec.Port = ptr.To[int32](9000) }) }},
			want:  wrote("apply services", "apply deployments", "apply ingresses"),
		},
		"an Ingress that is not wanted any more is deleted": {
			given: []func(*server){func(s *server) { s.edit(func(a *v1.Application) { a.Spec.Ingress.Enabled = ptr.To(false) }) }},
			want:  wrote("delete ingresses"),
		},
		"an autoscaler that is not wanted any more: the Deployment is scaled when that is gone": {
			app: []func(*v1.Application){full},
			given: []func(*server){scaled(5), (*server).rollOut, func(s *server) {
				s.edit(func(a *v1.Application) { a.Spec.Autoscaling, a.Spec.PDB, a.Spec.Image = nil, nil, "nginx:1.30" })
			}},
			want: wrote("apply deployments", "delete horizontalpodautoscalers", "delete poddisruptionbudgets"),
		},
		"an autoscaler is added: the Deployment keeps its number, and no apply is needed": {
			given: []func(*server){func(s *server) {
				s.edit(func(a *v1.Application) {
					a.Spec.Autoscaling = &v1.Autoscaling{MinReplicas: ptr.To[int32](1), MaxReplicas: 5}
				})
			}},
			want: wrote("create horizontalpodautoscalers"),
		},
	}
}

// ownerRows are about objects of other owners, and objects that no cache shows.
func ownerRows(t *testing.T) map[string]syncRow {
	shop := &metav1.OwnerReference{Kind: "Shop", Name: "other", UID: "other", Controller: ptr.To(true)}
	earlier := &metav1.OwnerReference{Kind: "Application", Name: "sample", UID: "before", Controller: ptr.To(true)}
	return map[string]syncRow{
		"another owner's in the cache: reported, and the rest is made": {
			fresh: true, given: []func(*server){taken("services", true, nil)},
			want: syncWant{requests: []string{"create deployments", "create ingresses"}, after: toSee, noStatus: true},
		},
		"another owner's that no cache shows: reported, and the rest is made": {
			fresh: true, given: []func(*server){taken("services", false, nil)},
			want: syncWant{
				requests: []string{"create services", "get services", "create deployments", "create ingresses"},
				after:    toSee, noStatus: true,
			},
		},
		"another owner's in the cache, and all else is there: reported, and checked again in half a minute": {
			given: []func(*server){taken("services", true, nil)},
			want: syncWant{
				requests: []string{statusRequest}, after: child.Recheck,
				events: []string{"Warning Conflict " + takenMessage}, ready: child.ReasonConflict, degraded: child.ReasonConflict,
				conflict: takenMessage,
			},
		},
		"another owner's that no cache shows, and all else is there: the same": {
			given: []func(*server){taken("services", false, nil)},
			want: syncWant{
				requests: []string{"create services", "get services", statusRequest}, after: child.Recheck,
				events: []string{"Warning Conflict " + takenMessage}, ready: child.ReasonConflict, degraded: child.ReasonConflict,
				conflict: takenMessage,
			},
		},
		"another owner's, reported already: no write, and checked again in half a minute": {
			given: []func(*server){taken("services", true, nil), func(s *server) {
				if _, err := s.connect().Sync(t.Context(), key); err != nil {
					t.Error(err)
				}
			}},
			want: syncWant{after: child.Recheck, ready: child.ReasonConflict, degraded: child.ReasonConflict, conflict: takenMessage},
		},
		"another controller's: it is named": {
			given: []func(*server){taken("deployments", true, shop)},
			want: syncWant{
				requests: []string{statusRequest}, after: child.Recheck, ready: "Conflict", degraded: "Conflict",
				events: []string{"Warning Conflict Deployment sample exists already and is controlled by Shop other: " +
					"rename or delete one of the two"},
				conflict: "Deployment sample exists already and is controlled by Shop other: rename or delete one of the two",
			},
		},
		"one of the Application that had the name before: it is waited for": {
			given: []func(*server){taken("services", true, earlier)},
			want: syncWant{
				requests: []string{statusRequest}, after: child.Recheck, ready: "Conflict", degraded: "Conflict",
				events: []string{"Warning Conflict Service sample belongs to the Application sample that was deleted before, " +
					"and has not been garbage-collected yet"},
				conflict: "Service sample belongs to the Application sample that was deleted before, and has not been garbage-collected yet",
			},
		},
		"another owner's where nothing is wanted: left alone, and not reported": {
			app:   []func(*v1.Application){onlyDeployment},
			given: []func(*server){taken("services", true, nil), taken("ingresses", true, nil)},
			want:  settled,
		},
		"exists already, is ours and not in the cache: applied to": {
			given: []func(*server){func(s *server) {
				alter(s, "services", "other-client", func(child *corev1.Service) { delete(child.Labels, v1.LabelApplication) })
			}},
			want: wrote("create services", "get services", "apply services"),
		},
		"a child that is there and stays hidden: reported": {
			given: []func(*server){hide("services")},
			want: syncWant{
				requests: []string{"create services", "get services", "apply services", statusRequest}, after: child.Recheck,
				ready: "ServiceHidden", degraded: "ServiceHidden",
				events: []string{"Warning ServiceHidden Service sample exists, but something removes its label " +
					"app.aiops.org/application, by which glassback watches"},
			},
		},
	}
}

// errorRows are about errors of the API server.
func errorRows() map[string]syncRow {
	invalid := apierrors.NewInvalid(kinds["ingresses"].GroupKind(), "sample", nil)
	forbidden := apierrors.NewForbidden(corev1.Resource("services"), "sample", errors.New("exceeded quota"))
	const rejected = `create Ingress sample: Ingress.networking.k8s.io "sample" is invalid`
	return map[string]syncRow{
		"no answer half-way: the others are made, and the sync is retried": {
			fresh: true, before: failing("create deployments", errors.New("connection refused")),
			want: syncWant{
				requests: []string{"create services", "create deployments", "create ingresses"}, after: toSee, noStatus: true,
				err: "create Deployment sample: connection refused",
			},
		},
		"no answer, and nothing else to do: retried without a status": {
			given:  []func(*server){func(s *server) { s.remove("services") }},
			before: failing("create services", errors.New("connection refused")),
			want: syncWant{
				requests: []string{"create services"}, ready: reasonRolledOut, degraded: report.ReasonAsExpected,
				err: "create Service sample: connection refused",
			},
		},
		"invalid half-way: the others are made, and reported when the caches show them": {
			fresh: true, before: failing("create ingresses", invalid),
			want: syncWant{requests: []string{"create services", "create deployments", "create ingresses"}, after: toSee, noStatus: true},
		},
		"invalid, and nothing else to do: reported, and retried in half a minute": {
			given:  []func(*server){func(s *server) { s.remove("ingresses") }},
			before: failing("create ingresses", invalid),
			want: syncWant{
				requests: []string{"create ingresses", statusRequest}, after: child.Recheck, events: []string{"Warning IngressRejected " + rejected},
				ready: "IngressRejected", degraded: "IngressRejected",
			},
		},
		"forbidden half-way: the others are made, and it is retried": {
			fresh: true, before: failing("create services", forbidden),
			want: syncWant{
				requests: []string{"create services", "create deployments", "create ingresses"}, after: toSee, noStatus: true,
				err: `create Service sample: services "sample" is forbidden: exceeded quota`,
			},
		},
		"forbidden, and nothing else to do: reported, and retried": {
			given:  []func(*server){func(s *server) { s.remove("services") }},
			before: failing("create services", forbidden),
			want: syncWant{
				requests: []string{"create services", statusRequest}, after: child.Recheck, ready: "ServiceNotApplied", degraded: "ServiceNotApplied",
				err: `create Service sample: services "sample" is forbidden: exceeded quota`,
				events: []string{"Warning ServiceNotApplied The API server does not accept the Service at present, and the operator retries: " +
					`create Service sample: services "sample" is forbidden: exceeded quota`},
			},
		},
		"a delete that fails does not delay the others": {
			app: []func(*v1.Application){full},
			given: []func(*server){func(s *server) {
				s.edit(func(a *v1.Application) { a.Spec.Autoscaling, a.Spec.PDB, a.Spec.Image = nil, nil, "nginx:1.30" })
			}},
			before: failing("delete horizontalpodautoscalers", errors.New("connection refused")),
			want: syncWant{
				requests: []string{"apply deployments", "delete horizontalpodautoscalers", "delete poddisruptionbudgets"}, after: toSee,
				err: "delete HorizontalPodAutoscaler sample: connection refused", ready: reasonRolledOut, degraded: report.ReasonAsExpected,
			},
		},
		"another client wrote in between: a quiet retry, without a status": {
			given: []func(*server){func(s *server) { s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" }) }},
			before: failing("apply deployments",
				apierrors.NewConflict(appsv1.Resource("deployments"), "sample", errors.New("the object has another version"))),
			want: syncWant{
				requests: []string{"apply deployments"}, ready: reasonRolledOut, degraded: report.ReasonAsExpected,
				err: `apply Deployment sample: Operation cannot be fulfilled on deployments.apps "sample": the object has another version`,
			},
		},
		"another client wrote the Application in between: a quiet retry": {
			given: []func(*server){func(s *server) { s.edit(func(*v1.Application) {}) }},
			before: failing("update applications",
				apierrors.NewConflict(v1.Resource("applications"), "sample", errors.New("the object has another version"))),
			want: syncWant{
				requests: []string{statusRequest}, ready: reasonRolledOut, degraded: report.ReasonAsExpected,
				err: "update status of Application sample: Operation cannot be fulfilled on applications.app.aiops.org " +
					`"sample": the object has another version`,
			},
		},
		"the Application was deleted in between: nothing to report on": {
			given:  []func(*server){func(s *server) { s.edit(func(*v1.Application) {}) }},
			before: failing("update applications", apierrors.NewNotFound(v1.Resource("applications"), "sample")),
			want:   reported,
		},
	}
}

// specRows are about specs that are invalid or paused, deletions, and Deployments that the operator cannot read.
func specRows() map[string]syncRow {
	return map[string]syncRow{
		"an invalid spec that got past admission: reported, and what runs is left as it is": {
			given: []func(*server){func(s *server) {
				s.edit(func(a *v1.Application) { negative(a); a.Spec.PDB = &v1.DisruptionBudget{} })
			}},
			want: syncWant{
				requests: []string{statusRequest}, ready: reasonInvalidSpec, degraded: reasonInvalidSpec,
				events: []string{"Warning InvalidSpec " + application(negative).Validate(nil).ToAggregate().Error()},
			},
		},
		"an invalid spec from the start: reported, and nothing is made": {
			fresh: true, app: []func(*v1.Application){negative},
			want: syncWant{
				requests: []string{statusRequest}, ready: reasonInvalidSpec, degraded: reasonInvalidSpec,
				events: []string{"Warning InvalidSpec " + application(negative).Validate(nil).ToAggregate().Error()},
			},
		},
		"an Application that is being deleted is left alone": {fresh: true, given: []func(*server){deleted}, want: syncWant{noStatus: true}},
		"what was made of an Application that is being deleted is left alone": {
			given: []func(*server){func(s *server) { s.remove("services") }, deleted}, want: settled,
		},
		"a child that is being deleted is left alone until it is gone, and reported": {
			given: []func(*server){terminate("services")},
			want: syncWant{
				requests: []string{statusRequest}, after: child.Recheck, ready: "ServiceTerminating", degraded: "ServiceTerminating",
				events: []string{"Warning ServiceTerminating Service sample is being deleted; the operator creates it again when it is gone"},
			},
		},
		"a child that is being deleted is left alone, whatever is wanted": {
			given: []func(*server){terminate("ingresses"), func(s *server) {
				s.edit(func(a *v1.Application) { a.Spec.Ingress.Host = "shop.example.com" })
			}},
			want: syncWant{
				requests: []string{statusRequest}, after: child.Recheck, ready: "IngressTerminating", degraded: "IngressTerminating",
				events: []string{"Warning IngressTerminating Ingress sample is being deleted; the operator creates it again when it is gone"},
			},
		},
		"a child that is being deleted and is not wanted any more: not reported": {
			given: []func(*server){terminate("ingresses"), func(s *server) {
				s.edit(func(a *v1.Application) { a.Spec.Ingress.Enabled = ptr.To(false) })
			}},
			want: reported,
		},
		"a Deployment that is being deleted: reported": {
			given: []func(*server){terminate("deployments")},
			want: syncWant{
				requests: []string{statusRequest}, after: child.Recheck, ready: "DeploymentTerminating", degraded: "DeploymentTerminating",
				events: []string{"Warning DeploymentTerminating Deployment sample is being deleted; the operator creates it again when it is gone"},
			},
		},
		"a Deployment that is being deleted does not delay the others": {
			given: []func(*server){terminate("deployments"), func(s *server) { s.remove("services") }}, want: wrote("create services"),
		},
		"a Deployment whose fields cannot be read: the others are brought up to date": {
			given: []func(*server){twice, func(s *server) { s.edit(func(a *v1.Application) { a.Spec.Port = ptr.To[int32](9000) }) }},
			want:  wrote("apply services", "apply ingresses"),
		},
		"a Deployment whose fields cannot be read, and nothing to change in it: settled": {given: []func(*server){twice}, want: settled},
		"a paused Application is left alone": {
			fresh: true, app: []func(*v1.Application){paused}, want: syncWant{noStatus: true},
		},
		"an Application that is paused later is left alone": {
			given: []func(*server){func(s *server) { s.edit(paused); s.edit(full); s.remove("services") }}, want: settled,
		},
		"an Application that is gone needs nothing": {given: []func(*server){func(s *server) {
			s.Remove("applications", key)
		}}, want: syncWant{noStatus: true}},
	}
}

// rolloutRows are about the rollout of the Deployment.
func rolloutRows(t *testing.T) map[string]syncRow {
	return map[string]syncRow{
		"the rollout is complete: reported once": {
			fresh: true, given: []func(*server){func(s *server) {
				if _, err := s.connect().Sync(t.Context(), key); err != nil {
					t.Error(err)
				}
				s.Forget()
				s.rollOut()
			}},
			want: syncWant{
				requests: []string{statusRequest}, ready: reasonRolledOut, degraded: report.ReasonAsExpected,
				events: []string{"Normal RolledOut Pods: 1 wanted, 1 available"},
			},
		},
		"the rollout takes too long: a warning": {
			given: []func(*server){func(s *server) {
				alter(s, "deployments", "kube-controller-manager", func(d *appsv1.Deployment) {
					d.Status.Conditions = []appsv1.DeploymentCondition{is(appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded")}
				})
			}},
			want: syncWant{
				requests: []string{statusRequest}, ready: "ProgressDeadlineExceeded", degraded: "ProgressDeadlineExceeded",
				events: []string{"Warning ProgressDeadlineExceeded because"},
			},
		},
		"Pods are being added: no warning": {
			given: []func(*server){func(s *server) {
				s.edit(func(a *v1.Application) { a.Spec.Replicas = ptr.To[int32](3) })
				if _, _, err := s.connect().sync(t); err != nil {
					t.Error(err)
				}
				s.Forget()
				alter(s, "deployments", "kube-controller-manager", func(d *appsv1.Deployment) {
					d.Status.ObservedGeneration, d.Status.Replicas, d.Status.UpdatedReplicas = d.Generation, 3, 3
				})
			}},
			want: syncWant{
				requests: []string{statusRequest}, ready: reasonScaling, degraded: report.ReasonAsExpected,
				events: []string{"Normal ScalingInProgress Pods: 3 wanted, 1 available"},
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
	}
}
