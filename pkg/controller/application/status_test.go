// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/child"
)

// is is a Deployment's condition that has the message "because".
func is(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason string) appsv1.DeploymentCondition {
	return appsv1.DeploymentCondition{Type: kind, Status: status, Reason: reason, Message: "because"}
}

var (
	enough = is(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable")
	tooFew = is(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable")
	stuck  = is(appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded")

	// rolledOut are the conditions of a Deployment whose rollout is complete.
	rolledOut = []appsv1.DeploymentCondition{enough, is(appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetAvailable")}
)

// deploymentOf is a Deployment of 3 replicas, of which so many are of the latest version and so many are available.
func deploymentOf(replicas, updated, available int32, conditions ...appsv1.DeploymentCondition) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "sample", Generation: 2},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](3)},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 2, Replicas: replicas, UpdatedReplicas: updated, ReadyReplicas: available,
			AvailableReplicas: available, Conditions: conditions,
		},
	}
}

func changed(d *appsv1.Deployment, change func(*appsv1.Deployment)) *appsv1.Deployment {
	change(d)
	return d
}

// statusAt returns the status of an Application with this Deployment.
func statusAt(now time.Time, app *v1.Application, d *appsv1.Deployment, p plan, out child.Outcomes) v1.ApplicationStatus {
	o := &observed{app: app, now: now}
	o.deployment.Object = d
	return statusOf(o, p, out)
}

