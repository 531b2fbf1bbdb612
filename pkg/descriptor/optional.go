// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package descriptor

import (
	"context"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

const (
	// noneEvery is how often the informer of a resource that the API server does not have lists it again.
	noneEvery = time.Minute
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
	if !apierrors.IsNotFound(err) {
		return found, err
	}
	events := make(chan watch.Event, 2)
	if ptr.Deref(options.SendInitialEvents, false) {
		events <- watch.Event{Type: watch.Bookmark, Object: o.end.DeepCopyObject()}
	}
	time.AfterFunc(noneEvery, func() {
		events <- watch.Event{Type: watch.Error, Object: &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "the resource may be there now",
		}}
		close(events)
	})
	return watch.NewProxyWatcher(events), nil
}
