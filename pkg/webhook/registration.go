// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// ConfigurationName is the name of both webhook configurations of artifacts/webhook.
const ConfigurationName = "glassback"

// The Services of artifacts/webhook and artifacts/manager.
const (
	ServiceName        = "glassback-webhook"
	MetricsServiceName = "glassback-metrics"
)

// LabelOwned is the label, with the value "true", of every webhook configuration that an operator outside of a cluster has created.
const LabelOwned = "glassback.dev/registered-by-url"

// configuration is a MutatingWebhookConfiguration or a ValidatingWebhookConfiguration.
type configuration[T any] interface {
	*T
	metav1.Object
	DeepCopy() *T
}

// client writes configurations of one of the two kinds.
type client[T any] interface {
	Get(context.Context, string, metav1.GetOptions) (*T, error)
	Create(context.Context, *T, metav1.CreateOptions) (*T, error)
	Update(context.Context, *T, metav1.UpdateOptions) (*T, error)
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// registered has the fields that Injected and Owned share.
type registered[T any, P configuration[T]] struct {
	name   string
	cache  cache.Store
	client client[T]
}

// cached returns the configuration in the cache, or nil. It must not be changed.
func (r registered[T, P]) cached() (P, error) {
	obj, exists, err := r.cache.GetByKey(r.name)
	if err != nil || !exists {
		return nil, err
	}
	c, ok := obj.(P)
	if !ok {
		return nil, fmt.Errorf("the cache of webhook configurations holds a %T", obj)
	}
	return c, nil
}

// Injected is a configuration that a user has applied, such as that of artifacts/webhook. Only
// its caBundle is written, and only in webhooks that call the operator's Service.
type Injected[T any, P configuration[T]] struct {
	registered[T, P]
	service types.NamespacedName
}

// Inject returns the Injected of the configuration called name, for webhooks behind a Service.
func Inject[T any, P configuration[T]](name string, store cache.Store, client client[T], service types.NamespacedName) Injected[T, P] {
	return Injected[T, P]{registered[T, P]{name, store, client}, service}
}

// Bundles is part of certificate.Registration.
func (i Injected[T, P]) Bundles() ([][]byte, error) {
	c, err := i.cached()
	return bundlesOf(i.own(c)), err
}

// UpToDate is part of certificate.Registration.
func (i Injected[T, P]) UpToDate(caBundle []byte) (bool, error) {
	bundles, err := i.Bundles()
	return !slices.ContainsFunc(bundles, func(bundle []byte) bool { return !bytes.Equal(bundle, caBundle) }), err
}

// Trust is part of certificate.Registration.
func (i Injected[T, P]) Trust(ctx context.Context, caBundle []byte) error {
	c, err := i.cached()
	own := i.own(c)
	if len(own) == 0 || err != nil {
		return err
	}
	webhooks := make([]any, 0, len(own))
	for _, w := range own {
		webhooks = append(webhooks, map[string]any{"name": w.Name, "clientConfig": map[string]any{"caBundle": caBundle}})
	}
	// The names are the keys of a strategic merge. With a stale cache, the resourceVersion leads to a conflict.
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": c.GetResourceVersion(), "uid": c.GetUID()},
		"webhooks": webhooks,
	})
	if err != nil {
		return fmt.Errorf("write a patch: %w", err)
	}
	if _, err := i.client.Patch(ctx, i.name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: glassback.Name}); err != nil {
		return fmt.Errorf("patch the caBundle of %T %s: %w", c, i.name, err)
	}
	klog.FromContext(ctx).Info("Wrote the caBundle", "configuration", fmt.Sprintf("%T", c), "name", i.name, "webhooks", len(webhooks))
	return nil
}

// AnnotationCertManager is the prefix of the annotations that make cert-manager write the
// caBundle. With two writers, each would undo the writes of the other.
const AnnotationCertManager = "cert-manager.io/inject-"

// own returns the webhooks of c that call the Service; none if c is nil, or if cert-manager writes the caBundle.
func (i Injected[T, P]) own(c P) []entry {
	if c == nil {
		return nil
	}
	for annotation := range c.GetAnnotations() {
		if strings.HasPrefix(annotation, AnnotationCertManager) {
			return nil
		}
	}
	return slices.DeleteFunc(entries(c), func(w entry) bool {
		s := w.Client.Service
		return s == nil || s.Namespace != i.service.Namespace || s.Name != i.service.Name
	})
}

