// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package descriptor has the type by which each controller describes itself, and the environment in which it is created. Package kinds
// has the table of all descriptors.
package descriptor

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"

	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/permissions"
	"github.com/glassback/glassback/pkg/recording"
	"github.com/glassback/glassback/pkg/redisnode"
)

// Descriptor describes a controller and the kind of its objects.
type Descriptor struct {
	Name string // of the controller, for --controllers
	schema.GroupVersionKind
	// New returns the controller. It adds handlers to the informers of the environment, and starts nothing.
	New func(Environment) (Controller, error)
	// Needs are the permissions that the controller needs, except Events.
	Needs []permissions.Permission
	// Custom describes the custom resource; nil for a controller of a built-in kind.
	Custom *Custom
	// Decisions repeat recorded decisions. They have no name if the controller records none.
	Decisions recording.Kind
}

// Controller is what the operator runs.
type Controller interface {
	Run(ctx, drain context.Context, workers int)
	Loop() *loop.Loop
}

// Environment holds the dependencies of controllers in one namespace, or in all of them.
type Environment struct {
	*clients.Clients

	Informers *Informers
	Recorder  record.EventRecorder
	Cloud     *aliyun.Cloud
	Observers []loop.Observer
	Redis     []redisnode.Observer
	// ReadOnly says that the controllers do not run: glassback plan calls them. Their connections to redis-servers reject writes.
	ReadOnly bool

	// Nodes and Missed are those of rediscluster.Config and mycronjob.Config. They may be nil.
	Nodes  redisnode.NodesObserver
	Missed func(namespace string, slots int64)

	// OperatorNamespace and BackupImage are those of rediscluster.Config.
	OperatorNamespace, BackupImage string
	// RefuseCredentials returns why an ECSInstance may not use the operator's own credentials: see ecsinstance.OwnCredentials.
	RefuseCredentials func(*ecsv1alpha1.ECSInstance) (why, remedy string)
}
