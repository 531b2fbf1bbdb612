// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"

	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/webhook"
	"github.com/glassback/glassback/pkg/webhook/certificate"
)

// registeredWebhooks holds the webhook configurations of one name. They call either a Service or a URL.
type registeredWebhooks struct {
	name        string
	url         *url.URL // nil for a Service
	certManager bool     // cert-manager writes the caBundle
	clients     map[string]admissionregistrationv1.WebhookClientConfig
}

func (c *checker) checkRegistered(ctx context.Context) Result {
	if !c.options.Webhooks {
		return skip("--webhooks=false: there are to be none")
	}
	found := map[string]*registeredWebhooks{}
	byName := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, webhook.ConfigurationName).String()}
	if err := c.collect(ctx, byName, found); err != nil {
		return unanswered(err)
	}
	byLabel := metav1.ListOptions{LabelSelector: webhook.LabelOwned + "=true"}
	if err := c.collect(ctx, byLabel, found); err != nil && !apierrors.IsForbidden(err) {
		return unanswered(err)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		c.webhooks = append(c.webhooks, *found[name])
	}
	switch {
	case len(found) > 0:
		return pass(strings.Join(slices.Sorted(maps.Keys(found)), ", "))
	case c.deployment != nil:
		return warn("there is no configuration of that name: what is wrong with an object is only seen after it is stored",
			"apply artifacts/webhook, or start the operator with --webhooks=false")
	}
	return skip("it knows of none: an operator outside of the cluster has them with --webhook-url")
}

// collect adds the webhook configurations that the options select to found, by name.
func (c *checker) collect(ctx context.Context, selected metav1.ListOptions, found map[string]*registeredWebhooks) error {
	admission := c.clients.Kube.AdmissionregistrationV1()
	mutating, err := admission.MutatingWebhookConfigurations().List(ctx, selected)
	if err != nil {
		return err
	}
	validating, err := admission.ValidatingWebhookConfigurations().List(ctx, selected)
	if err != nil {
		return err
	}
	add := func(meta metav1.ObjectMeta, name string, client admissionregistrationv1.WebhookClientConfig) {
		r := found[meta.Name]
		if r == nil {
			r = &registeredWebhooks{name: meta.Name, clients: map[string]admissionregistrationv1.WebhookClientConfig{}}
			found[meta.Name] = r
		}
		for annotation := range meta.Annotations {
			r.certManager = r.certManager || strings.HasPrefix(annotation, webhook.AnnotationCertManager)
		}
		if u, err := url.Parse(ptr.Deref(client.URL, "")); err == nil && u.Host != "" {
			r.url = u
		}
		r.clients[name] = client
	}
	for i := range mutating.Items {
		for _, w := range mutating.Items[i].Webhooks {
			add(mutating.Items[i].ObjectMeta, w.Name, w.ClientConfig)
		}
	}
	for i := range validating.Items {
		for _, w := range validating.Items[i].Webhooks {
			add(validating.Items[i].ObjectMeta, w.Name, w.ClientConfig)
		}
	}
	return nil
}

// registeredChecks returns the checks of the registered webhooks.
func (c *checker) registeredChecks() []Check {
	var checks []Check
	add := func(r registeredWebhooks, id, title string, run func(context.Context, registeredWebhooks) Result) {
		checks = append(checks, Check{
			ID: "webhooks/" + r.name + "/" + id, Title: title, Run: func(ctx context.Context) Result { return run(ctx, r) },
		})
	}
	for _, r := range c.webhooks {
		add(r, "complete", r.name+" has all that this operator answers", func(_ context.Context, r registeredWebhooks) Result {
			return complete(r, c.service())
		})
		if r.url == nil {
			add(r, "endpoints", "the Service "+webhook.ServiceName+" has Pods behind it", c.checkEndpoints)
		}
		add(r, "trust", "the API server trusts the operator's CA, by caBundle", c.checkTrust)
		add(r, "validity", "the CA is valid", c.checkValidity)
		if r.url != nil || c.inside {
			add(r, "serving", "the serving certificate is valid", c.checkServing)
		}
	}
	if len(c.webhooks) > 0 {
		needs := []string{"crds/redisclusters." + redisv1.GroupName}
		checks = append(checks,
			Check{ID: "webhooks/defaults", Title: "they default: a RedisCluster of size 3 gets 6, in a dry run", Needs: needs, Run: c.tryDefault},
			Check{ID: "webhooks/refuses", Title: "they refuse: a RedisCluster without spec.addr, in a dry run",
				Needs: []string{"webhooks/defaults"}, Run: c.tryRefusal})
	}
	return checks
}

func (c *checker) service() types.NamespacedName {
	return types.NamespacedName{Namespace: c.options.operatorNamespace, Name: webhook.ServiceName}
}

