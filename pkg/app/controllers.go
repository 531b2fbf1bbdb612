/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"context"
	"maps"
	"slices"

	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/controller/mycronjob"
	"github.com/glassback/glassback/pkg/trace"
)

// environment is what controllers are made from: one for each namespace that the
// operator works in, or one for all of them.
type environment struct {
	clients   *clients
	informers *factories
	recorder  record.EventRecorder
	trace     *trace.Recorder
}

// controller is what the app runs.
type controller interface {
	Run(ctx, drain context.Context, workers int)
}

// registration is how the app knows a controller.
type registration struct {
	make  func(environment) (controller, error)
	needs []permission
}

var eventPermission = permission{group: "", resource: "events", verbs: []string{"create", "patch"}}

// registry holds every controller by its name.
var registry = map[string]registration{
	mycronjob.Name: {
		make: func(e environment) (controller, error) {
			return mycronjob.New(mycronjob.Config{
				Kube:       e.clients.kube,
				Client:     e.clients.glassback,
				MyCronJobs: e.informers.myCronJobs(),
				Jobs:       e.informers.jobs(),
				Recorder:   e.recorder,
				Clock:      clock.RealClock{},
				Trace:      e.trace,
			})
		},
		needs: []permission{
			{group: v1.GroupName, resource: "mycronjobs", verbs: []string{"get", "list", "watch"}},
			{group: v1.GroupName, resource: "mycronjobs", subresource: "status", verbs: []string{"update"}},
			{group: v1.GroupName, resource: "mycronjobs", subresource: "finalizers", verbs: []string{"update"}},
			{group: "batch", resource: "jobs", verbs: []string{"create", "delete", "get", "list", "watch"}},
			eventPermission,
		},
	},
}

func controllerNames() []string { return slices.Sorted(maps.Keys(registry)) }
