/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package application

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/report"
)

const (
	statusRequest = "update applications/status"
	toSee         = 5 * time.Second // how long a write is waited for at most

	takenMessage = "Service sample exists already and has no controller: rename or delete one of the two"
)

// full has all five children.
func full(a *v1.Application) {
	a.Spec.Replicas = ptr.To[int32](3)
	a.Spec.Autoscaling = &v1.Autoscaling{MinReplicas: ptr.To[int32](2), MaxReplicas: 5}
	a.Spec.PDB = &v1.DisruptionBudget{}
}

// onlyDeployment has neither Service nor Ingress.
func onlyDeployment(a *v1.Application) {
	a.Spec.Service.Enabled, a.Spec.Ingress.Enabled = ptr.To(false), ptr.To(false)
}

func negative(a *v1.Application) { a.Spec.Replicas = ptr.To[int32](-1) }

func paused(a *v1.Application) {
	a.Annotations = map[string]string{glassback.AnnotationPaused: "true"}
}

func deleted(s *server) {
	s.edit(func(a *v1.Application) { a.DeletionTimestamp = ptr.To(metav1.NewTime(t0)) })
}

// taken puts an object of another owner where a child is, or is to be.
func taken(resource string, labelled bool, controller *metav1.OwnerReference) func(*server) {
	return func(s *server) {
		s.remove(resource)
		s.put(resource, "other-client", foreign(resource, labelled, controller))
	}
}

// dying is what a delete does to a child that has a finalizer.
func dying(resource string) func(*server) {
	return func(s *server) {
		s.hold(resource)
		s.destroy(resource)
	}
}

// twice gives the Deployment two variables of one name, as a client may that does
// not apply.
func twice(s *server) {
	alter(s, "deployments", "other-client", func(d *appsv1.Deployment) {
		c := &d.Spec.Template.Spec.Containers[0]
		c.Env = append(c.Env, corev1.EnvVar{Name: "TWICE", Value: "1"}, corev1.EnvVar{Name: "TWICE", Value: "2"})
	})
	s.rollOut()
}

// scaled is what the autoscaler does, if there is one.
func scaled(n int32) func(*server) {
	return func(s *server) {
		if s.children["horizontalpodautoscalers"] != nil {
			alter(s, "horizontalpodautoscalers", "kube-controller-manager", func(h *autoscalingv2.HorizontalPodAutoscaler) {
				h.Status.DesiredReplicas = n
			})
		}
		alter(s, "deployments", "kube-controller-manager", func(d *appsv1.Deployment) { d.Spec.Replicas = &n })
	}
}

