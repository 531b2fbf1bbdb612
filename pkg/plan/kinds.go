// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
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
	"github.com/glassback/glassback/pkg/generated/informers/externalversions"
	"github.com/glassback/glassback/pkg/report"
)

// planner is a controller that can plan a sync.
type planner interface {
	Plan(ctx context.Context, key cache.ObjectName, offline bool) (*report.Plan, error)
}

// kind is one of the five kinds.
type kind struct {
	name, short string
	controller  planner
	store       cache.Store // of the objects
	own         list        // fills store
	children    []list
}

// list fills a cache with all objects of one resource.
type list func(context.Context) error

// fill fills the caches of a kind. A kind without a CustomResourceDefinition has no objects. Without objects, fill does not list children.
func (k *kind) fill(ctx context.Context) error {
	if err := k.own(ctx); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	if len(k.store.List()) == 0 {
		return nil
	}
	for _, children := range k.children {
		if err := children(ctx); err != nil {
			return err
		}
	}
	return nil
}

// listInto returns the list that fills the cache of an informer, which does not run, with the objects that have a label.
func listInto[L runtime.Object](
	informer cache.SharedIndexInformer, resource, label string, request func(context.Context, metav1.ListOptions) (L, error),
) list {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return request(ctx, options)
	})
	return func(ctx context.Context) error {
		var objects []any
		found, _, err := pages.ListWithAlloc(ctx, metav1.ListOptions{LabelSelector: label})
		if err == nil {
			err = meta.EachListItemWithAlloc(found, func(object runtime.Object) error {
				objects = append(objects, object)
				return nil
			})
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", resource, err)
		}
		return informer.GetStore().Replace(objects, "")
	}
}

// environment holds the dependencies of the controllers. No informer of a factory is started.
type environment struct {
	*clients.Clients

	cloud     *aliyun.Cloud
	namespace string
	// backupImage is BackupImage of rediscluster.Config, and credentials is Own of ecsinstance.Config.
	backupImage string
	credentials ecsinstance.OwnCredentials
	own         externalversions.SharedInformerFactory
	recorder    record.EventRecorder
}

// kube returns informers for the children of one kind. Children of another kind have another label, so they have other caches.
func (e environment) kube() informers.SharedInformerFactory {
	return informers.NewSharedInformerFactory(e.Kube, 0)
}

