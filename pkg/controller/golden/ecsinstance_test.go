// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/controller/ecsinstance"
)

// ecs is the simulator before which the controller of a scenario runs. It notes every call that changes something.
type ecs struct {
	*ecssim.Server

	w *world
}

// RoundTrip carries a call out, and notes it.
func (e *ecs) RoundTrip(request *http.Request) (*http.Response, error) {
	params := request.URL.Query()
	if request.Body != nil {
		form, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		request.Body = io.NopCloser(bytes.NewReader(form))
		more, err := url.ParseQuery(string(form))
		if err != nil {
			return nil, err
		}
		for key, values := range more {
			params[key] = append(params[key], values...)
		}
	}
	action := params.Get("Action")
	if !strings.HasPrefix(action, "Describe") && !strings.HasPrefix(action, "Get") && params.Get("DryRun") != "true" {
		body := map[string]any{}
		for key, values := range params {
			if !slices.Contains([]string{"Action", "Signature", "SignatureNonce", "Timestamp"}, key) {
				body[key] = strings.Join(values, ",")
			}
		}
		e.w.mu.Lock()
		e.w.notes.add(note{verb: "call", resource: action, body: body})
		e.w.mu.Unlock()
	}
	return e.Server.Transport().RoundTrip(request)
}

// newECSInstance returns what makes a controller that calls a simulator, which it stores in at.
func newECSInstance(at **ecs) func(*world) (controller, error) {
	return func(w *world) (controller, error) {
		e := &ecs{ecssim.New(ecssim.Config{Seed: 1}), w}
		*at = e
		w.notes.clean = withoutRandom()
		cloud, err := aliyun.New(aliyun.Config{Endpoint: "http://ecs.example.com", Transport: e})
		if err != nil {
			return nil, err
		}
		return ecsinstance.New(ecsinstance.Config{
			Client: w.own, ECSInstances: w.ownFrom.Alibabacloud().V1alpha1().ECSInstances(), Secret: w.secret,
			Open:     func(key *aliyun.AccessKey, region string) ecsinstance.Cloud { return cloud.Open(key, region) },
			Recorder: w.recorder, Clock: clock.RealClock{},
		})
	}
}

