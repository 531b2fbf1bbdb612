// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/permissions"
	"github.com/glassback/glassback/pkg/webhook"
	"github.com/glassback/glassback/pkg/webhook/certificate"
)

// The webhooks still answer for this time after the operator has begun to stop. API servers and nodes notice the deletion of a
// configuration or of a Pod only after a moment.
const (
	lingerOutside   = time.Second
	lingerInCluster = 5 * time.Second
)

// removePatience limits the deletion of the registration at the end: the API server may not answer.
const removePatience = 5 * time.Second

// webhooks answer the API server's admission requests. In the mode WebhooksOnlyCertificate they only keep a certificate for the metrics
// and the page.
type webhooks struct {
	mode        options.WebhookMode
	listener    net.Listener // nil in the mode WebhooksOnlyCertificate
	handler     *webhook.Handler
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	linger      time.Duration
	observers   *observers

	keeper       *certificate.Keeper         // nil if the certificate comes from files
	informers    []*informers                // the informers of the keeper
	remove       func(context.Context) error // deletes the configurations that the keeper created; nil except in fromURL
	unregistered func() bool                 // whether the configurations that a user must apply are missing; nil if there is none to apply
}

// newWebhooks sets up the webhooks and starts to listen. It returns nil if nothing needs them or their certificate.
func newWebhooks(ctx context.Context, o *options.Options, c *clients.Clients, observers *observers) (*webhooks, error) {
	w := &webhooks{
		mode: o.WebhookMode(), handler: webhook.NewHandler(c.Glassback, observers.metrics.Webhook), linger: lingerOutside, observers: observers,
	}
	if o.InCluster() {
		w.linger = lingerInCluster
	}
	switch w.mode {
	case options.WebhooksOff:
		if o.Webhooks {
			klog.FromContext(ctx).Info("No webhooks: outside of a cluster they need --webhook-url https://HOST:PORT, " +
				"by which the API server calls them")
		}
		return nil, nil
	case options.WebhooksOnlyCertificate:
		if err := w.fromSecret(ctx, o, c); err != nil { // Its rights are newer than those of some installations.
			klog.FromContext(ctx).Info("The certificate of the metrics and the page is self-signed, and changes with each start",
				"reason", err.Error())
			return nil, nil
		}
		return w, nil
	}
	err := permissions.Require(ctx, c.Kube, o.Namespaces, webhook.NeedsHandler)
	if err != nil {
		return nil, fmt.Errorf("for its webhooks (--webhooks=false leaves them out) %w", err)
	}
	switch w.mode {
	case options.WebhooksFromFiles:
		err = w.fromFiles(o)
	case options.WebhooksFromService:
		err = w.fromSecret(ctx, o, c)
	case options.WebhooksFromURL:
		err = w.fromURL(ctx, o, c)
	}
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", o.WebhookAddress())
	if err != nil {
		return nil, fmt.Errorf("cannot serve the webhooks, choose another port with --webhook-port, "+
			"or leave them out with --webhooks=false: %w", err)
	}
	w.listener = webhook.Bounded(listener, observers.metrics.Refused("webhooks"))
	return w, nil
}

func (w *webhooks) fromFiles(o *options.Options) error {
	files, err := certificate.OpenFiles(cmp.Or(o.WebhookCertPath, options.DefaultCertPath), w.observers.metrics.CertificateRead)
	if err != nil {
		return fmt.Errorf("--webhook-cert-path must be a directory with %s and %s: %w", certificate.CertFile, certificate.KeyFile, err)
	}
	w.certificate = files.GetCertificate
	return nil
}

