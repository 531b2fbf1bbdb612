// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replay implements the command glassback replay. It runs decide of this program on what an operator recorded with --record, and
// prints where the plans differ. It needs no cluster.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/spf13/pflag"

	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/controller/apiexamplea"
	"github.com/glassback/glassback/pkg/controller/application"
	"github.com/glassback/glassback/pkg/controller/ecsinstance"
	"github.com/glassback/glassback/pkg/controller/mycronjob"
	"github.com/glassback/glassback/pkg/controller/rediscluster"
	"github.com/glassback/glassback/pkg/recording"
	"github.com/glassback/glassback/pkg/version"
)

// Kinds are the kinds whose decisions can be replayed.
var Kinds = []recording.Kind{
	apiexamplea.Decisions, application.Decisions, ecsinstance.Decisions, mycronjob.Decisions, rediscluster.Decisions,
}

// fieldsOf returns what this program records of each kind.
var fieldsOf = sync.OnceValue(func() map[string]recording.Fields { return recording.FieldsOf(Kinds) })

const usage = `Replay decides again, with the code of this program, on all that an operator has recorded with --record DIR. It prints which
plans differ. It needs no cluster, and changes nothing.

Usage:
  glassback replay FILE|DIR... [flags]

A directory stands for all recordings in it. Record with the version that runs, and replay with the next one: before an upgrade, it shows
which decisions of the last days the next version takes differently.

The exit code is 0 if no plan differs, 2 if one does, and 1 if a file cannot be read, or if the command line is wrong.

Flags:
`

// differs is the exit code if a plan differs. A wrong command line has the code 1 here.
const differs = 2

// settings are the values of the command's flags.
type settings struct {
	output string // text, json or yaml
	paths  []string
}

// Flags returns the flags of the command.
func Flags() *pflag.FlagSet { return (&settings{}).flags() }

func (o *settings) flags() *pflag.FlagSet {
	flags := command.Flags("glassback replay")
	command.AddOutput(flags, &o.output, command.Text, command.JSON, command.YAML)
	return flags
}

func parse(args []string, stdout io.Writer) (*settings, error) {
	o := &settings{}
	flags := o.flags()
	if err := command.Parse(flags, args, usage, stdout); err != nil {
		return nil, err
	}
	if o.paths = flags.Args(); len(o.paths) == 0 {
		return nil, errors.New("name a recording, or the directory of --record: see --help")
	}
	return o, nil
}

// Run runs glassback replay, and returns the exit code of the process.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stdout)
	if errors.Is(err, pflag.ErrHelp) {
		return command.OK
	}
	if err != nil {
		return command.Fail(stderr, err)
	}
	files, err := recording.Files(o.paths)
	if err != nil {
		return command.Fail(stderr, err)
	}
	result, failure := replay(ctx, files)
	if err := o.print(stdout, result); err != nil {
		return command.Fail(stderr, err)
	}
	switch {
	case failure != nil:
		return command.Fail(stderr, failure)
	case len(result.Different) > 0:
		return differs
	}
	return command.OK
}

// replay decides again on all records of the files. The error joins the errors of all files that cannot be read; the other files are read.
func replay(ctx context.Context, files []string) (*Result, error) {
	result := newResult(version.Version())
	var failure error
	for _, file := range files {
		err := recording.Read(file, func(header *recording.Header, line int, r *recording.Record) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return result.add(header, Place{file, line}, r)
		})
		if ctx.Err() != nil {
			return result, ctx.Err()
		}
		failure = errors.Join(failure, err)
	}
	result.sort()
	return result, failure
}

// kindOf returns the Kind of a record; nil if this program has none of that name.
func kindOf(name string) *recording.Kind {
	if i := slices.IndexFunc(Kinds, func(k recording.Kind) bool { return k.Name == name }); i >= 0 {
		return &Kinds[i]
	}
	return nil
}

// decide returns the plan of this program for a record. It returns a panic as an error: a panic would end the process with the code 2,
// which means differs.
func decide(kind *recording.Kind, r *recording.Record) (plan []byte, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	return kind.Decide(r.Observed)
}
