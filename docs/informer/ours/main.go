// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command ours is the same controller as docs/informer/stock, on pkg/pipeline and pkg/loop.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/pipeline"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err == nil {
		err = run(ctx, kubernetes.NewForConfigOrDie(config), os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run prints ConfigMaps to out until ctx ends.
func run(ctx context.Context, client kubernetes.Interface, out io.Writer) error {
	source := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "configmaps", "default", fields.Everything())
	informer := pipeline.New(pipeline.Config{
		Resource:      "configmaps",
		Object:        &corev1.ConfigMap{},
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(source, client),
		Queue:         pipeline.DeltaFIFO, // or RealFIFO
		Indexers:      cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	configMaps := listers.NewConfigMapLister(informer.GetIndexer())
	controller := loop.New(loop.Config{
		Name: "ours", Kind: "ConfigMap", MinRetry: 5 * time.Millisecond, MaxRetry: time.Minute,
		Sync: func(_ context.Context, key cache.ObjectName) (time.Duration, error) {
			return 0, reconcile(configMaps, key, out)
		},
	})
	if err := controller.Watch(informer, "ConfigMap", loop.Self); err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	defer running.Wait()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return context.Cause(ctx)
	}
	// Run begins with the keys of all cached objects. The second context ends a sync that runs when ctx ends.
	controller.Run(ctx, ctx, 1)
	return nil
}

// reconcile prints the present state of one ConfigMap. It reads the cache and sends no request.
func reconcile(configMaps listers.ConfigMapLister, key cache.ObjectName, out io.Writer) error {
	configMap, err := configMaps.ConfigMaps(key.Namespace).Get(key.Name)
	switch {
	case apierrors.IsNotFound(err):
		_, err = fmt.Fprintf(out, "%s does not exist\n", key)
	case err == nil:
		_, err = fmt.Fprintf(out, "%s has %d entries\n", key, len(configMap.Data))
	}
	return err
}
