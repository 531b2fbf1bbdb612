// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayinformers "sigs.k8s.io/gateway-api/pkg/client/informers/externalversions"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/generated/informers/externalversions"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/recording/recordtest"
	"github.com/glassback/glassback/pkg/trace"
)

var (
	t0  = time.Date(2022, 1, 9, 13, 50, 0, 0, time.UTC)
	key = cache.NewObjectName("default", "sample")

	// kinds are the kinds of the children, by resource.
	kinds = map[string]schema.GroupVersionKind{
		"deployments":              appsv1.SchemeGroupVersion.WithKind("Deployment"),
		"services":                 corev1.SchemeGroupVersion.WithKind("Service"),
		"ingresses":                networkingv1.SchemeGroupVersion.WithKind("Ingress"),
		"httproutes":               {Group: gatewayv1.GroupName, Version: "v1", Kind: "HTTPRoute"},
		"horizontalpodautoscalers": autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
		"poddisruptionbudgets":     policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
	}
	resourceNames = slices.Sorted(maps.Keys(kinds))
)

const (
	statusRequest = "update applications/status"
	toSee         = 5 * time.Second // how long a write is waited for at most

	takenMessage = "Service sample exists already and has no controller: rename or delete one of the two"
)

// full has all children.
func full(a *v1.Application) {
	a.Spec.Gateway = &v1.Gateway{Name: "public"}
	a.Spec.Replicas = ptr.To[int32](3)
	a.Spec.Autoscaling = &v1.Autoscaling{MinReplicas: ptr.To[int32](2), MaxReplicas: 5}
	a.Spec.PDB = &v1.DisruptionBudget{}
}

// onlyDeployment has neither Service nor Ingress.
func onlyDeployment(a *v1.Application) {
	a.Spec.Service.Enabled, a.Spec.Ingress.Enabled = ptr.To(false), ptr.To(false)
}

func noIngress(a *v1.Application) { a.Spec.Ingress.Enabled = ptr.To(false) }

func imageless(a *v1.Application) { a.Spec.Image = "" }

func paused(a *v1.Application) {
	a.Annotations = map[string]string{glassback.AnnotationPaused: "true"}
}

func deleted(s *server) {
	s.edit(func(a *v1.Application) {
		a.DeletionTimestamp, a.Finalizers = ptr.To(metav1.NewTime(t0)), []string{"example.com/held"}
	})
}

// taken puts an object of another owner where a child is, or is to be.
func taken(resource string, labelled bool, controller *metav1.OwnerReference) func(*server) {
	return func(s *server) {
		s.Put(foreign(resource, labelled, controller))
	}
}

// terminate is what a delete does to a child that has a finalizer.
func terminate(resource string) func(*server) {
	return func(s *server) {
		s.addFinalizer(resource)
		s.delete(resource)
	}
}

// twice gives the Deployment two variables of one name, as a client may that does not apply.
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
		if s.child("horizontalpodautoscalers") != nil {
			alter(s, "horizontalpodautoscalers", "kube-controller-manager", func(h *autoscalingv2.HorizontalPodAutoscaler) {
				h.Status.DesiredReplicas = n
			})
		}
		alter(s, "deployments", "kube-controller-manager", func(d *appsv1.Deployment) { d.Spec.Replicas = &n })
	}
}

func reasonOf(app *v1.Application, kind string) string {
	if condition := meta.FindStatusCondition(app.Status.Conditions, kind); condition != nil {
		return condition.Reason
	}
	return ""
}

// unlabel has another client take the labels away, and so the child from the caches.
func unlabel(resource string) func(*server) {
	return func(s *server) {
		alter(s, resource, "other-client", func(child object) { child.SetLabels(nil) })
	}
}

// syncedOnce is a sync of another operator.
func syncedOnce(s *server) {
	if _, err := s.connect().Sync(context.Background(), key); err != nil {
		panic(err)
	}
	s.Forget()
}

// object is a child, of whatever kind.
type object = fakeapi.Object

// application is the sample, as the API server has it.
func application(change ...func(*v1.Application)) *v1.Application {
	app := &v1.Application{
		ObjectMeta: metav1.ObjectMeta{Name: "sample", Namespace: "default", UID: "app", Generation: 1},
		Spec:       v1.ApplicationSpec{Image: "nginx:1.29"},
	}
	app.Default()
	for _, f := range change {
		f(app)
	}
	return app
}

// server is a fake API server with one Application and its children, which have its name.
type server struct {
	*fakeapi.Server

	clock  *clocktesting.FakeClock
	key    cache.ObjectName // of the Application and of each child
	hidden string           // a resource of which no cache has the children, as they have no label; "" for none
}

func newServer(app *v1.Application) *server {
	s := &server{Server: fakeapi.New(), clock: clocktesting.NewFakeClock(t0), key: cache.MetaObjectToName(app)}
	s.Clock, s.Admit = s.clock, s.admit
	s.Put(app)
	return s
}

