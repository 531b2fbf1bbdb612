// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"cmp"
	"fmt"
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1ac "sigs.k8s.io/gateway-api/applyconfiguration/apis/v1"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/must"
)

// desired is what there should be, by resource: apply configurations. sources is the sum of the sources of restartOn.
func desired(t testing.TB, app *v1.Application, sources string) map[string]any {
	t.Helper()
	all := map[string]any{
		"deployments": deployment(app, nil, nil, sources), "services": service(app), "ingresses": ingress(app), "httproutes": route(app),
		"horizontalpodautoscalers": autoscaler(app), "poddisruptionbudgets": budget(app),
	}
	for resource, configuration := range all {
		if reflect.ValueOf(configuration).IsNil() {
			delete(all, resource)
		}
	}
	return all
}

// extract returns what the operator owns of a child. The Go types leave an empty value of a variable out.
func extract(t testing.TB, child object) any {
	t.Helper()
	var owned any
	var err error
	switch child := fakeapi.WithOwnFields(child).(type) {
	case *appsv1.Deployment:
		var d *appsv1ac.DeploymentApplyConfiguration
		d, err = appsv1ac.ExtractDeployment(child, glassback.Name)
		must.Succeed(t, err)
		for n, c := range d.Spec.Template.Spec.Containers {
			for i := range c.Env {
				has := func(live corev1.EnvVar) bool {
					return live.Name == *c.Env[i].Name && live.Value == "" && live.ValueFrom == nil
				}
				if slices.ContainsFunc(child.Spec.Template.Spec.Containers[n].Env, has) {
					c.Env[i].WithValue("")
				}
			}
		}
		owned = d
	case *corev1.Service:
		owned, err = corev1ac.ExtractService(child, glassback.Name)
	case *networkingv1.Ingress:
		owned, err = networkingv1ac.ExtractIngress(child, glassback.Name)
	case *gatewayv1.HTTPRoute:
		owned, err = gatewayv1ac.ExtractHTTPRoute(child, glassback.Name)
	case *autoscalingv2.HorizontalPodAutoscaler:
		owned, err = autoscalingv2ac.ExtractHorizontalPodAutoscaler(child, glassback.Name)
	case *policyv1.PodDisruptionBudget:
		owned, err = policyv1ac.ExtractPodDisruptionBudget(child, glassback.Name)
	}
	must.Succeed(t, err)
	return owned
}

// expectChildren compares the children with the spec.
func (s *server) expectChildren(t testing.TB) {
	t.Helper()
	o := s.connect()
	o.poll(t)
	wanted := desired(t, s.app(), o.pollSources(s.app(), nil).Sum)
	for _, resource := range resourceNames {
		configuration, is := wanted[resource]
		child := s.child(resource)
		if (child != nil) != is {
			t.Errorf("%s is %v, want one: %t", resource, child, is)
			continue
		}
		if child == nil {
			continue
		}
		if owned := extract(t, child); !equality.Semantic.DeepEqual(owned, configuration) {
			t.Errorf("what is owned of %s is\n%s\nwanted is\n%s", resource, text(t, owned), text(t, configuration))
		}
	}
}

