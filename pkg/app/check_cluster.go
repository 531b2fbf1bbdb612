/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/glassback/glassback/pkg/check"
)

// oldestServer is the oldest API server that takes the CRDs: their rules use isIP. A test
// compiles them with what it knows.
const oldestServer = "1.31"

const (
	versionTitle = "the API server's version is " + oldestServer + " or later"
	clockTitle   = "its clock and that of this machine agree"
)

// clusterChecks are about the API server, and the way to it.
func (c *checker) clusterChecks() []check.Check {
	return []check.Check{
		{ID: "cluster/configuration", Title: "which cluster", Run: c.checkConfiguration},
		{ID: "cluster/reachable", Title: "the API server answers", Needs: []string{"cluster/configuration"}, Run: c.checkReachable},
		{ID: "cluster/credentials", Title: "the credentials are accepted", Needs: []string{"cluster/reachable"}, Run: c.checkCredentials},
		{ID: "cluster/ready", Title: "the API server is ready", Needs: []string{"cluster/credentials"}, Run: c.checkReady},
		{ID: "cluster/version", Title: versionTitle, Needs: []string{"cluster/credentials"}, Run: c.checkVersion},
		{ID: "cluster/clock", Title: clockTitle, Needs: []string{"cluster/reachable"}, Run: c.checkClock},
	}
}

func (c *checker) checkConfiguration(context.Context) check.Result {
	config, err := c.restConfig()
	if err != nil {
		return check.Fail(err.Error(), "name a kubeconfig that works: --kubeconfig FILE")
	}
	config.WarningHandler = rest.NoWarnings{} // Dry runs are full of them.
	if c.clients, err = newClients(config); err != nil {
		return check.Fail(err.Error(), "correct the kubeconfig")
	}
	c.host = config.Host
	return check.Pass(config.Host)
}

// restConfig is that of the operator, or else kubectl's. In an audit log, it is told from the
// operator.
func (c *checker) restConfig() (*rest.Config, error) {
	config, err := c.findConfig()
	if err != nil {
		return nil, err
	}
	prepare(config, "glassback-check")
	return config, nil
}

func (c *checker) findConfig() (*rest.Config, error) {
	config, err := loadConfig(&c.options.options)
	c.inside = err == nil && c.options.inCluster()
	_, inPod := rest.InClusterConfig()
	if err == nil || !c.options.inCluster() || !errors.Is(inPod, rest.ErrNotInCluster) {
		return config, err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("this is not a Pod, and kubectl has no cluster either")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use the kubeconfig of kubectl: %w", err)
	}
	return config, nil
}

// get asks for a path of the API server's own.
func (c *checker) get(ctx context.Context, path string) ([]byte, error) {
	return c.clients.kube.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).Raw()
}

func (c *checker) checkReachable(ctx context.Context) check.Result {
	_, err := c.get(ctx, "/version")
	var status *apierrors.StatusError
	switch {
	case err == nil, apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		return check.Pass("")
	case isCertificateError(err):
		return check.Fail(err.Error(), certificateRemedy(err))
	case strings.Contains(err.Error(), "getting credentials"):
		return check.Fail(err.Error(), "run the program that the kubeconfig names for its credentials, and see what it says")
	case errors.As(err, &status):
		return check.Fail("there is no API server of Kubernetes, or not a whole one: "+err.Error(), "check the address, and proxies on the way (HTTPS_PROXY, NO_PROXY)")
	}
	return check.Fail(err.Error(), "check the address, that the API server runs, and that no firewall or proxy is between")
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

func (c *checker) checkCredentials(ctx context.Context) check.Result {
	const remedy = "renew them, or name others in the kubeconfig"
	review, err := c.clients.kube.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	switch {
	case apierrors.IsUnauthorized(err):
		return check.Fail(c.host+" does not accept them", remedy)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), anonymous):
		return check.Fail("there are none: the API server takes this for "+anonymous, "name a user with credentials in the kubeconfig")
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return check.Pass("it does not say whose they are")
	case err != nil:
		return unanswered(err)
	}
	if c.user = review.Status.UserInfo.Username; c.user == anonymous {
		return check.Fail("there are none: the API server takes this for "+anonymous, "name a user with credentials in the kubeconfig")
	}
	return check.Pass(c.user)
}

const anonymous = "system:anonymous"

func (c *checker) checkReady(ctx context.Context) check.Result {
	body, err := c.get(ctx, "/readyz")
	switch {
	case apierrors.IsForbidden(err):
		return check.Pass("as far as this account may ask")
	case err == nil:
		return check.Pass("")
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
	return check.Fail(reason, "wait until it has started; else see its log: kubectl get --raw '/readyz?verbose'")
}

func (c *checker) checkVersion(ctx context.Context) check.Result {
	body, err := c.get(ctx, "/version")
	if err != nil {
		return unanswered(err)
	}
	var info apiversion.Info
	if err := json.Unmarshal(body, &info); err != nil {
		return check.Fail("the answer to /version cannot be read: "+err.Error(), "see what answers at "+c.host)
	}
	return supported(info.GitVersion)
}

// supported says whether the operator works with an API server of a version.
func supported(text string) check.Result {
	is, err := utilversion.ParseGeneric(text)
	if err != nil {
		return check.Warn(fmt.Sprintf("it is %q, which is no version", text), "see that it is no older than "+oldestServer)
	}
	if is.LessThan(utilversion.MustParseGeneric(oldestServer)) {
		return check.Fail("it is "+text+", which does not know what the rules of the CRDs say", "upgrade the cluster")
	}
	return check.Pass(text)
}

func (c *checker) checkClock(context.Context) check.Result {
	return agree(time.Duration(c.clients.time.ahead.Load()))
}

// agree says what it means that the API server's clock is ahead of that of this machine.
func agree(ahead time.Duration) check.Result {
	if ahead == 0 {
		return check.Pass("")
	}
	which := "ahead"
	if ahead < 0 {
		which = "behind"
	}
	return check.Warn(fmt.Sprintf("the API server's is %s %s: MyCronJobs would run at the wrong time", ahead.Abs().Round(time.Second), which),
		"set both clocks by NTP")
}

// listed returns what is different of some texts, in one line.
func listed(texts []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(texts))), ", ")
}
