// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
)

// TestSettledChildrenDoNotChange: for a fair comparison, the builders keep the defaults of the API server and the fields of others.
// Otherwise, the peer would write in every sync.
func TestSettledChildrenDoNotChange(t *testing.T) {
	app := &v1.Application{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "u", Generation: 1}}
	app.Spec.Image = "nginx"
	app.Default()
	d, s, i := &appsv1.Deployment{}, &corev1.Service{}, &networkingv1.Ingress{}
	set := func() { Deployment(app, d); Service(app, s); Ingress(app, i) }
	set()
	// Fields that the API server defaults, or that others set.
	d.Spec.Template.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways
	d.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	s.Spec.ClusterIP, s.Spec.Ports[0].NodePort = "10.0.0.1", 30000
	d.Labels["team"], s.Annotations = "a", map[string]string{"b": "c"}
	before := []any{d.DeepCopy(), s.DeepCopy(), i.DeepCopy()}
	set()
	for n, after := range []any{d, s, i} {
		if !equality.Semantic.DeepEqual(before[n], after) {
			t.Errorf("%T changed:\n%+v\n%+v", after, before[n], after)
		}
	}

	app.Status = Status(app, d)
	if again := Status(app, d); !equality.Semantic.DeepEqual(again, app.Status) {
		t.Errorf("the status changed:\n%+v\n%+v", app.Status, again)
	}
	if len(app.Status.Conditions) != 5 || len(app.Status.Resources) != 3 || app.Status.ObservedGeneration != 1 {
		t.Errorf("the status is not complete: %+v", app.Status)
	}
	app.Spec.Image = "nginx:2"
	set()
	if image := d.Spec.Template.Spec.Containers[0].Image; image != "nginx:2" {
		t.Errorf("the image is %s, want the new one", image)
	}
}
