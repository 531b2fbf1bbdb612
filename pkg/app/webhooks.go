/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/trace"
	"github.com/glassback/glassback/pkg/webhook"
	"github.com/glassback/glassback/pkg/webhook/certificate"
)

// webhookMode is where the certificate of the webhooks comes from, and who registers
// them with the API server.
type webhookMode string

const (
	webhooksOff         webhookMode = "off"
	webhooksFromFiles   webhookMode = "files"   // of --webhook-cert-path; registered by manifest
	webhooksFromService webhookMode = "service" // CA in a Secret; registered by manifest, with a caBundle that is kept
	webhooksFromURL     webhookMode = "url"     // CA in memory; registered by this process
)

// The Services of artifacts/webhook and artifacts/manager.
const (
	serviceName        = "glassback-webhook"
	metricsServiceName = "glassback-metrics"
)

// namespaceFile says which namespace a Pod is in.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// How long the webhooks go on answering after it was said that they end. API servers take
// a moment to notice that a configuration is gone, and nodes that a Pod is.
const (
	lingerOutside   = time.Second
	lingerInCluster = 5 * time.Second
)

// removePatience is how long an API server that does not answer can keep the end waiting.
const removePatience = 5 * time.Second

// webhooks answer the API server's admission requests.
type webhooks struct {
	mode        webhookMode
	listener    net.Listener
	handler     *webhook.Handler
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	linger      time.Duration

	keeper       *certificate.Keeper         // nil with files
	informers    []*factories                // what the keeper watches
	remove       func(context.Context) error // deletes what the keeper has registered; nil if that was others
	unregistered func() bool                 // whether others should have, and have not; nil if they need not
}