// conditionOf returns a condition as "True Reason: message".
func conditionOf(status v1.ApplicationStatus, kind string) string {
	c := meta.FindStatusCondition(status.Conditions, kind)
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

// expectConditions compares conditions with the beginnings of what conditionOf returns.
func expectConditions(t *testing.T, status v1.ApplicationStatus, want map[string]string) {
	t.Helper()
	for kind, begin := range want {
		if got := conditionOf(status, kind); !strings.HasPrefix(got, begin) {
			t.Errorf("%s is %q, want %q", kind, got, begin)
		}
	}
	for _, c := range status.Conditions {
		if _, ok := want[c.Type]; !ok || c.ObservedGeneration != status.ObservedGeneration {
			t.Errorf("unexpected condition %+v, of generation %d", c, status.ObservedGeneration)
		}
	}
}

// TestStatusOfARollout is the table of what a Deployment's state means.
func TestStatusOfARollout(t *testing.T) {
	const (
		fine, noConflict = "False AsExpected: Nothing is wrong", "False NoConflict: No object of another owner is in the way"
		waits            = "True WaitingForDeployment: The Deployment's controller has not seen its latest version yet"
		unseen           = "False RolloutInProgress: The Deployment's controller has not seen its latest version yet"
		unreported       = "False WaitingForDeployment: The Deployment's controller has not reported yet whether enough Pods are available"
		yes, no          = "True MinimumReplicasAvailable: because", "False MinimumReplicasUnavailable: because"
		done             = "False NewReplicaSetAvailable: because"
	)
	scaling := v1.ApplicationStatus{Replicas: 3, Conditions: []metav1.Condition{
		{Type: glassback.ConditionReady, Status: metav1.ConditionFalse, Reason: reasonScaling},
	}}
	for sentence, test := range map[string]struct {
		was                           v1.ApplicationStatus
		of                            *appsv1.Deployment
		ready, progressing, available string
		degraded                      string // "" for fine
	}{
		"the Deployment is being deleted": {
			of: changed(deploymentOf(3, 3, 3, rolledOut...), func(d *appsv1.Deployment) {
				d.DeletionTimestamp = ptr.To(metav1.NewTime(t0))
			}),
			ready:       "False RolloutInProgress: The Deployment does not exist yet",
			progressing: "True WaitingForDeployment: The Deployment does not exist yet", available: "False WaitingForDeployment: ",
		},
		"its controller has not seen the latest version": {
			of:    changed(deploymentOf(3, 3, 3, rolledOut...), func(d *appsv1.Deployment) { d.Generation = 3 }),
			ready: unseen, progressing: waits, available: yes,
		},
		"it has no deadline, and all Pods are available": {
			of: deploymentOf(3, 3, 3, enough), ready: "True RolledOut: Pods: 3 wanted, 3 available",
			progressing: "False RolledOut: The Deployment has no condition Progressing: its numbers of Pods are used", available: yes,
		},
		"it has no deadline, and Pods of the version before are left": {
			of: deploymentOf(4, 3, 3, enough), ready: "False RolloutInProgress: Pods: 3 wanted, 3 available, 3 of the latest version",
			progressing: "True RolloutInProgress: The Deployment has no condition Progressing: its numbers of Pods are used", available: yes,
		},
		"a new rollout has begun, and its reason is still the old one": {
			of: deploymentOf(3, 0, 3, rolledOut...), ready: "False RolloutInProgress: Pods: 3 wanted, 3 available, 0 of the latest version",
			progressing: "True NewReplicaSetAvailable: because", available: yes,
		},
		"the rollout is complete": {
			of: deploymentOf(3, 3, 3, rolledOut...), ready: "True RolledOut: Pods: 3 wanted, 3 available", progressing: done, available: yes,
		},
		"the rollout is complete, and then Pods fail": {
			was: v1.ApplicationStatus{Replicas: 3}, of: deploymentOf(3, 3, 1, tooFew, rolledOut[1]),
			ready: "False MinimumReplicasUnavailable: Pods: 3 wanted, 1 available", progressing: done, available: no,
		},
		"Pods are being added": {
			was: v1.ApplicationStatus{Replicas: 1}, of: deploymentOf(3, 3, 1, rolledOut...),
			ready: "False ScalingInProgress: Pods: 3 wanted, 1 available", progressing: done, available: yes,
		},
		"Pods are being added, as the status has said, and too few serve until then": {
			was: scaling, of: deploymentOf(3, 3, 1, tooFew, rolledOut[1]),
			ready: "False ScalingInProgress: Pods: 3 wanted, 1 available", progressing: done, available: no,
		},
		"the rollout takes too long": {
			of: deploymentOf(4, 2, 2, enough, stuck), ready: "False ProgressDeadlineExceeded: because",
			degraded: "True ProgressDeadlineExceeded: because", progressing: "False ProgressDeadlineExceeded: because", available: yes,
		},
		"Pods cannot be made, for so long that the rollout takes too long: the cause is told": {
			of:    deploymentOf(0, 0, 0, stuck, is(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate")),
			ready: "False FailedCreate: because", degraded: "True FailedCreate: because",
			progressing: "False ProgressDeadlineExceeded: because", available: unreported,
		},
		"the number of replicas is not said: it is 1": {
			of:    changed(deploymentOf(1, 1, 1, rolledOut...), func(d *appsv1.Deployment) { d.Spec.Replicas = nil }),
			ready: "True RolledOut: Pods: 1 wanted, 1 available", progressing: done, available: yes,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			app := application(func(a *v1.Application) { a.Generation, a.Status = 4, test.was })
			status := statusAt(t0, app, test.of, plan{}, child.Outcomes{})
			if test.degraded == "" {
				test.degraded = fine
			}
			expectConditions(t, status, map[string]string{
				glassback.ConditionReady: test.ready, glassback.ConditionDegraded: test.degraded, glassback.ConditionProgressing: test.progressing,
				v1.ConditionAvailable: test.available, v1.ConditionConflict: noConflict,
			})
			var want appsv1.DeploymentStatus
			if test.of != nil && test.of.DeletionTimestamp == nil {
				want = test.of.Status
			}
			numbers := []int32{status.Replicas, status.UpdatedReplicas, status.ReadyReplicas, status.AvailableReplicas}
			if wanted := []int32{want.Replicas, want.UpdatedReplicas, want.ReadyReplicas, want.AvailableReplicas}; !slices.Equal(numbers, wanted) {
				t.Errorf("replicas, updated, ready and available: %v, want %v", numbers, wanted)
			}
			if status.ObservedGeneration != 4 || status.Selector != "app.aiops.org/application=sample" {
				t.Errorf("generation %d and selector %q, want 4 and the Application's label", status.ObservedGeneration, status.Selector)
			}
		})
	}
}

func TestStatusOfProblems(t *testing.T) {
	const noConflict = "False NoConflict: No object of another owner is in the way"
	taken := child.Problem{Reason: child.ReasonConflict, Message: "Service sample is taken"}
	taken2 := child.Problem{Reason: child.ReasonConflict, Message: "Ingress sample is taken"}
	rejected := child.Problem{Reason: "IngressRejected", Message: "the host is wrong"}
	for sentence, test := range map[string]struct {
		plan         plan
		problems     []child.Problem
		is, conflict string // what Ready and Degraded say; what Conflict says
	}{
		"two names that are taken": {
			problems: []child.Problem{taken, taken2}, is: "Conflict: Service sample is taken; Ingress sample is taken",
			conflict: "True Conflict: Service sample is taken; Ingress sample is taken",
		},
		"a child that is rejected": {problems: []child.Problem{rejected}, is: "IngressRejected: the host is wrong", conflict: noConflict},
		"both: the first gives the reason": {
			problems: []child.Problem{rejected, taken}, is: "IngressRejected: the host is wrong; Service sample is taken",
			conflict: "True Conflict: Service sample is taken",
		},
		"an invalid spec: what runs is left as it is": {
			plan: plan{Invalid: &child.Problem{Reason: reasonInvalidSpec, Message: "no image"}}, is: "InvalidSpec: no image", conflict: noConflict,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			for progressing, of := range map[string]*appsv1.Deployment{
				"False NewReplicaSetAvailable: because":   deploymentOf(3, 3, 2, rolledOut...),
				"False ProgressDeadlineExceeded: because": deploymentOf(4, 2, 2, enough, stuck), // A problem counts more.
			} {
				status := statusAt(t0, application(), of, test.plan, child.Outcomes{Problems: test.problems})
				expectConditions(t, status, map[string]string{
					glassback.ConditionReady: "False " + test.is, glassback.ConditionDegraded: "True " + test.is,
					glassback.ConditionProgressing: progressing, v1.ConditionConflict: test.conflict,
					v1.ConditionAvailable: "True MinimumReplicasAvailable: because",
				})
				if status.AvailableReplicas != 2 {
					t.Errorf("%d are available, want 2", status.AvailableReplicas)
				}
			}
		})
	}
}

func TestStatusKeepsWhatItDoesNotSet(t *testing.T) {
	app := application(func(a *v1.Application) {
		a.Status.Conditions = []metav1.Condition{{
			Type: "Theirs", Status: metav1.ConditionTrue, Reason: "Set", LastTransitionTime: metav1.NewTime(t0),
		}}
	})
	was := app.DeepCopy()
	status := statusAt(t0, app, deploymentOf(3, 3, 3, rolledOut...), plan{}, child.Outcomes{})
	if meta.FindStatusCondition(status.Conditions, "Theirs") == nil || !equality.Semantic.DeepEqual(app, was) {
		t.Errorf("conditions %+v, want another owner's among them, and the former status as it was", status.Conditions)
	}
	// Once more, later: nothing changes, not even a time.
	app.Status = status
	again := statusAt(t0.Add(time.Hour), app, deploymentOf(3, 3, 3, rolledOut...), plan{}, child.Outcomes{})
	if !equality.Semantic.DeepEqual(again, status) {
		t.Errorf("the same state gives another status later: %+v, before %+v", again, status)
	}
}

func TestURL(t *testing.T) {
	for sentence, test := range map[string]struct {
		change func(*v1.Application)
		want   string
	}{
		"by an Ingress, whatever the ports are": {func(a *v1.Application) {
			a.Spec.Port, a.Spec.Service.Port = ptr.To[int32](9000), ptr.To[int32](81)
		}, "http://example.foo.com"},
		"by an Ingress with TLS, on a path that ends in a slash": {func(a *v1.Application) {
			a.Spec.Ingress.Host, a.Spec.Ingress.Path, a.Spec.Ingress.TLS = "shop.example.com", "/shop/", &v1.IngressTLS{SecretName: "shop-tls"}
		}, "https://shop.example.com/shop"},
		"by a Service whose Ingress has TLS, but is not enabled": {func(a *v1.Application) {
			a.Spec.Ingress.Enabled, a.Spec.Ingress.TLS = ptr.To(false), &v1.IngressTLS{SecretName: "shop-tls"}
		}, "http://sample.default.svc:8080"},
		"by a Service on a port of its own": {func(a *v1.Application) {
			a.Spec.Ingress.Enabled, a.Spec.Service.Port = ptr.To(false), ptr.To[int32](80)
		}, "http://sample.default.svc:80"},
		"by an HTTPRoute alone": {func(a *v1.Application) {
			a.Spec.Ingress.Enabled, a.Spec.Gateway = ptr.To(false), &v1.Gateway{Name: "public"}
		}, "http://example.foo.com"},
		"not at all": {onlyDeployment, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := statusAt(t0, application(test.change), nil, plan{}, child.Outcomes{}).URL; got != test.want {
				t.Errorf("URL %q, want %q", got, test.want)
			}
		})
	}
}

