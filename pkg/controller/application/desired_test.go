// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/must"
)

// desired is what there should be, by resource: apply configurations.
func desired(t testing.TB, app *v1.Application) map[string]any {
	t.Helper()
	deployment, err := deployment(app, nil, nil)
	must.Succeed(t, err)
	all := map[string]any{
		"deployments": deployment, "services": service(app), "ingresses": ingress(app),
		"horizontalpodautoscalers": autoscaler(app), "poddisruptionbudgets": budget(app),
	}
	for resource, configuration := range all {
		if reflect.ValueOf(configuration).IsNil() {
			delete(all, resource)
		}
	}
	return all
}

// extract returns what the operator owns of a child.
func extract(t testing.TB, child object) any {
	t.Helper()
	var owned any
	var err error
	switch child := child.(type) {
	case *appsv1.Deployment:
		owned, err = appsv1ac.ExtractDeployment(child, glassback.Name)
	case *corev1.Service:
		owned, err = corev1ac.ExtractService(child, glassback.Name)
	case *networkingv1.Ingress:
		owned, err = networkingv1ac.ExtractIngress(child, glassback.Name)
	case *autoscalingv2.HorizontalPodAutoscaler:
		owned, err = autoscalingv2ac.ExtractHorizontalPodAutoscaler(child, glassback.Name)
	case *policyv1.PodDisruptionBudget:
		owned, err = policyv1ac.ExtractPodDisruptionBudget(child, glassback.Name)
	}
	must.Succeed(t, err)
	return owned
}

func load(t *testing.T, name string) *v1.Application {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	must.Succeed(t, err)
	app := &v1.Application{}
	must.Succeed(t, yaml.UnmarshalStrict(data, app))
	app.Default()
	if errs := app.Validate(nil); len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return app
}

func TestTheFullestSpecHasEveryField(t *testing.T) {
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		if v.IsZero() {
			if path != "spec.PDB.MaxUnavailable" { // It and minAvailable exclude each other.
				t.Errorf("%s is not set", path)
			}
			return
		}
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Type().PkgPath() != reflect.TypeFor[v1.Application]().PkgPath() ||
			v.Kind() != reflect.Struct || v.Type() == reflect.TypeFor[v1.Probe]() {
			return // A Probe has the fields of the core API's.
		}
		for i := range v.NumField() {
			walk(path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	}
	walk("spec", reflect.ValueOf(load(t, "full").Spec))
}

// TestDesiredSurvivesTheRoundTrip is what makes "nothing has changed" mean no request: what is applied is what is owned afterwards.
func TestDesiredSurvivesTheRoundTrip(t *testing.T) {
	for sentence, app := range map[string]*v1.Application{
		"nothing but an image": load(t, "minimal"),
		"every field is set":   load(t, "full"),
		"a budget of the default size": application(func(a *v1.Application) {
			a.Spec.PDB = &v1.DisruptionBudget{}
		}),
		"a budget by number": application(func(a *v1.Application) {
			a.Spec.PDB = &v1.DisruptionBudget{MaxUnavailable: ptr.To(intstr.FromInt32(0))}
		}),
		"an autoscaler by CPU, which is the default": application(func(a *v1.Application) {
			a.Spec.Autoscaling = &v1.Autoscaling{MinReplicas: ptr.To[int32](1), MaxReplicas: 3}
		}),
		"no replicas": application(func(a *v1.Application) { a.Spec.Replicas = ptr.To[int32](0) }),
		"fields that are there, but empty": application(func(a *v1.Application) {
			a.Spec.Command, a.Spec.Env, a.Spec.EnvFrom = []string{}, []v1.EnvVar{}, []corev1.EnvFromSource{}
			a.Spec.Service.Annotations, a.Spec.Ingress.Annotations = map[string]string{}, map[string]string{}
			a.Spec.Resources, a.Spec.Probes = &corev1.ResourceRequirements{}, &v1.Probes{}
		}),
		"empty limits": application(func(a *v1.Application) {
			a.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{}}
		}),
		"quantities in other words": application(func(a *v1.Application) {
			a.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{
				"cpu": resource.MustParse("0.10"), "memory": resource.MustParse("1024Ki"), "ephemeral-storage": resource.MustParse("1e3"),
			}}
		}),
		"a field of the Pod, without what the API server adds": application(func(a *v1.Application) {
			name := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}
			a.Spec.Env = []v1.EnvVar{{Name: "NAME", ValueFrom: name}}
		}),
		"a probe by gRPC": application(func(a *v1.Application) {
			a.Spec.Probes = &v1.Probes{Readiness: &v1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 9000}}}}
		}),
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(app)
			for resource, configuration := range desired(t, app) {
				apply(t, s, resource, app.Name, configuration)
				if owned := extract(t, fakeapi.WithOwnFields(s.child(resource))); !equality.Semantic.DeepEqual(owned, configuration) {
					t.Errorf("%s: what is owned is\n%s\nwanted is\n%s", resource, text(t, owned), text(t, configuration))
				}
			}
		})
	}
}

