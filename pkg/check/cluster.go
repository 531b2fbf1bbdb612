// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"

	"github.com/glassback/glassback/pkg/clients"
)

// oldestServer is the oldest API server that accepts the CRDs: their rules use isIP. A test compiles the rules with the functions of this
// version.
const oldestServer = "1.31"

const (
	versionTitle = "the API server's version is " + oldestServer + " or later"
	clockTitle   = "its clock and that of this machine agree"
)

// clusterChecks returns the checks of the API server and of the connection to it.
func (c *checker) clusterChecks() []Check {
	return []Check{
		{ID: "cluster/configuration", Title: "which cluster", Run: c.checkConfiguration},
		{ID: "cluster/reachable", Title: "the API server answers", Needs: []string{"cluster/configuration"}, Run: c.checkReachable},
		{ID: "cluster/credentials", Title: "the credentials are accepted", Needs: []string{"cluster/reachable"}, Run: c.checkCredentials},
		{ID: "cluster/ready", Title: "the API server is ready", Needs: []string{"cluster/credentials"}, Run: c.checkReady},
		{ID: "cluster/version", Title: versionTitle, Needs: []string{"cluster/credentials"}, Run: c.checkVersion},
		{ID: "cluster/clock", Title: clockTitle, Needs: []string{"cluster/reachable"}, Run: c.checkClock},
	}
}

func (c *checker) checkConfiguration(context.Context) Result {
	config, err := clients.Load(c.options.Cluster, clients.PodOrKubectl, "check")
	if err != nil {
		return fail(err.Error(), "name a kubeconfig that works: --kubeconfig FILE")
	}
	if c.clients, err = clients.New(config.Config); err != nil {
		return fail(err.Error(), "correct the kubeconfig")
	}
	c.host, c.inside = config.Host, config.InPod
	return pass(config.Host)
}

// get requests a path of the API server itself, such as /readyz.
func (c *checker) get(ctx context.Context, path string) ([]byte, error) {
	return c.clients.Kube.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).Raw()
}

func (c *checker) checkReachable(ctx context.Context) Result {
	_, err := c.get(ctx, "/version")
	var status *apierrors.StatusError
	switch {
	case err == nil, apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		return pass("")
	case clients.IsCertificateError(err):
		return fail(err.Error(), certificateRemedy(err))
	case strings.Contains(err.Error(), "getting credentials"):
		return fail(err.Error(), "run the program that the kubeconfig names for its credentials, and see what it says")
	case errors.As(err, &status):
		return fail("there is no API server of Kubernetes, or not a whole one: "+err.Error(),
			"check the address, and proxies on the way (HTTPS_PROXY, NO_PROXY)")
	}
	return fail(err.Error(), "check the address, that the API server runs, and that no firewall or proxy is between")
}

func certificateRemedy(err error) string {
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "renew the API server's certificate, or set the clock of this machine right"
	case errors.As(err, &name):
		return "use an address that its certificate is for, or tls-server-name in the kubeconfig"
	}
	return "correct the certificate-authority of the kubeconfig"
}

func (c *checker) checkCredentials(ctx context.Context) Result {
	const remedy = "renew them, or name others in the kubeconfig"
	reviews := c.clients.Kube.AuthenticationV1().SelfSubjectReviews()
	review, err := reviews.Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	switch {
	case apierrors.IsUnauthorized(err):
		return fail(c.host+" does not accept them", remedy)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), anonymous):
		return fail("there are none: the API server takes this for "+anonymous, "name a user with credentials in the kubeconfig")
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return pass("it does not say whose they are")
	case err != nil:
		return unanswered(err)
	}
	if c.user = review.Status.UserInfo.Username; c.user == anonymous {
		return fail("there are none: the API server takes this for "+anonymous, "name a user with credentials in the kubeconfig")
	}
	return pass(c.user)
}

const anonymous = "system:anonymous"

func (c *checker) checkReady(ctx context.Context) Result {
	body, err := c.get(ctx, "/readyz")
	switch {
	case apierrors.IsForbidden(err):
		return pass("as far as this account may ask")
	case err == nil:
		return pass("")
	}
	var failing []string
	for text := range strings.Lines(string(body)) {
		if name, ok := strings.CutPrefix(text, "[-]"); ok {
			failing = append(failing, strings.Fields(name)[0])
		}
	}
	reason := err.Error()
	if len(failing) > 0 {
		reason = "it says that these are not well: " + strings.Join(failing, ", ")
	}
	return fail(reason, "wait until it has started; else see its log: kubectl get --raw '/readyz?verbose'")
}

func (c *checker) checkVersion(ctx context.Context) Result {
	info, err := discovery.ToDiscoveryInterfaceWithContext(c.clients.Kube.Discovery()).ServerVersionWithContext(ctx)
	if err != nil {
		return unanswered(err)
	}
	return supported(info.GitVersion)
}

// supported says whether the operator works with an API server of a version.
func supported(text string) Result {
	is, err := utilversion.ParseGeneric(text)
	if err != nil {
		return warn(fmt.Sprintf("it is %q, which is no version", text), "see that it is no older than "+oldestServer)
	}
	if is.LessThan(utilversion.MustParseGeneric(oldestServer)) {
		return fail("it is "+text+", which does not know what the rules of the CRDs say", "upgrade the cluster")
	}
	return pass(text)
}

func (c *checker) checkClock(context.Context) Result {
	return agree(c.clients.Time.Ahead())
}

// agree returns the Result for an API server whose clock is ahead of this machine's clock.
func agree(ahead time.Duration) Result {
	if ahead == 0 {
		return pass("")
	}
	which := "ahead"
	if ahead < 0 {
		which = "behind"
	}
	return warn(fmt.Sprintf("the API server's is %s %s: MyCronJobs would run at the wrong time", ahead.Abs().Round(time.Second), which),
		"set both clocks by NTP")
}

// listed returns the texts without duplicates, in one line.
func listed(texts []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(texts))), ", ")
}
