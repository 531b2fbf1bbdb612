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
	"math"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/logs"
	"k8s.io/klog/v2"

	glassbackscheme "github.com/glassback/glassback/pkg/generated/clientset/versioned/scheme"
	"github.com/glassback/glassback/pkg/metrics"
	"github.com/glassback/glassback/pkg/trace"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // it could not start
	exitUsage  = 2 // the command line is wrong
)

// commands are what else there is than the operator, by their names.
var commands = map[string]func(ctx context.Context, args []string, stdout, stderr io.Writer) int{
	"check": runCheck, "why": runWhy, "trace": runTrace,
}

// Run runs the operator until ctx ends, and returns the process's exit code. A
// refusal is one line on stderr.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		if command := commands[args[0]]; command != nil {
			return command(ctx, args[1:], stdout, stderr)
		}
	}
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
	if err := setUpLogging(ctx, o.logging); err != nil {
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

// reserveMemory keeps an eighth of GOMEMLIMIT, which is the container's limit, for what Go does
// not count and the kernel does: what has come in on connections and was not read yet, above all.
var reserveMemory = sync.OnceFunc(func() {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit / 8 * 7)
	}
})

func run(ctx context.Context, o *options) error {
	logger := klog.FromContext(ctx)
	logger.Info("Starting", "version", version, "commit", commit, "controllers", o.controllers)
	reserveMemory()
	metrics.Register(version, commit)
	config, err := restConfig(o)
	if err != nil {
		return err
	}
	c, err := newClients(config)
	if err != nil {
		return err
	}
	probes := newProbes()
	servers, err := newServers(ctx, o, c, probes)
	if err != nil {
		return err
	}
	defer servers.stop()
	probes.say(errors.New("waiting for the API server"))
	if err := waitForServer(ctx, c.kube, config.Host); err != nil {
		return err
	}
	probes.say(errors.New("checking CRDs and permissions"))
	if err := checkStart(ctx, o, c); err != nil {
		return err
	}
	recorder, stopEvents, err := newEventRecorder(c)
	if err != nil {
		return err
	}
	defer stopEvents()
	stages, stopStages := newStages(logger, o)
	defer stopStages()
	l, err := newLife(ctx, o, c, recorder, stages)
	if err != nil {
		return err
	}
	l.require(probes)
	servers.serveMetrics(l.webhooks)
	if err := servers.serveInspection(o, c.kube, l, stages); err != nil {
		return err
	}
	probes.say(nil)
	return l.live(ctx)
}

// checkStart makes sure that the cluster has what the operator needs, and lets it.
func checkStart(ctx context.Context, o *options, c *clients) error {
	if err := ensureCRDs(ctx, c.apiextensions, o.installCRDs); err != nil {
		return err
	}
	if err := checkPermissions(ctx, c.kube, o.namespaces, needs(o.controllers)); err != nil {
		return err
	}
	return checkLease(ctx, c.kube, o)
}

// needs returns what the named controllers need to be allowed, and all of them.
func needs(controllers []string) []permission {
	needed := []permission{{group: "", resource: "events", verbs: []string{"create", "patch"}}}
	for _, name := range controllers {
		needed = append(needed, registry[name].needs...)
	}
	return needed
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

// newStages returns the recorder that every stage reports to; nil if nobody looks at the page, and
// none is logged: stages report for nothing then.
func newStages(logger klog.Logger, o *options) (*trace.Recorder, func()) {
	logged := logger.V(6).Enabled()
	if o.inspectAddress == "" && !logged {
		return nil, func() {}
	}
	stages := trace.NewRecorder(keptStages)
	if !logged {
		return stages, func() {}
	}
	return stages, logStages(logger, stages)
}

// logStages logs every stage until the function is called that it returns.
func logStages(logger klog.Logger, stages *trace.Recorder) func() {
	subscription := stages.Subscribe(4096)
	var logging sync.WaitGroup
	logging.Go(func() {
		for e := range subscription.Events() {
			logger.V(6).Info("Stage", "stage", e.Stage, "seq", e.Seq, "source", e.Source, "verb", e.Verb,
				"object", klog.KRef(e.Namespace, e.Name), "resourceVersion", e.ResourceVersion)
		}
	})
	return func() {
		subscription.Close()
		logging.Wait()
	}
}
