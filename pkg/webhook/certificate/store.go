// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"context"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// SecretName is the name of the Secret that holds the CAs.
const SecretName = "glassback-webhook-ca"

// SecretStore keeps the CAs in a Secret, for all replicas of the operator.
type SecretStore struct {
	Secrets listers.SecretNamespaceLister
	Client  typedcorev1.SecretInterface
}

// Get returns the Secret in the cache.
func (s SecretStore) Get() (*corev1.Secret, error) {
	return orNone(s.Secrets.Get(SecretName))
}

// Live gets the Secret from the API server.
func (s SecretStore) Live(ctx context.Context) (*corev1.Secret, error) {
	return orNone(s.Client.Get(ctx, SecretName, metav1.GetOptions{}))
}

// Put creates the Secret, or updates it. It replaces a Secret that a user has made immutable.
func (s SecretStore) Put(ctx context.Context, secret *corev1.Secret) error {
	switch immutable := ptr.Deref(secret.Immutable, false); {
	case immutable:
		err := s.Client.Delete(ctx, SecretName, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
			UID: &secret.UID, ResourceVersion: &secret.ResourceVersion,
		}})
		if err != nil {
			return err
		}
	case secret.ResourceVersion != "":
		_, err := s.Client.Update(ctx, secret, metav1.UpdateOptions{FieldManager: glassback.Name})
		return err
	}
	labels := map[string]string{"app.kubernetes.io/name": glassback.Name}
	maps.Copy(labels, secret.Labels)
	_, err := s.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: SecretName, Labels: labels, Annotations: secret.Annotations},
		Data:       secret.Data,
	}, metav1.CreateOptions{FieldManager: glassback.Name})
	if apierrors.IsAlreadyExists(err) {
		// Another replica created the Secret first.
		return apierrors.NewConflict(corev1.Resource("secrets"), SecretName, err)
	}
	return err
}

func orNone[T any](object *T, err error) (*T, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// MemoryStore keeps the CAs of one process in memory. Only one Keeper may use it.
type MemoryStore struct {
	secret  *corev1.Secret
	version int
}

// Get returns the Secret of the last Put.
func (s *MemoryStore) Get() (*corev1.Secret, error) { return s.secret, nil }

// Live returns the Secret of the last Put.
func (s *MemoryStore) Live(context.Context) (*corev1.Secret, error) { return s.secret, nil }

// Put keeps a Secret.
func (s *MemoryStore) Put(_ context.Context, secret *corev1.Secret) error {
	s.version++
	s.secret = secret.DeepCopy()
	s.secret.ResourceVersion = strconv.Itoa(s.version)
	return nil
}
