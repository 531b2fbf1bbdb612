// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/fakeapi"
)

// TestInvariants runs two operators on one Application through random histories: their caches lag, each by itself; they crash after any
// write and are started again; answers are lost; the spec changes; the Application is deleted and made anew; people edit and delete its
// children, and put objects of their own in their place; some children have finalizers, and stay on their way out for a while; the
// autoscaler scales. However that goes, nothing of anybody else is ever changed or deleted, there is never a number of replicas that no
// spec asked for, and no client that sees an autoscaler changes the number that it has set. In the end the children are exactly those that
// are wanted, the status says so, and nothing is written any more. GLASSBACK_SEEDS=n runs so many histories.
func TestInvariants(t *testing.T) {
	fakeapi.Histories(t, 30, 10, 80, func(run *fakeapi.History) (step, settle func()) {
		h := newHistory(run)
		return h.step, h.settle
	})
}

// history is one random run.
type history struct {
	*fakeapi.History

	server    *server
	operators [2]*operator
	uids      int
}

func newHistory(run *fakeapi.History) *history {
	h := &history{History: run}
	h.server = newServer(h.application())
	for i := range h.operators {
		h.operators[i] = h.server.connect()
	}
	return h
}

// application never asks for 1 replica: that is what there is without a request.
func (h *history) application() *v1.Application {
	h.uids++
	return application(h.spec, func(a *v1.Application) { a.UID = types.UID(fmt.Sprintf("app#%d", h.uids)) })
}

// spec changes a part of a spec, or all of it.
func (h *history) spec(a *v1.Application) {
	all := *a.Spec.Replicas == v1.DefaultReplicas
	part := func() bool { return all || h.Random.IntN(4) == 0 }
	if part() {
		a.Spec.Replicas = ptr.To(int32(3 + h.Random.IntN(3)))
	}
	if part() {
		a.Spec.Image = fmt.Sprintf("nginx:1.%d", h.Random.IntN(3))
	}
	if part() {
		a.Spec.Service.Enabled, a.Spec.Ingress.Enabled = ptr.To(h.Random.IntN(3) > 0), ptr.To(h.Random.IntN(2) > 0)
		*a.Spec.Ingress.Enabled = *a.Spec.Ingress.Enabled && *a.Spec.Service.Enabled
	}
	if part() {
		a.Spec.Service.Port = ptr.To(int32(80 + h.Random.IntN(2)))
	}
	if part() {
		a.Spec.Autoscaling = nil
		if h.Random.IntN(2) > 0 {
			a.Spec.Autoscaling = &v1.Autoscaling{MinReplicas: ptr.To(int32(2 + h.Random.IntN(2))), MaxReplicas: int32(4 + h.Random.IntN(4))}
		}
	}
	if part() {
		a.Spec.PDB = nil
		if h.Random.IntN(2) > 0 {
			a.Spec.PDB = &v1.DisruptionBudget{}
		}
	}
}

func (h *history) note(format string, args ...any) {
	h.Note(fmt.Sprintf("v%d: ", h.server.Version())+format, args...)
}

func (h *history) step() {
	i, resource := h.Random.IntN(len(h.operators)), resourceNames[h.Random.IntN(len(resourceNames))]
	switch n := h.Random.IntN(100); {
	case n < 35:
		h.sync(i)
	case n < 62:
		h.catchUpSome(i)
	case n < 66:
		h.note("operator %d is started anew", i)
		h.operators[i] = h.server.connect()
	case n < 72:
		h.server.clock.SetTime(h.server.clock.Now().Add(time.Duration(h.Random.IntN(6000)) * time.Millisecond))
	case n < 80:
		h.edit()
	case n < 86:
		h.drift(resource)
	case n < 92:
		h.displace(resource)
	case n < 95:
		h.scale()
	case n < 97:
		h.release(resource)
	default:
		h.server.CollectGarbage()
	}
	for _, d := range h.server.deployments(0) {
		if *d.Spec.Replicas == 1 && !isForeign(d) {
			h.Errorf("at version %s there is 1 replica, which no spec asked for", d.ResourceVersion)
		}
	}
}

// catchUpSome lets one of the caches of operator i catch up by some states, or all of them fully.
func (h *history) catchUpSome(i int) {
	o := h.operators[i]
	if h.Random.IntN(3) > 0 {
		o.catchUp()
		return
	}
	resources := slices.Sorted(maps.Keys(o.caches))
	one := o.caches[resources[h.Random.IntN(len(resources))]]
	one.See(one.At() + h.Random.Int64N(h.server.Version()-one.At()+1))
}

// sync runs operator i once, with a fault at some write now and then.
func (h *history) sync(i int) {
	o := h.operators[i]
	fault, at := fakeapi.NoFault, 0
	if n := h.Random.IntN(8); n < 3 {
		fault, at = []fakeapi.Fault{fakeapi.Refused, fakeapi.AnswerLost, fakeapi.Crash}[n], h.Random.IntN(4)
	}
	was, sees := len(h.server.Events()), o.autoscaled()
	crashed := h.server.Interrupt(func(write int) fakeapi.Fault {
		if write == at {
			return fault
		}
		return fakeapi.NoFault
	}, func() {
		requests, after, err := o.sync(h.T)
		h.note("operator %d synced: %q after %s, error %v", i, requests, after, err)
	})
	h.leftOthersAlone(was)
	h.keptTheNumber(was, sees)
	if crashed {
		made := h.server.requests(0)
		h.note("operator %d crashed after %s", i, made[len(made)-1])
		h.operators[i] = h.server.connect()
	}
}