func TestRouteProblem(t *testing.T) {
	app := application(func(a *v1.Application) {
		a.Spec.Gateway = &v1.Gateway{Name: "public", Namespace: "gateways", SectionName: "https"}
	})
	wanted := plan{Route: route(app)}
	public := gatewayv1.ParentReference{
		Namespace: ptr.To[gatewayv1.Namespace]("gateways"), Name: "public", SectionName: ptr.To[gatewayv1.SectionName]("https"),
	}
	answered := func(generation int64, accepted, resolved metav1.ConditionStatus) *gatewayv1.HTTPRoute {
		condition := func(kind gatewayv1.RouteConditionType, status metav1.ConditionStatus) metav1.Condition {
			return metav1.Condition{Type: string(kind), Status: status, Reason: "It" + string(kind), Message: "why", ObservedGeneration: generation}
		}
		r := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		r.Status.Parents = []gatewayv1.RouteParentStatus{{ParentRef: public, Conditions: []metav1.Condition{
			condition(gatewayv1.RouteConditionAccepted, accepted), condition(gatewayv1.RouteConditionResolvedRefs, resolved),
		}}}
		return r
	}
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	for sentence, test := range map[string]struct {
		plan  plan
		route *gatewayv1.HTTPRoute
		want  string
	}{
		"none is wanted":                  {route: answered(2, no, no)},
		"it is not created yet":           {plan: wanted},
		"no Gateway has answered":         {plan: wanted, route: &gatewayv1.HTTPRoute{}},
		"it is served":                    {plan: wanted, route: answered(2, yes, yes)},
		"it is not accepted":              {plan: wanted, route: answered(2, no, yes), want: "public does not serve it: ItAccepted: why"},
		"its Service is not found":        {plan: wanted, route: answered(2, yes, no), want: "ItResolvedRefs: why"},
		"the answer is to an earlier one": {plan: wanted, route: answered(1, no, no)},
		"another controller serves it": {plan: wanted, route: func() *gatewayv1.HTTPRoute {
			r := answered(2, no, no)
			r.Status.Parents = append(r.Status.Parents, answered(2, yes, yes).Status.Parents...)
			return r
		}()},
		"an earlier Gateway has served it": {plan: wanted, want: "ItAccepted: why", route: func() *gatewayv1.HTTPRoute {
			r := answered(2, yes, yes)
			r.Status.Parents[0].ParentRef.Name = "earlier"
			r.Status.Parents = append(r.Status.Parents, answered(2, no, yes).Status.Parents...)
			return r
		}()},
		"a controller has not answered yet": {plan: wanted, want: "ItAccepted: why", route: func() *gatewayv1.HTTPRoute {
			r := answered(1, yes, yes)
			r.Status.Parents = append(r.Status.Parents, answered(2, no, yes).Status.Parents...)
			return r
		}()},
	} {
		o := &observed{app: app}
		o.route.Object = test.route
		got := ""
		if p := routeProblem(o, test.plan); p != nil {
			got = p.Reason + " " + p.Message
		}
		if !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s: %q, want %q", sentence, got, test.want)
		}
	}
}

