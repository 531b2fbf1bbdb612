// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package descriptor

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/glassback/glassback/pkg/pipeline"
)

// semantics is whether an API server streams lists.
type semantics bool

func (s semantics) IsWatchListSemanticsUnSupported() bool { return !bool(s) }

// comingAndGoing is a client of a resource that is there, with one object, or not.
type comingAndGoing struct{ there, listed *atomic.Bool }

func (c comingAndGoing) err() error {
	if c.there.Load() {
		return nil
	}
	return apierrors.NewGenericServerResponse(404, "get", corev1.Resource("configmaps"), "", "", 0, true)
}

func (c comingAndGoing) List(_ context.Context, options metav1.ListOptions) (*corev1.ConfigMapList, error) {
	c.listed.Store(c.listed.Load() || options.Limit != 1)
	return &corev1.ConfigMapList{
		ListMeta: metav1.ListMeta{ResourceVersion: "7"},
		Items:    []corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7"}}},
	}, c.err()
}

// Watch ends after a minute: the API server ends the watches of a resource that goes.
func (c comingAndGoing) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	events := make(chan watch.Event, 2)
	if options.SendInitialEvents != nil {
		events <- watch.Event{Type: watch.Added, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7"}}}
		events <- watch.Event{Type: watch.Bookmark, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: "7", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}}}
	}
	time.AfterFunc(time.Minute, func() { close(events) })
	return watch.NewProxyWatcher(events), c.err()
}

// TestAResourceThatComesAndGoes: its informer is synced, and has what is there.
func TestAResourceThatComesAndGoes(t *testing.T) {
	for _, streaming := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			there, listed := &atomic.Bool{}, &atomic.Bool{}
			client := optional[*corev1.ConfigMapList]{
				Client: comingAndGoing{there, listed}, none: &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: noneVersion}},
				end: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
					ResourceVersion: noneVersion, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
				}},
			}
			informer := pipeline.New(pipeline.Config{
				Name: "maps", Resource: "configmaps", Object: &corev1.ConfigMap{},
				ListerWatcher: listWatch(client, semantics(streaming), selector{}),
			})
			ctx, end := context.WithCancel(t.Context())
			go informer.RunWithContext(ctx)
			for _, is := range []bool{false, true, false, true} {
				there.Store(is)
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				failures := informer.Failures()
				if time.Sleep(time.Hour); !is && informer.Failures() > failures {
					t.Errorf("streaming %t: it is not there; %d requests have failed, and then %d", streaming, failures, informer.Failures())
				}
				if got := informer.GetStore().ListKeys(); !informer.HasSynced() || slices.Contains(got, "a") != is {
					t.Errorf("streaming %t: it is there: %t; the informer has %q, and is synced: %t", streaming, is, got, informer.HasSynced())
				}
			}
			if listed.Load() == streaming {
				t.Errorf("streaming %t: the reflector has listed: %t", streaming, listed.Load())
			}
			end()
			synctest.Wait()
			time.Sleep(2 * time.Minute)
		})
	}
}
