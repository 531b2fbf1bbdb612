// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	_ "embed" // for Manifest
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
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
	// headerTimeout is the longest time that a client may take to send the headers of a request.
	headerTimeout = 10 * time.Second
)

// Config is the configuration of the provisioner of one node.
type Config struct {
	Client    kubernetes.Interface
	Directory string // absolute; created if it does not exist. The kubelet must see it at the same path.
	Node      string
	Listener  net.Listener // answers GET /readyz. Run closes it.
}

// Main runs the provisioner with the flags in os.Args until ctx ends.
func Main(ctx context.Context) error {
	defer klog.Flush()
	config, err := parse(os.Args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	return Run(ctx, config)
}

func parse(args []string) (Config, error) {
	var config Config
	flags := pflag.NewFlagSet("provisioner", pflag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the provisioner")
	flags.StringVar(&config.Directory, "directory", "", "directory in which the provisioner creates a directory for each volume")
	flags.StringVar(&config.Node, "node", "", "name of the node that has the directory")
	listen := flags.String("listen", "127.0.0.1:0", "address that answers GET /readyz")
	if err := flags.Parse(args); err != nil {
		return config, err
	}
	for _, name := range []string{"kubeconfig", "directory", "node"} {
		if flags.Lookup(name).Value.String() == "" {
			return config, fmt.Errorf("--%s is missing", name)
		}
	}
	rest, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return config, fmt.Errorf("load kubeconfig: %w", err)
	}
	rest.QPS = -1
	rest.ContentType = runtime.ContentTypeProtobuf
	if config.Client, err = kubernetes.NewForConfig(rest); err != nil {
		return config, fmt.Errorf("make client: %w", err)
	}
	if config.Directory, err = filepath.Abs(config.Directory); err != nil {
		return config, fmt.Errorf("find directory: %w", err)
	}
	if config.Listener, err = net.Listen("tcp", *listen); err != nil {
		return config, fmt.Errorf("listen: %w", err)
	}
	return config, nil
}

// Run creates and deletes volumes until ctx ends. It returns after all its goroutines have ended.
func Run(ctx context.Context, config Config) error {
	defer config.Listener.Close()
	if err := os.MkdirAll(config.Directory, 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	logger := klog.FromContext(ctx)
	factory := informers.NewSharedInformerFactory(config.Client, 0)
	claims := factory.Core().V1().PersistentVolumeClaims().Informer()
	persistent := factory.Core().V1().PersistentVolumes().Informer()
	classes := factory.Storage().V1().StorageClasses().Informer()
	var working sync.WaitGroup
	c := controller.NewProvisionController(ctx, config.Client, Name,
		&volumes{directory: filepath.Clean(config.Directory), node: config.Node},
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
	server := &http.Server{
		Handler:           readiness(claims.HasSynced, persistent.HasSynced, classes.HasSynced),
		ReadHeaderTimeout: headerTimeout,
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	working.Go(func() {
		if err := server.Serve(config.Listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error(err, "Stopped serving readiness")
		}
	})
	logger.Info("Provisioning", "directory", config.Directory, "node", config.Node, "readyz", config.Listener.Addr().String())
	c.Run(ctx)
	server.Close()
	working.Wait()
	return nil
}

func retries() workqueue.TypedRateLimiter[string] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[string](minRetry, maxRetry)
}

// readiness answers GET /readyz: with 200 if the caches are synced, otherwise with 503.
func readiness(synced ...cache.InformerSynced) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if slices.ContainsFunc(synced, func(hasSynced cache.InformerSynced) bool { return !hasSynced() }) {
			http.Error(w, "the caches are not synced yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}