// complete says whether all webhooks of this binary are registered, and call the operator.
func complete(r registeredWebhooks, service types.NamespacedName) Result {
	endpoint, remedy := webhook.ByService(service), "apply artifacts/webhook of this version"
	if r.url != nil {
		endpoint, remedy = webhook.ByURL(r.url, nil, nil), "start the operator with --webhook-url again"
	}
	var names, lacking []string
	for _, w := range endpoint.MutatingConfiguration(r.name).Webhooks {
		names = append(names, w.Name)
	}
	for _, w := range endpoint.ValidatingConfiguration(r.name).Webhooks {
		names = append(names, w.Name)
	}
	for _, name := range names {
		client, ok := r.clients[name]
		if !ok {
			lacking = append(lacking, name)
			continue
		}
		if s := client.Service; r.url == nil && (s == nil || s.Namespace != service.Namespace || s.Name != service.Name) {
			elsewhere := "no Service"
			if s != nil {
				elsewhere = s.Namespace + "/" + s.Name
			}
			return fail(fmt.Sprintf("%s calls %s, and not the Service %s", name, elsewhere, service),
				remedy+", or say where the operator is with --operator-namespace")
		}
	}
	if len(lacking) > 0 {
		return warn("it has not got "+strings.Join(lacking, ", "), remedy)
	}
	return pass(fmt.Sprintf("%d webhooks", len(names)))
}

func (c *checker) checkEndpoints(ctx context.Context, _ registeredWebhooks) Result {
	const remedy = "see why no replica is ready: kubectl get pods -l " + managerSelector + " -n "
	service := c.service()
	if _, err := c.clients.Kube.CoreV1().Services(service.Namespace).Get(ctx, service.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return fail(fmt.Sprintf("there is no Service %s", service), "apply artifacts/webhook")
	} else if err != nil {
		return unanswered(err)
	}
	slicesOf := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service.Name}
	list, err := c.clients.Kube.DiscoveryV1().EndpointSlices(service.Namespace).List(ctx, slicesOf)
	if err != nil {
		return unanswered(err)
	}
	ready, all := 0, 0
	for i := range list.Items {
		for _, endpoint := range list.Items[i].Endpoints {
			if all++; ptr.Deref(endpoint.Conditions.Ready, true) {
				ready++
			}
		}
	}
	if ready == 0 {
		return fail(fmt.Sprintf("none of %d is ready: RedisClusters cannot be changed now", all), remedy+service.Namespace)
	}
	return pass(fmt.Sprintf("%d ready", ready))
}

// bundle returns the caBundle that all webhooks of a configuration have, with its certificates, or the reason why there is none.
func (r registeredWebhooks) bundle() ([]byte, []*x509.Certificate, string) {
	var bundle []byte
	for _, name := range slices.Sorted(maps.Keys(r.clients)) {
		switch is := r.clients[name].CABundle; {
		case len(is) == 0:
			return nil, nil, name + " has no caBundle"
		case bundle == nil:
			bundle = is
		case !bytes.Equal(bundle, is):
			return nil, nil, name + " has another caBundle than the others"
		}
	}
	authorities, err := cert.ParseCertsPEM(bundle)
	if err != nil {
		return nil, nil, "the caBundle holds no certificate"
	}
	return bundle, authorities, ""
}

func (c *checker) checkTrust(ctx context.Context, r registeredWebhooks) Result {
	keeper := "see in the operator's log what keeps it from writing it (controller=\"certificates\")"
	if r.certManager {
		keeper = "see what keeps cert-manager's cainjector from writing it"
	}
	_, authorities, why := r.bundle()
	if why != "" {
		return fail(why, keeper)
	}
	if r.url != nil || r.certManager {
		return pass(count(len(authorities), "CA"))
	}
	secret, err := c.clients.Kube.CoreV1().Secrets(c.options.operatorNamespace).Get(ctx, certificate.SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fail(fmt.Sprintf("there is no Secret %s, which has the CA", certificate.SecretName), keeper)
	}
	if apierrors.IsForbidden(err) {
		return pass(count(len(authorities), "CA") + "; this account may not look into the Secret " + certificate.SecretName)
	}
	if err != nil {
		return unanswered(err)
	}
	signers, err := cert.ParseCertsPEM(secret.Data["tls.crt"])
	if err != nil {
		return fail("the Secret "+certificate.SecretName+" has no CA in tls.crt", keeper)
	}
	if !slices.ContainsFunc(authorities, signers[0].Equal) {
		return fail("the CA in the Secret "+certificate.SecretName+" is not in it", keeper)
	}
	return pass(count(len(authorities), "CA") + ", with that of the Secret " + certificate.SecretName)
}