// fromSecret keeps the CA in a Secret, which the replicas share, and publishes its certificate.
func (w *webhooks) fromSecret(ctx context.Context, o *options.Options, c *clients.Clients) error {
	namespace := command.OwnNamespace()
	if namespace == "" {
		return fmt.Errorf("cannot find the namespace of this Pod: the file %s does not exist", command.NamespaceFile)
	}
	where := "in namespace " + namespace + ": apply artifacts/rbac"
	if err := permissions.RequireIn(ctx, c.Kube, namespace, certificate.NeedsSecret, where); err != nil {
		return fmt.Errorf("for its webhooks (--webhooks=false leaves them out) %w", err)
	}
	core, own := c.Kube.CoreV1(), newInformers(c, namespace, o.Queue, w.observers)
	secrets := own.Secret(certificate.SecretName)
	watched := map[string]cache.SharedIndexInformer{"Secret": secrets.Informer()}
	w.informers = []*informers{own}
	var published certificate.Registration
	if err := permissions.RequireIn(ctx, c.Kube, namespace, certificate.NeedsConfigMap, where); err != nil {
		klog.FromContext(ctx).Info("The CA is not published", "configMap", certificate.ConfigMapName, "reason", err.Error())
	} else {
		configMaps := own.ConfigMap(certificate.ConfigMapName)
		watched["ConfigMap"] = configMaps.Informer()
		published = certificate.ConfigMap{ConfigMaps: configMaps.Lister().ConfigMaps(namespace), Client: core.ConfigMaps(namespace)}
	}
	var registrations []certificate.Registration
	if w.mode == options.WebhooksFromService {
		err := permissions.RequireIn(ctx, c.Kube, metav1.NamespaceAll, webhook.NeedsInjection, "in the cluster: apply artifacts/rbac")
		if err != nil {
			return fmt.Errorf("for its webhooks (--webhooks=false leaves them out) %w", err)
		}
		cluster := newInformers(c, metav1.NamespaceAll, o.Queue, w.observers)
		mutating := cluster.MutatingWebhookConfiguration(webhook.ConfigurationName).Informer()
		validating := cluster.ValidatingWebhookConfiguration(webhook.ConfigurationName).Informer()
		watched["MutatingWebhookConfiguration"], watched["ValidatingWebhookConfiguration"] = mutating, validating
		w.informers = append(w.informers, cluster)
		service := types.NamespacedName{Namespace: namespace, Name: webhook.ServiceName}
		admission := c.Kube.AdmissionregistrationV1()
		registrations = []certificate.Registration{
			webhook.Inject(webhook.ConfigurationName, mutating.GetStore(), admission.MutatingWebhookConfigurations(), service),
			webhook.Inject(webhook.ConfigurationName, validating.GetStore(), admission.ValidatingWebhookConfigurations(), service),
		}
		w.unregistered = func() bool { return !slices.ContainsFunc(registrations, registers) }
	}
	return w.keep(certificate.Config{
		Store:         certificate.SecretStore{Secrets: secrets.Lister().Secrets(namespace), Client: core.Secrets(namespace)},
		Shared:        true,
		Registrations: registrations,
		Published:     published,
		Names:         []string{webhook.ServiceName + "." + namespace + ".svc", webhook.MetricsServiceName + "." + namespace + ".svc"},
		Now:           c.Time.Now,
	}, watched)
}

// registers reports whether a configuration has webhooks whose caBundle this operator writes. It returns true if it cannot tell.
func registers(r certificate.Registration) bool {
	bundles, err := r.Bundles()
	return err != nil || len(bundles) > 0
}

