// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"

	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/controller/apiexamplea"
	"github.com/glassback/glassback/pkg/controller/application"
	"github.com/glassback/glassback/pkg/controller/ecsinstance"
	"github.com/glassback/glassback/pkg/controller/mycronjob"
	"github.com/glassback/glassback/pkg/controller/rediscluster"
	"github.com/glassback/glassback/pkg/loop"
)

// environment holds the dependencies of controllers. There is one for each namespace that the
// operator works in, or one for all of them.
type environment struct {
	clients   *clients.Clients
	informers *factories
	cloud     *aliyun.Cloud
	own       ecsinstance.OwnCredentials
	recorder  record.EventRecorder
	observers *observers

	backupImage string // the image of the backup Jobs of RedisClusters; "" for none
}

// controller is the part of a controller that the app uses.
type controller interface {
	Run(ctx, drain context.Context, workers int)
	Loop() *loop.Loop
}

// registry maps the name of each controller to its constructor. Package permissions has the permissions that each needs.
var registry = map[string]func(environment) (controller, error){
	apiexamplea.Name: func(e environment) (controller, error) {
		return apiexamplea.New(apiexamplea.Config{
			Kube:         e.clients.Kube,
			Client:       e.clients.Glassback,
			ApiExampleAs: e.informers.apiExampleAs(),
			ConfigMaps:   e.informers.configMaps(groupav1.LabelApiExampleA),
			Recorder:     e.recorder,
			Clock:        clock.RealClock{},
			Observers:    e.observers.ofLoop(apiexamplea.Name),
		})
	},
	application.Name: func(e environment) (controller, error) {
		return application.New(application.Config{
			Kube:         e.clients.Kube,
			Client:       e.clients.Glassback,
			Applications: e.informers.applications(),
			Deployments:  e.informers.deployments(),
			Services:     e.informers.services(appv1.LabelApplication),
			Ingresses:    e.informers.ingresses(),
			Autoscalers:  e.informers.autoscalers(),
			Budgets:      e.informers.budgets(appv1.LabelApplication),
			Recorder:     e.recorder,
			Clock:        clock.RealClock{},
			Observers:    e.observers.ofLoop(application.Name),
		})
	},
	ecsinstance.Name: func(e environment) (controller, error) {
		return ecsinstance.New(ecsinstance.Config{
			Client:       e.clients.Glassback,
			ECSInstances: e.informers.ecsInstances(),
			Secrets:      e.clients.Kube.CoreV1(),
			Own:          e.own,
			Open:         func(key *aliyun.AccessKey, region string) ecsinstance.Cloud { return e.cloud.Open(key, region) },
			Recorder:     e.recorder,
			Clock:        clock.RealClock{},
			Observers:    e.observers.ofLoop(ecsinstance.Name),
		})
	},
	mycronjob.Name: func(e environment) (controller, error) {
		return mycronjob.New(mycronjob.Config{
			Kube:       e.clients.Kube,
			Client:     e.clients.Glassback,
			MyCronJobs: e.informers.myCronJobs(),
			Jobs:       e.informers.jobs(mcjv1.LabelMyCronJob),
			Missed:     e.observers.metrics.Missed,
			Recorder:   e.recorder,
			Clock:      clock.RealClock{},
			Observers:  e.observers.ofLoop(mycronjob.Name),
		})
	},
	rediscluster.Name: func(e environment) (controller, error) {
		return rediscluster.New(rediscluster.Config{
			Kube:          e.clients.Kube,
			Client:        e.clients.Glassback,
			RedisClusters: e.informers.redisClusters(),
			Pods:          e.informers.pods(),
			Claims:        e.informers.claims(),
			Services:      e.informers.services(redisv1.LabelRedisCluster),
			ConfigMaps:    e.informers.configMaps(redisv1.LabelRedisCluster),
			Budgets:       e.informers.budgets(redisv1.LabelRedisCluster),
			Policies:      e.informers.networkPolicies(),
			Jobs:          e.informers.jobs(redisv1.LabelRedisCluster),
			Dial:          rediscluster.Dial(e.observers.ofRedis()...),
			Nodes:         e.observers.metrics.Nodes,
			Recorder:      e.recorder,
			Clock:         clock.RealClock{},
			Observers:     e.observers.ofLoop(rediscluster.Name),

			OperatorNamespace: cmp.Or(command.OwnNamespace(), command.DefaultNamespace),
			BackupImage:       e.backupImage,
		})
	},
}