// leftOthersAlone checks that the states since then, which an operator made, differ in nothing that is another owner's.
func (h *history) leftOthersAlone(since int) {
	for _, event := range h.server.Events()[since:] {
		if event.Was != nil && isForeign(event.Was) {
			h.Errorf("at version %d another owner's object among the %s was changed or deleted", event.Version, event.Resource)
		}
	}
}

// autoscalerSnapshot is an autoscaler in the cache of an operator.
type autoscalerSnapshot struct {
	hpa  *autoscalingv2.HorizontalPodAutoscaler // nil if none of the Application's
	spec v1.ApplicationSpec
}

func (o *operator) autoscaled() autoscalerSnapshot {
	app, there, _ := o.stores["applications"].GetByKey(key.String())
	cached, is, _ := o.stores["horizontalpodautoscalers"].GetByKey(key.String())
	if !there || !is || !metav1.IsControlledBy(cached.(*autoscalingv2.HorizontalPodAutoscaler), app.(*v1.Application)) {
		return autoscalerSnapshot{}
	}
	return autoscalerSnapshot{cached.(*autoscalingv2.HorizontalPodAutoscaler), app.(*v1.Application).Spec}
}

// keptTheNumber checks that the states since then, which an operator made who saw an autoscaler, have the number of replicas that there was
// before: unless that is beyond the bounds that it saw. It also makes a new Deployment as large as the autoscaler has asked for.
func (h *history) keptTheNumber(since int, sees autoscalerSnapshot) {
	if sees.hpa == nil {
		return
	}
	for _, event := range h.server.Events()[since:] {
		is, ok := event.Now.(*appsv1.Deployment)
		if !ok {
			continue
		}
		want := cmp.Or(sees.hpa.Status.DesiredReplicas, *sees.spec.Replicas)
		if was, there := event.Was.(*appsv1.Deployment); there {
			want = *was.Spec.Replicas
		}
		got, a := *is.Spec.Replicas, sees.spec.Autoscaling
		if got != want && (a == nil || got != *within(a, want)) {
			h.Errorf("at version %d there are %d replicas, want %d: the operator saw an autoscaler", event.Version, got, want)
		}
	}
}

func isForeign(child object) bool { return strings.HasPrefix(string(child.GetUID()), "foreign") }

// edit changes the spec. Sometimes the Application is deleted, or made anew.
func (h *history) edit() {
	switch n := h.Random.IntN(6); {
	case h.server.app() == nil:
		h.note("the Application is made anew")
		h.server.Put(h.application())
	case n == 0:
		h.note("the Application is deleted")
		h.server.Remove("applications", key)
	default:
		h.note("another client edits the Application")
		h.server.edit(h.spec)
	}
}

// drift is what another client does to a child of ours.
func (h *history) drift(resource string) {
	child := h.server.child(resource)
	if child == nil || isForeign(child) {
		return
	}
	n := h.Random.IntN(5)
	h.note("another client does %d to the %s", n, resource)
	switch n {
	case 0:
		h.server.delete(resource)
		return
	case 4:
		h.server.addFinalizer(resource)
		return
	}
	alter(h.server, resource, "other-client", func(child object) {
		labels := child.GetLabels()
		switch n {
		case 1:
			labels["app.kubernetes.io/name"] = "changed"
		case 2:
			labels["theirs"] = "1"
		case 3:
			delete(labels, v1.LabelApplication) // No cache shows it any more.
		}
		child.SetLabels(labels)
	})
}

// displace puts an object of another owner where a child is, or is to be, or takes it away.
func (h *history) displace(resource string) {
	if child := h.server.child(resource); child != nil && isForeign(child) {
		h.note("another client deletes its %s", resource)
		h.server.remove(resource)
		return
	}
	h.note("another client makes %s of its own", resource)
	h.uids++
	labelled := h.Random.IntN(2) > 0
	theirs := foreign(resource, labelled, nil)
	theirs.SetUID(types.UID(fmt.Sprintf("foreign#%d", h.uids)))
	if d, ok := theirs.(*appsv1.Deployment); ok {
		d.Spec.Replicas = ptr.To[int32](1)
	}
	h.server.Put(theirs)
}

// scale is what the autoscaler does, if there is one.
func (h *history) scale() {
	a, ok := h.server.child("horizontalpodautoscalers").(*autoscalingv2.HorizontalPodAutoscaler)
	d, is := h.server.child("deployments").(*appsv1.Deployment)
	if !ok || !is || isForeign(a) || isForeign(d) {
		return
	}
	n := *a.Spec.MinReplicas + int32(h.Random.IntN(int(a.Spec.MaxReplicas-*a.Spec.MinReplicas)+1))
	h.note("the autoscaler scales to %d", n)
	scaled(n)(h.server)
}