// admit sets the defaults of a Deployment that these tests rely on, and removes the label from children of the hidden resource.
func (s *server) admit(_, now object) {
	if d, ok := now.(*appsv1.Deployment); ok {
		if d.Spec.Replicas == nil {
			d.Spec.Replicas = ptr.To[int32](1)
		}
		for _, c := range d.Spec.Template.Spec.Containers {
			for _, e := range c.Env {
				if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.APIVersion == "" {
					e.ValueFrom.FieldRef.APIVersion = "v1"
				}
			}
		}
	}
	if fakeapi.ResourceOf(now) == s.hidden {
		withoutLabel(now)
	}
}

// app returns the Application, and nil if there is none.
func (s *server) app() *v1.Application { return fakeapi.Get[*v1.Application](s.Server, s.key) }

// child returns a child, and nil if there is none.
func (s *server) child(resource string) object { return s.Get(resource, s.key) }

// children returns all children, by resource.
func (s *server) children() map[string]object {
	all := map[string]object{}
	for _, resource := range resourceNames {
		if child := s.child(resource); child != nil {
			all[resource] = child
		}
	}
	return all
}

// deployments returns each state of the Deployment after the first since events.
func (s *server) deployments(since int) []*appsv1.Deployment {
	var all []*appsv1.Deployment
	for _, event := range s.Events()[since:] {
		if d, ok := event.Now.(*appsv1.Deployment); ok {
			all = append(all, d)
		}
	}
	return all
}

// edit changes the Application as another client does. Each edit increments the generation.
func (s *server) edit(change func(*v1.Application)) {
	fakeapi.Edit(s.Server, s.key, "user", func(app *v1.Application) {
		app.Generation++
		change(app)
	})
}

// alter changes a child as another client does.
func alter[T object](s *server, resource, who string, change func(T)) {
	s.Edit(resource, s.key, who, func(child object) { change(child.(T)) })
}

// remove removes a child at once, also if it has finalizers.
func (s *server) remove(resource string) { s.Remove(resource, s.key) }

// delete deletes a child as another client does: a child with a finalizer gets a deletionTimestamp.
func (s *server) delete(resource string) { s.Delete(resource, s.key) }

// addFinalizer adds a finalizer to a child.
func (s *server) addFinalizer(resource string) {
	alter(s, resource, "other-client", func(child object) { child.SetFinalizers([]string{"example.com/held"}) })
}

// removeFinalizers removes all finalizers of a child.
func (s *server) removeFinalizers(resource string) {
	alter(s, resource, "other-client", func(child object) { child.SetFinalizers(nil) })
}

// foreign returns an object that has the name of a child, but is not controlled by the Application. controller is its owner, nil for none.
// With the label, the caches have it.
func foreign(resource string, labelled bool, controller *metav1.OwnerReference) object {
	obj, err := fakeapi.Scheme.New(kinds[resource])
	if err != nil {
		panic(err)
	}
	child := obj.(object)
	child.SetNamespace(key.Namespace)
	child.SetName(key.Name)
	child.SetUID("foreign")
	if labelled {
		child.SetLabels(map[string]string{v1.LabelApplication: key.Name})
	}
	if controller != nil {
		child.SetOwnerReferences([]metav1.OwnerReference{*controller})
	}
	return child
}

// requestText returns a request as a text, for comparisons.
func requestText(r fakeapi.Request) string {
	text := r.Action() + " " + r.Path()
	if r.Verb == "delete" && r.Propagation != metav1.DeletePropagationBackground {
		text += ", not in the background"
	}
	return text
}

// requests returns the requests after the first n, without the reads of method confirm.
func (s *server) requests(n int) []string {
	var all []string
	for _, r := range s.Requests()[n:] {
		if text := requestText(r); text != "list applications" {
			all = append(all, text)
		}
	}
	return all
}

// rollOut sets the status that the Deployment has at the end of a rollout, as the Deployment controller does.
func (s *server) rollOut() {
	alter(s, "deployments", "kube-controller-manager", func(d *appsv1.Deployment) {
		n := *d.Spec.Replicas
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable", Message: "It is available"},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable", Message: "It has progressed"},
			},
		}
	})
}

// settle runs syncs of an operator, and rollouts, until nothing changes.
func (s *server) settle(t testing.TB) *server {
	t.Helper()
	for range 10 {
		requests, _, err := s.connect().sync(t)
		must.Succeed(t, err)
		d, ok := s.child("deployments").(*appsv1.Deployment)
		switch complete := !ok || (d.Status.ObservedGeneration == d.Generation && d.Status.Replicas == *d.Spec.Replicas); {
		case !complete:
			s.rollOut()
		case len(requests) == 0:
			s.Forget()
			return s
		}
	}
	t.Fatal("it never settled")
	return nil
}

// operator is one operator. It does not run: a test brings its caches up to date, and calls Sync.
type operator struct {
	*Controller

	server *server
	stores map[string]cache.Store    // by resource
	caches map[string]*fakeapi.Cache // of these stores
	events *record.FakeRecorder
}

