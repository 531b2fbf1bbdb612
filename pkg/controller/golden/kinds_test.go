// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	jobsv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	batchv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/controller/apiexamplea"
	"github.com/glassback/glassback/pkg/controller/application"
	"github.com/glassback/glassback/pkg/controller/ecsinstance"
	"github.com/glassback/glassback/pkg/controller/mycronjob"
)

func newApiExampleA(w *world) (controller, error) {
	return apiexamplea.New(apiexamplea.Config{
		Kube: w.kube, Client: w.own, ApiExampleAs: w.ownFrom.Groupa().V1().ApiExampleAs(), ConfigMaps: w.kubeFrom.Core().V1().ConfigMaps(),
		Recorder: w.recorder, Clock: clock.RealClock{},
	})
}

func TestApiExampleA(t *testing.T) {
	f := &file{name: "apiexamplea"}
	for _, path := range exampleFiles(t, "apiexamplea") {
		scenario(t, f, title(path), newApiExampleA, func(w *world) {
			w.step("applied", time.Minute, func() { w.apply(w.read(path)...) })
		})
	}
	scenario(t, f, "edited, and in trouble", newApiExampleA, func(w *world) {
		const name = "apiexamplea-sample"
		greets := func(first string) func(*groupav1.ApiExampleA) {
			return func(e *groupav1.ApiExampleA) { e.Spec.FirstName, e.Spec.LastName = first, "Zhuang" }
		}
		w.step("applied", time.Minute, func() { w.apply(w.read(examples + "/apiexamplea.yaml")...) })
		w.step("greets another person", time.Minute, func() { change(w, name, greets("Ada")) })
		w.step("the greeting is overwritten", time.Minute, func() {
			change(w, name+"-greeting", func(c *corev1.ConfigMap) { c.Data["greeting"], c.Data["other"] = "overwritten", "kept" })
		})
		w.step("the spec is invalid", time.Minute, func() { change(w, name, greets("a\nb")) })
		w.step("the ConfigMap is another owner's", time.Minute, func() {
			change(w, name+"-greeting", func(c *corev1.ConfigMap) { c.OwnerReferences = nil })
		})
		w.step("the spec is valid again", time.Minute, func() { change(w, name, greets("Grace")) })
	})
	f.compare(t)
}

func newApplication(w *world) (controller, error) {
	return application.New(application.Config{
		Kube: w.kube, Client: w.own, Applications: w.ownFrom.App().V1().Applications(), Deployments: w.kubeFrom.Apps().V1().Deployments(),
		Services: w.kubeFrom.Core().V1().Services(), Ingresses: w.kubeFrom.Networking().V1().Ingresses(),
		Autoscalers: w.kubeFrom.Autoscaling().V2().HorizontalPodAutoscalers(), Budgets: w.kubeFrom.Policy().V1().PodDisruptionBudgets(),
		Gateway: w.Gateway(), Routes: w.routesOf.Gateway().V1().HTTPRoutes(),
		Recorder: w.recorder, Clock: clock.RealClock{}, Version: w.ReadVersion,
	})
}

// deployed has the Deployment's controller report Pods, and what is the case with its rollout.
func deployed(w *world, name string, replicas, updated, available int32, conditions ...appsv1.DeploymentCondition) {
	change(w, name, func(d *appsv1.Deployment) {
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: replicas, UpdatedReplicas: updated, ReadyReplicas: available, AvailableReplicas: available,
			Conditions: conditions,
		}
	})
}

func condition(of appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string) appsv1.DeploymentCondition {
	return appsv1.DeploymentCondition{Type: of, Status: status, Reason: reason, Message: message}
}

func TestApplicationExamples(t *testing.T) {
	f := &file{name: "application-examples"}
	for _, path := range append(exampleFiles(t, "application"), "../application/testdata/minimal.yaml", "../application/testdata/full.yaml") {
		scenario(t, f, title(path), newApplication, func(w *world) {
			w.step("applied", time.Minute, func() { w.apply(w.read(path)...) })
		})
	}
	f.compare(t)
}

