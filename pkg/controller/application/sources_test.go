// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/must"
)

func TestSourcesOf(t *testing.T) {
	app := load(t, "full")
	template := app.Spec.PodTemplate
	template.InitContainers[0].EnvFrom = []corev1.EnvFromSource{
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "migration"}}},
	}
	template.Volumes = append(template.Volumes, corev1.Volume{Name: "files", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "files"}},
	}}, corev1.Volume{Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys"}}})
	template.Containers = []corev1.Container{{Name: "b", EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}, Optional: ptr.To(true),
	}}, {SecretRef: &corev1.SecretEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "extra"}, Optional: ptr.To(true),
	}}}}}
	maps, secrets := []string{"ConfigMap files", "ConfigMap shop"}, []string{"Secret extra?", "Secret keys", "Secret migration", "Secret shop"}
	for _, test := range []struct {
		on   []v1.RestartSource
		want []string
	}{
		{nil, nil},
		{[]v1.RestartSource{v1.RestartOnConfigMaps}, maps},
		{[]v1.RestartSource{v1.RestartOnSecrets}, secrets},
		{[]v1.RestartSource{v1.RestartOnSecrets, v1.RestartOnConfigMaps}, slices.Concat(maps, secrets)},
	} {
		app.Spec.RestartOn = test.on
		var got []string
		all, required := sourcesOf(app)
		for _, s := range all {
			got = append(got, s.Kind+" "+s.Name+map[bool]string{false: "?"}[required[s]])
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("with restartOn %q: %q, want %q", test.on, got, test.want)
		}
	}
}

// sourced is an Application with a variable of the Secret password, and restartOn.
func sourced(a *v1.Application) {
	a.Spec.RestartOn = []v1.RestartSource{v1.RestartOnSecrets}
	a.Spec.Env = []v1.EnvVar{{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "password"}, Key: "password",
	}}}}
}

func password(uid types.UID, text string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "password", UID: uid}, Data: map[string][]byte{"password": []byte(text)},
	}
}

func (s *server) sumOf() string { return sumOf(s.child("deployments").(*appsv1.Deployment)) }

func TestRestartOn(t *testing.T) {
	secret := cache.NewObjectName(key.Namespace, "password")
	s := newServer(application(sourced))
	last := ""
	for _, step := range []struct {
		says   string
		change func()
		rolls  bool
	}{
		{"no Secret yet", func() {}, true},
		{"nothing", func() {}, false},
		{"the Secret is created", func() { s.Put(password("1", "a")) }, true},
		{"nothing", func() {}, false},
		{"its data change", func() {
			s.Edit("secrets", secret, "other", func(o object) { o.(*corev1.Secret).Data["password"] = []byte("b") })
		}, true},
		{"another one with the same data", func() { s.Remove("secrets", secret); s.Put(password("2", "b")) }, true},
		{"it is deleted, and Pods could not start", func() { s.Remove("secrets", secret) }, false},
		{"it is created again", func() { s.Put(password("3", "b")) }, true},
		{"it is optional now", func() {
			s.edit(func(a *v1.Application) { a.Spec.Env[0].ValueFrom.SecretKeyRef.Optional = ptr.To(true) })
		}, false},
		{"and deleted", func() { s.Remove("secrets", secret) }, true},
		{"restartOn is removed", func() { s.edit(func(a *v1.Application) { a.Spec.RestartOn = nil }) }, true},
	} {
		step.change()
		sum := s.settle(t).sumOf()
		if (sum != last) != step.rolls {
			t.Errorf("%s: the sum was %q and is %q", step.says, last, sum)
		}
		last = sum
	}
	if last != "" {
		t.Errorf("without restartOn the sum is %q", last)
	}
}

// TestASpecThatChangesAfterItsSource replaces the Pods once, although the Poller has not seen the source yet.
func TestASpecThatChangesAfterItsSource(t *testing.T) {
	s := newServer(application(sourced))
	s.Put(password("1", "a"))
	was := s.settle(t).sumOf()
	o := s.connect()
	_, _, err := o.sync(t)
	must.Succeed(t, err)
	s.Edit("secrets", cache.NewObjectName(key.Namespace, "password"), "other", func(o object) { o.SetLabels(map[string]string{"a": "b"}) })
	s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" })
	o.catchUp()
	before := len(s.Requests())
	_, err = o.Sync(t.Context(), key)
	if must.Succeed(t, err); len(s.requests(before)) > 0 {
		t.Errorf("it has sent %q", s.requests(before))
	}
	_, _, err = o.sync(t)
	if must.Succeed(t, err); s.sumOf() == was {
		t.Errorf("the sum is still %q", was)
	}
}