// Owned is a configuration that an operator outside of a cluster has created itself.
type Owned[T any, P configuration[T]] struct {
	registered[T, P]
	// desired returns the desired configuration.
	desired func(caBundle []byte) P
}

// Own returns the Owned of the configuration that desired returns, which has the label LabelOwned. The Owned does not change a
// configuration of that name that lacks the label.
func Own[T any, P configuration[T]](store cache.Store, client client[T], desired func(caBundle []byte) P) Owned[T, P] {
	return Owned[T, P]{registered[T, P]{desired(nil).GetName(), store, client}, desired}
}

// Bundles is part of certificate.Registration.
func (o Owned[T, P]) Bundles() ([][]byte, error) {
	c, err := o.cached()
	if c == nil || err != nil {
		return nil, err
	}
	return bundlesOf(entries(c)), nil
}

// UpToDate is part of certificate.Registration.
func (o Owned[T, P]) UpToDate(caBundle []byte) (bool, error) {
	c, err := o.cached()
	if c == nil || err != nil {
		return false, err
	}
	return equality.Semantic.DeepEqual(entries(c), entries(o.desired(caBundle))), nil
}

// Trust is part of certificate.Registration.
func (o Owned[T, P]) Trust(ctx context.Context, caBundle []byte) error {
	logger := klog.FromContext(ctx)
	desired := o.desired(caBundle)
	c, err := o.cached()
	if err != nil {
		return err
	}
	if c == nil {
		_, err := o.client.Create(ctx, desired, metav1.CreateOptions{FieldManager: glassback.Name})
		if apierrors.IsAlreadyExists(err) {
			// Another replica behind the same URL was first. When the cache has its configuration, the next sync corrects it if necessary.
			return apierrors.NewConflict(admissionregistrationv1.Resource("webhookconfigurations"), o.name, err)
		}
		if err != nil {
			return fmt.Errorf("create %T %s: %w", desired, o.name, err)
		}
		logger.Info("Registered the webhooks", "configuration", fmt.Sprintf("%T", desired), "name", o.name)
		return nil
	}
	if c.GetLabels()[LabelOwned] != "true" {
		return fmt.Errorf("the %T %s is not the operator's: it has no label %s; delete it, or give --webhook-url another address",
			c, o.name, LabelOwned)
	}
	labels := maps.Clone(c.GetLabels())
	maps.Copy(labels, desired.GetLabels())
	desired.SetLabels(labels)
	desired.SetAnnotations(c.GetAnnotations())
	desired.SetResourceVersion(c.GetResourceVersion())
	desired.SetUID(c.GetUID())
	if _, err := o.client.Update(ctx, desired, metav1.UpdateOptions{FieldManager: glassback.Name}); err != nil {
		return fmt.Errorf("update %T %s: %w", c, o.name, err)
	}
	logger.Info("Corrected the registration of the webhooks", "configuration", fmt.Sprintf("%T", c), "name", o.name)
	return nil
}

// Remove deletes the configuration, if it exists.
func (o Owned[T, P]) Remove(ctx context.Context) error {
	live, err := o.client.Get(ctx, o.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get %T %s: %w", live, o.name, err)
	}
	c := P(live)
	if c.GetLabels()[LabelOwned] != "true" {
		return nil
	}
	uid := c.GetUID()
	err = o.client.Delete(ctx, o.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %T %s: %w", c, o.name, err)
	}
	return nil
}

// entry is a webhook of a configuration.
type entry struct {
	Name   string
	Client admissionregistrationv1.WebhookClientConfig
	Whole  any
}

func bundlesOf(webhooks []entry) [][]byte {
	var bundles [][]byte
	for _, w := range webhooks {
		bundles = append(bundles, w.Client.CABundle)
	}
	return bundles
}

// entries returns the webhooks of a configuration.
func entries(c any) []entry {
	var all []entry
	switch c := c.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for _, w := range c.Webhooks {
			all = append(all, entry{w.Name, w.ClientConfig, w})
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for _, w := range c.Webhooks {
			all = append(all, entry{w.Name, w.ClientConfig, w})
		}
	}
	return all
}