func (c *checker) checkValidity(_ context.Context, r registeredWebhooks) Result {
	_, authorities, why := r.bundle()
	if why != "" {
		return skip(why)
	}
	newest := slices.MaxFunc(authorities, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
	return validity(newest, c.clients.Time.Now())
}

// validity reports how long a certificate is still valid. The operator and cert-manager renew a
// certificate when a third of its lifetime is left.
func validity(c *x509.Certificate, now time.Time) Result {
	const remedy = "see in the operator's log why it was not renewed (controller=\"certificates\"), or cert-manager's"
	left, day := c.NotAfter.Sub(now), c.NotAfter.Format(time.DateOnly)
	switch {
	case now.Before(c.NotBefore):
		return fail("it is not valid before "+c.NotBefore.Format(time.RFC3339), "set the clocks right")
	case left <= 0:
		return fail("it has expired on "+day, remedy)
	case left < c.NotAfter.Sub(c.NotBefore)/4:
		return warn(fmt.Sprintf("it expires on %s, in %s", day, roughly(left)), remedy)
	}
	return pass(fmt.Sprintf("until %s, for %s", day, roughly(left)))
}

// roughly returns a duration as text in one unit, such as "3 days".
func roughly(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return count(int(d.Hours()/24), "day")
	case d >= 2*time.Hour:
		return count(int(d.Hours()), "hour")
	default:
		return count(int(d.Minutes()), "minute")
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// checkServing makes a TLS handshake with the webhooks, if it can reach them.
func (c *checker) checkServing(ctx context.Context, r registeredWebhooks) Result {
	bundle, _, why := r.bundle()
	if why != "" {
		return skip(why)
	}
	service := c.service()
	name := service.Name + "." + service.Namespace + ".svc"
	address := net.JoinHostPort(name, "443")
	if r.url != nil {
		name, address = r.url.Hostname(), r.url.Host
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(bundle)
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: trusted, ServerName: name, MinVersion: tls.VersionTLS12, Time: c.clients.Time.Now}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	switch {
	case err == nil:
	case clients.IsCertificateError(err):
		return fail(address+": "+err.Error(), "see in the operator's log which certificate it serves (controller=\"certificates\")")
	case r.url != nil:
		return skip("it cannot be reached from here, which need not mean anything: " + err.Error())
	default:
		return fail(err.Error(), "see that a replica is ready, and that no NetworkPolicy keeps its port 9443 from callers")
	}
	defer conn.Close()
	// A tls.Dialer returns a *tls.Conn. Its handshake fails if the server shows no certificate.
	return validity(conn.(*tls.Conn).ConnectionState().PeerCertificates[0], c.clients.Time.Now())
}

// tryNamespace returns the namespace of dry runs.
func (c *checker) tryNamespace() string {
	if ns := c.options.Namespaces[0]; ns != metav1.NamespaceAll {
		return ns
	}
	return metav1.NamespaceDefault
}

// try creates a RedisCluster in a dry run: the API server calls webhooks and stores nothing.
func (c *checker) try(ctx context.Context, spec redisv1.RedisClusterSpec) (*redisv1.RedisCluster, error) {
	return c.clients.Glassback.RedisV1().RedisClusters(c.tryNamespace()).Create(ctx,
		&redisv1.RedisCluster{ObjectMeta: metav1.ObjectMeta{GenerateName: "glassback-check-"}, Spec: spec},
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: "glassback-check"})
}

// The values of the dry runs: see validate and Default of RedisCluster.
const (
	tooSmall  = 3
	atLeast   = 6
	anAddress = "192.0.2.1:6379" // for documentation: RFC 5737
)

func (c *checker) tryDefault(ctx context.Context) Result {
	made, err := c.try(ctx, redisv1.RedisClusterSpec{Addr: anAddress, Size: ptr.To[int32](tooSmall)})
	if err != nil {
		return untried(err)
	}
	if size := ptr.Deref(made.Spec.Size, 0); size != atLeast {
		return fail(fmt.Sprintf("it was left at %d: they were not asked", size), notAsked(c.tryNamespace()))
	}
	return pass("")
}

func (c *checker) tryRefusal(ctx context.Context) Result {
	_, err := c.try(ctx, redisv1.RedisClusterSpec{})
	return refused(err, c.tryNamespace())
}

// refused returns the Result for the API server's answer to a RedisCluster without spec.addr.
func refused(err error, namespace string) Result {
	switch {
	case err == nil:
		return fail("it would have been stored: they were not asked", notAsked(namespace))
	case strings.Contains(err.Error(), "validate.redisclusters."+redisv1.GroupName+`" denied the request`):
		return pass("")
	}
	return untried(err)
}

func notAsked(namespace string) string {
	return fmt.Sprintf("apply artifacts/webhook; see that it is for the namespace %s (namespaceSelector)", namespace)
}

// untried returns the Result of a dry run that could not test the webhook.
func untried(err error) Result {
	text := err.Error()
	_, failed, calling := strings.Cut(text, "failed calling webhook ")
	switch {
	case calling && strings.Contains(failed, "x509"):
		return fail(failed, "see whether the caBundle is of the operator's CA: docs/webhooks.md")
	case calling && (strings.Contains(failed, "deadline exceeded") ||
		strings.Contains(failed, "i/o timeout") || strings.Contains(failed, "Client.Timeout")):
		return fail(failed, "let the API server reach port 9443 of the operator's Pods: NetworkPolicies and firewalls")
	case calling:
		return fail(failed, "see that a replica is ready; one with --webhook-url that was killed leaves its registration: docs/webhooks.md")
	case apierrors.IsForbidden(err) && strings.Contains(text, "cannot create resource"):
		return skip("this account may not create RedisClusters, not even in a dry run")
	case apierrors.IsNotFound(err):
		return skip("the dry run needs a namespace that is there, --namespace: " + text)
	}
	return warn("something else has refused the dry run: "+text, "see what, and whether it should")
}
