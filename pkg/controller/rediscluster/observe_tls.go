// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

// tlsSecret is the Secret of spec.tls, as it was read last.
type tlsSecret struct {
	name   string
	secret *corev1.Secret // nil if it does not exist
	readAt time.Time
}

// modeLeaving is the mode of spec.tls while a user has removed it and nodes still use TLS among themselves. No stored object has it.
const modeLeaving v1.TLSMode = "Leaving"

// withCertificate reads the certificate of a RedisCluster. It returns the RedisCluster with the spec.tls that the sync uses:
//
//   - none, if the nodes cannot use the certificate, and no Pod has one yet: new Pods would not start. A new cluster waits for its
//     certificate instead.
//   - that of a Pod, with modeLeaving, if the spec has none and Pods still have a transport with TLS: new Pods must reach the others.
//     Without a valid Secret, it returns none: new Pods could not reach the others anyway, and no node must load that Secret.
func (c *Controller) withCertificate(ctx context.Context, rdc *v1.RedisCluster) (*v1.RedisCluster, error) {
	pods, err := objectsOf[*corev1.Pod](c.pods, rdc)
	if err != nil {
		return nil, err
	}
	pods = slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return !metav1.IsControlledBy(p, rdc) })
	first := func(is func(*corev1.Pod) bool) *corev1.Pod {
		if i := slices.IndexFunc(pods, is); i >= 0 {
			return pods[i]
		}
		return nil
	}
	secured := first(manifest.HasTLS)
	leaving := first(func(p *corev1.Pod) bool {
		return manifest.HasTLS(p) && p.Annotations[manifest.AnnotationTLS] != manifest.TransportPlain
	})
	name := manifest.SecretOfTLS(cmp.Or(leaving, secured)) // While spec.tls is removed, the nodes still have the certificate.
	if rdc.Spec.TLS != nil {
		name = rdc.Spec.TLS.SecretRef.Name
	}
	current := c.sessions.get(rdc)
	current.certificate = c.sessions.readCertificate(ctx, rdc, name)
	switch known := current.certificate; {
	case known == nil, rdc.Spec.TLS != nil && known.Problem == nil:
		return rdc, nil
	case rdc.Spec.TLS != nil && len(pods) > 0 && secured == nil:
		return manifest.WithTLSSpec(rdc, nil), nil
	case rdc.Spec.TLS != nil:
		return rdc, nil
	}
	valid := current.certificate.Problem == nil
	current.certificate.Problem = nil // The nodes are about to lose it.
	if leaving == nil || !valid {
		return rdc, nil
	}
	var spec v1.TLS
	spec.SecretRef.Name, spec.Mode, spec.Port = name, modeLeaving, int32(manifest.PortFor(leaving, true))
	return manifest.WithTLSSpec(rdc, &spec), nil
}

// readCertificate returns the certificate in a Secret, which it has read at most secretEvery ago; nil if the name is "". It keeps the last
// one while the Secret cannot be read.
func (s *sessions) readCertificate(ctx context.Context, rdc *v1.RedisCluster, name string) *certificate {
	current := s.get(rdc)
	if name == "" {
		current.tls = tlsSecret{}
		return nil
	}
	if current.tls.name != name || s.clock.Since(current.tls.readAt) >= secretEvery {
		secret, err := s.kube.CoreV1().Secrets(rdc.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			current.tls = tlsSecret{name: name, readAt: s.clock.Now()}
		case err == nil:
			current.tls = tlsSecret{name, secret, s.clock.Now()}
		case current.tls.name != name:
			current.tls = tlsSecret{}
			return &certificate{Problem: &problem{reasonNoCertificate, fmt.Sprintf("get Secret %s, which has the certificate: %v", name, err)}}
		}
	}
	return certificateOf(rdc, name, current.tls.secret, s.clock.Now())
}

// certificateOf returns the certificate in a Secret. secret is nil if the Secret does not exist.
func certificateOf(rdc *v1.RedisCluster, name string, secret *corev1.Secret, now time.Time) *certificate {
	if secret == nil {
		return &certificate{Problem: &problem{reasonNoCertificate, fmt.Sprintf("Secret %s does not exist: create it, or a Certificate of "+
			"cert-manager that writes it, with the DNS name %s", name, manifest.ServerName(rdc))}}
	}
	return parseCertificate(rdc, secret, now)
}

// CheckCertificate returns why the nodes of a RedisCluster cannot use the certificate in a Secret; "" if they can. secret is nil if the
// Secret does not exist.
func CheckCertificate(rdc *v1.RedisCluster, secret *corev1.Secret, now time.Time) string {
	if c := certificateOf(rdc, rdc.Spec.TLS.SecretRef.Name, secret, now); c.Problem != nil {
		return c.Problem.Message
	}
	return ""
}

// ConnectionTo returns on which port the operator connects to the node in a Pod, and how it verifies the node: by the CAs in the Secret
// of spec.tls, which may be nil, or by the certificate in the status.
func ConnectionTo(rdc *v1.RedisCluster, pod *corev1.Pod, secret *corev1.Secret) (int, redisnode.TLS) {
	authorities := ""
	if secret != nil {
		authorities = certificatesOf(secret.Data[v1.CertificateAuthorityKey])
	}
	return connectionTo(rdc, pod, authorities)
}

func connectionTo(rdc *v1.RedisCluster, pod *corev1.Pod, authorities string) (int, redisnode.TLS) {
	if !manifest.HasTLS(pod) {
		port, _ := manifest.Ports(rdc) // The port of the Pod differs from the spec's until the Pod is replaced.
		return cmp.Or(manifest.PortFor(pod, false), port), redisnode.TLS{}
	}
	trust := redisnode.TLS{Name: manifest.ServerName(rdc), Authorities: authorities}
	if rdc.Status.TLS != nil {
		trust.Pin = rdc.Status.TLS.Fingerprint
	}
	return manifest.PortFor(pod, true), trust
}
