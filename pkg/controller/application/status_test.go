// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"maps"
	"slices"
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
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/child"
)

// is is a Deployment's condition that has the message "because".
func is(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason string) appsv1.DeploymentCondition {
	return appsv1.DeploymentCondition{Type: kind, Status: status, Reason: reason, Message: "because"}
}

// rolledOut are the conditions of a Deployment whose rollout is complete.
var rolledOut = []appsv1.DeploymentCondition{
	is(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable"),
	is(appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetAvailable"),
}

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

// TestStatusOfARollout is the table of what a Deployment's state means. Conditions are written as "True Reason: message".
func TestStatusOfARollout(t *testing.T) {
	const fine, noConflict = "False AsExpected: Nothing is wrong", "False NoConflict: No object of another owner is in the way"
	scaling := v1.ApplicationStatus{Replicas: 3, Conditions: []metav1.Condition{
		{Type: glassback.ConditionReady, Status: metav1.ConditionFalse, Reason: reasonScaling},
	}}
	const byNumbers = "The Deployment has no condition Progressing: its numbers of Pods are used"
	for sentence, test := range map[string]struct {
		was                                     v1.ApplicationStatus
		deployment                              *appsv1.Deployment
		ready, degraded, progressing, available string
	}{
		"there is no Deployment": {
			ready:    "False RolloutInProgress: The Deployment does not exist yet",
			degraded: fine, progressing: "True WaitingForDeployment: The Deployment does not exist yet",
			available: "False WaitingForDeployment: The Deployment does not exist yet",
		},
		"the Deployment is being deleted": {
			deployment: func() *appsv1.Deployment {
				d := deploymentOf(3, 3, 3, rolledOut...)
				d.DeletionTimestamp = ptr.To(metav1.NewTime(t0))
				return d
			}(),
			ready:    "False RolloutInProgress: The Deployment does not exist yet",
			degraded: fine, progressing: "True WaitingForDeployment: The Deployment does not exist yet",
			available: "False WaitingForDeployment: The Deployment does not exist yet",
		},
		"its controller has not seen it": {
			deployment: &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Name: "sample", Generation: 1}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](3)},
			},
			ready:    "False RolloutInProgress: The Deployment's controller has not seen its latest version yet",
			degraded: fine, progressing: "True WaitingForDeployment: The Deployment's controller has not seen its latest version yet",
			available: "False WaitingForDeployment: The Deployment's controller has not reported yet whether enough Pods are available",
		},
		"its controller has not seen the latest version": {
			deployment: func() *appsv1.Deployment {
				d := deploymentOf(3, 3, 3, rolledOut...)
				d.Generation = 3
				return d
			}(),
			ready:    "False RolloutInProgress: The Deployment's controller has not seen its latest version yet",
			degraded: fine, progressing: "True WaitingForDeployment: The Deployment's controller has not seen its latest version yet",
			available: "True MinimumReplicasAvailable: because",
		},
		"its controller has not seen the fix of a failure": {
			deployment: func() *appsv1.Deployment {
				d := deploymentOf(3, 1, 2, is(appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded"))
				d.Generation = 3
				return d
			}(),
			ready:    "False RolloutInProgress: The Deployment's controller has not seen its latest version yet",
			degraded: fine, progressing: "True WaitingForDeployment: The Deployment's controller has not seen its latest version yet",
			available: "False WaitingForDeployment: The Deployment's controller has not reported yet whether enough Pods are available",
		},
		"its controller has seen it, and told nothing": {
			deployment: deploymentOf(0, 0, 0),
			ready:      "False RolloutInProgress: Pods: 3 wanted, 0 available, 0 of the latest version",
			degraded:   fine, progressing: "True RolloutInProgress: " + byNumbers,
			available: "False WaitingForDeployment: The Deployment's controller has not reported yet whether enough Pods are available",
		},
		"it has no deadline, and all Pods are available": {
			deployment: deploymentOf(3, 3, 3, is(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable")),
			ready:      "True RolledOut: Pods: 3 wanted, 3 available",
			degraded:   fine, progressing: "False RolledOut: " + byNumbers, available: "True MinimumReplicasAvailable: because",
		},
		"it has no deadline, and Pods of the version before are left": {
			deployment: deploymentOf(4, 3, 3, is(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable")),
			ready:      "False RolloutInProgress: Pods: 3 wanted, 3 available, 3 of the latest version",
			degraded:   fine, progressing: "True RolloutInProgress: " + byNumbers, available: "True MinimumReplicasAvailable: because",
		},
		"the first rollout is under way": {
			deployment: deploymentOf(3, 3, 1, is(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable"),
				is(appsv1.DeploymentProgressing, corev1.ConditionTrue, "ReplicaSetUpdated")),
			ready:    "False RolloutInProgress: Pods: 3 wanted, 1 available, 3 of the latest version",
			degraded: fine, progressing: "True ReplicaSetUpdated: because", available: "False MinimumReplicasUnavailable: because",
		},
		"a later rollout is under way": {
			deployment: deploymentOf(4, 2, 3, is(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable"),
				is(appsv1.DeploymentProgressing, corev1.ConditionTrue, "ReplicaSetUpdated")),
			ready:    "False RolloutInProgress: Pods: 3 wanted, 3 available, 2 of the latest version",
			degraded: fine, progressing: "True ReplicaSetUpdated: because", available: "True MinimumReplicasAvailable: because",
		},
		"a new rollout has begun, and its reason is still the old one": {
			deployment: deploymentOf(3, 0, 3, rolledOut...),
			ready:      "False RolloutInProgress: Pods: 3 wanted, 3 available, 0 of the latest version",
			degraded:   fine, progressing: "True NewReplicaSetAvailable: because", available: "True MinimumReplicasAvailable: because",
		},
		"the rollout is complete": {
			deployment: deploymentOf(3, 3, 3, rolledOut...),
			ready:      "True RolledOut: Pods: 3 wanted, 3 available",
			degraded:   fine, progressing: "False NewReplicaSetAvailable: because", available: "True MinimumReplicasAvailable: because",
		},
		"the rollout is complete, and then Pods fail": {
			was:        v1.ApplicationStatus{Replicas: 3},
			deployment: deploymentOf(3, 3, 1, is(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable"), rolledOut[1]),
			ready:      "False MinimumReplicasUnavailable: Pods: 3 wanted, 1 available",
			degraded:   fine, progressing: "False NewReplicaSetAvailable: because", available: "False MinimumReplicasUnavailable: because",
		},
		"Pods are being added": {
			was: v1.ApplicationStatus{Replicas: 1}, deployment: deploymentOf(3, 3, 1, rolledOut...),
			ready:    "False ScalingInProgress: Pods: 3 wanted, 1 available",
			degraded: fine, progressing: "False NewReplicaSetAvailable: because", available: "True MinimumReplicasAvailable: because",
		},
		"Pods are being added, and the status has said so": {
			was: scaling, deployment: deploymentOf(3, 3, 2, rolledOut...),
			ready:    "False ScalingInProgress: Pods: 3 wanted, 2 available",
			degraded: fine, progressing: "False NewReplicaSetAvailable: because", available: "True MinimumReplicasAvailable: because",
		},
		"Pods are being added, and too few serve until then": {
			was:        scaling,
			deployment: deploymentOf(3, 3, 1, is(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable"), rolledOut[1]),
			ready:      "False ScalingInProgress: Pods: 3 wanted, 1 available",
			degraded:   fine, progressing: "False NewReplicaSetAvailable: because", available: "False MinimumReplicasUnavailable: because",
		},
		"Pods were added, and all are available": {
			was: scaling, deployment: deploymentOf(3, 3, 3, rolledOut...),
			ready:    "True RolledOut: Pods: 3 wanted, 3 available",
			degraded: fine, progressing: "False NewReplicaSetAvailable: because", available: "True MinimumReplicasAvailable: because",
		},
		"Pods are being taken away": {
			was: v1.ApplicationStatus{Replicas: 5}, deployment: deploymentOf(5, 5, 5, rolledOut...),
			ready:    "True RolledOut: Pods: 3 wanted, 5 available",
			degraded: fine, progressing: "False NewReplicaSetAvailable: because", available: "True MinimumReplicasAvailable: because",
		},
		"the rollout takes too long": {
			deployment: deploymentOf(4, 2, 2, is(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable"),
				is(appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded")),
			ready:       "False ProgressDeadlineExceeded: because",
			degraded:    "True ProgressDeadlineExceeded: because",
			progressing: "False ProgressDeadlineExceeded: because", available: "True MinimumReplicasAvailable: because",
		},
		"Pods cannot be made": {
			deployment: deploymentOf(0, 0, 0, is(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable"),
				is(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate"),
				is(appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetCreated")),
			ready: "False FailedCreate: because", degraded: "True FailedCreate: because",
			progressing: "True NewReplicaSetCreated: because", available: "False MinimumReplicasUnavailable: because",
		},
		"Pods cannot be made, for so long that the rollout takes too long: the cause is told": {
			deployment: deploymentOf(0, 0, 0, is(appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded"),
				is(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate")),
			ready: "False FailedCreate: because", degraded: "True FailedCreate: because",
			progressing: "False ProgressDeadlineExceeded: because",
			available:   "False WaitingForDeployment: The Deployment's controller has not reported yet whether enough Pods are available",
		},
		"Pods could not be made once": {
			deployment: deploymentOf(3, 3, 3,
				append(slices.Clone(rolledOut), is(appsv1.DeploymentReplicaFailure, corev1.ConditionFalse, "FailedCreate"))...),
			ready:    "True RolledOut: Pods: 3 wanted, 3 available",
			degraded: fine, progressing: "False NewReplicaSetAvailable: because", available: "True MinimumReplicasAvailable: because",
		},
		"scaled to 0": {
			deployment: func() *appsv1.Deployment {
				d := deploymentOf(0, 0, 0, rolledOut...)
				d.Spec.Replicas = ptr.To[int32](0)
				return d
			}(),
			ready:    "True RolledOut: Pods: 0 wanted, 0 available",
			degraded: fine, progressing: "False NewReplicaSetAvailable: because", available: "True MinimumReplicasAvailable: because",
		},
		"the number of replicas is not said: it is 1": {
			deployment: func() *appsv1.Deployment {
				d := deploymentOf(1, 1, 1, rolledOut...)
				d.Spec.Replicas = nil
				return d
			}(),
			ready:    "True RolledOut: Pods: 1 wanted, 1 available",
			degraded: fine, progressing: "False NewReplicaSetAvailable: because", available: "True MinimumReplicasAvailable: because",
		},
		"the rollout is paused": {
			deployment: deploymentOf(3, 1, 3, is(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable"),
				is(appsv1.DeploymentProgressing, corev1.ConditionUnknown, "DeploymentPaused")),
			ready:    "False RolloutInProgress: Pods: 3 wanted, 3 available, 1 of the latest version",
			degraded: fine, progressing: "True DeploymentPaused: because", available: "True MinimumReplicasAvailable: because",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			var seen observed
			seen.deployment.Object = test.deployment
			app := application(func(a *v1.Application) { a.Generation, a.Status = 4, test.was })
			status := statusOf(observedAt(t0, app, seen), plan{}, outcome{})
			expectConditions(t, status, map[string]string{
				glassback.ConditionReady: test.ready, glassback.ConditionDegraded: test.degraded, glassback.ConditionProgressing: test.progressing,
				v1.ConditionAvailable: test.available, v1.ConditionConflict: noConflict,
			})
			var want appsv1.DeploymentStatus
			if test.deployment != nil && test.deployment.DeletionTimestamp == nil {
				want = test.deployment.Status
			}
			if status.Replicas != want.Replicas || status.UpdatedReplicas != want.UpdatedReplicas || status.ReadyReplicas != want.ReadyReplicas ||
				status.AvailableReplicas != want.AvailableReplicas {
				t.Errorf("numbers of %+v, want those of %+v", status, want)
			}
			if status.ObservedGeneration != 4 || status.Selector != "app.aiops.org/application=sample" {
				t.Errorf("generation %d and selector %q, want 4 and the Application's label", status.ObservedGeneration, status.Selector)
			}
		})
	}
}

// observedAt returns seen with app, at a time.
func observedAt(now time.Time, app *v1.Application, seen observed) *observed {
	seen.app, seen.now = app, now
	return &seen
}

// expectConditions compares conditions, written as "True Reason: message".
func expectConditions(t *testing.T, status v1.ApplicationStatus, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for _, c := range status.Conditions {
		got[c.Type] = string(c.Status) + " " + c.Reason + ": " + c.Message
		if c.ObservedGeneration != status.ObservedGeneration {
			t.Errorf("%s is about generation %d, want %d", c.Type, c.ObservedGeneration, status.ObservedGeneration)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(want)) {
		if got[kind] != want[kind] {
			t.Errorf("%s is %q, want %q", kind, got[kind], want[kind])
		}
		delete(got, kind)
	}
	if len(got) > 0 {
		t.Errorf("more conditions than those: %q", got)
	}
}

func TestStatusOfProblems(t *testing.T) {
	const noConflict = "False NoConflict: No object of another owner is in the way"
	taken := child.Problem{Reason: child.ReasonConflict, Message: "Service sample is taken"}
	taken2 := child.Problem{Reason: child.ReasonConflict, Message: "Ingress sample is taken"}
	rejected := child.Problem{Reason: "IngressRejected", Message: "the host is wrong"}
	stuck := deploymentOf(4, 2, 2, rolledOut[0], is(appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded"))
	for sentence, test := range map[string]struct {
		deployment  *appsv1.Deployment
		problems    []child.Problem
		is          string // what Ready and Degraded say
		conflict    string
		progressing string
	}{
		"a name that is taken": {
			deployment: deploymentOf(3, 3, 3, rolledOut...), problems: []child.Problem{taken},
			is:          "Conflict: Service sample is taken",
			conflict:    "True Conflict: Service sample is taken",
			progressing: "False NewReplicaSetAvailable: because",
		},
		"two names that are taken": {
			deployment: deploymentOf(3, 3, 3, rolledOut...), problems: []child.Problem{taken, taken2},
			is:          "Conflict: Service sample is taken; Ingress sample is taken",
			conflict:    "True Conflict: Service sample is taken; Ingress sample is taken",
			progressing: "False NewReplicaSetAvailable: because",
		},
		"a child that is rejected": {
			deployment: deploymentOf(3, 3, 3, rolledOut...), problems: []child.Problem{rejected},
			is: "IngressRejected: the host is wrong", conflict: noConflict, progressing: "False NewReplicaSetAvailable: because",
		},
		"both: the first gives the reason": {
			deployment: deploymentOf(3, 3, 3, rolledOut...), problems: []child.Problem{rejected, taken},
			is: "IngressRejected: the host is wrong; Service sample is taken", conflict: "True Conflict: Service sample is taken",
			progressing: "False NewReplicaSetAvailable: because",
		},
		"a problem counts more than a rollout that takes too long": {
			deployment: stuck, problems: []child.Problem{taken},
			is:          "Conflict: Service sample is taken",
			conflict:    "True Conflict: Service sample is taken",
			progressing: "False ProgressDeadlineExceeded: because",
		},
		"the Deployment's name is taken": {
			problems: []child.Problem{taken},
			is:       "Conflict: Service sample is taken", conflict: "True Conflict: Service sample is taken",
			progressing: "True WaitingForDeployment: The Deployment does not exist yet",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			var seen observed
			seen.deployment.Object = test.deployment
			status := statusOf(observedAt(t0, application(), seen), plan{}, outcome{problems: test.problems})
			status.Conditions = slices.DeleteFunc(status.Conditions, func(c metav1.Condition) bool { return c.Type == v1.ConditionAvailable })
			expectConditions(t, status, map[string]string{
				glassback.ConditionReady: "False " + test.is, glassback.ConditionDegraded: "True " + test.is,
				glassback.ConditionProgressing: test.progressing, v1.ConditionConflict: test.conflict,
			})
		})
	}
}

func TestStatusOfAnInvalidSpecTellsOfWhatRuns(t *testing.T) {
	var seen observed
	seen.deployment.Object = deploymentOf(3, 3, 3, rolledOut...)
	errs := field.ErrorList{field.Invalid(field.NewPath("spec", "image"), "a b", "no"), field.Required(field.NewPath("spec", "port"), "")}
	invalid := plan{invalid: &child.Problem{Reason: reasonInvalidSpec, Message: errs.ToAggregate().Error()}}
	status := statusOf(observedAt(t0, application(), seen), invalid, outcome{})
	const wrong = `InvalidSpec: [spec.image: Invalid value: "a b": no, spec.port: Required value]`
	expectConditions(t, status, map[string]string{
		glassback.ConditionReady: "False " + wrong, glassback.ConditionDegraded: "True " + wrong,
		glassback.ConditionProgressing: "False NewReplicaSetAvailable: because", v1.ConditionAvailable: "True MinimumReplicasAvailable: because",
		v1.ConditionConflict: "False NoConflict: No object of another owner is in the way",
	})
	if status.AvailableReplicas != 3 {
		t.Errorf("%d are available, want 3: what runs is left as it is", status.AvailableReplicas)
	}
}

func TestStatusKeepsWhatItDoesNotSet(t *testing.T) {
	app := application(func(a *v1.Application) {
		a.Status.Conditions = []metav1.Condition{{
			Type: "Theirs", Status: metav1.ConditionTrue, Reason: "Set", LastTransitionTime: metav1.NewTime(t0),
		}}
	})
	was := app.DeepCopy()
	var seen observed
	seen.deployment.Object = deploymentOf(3, 3, 3, rolledOut...)
	app.Status = statusOf(observedAt(t0, app, seen), plan{}, outcome{})
	if meta.FindStatusCondition(app.Status.Conditions, "Theirs") == nil || len(was.Status.Conditions) != 1 {
		t.Errorf("conditions %+v, want another owner's among them", app.Status.Conditions)
	}
	// Once more, later: nothing changes, not even a time.
	if again := statusOf(observedAt(t0.Add(time.Hour), app, seen), plan{}, outcome{}); !equality.Semantic.DeepEqual(again, app.Status) {
		t.Errorf("the same state gives another status later: %+v, before %+v", again, app.Status)
	}
	seen.deployment.Object = deploymentOf(3, 3, 1,
		is(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable"), rolledOut[1])
	later := statusOf(observedAt(t0.Add(time.Hour), app, seen), plan{}, outcome{})
	for kind, want := range map[string]time.Time{glassback.ConditionReady: t0.Add(time.Hour), glassback.ConditionDegraded: t0} {
		if got := meta.FindStatusCondition(later.Conditions, kind).LastTransitionTime; !got.Time.Equal(want) {
			t.Errorf("%s has been so since %s, want %s", kind, got, want)
		}
	}
	if ready := meta.FindStatusCondition(app.Status.Conditions, glassback.ConditionReady); ready.Status != metav1.ConditionTrue {
		t.Error("the status before was changed")
	}
}

func TestURL(t *testing.T) {
	tls := &v1.IngressTLS{SecretName: "shop-tls"}
	for sentence, test := range map[string]struct {
		change func(*v1.Application)
		want   string
	}{
		"by an Ingress": {change: func(*v1.Application) {}, want: "http://example.foo.com"},
		"by an Ingress, on a path": {change: func(a *v1.Application) {
			a.Spec.Ingress.Host, a.Spec.Ingress.Path = "shop.example.com", "/shop"
		}, want: "http://shop.example.com/shop"},
		"by an Ingress, on a path that ends in a slash": {
			change: func(a *v1.Application) { a.Spec.Ingress.Path = "/shop/" }, want: "http://example.foo.com/shop",
		},
		"by an Ingress with TLS": {
			change: func(a *v1.Application) { a.Spec.Ingress.TLS, a.Spec.Ingress.Path = tls, "/shop" },
			want:   "https://example.foo.com/shop",
		},
		"by an Ingress, whatever the ports are": {change: func(a *v1.Application) {
			a.Spec.Port, a.Spec.Service.Port = ptr.To[int32](9000), ptr.To[int32](81)
		}, want: "http://example.foo.com"},
		"by a Service": {change: func(a *v1.Application) { a.Spec.Ingress.Enabled = ptr.To(false) }, want: "http://sample.default.svc:8080"},
		"by a Service whose Ingress has TLS, but is not enabled": {change: func(a *v1.Application) {
			a.Spec.Ingress.Enabled, a.Spec.Ingress.TLS = ptr.To(false), tls
		}, want: "http://sample.default.svc:8080"},
		"by a Service on a port of its own": {change: func(a *v1.Application) {
			a.Spec.Ingress.Enabled, a.Spec.Service.Port = ptr.To(false), ptr.To[int32](80)
		}, want: "http://sample.default.svc:80"},
		"not at all": {change: func(a *v1.Application) {
			a.Spec.Ingress.Enabled, a.Spec.Service.Enabled = ptr.To(false), ptr.To(false)
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := statusOf(observedAt(t0, application(test.change), observed{}), plan{}, outcome{}).URL; got != test.want {
				t.Errorf("URL %q, want %q", got, test.want)
			}
		})
	}
}

func TestResources(t *testing.T) {
	named := metav1.ObjectMeta{Name: "sample"}
	deployment := v1.ResourceReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "sample"}
	ingress := v1.ResourceReference{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: "sample"}
	for sentence, test := range map[string]struct {
		was     []v1.ResourceReference
		observe func(*observed)
		gone    []string
		want    []v1.ResourceReference
	}{
		"nothing is there": {observe: func(*observed) {}},
		"what was there and is not shown stays": {
			was: []v1.ResourceReference{ingress}, want: []v1.ResourceReference{deployment, ingress},
			observe: func(seen *observed) { seen.deployment.Object = &appsv1.Deployment{ObjectMeta: named} },
		},
		"what was there and is known to be gone does not": {
			was: []v1.ResourceReference{deployment, ingress}, observe: func(*observed) {}, gone: []string{"Ingress", "Service"},
			want: []v1.ResourceReference{deployment},
		},
		"what is gone and was not there is not": {observe: func(*observed) {}, gone: []string{"Ingress"}},
		"what was there by another name, or version, or kind is not": {
			was: []v1.ResourceReference{
				{APIVersion: "apps/v1", Kind: "Deployment", Name: "other"}, {APIVersion: "extensions/v1beta1", Kind: "Ingress", Name: "sample"},
				{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "sample"},
			},
			observe: func(*observed) {},
		},
		"all are there": {
			observe: func(seen *observed) {
				seen.deployment.Object, seen.service.Object = &appsv1.Deployment{ObjectMeta: named}, &corev1.Service{ObjectMeta: named}
				seen.ingress.Object = &networkingv1.Ingress{ObjectMeta: named}
				seen.autoscaler.Object = &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: named}
				seen.budget.Object = &policyv1.PodDisruptionBudget{ObjectMeta: named}
			},
			want: []v1.ResourceReference{
				{APIVersion: "apps/v1", Kind: "Deployment", Name: "sample"}, {APIVersion: "v1", Kind: "Service", Name: "sample"},
				{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: "sample"},
				{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler", Name: "sample"},
				{APIVersion: "policy/v1", Kind: "PodDisruptionBudget", Name: "sample"},
			},
		},
		"some are there": {
			observe: func(seen *observed) {
				seen.service.Object, seen.budget.Object = &corev1.Service{ObjectMeta: named}, &policyv1.PodDisruptionBudget{ObjectMeta: named}
			},
			want: []v1.ResourceReference{
				{APIVersion: "v1", Kind: "Service", Name: "sample"},
				{APIVersion: "policy/v1", Kind: "PodDisruptionBudget", Name: "sample"},
			},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			var seen observed
			test.observe(&seen)
			app := application(func(a *v1.Application) { a.Status.Resources = test.was })
			if got := statusOf(observedAt(t0, app, seen), plan{}, outcome{gone: test.gone}).Resources; !slices.Equal(got, test.want) {
				t.Errorf("resources %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestStatusWhileTheDeploymentIsUnobserved is about a Deployment that its controller
// has not looked at: what was told of it stays, unless there is something new.
func TestStatusWhileTheDeploymentIsUnobserved(t *testing.T) {
	rejected := child.Problem{Reason: "IngressRejected", Message: "the host is wrong"}
	unobserved := deploymentOf(3, 3, 1, rolledOut...)
	unobserved.Generation++
	for sentence, test := range map[string]struct {
		was   *child.Problem // what was told
		edit  func(*v1.Application)
		of    *appsv1.Deployment
		out   outcome
		ready string
		keeps bool
	}{
		"nothing new: all stays": {of: unobserved, ready: "True RolledOut: Pods: 3 wanted, 3 available", keeps: true},
		"nothing new, and a problem was told: it stays": {
			was: &rejected, of: unobserved, ready: "False IngressRejected: the host is wrong", keeps: true,
		},
		"nothing new to a status that keeps what it waits for": {
			of: unobserved, out: outcome{wait: time.Minute}, ready: "True RolledOut: Pods: 3 wanted, 3 available", keeps: true,
		},
		"it has been looked at": {
			of:    deploymentOf(3, 3, 1, is(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable"), rolledOut[1]),
			ready: "False MinimumReplicasUnavailable: Pods: 3 wanted, 1 available",
		},
		"another generation of the Application": {
			edit: func(a *v1.Application) { a.Generation++ }, of: unobserved,
			ready: "False RolloutInProgress: The Deployment's controller has not seen its latest version yet",
		},
		"a problem":  {of: unobserved, out: outcome{problems: []child.Problem{rejected}}, ready: "False IngressRejected: the host is wrong"},
		"it is gone": {ready: "False RolloutInProgress: The Deployment does not exist yet"},
	} {
		t.Run(sentence, func(t *testing.T) {
			app := application()
			var seen observed
			seen.deployment.Object = deploymentOf(3, 3, 3, rolledOut...)
			var before outcome
			if test.was != nil {
				before.problems = append(before.problems, *test.was)
			}
			app.Status = statusOf(observedAt(t0, app, seen), plan{}, before)
			if test.edit != nil {
				test.edit(app)
			}
			seen.deployment.Object = test.of
			status := statusOf(observedAt(t0.Add(time.Minute), app, seen), plan{}, test.out)
			ready := meta.FindStatusCondition(status.Conditions, glassback.ConditionReady)
			if got := string(ready.Status) + " " + ready.Reason + ": " + ready.Message; got != test.ready {
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
	t.Run("what is not the Deployment's is told all the same", func(t *testing.T) {
		app := application()
		var seen observed
		seen.deployment.Object = deploymentOf(3, 3, 3, rolledOut...)
		app.Status = statusOf(observedAt(t0, app, seen), plan{}, outcome{})
		seen.deployment.Object, seen.service.Object = unobserved, &corev1.Service{}
		status := statusOf(observedAt(t0, app, seen), plan{}, outcome{})
		if len(status.Resources) != 2 || status.AvailableReplicas != 3 {
			t.Errorf("resources %+v and %d available, want the Service among them, and 3 as before", status.Resources, status.AvailableReplicas)
		}
	})
}
