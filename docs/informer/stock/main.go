// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command stock is a minimal controller on client-go's own shared informer. It prints the ConfigMaps of the namespace
// default, and prints each of them again when it changes.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
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
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("default"))
	configMaps := factory.Core().V1().ConfigMaps()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
	defer queue.ShutDown()
	handler, err := configMaps.Informer().AddEventHandler(addKeys(queue))
	if err != nil {
		return fmt.Errorf("add a handler: %w", err)
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown() // It waits until the informers have ended.
	if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		return context.Cause(ctx)
	}
	context.AfterFunc(ctx, queue.ShutDown)
	for next(queue, configMaps.Lister(), out) {
	}
	return nil
}

// addKeys returns a handler that adds the key of each object that changes.
func addKeys(queue workqueue.TypedInterface[cache.ObjectName]) cache.ResourceEventHandler {
	add := func(obj any) {
		if key, err := cache.DeletionHandlingObjectToName(obj); err == nil { // It accepts a tombstone.
			queue.Add(key)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }, DeleteFunc: add}
}

// next reconciles one key. It returns false after the queue has been shut down.
func next(queue workqueue.TypedRateLimitingInterface[cache.ObjectName], configMaps listers.ConfigMapLister, out io.Writer) bool {
	key, shutdown := queue.Get()
	if shutdown {
		return false
	}
	defer queue.Done(key)
	if err := reconcile(configMaps, key, out); err != nil {
		queue.AddRateLimited(key)
		return true
	}
	queue.Forget(key)
	return true
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