func text(t testing.TB, v any) string {
	t.Helper()
	data, err := yaml.Marshal(v)
	must.Succeed(t, err)
	return string(data)
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

// TestEveryFieldIsUsed: full.yaml sets each field of the spec, and another value of it changes a child.
func TestEveryFieldIsUsed(t *testing.T) {
	app := load(t, "full")
	now := func() string { return text(t, desired(t, app, fmt.Sprint(sourcesOf(app)))) }
	before := now()
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		if v.IsZero() {
			if path != "spec.PDB.MaxUnavailable" { // It and minAvailable exclude each other.
				t.Errorf("%s is not set: add it to full.yaml", path)
			}
			return
		}
		field := v
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[v1.Probe]() && // A Probe has the fields of the core API's.
			v.Type().PkgPath() == reflect.TypeFor[v1.Application]().PkgPath() {
			for i := range v.NumField() {
				walk(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
			return
		}
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		switch v.Kind() {
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Int32, reflect.Int64:
			v.SetInt(v.Int() + 1)
		case reflect.String:
			v.SetString(v.String() + "x")
		default:
			pointer := field.Interface()
			field.SetZero()
			defer field.Set(reflect.ValueOf(pointer))
		}
		if now() == before {
			t.Errorf("%s changes no child", path)
		}
		v.Set(was)
	}
	walk("spec", reflect.ValueOf(&app.Spec).Elem())
}

// TestOnceAndNoMore lets each change be acted on and seen, and then wants the children as they are desired, and nothing to be left to do:
// what is applied must be what is owned afterwards.
func TestOnceAndNoMore(t *testing.T) {
	for sentence, test := range map[string]struct {
		app    *v1.Application // nil for one with all five children
		change func(*server)   // nil for none
	}{
		"nothing but an image":                      {app: load(t, "minimal")},
		"every field is set":                        {app: load(t, "full")},
		"an autoscaler by CPU, a budget of one Pod": {},
		"fields that are there, but empty": {app: application(func(a *v1.Application) {
			a.Spec.Command, a.Spec.Env, a.Spec.EnvFrom = []string{}, []v1.EnvVar{{Name: "EMPTY"}}, []corev1.EnvFromSource{}
			a.Spec.Service.Annotations, a.Spec.Ingress.Annotations = map[string]string{}, map[string]string{}
			a.Spec.Resources, a.Spec.Probes = &corev1.ResourceRequirements{}, &v1.Probes{}
		})},
		"quantities in other words, a probe by gRPC, a field without what the API server adds": {app: application(func(a *v1.Application) {
			a.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{
				"cpu": resource.MustParse("0.10"), "memory": resource.MustParse("1024Ki"), "ephemeral-storage": resource.MustParse("1e3"),
			}}
			grpc := &corev1.GRPCAction{Port: 9000, Service: ptr.To("")}
			a.Spec.Probes = &v1.Probes{Readiness: &v1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: grpc}}}
			name := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}
			a.Spec.Env = []v1.EnvVar{{Name: "NAME", ValueFrom: name}}
		})},
		"another order, and a variable of another client between": {app: load(t, "full"), change: func(s *server) {
			alter(s, "deployments", "other-client", func(d *appsv1.Deployment) {
				c := &d.Spec.Template.Spec.Containers[0]
				c.Env = slices.Insert(c.Env, 1, corev1.EnvVar{Name: "THEIRS", Value: "1"})
			})
			s.edit(func(a *v1.Application) {
				slices.Reverse(a.Spec.Env)
				slices.Reverse(a.Spec.ImagePullSecrets)
			})
		}},
		"an empty variable, which another client fills": {
			app: application(func(a *v1.Application) { a.Spec.Env = []v1.EnvVar{{Name: "EMPTY"}} }),
			change: func(s *server) {
				alter(s, "deployments", "other-client", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env[0].Value = "1" })
			},
		},
		"an empty variable, and then one from a field": {
			app: application(func(a *v1.Application) { a.Spec.Env = []v1.EnvVar{{Name: "NAME"}} }),
			change: func(s *server) {
				s.edit(func(a *v1.Application) {
					a.Spec.Env[0].ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}
				})
			},
		},
		"fewer of everything": {change: func(s *server) {
			s.edit(func(a *v1.Application) { onlyDeployment(a); a.Spec.Autoscaling, a.Spec.PDB = nil, nil })
		}},
		"an autoscaler that has scaled, and goes": {change: func(s *server) {
			scaled(5)(s)
			s.edit(func(a *v1.Application) { a.Spec.Autoscaling = nil })
		}},
		"drift of all children": {change: func(s *server) {
			for _, resource := range resourceNames {
				alter(s, resource, "other-client", func(child object) {
					labels := child.GetLabels()
					labels["app.kubernetes.io/name"] = "theirs"
					child.SetLabels(labels)
				})
			}
		}},
		"all children are gone": {change: func(s *server) {
			for _, resource := range resourceNames {
				s.remove(resource)
			}
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			if test.app == nil {
				test.app = application(full)
			}
			s := newServer(test.app).settle(t)
			if test.change != nil {
				test.change(s)
				s.settle(t)
			}
			s.expectChildren(t)
		})
	}
}

// TestDefaultsThatOnlyAnOwnerRemoves: a ServiceAccount, of which the API server keeps the name in a second field, and the emptyDir of a
// volume that had no source.
func TestDefaultsThatOnlyAnOwnerRemoves(t *testing.T) {
	s := newServer(application(func(a *v1.Application) {
		a.Spec.PodTemplate = &v1.PodTemplate{PodTemplate: glassback.PodTemplate{
			ServiceAccountName: ptr.To("shop"), Volumes: []corev1.Volume{{Name: "v"}},
		}}
	}))
	s.Admit = func(_, now fakeapi.Object) {
		if d, ok := now.(*appsv1.Deployment); ok { // As SetDefaults and conversions in k8s.io/kubernetes/pkg/apis/core/v1 do.
			pod := &d.Spec.Template.Spec
			pod.ServiceAccountName = cmp.Or(pod.ServiceAccountName, pod.DeprecatedServiceAccount)
			pod.DeprecatedServiceAccount = pod.ServiceAccountName
			for i := range pod.Volumes {
				if v := &pod.Volumes[i]; v.VolumeSource == (corev1.VolumeSource{}) {
					v.EmptyDir = &corev1.EmptyDirVolumeSource{}
				}
			}
		}
	}
	for _, want := range []string{"shop", ""} {
		s.settle(t)
		pod := s.child("deployments").(*appsv1.Deployment).Spec.Template.Spec
		v, first := pod.Volumes[0], want != ""
		if pod.ServiceAccountName != want || (v.EmptyDir != nil) != first || (v.Secret != nil) == first {
			t.Errorf("the ServiceAccount is %q, want %q; the volume is %+v", pod.ServiceAccountName, want, v)
		}
		s.edit(func(a *v1.Application) {
			a.Spec.PodTemplate.ServiceAccountName = nil
			a.Spec.PodTemplate.Volumes[0].Secret = &corev1.SecretVolumeSource{SecretName: "s"}
		})
	}
}

