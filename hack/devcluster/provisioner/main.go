// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	_ "embed" // for Manifest
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// Manifest contains the default StorageClass of a cluster, and the permissions of the provisioner.
//
//go:embed manifest.yaml
var Manifest string

const (
	// Name is the value of the field provisioner in a StorageClass of this provisioner.
	Name = "devcluster.glassback.dev/hostpath"
	// User is the Kubernetes user as which the provisioner sends requests.
	User = "devcluster:provisioner"
)

const (
	// minRetry and maxRetry limit the backoff of failed operations. They are short, because tests wait for retries.
	minRetry = 100 * time.Millisecond
	maxRetry = 5 * time.Second
	// workers is the number of claims, and the number of volumes, that are processed at the same time.
	workers = 4
)

// Main runs the provisioner with the flags in os.Args until ctx ends.
func Main(ctx context.Context) error {
	defer klog.Flush()
	flags := pflag.NewFlagSet("provisioner", pflag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the provisioner")
	directory := flags.String("directory", "", "absolute path of the directory in which the provisioner creates a directory for each volume")
	node := flags.String("node", "", "name of the node that has the directory; the kubelet must see it at the same path")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("load kubeconfig: %w", err)
	}
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	if err := os.MkdirAll(*directory, 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	run(ctx, client, &volumes{directory: filepath.Clean(*directory), node: *node})
	return nil
}

// run creates and deletes volumes until ctx ends. It returns after all its goroutines have ended.
func run(ctx context.Context, client kubernetes.Interface, v *volumes) {
	factory := informers.NewSharedInformerFactory(client, 0)
	claims := factory.Core().V1().PersistentVolumeClaims().Informer()
	persistent := factory.Core().V1().PersistentVolumes().Informer()
	classes := factory.Storage().V1().StorageClasses().Informer()
	var working sync.WaitGroup
	c := controller.NewProvisionController(ctx, client, Name, v,
		controller.ClaimsInformer(claims),
		controller.VolumesInformer(persistent),
		controller.ClassesInformer(classes),
		controller.ResyncPeriod(0), // The rate limiters retry failures.
		controller.FailedProvisionThreshold(0),
		controller.FailedDeleteThreshold(0),
		controller.RateLimiter(retries()),
		controller.CreateProvisionedPVLimiter(retries()),
		controller.Threadiness(workers),
		controller.LeaderElection(false), // A cluster has one provisioner.
		controller.AddFinalizer(true),    // The provisioner deletes the directory also if the PersistentVolume is deleted before its claim.
	)
	c.ControllerWaitGroup(&working)
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	klog.FromContext(ctx).Info("Provisioning", "directory", v.directory, "node", v.node)
	c.Run(ctx)
	working.Wait()
}

func retries() workqueue.TypedRateLimiter[string] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[string](minRetry, maxRetry)
}
