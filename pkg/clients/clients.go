// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	gateway "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/loop"
)

// Clients are the clientsets for one API server. They share one connection.
type Clients struct {
	Time          *ServerTime
	Kube          kubernetes.Interface
	Glassback     versioned.Interface
	Apiextensions apiextensions.Interface
	Metadata      metadata.Interface
	Gateway       gateway.Interface
}

// New returns the clientsets for an API server.
func New(config *rest.Config) (*Clients, error) {
	now := &ServerTime{}
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
	headers, err4 := metadata.NewForConfigAndClient(config, transport)
	routes, err5 := gateway.NewForConfigAndClient(config, transport)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, fmt.Errorf("set up clients for %s: %w", config.Host, err)
	}
	return &Clients{Time: now, Kube: kube, Glassback: own, Apiextensions: crd, Metadata: headers, Gateway: routes}, nil
}

// Version implements loop.ReadVersion: the API server sends the metadata of the object alone.
func (c *Clients) Version(ctx context.Context, s loop.Source) (loop.Version, error) {
	resource, _ := meta.UnsafeGuessKindToResource(corev1.SchemeGroupVersion.WithKind(s.Kind))
	obj, err := c.Metadata.Resource(resource).Namespace(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return loop.Version{}, nil
	}
	if err != nil {
		return loop.Version{}, err
	}
	return loop.VersionOf(obj), nil
}

// IsCertificateError reports whether err says that the API server's certificate is not trusted.
func IsCertificateError(err error) bool {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	return errors.As(err, &unknown) || errors.As(err, &invalid) || errors.As(err, &host)
}