// TestAChangedOrderIsAppliedOnce is about lists whose elements have names: an apply brings them into its own order.
func TestAChangedOrderIsAppliedOnce(t *testing.T) {
	app := load(t, "full")
	s := newServer(app)
	apply(t, s, "deployments", app.Name, desired(t, app)["deployments"])
	alter(s, "deployments", "other-client", func(d *appsv1.Deployment) {
		c := &d.Spec.Template.Spec.Containers[0]
		c.Env = slices.Insert(c.Env, 1, corev1.EnvVar{Name: "THEIRS", Value: "1"})
	})
	slices.Reverse(app.Spec.Env)
	slices.Reverse(app.Spec.ImagePullSecrets)
	wanted := desired(t, app)["deployments"]
	apply(t, s, "deployments", app.Name, wanted)
	if owned := extract(t, fakeapi.WithOwnFields(s.child("deployments"))); !equality.Semantic.DeepEqual(owned, wanted) {
		t.Errorf("what is owned is\n%s\nwanted is\n%s", text(t, owned), text(t, wanted))
	}
}

// apply applies a configuration as the operator does.
func apply(t *testing.T, s *server, resource, name string, configuration any) {
	t.Helper()
	data, err := json.Marshal(configuration)
	must.Succeed(t, err)
	gvr := kinds[resource].GroupVersion().WithResource(resource)
	action := clienttesting.NewPatchActionWithOptions(gvr, s.key.Namespace, name, "application/apply-patch+yaml", data,
		metav1.PatchOptions{FieldManager: glassback.Name, Force: ptr.To(true)})
	if _, err := s.Kube().Invokes(action, nil); err != nil {
		t.Fatal(err)
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := yaml.Marshal(v)
	must.Succeed(t, err)
	return string(data)
}

func TestReplicas(t *testing.T) {
	n := ptr.To[int32]
	autoscaling := &v1.Autoscaling{MinReplicas: n(2), MaxReplicas: 5}
	owns := func(n *int32) *appsv1ac.DeploymentApplyConfiguration {
		return &appsv1ac.DeploymentApplyConfiguration{Spec: &appsv1ac.DeploymentSpecApplyConfiguration{Replicas: n}}
	}
	desires := func(n int32) *autoscalingv2.HorizontalPodAutoscaler {
		return &autoscalingv2.HorizontalPodAutoscaler{Status: autoscalingv2.HorizontalPodAutoscalerStatus{DesiredReplicas: n}}
	}
	for sentence, test := range map[string]struct {
		autoscaling *v1.Autoscaling
		hpa         *autoscalingv2.HorizontalPodAutoscaler // nil: there is none
		spec        int32
		owned       *appsv1ac.DeploymentApplyConfiguration // nil: there is no Deployment
		want        *int32                                 // nil: another client sets it
	}{
		"no autoscaler and nothing there: the spec's":                   {spec: 3, want: n(3)},
		"no autoscaler, and 0 in the spec: 0":                           {spec: 0, want: n(0)},
		"no autoscaler any more: the spec's, whoever had the field":     {spec: 3, owned: owns(nil), want: n(3)},
		"no autoscaler, and another number owned: the spec's":           {spec: 3, owned: owns(n(7)), want: n(3)},
		"an autoscaler and nothing there: the spec's":                   {autoscaling: autoscaling, spec: 3, want: n(3)},
		"an autoscaler and nothing there, too few: the least":           {autoscaling: autoscaling, spec: 1, want: n(2)},
		"an autoscaler and nothing there, too many: the most":           {autoscaling: autoscaling, spec: 9, want: n(5)},
		"an autoscaler, and owned within its bounds: kept as it is":     {autoscaling: autoscaling, spec: 3, owned: owns(n(4)), want: n(4)},
		"an autoscaler, and owned at its bounds: kept as it is":         {autoscaling: autoscaling, spec: 3, owned: owns(n(5)), want: n(5)},
		"an autoscaler, and owned below its bounds: the least":          {autoscaling: autoscaling, spec: 3, owned: owns(n(1)), want: n(2)},
		"an autoscaler, and owned at 0, where it would stay: the least": {autoscaling: autoscaling, spec: 0, owned: owns(n(0)), want: n(2)},
		"an autoscaler, and owned above its bounds: the most":           {autoscaling: autoscaling, spec: 3, owned: owns(n(9)), want: n(5)},
		"an autoscaler that has the field: it is left to it":            {autoscaling: autoscaling, spec: 3, owned: owns(nil)},
		"nothing is owned of the Deployment any more: it is left alone": {autoscaling: autoscaling, spec: 3,
			owned: &appsv1ac.DeploymentApplyConfiguration{}},

		"the Deployment is gone: as many as the autoscaler has asked for":      {autoscaling: autoscaling, hpa: desires(4), spec: 3, want: n(4)},
		"the Deployment is gone, and the autoscaler has not said anything":     {autoscaling: autoscaling, hpa: desires(0), spec: 3, want: n(3)},
		"the Deployment is gone, and the autoscaler has asked for fewer":       {autoscaling: autoscaling, hpa: desires(2), spec: 3, want: n(2)},
		"the Deployment is gone, and the autoscaler has not asked: the spec's": {autoscaling: autoscaling, hpa: desires(0), spec: 3, want: n(3)},
		"the Deployment is gone, and the autoscaler has asked for more than it may": {
			autoscaling: autoscaling, hpa: desires(9), spec: 3, want: n(5),
		},
		"an autoscaler that is there and has the field: it is left to it": {autoscaling: autoscaling, hpa: desires(4), spec: 3, owned: owns(nil)},
		"an autoscaler that is there, and owned: kept, whatever it asks for": {
			autoscaling: autoscaling, hpa: desires(5), spec: 3, owned: owns(n(4)), want: n(4),
		},
		"an autoscaler that goes, and owned: kept, whatever its bounds are": {hpa: desires(5), spec: 3, owned: owns(n(9)), want: n(9)},
		"an autoscaler that goes, and has the field: it is left to it":      {hpa: desires(5), spec: 3, owned: owns(nil)},
		"an autoscaler that goes, and nothing is owned any more": {
			hpa: desires(5), spec: 3, owned: &appsv1ac.DeploymentApplyConfiguration{},
		},
		"an autoscaler that goes, and the Deployment is gone": {hpa: desires(5), spec: 3, want: n(5)},
	} {
		t.Run(sentence, func(t *testing.T) {
			app := application(func(a *v1.Application) { a.Spec.Replicas, a.Spec.Autoscaling = &test.spec, test.autoscaling })
			got := replicas(app, test.owned, test.hpa)
			if !ptr.Equal(got, test.want) {
				t.Errorf("replicas %s, want %s", number(got), number(test.want))
			}
			if got == app.Spec.Replicas || got != nil && test.owned != nil && test.owned.Spec != nil && got == test.owned.Spec.Replicas {
				t.Error("the number is shared")
			}
		})
	}
}

func number(n *int32) string {
	if n == nil {
		return "nil"
	}
	return resource.NewQuantity(int64(*n), resource.DecimalSI).String()
}

func TestTheBuildersLeaveTheApplicationAlone(t *testing.T) {
	app := load(t, "full")
	was := app.DeepCopy()
	all := desired(t, app)
	all["services"].(*corev1ac.ServiceApplyConfiguration).Annotations["new"] = "1"
	all["ingresses"].(*networkingv1ac.IngressApplyConfiguration).Annotations["new"] = "1"
	container := &all["deployments"].(*appsv1ac.DeploymentApplyConfiguration).Spec.Template.Spec.Containers[0]
	container.Command[0], *container.Env[0].Name = "changed", "changed"
	(*container.Resources.Limits)["cpu"] = resource.MustParse("9")
	if !equality.Semantic.DeepEqual(app, was) {
		t.Error("a change of what was built changes the Application")
	}
}
