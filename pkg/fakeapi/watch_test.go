// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/must"
)

// received returns the events that have arrived, such as "ADDED sample 101". The last one is "closed" if the watch has ended.
func received(w watch.Interface) []string {
	var all []string
	for {
		synctest.Wait()
		select {
		case event, open := <-w.ResultChan():
			if !open {
				return append(all, "closed")
			}
			obj, err := meta.Accessor(event.Object)
			if err != nil {
				return append(all, err.Error())
			}
			all = append(all, fmt.Sprintf("%s %s %s", event.Type, obj.GetName(), obj.GetResourceVersion()))
		default:
			return all
		}
	}
}

func source(s *Server) Source { return Source{Server: s, Name: "maps", Example: &corev1.ConfigMap{}} }

// since returns the options of a watch from a resourceVersion.
func since(version string) metav1.ListOptions { return metav1.ListOptions{ResourceVersion: version} }

func watching(t *testing.T, source Source, options metav1.ListOptions) watch.Interface {
	t.Helper()
	w, err := source.Watch(options)
	must.Succeed(t, err)
	t.Cleanup(w.Stop)
	return w
}

func compare(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func setData(s *Server, value string) {
	Edit(s, key, "editor", func(c *corev1.ConfigMap) { c.Data["a"] = value })
}

func TestAWatchResumesFromAnyVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		s.Put(configMap(), example())
		setData(s, "2")
		s.Remove("configmaps", key)
		s.Put(configMap())
		all := []string{"ADDED sample 101", "MODIFIED sample 103", "DELETED sample 104", "ADDED sample 105"}
		compare(t, "from the beginning", received(watching(t, source(s), since("100"))), all...)
		compare(t, "from the middle", received(watching(t, source(s), since("103"))), all[2:]...)
		w := watching(t, source(s), since("105"))
		compare(t, "from the end", received(w))
		setData(s, "3")
		compare(t, "a change", received(w), "MODIFIED sample 106")
	})
}

func TestAWatchBeginsWithAllObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		s.Put(configMap(), configMap(func(c *corev1.ConfigMap) { c.Name = "another" }), example())
		w := watching(t, source(s), metav1.ListOptions{SendInitialEvents: ptr.To(true)})
		setData(s, "2")
		compare(t, "events", received(w), "ADDED another 102", "ADDED sample 101", "BOOKMARK  103", "MODIFIED sample 104")
	})
}

func TestAWatchPicksObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		s.Put(configMap())
		w, err := s.Kube().CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "100", LabelSelector: "of"})
		must.Succeed(t, err)
		t.Cleanup(w.Stop)
		label := func(labels map[string]string) {
			Edit(s, key, "editor", func(c *corev1.ConfigMap) { c.Labels = labels })
		}
		label(map[string]string{"of": "sample"})
		label(map[string]string{"of": "another"})
		label(nil)
		setData(s, "2")
		compare(t, "events", received(w), "ADDED sample 102", "MODIFIED sample 103", "DELETED sample 104")
	})
}

func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		late := map[string]time.Duration{"maps": time.Minute}
		s.Lag = func(watch string) time.Duration { return late[watch] }
		s.Put(configMap())
		slow := watching(t, source(s), since("101"))
		other := source(s)
		other.Name = "others"
		fast := watching(t, other, since("101"))
		setData(s, "2")
		late["maps"] = time.Second
		setData(s, "3")
		compare(t, "the fast watch", received(fast), "MODIFIED sample 102", "MODIFIED sample 103")
		time.Sleep(time.Minute - time.Nanosecond)
		compare(t, "before the lag", received(slow))
		time.Sleep(time.Nanosecond)
		compare(t, "after the lag", received(slow), "MODIFIED sample 102")
		time.Sleep(time.Second)
		compare(t, "the next event, not before", received(slow), "MODIFIED sample 103")
	})
}

func TestBreakAndCompact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		s.Put(configMap())
		w := watching(t, source(s), since("101"))
		s.Break("secrets")
		compare(t, "another resource breaks", received(w))
		s.Break("configmaps")
		compare(t, "the resource breaks", received(w), "closed")
		setData(s, "2")
		s.Compact()
		if _, err := source(s).Watch(since("101")); !apierrors.IsResourceExpired(err) {
			t.Errorf("error %v, want 410 Gone", err)
		}
		compare(t, "from the compacted version", received(watching(t, source(s), since("102"))))
	})
}
