// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"errors"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	batchinformers "k8s.io/client-go/informers/batch/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	networkinginformers "k8s.io/client-go/informers/networking/v1"
	policyinformers "k8s.io/client-go/informers/policy/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	informers "github.com/glassback/glassback/pkg/generated/informers/externalversions/redis/v1"
	listers "github.com/glassback/glassback/pkg/generated/listers/redis/v1"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/recording"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/report"
)

// Name is the controller's name, for --controllers, logs and traces.
const Name = "rediscluster"

var kind = manifest.Kind

// The loop retries a failed sync after minRetry, and then after twice the last delay, at most maxRetry.
const (
	minRetry = 20 * time.Millisecond
	maxRetry = 30 * time.Second
)

// Config holds what a Controller needs.
type Config struct {
	Kube          kubernetes.Interface
	Client        versioned.Interface
	RedisClusters informers.RedisClusterInformer
	Pods          coreinformers.PodInformer
	Claims        coreinformers.PersistentVolumeClaimInformer
	Services      coreinformers.ServiceInformer
	ConfigMaps    coreinformers.ConfigMapInformer
	Budgets       policyinformers.PodDisruptionBudgetInformer
	Policies      networkinginformers.NetworkPolicyInformer
	Jobs          batchinformers.JobInformer
	Dial          DialFunc
	Recorder      record.EventRecorder
	Clock         clock.WithTicker
	Observers     []loop.Observer
	Nodes         redisnode.NodesObserver // nil for none

	// OperatorNamespace is the namespace of the operator's Pods, for NetworkPolicies. If it is "", a NetworkPolicy keeps the
	// namespace that it has: glassback plan may run outside of the cluster.
	OperatorNamespace string
	// BackupImage is the image of the Jobs that make and restore backups: the operator's own. If it is "", there are no such Jobs.
	BackupImage string
}

// Controller forms Redis Clusters and keeps them. The package's documentation lists what it does and
// what it guarantees.
type Controller struct {
	applied
	kube     kubernetes.Interface
	clusters listers.RedisClusterLister
	status   *report.Writer[*v1.RedisCluster, v1.RedisClusterStatus]
	pods     cache.Indexer
	claims   cache.Indexer
	jobs     cache.Indexer
	recorder record.EventRecorder
	clock    clock.PassiveClock
	written  *loop.Written
	sessions *sessions
	loop     *loop.Loop
	nodes    redisnode.NodesObserver // nil for none

	backupImage string
}

// New returns a Controller, and adds its index and event handlers to the informers. It starts nothing.
func New(config Config) (*Controller, error) {
	c := newController(config)
	if err := addIndex(config); err != nil {
		return nil, err
	}
	c.loop = loop.New(loop.Config{
		Name: Name, Kind: kind.Kind, Sync: c.Sync, MinRetry: minRetry, MaxRetry: maxRetry, Clock: config.Clock, Observers: config.Observers,
	})
	if err := c.loop.Watch(config.RedisClusters.Informer(), kind.Kind, loop.Self); err != nil {
		return nil, err
	}
	for _, owned := range []struct {
		kind     string
		informer cache.SharedIndexInformer
	}{
		{"Pod", config.Pods.Informer()},
		{"Service", config.Services.Informer()},
		{"ConfigMap", config.ConfigMaps.Informer()},
		{"PodDisruptionBudget", config.Budgets.Informer()},
		{"NetworkPolicy", config.Policies.Informer()},
		{"Job", config.Jobs.Informer()},
	} {
		if err := c.loop.Watch(owned.informer, owned.kind, loop.ControllerOf(kind.Group, kind.Kind)); err != nil {
			return nil, err
		}
	}
	if err := c.loop.Watch(config.Claims.Informer(), "PersistentVolumeClaim", labelled); err != nil {
		return nil, err
	}
	return c, nil
}