// newKinds returns the five kinds, with controllers that do not run, and empty caches.
func newKinds(c *clients.Clients, cloud *aliyun.Cloud, o *settings) ([]kind, error) {
	e := environment{
		Clients: c, cloud: cloud, namespace: o.namespace, backupImage: o.backupImage, credentials: o.own,
		own: externalversions.NewSharedInformerFactory(c.Glassback, 0), recorder: &record.FakeRecorder{},
	}
	var kinds []kind
	for _, create := range []func(environment) (kind, error){newApiExampleA, newApplication, newMyCronJob, newRedisCluster, newECSInstance} {
		k, err := create(e)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

func newApiExampleA(e environment) (kind, error) {
	examples, configMaps := e.own.Groupa().V1().ApiExampleAs(), e.kube().Core().V1().ConfigMaps()
	controller, err := apiexamplea.New(apiexamplea.Config{
		Kube: e.Kube, Client: e.Glassback, ApiExampleAs: examples, ConfigMaps: configMaps, Recorder: e.recorder, Clock: clock.RealClock{},
	})
	return kind{
		"ApiExampleA", "aea", controller, examples.Informer().GetStore(),
		listInto(examples.Informer(), "apiexampleas", "", e.Glassback.GroupaV1().ApiExampleAs(e.namespace).List),
		[]list{listInto(configMaps.Informer(), "configmaps", groupav1.LabelApiExampleA, e.Kube.CoreV1().ConfigMaps(e.namespace).List)},
	}, err
}

func newApplication(e environment) (kind, error) {
	apps, kube, label := e.own.App().V1().Applications(), e.kube(), appv1.LabelApplication
	config := application.Config{
		Kube: e.Kube, Client: e.Glassback, Applications: apps,
		Deployments: kube.Apps().V1().Deployments(), Services: kube.Core().V1().Services(), Ingresses: kube.Networking().V1().Ingresses(),
		Autoscalers: kube.Autoscaling().V2().HorizontalPodAutoscalers(), Budgets: kube.Policy().V1().PodDisruptionBudgets(),
		Recorder: e.recorder, Clock: clock.RealClock{},
	}
	controller, err := application.New(config)
	return kind{
		"Application", "app", controller, apps.Informer().GetStore(),
		listInto(apps.Informer(), "applications", "", e.Glassback.AppV1().Applications(e.namespace).List),
		[]list{
			listInto(config.Deployments.Informer(), "deployments", label, e.Kube.AppsV1().Deployments(e.namespace).List),
			listInto(config.Services.Informer(), "services", label, e.Kube.CoreV1().Services(e.namespace).List),
			listInto(config.Ingresses.Informer(), "ingresses", label, e.Kube.NetworkingV1().Ingresses(e.namespace).List),
			listInto(config.Autoscalers.Informer(), "horizontalpodautoscalers", label,
				e.Kube.AutoscalingV2().HorizontalPodAutoscalers(e.namespace).List),
			listInto(config.Budgets.Informer(), "poddisruptionbudgets", label, e.Kube.PolicyV1().PodDisruptionBudgets(e.namespace).List),
		},
	}, err
}

func newMyCronJob(e environment) (kind, error) {
	crons, jobs := e.own.Batch().V1().MyCronJobs(), e.kube().Batch().V1().Jobs()
	controller, err := mycronjob.New(mycronjob.Config{
		Kube: e.Kube, Client: e.Glassback, MyCronJobs: crons, Jobs: jobs, Recorder: e.recorder, Clock: clock.RealClock{},
	})
	return kind{
		"MyCronJob", "mcj", controller, crons.Informer().GetStore(),
		listInto(crons.Informer(), "mycronjobs", "", e.Glassback.BatchV1().MyCronJobs(e.namespace).List),
		[]list{listInto(jobs.Informer(), "jobs", mcjv1.LabelMyCronJob, e.Kube.BatchV1().Jobs(e.namespace).List)},
	}, err
}

func newRedisCluster(e environment) (kind, error) {
	clusters, kube, label := e.own.Redis().V1().RedisClusters(), e.kube(), redisv1.LabelRedisCluster
	config := rediscluster.Config{
		Kube: e.Kube, Client: e.Glassback, RedisClusters: clusters,
		Pods: kube.Core().V1().Pods(), Claims: kube.Core().V1().PersistentVolumeClaims(), Services: kube.Core().V1().Services(),
		ConfigMaps: kube.Core().V1().ConfigMaps(), Budgets: kube.Policy().V1().PodDisruptionBudgets(),
		Policies: kube.Networking().V1().NetworkPolicies(), OperatorNamespace: command.OwnNamespace(),
		Jobs: kube.Batch().V1().Jobs(), BackupImage: e.backupImage,
		Dial: rediscluster.DialReadOnly, Recorder: e.recorder, Clock: clock.RealClock{},
	}
	controller, err := rediscluster.New(config)
	return kind{
		"RedisCluster", "rdc", controller, clusters.Informer().GetStore(),
		listInto(clusters.Informer(), "redisclusters", "", e.Glassback.RedisV1().RedisClusters(e.namespace).List),
		[]list{
			listInto(config.Pods.Informer(), "pods", label, e.Kube.CoreV1().Pods(e.namespace).List),
			listInto(config.Claims.Informer(), "persistentvolumeclaims", label, e.Kube.CoreV1().PersistentVolumeClaims(e.namespace).List),
			listInto(config.Services.Informer(), "services", label, e.Kube.CoreV1().Services(e.namespace).List),
			listInto(config.ConfigMaps.Informer(), "configmaps", label, e.Kube.CoreV1().ConfigMaps(e.namespace).List),
			listInto(config.Budgets.Informer(), "poddisruptionbudgets", label, e.Kube.PolicyV1().PodDisruptionBudgets(e.namespace).List),
			listInto(config.Jobs.Informer(), "jobs", label, e.Kube.BatchV1().Jobs(e.namespace).List),
			listInto(config.Policies.Informer(), "networkpolicies", label, e.Kube.NetworkingV1().NetworkPolicies(e.namespace).List),
		},
	}, err
}

func newECSInstance(e environment) (kind, error) {
	instances := e.own.Alibabacloud().V1alpha1().ECSInstances()
	controller, err := ecsinstance.New(ecsinstance.Config{
		Client: e.Glassback, ECSInstances: instances, Recorder: e.recorder, Clock: clock.RealClock{},
		Secrets: e.Kube.CoreV1(), Own: e.credentials,
		Open: func(key *aliyun.AccessKey, region string) ecsinstance.Cloud { return e.cloud.Open(key, region) },
	})
	return kind{
		"ECSInstance", "ecs", controller, instances.Informer().GetStore(),
		listInto(instances.Informer(), "ecsinstances", "", e.Glassback.AlibabacloudV1alpha1().ECSInstances(e.namespace).List), nil,
	}, err
}
