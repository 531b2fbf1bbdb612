// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2/textlogger"

	"github.com/glassback/glassback/pkg/must"
)

// newStock returns client-go's own informer. An Informer uses the same texts.
func newStock(api *fakeAPI) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(api.newClient(true), &corev1.ConfigMap{}, 0, cache.Indexers{})
}

// inBubble runs a stock informer and an Informer, each in its own synctest bubble, and compares their texts.
func inBubble(t *testing.T, said func(t *testing.T, informer cache.SharedIndexInformer) string) {
	t.Helper()
	var want string
	synctest.Test(t, func(t *testing.T) { want = said(t, newStock(newFakeAPI())) })
	eachQueue(t, func(t *testing.T, queue Queue) {
		if got := said(t, newTestInformer(newFakeAPI(), queue, 0)); got != want {
			t.Errorf("the text is %q, but that of client-go's informer is %q", got, want)
		}
	})
}

// stopped runs an informer, and stops it.
func stopped(t *testing.T, informer cache.SharedIndexInformer) cache.SharedIndexInformer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		informer.RunWithContext(ctx)
	}()
	synctest.Wait()
	cancel()
	<-ended
	return informer
}

type namedHandler struct {
	cache.ResourceEventHandlerFuncs
}

func (namedHandler) String() string { return "the handler" }

func TestErrorsLikeStock(t *testing.T) {
	for name, fail := range map[string]func(t *testing.T, informer cache.SharedIndexInformer) error{
		"a handler after the end": func(t *testing.T, informer cache.SharedIndexInformer) error {
			_, err := stopped(t, informer).AddEventHandler(namedHandler{})
			return err
		},
		"a handler without a name after the end": func(t *testing.T, informer cache.SharedIndexInformer) error {
			_, err := stopped(t, informer).AddEventHandler(cache.ResourceEventHandlerFuncs{})
			return err
		},
		"an indexer after the end": func(t *testing.T, informer cache.SharedIndexInformer) error {
			return stopped(t, informer).AddIndexers(cache.Indexers{})
		},
		"a transform after the start": func(t *testing.T, informer cache.SharedIndexInformer) error {
			return stopped(t, informer).SetTransform(nil)
		},
		"an error handler after the start": func(t *testing.T, informer cache.SharedIndexInformer) error {
			return stopped(t, informer).SetWatchErrorHandler(nil)
		},
		"an index that exists": func(_ *testing.T, informer cache.SharedIndexInformer) error {
			same := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
			return errors.Join(informer.AddIndexers(same), informer.AddIndexers(same))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, informer cache.SharedIndexInformer) string {
				t.Helper()
				err := fail(t, informer)
				if err == nil {
					t.Error("the call returned no error")
				}
				return fmt.Sprint(err)
			})
		})
	}
}

// TestRemovingAForeignRegistration: client-go formats a foreign registration with a verb for a bool. So only the beginning of the text is
// the same.
func TestRemovingAForeignRegistration(t *testing.T) {
	var foreign struct {
		cache.ResourceEventHandlerRegistration
	}
	inBubble(t, func(_ *testing.T, informer cache.SharedIndexInformer) string {
		text := fmt.Sprint(informer.RemoveEventHandler(&foreign))
		before, _, _ := strings.Cut(text, " type ")
		return before
	})
}

// TestNamesLikeStock: a caller that waits for an informer or a handler logs its name.
func TestNamesLikeStock(t *testing.T) {
	j := &journal{}
	add := func(any) {}
	for name, handler := range map[string]cache.ResourceEventHandler{
		"functions of one place":      cache.ResourceEventHandlerFuncs{AddFunc: add, DeleteFunc: func(any) {}},
		"methods":                     cache.ResourceEventHandlerFuncs{UpdateFunc: j.OnUpdate, DeleteFunc: j.OnDelete},
		"functions of several places": cache.ResourceEventHandlerFuncs{AddFunc: add, DeleteFunc: j.OnDelete},
		"no functions":                cache.ResourceEventHandlerFuncs{},
		"a pointer to functions":      &cache.ResourceEventHandlerFuncs{AddFunc: add},
		"detailed functions":          cache.ResourceEventHandlerDetailedFuncs{AddFunc: j.OnAdd},
		"a type":                      j,
		"a type with a String method": namedHandler{},
		"a filter":                    cache.FilteringResourceEventHandler{Handler: j},
		"a type without a name":       struct{ *journal }{j},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, informer cache.SharedIndexInformer) string {
				t.Helper()
				registration, err := informer.AddEventHandler(handler)
				must.Succeed(t, err)
				return informer.HasSyncedChecker().Name() + "; " + registration.HasSyncedChecker().Name()
			})
		})
	}
}