func TestApplicationPhases(t *testing.T) {
	const name = "application-sample"
	var (
		complete = condition(appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetAvailable",
			"ReplicaSet has successfully progressed.")
		updating = condition(appsv1.DeploymentProgressing, corev1.ConditionTrue, "ReplicaSetUpdated", "ReplicaSet is progressing.")
		stuck    = condition(appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded",
			"ReplicaSet has timed out progressing.")
		refused   = condition(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate", "pods is forbidden: exceeded quota")
		available = condition(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable",
			"Deployment has minimum availability.")
		unavailable = condition(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable",
			"Deployment does not have minimum availability.")
	)
	f := &file{name: "application-phases"}
	scenario(t, f, "from the first Pod to the end", newApplication, func(w *world) {
		edit := func(do func(*appv1.ApplicationSpec)) func() {
			return func() { change(w, name, func(app *appv1.Application) { do(&app.Spec) }) }
		}
		w.step("applied", time.Minute, func() { w.apply(w.read(examples + "/application.yaml")...) })
		w.step("a Pod starts", time.Minute, func() { deployed(w, name, 1, 1, 0, updating, unavailable) })
		w.step("the Pod is available", time.Minute, func() { deployed(w, name, 1, 1, 1, complete, available) })
		w.step("three Pods are wanted", time.Minute, edit(func(s *appv1.ApplicationSpec) { s.Replicas = ptr.To[int32](3) }))
		w.step("one of them is available", time.Minute, func() { deployed(w, name, 3, 3, 1, complete, unavailable) })
		w.step("all of them are available", time.Minute, func() { deployed(w, name, 3, 3, 3, complete, available) })
		w.step("another image, whose Pods cannot be made", time.Minute, func() {
			edit(func(s *appv1.ApplicationSpec) { s.Image = "nginx:stable" })()
		})
		w.step("a Pod cannot be made", time.Minute, func() { deployed(w, name, 3, 0, 3, updating, available, refused) })
		w.step("the rollout takes too long", time.Minute, func() { deployed(w, name, 3, 1, 2, stuck, available) })
		w.step("the rollout is complete", time.Minute, func() { deployed(w, name, 3, 3, 3, complete, available) })
		w.step("an autoscaler and a budget", time.Minute, edit(func(s *appv1.ApplicationSpec) {
			s.Autoscaling = &appv1.Autoscaling{MinReplicas: ptr.To[int32](2), MaxReplicas: 5}
			s.PDB = &appv1.DisruptionBudget{MaxUnavailable: ptr.To(intstr.FromInt32(1))}
		}))
		w.step("no Ingress, no Service, no autoscaler, no budget", time.Minute, edit(func(s *appv1.ApplicationSpec) {
			s.Autoscaling, s.PDB, s.Ingress.Enabled, s.Service.Enabled = nil, nil, ptr.To(false), ptr.To(false)
		}))
	})
	scenario(t, f, "in trouble", newApplication, func(w *world) {
		w.step("applied, and the Service is another owner's", time.Minute, func() {
			w.apply(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}})
			w.apply(w.read(examples + "/application.yaml")...)
		})
		w.step("the image is overwritten by another", time.Minute, func() {
			change(w, name, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "evil" })
		})
		w.step("the spec is invalid", time.Minute, func() { change(w, name, func(app *appv1.Application) { app.Spec.Image = "" }) })
	})
	f.compare(t)
}

func newMyCronJob(w *world) (controller, error) {
	return mycronjob.New(mycronjob.Config{
		Kube: w.kube, Client: w.own, MyCronJobs: w.ownFrom.Batch().V1().MyCronJobs(), Jobs: w.kubeFrom.Batch().V1().Jobs(),
		Recorder: w.recorder, Clock: clock.RealClock{},
	})
}

// ended has the controller of Jobs report how a Job has ended.
func ended(w *world, name string, how jobsv1.JobConditionType) {
	change(w, name, func(job *jobsv1.Job) {
		job.Status.Conditions = []jobsv1.JobCondition{{Type: how, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now())}}
	})
}

// runNow asks for a Job at once.
func runNow(w *world, value string) func() {
	return func() {
		change(w, "mycronjob-sample", func(m *batchv1.MyCronJob) { m.Annotations = map[string]string{batchv1.AnnotationRunNow: value} })
	}
}

func TestMyCronJobExamples(t *testing.T) {
	f := &file{name: "mycronjob-examples"}
	for _, path := range exampleFiles(t, "mycronjob") {
		scenario(t, f, title(path), newMyCronJob, func(w *world) {
			created := w.read(path)
			w.step("applied", time.Second, func() { w.apply(created...) })
			w.step("two slots", twoSlots[title(path)], nil)
		})
	}
	f.compare(t)
}

// twoSlots is how long it takes from 2000-01-01, a Saturday, until two slots of the example have passed.
var twoSlots = map[string]time.Duration{
	"mycronjob":          10 * time.Second,
	"mycronjob-forbid":   65 * time.Second,
	"mycronjob-jitter":   2*time.Hour + 5*time.Minute,
	"mycronjob-labels":   125 * time.Second,
	"mycronjob-schedule": 4 * 24 * time.Hour,
}