// TestNothingIsWrittenBeforeTheSourcesAreKnown, also if the spec has changed: the Pods are replaced once.
func TestNothingIsWrittenBeforeTheSourcesAreKnown(t *testing.T) {
	s := newServer(application())
	s.settle(t)
	s.edit(sourced)
	o := s.connect()
	after, err := o.Sync(t.Context(), key)
	if must.Succeed(t, err); after != 0 || len(s.requests(0)) > 0 {
		t.Errorf("the next sync is after %v; it has sent %q", after, s.requests(0))
	}
	if requests, _, err := o.sync(t); err != nil || !slices.Equal(requests, []string{"apply deployments"}) || s.sumOf() == "" {
		t.Errorf("then it has sent %q, error %v; the sum is %q", requests, err, s.sumOf())
	}
}

// TestPlanOfSources: the plan has the annotation that the next sync writes, unless the sources cannot be read.
func TestPlanOfSources(t *testing.T) {
	for _, test := range []struct {
		says       string
		offline    bool
		failure    error
		incomplete bool
		writes     int
	}{
		{"it reads the sources", false, nil, false, 1},
		{"offline", true, nil, true, 0},
		{"forbidden", false, apierrors.NewForbidden(corev1.Resource("secrets"), "password", nil), true, 0},
	} {
		s := newServer(application(sourced))
		s.settle(t)
		s.Put(password("1", "a"))
		s.Before = failing("get secrets", test.failure)
		plan, err := s.connect().Plan(t.Context(), key, test.offline)
		if must.Succeed(t, err); (plan.Incomplete != "") != test.incomplete || len(plan.Writes) != test.writes {
			t.Errorf("%s: %+v", test.says, plan)
		}
	}
}

// TestSourcesThatCannotBeRead: the Pods keep their sum, Degraded says why, and the rest goes on.
func TestSourcesThatCannotBeRead(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("secrets"), "password", errors.New("no"))
	many := func(a *v1.Application) {
		a.Spec.PodTemplate = &v1.PodTemplate{PodTemplate: glassback.PodTemplate{Containers: []corev1.Container{{Name: "b"}}}}
		for i := range maxSources {
			a.Spec.PodTemplate.Containers[0].EnvFrom = append(a.Spec.PodTemplate.Containers[0].EnvFrom, corev1.EnvFromSource{
				SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprint("s", i)}},
			})
		}
	}
	fails := func(err error) func(*server) { return func(s *server) { s.Before = failing("get secrets", err) } }
	for name, test := range map[string]struct {
		change func(*server)
		want   string
	}{
		"it is forbidden":                {fails(forbidden), "cannot read Secret password, and retries: Forbidden"},
		"no answer":                      {fails(errors.New("down: hunter2")), "retries: no answer"},
		"too many":                       {func(s *server) { s.edit(many) }, "more than 32 ConfigMaps and Secrets"},
		"no cache has the Deployment":    {func(s *server) { fails(forbidden)(s); s.hidden = "deployments" }, "Forbidden"},
		"and there is no Deployment yet": {func(s *server) { fails(forbidden)(s); s.remove("deployments") }, "Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(application(sourced))
			s.Put(password("1", "a"))
			was := s.settle(t).sumOf()
			test.change(s)
			if s.child("deployments") == nil {
				was = ""
			}
			s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" })
			for range 5 {
				_, _, err := s.connect().sync(t)
				must.Succeed(t, err)
			}
			d := s.child("deployments").(*appsv1.Deployment)
			if s.sumOf() != was || d.Spec.Template.Spec.Containers[0].Image != "nginx:1.30" {
				t.Errorf("the sum was %q and is %q, the image is %s", was, s.sumOf(), d.Spec.Template.Spec.Containers[0].Image)
			}
			if s.hidden != "" {
				return // No status: the operator does not know its Deployment.
			}
			for _, c := range s.app().Status.Conditions {
				if c.Type == glassback.ConditionDegraded && (c.Reason != reasonSources || !strings.Contains(c.Message, test.want)) ||
					strings.Contains(c.Message, "hunter2") {
					t.Errorf("Degraded is %+v", c)
				}
			}
		})
	}
}
