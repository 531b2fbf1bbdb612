// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	informersbatchv1 "k8s.io/client-go/informers/batch/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/must"
)

// jobs returns the function with which package app installs an Informer in a generated factory.
func jobs(queue Queue) func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
	return func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return New(Config{
			Resource: "jobs.batch",
			Object:   &batchv1.Job{},
			ListerWatcher: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
					return client.BatchV1().Jobs("").List(ctx, options)
				},
				WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
					return client.BatchV1().Jobs("").Watch(ctx, options)
				},
			}, client),
			Queue:        queue,
			Indexers:     cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			ResyncPeriod: resync,
		})
	}
}

// TestGeneratedFactory uses generated informers and listers, typed handlers and the factory's own transform with an Informer.
func TestGeneratedFactory(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		client := fake.NewClientset(job("default", "one"))
		factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(func(obj any) (any, error) {
			obj.(*batchv1.Job).ManagedFields = nil
			return obj, nil
		}))
		installed := factory.InformerFor(&batchv1.Job{}, jobs(queue))
		generated := informersbatchv1.ToTypedJobInformer(factory.Batch().V1().Jobs())
		var deleted []string
		handle, err := generated.TypedInformer().AddTypedEventHandler(informersbatchv1.JobHandlerFuncs{
			DeleteFunc: func(obj informersbatchv1.DeletedJob) { deleted = append(deleted, obj.GetObjectName().String()) },
		})
		must.Succeed(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		factory.StartWithContext(ctx)
		if synced := factory.WaitForCacheSyncWithContext(ctx); synced.Err != nil || !cache.WaitFor(ctx, "", handle.HasSyncedChecker()) {
			t.Fatal(synced.AsError())
		}
		synctest.Wait() // A fake clientset sends no events of changes before its watch is open.
		if _, err := client.BatchV1().Jobs("default").Create(ctx, job("default", "two"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		must.Succeed(t, client.BatchV1().Jobs("default").Delete(ctx, "one", metav1.DeleteOptions{}))
		synctest.Wait()
		if _, err := generated.Lister().Jobs("default").Get("two"); err != nil {
			t.Error(err)
		}
		if len(deleted) != 1 || deleted[0] != "default/one" {
			t.Errorf("deleted %v, want default/one", deleted)
		}
		if held := installed.GetStore().ListKeys(); len(held) != 1 {
			t.Errorf("the installed informer has %v: the generated factory uses another one", held)
		}
		cancel()
		factory.Shutdown()
	})
}

func job(namespace, name string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}
