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
	"net/url"
	"os"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
)

// restConfig returns how to reach the API server.
func restConfig(o *options) (*rest.Config, error) {
	config, err := loadConfig(o)
	if err != nil {
		return nil, err
	}
	prepare(config, "glassback")
	return config, nil
}

// prepare sets what the clients of all commands have. Their rate limit is off: the server has one of its own, that
// knows more. The user and the password of the server's URL, which logs and errors show, go to where client-go hides them.
func prepare(config *rest.Config, program string) {
	config.QPS = -1
	config.UserAgent = program + "/" + version
	u, err := url.Parse(config.Host)
	if err != nil || u.User == nil {
		return
	}
	if config.BearerToken == "" && config.BearerTokenFile == "" && config.Username == "" {
		config.Username = u.User.Username()
		config.Password, _ = u.User.Password()
	}
	u.User = nil
	config.Host = u.String()
}

func loadConfig(o *options) (*rest.Config, error) {
	if o.inCluster() {
		config, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("this is not a Pod in a cluster: say which cluster with --kubeconfig FILE, such as --kubeconfig ~/.kube/config")
		}
		if err != nil {
			return nil, fmt.Errorf("read the Pod's service account: %w", err)
		}
		return config, nil
	}
	if o.kubeconfig != "" {
		if _, err := os.Stat(o.kubeconfig); err != nil {
			return nil, fmt.Errorf("cannot read the kubeconfig, give --kubeconfig a file that is there: %w", err)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags(o.master, o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot use the kubeconfig %s: %w", o.kubeconfig, err)
	}
	return config, nil
}

// clients are the clientsets of the operator. They share one connection.
type clients struct {
	time          *serverTime
	kube          kubernetes.Interface
	glassback     versioned.Interface
	apiextensions apiextensions.Interface
}

func newClients(config *rest.Config) (*clients, error) {
	now := &serverTime{}
	config = rest.CopyConfig(config)
	config.Wrap(now.listen)
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("set up the connection to %s: %w", config.Host, err)
	}
	// Built-in types travel as protobuf, which costs both sides less than JSON.
	binary := rest.CopyConfig(config)
	binary.ContentType = runtime.ContentTypeProtobuf
	binary.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	kube, err1 := kubernetes.NewForConfigAndClient(binary, transport)
	crd, err2 := apiextensions.NewForConfigAndClient(binary, transport)
	own, err3 := versioned.NewForConfigAndClient(config, transport)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("set up clients for %s: %w", config.Host, err)
	}
	return &clients{time: now, kube: kube, glassback: own, apiextensions: crd}, nil
}

// How long a start waits for an API server that does not answer, and how often it
// asks. A Pod is started again after that, so it goes on either way.
const (
	serverPatience = 30 * time.Second
	serverRetry    = 500 * time.Millisecond
)

// waitForServer returns once the API server answers. It gives up at once if
// waiting cannot help, and otherwise after serverPatience.
func waitForServer(ctx context.Context, kube kubernetes.Interface, host string) error {
	logger := klog.FromContext(ctx)
	var last error
	err := wait.PollUntilContextTimeout(ctx, serverRetry, serverPatience, true, func(ctx context.Context) (bool, error) {
		info, err := serverVersion(ctx, kube)
		switch {
		case err == nil:
			logger.Info("Connected", "server", host, "version", info)
			return true, nil
		case apierrors.IsUnauthorized(err):
			return false, fmt.Errorf("%s does not accept these credentials: renew them, or name others in the kubeconfig", host)
		case isCertificateError(err):
			return false, fmt.Errorf("%s shows a certificate that the kubeconfig does not trust: correct its certificate-authority: %w", host, err)
		}
		if last == nil {
			logger.Info("Waiting for the API server", "server", host, "patience", serverPatience, "err", err)
		}
		last = err
		return false, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("cannot reach the API server at %s, check the address and that it runs: %w", host, last)
	}
	return err
}

// serverVersion asks whether the server is ready, and for its version: anybody with
// valid credentials may. One that answers but is not ready, and so does not know
// its own roles yet, would say that nothing is allowed.
func serverVersion(ctx context.Context, kube kubernetes.Interface) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := kube.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil && !apierrors.IsForbidden(err) {
		return "", err
	}
	raw, err := kube.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", err
	}
	var info apiversion.Info
	if err := json.Unmarshal(raw, &info); err != nil {
		return "", fmt.Errorf("parse the answer to GET /version: %w", err)
	}
	return info.GitVersion, nil
}

func isCertificateError(err error) bool {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	return errors.As(err, &unknown) || errors.As(err, &invalid) || errors.As(err, &host)
}
