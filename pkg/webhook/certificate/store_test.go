/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package certificate

import (
	"crypto/tls"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

func TestSecretStore(t *testing.T) {
	const namespace = "glassback-system"
	ctx := t.Context()
	client := fake.NewClientset()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	store := SecretStore{Secrets: listers.NewSecretLister(indexer).Secrets(namespace), Client: client.CoreV1().Secrets(namespace)}

	if got, err := store.Get(); got != nil || err != nil {
		t.Errorf("Get without a Secret: %v, %v", got, err)
	}
	if got, err := store.Live(ctx); got != nil || err != nil {
		t.Errorf("Live without a Secret: %v, %v", got, err)
	}
	if err := store.Put(ctx, &corev1.Secret{Data: map[string][]byte{"a": []byte("1")}}); err != nil {
		t.Fatal(err)
	}
	live, err := store.Live(ctx)
	if err != nil || live == nil || live.Name != SecretName || live.Labels["app.kubernetes.io/name"] != "glassback" || string(live.Data["a"]) != "1" {
		t.Fatalf("Live after Put: %v, %v", live, err)
	}
	if err := store.Put(ctx, &corev1.Secret{}); !apierrors.IsConflict(err) {
		t.Errorf("another replica was first: got %v, want a conflict, which is retried quietly", err)
	}
	if again, err := store.Live(ctx); err != nil || string(again.Data["a"]) != "1" {
		t.Errorf("the first replica's Secret was overwritten: %v, %v", again, err)
	}

	cached := live.DeepCopy()
	cached.ResourceVersion = "7"
	if err := indexer.Add(cached); err != nil {
		t.Fatal(err)
	}
	got, err := store.Get()
	if err != nil || got.ResourceVersion != "7" {
		t.Fatalf("Get: %v, %v", got, err)
	}
	changed := got.DeepCopy()
	changed.Data["a"] = []byte("2")
	if err := store.Put(ctx, changed); err != nil {
		t.Fatal(err)
	}
	updated, err := client.CoreV1().Secrets(namespace).Get(ctx, SecretName, metav1.GetOptions{})
	if err != nil || string(updated.Data["a"]) != "2" {
		t.Errorf("after an update: %v, %v", updated, err)
	}
}

// Out of a cluster a Keeper needs nobody: the second sync serves.
func TestAKeeperInMemory(t *testing.T) {
	k := New(Config{
		Store: &MemoryStore{}, Names: []string{"127.0.0.1"}, Lifetimes: DefaultLifetimes, Now: time.Now, Clock: clock.RealClock{},
	})
	ctx := klog.NewContext(t.Context(), klog.Logger{})
	for _, want := range []time.Duration{retryFirst, DefaultLifetimes.Settle, DefaultLifetimes.Settle} {
		if after, err := k.Sync(ctx, key); err != nil || after != want {
			t.Errorf("sync again after %s (%v), want %s", after, err, want)
		}
	}
	var shown *tls.Certificate
	if held := k.leaf.held.Load(); held != nil {
		shown = held.cert
	}
	if shown == nil || !shown.Leaf.IPAddresses[0].IsLoopback() {
		t.Fatalf("shows %v", shown)
	}
}
