// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package breakpoint

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// calls is a queue that records its calls. It has no optional methods.
type calls struct{ all []string }

func (c *calls) record(format string, args ...any) error {
	c.all = append(c.all, fmt.Sprintf(format, args...))
	return nil
}

func (c *calls) Add(o any) error    { return c.record("add %s", o.(*corev1.ConfigMap).Name) }
func (c *calls) Update(o any) error { return c.record("update %s", o.(*corev1.ConfigMap).Name) }
func (c *calls) Delete(o any) error { return c.record("delete %s", o.(*corev1.ConfigMap).Name) }
func (c *calls) Resync() error      { return c.record("resync") }
func (c *calls) Replace(objs []any, version string) error {
	return c.record("replace %d %s", len(objs), version)
}

// more also has the optional methods.
type more struct{ calls }

func (m *more) Bookmark(version string) error { return m.record("bookmark %s", version) }

func (*more) Transformer() cache.TransformFunc { return func(o any) (any, error) { return o, nil } }

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// write makes one call of each kind.
func write(t *testing.T, store cache.ReflectorStore) {
	t.Helper()
	bookmark := store.(cache.ReflectorBookmarkStore).Bookmark
	for _, err := range []error{
		store.Replace([]any{configMap("a"), configMap("b")}, "1"), store.Add(configMap("c")), store.Update(configMap("c")),
		store.Delete(configMap("c")), bookmark("2"), store.Resync(),
	} {
		if err != nil {
			t.Error(err)
		}
	}
}

var written = []string{"replace 2 1", "add c", "update c", "delete c", "bookmark 2", "resync"}

func TestAQueueKeepsCallsInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		behind := &more{}
		store := q.Wrap(behind)
		if store.(cache.TransformingStore).Transformer() == nil {
			t.Error("the transform is hidden")
		}
		write(t, store)
		if !slices.Equal(behind.all, written) || q.Held() != nil || q.Kept(10) != nil {
			t.Errorf("not held: the queue has %q", behind.all)
		}
		behind.all = nil
		q.Hold()
		q.Hold() // changes nothing
		write(t, store)
		if hold := q.Held(); len(behind.all) != 0 || hold.Kept != 5 || hold.Until.Sub(hold.Since) != Limit {
			t.Errorf("held: the queue has %q, and %+v", behind.all, hold)
		}
		var kept []string
		for _, k := range q.Kept(3) {
			kept = append(kept, fmt.Sprintf("%s %s", k.Verb, k.Object.(*corev1.ConfigMap).Name))
		}
		if want := []string{"Replaced a", "Replaced b", "Added c"}; !slices.Equal(kept, want) {
			t.Errorf("kept %q, want %q", kept, want)
		}
		time.Sleep(Limit)
		synctest.Wait()
		if !slices.Equal(behind.all, written) || q.Held() != nil || q.Kept(10) != nil {
			t.Errorf("after the limit: the queue has %q", behind.all)
		}
	})
}

// The limit of a hold does not end a later one.
func TestTheLimitOfAnEarlierHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		q.Hold()
		time.Sleep(Limit / 2)
		q.Release()
		q.Release() // changes nothing
		q.Hold()
		time.Sleep(Limit/2 + time.Second)
		synctest.Wait()
		if q.Held() == nil {
			t.Error("the second hold has ended with the limit of the first")
		}
		q.Release()
	})
}

func TestAFullQueueReleasesItself(t *testing.T) {
	var q Queue
	behind := &calls{}
	store := q.Wrap(behind)
	q.Hold()
	for range maxKept {
		_ = store.Resync()
	}
	if q.Held() != nil || len(behind.all) != maxKept {
		t.Errorf("%d calls have reached the queue", len(behind.all))
	}
}

func TestAQueueWithoutOptionalMethods(t *testing.T) {
	var q Queue
	store := q.Wrap(&calls{})
	if store.(cache.TransformingStore).Transformer() != nil {
		t.Error("it has a transform")
	}
	if err := store.(cache.ReflectorBookmarkStore).Bookmark("1"); err != nil {
		t.Error(err)
	}
}
