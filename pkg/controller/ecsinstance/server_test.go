// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	typed "github.com/glassback/glassback/pkg/generated/clientset/versioned/typed/alibabacloud/v1alpha1"
)

func key(name string) cache.ObjectName { return cache.NewObjectName("default", name) }

// slowList is a Source whose LIST takes a millisecond. WaitForCacheSync looks at once and then every 100 ms: its first look never finds
// the list. So every run of a test takes the same time.
type slowList struct{ fakeapi.Source }

func (l slowList) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Millisecond):
		return l.Source.ListWithContext(ctx, options)
	}
}

// secret creates a Secret of credentials, or changes it.
func (w *world) secret(name, id, secret string) {
	data := map[string][]byte{v1alpha1.KeyAccessKeyID: []byte(id), v1alpha1.KeyAccessKeySecret: []byte(secret)}
	if fakeapi.Get[*corev1.Secret](w.api, key(name)) == nil {
		w.api.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: data})
		return
	}
	w.editSecret(name, func(s *corev1.Secret) { s.Data = data })
}

func (w *world) editSecret(name string, change func(*corev1.Secret)) {
	fakeapi.Edit(w.api, key(name), "user", change)
}

func (w *world) deleteSecret(name string) { w.api.Delete("secrets", key(name)) }

// apply creates an ECSInstance like the sample, with changes.
func (w *world) apply(name string, change ...func(*v1alpha1.ECSInstance)) {
	ecs := &v1alpha1.ECSInstance{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(fmt.Sprintf("0a1b2c3d-0000-4000-8000-%012d", w.api.Version())),
		},
		Spec: v1alpha1.ECSInstanceSpec{
			RegionID: "cn-beijing", InstanceType: "ecs.g6.large", ImageID: "centos_7_8_x64_20G_alibase_20200519.vhd", InstanceName: "ins-0702",
			CredentialsSecretRef: &v1alpha1.SecretReference{Name: "aliyun"},
		},
	}
	for _, c := range change {
		c(ecs)
	}
	ecs.Default()
	w.api.Put(ecs)
}

// get returns an ECSInstance, or nil if it does not exist.
func (w *world) get(name string) *v1alpha1.ECSInstance {
	return fakeapi.Get[*v1alpha1.ECSInstance](w.api, key(name)).DeepCopy()
}

// all returns all ECSInstances.
func (w *world) all() []*v1alpha1.ECSInstance { return fakeapi.List[*v1alpha1.ECSInstance](w.api) }

// edit changes an ECSInstance as a user does. Each edit increases the generation. If the object does not exist, edit does nothing.
func (w *world) edit(name string, change func(*v1alpha1.ECSInstance)) {
	if w.get(name) == nil {
		return
	}
	fakeapi.Edit(w.api, key(name), "user", func(ecs *v1alpha1.ECSInstance) {
		ecs.Generation++
		change(ecs)
	})
}

// delete deletes an ECSInstance as a user does.
func (w *world) delete(name string) { w.api.Delete("ecsinstances", key(name)) }

// client is the clientset of one operator. It has the two kinds of writes that the controller makes.
type client struct {
	versioned.Interface
	typed.AlibabacloudV1alpha1Interface
	typed.ECSInstanceInterface

	operator *operator
}

func (c client) AlibabacloudV1alpha1() typed.AlibabacloudV1alpha1Interface { return c }

func (c client) ECSInstances(namespace string) typed.ECSInstanceInterface {
	c.ECSInstanceInterface = c.Interface.AlibabacloudV1alpha1().ECSInstances(namespace)
	return c
}

func (c client) UpdateStatus(
	ctx context.Context, ecs *v1alpha1.ECSInstance, options metav1.UpdateOptions,
) (*v1alpha1.ECSInstance, error) {
	return callIfAlive(ctx, c.operator, "update status", ecs.Name, func() (*v1alpha1.ECSInstance, error) {
		return c.ECSInstanceInterface.UpdateStatus(ctx, ecs, options)
	})
}

func (c client) Patch(
	ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string,
) (*v1alpha1.ECSInstance, error) {
	return callIfAlive(ctx, c.operator, "patch", name, func() (*v1alpha1.ECSInstance, error) {
		return c.ECSInstanceInterface.Patch(ctx, name, kind, data, options, subresources...)
	})
}
