/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/cloud/aliyun"
	glassbackscheme "github.com/glassback/glassback/pkg/generated/clientset/versioned/scheme"
	"github.com/glassback/glassback/pkg/trace"
)

// drainPatience is how long syncs that are under way may take when the operator
// stops.
const drainPatience = 20 * time.Second

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // it could not start
	exitUsage  = 2 // the command line is wrong
)

// Run runs the operator until ctx ends, and returns the process's exit code. A
// refusal is one line on stderr.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stdout)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return exitOK
	case err != nil:
		refuse(stderr, err)
		return exitUsage
	case o.version:
		fmt.Fprintln(stdout, versionLine())
		return exitOK
	}
	if err := logsapi.ValidateAndApply(o.logging, nil); err != nil {
		refuse(stderr, err)
		return exitUsage
	}
	defer logs.FlushLogs()
	if err := run(ctx, o); err != nil && ctx.Err() == nil {
		logs.FlushLogs()
		refuse(stderr, err)
		return exitFailed
	}
	return exitOK
}

// refuse prints err in one line.
func refuse(stderr io.Writer, err error) {
	fmt.Fprintln(stderr, "glassback:", strings.Join(strings.Fields(err.Error()), " "))
}

func run(ctx context.Context, o *options) error {
	logger := klog.FromContext(ctx)
	logger.Info("Starting", "version", version, "commit", commit, "controllers", o.controllers)
	config, err := restConfig(o)
	if err != nil {
		return err
	}
	c, err := newClients(config)
	if err != nil {
		return err
	}
	if err := waitForServer(ctx, c.kube, config.Host); err != nil {
		return err
	}
	if err := ensureCRDs(ctx, c.apiextensions, o.installCRDs); err != nil {
		return err
	}
	if err := checkPermissions(ctx, c.kube, o.namespaces, needs(o.controllers)); err != nil {
		return err
	}
	recorder, stopEvents, err := newEventRecorder(c)
	if err != nil {
		return err
	}
	defer stopEvents()
	stages, stopStages := logStages(logger)
	defer stopStages()

	parts, err := newParts(ctx, o, c, recorder, stages)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	drain, endDrain := drainContext(ctx)
	defer endDrain()
	var running sync.WaitGroup
	for _, part := range parts {
		running.Go(func() {
			switch err := part(ctx, drain); {
			case err != nil && ctx.Err() != nil:
				logger.Error(err, "Could not stop cleanly")
			case err != nil:
				stop(err) // None goes on without the others.
			}
		})
	}
	<-ctx.Done()
	logger.Info("Stopping", "drainPatience", drainPatience)
	running.Wait()
	return context.Cause(ctx)
}

// newParts sets up all that runs at the same time: the controllers of each namespace, and
// the webhooks.
func newParts(ctx context.Context, o *options, c *clients, recorder record.EventRecorder, stages *trace.Recorder) ([]func(ctx, drain context.Context) error, error) {
	cloud, err := aliyun.New(aliyun.Config{Endpoint: o.ecsEndpoint, UserAgent: "glassback/" + version})
	if err != nil {
		return nil, err
	}
	var parts []func(ctx, drain context.Context) error
	for _, ns := range o.namespaces {
		e := environment{clients: c, informers: newFactories(c, ns, stages), cloud: cloud, recorder: recorder, trace: stages}
		controllers, err := newControllers(e, o.controllers)
		if err != nil {
			return nil, err
		}
		parts = append(parts, func(ctx, drain context.Context) error {
			runNamespace(ctx, drain, e, controllers, o.workers)
			return nil
		})
	}
	webhooks, err := newWebhooks(ctx, o, c, stages)
	if webhooks != nil {
		parts = append(parts, webhooks.run)
	}
	return parts, err
}

// needs returns what the named controllers need to be allowed, and all of them.
func needs(controllers []string) []permission {
	needed := []permission{{group: "", resource: "events", verbs: []string{"create", "patch"}}}
	for _, name := range controllers {
		needed = append(needed, registry[name].needs...)
	}
	return needed
}

func newControllers(e environment, names []string) ([]controller, error) {
	var made []controller
	for _, name := range names {
		c, err := registry[name].make(e)
		if err != nil {
			return nil, fmt.Errorf("set up controller %s: %w", name, err)
		}
		made = append(made, c)
	}
	return made, nil
}

// runNamespace runs informers and, once their caches are synced, controllers,
// until ctx ends. It returns when all of them have ended: the controllers first,
// since their last syncs still read the caches.
func runNamespace(ctx, drain context.Context, e environment, controllers []controller, workers int) {
	logger := klog.FromContext(ctx)
	if e.informers.namespace != "" {
		logger = logger.WithValues("namespace", e.informers.namespace)
		ctx = klog.NewContext(ctx, logger)
	}
	caches, stopCaches := context.WithCancel(context.WithoutCancel(ctx))
	e.informers.start(caches)
	defer func() {
		stopCaches()
		e.informers.shutdown()
	}()
	start := time.Now()
	if !e.informers.synced(ctx) {
		return // ctx has ended
	}
	logger.Info("Caches are synced", "duration", time.Since(start))
	var running sync.WaitGroup
	for _, c := range controllers {
		running.Go(func() { c.Run(ctx, drain, workers) })
	}
	running.Wait()
}

// drainContext returns a context that lasts drainPatience longer than ctx.
func drainContext(ctx context.Context) (context.Context, context.CancelFunc) {
	drain, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(drainPatience, cancel)
		context.AfterFunc(drain, func() { timer.Stop() })
	})
	return drain, func() { stop(); cancel() }
}

// newEventRecorder returns a recorder whose events the API server gets, in the
// background.
func newEventRecorder(c *clients) (record.EventRecorder, func(), error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), glassbackscheme.AddToScheme(scheme)); err != nil {
		return nil, nil, fmt.Errorf("set up the scheme of events: %w", err)
	}
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.kube.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme, corev1.EventSource{Component: "glassback"}), broadcaster.Shutdown, nil
}

// logStages logs every stage at -v=6. With a lower verbosity nobody watches, and
// the recorder is nil: stages report for nothing.
func logStages(logger klog.Logger) (*trace.Recorder, func()) {
	if !logger.V(6).Enabled() {
		return nil, func() {}
	}
	stages := trace.NewRecorder(1024)
	subscription := stages.Subscribe(4096)
	var logging sync.WaitGroup
	logging.Go(func() {
		for e := range subscription.Events() {
			logger.V(6).Info("Stage", "stage", e.Stage, "seq", e.Seq, "source", e.Source, "verb", e.Verb,
				"object", klog.KRef(e.Namespace, e.Name), "resourceVersion", e.ResourceVersion)
		}
	})
	return stages, func() {
		subscription.Close()
		logging.Wait()
	}
}
