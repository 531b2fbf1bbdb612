// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command peer is an operator for Applications. It uses controller-runtime as its documentation recommends: CreateOrUpdate reads from the
// cache, and Owns watches each kind of child. A predicate ignores updates that keep the generation, such as the operator's own status
// writes. The caches hold only labelled children, without managedFields. The client has no rate limit.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime/debug"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/glassback/glassback/hack/bench/application"
	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	glassbackscheme "github.com/glassback/glassback/pkg/generated/clientset/versioned/scheme"
)

func main() {
	// controller-runtime defines the flag --kubeconfig.
	workers := flag.Int("workers", 1, "Applications that are reconciled at the same time")
	port := flag.Int("webhook-port", 0, "port of the webhooks; 0 for none")
	certificates := flag.String("webhook-cert-path", "", "directory of tls.crt and tls.key")
	profiles := flag.String("pprof-bind-address", "0", "where profiles are served; 0 for nowhere")
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	if err := run(ctrl.SetupSignalHandler(), *workers, *port, *certificates, *profiles); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, workers, port int, certificates, profiles string) error {
	// Glassback keeps an eighth of GOMEMLIMIT free, too.
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit / 8 * 7)
	}
	rest, err := clientcmd.BuildConfigFromFlags("", flag.Lookup("kubeconfig").Value.String())
	if err != nil {
		return fmt.Errorf("load kubeconfig: %w", err)
	}
	rest.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), glassbackscheme.AddToScheme(scheme)); err != nil {
		return err
	}
	labelled, err := labels.NewRequirement(v1.LabelApplication, selection.Exists, nil)
	if err != nil {
		return err
	}
	children := cache.ByObject{Label: labels.NewSelector().Add(*labelled)}
	options := ctrl.Options{
		Scheme: scheme,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&appsv1.Deployment{}: children, &corev1.Service{}: children, &networkingv1.Ingress{}: children,
			},
		},
		Metrics: metricsserver.Options{BindAddress: "0"}, PprofBindAddress: profiles,
		Controller: config.Controller{MaxConcurrentReconciles: workers},
	}
	if port != 0 {
		options.WebhookServer = webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: certificates})
	}
	manager, err := ctrl.NewManager(rest, options)
	if err != nil {
		return err
	}
	if port != 0 {
		if err := ctrl.NewWebhookManagedBy(manager, &v1.Application{}).
			WithDefaulter(webhooks{}).WithValidator(webhooks{}).Complete(); err != nil {
			return err
		}
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&v1.Application{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&appsv1.Deployment{}).Owns(&corev1.Service{}).Owns(&networkingv1.Ingress{}).
		Complete(&reconciler{manager.GetClient()})
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}

type reconciler struct{ client.Client }

// Reconcile creates or repairs the children of one Application, and writes its status if that changes.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	app := &v1.Application{}
	if err := r.Get(ctx, request.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if app.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	app.Default()
	if errs := app.Validate(nil); len(errs) > 0 {
		klog.FromContext(ctx).Error(errs.ToAggregate(), "The spec is invalid")
		return ctrl.Result{}, nil
	}
	s := &corev1.Service{}
	s.Name, s.Namespace = app.Name, app.Namespace
	if err := r.child(ctx, s, *app.Spec.Service.Enabled, func() { application.Service(app, s) }); err != nil {
		return ctrl.Result{}, err
	}
	d := &appsv1.Deployment{}
	d.Name, d.Namespace = app.Name, app.Namespace
	if err := r.child(ctx, d, true, func() { application.Deployment(app, d) }); err != nil {
		return ctrl.Result{}, err
	}
	i := &networkingv1.Ingress{}
	i.Name, i.Namespace = app.Name, app.Namespace
	if err := r.child(ctx, i, *app.Spec.Ingress.Enabled, func() { application.Ingress(app, i) }); err != nil {
		return ctrl.Result{}, err
	}
	status := application.Status(app, d)
	if equality.Semantic.DeepEqual(status, app.Status) {
		return ctrl.Result{}, nil
	}
	app.Status = status
	return ctrl.Result{}, r.Status().Update(ctx, app)
}

// child creates, updates or deletes a child.
func (r *reconciler) child(ctx context.Context, object client.Object, enabled bool, set func()) error {
	if enabled {
		_, err := controllerutil.CreateOrUpdate(ctx, r.Client, object, func() error { set(); return nil })
		return err
	}
	if err := r.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(r.Delete(ctx, object))
}

// webhooks call the same functions as Glassback's webhooks.
type webhooks struct{}

func (webhooks) Default(_ context.Context, app *v1.Application) error {
	app.Default()
	return nil
}

func (webhooks) ValidateCreate(_ context.Context, app *v1.Application) (admission.Warnings, error) {
	app.Default()
	return app.Warnings(), app.Validate(nil).ToAggregate()
}

func (w webhooks) ValidateUpdate(ctx context.Context, _, app *v1.Application) (admission.Warnings, error) {
	return w.ValidateCreate(ctx, app)
}

func (webhooks) ValidateDelete(context.Context, *v1.Application) (admission.Warnings, error) {
	return nil, nil
}
