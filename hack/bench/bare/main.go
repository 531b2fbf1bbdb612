// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bare measures the lower limit of the cost: 16 writers send the requests of an operator and watch nothing. Each writer takes one
// object after the other, and sends the requests for this object one by one.
//
// It writes "ready" when it is connected. Then each line of its standard input starts a batch, and it writes "done" after each:
//
//	create N NAMESPACE  creates N Applications, their Services, Deployments and Ingresses, and writes the status
//	change N NAMESPACE  changes the image of N Applications and their Deployments, and writes the status
//	jobs N NAMESPACE    creates the Jobs of one slot of N MyCronJobs
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/glassback/glassback/hack/bench/application"
	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/clients"
)

const writers = 16

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file that says how to reach the cluster")
	flag.Parse()
	if err := run(context.Background(), *kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string) error {
	config, err := clients.Load(clients.Flags{Kubeconfig: kubeconfig}, clients.Kubectl, "bare")
	if err != nil {
		return err
	}
	c, err := clients.New(config.Config)
	if err != nil {
		return err
	}
	if _, err := c.Kube.Discovery().ServerVersion(); err != nil {
		return err
	}
	fmt.Println("ready")
	b := bare{c}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var verb, ns string
		var n int
		if _, err := fmt.Sscan(lines.Text(), &verb, &n, &ns); err != nil {
			return fmt.Errorf("read %q: %w", lines.Text(), err)
		}
		do := map[string]func(context.Context, string, string) error{"create": b.create, "change": b.change, "jobs": b.job}[verb]
		if do == nil {
			return fmt.Errorf("unknown batch %q", verb)
		}
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(writers)
		for i := range n {
			group.Go(func() error { return do(ctx, ns, fmt.Sprintf("app-%d", i)) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
		fmt.Println("done")
	}
	return nil
}

type bare struct{ *clients.Clients }

func (b bare) create(ctx context.Context, ns, name string) error {
	options := metav1.CreateOptions{}
	app := &v1.Application{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.ApplicationSpec{Image: "nginx"}}
	app, err := b.Glassback.AppV1().Applications(ns).Create(ctx, app, options)
	if err != nil {
		return err
	}
	app.Default()
	meta := metav1.ObjectMeta{Name: name}
	s, d, i := &corev1.Service{ObjectMeta: meta}, &appsv1.Deployment{ObjectMeta: meta}, &networkingv1.Ingress{ObjectMeta: meta}
	application.Service(app, s)
	application.Deployment(app, d)
	application.Ingress(app, i)
	if _, err := b.Kube.CoreV1().Services(ns).Create(ctx, s, options); err != nil {
		return err
	}
	if d, err = b.Kube.AppsV1().Deployments(ns).Create(ctx, d, options); err != nil {
		return err
	}
	if _, err := b.Kube.NetworkingV1().Ingresses(ns).Create(ctx, i, options); err != nil {
		return err
	}
	app.Status = application.Status(app, d)
	_, err = b.Glassback.AppV1().Applications(ns).UpdateStatus(ctx, app, metav1.UpdateOptions{})
	return err
}

func (b bare) change(ctx context.Context, ns, name string) error {
	apps, options := b.Glassback.AppV1().Applications(ns), metav1.PatchOptions{}
	app, err := apps.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"image":"nginx:2"}}`), options)
	if err != nil {
		return err
	}
	patch := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"nginx:2"}]}}}}`)
	d, err := b.Kube.AppsV1().Deployments(ns).Patch(ctx, name, types.StrategicMergePatchType, patch, options)
	if err != nil {
		return err
	}
	status, err := json.Marshal(map[string]any{"status": application.Status(app, d)})
	if err != nil {
		return err
	}
	_, err = apps.Patch(ctx, name, types.MergePatchType, status, options, "status")
	return err
}

// job creates a Job as the controller of MyCronJobs does: with its labels, annotations and owner.
func (b bare) job(ctx context.Context, ns, name string) error {
	owner := &mcjv1.MyCronJob{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "00000000-0000-0000-0000-000000000000"}}
	now := time.Now()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:        fmt.Sprintf("%s-%d", name, now.UnixNano()),
			Labels:      map[string]string{mcjv1.LabelMyCronJob: name},
			Annotations: map[string]string{mcjv1.AnnotationSlot: fmt.Sprint(now.Unix()), mcjv1.AnnotationSkew: "100"},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(owner, mcjv1.SchemeGroupVersion.WithKind("MyCronJob")),
			},
		},
		Spec: application.JobSpec(),
	}
	_, err := b.Kube.BatchV1().Jobs(ns).Create(ctx, job, metav1.CreateOptions{})
	return err
}