var (
	timeText     = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	addressText  = regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+\b`)
	instanceText = regexp.MustCompile(`\bi-[0-9a-z]{20,22}\b`)
)

// withoutRandom returns what replaces times, addresses and IDs of instances. The controller waits for random times before it asks ECS, and
// each question uses up a random number of the simulator. The first instance stays the first.
func withoutRandom() func(string) string {
	ids := map[string]string{}
	return func(text string) string {
		text = addressText.ReplaceAllString(timeText.ReplaceAllString(text, "(time)"), "(address)")
		return instanceText.ReplaceAllStringFunc(text, func(id string) string {
			if ids[id] == "" {
				ids[id] = fmt.Sprintf("i-(%d)", len(ids)+1)
			}
			return ids[id]
		})
	}
}

// secret returns an informer for one Secret.
func (w *world) secret(namespace, name string) cache.SharedIndexInformer {
	secrets := w.kube.CoreV1().Secrets(namespace)
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			all, err := secrets.List(ctx, options)
			if err != nil {
				return nil, err
			}
			all.Items = slices.DeleteFunc(all.Items, func(s corev1.Secret) bool { return s.Name != name })
			return all, nil
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			all, err := secrets.Watch(ctx, options)
			if err != nil {
				return nil, err
			}
			return watch.Filter(all, func(e watch.Event) (watch.Event, bool) { return e, e.Object.(*corev1.Secret).Name == name }), nil
		},
	}, w.kube), &corev1.Secret{}, 0, cache.Indexers{})
}

// withKey has every ECSInstance use the Secret of ecsinstance-full.yaml: the operator of a scenario has no credentials of its own.
func withKey(objects []object) []object {
	has := false
	for _, obj := range objects {
		if e, ok := obj.(*v1alpha1.ECSInstance); ok {
			e.Spec.CredentialsSecretRef = &v1alpha1.SecretReference{Name: "ecs-credentials"}
		}
		has = has || obj.GetName() == "ecs-credentials"
	}
	if has {
		// The Secrets first: no sync finds them missing.
		slices.Reverse(objects)
		return objects
	}
	return slices.Insert(objects, 0, object(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "ecs-credentials"}, StringData: map[string]string{"accessKeyID": "test", "accessKeySecret": "test"},
	}))
}

func TestECSInstanceExamples(t *testing.T) {
	f, e := &file{name: "ecsinstance-examples"}, new(*ecs)
	for _, path := range exampleFiles(t, "ecsinstance") {
		scenario(t, f, title(path), newECSInstance(e), func(w *world) {
			objects := withKey(w.read(path))
			w.step("applied", 5*time.Minute, func() { w.apply(objects...) })
			w.step("deleted", 5*time.Minute, func() { remove[*v1alpha1.ECSInstance](w, objects[len(objects)-1].GetName()) })
		})
	}
	f.compare(t)
}

func TestECSInstancePhases(t *testing.T) {
	const name = "ecsinstance-sample"
	f, e := &file{name: "ecsinstance-phases"}, new(*ecs)
	edit := func(w *world, do func(*v1alpha1.ECSInstanceSpec)) func() {
		return func() { change(w, name, func(i *v1alpha1.ECSInstance) { do(&i.Spec) }) }
	}
	begin := func(w *world, step string, do func(*v1alpha1.ECSInstanceSpec)) {
		objects := withKey(w.read(examples + "/ecsinstance.yaml"))
		do(&objects[1].(*v1alpha1.ECSInstance).Spec)
		w.step(step, 5*time.Minute, func() { w.apply(objects...) })
	}
	scenario(t, f, "edited, stopped, gone and made again", newECSInstance(e), func(w *world) {
		begin(w, "applied", func(s *v1alpha1.ECSInstanceSpec) { s.Tags = map[string]string{"team": "web", "stage": "test"} })
		w.step("another name, other tags and security groups", 10*time.Minute, edit(w, func(s *v1alpha1.ECSInstanceSpec) {
			s.InstanceName, s.Tags, s.SecurityGroupIDs = "web-2", map[string]string{"team": "shop"}, []string{"sg-bp67acfmxazb4p3wfo2y"}
		}))
		w.step("another type, when it is stopped", 5*time.Minute, edit(w, func(s *v1alpha1.ECSInstanceSpec) { s.InstanceType = "ecs.g7.large" }))
		w.step("stopped", 5*time.Minute, edit(w, func(s *v1alpha1.ECSInstanceSpec) { s.PowerState = v1alpha1.PowerStopped }))
		w.step("running again", 5*time.Minute, edit(w, func(s *v1alpha1.ECSInstanceSpec) { s.PowerState = v1alpha1.PowerRunning }))
		w.step("a type that is refused, at once", 15*time.Minute, edit(w, func(s *v1alpha1.ECSInstanceSpec) {
			s.InstanceType, s.InstanceTypeChangePolicy = "ecs.nostock.large", v1alpha1.TypeChangeRestart
		}))
		w.step("the type that it has", 5*time.Minute, edit(w, func(s *v1alpha1.ECSInstanceSpec) { s.InstanceType = "ecs.g7.large" }))
		w.step("released in the console", 5*time.Minute, func() {
			for _, i := range (*e).Instances() {
				(*e).Update(i.ID, func(i *ecssim.Instance) { i.Released = time.Now() })
			}
		})
		w.step("made again", 10*time.Minute, edit(w, func(s *v1alpha1.ECSInstanceSpec) { s.RecreatePolicy = v1alpha1.RecreateAlways }))
		w.step("kept when the object is deleted", 5*time.Minute, edit(w, func(s *v1alpha1.ECSInstanceSpec) {
			s.DeletionPolicy = v1alpha1.DeletionRetain
		}))
		w.step("deleted", 5*time.Minute, func() { remove[*v1alpha1.ECSInstance](w, name) })
	})
	scenario(t, f, "refused, and corrected", newECSInstance(e), func(w *world) {
		begin(w, "applied with a type that has no stock", func(s *v1alpha1.ECSInstanceSpec) { s.InstanceType = "ecs.nostock.large" })
		w.step("an image that is missing", 10*time.Minute, edit(w, func(s *v1alpha1.ECSInstanceSpec) {
			s.InstanceType, s.ImageID = "ecs.g6.large", "missing"
		}))
		w.step("corrected", 10*time.Minute, edit(w, func(s *v1alpha1.ECSInstanceSpec) { s.ImageID = "centos_7_8_x64_20G_alibase_20200519.vhd" }))
		w.step("the spec is invalid", 5*time.Minute, edit(w, func(s *v1alpha1.ECSInstanceSpec) { s.InstanceType = "" }))
	})
	scenario(t, f, "adopted", newECSInstance(e), func(w *world) {
		var id string
		w.step("another object makes it", 5*time.Minute, func() {
			objects := withKey(w.read(examples + "/ecsinstance.yaml"))
			objects[1].SetName("first")
			w.apply(objects...)
		})
		id = (*e).Instances()[0].ID
		adopt := func() {
			second := withKey(w.read(examples + "/ecsinstance.yaml"))[1].(*v1alpha1.ECSInstance)
			second.Spec.AdoptInstanceID, second.Spec.ImageID = id, ""
			w.apply(second)
		}
		w.step("an object adopts an instance of another object", 10*time.Minute, adopt)
		w.step("the object is deleted", 5*time.Minute, func() { remove[*v1alpha1.ECSInstance](w, name) })
		w.step("the first object is to keep it", 5*time.Minute, func() {
			change(w, "first", func(i *v1alpha1.ECSInstance) { i.Spec.DeletionPolicy = v1alpha1.DeletionRetain })
		})
		w.step("the first object is deleted", 5*time.Minute, func() { remove[*v1alpha1.ECSInstance](w, "first") })
		w.step("an object adopts an instance that has no object", 10*time.Minute, adopt)
		w.step("deleted", 5*time.Minute, func() { remove[*v1alpha1.ECSInstance](w, name) })
	})
	f.compare(t)
}
