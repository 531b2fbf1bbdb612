// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kinds has the table of all controllers. Whatever is for all kinds ranges over it: the operator, its permissions, webhooks and
// metrics, and the programs that list, plan and replay.
package kinds

import (
	"iter"
	"slices"

	"github.com/glassback/glassback/pkg/controller/apiexamplea"
	"github.com/glassback/glassback/pkg/controller/application"
	"github.com/glassback/glassback/pkg/controller/ecsinstance"
	"github.com/glassback/glassback/pkg/controller/mycronjob"
	"github.com/glassback/glassback/pkg/controller/rediscluster"
	"github.com/glassback/glassback/pkg/descriptor"
	"github.com/glassback/glassback/pkg/permissions"
	"github.com/glassback/glassback/pkg/recording"
)

// All describes all controllers, in the order of their names.
var All = []*descriptor.Descriptor{
	apiexamplea.Descriptor,
	application.Descriptor,
	ecsinstance.Descriptor,
	mycronjob.Descriptor,
	rediscluster.Descriptor,
}

// Names returns the names of all controllers.
func Names() []string {
	var names []string
	for _, d := range All {
		names = append(names, d.Name)
	}
	return names
}

// Named returns the descriptor of the controller with a name; nil if there is none.
func Named(name string) *descriptor.Descriptor {
	if i := slices.IndexFunc(All, func(d *descriptor.Descriptor) bool { return d.Name == name }); i >= 0 {
		return All[i]
	}
	return nil
}

// Custom iterates over the kinds that are custom resources of Glassback.
func Custom() iter.Seq[*descriptor.Descriptor] {
	return func(yield func(*descriptor.Descriptor) bool) {
		for _, d := range All {
			if d.Custom != nil && !yield(d) {
				return
			}
		}
	}
}

// Decisions returns what is needed to repeat the decisions of each kind.
func Decisions() []recording.Kind {
	var all []recording.Kind
	for _, d := range All {
		if d.Decisions.Name != "" {
			all = append(all, d.Decisions)
		}
	}
	return all
}

// Needs returns the permissions that the named controllers need, with Events.
func Needs(names []string) []permissions.Permission {
	needed := slices.Clone(permissions.Events)
	for _, name := range names {
		needed = append(needed, Named(name).Needs...)
	}
	return needed
}