// TestReplicas has a spec of 3 replicas, or another number, and an autoscaler of 2 to 5.
func TestReplicas(t *testing.T) {
	const others, none = -1, -2 // Another client owns the number; there is none.
	for _, test := range []struct {
		says        string
		autoscaling bool  // in the spec
		spec        int32 // 0 for 3
		hpa         int32 // for how many an autoscaler asks that exists; none if it does not exist
		owned       int32 // the number that the operator owns; none if there is no Deployment
		want        int32 // others: it is left to them
	}{
		{says: "no autoscaler and nothing there: the spec's", hpa: none, owned: none, want: 3},
		{says: "no autoscaler any more: the spec's, whoever had the field", hpa: none, owned: others, want: 3},
		{says: "no autoscaler, and another number owned: the spec's", hpa: none, owned: 7, want: 3},
		{says: "an autoscaler and nothing there: the spec's", autoscaling: true, hpa: none, owned: none, want: 3},
		{says: "an autoscaler and nothing there, too few: the least", autoscaling: true, spec: 1, hpa: none, owned: none, want: 2},
		{says: "an autoscaler, and owned within its bounds: kept as it is", autoscaling: true, hpa: none, owned: 4, want: 4},
		{says: "an autoscaler, and owned at 0, where it would stay: the least", autoscaling: true, hpa: none, owned: 0, want: 2},
		{says: "an autoscaler, and owned above its bounds: the most", autoscaling: true, hpa: none, owned: 9, want: 5},
		{says: "an autoscaler that has the field: it is left to it", autoscaling: true, hpa: none, owned: others, want: others},
		{says: "an autoscaler that is there, and owned: kept, whatever it asks for", autoscaling: true, hpa: 5, owned: 4, want: 4},
		{says: "the Deployment is gone: as many as the autoscaler has asked for", autoscaling: true, hpa: 4, owned: none, want: 4},
		{says: "the Deployment is gone, and the autoscaler has not asked: the spec's", autoscaling: true, hpa: 0, owned: none, want: 3},
		{says: "the Deployment is gone, and the autoscaler asked for too many: the most", autoscaling: true, hpa: 9, owned: none, want: 5},
		{says: "an autoscaler that goes, and owned: kept, whatever its bounds are", hpa: 5, owned: 9, want: 9},
		{says: "an autoscaler that goes, and has the field: it is left to it", hpa: 5, owned: others, want: others},
		{says: "an autoscaler that goes, and the Deployment is gone: as many as it has asked for", hpa: 5, owned: none, want: 5},
	} {
		t.Run(test.says, func(t *testing.T) {
			app := application(func(a *v1.Application) {
				a.Spec.Replicas = ptr.To[int32](3)
				if test.spec > 0 {
					a.Spec.Replicas = &test.spec
				}
				if test.autoscaling {
					a.Spec.Autoscaling = &v1.Autoscaling{MinReplicas: ptr.To[int32](2), MaxReplicas: 5}
				}
			})
			var hpa *autoscalingv2.HorizontalPodAutoscaler
			if test.hpa != none {
				hpa = &autoscalingv2.HorizontalPodAutoscaler{Status: autoscalingv2.HorizontalPodAutoscalerStatus{DesiredReplicas: test.hpa}}
			}
			r := recordedObserved{Object: app, Owned: test.owned != none}
			if test.owned >= 0 {
				r.OwnedReplicas = &test.owned
			}
			if got := ptr.Deref(replicas(app, restore(&r).deployment.Object, hpa), others); got != test.want {
				t.Errorf("replicas %d, want %d", got, test.want)
			}
		})
	}
}

func replicasOf(s *server) int32 {
	if d, ok := s.child("deployments").(*appsv1.Deployment); ok {
		return *d.Spec.Replicas
	}
	return 0
}