func newController(config Config) *Controller {
	written := loop.NewWritten(Name, kind.Kind, config.Clock, config.Observers)
	c := &Controller{
		applied:  newApplied(config, written),
		kube:     config.Kube,
		clusters: config.RedisClusters.Lister(),
		status: report.NewWriter(report.Config[*v1.RedisCluster, v1.RedisClusterStatus]{
			Kind: kind.Kind, Resource: groupResource.Resource, Store: config.RedisClusters.Informer().GetStore(),
			Written: written, Recorder: config.Recorder, Clock: config.Clock,
			Status:    func(rdc *v1.RedisCluster) *v1.RedisClusterStatus { return &rdc.Status },
			NoWarning: expectedReasons, MinorEvery: textEvery, WithoutMinor: withoutTexts,
		}, config.Client.RedisV1().RedisClusters),
		pods:     config.Pods.Informer().GetIndexer(),
		claims:   config.Claims.Informer().GetIndexer(),
		jobs:     config.Jobs.Informer().GetIndexer(),
		recorder: config.Recorder,
		clock:    config.Clock,
		written:  written,
		sessions: &sessions{kube: config.Kube, dial: config.Dial, clock: config.Clock, byKey: map[cache.ObjectName]*session{}},
		nodes:    config.Nodes,

		backupImage: config.BackupImage,
	}
	c.status.Wrote = c.reportJobs
	return c
}

// Loop returns the controller's workqueue and workers, for the inspection page and metrics.
func (c *Controller) Loop() *loop.Loop { return c.loop }

// Run syncs RedisClusters until ctx is done (see loop.Loop.Run).
func (c *Controller) Run(ctx, drain context.Context, workers int) {
	c.loop.Run(ctx, drain, workers)
	c.sessions.closeAll()
}

// Sync takes the next step for one RedisCluster. It returns when to sync again: no watch reports what
// happens within Redis.
//
// Sync differs from that of the other controllers in two ways:
//
//   - It applies the children before it asks the nodes. So no Pod is created before its ConfigMap exists and its
//     PodDisruptionBudget counts it. A Secret that cannot be read delays no child. A slow write does not make
//     the answers of the nodes stale.
//   - It reports before it acts. Later syncs read from the status that the cluster was formed, and which node
//     a silent Pod has.
func (c *Controller) Sync(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	if wait := c.written.Wait(key); wait > 0 {
		return wait, nil
	}
	rdc, err := c.fetch(key)
	if rdc == nil || err != nil {
		return 0, err
	}
	if errs := rdc.Validate(nil); len(errs) > 0 {
		c.observeNodes(key, nil)
		return c.status.Report(ctx, rdc, statusOfInvalid(rdc, errs, c.clock.Now()))
	}
	effective, err := c.withCertificate(ctx, rdc)
	if err != nil {
		return 0, err
	}
	accepted := c.sessions.get(rdc).rules.withoutRejected(effective)
	o, err := c.observeObjects(accepted)
	if err != nil {
		return 0, err
	}
	children, applyErr := c.applyChildren(ctx, o)
	if children.Wrote {
		return c.written.Wait(key), applyErr // A watch event will start the next sync.
	}
	if err := c.observe(ctx, o); err != nil {
		return 0, errors.Join(applyErr, err)
	}
	c.observeNodes(key, o.nodeMetrics())
	p := decide(o)
	recording.Decided(ctx, o, p)
	klog.FromContext(ctx).V(4).Info("Decided", "policy", p.Policy, "step", p.Step)
	if p.KeepStatus {
		return p.Wait.Duration, applyErr
	}
	wait, err := c.status.Report(ctx, rdc, statusOf(o, p, children))
	if err != nil {
		return 0, errors.Join(applyErr, err)
	}
	again, actErr := c.act(ctx, o, p)
	return loop.Soonest(loop.Soonest(wait, again), children.Wait), errors.Join(applyErr, actErr)
}

// fetch returns a copy of the RedisCluster with its defaults; nil if there is nothing to do (see loop.Fetch).
func (c *Controller) fetch(key cache.ObjectName) (*v1.RedisCluster, error) {
	rdc, gone, err := loop.Fetch(c.clusters.RedisClusters(key.Namespace), key.Name, "")
	if gone {
		c.owners.Forget(key)
		c.status.Forget(key)
		c.sessions.forget(key)
	}
	if rdc == nil {
		c.observeNodes(key, nil)
	}
	return rdc, err
}
