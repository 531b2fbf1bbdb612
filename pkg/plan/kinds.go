// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/tools/record"

	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/descriptor"
	"github.com/glassback/glassback/pkg/kinds"
	"github.com/glassback/glassback/pkg/report"
)

// planner is a controller that can plan a sync.
type planner interface {
	Plan(ctx context.Context, key cache.ObjectName, offline bool) (*report.Plan, error)
}

// kind is one of the kinds.
type kind struct {
	name, short string
	controller  planner
	own         list // of the objects
	children    []list
}

// list is the cache of one resource.
type list struct {
	descriptor.Source

	store cache.Store
}

// fill fills the caches of a kind. A kind without a CustomResourceDefinition has no objects. Without objects, fill does not list children.
func (k *kind) fill(ctx context.Context) error {
	if err := k.own.fill(ctx); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	if len(k.own.store.List()) == 0 {
		return nil
	}
	for _, children := range k.children {
		if err := children.fill(ctx); err != nil {
			return err
		}
	}
	return nil
}

// fill fills the cache with all objects.
func (l list) fill(ctx context.Context) error {
	var objects []any
	found, _, err := pager.New(cache.ToListerWithContext(l.ListerWatcher).ListWithContext).ListWithAlloc(ctx, metav1.ListOptions{})
	if err == nil {
		err = meta.EachListItemWithAlloc(found, func(object runtime.Object) error {
			objects = append(objects, object)
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", l.Resource.Resource, err)
	}
	return l.store.Replace(objects, "")
}

// newKinds returns all kinds, with controllers that do not run, and empty caches.
func newKinds(c *clients.Clients, cloud *aliyun.Cloud, o *settings) ([]kind, error) {
	var all []kind
	for d := range kinds.Custom() {
		k := kind{name: d.Kind, short: d.Custom.Short}
		informers := descriptor.NewInformers(c, o.namespace, func(s descriptor.Source) cache.SharedIndexInformer {
			informer := cache.NewSharedIndexInformer(s, s.Object, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			if l := (list{s, informer.GetStore()}); s.Label == "" {
				k.own = l
			} else {
				k.children = append(k.children, l)
			}
			return informer
		})
		controller, err := d.New(descriptor.Environment{
			Clients: c, Informers: informers, Recorder: &record.FakeRecorder{}, Cloud: cloud, ReadOnly: true,
			OperatorNamespace: command.OwnNamespace(), BackupImage: o.backupImage, RefuseCredentials: o.own.Refusal,
		})
		if err != nil {
			return nil, err
		}
		k.controller = controller.(planner)
		all = append(all, k)
	}
	return all, nil
}