// TestReplicasAreHandedOver is about the way of the field to the autoscaler and
// back: there is no moment at which no field manager sets the number.
func TestReplicasAreHandedOver(t *testing.T) {
	s := newServer(application(func(a *v1.Application) { a.Spec.Replicas = ptr.To[int32](3) })).settle(t)
	expect := func(when string, want int32) {
		t.Helper()
		s.settle(t)
		for _, d := range s.deployments(0) {
			if *d.Spec.Replicas == 1 {
				t.Fatalf("%s: at version %s there was 1 replica, which no spec asked for", when, d.ResourceVersion)
			}
		}
		if got := replicasOf(s); got != want {
			t.Errorf("%s: %d replicas, want %d", when, got, want)
		}
	}
	s.edit(func(a *v1.Application) {
		a.Spec.Autoscaling = &v1.Autoscaling{MinReplicas: ptr.To[int32](2), MaxReplicas: 10}
	})
	expect("an autoscaler is wanted", 3)
	s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" })
	expect("an update before the autoscaler's first word", 3)
	scaled(7)(s)
	expect("the autoscaler has scaled", 7)
	s.edit(func(a *v1.Application) { a.Spec.Image, a.Spec.Replicas = "nginx:1.31", ptr.To[int32](4) })
	expect("an update after that, and another number in the spec", 7)
	s.edit(func(a *v1.Application) { a.Spec.Autoscaling = nil })
	expect("no autoscaler is wanted any more", 4)
}

// TestTheAutoscalersNumberIsKept is about what may happen to a Deployment that its autoscaler has scaled to 4, where the spec says 3.
func TestTheAutoscalersNumberIsKept(t *testing.T) {
	const autoscalers = "horizontalpodautoscalers"
	removed := func(resource string) func(*server) { return func(s *server) { s.remove(resource) } }
	held := func(s *server) { s.addFinalizer(autoscalers) }
	unwanted := func(s *server) { s.edit(func(a *v1.Application) { a.Spec.Autoscaling = nil }) }
	image := func(s *server) { s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" }) }
	for sentence, test := range map[string]struct {
		given []func(*server)
		want  int32
	}{
		"it loses its label":                    {[]func(*server){unlabel("deployments")}, 4},
		"it and the autoscaler lose theirs":     {[]func(*server){unlabel("deployments"), unlabel(autoscalers)}, 4},
		"another client deletes it":             {[]func(*server){removed("deployments")}, 4},
		"another client deletes the autoscaler": {[]func(*server){removed(autoscalers)}, 4},

		"the autoscaler is not wanted any more":                                  {[]func(*server){unwanted}, 3},
		"the autoscaler is not wanted and stays, and another image is":           {[]func(*server){held, unwanted, image}, 4},
		"the autoscaler is not wanted and stays, and the Deployment is deleted":  {[]func(*server){held, unwanted, removed("deployments")}, 4},
		"the autoscaler is not wanted and stays, and the Deployment loses label": {[]func(*server){held, unwanted, unlabel("deployments")}, 4},
		"the autoscaler is not wanted and stays, and scales once more":           {[]func(*server){held, unwanted, scaled(5)}, 5},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(application(full)).settle(t)
			scaled(4)(s)
			was := len(s.settle(t).Events())
			for _, change := range test.given {
				change(s)
			}
			s.settle(t)
			for _, d := range s.deployments(was) {
				if n := *d.Spec.Replicas; n == 1 || n == 3 && test.want != 3 {
					t.Fatalf("at version %s there are %d replicas", d.ResourceVersion, n)
				}
			}
			if got := replicasOf(s); got != test.want {
				t.Errorf("%d replicas, want %d", got, test.want)
			}
			hpa := s.child(autoscalers)
			if hpa == nil || hpa.GetDeletionTimestamp() == nil {
				return
			}
			s.removeFinalizers(autoscalers)
			if got := replicasOf(s.settle(t)); got != 3 || len(s.app().Status.Resources) != 5 {
				t.Errorf("%d replicas and %v once the autoscaler is gone, want the 3 of the spec", got, s.app().Status.Resources)
			}
		})
	}
}

// TestAStaleCacheDoesNotUndoTheAutoscaler has another image desired, while the cache does not show what has happened to the Deployment.
func TestAStaleCacheDoesNotUndoTheAutoscaler(t *testing.T) {
	for sentence, test := range map[string]struct {
		since func(*server)
		want  int32
	}{
		"it was scaled":                       {scaled(5), 5},
		"it was deleted: it is not made anew": {func(s *server) { s.remove("deployments") }, 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(application(full)).settle(t)
			scaled(4)(s)
			s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" })
			o := s.connect()
			test.since(s)
			requests, _, err := o.sync(t)
			if !apierrors.IsConflict(err) || !slices.Equal(requests, []string{"apply deployments"}) || replicasOf(s) != test.want {
				t.Errorf("requests %q, error %v, %d replicas; want one apply that meets a conflict, and %d", requests, err, replicasOf(s), test.want)
			}
		})
	}
}