var whereLogged = regexp.MustCompile(`(\w+\.go:\d+)\] "Observed a panic"`)

// TestAPanicIsLoggedWhereItHappened: the log has the file and line of a handler's panic.
func TestAPanicIsLoggedWhereItHappened(t *testing.T) {
	utilruntime.ReallyCrash = false // Otherwise client-go's informer ends the process.
	defer func() { utilruntime.ReallyCrash = true }()
	var none *corev1.ConfigMap
	for name, test := range map[string]struct {
		panics func()
		stock  bool // whether client-go's informer logs the same place
	}{
		"a panic":           {func() { panic("fake panic") }, true},
		"a nil pointer":     {func() { none.Name = "a" }, false},
		"a nil map":         {func() { noMap()["a"] = "" }, false},
		"beyond the end":    {func() { _ = []int{}[len(t.Name())] }, false},
		"a wrong type":      {func() { _ = any(none).(error) }, false},
		"a panic in a call": {func() { panickingFunction() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			place := func(t *testing.T, api *fakeAPI, informer cache.SharedIndexInformer) string {
				t.Helper()
				var log syncBuffer
				logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))
				handler := cache.ResourceEventHandlerFuncs{AddFunc: func(any) { test.panics() }}
				if _, err := informer.AddEventHandlerWithOptions(handler, cache.HandlerOptions{Logger: &logger}); err != nil {
					t.Fatal(err)
				}
				api.put("a/1")
				stopped(t, informer)
				if found := whereLogged.FindStringSubmatch(log.String()); found != nil {
					return found[1]
				}
				return "no place in the log: " + log.String()
			}
			var want string
			synctest.Test(t, func(t *testing.T) {
				api := newFakeAPI()
				want = place(t, api, newStock(api))
			})
			eachQueue(t, func(t *testing.T, queue Queue) {
				api := newFakeAPI()
				got := place(t, api, newTestInformer(api, queue, 0))
				if !strings.HasPrefix(got, "texts_test.go:") || (test.stock && got != want) {
					t.Errorf("the logged place is %s; client-go's informer logs %s", got, want)
				}
			})
		})
	}
}

func panickingFunction() { panic("fake panic") }

func noMap() map[string]string { return nil }

// TestATransformThatFailsHalfWay: if the transform refuses an object, the LIST fails. With a DeltaFIFO, the objects before it reach the
// index. Stock informers and a RealFIFO apply the whole list at once, and so none of it.
func TestATransformThatFailsHalfWay(t *testing.T) {
	for queue, want := range map[Queue]string{DeltaFIFO: "map[a/1:2]", RealFIFO: "map[]"} {
		t.Run(queue.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := newFakeAPI()
				for _, key := range []string{"a/1", "a/2", "a/3"} {
					api.put(key)
				}
				transform := func(obj any) (any, error) {
					if obj.(*corev1.ConfigMap).Name == "2" {
						return nil, errors.New("refused")
					}
					return obj, nil
				}
				informer := New(Config{ListerWatcher: api.newClient(false), Object: &corev1.ConfigMap{}, Queue: queue, Transform: transform})
				stopped(t, informer)
				if got := fmt.Sprint(versions(informer.GetStore())); got != want || informer.HasSynced() {
					t.Errorf("the index has %s, want %s; synced: %t", got, want, informer.HasSynced())
				}
				if queue == DeltaFIFO {
					return
				}
				stock := cache.NewSharedIndexInformer(api.newClient(false), &corev1.ConfigMap{}, 0, cache.Indexers{})
				must.Succeed(t, stock.SetTransform(transform))
				if got := fmt.Sprint(versions(stopped(t, stock).GetStore())); got != want {
					t.Errorf("the index of client-go's informer has %s, want %s", got, want)
				}
			})
		})
	}
}
