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

	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/controller/apiexamplea"
	"github.com/glassback/glassback/pkg/controller/application"
	"github.com/glassback/glassback/pkg/controller/ecsinstance"
	"github.com/glassback/glassback/pkg/controller/mycronjob"
	"github.com/glassback/glassback/pkg/controller/rediscluster"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/trace"
)

// environment is what controllers are made from: one for each namespace that the
// operator works in, or one for all of them.
type environment struct {
	clients   *clients
	informers *factories
	cloud     *aliyun.Cloud
	recorder  record.EventRecorder
	trace     *trace.Recorder
}

// controller is what the app runs.
type controller interface {
	Run(ctx, drain context.Context, workers int)
	Loop() *loop.Loop
}

// registration is how the app knows a controller.
type registration struct {
	make  func(environment) (controller, error)
	needs []permission
}

// registry holds every controller by its name.
var registry = map[string]registration{
	apiexamplea.Name: {
		make: func(e environment) (controller, error) {
			return apiexamplea.New(apiexamplea.Config{
				Kube:         e.clients.kube,
				Client:       e.clients.glassback,
				ApiExampleAs: e.informers.apiExampleAs(),
				ConfigMaps:   e.informers.configMaps(groupav1.LabelApiExampleA),
				Recorder:     e.recorder,
				Clock:        clock.RealClock{},
				Trace:        e.trace,
			})
		},
		needs: append(ownerPermissions(groupav1.GroupName, "apiexampleas"),
			permission{group: "", resource: "configmaps", verbs: childVerbs},
		),
	},
	application.Name: {
		make: func(e environment) (controller, error) {
			return application.New(application.Config{
				Kube:         e.clients.kube,
				Client:       e.clients.glassback,
				Applications: e.informers.applications(),
				Deployments:  e.informers.deployments(),
				Services:     e.informers.services(appv1.LabelApplication),
				Ingresses:    e.informers.ingresses(),
				Autoscalers:  e.informers.autoscalers(),
				Budgets:      e.informers.budgets(appv1.LabelApplication),
				Recorder:     e.recorder,
				Clock:        clock.RealClock{},
				Trace:        e.trace,
			})
		},
		needs: append(ownerPermissions(appv1.GroupName, "applications"),
			permission{group: "apps", resource: "deployments", verbs: childVerbs},
			permission{group: "", resource: "services", verbs: optionalVerbs},
			permission{group: "networking.k8s.io", resource: "ingresses", verbs: optionalVerbs},
			permission{group: "autoscaling", resource: "horizontalpodautoscalers", verbs: optionalVerbs},
			permission{group: "policy", resource: "poddisruptionbudgets", verbs: optionalVerbs},
		),
	},
	ecsinstance.Name: {
		make: func(e environment) (controller, error) {
			return ecsinstance.New(ecsinstance.Config{
				Client:       e.clients.glassback,
				ECSInstances: e.informers.ecsInstances(),
				Secret:       e.informers.watchSecret,
				Open:         func(key *aliyun.AccessKey, region string) ecsinstance.Cloud { return e.cloud.Open(key, region) },
				Recorder:     e.recorder,
				Clock:        clock.RealClock{},
				Trace:        e.trace,
			})
		},
		needs: append(ownPermissions(ecsv1alpha1.GroupName, "ecsinstances"),
			permission{group: ecsv1alpha1.GroupName, resource: "ecsinstances", verbs: []string{"patch"}}, // finalizers
			permission{group: "", resource: "secrets", verbs: []string{"list", "watch"}},                 // access keys and user data
		),
	},
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
		needs: append(ownerPermissions(mcjv1.GroupName, "mycronjobs"),
			permission{group: mcjv1.GroupName, resource: "mycronjobs", verbs: []string{"get"}}, // before a slot runs
			permission{group: "batch", resource: "jobs", verbs: []string{"create", "delete", "get", "list", "watch"}},
		),
	},
	rediscluster.Name: {
		make: func(e environment) (controller, error) {
			return rediscluster.New(rediscluster.Config{
				Kube:          e.clients.kube,
				Client:        e.clients.glassback,
				RedisClusters: e.informers.redisClusters(),
				Pods:          e.informers.pods(),
				Claims:        e.informers.claims(),
				Services:      e.informers.services(redisv1.LabelRedisCluster),
				ConfigMaps:    e.informers.configMaps(redisv1.LabelRedisCluster),
				Budgets:       e.informers.budgets(redisv1.LabelRedisCluster),
				Dial:          rediscluster.Dial,
				Recorder:      e.recorder,
				Clock:         clock.RealClock{},
				Trace:         e.trace,
			})
		},
		needs: append(ownerPermissions(redisv1.GroupName, "redisclusters"),
			permission{group: "", resource: "pods", verbs: []string{"create", "delete", "get", "list", "watch"}},
			permission{group: "", resource: "pods", subresource: "eviction", verbs: []string{"create"}}, // of those that are replaced
			permission{group: "", resource: "persistentvolumeclaims", verbs: []string{"create", "delete", "list", "patch", "watch"}},
			permission{group: "", resource: "secrets", verbs: []string{"get"}}, // passwords
			permission{group: "", resource: "services", verbs: childVerbs},
			permission{group: "", resource: "configmaps", verbs: optionalVerbs}, // of revisions that are past
			permission{group: "policy", resource: "poddisruptionbudgets", verbs: childVerbs},
		),
	},
}

// ownPermissions are what a controller needs for the resource that it is there for.
func ownPermissions(group, resource string) []permission {
	return []permission{
		{group: group, resource: resource, verbs: []string{"list", "watch"}},
		{group: group, resource: resource, subresource: "status", verbs: []string{"update"}},
	}
}

// ownerPermissions are ownPermissions for a resource that owns others with
// blockOwnerDeletion. The admission plugin OwnerReferencesPermissionEnforcement asks for it.
func ownerPermissions(group, resource string) []permission {
	return append(ownPermissions(group, resource),
		permission{group: group, resource: resource, subresource: "finalizers", verbs: []string{"update"}})
}

// childVerbs are what package child needs: an apply is a patch, and also a create
// where there is nothing yet. optionalVerbs are for children that may be unwanted.
var (
	childVerbs    = []string{"create", "get", "list", "patch", "watch"}
	optionalVerbs = []string{"create", "delete", "get", "list", "patch", "watch"}
)

func controllerNames() []string { return slices.Sorted(maps.Keys(registry)) }
