/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	klabels "k8s.io/apimachinery/pkg/labels"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

// tlsSecret is the Secret of spec.tls, as it was read last.
type tlsSecret struct {
	name   string
	secret *corev1.Secret // nil if it does not exist
	readAt time.Time
}

// withCertificate reads the certificate of a RedisCluster. If the nodes could not use it, and no Pod has one yet, it returns the
// RedisCluster without spec.tls: no Pod is replaced by one that would not start. A new cluster waits for its certificate instead.
func (c *Controller) withCertificate(ctx context.Context, rdc *v1.RedisCluster) (*v1.RedisCluster, error) {
	pods, err := c.pods.Pods(rdc.Namespace).List(klabels.SelectorFromSet(klabels.Set{v1.LabelRedisCluster: rdc.Name}))
	if err != nil {
		return nil, fmt.Errorf("list Pods of RedisCluster %s: %w", rdc.Name, err)
	}
	name := ""
	for _, pod := range pods { // While spec.tls is removed, the nodes still have the certificate.
		name = secretOfTLS(pod)
		if name != "" {
			break
		}
	}
	if rdc.Spec.TLS != nil {
		name = rdc.Spec.TLS.SecretRef.Name
	}
	s := c.sessions.get(rdc)
	if s.certificate, err = c.sessions.readCertificate(ctx, rdc, name); err != nil || s.certificate == nil {
		return rdc, err
	}
	if rdc.Spec.TLS == nil { // The nodes are about to lose it.
		s.certificate.problem = nil
	} else if s.certificate.problem != nil && len(pods) > 0 && !anyTLS(pods) {
		return withoutTLS(rdc), nil
	}
	return rdc, nil
}

// readCertificate returns the certificate in a Secret, which it has read at most secretEvery ago; nil if the name is "".
func (s *sessions) readCertificate(ctx context.Context, rdc *v1.RedisCluster, name string) (*certificate, error) {
	current := s.get(rdc)
	if name == "" {
		current.tls = tlsSecret{}
		return nil, nil
	}
	if current.tls.name != name || s.clock.Since(current.tls.readAt) >= secretEvery {
		secret, err := s.kube.CoreV1().Secrets(rdc.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			current.tls = tlsSecret{name: name, readAt: s.clock.Now()}
		case err == nil:
			current.tls = tlsSecret{name, secret, s.clock.Now()}
		case current.tls.name != name: // Else the last one counts.
			return nil, fmt.Errorf("get Secret %s, which has the certificate: %w", name, err)
		}
	}
	return certificateOf(rdc, name, current.tls.secret, s.clock.Now()), nil
}

// certificateOf returns the certificate in a Secret, which is nil if it does not exist.
func certificateOf(rdc *v1.RedisCluster, name string, secret *corev1.Secret, now time.Time) *certificate {
	if secret == nil {
		return &certificate{problem: &problem{reasonNoCertificate, fmt.Sprintf("Secret %s does not exist: create it, or a Certificate of "+
			"cert-manager that writes it, with the DNS name %s", name, serverName(rdc))}}
	}
	return parseCertificate(rdc, secret, now)
}

// CheckCertificate returns why the nodes of a RedisCluster cannot use the certificate in a Secret, which is nil if it does not exist;
// "" if they can.
func CheckCertificate(rdc *v1.RedisCluster, secret *corev1.Secret, now time.Time) string {
	if c := certificateOf(rdc, rdc.Spec.TLS.SecretRef.Name, secret, now); c.problem != nil {
		return c.problem.message
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
	if !hasTLS(pod) {
		return portOf(rdc, pod), redisnode.TLS{}
	}
	trust := redisnode.TLS{Name: serverName(rdc), Authorities: authorities}
	if rdc.Status.TLS != nil {
		trust.Pin = rdc.Status.TLS.Fingerprint
	}
	return portFor(pod, true), trust
}
