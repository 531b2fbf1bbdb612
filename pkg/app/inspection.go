// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"

	"k8s.io/client-go/kubernetes"

	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/crds"
	"github.com/glassback/glassback/pkg/inspect"
	"github.com/glassback/glassback/pkg/metrics"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/version"
)

// keptStages is how many trace events, of all objects together, are kept for the page.
const keptStages = 8192

// inspection returns the handler of the page, which shows everything that runs.
func (o *operator) inspection(
	ctx context.Context, opts *options.Options, guard func(http.Handler) http.Handler,
) (*inspect.Page, error) {
	aliases := crds.Aliases()
	config := inspect.Config{
		Version: version.Version(), Instance: instance(), Trace: o.observers.stages, Breakpoints: opts.InspectBreakpoints, Guard: guard,
		Done: ctx.Done(),
	}
	watch := func(f *informers) {
		for _, i := range f.all {
			config.Informers = append(config.Informers, inspect.Watched{
				Informer: i, Resource: i.Resource(), Namespace: f.Namespace, Aliases: aliases[i.Kind()],
			})
		}
	}
	for _, s := range o.scopes {
		watch(s.informers)
		for _, c := range s.controllers {
			config.Loops = append(config.Loops, inspect.Run{Loop: c.Loop(), Namespace: s.informers.Namespace})
		}
	}
	if o.webhooks != nil && o.webhooks.keeper != nil {
		for _, f := range o.webhooks.informers {
			watch(f)
		}
		config.Loops = append(config.Loops, inspect.Run{Loop: o.webhooks.keeper.Loop()})
	}
	return inspect.New(config)
}

// instance returns a name of this replica that a user can recognise.
func instance() string {
	if pod := os.Getenv("POD_NAME"); pod != "" {
		return pod
	}
	host, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return host
}

// page is the handler of a page on loopback. During the start it answers 503, and names the step that the start waits for.
type page struct {
	probes  *probes
	handler atomic.Pointer[http.Handler] // nil during the start
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if handler := p.handler.Load(); handler != nil {
		(*handler).ServeHTTP(w, r)
		return
	}
	http.Error(w, fmt.Sprintf("the operator is not ready yet: %v; try again in some seconds", p.probes.step()), http.StatusServiceUnavailable)
}

// serveInspection makes the page, and serves it if it has an address. On loopback, the page serves every client. On another address, it
// uses HTTPS, and serves its API only to users that may get the paths below /inspect/. --record records the overview of the page.
func (s *servers) serveInspection(o *options.Options, kube kubernetes.Interface, op *operator) error {
	if s.inspect == nil && op.observers.records == nil {
		return nil
	}
	guard := func(h http.Handler) http.Handler { return metrics.Protect(h, kube) }
	secure := !command.Loopback(o.InspectAddress)
	if !secure {
		guard = nil
	}
	shown, err := op.inspection(s.ctx, o, guard) // s.ctx outlives the operator's context: the page also shows the stop.
	if err != nil {
		return err
	}
	op.observers.records.SetOverview(shown.Overview)
	switch {
	case s.inspect == nil:
	case secure:
		s.logger.Info("Serving the page", "url", "https://"+s.inspect.Addr().String()+"/inspect/")
		s.serveSecurely(s.inspect, shown, op.webhooks, "The server of the page failed")
	default:
		s.logger.Info("Serving the page", "url", "http://"+s.inspect.Addr().String()+"/inspect/")
		var handler http.Handler = shown
		s.page.handler.Store(&handler)
	}
	return nil
}
