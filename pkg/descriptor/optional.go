// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package descriptor

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

const (
	// noneEvery is how often a resource is listed that the API server does not have.
	noneEvery = 10 * time.Second
	// noneVersion is the resourceVersion of the empty list. An API server that has the resource has deleted the state of that version.
	noneVersion = "1"
)

// optional is the client of a resource that the API server may not have, such as one of a CustomResourceDefinition of others, which can
// come and go. While it does not, LIST and WATCH have the result of a resource without objects. So its informer is synced, and empty. A
// reflector that a watch tells to list again replaces what the informer has.
type optional[L runtime.Object] struct {
	Client[L]

	none L              // an empty list
	end  runtime.Object // of a bookmark: the end of the initial events
}

func (o optional[L]) List(ctx context.Context, options metav1.ListOptions) (L, error) {
	list, err := o.Client.List(ctx, options)
	if apierrors.IsNotFound(err) { // A collection without objects is found.
		return o.none.DeepCopyObject().(L), nil
	}
	return list, err
}

func (o optional[L]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	found, err := o.Client.Watch(ctx, options)
	streams := ptr.Deref(options.SendInitialEvents, false)
	switch {
	case !apierrors.IsNotFound(err):
		return found, err
	case !streams && options.ResourceVersion != noneVersion: // The informer may have objects.
		return nil, apierrors.NewResourceExpired("the API server no longer has the resource")
	}
	events := make(chan watch.Event, 2)
	if streams {
		events <- watch.Event{Type: watch.Bookmark, Object: o.end.DeepCopyObject()}
	}
	absent := watch.NewProxyWatcher(events)
	go o.await(ctx, absent.StopChan(), events)
	return absent, nil
}

// await waits until the API server has the resource. Then the reflector must list again.
func (o optional[L]) await(ctx context.Context, stopped <-chan struct{}, events chan<- watch.Event) {
	ticker := time.NewTicker(noneEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-stopped:
			return
		case <-ticker.C:
		}
		if _, err := o.Client.List(ctx, metav1.ListOptions{Limit: 1}); !apierrors.IsNotFound(err) {
			expired := apierrors.NewResourceExpired("the API server has the resource now")
			events <- watch.Event{Type: watch.Error, Object: &expired.ErrStatus}
			return
		}
	}
}