// release takes a finalizer away, if there is one.
func (h *history) release(resource string) {
	if child := h.server.child(resource); child != nil && len(child.GetFinalizers()) > 0 {
		h.note("the %s are released", resource)
		h.server.removeFinalizers(resource)
	}
}

// settle lets everything work without faults until nothing is left to do, and checks what has become of it.
func (h *history) settle() {
	if h.server.app() == nil {
		h.edit()
	}
	for range 50 {
		was, quiet := h.server.Version(), true
		for _, resource := range resourceNames {
			h.release(resource)
		}
		h.server.CollectGarbage()
		if d, ok := h.server.child("deployments").(*appsv1.Deployment); ok && !isForeign(d) && d.Status.ObservedGeneration < d.Generation {
			h.server.rollOut()
		}
		for i, o := range h.operators {
			h.server.clock.SetTime(h.server.clock.Now().Add(6 * time.Second))
			o.catchUp()
			before, sees := len(h.server.Events()), o.autoscaled()
			requests, after, err := o.sync(h.T)
			h.note("settling: operator %d %q after %s, error %v", i, requests, after, err)
			h.leftOthersAlone(before)
			h.keptTheNumber(before, sees)
			quiet = quiet && err == nil && (after == 0 || after == child.Recheck)
			h.server.clock.SetTime(h.server.clock.Now().Add(after))
		}
		if quiet && h.server.Version() == was {
			h.account()
			return
		}
	}
	h.Error("it never settled")
}

// account checks that there is exactly what is wanted, and that the status says so.
func (h *history) account() {
	app, wanted := h.server.app(), desired(h.T, h.server.app(), "")
	conflict, resources := false, []string(nil)
	for _, resource := range resourceNames {
		child, configuration := h.server.child(resource), wanted[resource]
		switch {
		case child != nil && isForeign(child):
			conflict = conflict || configuration != nil
			continue
		case child != nil && configuration == nil && child.GetLabels()[v1.LabelApplication] == "" && !h.wasListed(resource, child.GetUID()):
			continue // It lost the label and then its use before any status named it: the operator cannot find it.
		case (child != nil) != (configuration != nil):
			h.Errorf("there are %s: %t, wanted: %t", resource, child != nil, configuration != nil)
			continue
		case child == nil:
			continue
		}
		resources = append(resources, kinds[resource].Kind)
		owned := extract(h.T, child)
		if resource == "deployments" {
			configuration = h.deployment(child.(*appsv1.Deployment), owned)
		}
		if !equality.Semantic.DeepEqual(owned, configuration) {
			h.Errorf("what is owned of %s is\n%s\nwanted is\n%s", resource, text(h.T, owned), text(h.T, configuration))
		}
		if !metav1.IsControlledBy(child, app) {
			h.Errorf("%s is not controlled by %s", child.GetUID(), app.UID)
		}
	}
	var listed []string
	for _, r := range app.Status.Resources {
		listed = append(listed, r.Kind)
	}
	slices.Sort(listed)
	slices.Sort(resources)
	if app.Status.ObservedGeneration != app.Generation || !slices.Equal(listed, resources) {
		h.Errorf("the status is about generation %d and %v, want %d and %v", app.Status.ObservedGeneration, listed, app.Generation, resources)
	}
	if is := meta.IsStatusConditionTrue(app.Status.Conditions, v1.ConditionConflict); is != conflict {
		h.Errorf("Conflict is %t, want %t", is, conflict)
	}
	if is := meta.IsStatusConditionTrue(app.Status.Conditions, glassback.ConditionReady); is == conflict {
		h.Errorf("Ready is %t, want %t: %+v", is, !conflict, app.Status.Conditions)
	}
}

// wasListed returns whether a status has told of the child while it was there.
func (h *history) wasListed(resource string, uid types.UID) bool {
	var app *v1.Application
	var child object
	lists := func(r v1.ResourceReference) bool { return r.Kind == kinds[resource].Kind }
	for _, event := range h.server.Events() {
		switch event.Resource {
		case "applications":
			app, _ = event.Now.(*v1.Application)
		case resource:
			child = event.Now
		}
		if child != nil && child.GetUID() == uid && app != nil && slices.ContainsFunc(app.Status.Resources, lists) {
			return true
		}
	}
	return false
}

// deployment is what is wanted of the Deployment: the number of replicas is as the spec says, or within the autoscaler's bounds.
func (h *history) deployment(child *appsv1.Deployment, owned any) any {
	configuration := deployment(h.server.app(), nil, nil, "")
	replicas := owned.(*appsv1ac.DeploymentApplyConfiguration).Spec.Replicas
	if a := h.server.app().Spec.Autoscaling; a != nil {
		configuration.Spec.Replicas = replicas
		if n := *child.Spec.Replicas; replicas != nil && (n < *a.MinReplicas || n > a.MaxReplicas) {
			h.Errorf("%d replicas that the operator owns, which are not within the autoscaler's bounds", n)
		}
	}
	return configuration
}