func TestMyCronJobPhases(t *testing.T) {
	const name = "mycronjob-sample"
	f := &file{name: "mycronjob-phases"}
	edit := func(w *world, do func(*batchv1.MyCronJobSpec)) func() {
		return func() { change(w, name, func(m *batchv1.MyCronJob) { do(&m.Spec) }) }
	}
	begin := func(w *world, interval int32) {
		w.step("applied", time.Second, func() {
			created := w.read(examples + "/mycronjob.yaml")
			created[0].(*batchv1.MyCronJob).Spec.IntervalSeconds = ptr.To(interval)
			w.apply(created...)
		})
	}
	scenario(t, f, "Jobs succeed, fail and are cleaned up", newMyCronJob, func(w *world) {
		begin(w, 60)
		w.step("one history is not kept, the other for one Job", time.Second, edit(w, func(s *batchv1.MyCronJobSpec) {
			s.SuccessfulJobsHistoryLimit, s.FailedJobsHistoryLimit = ptr.To[int32](0), ptr.To[int32](1)
		}))
		w.step("a slot", time.Minute, nil)
		w.step("its Job succeeds", 20*time.Second, func() { ended(w, name+"-946684860", jobsv1.JobComplete) })
		w.step("another slot", 40*time.Second, nil)
		w.step("its Job fails", 20*time.Second, func() { ended(w, name+"-946684920", jobsv1.JobFailed) })
		w.step("suspended", 2*time.Minute, edit(w, func(s *batchv1.MyCronJobSpec) { s.Suspend = ptr.To(true) }))
		w.step("resumed with a schedule", time.Minute, edit(w, func(s *batchv1.MyCronJobSpec) {
			s.Suspend, s.IntervalSeconds, s.Schedule, s.TimeZone = ptr.To(false), nil, ptr.To("*/2 * * * *"), ptr.To("Asia/Shanghai")
		}))
		w.step("the spec is invalid", time.Minute, edit(w, func(s *batchv1.MyCronJobSpec) { s.Schedule = ptr.To("* * *") }))
	})
	scenario(t, f, "slots are missed, since another owner's Job has the name, and since a Job runs", newMyCronJob, func(w *world) {
		w.apply(&jobsv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name + "-946684830"}})
		begin(w, 30)
		w.step("a slot whose name is taken", 35*time.Second, edit(w, func(s *batchv1.MyCronJobSpec) {
			s.ConcurrencyPolicy = batchv1.ForbidConcurrent
		}))
		w.step("a slot with a Job, and one that it holds up", time.Minute, nil)
		w.step("replaced instead", 30*time.Second, edit(w, func(s *batchv1.MyCronJobSpec) { s.ConcurrencyPolicy = batchv1.ReplaceConcurrent }))
	})
	scenario(t, f, "run now", newMyCronJob, func(w *world) {
		begin(w, 3600)
		w.step("the first value", time.Minute, runNow(w, "first"))
		w.step("the second value", time.Minute, runNow(w, "second"))
		w.step("the first value again", time.Minute, runNow(w, "first"))
		w.step("suspended, and a third value", time.Minute, func() {
			change(w, name, func(m *batchv1.MyCronJob) {
				m.Spec.Suspend, m.Annotations = ptr.To(true), map[string]string{batchv1.AnnotationRunNow: "2026-01-01T00:00:00Z"}
			})
		})
	})
	f.compare(t)
}

// ecs is the simulator before which the controller of a scenario runs. It notes every call that changes something.
type ecs struct {
	*ecssim.Server

	w *world
}

// RoundTrip carries a call out, and notes it.
func (e *ecs) RoundTrip(request *http.Request) (*http.Response, error) {
	var form bytes.Buffer
	parsed := request.Clone(request.Context())
	if request.Body != nil {
		parsed.Body, request.Body = io.NopCloser(io.TeeReader(request.Body, &form)), io.NopCloser(&form)
	}
	if err := parsed.ParseForm(); err != nil {
		return nil, err
	}
	params := parsed.Form
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
			Refuse: (&ecsinstance.OwnCredentials{}).Refusal,
			Client: w.own, ECSInstances: w.ownFrom.Alibabacloud().V1alpha1().ECSInstances(), Secrets: w.Server.Kube().CoreV1(),
			Open:     func(key *aliyun.AccessKey, region string) ecsinstance.Cloud { return cloud.Open(key, region) },
			Recorder: w.recorder, Clock: clock.RealClock{}, Version: w.ReadVersion,
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
