// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/crds"
	"github.com/glassback/glassback/pkg/recording"
)

const long = `Inspect serves the page of the operator from what an operator has recorded with --record DIR. A slider on the page chooses
the moment. It needs no cluster, and changes nothing.

A directory stands for all recordings in it. The page shows the state of that moment, and plays what follows. Ctrl-C ends the command.
Of a file that is truncated or damaged, the page shows what is before that, and says so.
For the terminal, glassback why KIND/NAME --address http://127.0.0.1:8082 --at TIME answers for a moment.

The exit code is 0 after Ctrl-C, 1 if a file is no recording or the address is in use, and 2 if the command line is wrong.`

// playback is glassback inspect, with the values of its flags: it serves the page from what an operator recorded with --record.
type playback struct {
	address string
	paths   []string
}

// NewPlayback returns glassback inspect.
func NewPlayback() *cobra.Command {
	p := &playback{}
	c := &cobra.Command{
		Use: "inspect FILE|DIR...", Short: "serve the page from what an operator has recorded, with a slider for the time", Long: long,
		PreRunE: func(_ *cobra.Command, args []string) error { return p.validate(args) },
		RunE:    command.Run(p.run),

		ValidArgsFunction: command.CompleteFiles,
	}
	c.Flags().StringVar(&p.address, "bind-address", "127.0.0.1:8082",
		"HOST:PORT on loopback at which the page is served; port 0 chooses a free one")
	return c
}

func (p *playback) validate(args []string) error {
	if !command.Loopback(p.address) {
		return fmt.Errorf("--bind-address must be on loopback, such as 127.0.0.1:8082, not %q: the page asks for no password", p.address)
	}
	if p.paths = args; len(args) == 0 {
		return errors.New("name a recording, or the directory of --record: see --help")
	}
	return nil
}

// run serves the page until ctx ends.
func (p *playback) run(ctx context.Context, stdout, stderr io.Writer) error {
	files, err := recording.Files(p.paths)
	if err != nil {
		return err
	}
	handler, period, err := newRecorded(files, crds.Aliases(), ctx.Done())
	if err != nil {
		return err
	}
	for _, damage := range period.Damaged {
		fmt.Fprintln(stderr, "glassback:", damage)
	}
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		return fmt.Errorf("cannot listen at %s, choose another --bind-address: %w", p.address, err)
	}
	fmt.Fprintf(stdout, "The recording is from %s to %s. The page is at http://%s/inspect/\n",
		period.From.Format(time.RFC3339), period.To.Format(time.RFC3339), listener.Addr())
	server := &http.Server{
		Handler: LocalOnly(handler), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0),
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // Its error is that of the listener.
	if err := server.Serve(listener); ctx.Err() == nil {
		return fmt.Errorf("serve the page: %w", err)
	}
	return nil
}