func TestSync(t *testing.T) {
	invalid := apierrors.NewInvalid(kinds["ingresses"].GroupKind(), "sample", nil)
	forbidden := apierrors.NewForbidden(corev1.Resource("services"), "sample", errors.New("exceeded quota"))
	const rejected = `create Ingress sample: Ingress.networking.k8s.io "sample" is invalid`
	type want struct {
		requests []string
		after    time.Duration
		err      string
		events   []string
		ready    string // reason of the condition Ready
		degraded string // reason of the condition Degraded
		conflict string // message of the condition Conflict, if it is True
		noStatus bool
	}
	settled := want{ready: reasonRolledOut, degraded: report.ReasonAsExpected}
	// and returns settled with requests, after which the caches are waited for.
	and := func(requests ...string) want {
		w := settled
		w.requests, w.after = requests, toSee
		return w
	}
	reported := settled
	reported.requests = []string{statusRequest}
	shop := &metav1.OwnerReference{Kind: "Shop", Name: "other", UID: "other", Controller: ptr.To(true)}
	earlier := &metav1.OwnerReference{Kind: "Application", Name: "sample", UID: "before", Controller: ptr.To(true)}
	for name, test := range map[string]struct {
		fresh  bool                    // whether nothing was done yet; else all was
		app    []func(*v1.Application) // the Application
		given  []func(*server)         // what happened then
		before func(string) error
		want   want
	}{
		"from nothing: exactly three children, and no status yet": {
			fresh: true,
			want:  want{requests: []string{"create services", "create deployments", "create ingresses"}, after: toSee, noStatus: true},
		},
		"from nothing, with all that there can be: five children": {
			fresh: true, app: []func(*v1.Application){full},
			want: want{requests: []string{
				"create services", "create deployments", "create ingresses", "create horizontalpodautoscalers", "create poddisruptionbudgets",
			}, after: toSee, noStatus: true},
		},
		"without Service and Ingress: a Deployment alone": {
			fresh: true,
			app:   []func(*v1.Application){onlyDeployment},
			want:  want{requests: []string{"create deployments"}, after: toSee, noStatus: true},
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
			want: and("apply deployments"),
		},
		"a field that another client removed is put back": {
			given: []func(*server){func(s *server) {
				alter(s, "services", "other-client", func(child *corev1.Service) { child.Labels = map[string]string{v1.LabelApplication: "sample"} })
			}},
			want: and("apply services"),
		},
		"a field that another client took over by force is taken back": {
			given: []func(*server){func(s *server) {
				alter(s, "ingresses", "other-client", func(i *networkingv1.Ingress) { i.Spec.IngressClassName = ptr.To("theirs") })
			}},
			want: and("apply ingresses"),
		},
		"the number of replicas that another client changed is put back": {given: []func(*server){scaled(7)}, want: and("apply deployments")},
		"a child that another client deleted is made again": {
			given: []func(*server){func(s *server) { s.remove("services") }}, want: and("create services"),
		},
		"another image is applied to the Deployment alone": {
			given: []func(*server){func(s *server) { s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" }) }},
			want:  and("apply deployments"),
		},
		"another port is applied to all that have it": {
			given: []func(*server){func(s *server) { s.edit(func(a *v1.Application) { a.Spec.Port = ptr.To[int32](9000) }) }},
			want:  and("apply services", "apply deployments", "apply ingresses"),
		},
		"an Ingress that is not wanted any more is deleted": {
			given: []func(*server){func(s *server) { s.edit(func(a *v1.Application) { a.Spec.Ingress.Enabled = ptr.To(false) }) }},
			want:  and("delete ingresses"),
		},
		"an autoscaler that is not wanted any more: the Deployment is scaled when that is gone": {
			app: []func(*v1.Application){full},
			given: []func(*server){scaled(5), (*server).rollOut, func(s *server) {
				s.edit(func(a *v1.Application) { a.Spec.Autoscaling, a.Spec.PDB, a.Spec.Image = nil, nil, "nginx:1.30" })
			}},
			want: and("apply deployments", "delete horizontalpodautoscalers", "delete poddisruptionbudgets"),
		},
		"an autoscaler is added: the Deployment keeps its number, and no apply is needed": {
			given: []func(*server){func(s *server) {
				s.edit(func(a *v1.Application) {
					a.Spec.Autoscaling = &v1.Autoscaling{MinReplicas: ptr.To[int32](1), MaxReplicas: 5}
				})
			}},
			want: and("create horizontalpodautoscalers"),
		},
		"another owner's in the cache: reported, and the rest is made": {
			fresh: true, given: []func(*server){taken("services", true, nil)},
			want: want{requests: []string{"create deployments", "create ingresses"}, after: toSee, noStatus: true},
		},
		"another owner's that no cache shows: reported, and the rest is made": {
			fresh: true, given: []func(*server){taken("services", false, nil)},
			want: want{
				requests: []string{"create services", "get services", "create deployments", "create ingresses"},
				after:    toSee, noStatus: true,
			},
		},
		"another owner's in the cache, and all else is there: reported, and checked again in half a minute": {
			given: []func(*server){taken("services", true, nil)},
			want: want{
				requests: []string{statusRequest}, after: child.Recheck,
				events: []string{"Warning Conflict " + takenMessage}, ready: child.ReasonConflict, degraded: child.ReasonConflict,
				conflict: takenMessage,
			},
		},
		"another owner's that no cache shows, and all else is there: the same": {
			given: []func(*server){taken("services", false, nil)},
			want: want{
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
			want: want{after: child.Recheck, ready: child.ReasonConflict, degraded: child.ReasonConflict, conflict: takenMessage},
		},
		"another controller's: it is named": {
			given: []func(*server){taken("deployments", true, shop)},
			want: want{
				requests: []string{statusRequest}, after: child.Recheck, ready: "Conflict", degraded: "Conflict",
				events: []string{"Warning Conflict Deployment sample exists already and is controlled by Shop other: " +
					"rename or delete one of the two"},
				conflict: "Deployment sample exists already and is controlled by Shop other: rename or delete one of the two",
			},
		},
		"one of the Application that had the name before: it is waited for": {
			given: []func(*server){taken("services", true, earlier)},
			want: want{
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
			want: and("create services", "get services", "apply services"),
		},
		"no answer half-way: the others are made, and the sync is tried again": {
			fresh: true, before: failing("create deployments", errors.New("connection refused")),
			want: want{
				requests: []string{"create services", "create deployments", "create ingresses"}, after: toSee, noStatus: true,
				err: "create Deployment sample: connection refused",
			},
		},
		"no answer, and nothing else to do: tried again without a word": {
			given:  []func(*server){func(s *server) { s.remove("services") }},
			before: failing("create services", errors.New("connection refused")),
			want: want{
				requests: []string{"create services"}, ready: reasonRolledOut, degraded: report.ReasonAsExpected,
				err: "create Service sample: connection refused",
			},
		},
		"invalid half-way: the others are made, and told of when they are seen": {
			fresh: true, before: failing("create ingresses", invalid),
			want: want{requests: []string{"create services", "create deployments", "create ingresses"}, after: toSee, noStatus: true},
		},
		"invalid, and nothing else to do: told of, and tried again in half a minute": {
			given:  []func(*server){func(s *server) { s.remove("ingresses") }},
			before: failing("create ingresses", invalid),
			want: want{
				requests: []string{"create ingresses", statusRequest}, after: child.Recheck, events: []string{"Warning IngressRejected " + rejected},
				ready: "IngressRejected", degraded: "IngressRejected",
			},
		},
		"forbidden half-way: the others are made, and it is tried again": {
			fresh: true, before: failing("create services", forbidden),
			want: want{
				requests: []string{"create services", "create deployments", "create ingresses"}, after: toSee, noStatus: true,
				err: `create Service sample: services "sample" is forbidden: exceeded quota`,
			},
		},
		"forbidden, and nothing else to do: told of, and tried again": {
			given:  []func(*server){func(s *server) { s.remove("services") }},
			before: failing("create services", forbidden),
			want: want{
				requests: []string{"create services", statusRequest}, after: child.Recheck, ready: "ServiceNotApplied", degraded: "ServiceNotApplied",
				err: `create Service sample: services "sample" is forbidden: exceeded quota`,
				events: []string{"Warning ServiceNotApplied The API server does not accept the Service at present, and the operator retries: " +
					`create Service sample: services "sample" is forbidden: exceeded quota`},
			},
		},
		"a delete that fails does not hold up the others": {
			app: []func(*v1.Application){full},
			given: []func(*server){func(s *server) {
				s.edit(func(a *v1.Application) { a.Spec.Autoscaling, a.Spec.PDB, a.Spec.Image = nil, nil, "nginx:1.30" })
			}},
			before: failing("delete horizontalpodautoscalers", errors.New("connection refused")),
			want: want{
				requests: []string{"apply deployments", "delete horizontalpodautoscalers", "delete poddisruptionbudgets"}, after: toSee,
				err: "delete HorizontalPodAutoscaler sample: connection refused", ready: reasonRolledOut, degraded: report.ReasonAsExpected,
			},
		},
		"another client wrote in between: a quiet retry, without a status": {
			given: []func(*server){func(s *server) { s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" }) }},
			before: failing("apply deployments",
				apierrors.NewConflict(appsv1.Resource("deployments"), "sample", errors.New("the version is another"))),
			want: want{
				requests: []string{"apply deployments"}, ready: reasonRolledOut, degraded: report.ReasonAsExpected,
				err: `apply Deployment sample: Operation cannot be fulfilled on deployments.apps "sample": the version is another`,
			},
		},
		"another client wrote the Application in between: a quiet retry": {
			given: []func(*server){func(s *server) { s.edit(func(*v1.Application) {}) }},
			before: failing("update applications",
				apierrors.NewConflict(v1.Resource("applications"), "sample", errors.New("the version is another"))),
			want: want{
				requests: []string{statusRequest}, ready: reasonRolledOut, degraded: report.ReasonAsExpected,
				err: "update status of Application sample: Operation cannot be fulfilled on applications.app.aiops.org " +
					`"sample": the version is another`,
			},
		},
		"the Application was deleted in between: nothing to report on": {
			given:  []func(*server){func(s *server) { s.edit(func(*v1.Application) {}) }},
			before: failing("update applications", apierrors.NewNotFound(v1.Resource("applications"), "sample")),
			want:   reported,
		},
		"an invalid spec that got past admission: told of, and what runs is left as it is": {
			given: []func(*server){func(s *server) {
				s.edit(func(a *v1.Application) { negative(a); a.Spec.PDB = &v1.DisruptionBudget{} })
			}},
			want: want{
				requests: []string{statusRequest}, ready: reasonInvalidSpec, degraded: reasonInvalidSpec,
				events: []string{"Warning InvalidSpec " + application(negative).Validate(nil).ToAggregate().Error()},
			},
		},
		"an invalid spec from the start: told of, and nothing is made": {
			fresh: true, app: []func(*v1.Application){negative},
			want: want{
				requests: []string{statusRequest}, ready: reasonInvalidSpec, degraded: reasonInvalidSpec,
				events: []string{"Warning InvalidSpec " + application(negative).Validate(nil).ToAggregate().Error()},
			},
		},
		"an Application that is being deleted is left alone": {fresh: true, given: []func(*server){deleted}, want: want{noStatus: true}},
		"what was made of an Application that is being deleted is left alone": {
			given: []func(*server){func(s *server) { s.remove("services") }, deleted}, want: settled,
		},
		"a child that is being deleted is left alone until it is gone, and told of": {
			given: []func(*server){dying("services")},
			want: want{
				requests: []string{statusRequest}, after: child.Recheck, ready: "ServiceTerminating", degraded: "ServiceTerminating",
				events: []string{"Warning ServiceTerminating Service sample is being deleted; the operator creates it again when it is gone"},
			},
		},
		"a child that is being deleted is left alone, whatever is wanted": {
			given: []func(*server){dying("ingresses"), func(s *server) {
				s.edit(func(a *v1.Application) { a.Spec.Ingress.Host = "shop.example.com" })
			}},
			want: want{
				requests: []string{statusRequest}, after: child.Recheck, ready: "IngressTerminating", degraded: "IngressTerminating",
				events: []string{"Warning IngressTerminating Ingress sample is being deleted; the operator creates it again when it is gone"},
			},
		},
		"a child that is being deleted and is not wanted any more: nothing to tell of": {
			given: []func(*server){dying("ingresses"), func(s *server) {
				s.edit(func(a *v1.Application) { a.Spec.Ingress.Enabled = ptr.To(false) })
			}},
			want: reported,
		},
		"a Deployment that is being deleted: told of": {
			given: []func(*server){dying("deployments")},
			want: want{
				requests: []string{statusRequest}, after: child.Recheck, ready: "DeploymentTerminating", degraded: "DeploymentTerminating",
				events: []string{"Warning DeploymentTerminating Deployment sample is being deleted; the operator creates it again when it is gone"},
			},
		},
		"a Deployment that is being deleted does not hold up the others": {
			given: []func(*server){dying("deployments"), func(s *server) { s.remove("services") }}, want: and("create services"),
		},
		"a child that is there and stays hidden: told of": {
			given: []func(*server){hide("services")},
			want: want{
				requests: []string{"create services", "get services", "apply services", statusRequest}, after: child.Recheck,
				ready: "ServiceHidden", degraded: "ServiceHidden",
				events: []string{"Warning ServiceHidden Service sample exists, but something removes its label " +
					"app.aiops.org/application, by which glassback watches"},
			},
		},
		"a Deployment whose fields cannot be told: the others are brought up to date": {
			given: []func(*server){twice, func(s *server) { s.edit(func(a *v1.Application) { a.Spec.Port = ptr.To[int32](9000) }) }},
			want:  and("apply services", "apply ingresses"),
		},
		"a Deployment whose fields cannot be told, and nothing else to do: told of": {
			given: []func(*server){twice},
			want: want{
				requests: []string{statusRequest}, after: child.Recheck, ready: "DeploymentUnreadable", degraded: "DeploymentUnreadable",
				events: []string{"Warning DeploymentUnreadable glassback cannot read which fields of Deployment sample it owns, " +
					"and leaves it as it is: "},
			},
		},
		"a paused Application is left alone": {
			fresh: true, app: []func(*v1.Application){paused}, want: want{noStatus: true},
		},
		"an Application that is paused later is left alone": {
			given: []func(*server){func(s *server) { s.edit(paused); s.edit(full); s.remove("services") }}, want: settled,
		},
		"an Application that is gone is nothing to do": {given: []func(*server){func(s *server) {
			s.change(func(now *state) { now.app = nil })
		}}, want: want{noStatus: true}},
		"the rollout is complete: told of once": {
			fresh: true, given: []func(*server){func(s *server) {
				if _, err := s.connect().Sync(t.Context(), key); err != nil {
					t.Error(err)
				}
				s.requests = nil
				s.rollOut()
			}},
			want: want{
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
			want: want{
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
				s.requests = nil
				alter(s, "deployments", "kube-controller-manager", func(d *appsv1.Deployment) {
					d.Status.ObservedGeneration, d.Status.Replicas, d.Status.UpdatedReplicas = d.Generation, 3, 3
				})
			}},
			want: want{
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
			want: want{
				requests: []string{statusRequest}, ready: "MinimumReplicasUnavailable", degraded: report.ReasonAsExpected,
				events: []string{"Warning MinimumReplicasUnavailable Pods: 1 wanted, 0 available"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(application(test.app...))
			if !test.fresh {
				s.settle(t)
			}
			for _, change := range test.given {
				change(s)
			}
			s.before = test.before
			o, was := s.connect(), s.state
			requests, after, err := o.sync(t)
			if !slices.Equal(requests, test.want.requests) {
				t.Errorf("requests %q, want %q", requests, test.want.requests)
			}
			if after != test.want.after {
				t.Errorf("after %s, want %s", after, test.want.after)
			}
			if text := errorText(err); text != test.want.err {
				t.Errorf("error %q, want %q", text, test.want.err)
			}
			if events := o.sent(); !slices.EqualFunc(events, test.want.events, strings.HasPrefix) {
				t.Errorf("events %q, want %q", events, test.want.events)
			}
			for resource, child := range was.children {
				if child.GetUID() == "foreign" && s.children[resource] != child {
					t.Errorf("another owner's object among the %s was changed", resource)
				}
			}
			if s.app == nil {
				return
			}
			if none := len(s.app.Status.Conditions) == 0; none != test.want.noStatus {
				t.Fatalf("status %+v, want none: %t", s.app.Status, test.want.noStatus)
			}
			for kind, reason := range map[string]string{glassback.ConditionReady: test.want.ready, glassback.ConditionDegraded: test.want.degraded} {
				if got := reasonOf(s.app, kind); got != reason {
					t.Errorf("%s has reason %q, want %q", kind, got, reason)
				}
			}
			conflict := meta.FindStatusCondition(s.app.Status.Conditions, v1.ConditionConflict)
			is := conflict != nil && conflict.Status == metav1.ConditionTrue
			if is != (test.want.conflict != "") || is && conflict.Message != test.want.conflict {
				t.Errorf("Conflict is %+v, want %q", conflict, test.want.conflict)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func reasonOf(app *v1.Application, kind string) string {
	if condition := meta.FindStatusCondition(app.Status.Conditions, kind); condition != nil {
		return condition.Reason
	}
	return ""
}

func TestFromNothing(t *testing.T) {
	s := newServer(application())
	o := s.connect()
	var all []string
	for range 4 {
		requests, _, err := o.sync(t)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, requests...)
		o.catchUp()
	}
	want := []string{"create services", "create deployments", "create ingresses", statusRequest}
	if !slices.Equal(all, want) {
		t.Errorf("requests %q, want %q and no more", all, want)
	}
	if got := reasonOf(s.app, glassback.ConditionReady); got != reasonRollout || len(s.app.Status.Resources) != 3 {
		t.Errorf("the first status has reason %s and resources %v, want %s and all three", got, s.app.Status.Resources, reasonRollout)
	}
	if events := o.sent(); len(events) > 0 {
		t.Errorf("events %q, want none: the Deployment has its own", events)
	}
}

// TestOnceAndNoMore lets each change be acted on and seen, and then wants nothing
// to be left to do.
func TestOnceAndNoMore(t *testing.T) {
	for sentence, change := range map[string]func(*server){
		"another image": func(s *server) { s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" }) },
		"fewer of everything": func(s *server) {
			s.edit(func(a *v1.Application) { onlyDeployment(a); a.Spec.Autoscaling, a.Spec.PDB = nil, nil })
		},
		"an autoscaler that has scaled, and goes": func(s *server) { scaled(5)(s); s.edit(func(a *v1.Application) { a.Spec.Autoscaling = nil }) },
		"other bounds": func(s *server) { s.edit(func(a *v1.Application) { *a.Spec.Autoscaling.MinReplicas = 4 }) },
		"drift of all children": func(s *server) {
			for _, resource := range resourceNames {
				alter(s, resource, "other-client", func(child object) {
					labels := child.GetLabels()
					labels["app.kubernetes.io/name"] = "theirs"
					child.SetLabels(labels)
				})
			}
		},
		"all children are gone": func(s *server) {
			for _, resource := range resourceNames {
				s.remove(resource)
			}
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(application(full)).settle(t)
			change(s)
			s.settle(t)
			wanted := desired(t, s.app)
			for _, resource := range resourceNames {
				configuration, is := wanted[resource]
				if child := s.children[resource]; (child != nil) != is {
					t.Errorf("%s is %v, want one: %t", resource, child, is)
				} else if is && !equality.Semantic.DeepEqual(extract(t, cached(child)), configuration) {
					t.Errorf("what is owned of %s is\n%s\nwanted is\n%s", resource, text(t, extract(t, cached(child))), text(t, configuration))
				}
			}
		})
	}
}

// TestReplicasAreHandedOver is about the way of the field to the autoscaler and
// back: there is no moment at which no field manager sets the number.
func TestReplicasAreHandedOver(t *testing.T) {
	s := newServer(application(func(a *v1.Application) { a.Spec.Replicas = ptr.To[int32](3) })).settle(t)
	expect := func(when string, want int32) {
		t.Helper()
		for _, then := range s.history {
			if d, ok := then.children["deployments"].(*appsv1.Deployment); ok && *d.Spec.Replicas == 1 {
				t.Fatalf("%s: at version %d there was 1 replica, which no spec asked for", when, then.version)
			}
		}
		if got := *s.children["deployments"].(*appsv1.Deployment).Spec.Replicas; got != want {
			t.Errorf("%s: %d replicas, want %d", when, got, want)
		}
	}
	s.edit(func(a *v1.Application) {
		a.Spec.Autoscaling = &v1.Autoscaling{MinReplicas: ptr.To[int32](2), MaxReplicas: 10}
	})
	s.settle(t)
	expect("an autoscaler is wanted", 3)
	s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" })
	s.settle(t)
	expect("an update before the autoscaler's first word", 3)
	scaled(7)(s)
	s.settle(t)
	expect("the autoscaler has scaled", 7)
	s.edit(func(a *v1.Application) { a.Spec.Image, a.Spec.Replicas = "nginx:1.31", ptr.To[int32](4) })
	s.settle(t)
	expect("an update after that, and another number in the spec", 7)
	s.edit(func(a *v1.Application) { a.Spec.Autoscaling = nil })
	s.settle(t)
	expect("no autoscaler is wanted any more", 4)
}

// autoscaled has an autoscaler that has asked for 4 where the spec says 3.
func autoscaled(t *testing.T) *server {
	t.Helper()
	s := newServer(application(full)).settle(t)
	scaled(4)(s)
	return s.settle(t)
}

func replicasOf(s *server) int32 {
	if d, ok := s.children["deployments"].(*appsv1.Deployment); ok {
		return *d.Spec.Replicas
	}
	return 0
}

// TestTheAutoscalersNumberIsKept is about what may happen to a Deployment that its
// autoscaler has scaled to 4.
func TestTheAutoscalersNumberIsKept(t *testing.T) {
	unwanted := func(s *server) { s.edit(func(a *v1.Application) { a.Spec.Autoscaling = nil }) }
	for sentence, test := range map[string]struct {
		given []func(*server)
		want  int32
		never []int32 // numbers that there must not be in between
	}{
		"it loses its label": {given: []func(*server){unlabel("deployments")}, want: 4, never: []int32{1, 3}},
		"it and the autoscaler lose their labels": {
			given: []func(*server){unlabel("deployments"), unlabel("horizontalpodautoscalers")}, want: 4, never: []int32{1, 3},
		},
		"another client deletes it": {given: []func(*server){func(s *server) { s.remove("deployments") }}, want: 4, never: []int32{1, 3}},
		"another client deletes the autoscaler": {
			given: []func(*server){func(s *server) { s.remove("horizontalpodautoscalers") }}, want: 4, never: []int32{1, 3},
		},
		"the autoscaler is not wanted any more": {given: []func(*server){unwanted}, want: 3, never: []int32{1}},
		"the autoscaler is not wanted, and stays for a while": {
			given: []func(*server){func(s *server) { s.hold("horizontalpodautoscalers") }, unwanted}, want: 4, never: []int32{1, 3},
		},
		"the autoscaler is not wanted and stays, and another image is": {
			given: []func(*server){func(s *server) { s.hold("horizontalpodautoscalers") }, unwanted, func(s *server) {
				s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" })
			}},
			want: 4, never: []int32{1, 3},
		},
		"the autoscaler is not wanted and stays, and another client deletes the Deployment": {
			given: []func(*server){func(s *server) { s.hold("horizontalpodautoscalers") }, unwanted, func(s *server) { s.remove("deployments") }},
			want:  4, never: []int32{1, 3},
		},
		"the autoscaler is not wanted, and the Deployment loses its label": {
			given: []func(*server){func(s *server) { s.hold("horizontalpodautoscalers") }, unwanted, unlabel("deployments")},
			want:  4, never: []int32{1, 3},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := autoscaled(t)
			was := len(s.history)
			for _, change := range test.given {
				change(s)
			}
			s.settle(t)
			for _, then := range s.history[was:] {
				if d, ok := then.children["deployments"].(*appsv1.Deployment); ok && slices.Contains(test.never, *d.Spec.Replicas) {
					t.Fatalf("at version %d there are %d replicas", then.version, *d.Spec.Replicas)
				}
			}
			if got := replicasOf(s); got != test.want {
				t.Errorf("%d replicas, want %d", got, test.want)
			}
		})
	}
}

func unlabel(resource string) func(*server) {
	return func(s *server) {
		alter(s, resource, "other-client", func(child object) { child.SetLabels(nil) })
	}
}

func TestALostLabelOfAnAutoscaledDeployment(t *testing.T) {
	s := autoscaled(t)
	unlabel("deployments")(s)
	requests, _, err := s.connect().sync(t)
	if want := []string{"create deployments", "get deployments", "apply deployments"}; err != nil || !slices.Equal(requests, want) {
		t.Errorf("requests %q, error %v; want %q", requests, err, want)
	}
	if got := replicasOf(s); got != 4 {
		t.Errorf("%d replicas, want the autoscaler's 4", got)
	}
	d := s.children["deployments"].(*appsv1.Deployment)
	owned := extract(t, cached(d)).(*appsv1ac.DeploymentApplyConfiguration)
	if owned.Spec.Replicas != nil || d.Labels[v1.LabelApplication] == "" {
		t.Errorf("owned is\n%s\nwant the label, and the number left to the autoscaler", text(t, owned))
	}
}

// TestAnAutoscalerThatStaysForAWhile is one that has a finalizer: as long as it is
// there, it scales.
func TestAnAutoscalerThatStaysForAWhile(t *testing.T) {
	s := autoscaled(t)
	s.hold("horizontalpodautoscalers")
	s.edit(func(a *v1.Application) { a.Spec.Autoscaling = nil })
	s.settle(t)
	if h := s.children["horizontalpodautoscalers"]; h == nil || h.GetDeletionTimestamp() == nil || len(s.app.Status.Resources) != 5 {
		t.Fatalf("the autoscaler is %v and the status lists %v, want it on its way out", h, s.app.Status.Resources)
	}
	scaled(5)(s)
	if got := replicasOf(s.settle(t)); got != 5 {
		t.Errorf("%d replicas while the autoscaler asks for 5", got)
	}
	s.release("horizontalpodautoscalers")
	if got := replicasOf(s.settle(t)); got != 3 || len(s.app.Status.Resources) != 4 {
		t.Errorf("%d replicas and %v once the autoscaler is gone, want the 3 of the spec", got, s.app.Status.Resources)
	}
}

func TestAnUpdateDoesNotUndoTheAutoscaler(t *testing.T) {
	s := newServer(application(full)).settle(t)
	o := s.connect()
	s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" })
	o.see("applications", len(s.history)-1)
	scaled(5)(s) // and the cache does not show it
	requests, _, err := o.sync(t)
	if !apierrors.IsConflict(err) || !slices.Equal(requests, []string{"apply deployments"}) {
		t.Errorf("requests %q, error %v; want one apply that meets a conflict", requests, err)
	}
	if got := *s.children["deployments"].(*appsv1.Deployment).Spec.Replicas; got != 5 {
		t.Errorf("%d replicas, want the autoscaler's 5", got)
	}
}

func TestSyncDoesNotActOnACacheOlderThanItsWrites(t *testing.T) {
	s := newServer(application())
	o := s.connect()
	if requests, _, _ := o.sync(t); len(requests) != 3 {
		t.Fatalf("requests %q, want three creates", requests)
	}
	for _, resource := range []string{"deployments", "services", "ingresses"} {
		if requests, after, _ := o.sync(t); len(requests) != 0 || after != 5*time.Second {
			t.Errorf("requests %q and after %s before the cache shows the %s, want none and 5s", requests, after, resource)
		}
		o.see(resource, len(s.history)-1)
	}
	if requests, _, _ := o.sync(t); !slices.Equal(requests, []string{statusRequest}) {
		t.Errorf("requests %q once the caches show all, want the status", requests)
	}
	if requests, after, _ := o.sync(t); len(requests) != 0 || after != 5*time.Second {
		t.Errorf("requests %q and after %s before the cache shows the status, want none and 5s", requests, after)
	}
	o.catchUp()
	s.edit(func(a *v1.Application) { a.Spec.Ingress.Enabled = ptr.To(false) })
	o.catchUp()
	if requests, _, _ := o.sync(t); !slices.Equal(requests, []string{"delete ingresses"}) {
		t.Errorf("requests %q, want a delete", requests)
	}
	if requests, after, _ := o.sync(t); len(requests) != 0 || after != 5*time.Second {
		t.Errorf("requests %q and after %s before the cache shows that it is gone, want none and 5s", requests, after)
	}
	s.clock.SetTime(s.clock.Now().Add(5 * time.Second))
	if requests, _, err := o.sync(t); !slices.Equal(requests, []string{"delete ingresses"}) || err != nil {
		t.Errorf("requests %q, error %v once it has waited for long enough; want another try, which finds it gone", requests, err)
	}
}

// TestTheStatusComesWithoutAnEvent is about writes whose events came before they
// were noted, or never: the time that a sync asks for leads to the next one.
func TestTheStatusComesWithoutAnEvent(t *testing.T) {
	for sentence, given := range map[string]func(*testing.T, *server){
		"after creates": func(*testing.T, *server) {},
		"after an update": func(t *testing.T, s *server) {
			s.settle(t).edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" })
		},
		"after a delete": func(t *testing.T, s *server) {
			s.settle(t).edit(func(a *v1.Application) { a.Spec.Ingress.Enabled = ptr.To(false) })
		},
		"after a delete of what is hidden": func(t *testing.T, s *server) {
			unlabel("ingresses")(s.settle(t))
			s.edit(func(a *v1.Application) { a.Spec.Ingress.Enabled = ptr.To(false) })
		},
		"after a create beside something in the way": func(_ *testing.T, s *server) { taken("services", true, nil)(s) },
		"after an update beside a failure": func(t *testing.T, s *server) {
			s.settle(t).edit(func(a *v1.Application) { a.Spec.Port = ptr.To[int32](9000) })
			s.before = failing("apply services", apierrors.NewBadRequest("no"))
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(application())
			given(t, s)
			o := s.connect()
			for calls := 1; ; calls++ {
				requests, after, err := o.sync(t)
				if err != nil || calls > 5 {
					t.Fatalf("requests %q, error %v in the sync no. %d", requests, err, calls)
				}
				if slices.Contains(requests, statusRequest) {
					break
				}
				if after <= 0 {
					t.Fatalf("requests %q, and no time to sync again: the status is never written", requests)
				}
				s.clock.SetTime(s.clock.Now().Add(after))
				o.catchUp()
			}
			if s.app.Status.ObservedGeneration != s.app.Generation {
				t.Errorf("the status is about generation %d, want %d", s.app.Status.ObservedGeneration, s.app.Generation)
			}
		})
	}
}

func TestAStaleCacheChangesNothingOfOthers(t *testing.T) {
	for sentence, edit := range map[string]func(*v1.Application){
		"by an update": func(a *v1.Application) { a.Spec.Service.Port = ptr.To[int32](80) },
		"by a delete":  onlyDeployment,
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(application()).settle(t)
			o := s.connect()
			// The Service is replaced by another owner's, and the cache shows ours.
			taken("services", true, nil)(s)
			theirs := s.children["services"]
			s.edit(edit)
			o.see("applications", len(s.history)-1)
			if _, _, err := o.sync(t); err != nil && !apierrors.IsConflict(err) {
				t.Fatal(err)
			}
			if s.children["services"] != theirs {
				t.Error("another owner's Service was changed or deleted")
			}
		})
	}
}

func TestAFreedNameIsTaken(t *testing.T) {
	s := newServer(application())
	taken("ingresses", false, nil)(s)
	s.settleBeside(t)
	if got := reasonOf(s.app, v1.ConditionConflict); got != child.ReasonConflict {
		t.Fatalf("Conflict has reason %s, want %s", got, child.ReasonConflict)
	}
	s.remove("ingresses")
	o := s.connect()
	var all []string
	for range 3 {
		requests, _, err := o.sync(t)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, requests...)
		o.catchUp()
	}
	if want := []string{"create ingresses", statusRequest}; !slices.Equal(all, want) {
		t.Errorf("requests %q, want %q", all, want)
	}
	over := []string{"Normal RolledOut Pods: 1 wanted, 1 available", "Normal AsExpected Nothing is wrong"}
	if events := o.sent(); !slices.Equal(events, over) {
		t.Errorf("events %q, want that it is over", events)
	}
	if reasonOf(s.app, v1.ConditionConflict) != reasonNoConflict {
		t.Error("Conflict is not over")
	}
}

// settleBeside is settle where something is in the way: each sync meets it.
func (s *server) settleBeside(t *testing.T) {
	t.Helper()
	for i := range 4 {
		if _, _, err := s.connect().sync(t); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			s.rollOut()
		}
	}
}

// TestAnnotationsOfTheDeployment are not the operator's, and each makes another
// generation of the Deployment, which its controller has yet to look at.
func TestAnnotationsOfTheDeployment(t *testing.T) {
	s := newServer(application()).settle(t)
	o := s.connect()
	for i := range 10 {
		alter(s, "deployments", "other-client", func(d *appsv1.Deployment) { d.Annotations = map[string]string{"theirs": strconv.Itoa(i)} })
		if d := s.children["deployments"].(*appsv1.Deployment); d.Status.ObservedGeneration == d.Generation {
			t.Fatal("the generation is as before")
		}
		for range 2 { // before the Deployment's controller has looked at it, and after
			o.catchUp()
			if requests, after, err := o.sync(t); len(requests) > 0 || after != 0 || err != nil {
				t.Fatalf("annotation %d: requests %q, after %s, error %v; want nothing", i, requests, after, err)
			}
			s.rollOut()
		}
	}
	if events := o.sent(); len(events) > 0 {
		t.Errorf("events %q, want none", events)
	}
}

// TestAnUnreadableDeployment is one with two variables of one name: which fields of
// it are whose, cannot be told.
func TestAnUnreadableDeployment(t *testing.T) {
	s := newServer(application()).settle(t)
	twice(s)
	was := s.children["deployments"]
	s.edit(func(a *v1.Application) {
		a.Spec.Port, a.Spec.Autoscaling = ptr.To[int32](9000), &v1.Autoscaling{MinReplicas: ptr.To[int32](1), MaxReplicas: 5}
	})
	s.settle(t)
	wanted := desired(t, s.app)
	for _, resource := range []string{"services", "ingresses", "horizontalpodautoscalers"} {
		if owned := extract(t, cached(s.children[resource])); !equality.Semantic.DeepEqual(owned, wanted[resource]) {
			t.Errorf("what is owned of %s is\n%s\nwanted is\n%s", resource, text(t, owned), text(t, wanted[resource]))
		}
	}
	if s.children["deployments"] != was {
		t.Error("the Deployment was changed")
	}
	ready := meta.FindStatusCondition(s.app.Status.Conditions, glassback.ConditionReady)
	if ready.Status != metav1.ConditionFalse || ready.Reason != "DeploymentUnreadable" || s.app.Status.ObservedGeneration != s.app.Generation {
		t.Errorf("Ready is %+v, want False: DeploymentUnreadable", ready)
	}
	alter(s, "deployments", "other-client", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env = nil })
	s.settle(t)
	if owned := extract(t, cached(s.children["deployments"])); !equality.Semantic.DeepEqual(owned, wanted["deployments"]) {
		t.Errorf("once it can be told, owned is\n%s\nwanted is\n%s", text(t, owned), text(t, wanted["deployments"]))
	}
	if got := reasonOf(s.app, glassback.ConditionReady); got != reasonRolledOut {
		t.Errorf("Ready has reason %s, want %s", got, reasonRolledOut)
	}
}

// What is not known to be gone stays in the status, so that it is looked for later.
func TestWhatIsHiddenStaysInTheStatus(t *testing.T) {
	s := newServer(application()).settle(t)
	hide("ingresses")(s)
	s.settleBeside(t)
	listed := func() bool {
		return slices.ContainsFunc(s.app.Status.Resources, func(r v1.ResourceReference) bool { return r.Kind == "Ingress" })
	}
	if got := reasonOf(s.app, glassback.ConditionReady); got != "IngressHidden" || !listed() {
		t.Fatalf("Ready has reason %s and the status lists %v, want IngressHidden, and the Ingress", got, s.app.Status.Resources)
	}
	s.edit(func(a *v1.Application) { a.Spec.Ingress.Enabled = ptr.To(false) })
	o := s.connect()
	requests, _, err := o.sync(t)
	if want := []string{"get ingresses", "delete ingresses", statusRequest}; err != nil || !slices.Equal(requests, want) {
		t.Errorf("requests %q, error %v; want %q", requests, err, want)
	}
	if s.children["ingresses"] != nil || listed() {
		t.Errorf("the Ingress is %v and the status lists %v, want that it is gone", s.children["ingresses"], s.app.Status.Resources)
	}
}

func TestAnAutoscalerThatIsRewritten(t *testing.T) {
	s := newServer(application(full)).settle(t)
	alter(s, "horizontalpodautoscalers", "other-client", func(h *autoscalingv2.HorizontalPodAutoscaler) {
		h.Spec.MaxReplicas = 100
		h.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{}
	})
	requests, _, err := s.connect().sync(t)
	if err != nil || !slices.Equal(requests, []string{"apply horizontalpodautoscalers"}) {
		t.Errorf("requests %q, error %v; want one apply", requests, err)
	}
	h := s.children["horizontalpodautoscalers"].(*autoscalingv2.HorizontalPodAutoscaler)
	if h.Spec.MaxReplicas != 5 || h.Spec.Behavior == nil {
		t.Errorf("spec %+v, want the bound put back and the behavior left", h.Spec)
	}
}

func TestALongErrorFitsIntoTheStatus(t *testing.T) {
	s := newServer(application()).settle(t)
	s.remove("services")
	s.before = failing("create services", apierrors.NewBadRequest(strings.Repeat("long ", 10_000)))
	if _, _, err := s.connect().sync(t); err != nil {
		t.Fatal(err)
	}
	for _, c := range s.app.Status.Conditions {
		if len(c.Message) > 1100 {
			t.Errorf("the message of %s has %d characters", c.Type, len(c.Message))
		}
	}
}

func TestAnUpdateDoesNotBringBackWhatIsGone(t *testing.T) {
	s := newServer(application(full)).settle(t)
	scaled(4)(s)
	s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" })
	o := s.connect()
	s.remove("deployments") // and the cache does not show it
	if requests, _, err := o.sync(t); !apierrors.IsConflict(err) || s.children["deployments"] != nil {
		t.Errorf("requests %q, error %v; want a conflict, and no Deployment without a number of replicas", requests, err)
	}
}

// What has lost its label and then its use is not in the cache, but in the status.
func TestWhatLostItsLabelIsDeletedAllTheSame(t *testing.T) {
	for sentence, test := range map[string]struct {
		then     func(*server)
		requests []string
		left     bool
	}{
		"it is still ours": {
			then:     func(*server) {},
			requests: []string{"get ingresses", "delete ingresses", "update applications/status"},
		},
		"it is another owner's by now": {
			then:     func(s *server) { s.put("ingresses", "other-client", foreign("ingresses", false, nil)) },
			requests: []string{"get ingresses", "update applications/status"}, left: true,
		},
		"it is gone": {
			then:     func(s *server) { s.remove("ingresses") },
			requests: []string{"get ingresses", "update applications/status"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(application()).settle(t)
			alter(s, "ingresses", "other-client", func(i *networkingv1.Ingress) { delete(i.Labels, v1.LabelApplication) })
			s.edit(func(a *v1.Application) { a.Spec.Ingress.Enabled = ptr.To(false) })
			test.then(s)
			requests, _, err := s.connect().sync(t)
			if err != nil || !slices.Equal(requests, test.requests) {
				t.Errorf("requests %q, want %q; error %v", requests, test.requests, err)
			}
			if there := s.children["ingresses"] != nil; there != test.left {
				t.Errorf("an Ingress is left: %t, want %t", there, test.left)
			}
			if requests, _, err := s.connect().sync(t); err != nil || len(requests) > 0 {
				t.Errorf("once more: requests %q, error %v", requests, err)
			}
		})
	}
}
