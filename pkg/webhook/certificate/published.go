// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// ConfigMapName is the name of the ConfigMap that publishes the CAs, with the key ca.crt, to clients of the metrics. Unlike the Secret, it
// has no key of a CA.
const ConfigMapName = "glassback-ca"

// ConfigMap is the Registration for Config.Published: the caBundle in a ConfigMap, which it creates.
type ConfigMap struct {
	ConfigMaps listers.ConfigMapNamespaceLister
	Client     typedcorev1.ConfigMapInterface
}

// Bundles is part of Registration.
func (c ConfigMap) Bundles() ([][]byte, error) {
	cached, err := orNone(c.ConfigMaps.Get(ConfigMapName))
	if cached == nil || err != nil {
		return nil, err
	}
	return [][]byte{[]byte(cached.Data[keyTrusted])}, nil
}

// UpToDate is part of Registration.
func (c ConfigMap) UpToDate(caBundle []byte) (bool, error) {
	bundles, err := c.Bundles()
	return len(bundles) > 0 && string(bundles[0]) == string(caBundle), err
}

// Trust is part of Registration. It replaces a ConfigMap that a user has made immutable.
func (c ConfigMap) Trust(ctx context.Context, caBundle []byte) error {
	cached, err := orNone(c.ConfigMaps.Get(ConfigMapName))
	if err != nil {
		return err
	}
	if err := c.write(ctx, cached, map[string]string{keyTrusted: string(caBundle)}); err != nil {
		return fmt.Errorf("publish the CA in the ConfigMap %s: %w", ConfigMapName, err)
	}
	return nil
}

func (c ConfigMap) write(ctx context.Context, cached *corev1.ConfigMap, data map[string]string) error {
	if cached != nil {
		if !ptr.Deref(cached.Immutable, false) {
			changed := cached.DeepCopy()
			changed.Data, changed.BinaryData = data, nil
			_, err := c.Client.Update(ctx, changed, metav1.UpdateOptions{FieldManager: glassback.Name})
			return err
		}
		if err := c.Client.Delete(ctx, ConfigMapName, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &cached.UID}}); err != nil {
			return err
		}
	}
	_, err := c.Client.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: ConfigMapName, Labels: map[string]string{"app.kubernetes.io/name": glassback.Name}},
		Data:       data,
	}, metav1.CreateOptions{FieldManager: glassback.Name})
	if apierrors.IsAlreadyExists(err) { // Another replica was first.
		return apierrors.NewConflict(corev1.Resource("configmaps"), ConfigMapName, err)
	}
	return err
}
