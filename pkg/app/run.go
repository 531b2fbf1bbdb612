// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/logs"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/command"
	glassbackscheme "github.com/glassback/glassback/pkg/generated/clientset/versioned/scheme"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/trace"
	"github.com/glassback/glassback/pkg/version"
)

const long = `Glassback is a Kubernetes operator for five resources. It can show each step of each sync.

Without a command, it runs the operator. With neither --kubeconfig nor --master, the operator uses the service account of the Pod
that it runs in. To try it on a cluster of yours:

  glassback --install-crds --kubeconfig ~/.kube/config`

// New returns the command that runs the operator until its context ends.
func New() *cobra.Command {
	c := &cobra.Command{Use: "glassback", Short: "run the operator", Long: long}
	o := options.New(c.Flags())
	o.Complete(c)
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if err := o.Check(c.Flags()); err != nil || o.Version {
			return err
		}
		return setUpLogging(c.Context(), o.Logging)
	}
	c.RunE = command.Run(func(ctx context.Context, stdout, _ io.Writer) error {
		if o.Version {
			fmt.Fprintln(stdout, version.Get())
			return nil
		}
		defer logs.FlushLogs()
		if err := run(ctx, o); err != nil && ctx.Err() == nil {
			return err
		}
		return nil
	})
	return c
}

// reserveMemory reserves an eighth of GOMEMLIMIT, the container's limit, for memory that the kernel counts and Go does not: mainly the
// unread data of connections.
var reserveMemory = sync.OnceFunc(func() {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit / 8 * 7)
	}
})

// run builds the parts in the order in which they need each other, runs the operator, and stops the parts in reverse order. The observers
// wrap the transport of all clients, so they come first. The probes answer before start, which may wait long for the API server and for
// its definitions. The page shows what the operator has, so it comes last.
func run(ctx context.Context, o *options.Options) error {
	logger := klog.FromContext(ctx)
	logger.Info("Starting", "version", version.Version(), "commit", version.Commit(), "controllers", o.Controllers)
	reserveMemory()
	config, err := clients.Load(o.Cluster, clients.Pod, "")
	if err != nil {
		return err
	}
	observers, err := newObservers(ctx, o)
	if err != nil {
		return err
	}
	defer observers.stop()
	config.Wrap(observers.spans.Transport)
	c, err := clients.New(config.Config)
	if err != nil {
		return err
	}
	probes := newProbes()
	servers, err := newServers(ctx, o, c, probes, observers.metrics)
	if err != nil {
		return err
	}
	defer servers.stop()
	selfCheck, err := start(ctx, o, c, config.Host, probes)
	if err != nil {
		return err
	}
	events, stopEvents, err := newEventRecorder(c)
	if err != nil {
		return err
	}
	defer stopEvents()
	if logger.V(6).Enabled() {
		defer logStages(logger, observers.stages)()
	}
	op, err := newOperator(ctx, o, c, selfCheck, events, observers)
	if err != nil {
		return err
	}
	op.require(probes)
	servers.serveMetrics(op.webhooks)
	if err := servers.serveInspection(o, c.Kube, op); err != nil {
		return err
	}
	probes.say(nil)
	return op.run(ctx)
}

// newEventRecorder returns a recorder that sends events to the API server in the background, and a function that stops it.
func newEventRecorder(c *clients.Clients) (record.EventRecorder, func(), error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), glassbackscheme.AddToScheme(scheme)); err != nil {
		return nil, nil, fmt.Errorf("set up the scheme of events: %w", err)
	}
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.Kube.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme, corev1.EventSource{Component: "glassback"}), broadcaster.Shutdown, nil
}

// logEvery is the interval at which logStages reads the stages. A line can be logged that much later than its stage.
const logEvery = 100 * time.Millisecond

// logStages logs every stage, and returns a function that ends the log. A gap in seq means that the ring dropped stages before they were
// logged.
func logStages(logger klog.Logger, stages *trace.Recorder) func() {
	seen := uint64(0)
	logNew := func() {
		events, _ := stages.Since(seen, 0)
		for i := range events {
			e := &events[i]
			seen = e.Seq
			logger.V(6).Info("Stage", "stage", e.Stage, "seq", e.Seq, "at", e.Time.Format("15:04:05.000000"), "source", e.Source,
				"verb", e.Verb, "object", klog.KRef(e.Namespace, e.Name), "resourceVersion", e.ResourceVersion)
		}
	}
	stop := make(chan struct{})
	var logging sync.WaitGroup
	logging.Go(func() {
		wait.Until(logNew, logEvery, stop)
		logNew() // logs the stages since the last interval
	})
	return func() {
		close(stop)
		logging.Wait()
	}
}
