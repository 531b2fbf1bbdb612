// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/glassback/glassback/hack/devcluster/lifeline"
	"github.com/glassback/glassback/hack/devcluster/state"
)

// ReportFD is the file descriptor on which a supervisor reports its progress to its parent: one Report a line, in JSON. At the end of the
// file, the supervisor has ended or will send no more reports.
const ReportFD = 3

// Report is one line to the parent.
type Report struct {
	Progress string `json:"progress,omitempty"`
	Ready    bool   `json:"ready,omitempty"`
	Error    string `json:"error,omitempty"`
}

// Main is the process "devcluster supervise". It reads a Spec from in, and runs the cluster until its parent has ended or the cluster is
// stopped. It returns the exit code.
func Main(in io.Reader) int {
	return supervise(in, func(ctx context.Context, in *json.Decoder, binary string, reports *reporter) error {
		var spec state.Spec
		if err := in.Decode(&spec); err != nil {
			return fmt.Errorf("read spec: %w", err)
		}
		s := New(spec, binary, reports.progress)
		if spec.Node == state.NodeReal {
			return s.runOutside(ctx, reports.out)
		}
		return s.Run(ctx, reports.ready)
	})
}

// supervise calls run with a context that ends when the process's parent ends, or when the process gets a signal to end. It returns the
// exit code.
func supervise(in io.Reader, run func(context.Context, *json.Decoder, string, *reporter) error) int {
	signal.Ignore(syscall.SIGPIPE)
	// The umask must not depend on the parent's. This program sets the modes of its files itself, but containerd relies on the umask.
	syscall.Umask(0o022)
	reports := &reporter{out: lifeline.OpenInherited(ReportFD, "report")}
	binary, err := BinaryPath()
	if err != nil {
		reports.send(Report{Error: err.Error()})
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if parent := lifeline.Inherited(); parent != nil {
		var watch sync.WaitGroup
		watch.Go(func() {
			if lifeline.ParentGone(parent) {
				stop()
			}
		})
		defer watch.Wait()
		defer parent.Close()
	}
	err = run(ctx, json.NewDecoder(in), binary, reports)
	switch {
	case errors.Is(err, errReported):
		return 1
	case err != nil:
		reports.send(Report{Error: err.Error()})
		return 1
	}
	return 0
}

// Is reports whether a process is the supervisor of the cluster in a directory. Without /proc it returns false.
func Is(pid int, dir string) bool {
	cmdline, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return err == nil && strings.HasSuffix(string(cmdline), "\x00supervise\x00"+dir+"\x00")
}

// errReported means that the parent already has a Report of the error.
var errReported = errors.New("already reported")

// reporter sends Reports to the parent.
type reporter struct{ out *os.File }

// send sends a report. It ignores the error that it gets when the parent has ended: the lifeline shows that too.
func (r *reporter) send(report Report) { _ = json.NewEncoder(r.out).Encode(report) }

func (r *reporter) progress(line string) { r.send(Report{Progress: line}) }

// ready reports that the cluster is usable. This is the last report.
func (r *reporter) ready() {
	r.send(Report{Ready: true})
	r.out.Close()
}