// webhookMode returns which of the modes the options ask for.
func (o *options) webhookMode() webhookMode {
	switch {
	case !o.webhooks:
		return webhooksOff
	case o.webhookURL != "":
		return webhooksFromURL
	case o.webhookCertPath != "", exists(filepath.Join(defaultCertPath, certificate.CertFile)):
		return webhooksFromFiles
	case o.inCluster():
		return webhooksFromService
	default:
		return webhooksOff // Nobody could call them.
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// newWebhooks sets up the webhooks, and listens. It returns nil if there are to be none.
func newWebhooks(ctx context.Context, o *options, c *clients, stages *trace.Recorder) (*webhooks, error) {
	w := &webhooks{mode: o.webhookMode(), handler: webhook.NewHandler(c.glassback), linger: lingerOutside}
	if o.inCluster() {
		w.linger = lingerInCluster
	}
	if w.mode == webhooksOff {
		if o.webhooks {
			klog.FromContext(ctx).Info("No webhooks: outside of a cluster they need --webhook-url https://HOST:PORT, by which the API server calls them")
		}
		return nil, nil
	}
	err := checkPermissions(ctx, c.kube, o.namespaces, handlerNeeds)
	if err != nil {
		return nil, fmt.Errorf("for its webhooks (--webhooks=false leaves them out) %w", err)
	}
	switch w.mode {
	case webhooksFromFiles:
		err = w.fromFiles(o)
	case webhooksFromService:
		err = w.fromService(ctx, o, c, stages)
	case webhooksFromURL:
		err = w.fromURL(ctx, o, c, stages)
	}
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", o.webhookAddress())
	if err != nil {
		return nil, fmt.Errorf("cannot serve the webhooks, choose another port with --webhook-port, or leave them out with --webhooks=false: %w", err)
	}
	w.listener = webhook.Bounded(listener, "webhooks")
	return w, nil
}

// webhookAddress is where the webhooks listen: for a URL of this machine alone, on this
// machine alone.
func (o *options) webhookAddress() string {
	host := ""
	if u, err := url.Parse(o.webhookURL); err == nil {
		if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip.IsLoopback() {
			host = u.Hostname()
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(o.webhookPort))
}

func (w *webhooks) fromFiles(o *options) error {
	dir := o.webhookCertPath
	if dir == "" {
		dir = defaultCertPath
	}
	files, err := certificate.OpenFiles(dir)
	if err != nil {
		return fmt.Errorf("--webhook-cert-path must be a directory with %s and %s: %w", certificate.CertFile, certificate.KeyFile, err)
	}
	w.certificate = files.GetCertificate
	return nil
}

func (w *webhooks) fromService(ctx context.Context, o *options, c *clients, stages *trace.Recorder) error {
	namespace := ownNamespace()
	if namespace == "" {
		return fmt.Errorf("it is not known which namespace this Pod is in: there is no %s", namespaceFile)
	}
	if err := errors.Join(
		checkPermissionsIn(ctx, c.kube, namespace, secretNeeds, "in namespace "+namespace+": apply artifacts/rbac"),
		checkPermissionsIn(ctx, c.kube, metav1.NamespaceAll, injectionNeeds, "in the cluster: apply artifacts/rbac"),
	); err != nil {
		return fmt.Errorf("for its webhooks (--webhooks=false leaves them out) %w", err)
	}
	own, cluster := newFactories(c, namespace, o.queue, stages), newFactories(c, metav1.NamespaceAll, o.queue, stages)
	secrets := own.secret(certificate.SecretName)
	mutating := cluster.mutatingWebhookConfiguration(webhook.ConfigurationName).Informer()
	validating := cluster.validatingWebhookConfiguration(webhook.ConfigurationName).Informer()
	service := types.NamespacedName{Namespace: namespace, Name: serviceName}
	w.informers = []*factories{own, cluster}
	registrations := []certificate.Registration{
		webhook.Inject(webhook.ConfigurationName, mutating.GetStore(), c.kube.AdmissionregistrationV1().MutatingWebhookConfigurations(), service),
		webhook.Inject(webhook.ConfigurationName, validating.GetStore(), c.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations(), service),
	}
	w.unregistered = func() bool { return !slices.ContainsFunc(registrations, registers) }
	return w.keep(certificate.Config{
		Store:         certificate.SecretStore{Secrets: secrets.Lister().Secrets(namespace), Client: c.kube.CoreV1().Secrets(namespace)},
		Shared:        true,
		Registrations: registrations,
		Names:         []string{serviceName + "." + namespace + ".svc", metricsServiceName + "." + namespace + ".svc"}, Now: c.time.Now, Trace: stages,
	}, map[string]cache.SharedIndexInformer{"Secret": secrets.Informer(), "MutatingWebhookConfiguration": mutating, "ValidatingWebhookConfiguration": validating})
}

// registers reports whether a configuration has webhooks that this operator keeps.
func registers(r certificate.Registration) bool {
	bundles, err := r.Bundles()
	return err != nil || len(bundles) > 0
}

func (w *webhooks) fromURL(ctx context.Context, o *options, c *clients, stages *trace.Recorder) error {
	if err := checkPermissionsIn(ctx, c.kube, metav1.NamespaceAll, registrationNeeds,
		"in the cluster: apply artifacts/rbac/webhook_url_role.yaml and its binding, or use an account that may"); err != nil {
		return fmt.Errorf("for --webhook-url %w", err)
	}
	u, err := url.Parse(o.webhookURL)
	if err != nil {
		return err // The options have been validated.
	}
	var namespaces []string
	if o.namespaces[0] != metav1.NamespaceAll {
		namespaces = o.namespaces
	}
	cluster := newFactories(c, metav1.NamespaceAll, o.queue, stages)
	name := webhook.NameByURL(u)
	mutating := cluster.mutatingWebhookConfiguration(name).Informer()
	validating := cluster.validatingWebhookConfiguration(name).Informer()
	ownMutating := webhook.Own(mutating.GetStore(), c.kube.AdmissionregistrationV1().MutatingWebhookConfigurations(),
		func(caBundle []byte) *admissionregistrationv1.MutatingWebhookConfiguration {
			return webhook.ByURL(u, namespaces, caBundle).MutatingConfiguration(name)
		})
	ownValidating := webhook.Own(validating.GetStore(), c.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations(),
		func(caBundle []byte) *admissionregistrationv1.ValidatingWebhookConfiguration {
			return webhook.ByURL(u, namespaces, caBundle).ValidatingConfiguration(name)
		})
	w.informers = []*factories{cluster}
	w.remove = func(ctx context.Context) error {
		return errors.Join(ownMutating.Remove(ctx), ownValidating.Remove(ctx))
	}
	return w.keep(certificate.Config{
		Store:         &certificate.MemoryStore{},
		Registrations: []certificate.Registration{ownMutating, ownValidating},
		Names:         []string{u.Hostname()}, Now: c.time.Now, Trace: stages,
	}, map[string]cache.SharedIndexInformer{"MutatingWebhookConfiguration": mutating, "ValidatingWebhookConfiguration": validating})
}

// keep makes the keeper, and has it watch.
func (w *webhooks) keep(config certificate.Config, watched map[string]cache.SharedIndexInformer) error {
	config.Lifetimes = certificate.DefaultLifetimes
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

// run serves until ctx ends, and a little longer. It returns an error if the webhooks could
// not be served.
func (w *webhooks) run(ctx, drain context.Context) error {
	logger := klog.FromContext(ctx).WithValues("webhooks", w.mode)
	ctx, stop := context.WithCancel(klog.NewContext(ctx, logger))
	defer stop()
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
	if w.remove != nil { // The keeper, which would bring it back, has ended.
		removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), removePatience)
		defer cancel()
		if err := w.remove(removing); err != nil {
			logger.Error(err, "Could not remove the registration of the webhooks; the next start with the same --webhook-url takes it over")
		}
	}
	stopServing()
	return <-served
}

// runKeeper runs the keeper and what it watches until ctx is done.
func (w *webhooks) runKeeper(ctx, drain context.Context) {
	drain = klog.NewContext(drain, klog.FromContext(ctx))
	caches, stopCaches := context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		stopCaches()
		for _, f := range w.informers {
			f.shutdown()
		}
	}()
	for _, f := range w.informers {
		f.start(caches)
	}
	for _, f := range w.informers {
		if !f.synced(ctx) {
			return // ctx has ended
		}
	}
	if w.unregistered != nil && w.unregistered() {
		klog.FromContext(ctx).Info("No webhook configuration calls this operator's Service, or cert-manager keeps it: apply artifacts/webhook",
			"name", webhook.ConfigurationName, "service", serviceName)
	}
	w.keeper.Run(ctx, drain)
}

// What the webhooks need to be allowed: all of them in the namespaces of the objects; those
// with a CA in a Secret in their own namespace and in the cluster; those with a URL in the
// cluster.
var (
	handlerNeeds = []permission{{group: redisv1.GroupName, resource: "redisclusters", verbs: []string{"get"}}}
	secretNeeds  = []permission{
		{resource: "secrets", verbs: []string{"create"}},
		{resource: "secrets", name: certificate.SecretName, verbs: []string{"delete", "get", "list", "update", "watch"}},
	}
	injectionNeeds = []permission{
		{group: admissionregistrationv1.GroupName, resource: "mutatingwebhookconfigurations", name: webhook.ConfigurationName, verbs: injectionVerbs},
		{group: admissionregistrationv1.GroupName, resource: "validatingwebhookconfigurations", name: webhook.ConfigurationName, verbs: injectionVerbs},
	}
	injectionVerbs    = []string{"list", "patch", "watch"}
	registrationNeeds = []permission{
		{group: admissionregistrationv1.GroupName, resource: "mutatingwebhookconfigurations", verbs: registrationVerbs},
		{group: admissionregistrationv1.GroupName, resource: "validatingwebhookconfigurations", verbs: registrationVerbs},
	}
	registrationVerbs = []string{"create", "delete", "get", "list", "update", "watch"}
)