func (w *webhooks) fromURL(ctx context.Context, o *options.Options, c *clients.Clients) error {
	if err := permissions.RequireIn(ctx, c.Kube, metav1.NamespaceAll, webhook.NeedsRegistration,
		"in the cluster: apply artifacts/rbac/webhook_url_role.yaml and its binding, or use an account that may"); err != nil {
		return fmt.Errorf("for --webhook-url %w", err)
	}
	u, err := url.Parse(o.WebhookURL)
	if err != nil {
		return err // The options have been validated.
	}
	var namespaces []string
	if o.Namespaces[0] != metav1.NamespaceAll {
		namespaces = o.Namespaces
	}
	cluster := newInformers(c, metav1.NamespaceAll, o.Queue, w.observers)
	name := webhook.NameByURL(u)
	mutating := cluster.MutatingWebhookConfiguration(name).Informer()
	validating := cluster.ValidatingWebhookConfiguration(name).Informer()
	ownMutating := webhook.Own(mutating.GetStore(), c.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations(),
		func(caBundle []byte) *admissionregistrationv1.MutatingWebhookConfiguration {
			return webhook.ByURL(u, namespaces, caBundle).MutatingConfiguration(name)
		})
	ownValidating := webhook.Own(validating.GetStore(), c.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations(),
		func(caBundle []byte) *admissionregistrationv1.ValidatingWebhookConfiguration {
			return webhook.ByURL(u, namespaces, caBundle).ValidatingConfiguration(name)
		})
	w.informers = []*informers{cluster}
	w.remove = func(ctx context.Context) error {
		return errors.Join(ownMutating.Remove(ctx), ownValidating.Remove(ctx))
	}
	return w.keep(certificate.Config{
		Store:         &certificate.MemoryStore{},
		Registrations: []certificate.Registration{ownMutating, ownValidating},
		Names:         []string{u.Hostname()}, Now: c.Time.Now,
	}, map[string]cache.SharedIndexInformer{"MutatingWebhookConfiguration": mutating, "ValidatingWebhookConfiguration": validating})
}

// keep creates the keeper, and connects it with the informers.
func (w *webhooks) keep(config certificate.Config, watched map[string]cache.SharedIndexInformer) error {
	config.Lifetimes = certificate.DefaultLifetimes
	config.Observers, config.Serving = w.observers.ofLoop(certificate.Name), w.observers.metrics.CertificateServed
	config.Clock = clock.RealClock{}
	w.keeper = certificate.New(config)
	w.certificate = w.keeper.Leaf().GetCertificate
	for kind, informer := range watched {
		if err := w.keeper.Watch(informer, kind); err != nil {
			return err
		}
	}
	return nil
}

// run serves until ctx ends, and then for the linger time. It returns an error if it could not serve.
func (w *webhooks) run(ctx, drain context.Context) error {
	logger := klog.FromContext(ctx).WithValues("webhooks", w.mode)
	ctx, stop := context.WithCancel(klog.NewContext(ctx, logger))
	defer stop()
	if w.listener == nil {
		w.runKeeper(ctx, drain)
		return nil
	}
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	served := make(chan error, 1)
	go func() {
		logger.Info("Serving webhooks", "address", w.listener.Addr())
		served <- webhook.Serve(serving, w.listener, w.handler, w.certificate, w.linger)
		stop()
	}()
	if w.keeper != nil {
		w.runKeeper(ctx, drain)
	}
	<-ctx.Done()
	if w.remove != nil { // The keeper has ended: it would create the configurations again.
		removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), removePatience)
		defer cancel()
		if err := w.remove(removing); err != nil {
			logger.Error(err, "Could not remove the registration of the webhooks; the next start with the same --webhook-url takes it over")
		}
	}
	stopServing()
	return <-served
}

// runKeeper runs the keeper and its informers until ctx is done.
func (w *webhooks) runKeeper(ctx, drain context.Context) {
	drain = klog.NewContext(drain, klog.FromContext(ctx))
	caches, stopCaches := context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		stopCaches()
		for _, f := range w.informers {
			f.Shutdown()
		}
	}()
	for _, f := range w.informers {
		f.Start(caches)
	}
	for _, f := range w.informers {
		if !f.WaitForSync(ctx) {
			return // ctx has ended
		}
	}
	if w.unregistered != nil && w.unregistered() {
		klog.FromContext(ctx).Info("No webhook configuration calls this operator's Service, or cert-manager keeps it: apply artifacts/webhook",
			"name", webhook.ConfigurationName, "service", webhook.ServiceName)
	}
	w.keeper.Run(ctx, drain)
}
