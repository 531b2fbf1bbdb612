// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/check"
	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/crds"
	"github.com/glassback/glassback/pkg/kinds"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/permissions"
)

// start waits until the API server answers. Then it checks the CRDs and the permissions, without which the operator cannot work.
func start(ctx context.Context, o *options.Options, c *clients.Clients, host string, p *probes) (*selfCheck, error) {
	p.say(errors.New("waiting for the API server"))
	if err := waitForServer(ctx, c.Kube, host); err != nil {
		return nil, err
	}
	p.say(errors.New("checking CRDs and permissions"))
	if err := crds.Ensure(ctx, c.Apiextensions, crds.Parse(), o.InstallCRDs); err != nil {
		return nil, err
	}
	if err := permissions.Require(ctx, c.Kube, o.Namespaces, kinds.Needs(o.Controllers)); err != nil {
		return nil, err
	}
	if o.Lease.Elect {
		namespace := cmp.Or(o.Lease.Namespace, command.OwnNamespace())
		where := "in namespace " + namespace + ": apply artifacts/rbac"
		if err := permissions.RequireIn(ctx, c.Kube, namespace, permissions.Lease(o.Lease.Name), where); err != nil {
			return nil, fmt.Errorf("for --leader-elect %w", err)
		}
	}
	s := &selfCheck{sections: check.AtStart(c, o)}
	s.once(ctx)
	return s, nil
}

// A start waits for the API server for serverPatience, and sends a request every serverRetry. After serverPatience, the process ends and
// the kubelet restarts the container.
const (
	serverPatience = 30 * time.Second
	serverRetry    = 500 * time.Millisecond
)

// waitForServer waits until the API server answers. It returns an error after serverPatience, or at once if waiting cannot help.
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
		case clients.IsCertificateError(err):
			return false, fmt.Errorf("%s shows a certificate that the kubeconfig does not trust: correct its certificate-authority: %w", host, err)
		}
		if last == nil {
			logger.Info("Waiting for the API server", "server", host, "patience", serverPatience) // A failure prints the error.
		}
		last = err
		return false, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("cannot reach the API server at %s, check the address and that it runs: %w", host, last)
	}
	return err
}

// serverVersion returns the version of a server that is ready, or an error. By default, every authenticated user may send both requests. A
// server that is not ready may not have loaded its roles yet, and would deny all permissions.
func serverVersion(ctx context.Context, kube kubernetes.Interface) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := kube.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil && !apierrors.IsForbidden(err) {
		return "", err
	}
	info, err := discovery.ToDiscoveryInterfaceWithContext(kube.Discovery()).ServerVersionWithContext(ctx)
	if err != nil {
		return "", err
	}
	return info.GitVersion, nil
}