func TestResources(t *testing.T) {
	named := metav1.ObjectMeta{Name: "sample"}
	all := []v1.ResourceReference{
		{APIVersion: "apps/v1", Kind: "Deployment", Name: "sample"}, {APIVersion: "v1", Kind: "Service", Name: "sample"},
		{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: "sample"},
		{APIVersion: "gateway.networking.k8s.io/v1", Kind: "HTTPRoute", Name: "sample"},
		{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler", Name: "sample"},
		{APIVersion: "policy/v1", Kind: "PodDisruptionBudget", Name: "sample"},
	}
	deployment, ingress := all[0], all[2]
	for sentence, test := range map[string]struct {
		was   []v1.ResourceReference
		shown func(*observed)
		gone  []string
		want  []v1.ResourceReference
	}{
		"what was there and is not shown stays": {
			was: []v1.ResourceReference{ingress}, want: []v1.ResourceReference{deployment, ingress},
			shown: func(seen *observed) { seen.deployment.Object = &appsv1.Deployment{ObjectMeta: named} },
		},
		"what was there and is known to be gone does not": {
			was: []v1.ResourceReference{deployment, ingress}, gone: []string{"Ingress", "Service"}, want: []v1.ResourceReference{deployment},
		},
		"what was there by another name, or version, or kind is not": {
			was: []v1.ResourceReference{
				{APIVersion: "apps/v1", Kind: "Deployment", Name: "other"}, {APIVersion: "extensions/v1beta1", Kind: "Ingress", Name: "sample"},
				{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "sample"},
			},
		},
		"all are there": {
			shown: func(seen *observed) {
				seen.deployment.Object, seen.service.Object = &appsv1.Deployment{ObjectMeta: named}, &corev1.Service{ObjectMeta: named}
				seen.ingress.Object = &networkingv1.Ingress{ObjectMeta: named}
				seen.route.Object = &gatewayv1.HTTPRoute{ObjectMeta: named}
				seen.autoscaler.Object = &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: named}
				seen.budget.Object = &policyv1.PodDisruptionBudget{ObjectMeta: named}
			},
			want: all,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			seen := &observed{now: t0, app: application(func(a *v1.Application) { a.Status.Resources = test.was })}
			if test.shown != nil {
				test.shown(seen)
			}
			if got := statusOf(seen, plan{}, child.Outcomes{Gone: test.gone}).Resources; !slices.Equal(got, test.want) {
				t.Errorf("resources %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestSourcesThatCannotBeReadForLong: each step of an autoscaler would write Progressing twice.
func TestSourcesThatCannotBeReadForLong(t *testing.T) {
	o := &observed{now: t0, app: application(), sources: sources{Problem: &child.Problem{Reason: reasonSources, Message: "no"}}}
	o.deployment.Object = deploymentOf(3, 3, 3, rolledOut...)
	o.app.Status = statusOf(o, plan{}, child.Outcomes{})
	if got := conditionOf(o.app.Status, glassback.ConditionDegraded); got != "True SourcesNotRead: no" {
		t.Errorf("Degraded is %q", got)
	}
	o.deployment.Object = changed(deploymentOf(3, 3, 3, rolledOut...), func(d *appsv1.Deployment) { d.Generation++ })
	if again := statusOf(o, plan{}, child.Outcomes{}); !equality.Semantic.DeepEqual(again, o.app.Status) {
		t.Errorf("status %+v, before %+v", again, o.app.Status)
	}
}

// TestStatusWhileTheDeploymentIsUnobserved is about a Deployment that its controller
// has not looked at: what was told of it stays, unless there is something new.
func TestStatusWhileTheDeploymentIsUnobserved(t *testing.T) {
	rejected := child.Problem{Reason: "IngressRejected", Message: "the host is wrong"}
	for sentence, test := range map[string]struct {
		was   []child.Problem // what was told
		edit  func(app *v1.Application, d *appsv1.Deployment)
		out   child.Outcomes
		ready string
		keeps bool
	}{
		"nothing new: all stays": {ready: "True RolledOut: Pods: 3 wanted, 3 available", keeps: true},
		"nothing new, and a problem was told: it stays": {
			was: []child.Problem{rejected}, ready: "False IngressRejected: the host is wrong", keeps: true,
		},
		"it has been looked at": {
			edit: func(_ *v1.Application, d *appsv1.Deployment) {
				d.Status.ObservedGeneration, d.Status.Conditions = d.Generation, []appsv1.DeploymentCondition{tooFew, rolledOut[1]}
			},
			ready: "False MinimumReplicasUnavailable: Pods: 3 wanted, 1 available",
		},
		"another generation of the Application": {
			edit:  func(app *v1.Application, _ *appsv1.Deployment) { app.Generation++ },
			ready: "False RolloutInProgress: The Deployment's controller has not seen its latest version yet",
		},
		"a problem": {out: child.Outcomes{Problems: []child.Problem{rejected}}, ready: "False IngressRejected: the host is wrong"},
	} {
		t.Run(sentence, func(t *testing.T) {
			app := application()
			app.Status = statusAt(t0, app, deploymentOf(3, 3, 3, rolledOut...), plan{}, child.Outcomes{Problems: test.was})
			now := changed(deploymentOf(3, 3, 1, rolledOut...), func(d *appsv1.Deployment) { d.Generation++ })
			if test.edit != nil {
				test.edit(app, now)
			}
			status := statusAt(t0.Add(time.Minute), app, now, plan{}, test.out)
			if got := conditionOf(status, glassback.ConditionReady); got != test.ready {
				t.Errorf("Ready is %q, want %q", got, test.ready)
			}
			if keeps := equality.Semantic.DeepEqual(status, app.Status); keeps != test.keeps {
				t.Errorf("status %+v, before %+v; want the same: %t", status, app.Status, test.keeps)
			}
			if status.ObservedGeneration != app.Generation {
				t.Errorf("it is about generation %d, want %d", status.ObservedGeneration, app.Generation)
			}
		})
	}
}
