// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"github.com/glassback/glassback/pkg/controller/apiexamplea"
	"github.com/glassback/glassback/pkg/controller/application"
	"github.com/glassback/glassback/pkg/controller/ecsinstance"
	"github.com/glassback/glassback/pkg/controller/mycronjob"
	"github.com/glassback/glassback/pkg/controller/rediscluster"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/recording"
	"github.com/glassback/glassback/pkg/version"
)

// startRecorder returns the Recorder of --record; nil without the flag.
func startRecorder(ctx context.Context, o *options.Options, count func(recording.Result, int)) (*recording.Recorder, error) {
	return recording.Start(ctx, recording.Config{
		Dir: o.Record, Version: version.Version(), Commit: version.Commit(), Instance: instance(), Count: count,
		Kinds: []recording.Kind{
			apiexamplea.Decisions, application.Decisions, ecsinstance.Decisions, mycronjob.Decisions, rediscluster.Decisions,
		},
	})
}