// connect returns an operator whose caches show the current state.
func (s *server) connect() *operator {
	config, _ := s.config()
	o := &operator{
		Controller: newController(config), server: s, events: config.Recorder.(*record.FakeRecorder), caches: map[string]*fakeapi.Cache{},
		stores: map[string]cache.Store{
			"applications":             config.Applications.Informer().GetStore(),
			"deployments":              config.Deployments.Informer().GetStore(),
			"services":                 config.Services.Informer().GetStore(),
			"ingresses":                config.Ingresses.Informer().GetStore(),
			"httproutes":               config.Routes.Informer().GetStore(),
			"horizontalpodautoscalers": config.Autoscalers.Informer().GetStore(),
			"poddisruptionbudgets":     config.Budgets.Informer().GetStore(),
		},
	}
	labelled := fakeapi.Labelled(v1.LabelApplication)
	for resource, store := range o.stores {
		o.caches[resource] = s.Cache(resource, store, func(obj object) object {
			switch resource {
			case "applications":
				return obj
			case s.hidden:
				return nil
			}
			return labelled(obj)
		})
	}
	o.poller = loop.NewPoller(s.ReadVersion, func(cache.ObjectName, trace.Cause) {}, s.clock, 0)
	return o
}

// informerFactory starts informers of a Config.
type informerFactory interface {
	StartWithContext(ctx context.Context)
	Shutdown()
}

// config returns a Config, and its informers, which are not started.
func (s *server) config() (Config, []informerFactory) {
	kube, client := s.Kube(), s.Glassback()
	kubeFactory, factory := kubeinformers.NewSharedInformerFactory(kube, 0), externalversions.NewSharedInformerFactory(client, 0)
	routes := gatewayinformers.NewSharedInformerFactory(s.Gateway(), 0)
	return Config{
		Kube: kube, Client: client, Gateway: s.Gateway(), Routes: routes.Gateway().V1().HTTPRoutes(),
		Applications: factory.App().V1().Applications(),
		Deployments:  kubeFactory.Apps().V1().Deployments(),
		Services:     kubeFactory.Core().V1().Services(),
		Ingresses:    kubeFactory.Networking().V1().Ingresses(),
		Autoscalers:  kubeFactory.Autoscaling().V2().HorizontalPodAutoscalers(),
		Budgets:      kubeFactory.Policy().V1().PodDisruptionBudgets(),
		Recorder:     record.NewFakeRecorder(10_000),
		Clock:        s.clock,
	}, []informerFactory{kubeFactory, factory, routes}
}

// catchUp makes all caches show the current state.
func (o *operator) catchUp() {
	for _, c := range o.caches {
		c.CatchUp()
	}
}

// sync runs Sync once and returns the requests that it made.
func (o *operator) sync(t testing.TB) ([]string, time.Duration, error) {
	t.Helper()
	o.poll(t)
	made := len(o.server.Requests())
	after, err := o.Sync(recordtest.Context(t.Context(), t, Decisions), o.server.key)
	return o.server.requests(made), after, err
}

// poll polls the sources of the Application twice: the Poller tells the second failure.
func (o *operator) poll(t testing.TB) {
	app := o.server.app()
	if app == nil {
		return
	}
	app.Default()
	o.pollSources(app, nil)
	o.poller.Poll(t.Context(), o.server.key)
	o.poller.Poll(t.Context(), o.server.key)
}

// write is one write of an operator.
type write struct {
	at      time.Duration // since the start of run
	request string
}

// run calls Sync as the loop does, for the given duration: at once after a change, and otherwise after the time that the last
// Sync returned. It calls afterWrite after each write to a child, for what other clients do then.
func (o *operator) run(t testing.TB, duration time.Duration, afterWrite func()) []write {
	t.Helper()
	var all []write
	s := o.server
	start := s.clock.Now()
	for range 10_000 {
		o.catchUp()
		was, at := s.Version(), s.clock.Since(start)
		requests, after, err := o.sync(t)
		must.Succeed(t, err)
		if s.Version() > was {
			request := requests[len(requests)-1]
			all = append(all, write{at, request})
			if request != statusRequest {
				afterWrite()
			}
			continue
		}
		if after == 0 || at+after > duration {
			s.clock.SetTime(start.Add(duration))
			return all
		}
		s.clock.SetTime(s.clock.Now().Add(after))
	}
	t.Fatal("it never rests")
	return nil
}

// sent returns the events that the controller has sent.
func (o *operator) sent() []string { return fakeapi.RecordedEvents(o.events) }

// failing returns a function that answers with err the requests whose requestText begins with prefix.
func failing(prefix string, err error) func(fakeapi.Request) error {
	return func(r fakeapi.Request) error {
		if strings.HasPrefix(requestText(r), prefix) {
			return err
		}
		return nil
	}
}

// hide has another client remove the label from the Service after each write, so that no cache has it.
func hide(s *server) {
	s.hidden = "services"
	alter(s, s.hidden, "", withoutLabel)
}

func withoutLabel(child object) {
	labels := child.GetLabels()
	delete(labels, v1.LabelApplication)
	child.SetLabels(labels)
}
