/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
)

// BenchmarkBurst measures how fast many Applications that are created at once get
// their children and their first status, and compares it with a bare client: one
// that, knowing what the outcome was, sends the same requests with 16 writers and
// waits for nothing. In both cases the time goes from the first create to the last
// watch event here. The operator does not run beside the bare client.
//
//	go test -run '^$' -bench Burst -benchtime 3x ./e2e
func BenchmarkBurst(b *testing.B) {
	const objects = 500
	w := start(b, cluster.Config{Components: []string{cluster.Etcd, cluster.APIServer}})
	config := w.shippedAccount(b)
	args := append([]string{"--kubeconfig", config}, strings.Fields(os.Getenv("GLASSBACK_ARGS"))...)
	var children, all []float64
	for i := range b.N {
		o := launch(b, args...)
		o.waitFor("Started controller")
		withOperator := w.burst(b, fmt.Sprintf("operator-%d", i), objects, func(ns string) {
			write(b, objects, func(ctx context.Context, n int) error {
				_, err := w.glassback.AppV1().Applications(ns).Create(ctx, application(appName(n)), metav1.CreateOptions{})
				return err
			})
		})
		o.kill()
		cpu := o.cmd.ProcessState.UserTime() + o.cmd.ProcessState.SystemTime() // its start is in it
		b.ReportMetric(float64(cpu.Microseconds())/objects, "operator-cpu-µs/app")
		model := w.outcome(b, fmt.Sprintf("operator-%d", i))
		bare := w.burst(b, fmt.Sprintf("bare-%d", i), objects, func(ns string) {
			write(b, objects, func(ctx context.Context, n int) error { return w.writeLike(ctx, model, ns, appName(n)) })
		})
		b.Logf("operator: children after %s, all after %s; bare client: children after %s, all after %s",
			withOperator.children, withOperator.all, bare.children, bare.all)
		children = append(children, bare.children.Seconds()/withOperator.children.Seconds())
		all = append(all, bare.all.Seconds()/withOperator.all.Seconds())
		b.ReportMetric(objects/withOperator.all.Seconds(), "apps/s")
		b.ReportMetric(objects/bare.all.Seconds(), "bare-apps/s")
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(children), "rate-of-children")
	b.ReportMetric(median(all), "rate-of-all")
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// write calls do for every number below n, with 16 writers.
func write(b *testing.B, n int, do func(context.Context, int) error) {
	numbers := make(chan int)
	var writing sync.WaitGroup
	for range 16 {
		writing.Go(func() {
			for number := range numbers {
				if err := do(b.Context(), number); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for number := range n {
		numbers <- number
	}
	close(numbers)
	writing.Wait()
}

func appName(n int) string { return fmt.Sprintf("app-%d", n) }

// burst is how long one took: until the last child was there, and until the last
// Application had its status too.
type burst struct{ children, all time.Duration }

func (w *world) burst(b *testing.B, ns string, objects int, begin func(ns string)) burst {
	b.Helper()
	object := namespaceObject()
	object.Name, object.GenerateName = ns, ""
	if _, err := w.kube.CoreV1().Namespaces().Create(b.Context(), object, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
	defer cancel()
	options := metav1.ListOptions{}
	deployments, err1 := w.kube.AppsV1().Deployments(ns).Watch(ctx, options)
	services, err2 := w.kube.CoreV1().Services(ns).Watch(ctx, options)
	ingresses, err3 := w.kube.NetworkingV1().Ingresses(ns).Watch(ctx, options)
	applications, err4 := w.glassback.AppV1().Applications(ns).Watch(ctx, options)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			b.Fatal(err)
		}
	}
	var last [4]time.Time
	var watching sync.WaitGroup
	for i, w := range []watch.Interface{deployments, services, ingresses, applications} {
		watching.Go(func() {
			defer w.Stop()
			seen := map[string]bool{}
			for event := range w.ResultChan() {
				object, ok := event.Object.(metav1.Object)
				if app, is := event.Object.(*appv1.Application); !ok || is && app.Status.ObservedGeneration == 0 {
					continue
				}
				seen[object.GetName()] = true
				if len(seen) == objects {
					last[i] = time.Now()
					return
				}
			}
			b.Errorf("watch %d ended after %d of %d objects", i, len(seen), objects)
		})
	}
	begun := time.Now()
	begin(ns)
	watching.Wait()
	if b.Failed() {
		b.FailNow()
	}
	ofChildren := slices.MaxFunc(last[:3], time.Time.Compare)
	return burst{ofChildren.Sub(begun), slices.MaxFunc(last[:], time.Time.Compare).Sub(begun)}
}

// outcome is what the operator has made of one Application: the fields that it
// applied, and the status.
type outcome struct {
	deployment *appsv1ac.DeploymentApplyConfiguration
	service    *corev1ac.ServiceApplyConfiguration
	ingress    *networkingv1ac.IngressApplyConfiguration
	status     appv1.ApplicationStatus
}

func (w *world) outcome(b *testing.B, ns string) outcome {
	b.Helper()
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	name, ctx := appName(0), b.Context()
	d, err := w.kube.AppsV1().Deployments(ns).Get(ctx, name, metav1.GetOptions{})
	must(err)
	s, err := w.kube.CoreV1().Services(ns).Get(ctx, name, metav1.GetOptions{})
	must(err)
	i, err := w.kube.NetworkingV1().Ingresses(ns).Get(ctx, name, metav1.GetOptions{})
	must(err)
	app, err := w.glassback.AppV1().Applications(ns).Get(ctx, name, metav1.GetOptions{})
	must(err)
	var o outcome
	o.deployment, err = appsv1ac.ExtractDeployment(d, glassback.Name)
	must(err)
	o.service, err = corev1ac.ExtractService(s, glassback.Name)
	must(err)
	o.ingress, err = networkingv1ac.ExtractIngress(i, glassback.Name)
	must(err)
	o.status = app.Status
	return o
}

// writeLike creates an Application that the operator leaves alone, and writes all
// that the operator would.
func (w *world) writeLike(ctx context.Context, model outcome, ns, name string) error {
	app := application(name)
	app.Annotations = map[string]string{glassback.AnnotationPaused: "true"}
	app, err := w.glassback.AppV1().Applications(ns).Create(ctx, app, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	options := metav1.ApplyOptions{FieldManager: glassback.Name, Force: true}
	// Copies, as far as they are changed; what is below the metadata has the model's
	// name in it, which is of the same length or shorter.
	s, meta := *model.service, *model.service.ObjectMetaApplyConfiguration
	s.ObjectMetaApplyConfiguration = meta.WithName(name).WithNamespace(ns).WithResourceVersion("1")
	if _, err := w.kube.CoreV1().Services(ns).Apply(ctx, &s, options); err != nil {
		return err
	}
	d, meta := *model.deployment, *model.deployment.ObjectMetaApplyConfiguration
	d.ObjectMetaApplyConfiguration = meta.WithName(name).WithNamespace(ns).WithResourceVersion("1")
	if _, err := w.kube.AppsV1().Deployments(ns).Apply(ctx, &d, options); err != nil {
		return err
	}
	i, meta := *model.ingress, *model.ingress.ObjectMetaApplyConfiguration
	i.ObjectMetaApplyConfiguration = meta.WithName(name).WithNamespace(ns).WithResourceVersion("1")
	if _, err := w.kube.NetworkingV1().Ingresses(ns).Apply(ctx, &i, options); err != nil {
		return err
	}
	app.Status = model.status
	_, err = w.glassback.AppV1().Applications(ns).UpdateStatus(ctx, app, metav1.UpdateOptions{FieldManager: glassback.Name})
	return err
}

// application is the seed's Application.
func application(name string) *appv1.Application {
	return &appv1.Application{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appv1.ApplicationSpec{Image: "nginx"}}
}
