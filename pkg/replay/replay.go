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
	"sync"

	"github.com/spf13/cobra"

	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/kinds"
	"github.com/glassback/glassback/pkg/recording"
	"github.com/glassback/glassback/pkg/version"
)

// fieldsOf returns what this program records of each kind.
var fieldsOf = sync.OnceValue(func() map[string]recording.Fields { return recording.FieldsOf(kinds.Decisions()) })

const long = `Replay decides again, with the code of this program, on all that an operator has recorded with --record DIR. It prints which
plans differ. It needs no cluster, and changes nothing.

A directory stands for all recordings in it. Record with the version that runs, and replay with the next one: before an upgrade, it shows
which decisions of the last days the next version takes differently.

The exit code is 0 if no plan differs, 2 if one does, and 1 if a file cannot be read, or if the command line is wrong.`

// differs is the exit code if a plan differs. A wrong command line has the code 1 here.
const differs = 2

// settings are the values of the command's flags.
type settings struct {
	output string // text, json or yaml
	paths  []string
}

// New returns glassback replay.
func New() *cobra.Command {
	o := &settings{}
	c := &cobra.Command{
		Use: "replay FILE|DIR...", Short: "decide again on what an operator has recorded, and print which plans differ", Long: long,
		Annotations: map[string]string{command.UsageFails: "true"},
		PreRunE:     func(_ *cobra.Command, args []string) error { return o.validate(args) },
		RunE:        command.Run(o.run),

		ValidArgsFunction: command.CompleteFiles,
	}
	command.AddOutput(c, &o.output, command.Text, command.JSON, command.YAML)
	return c
}

func (o *settings) validate(args []string) error {
	if o.paths = args; len(args) == 0 {
		return errors.New("name a recording, or the directory of --record: see --help")
	}
	return nil
}

func (o *settings) run(ctx context.Context, stdout, _ io.Writer) error {
	files, err := recording.Files(o.paths)
	if err != nil {
		return err
	}
	result, failure := replay(ctx, files)
	if err := o.print(stdout, result); err != nil {
		return err
	}
	if failure == nil && len(result.Different) > 0 {
		return command.Exit{Code: differs}
	}
	return failure
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
	for d := range kinds.Custom() {
		if d.Decisions.Name == name {
			return &d.Decisions
		}
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
