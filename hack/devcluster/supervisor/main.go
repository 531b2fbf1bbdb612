package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/signal"
	"sync"
	"syscall"

	"github.com/glassback/glassback/hack/devcluster/lifeline"
	"github.com/glassback/glassback/hack/devcluster/state"
)

// ReportFD is the file descriptor on which a supervisor tells its parent how far it is: one Report a line, in JSON. The end of the file
// means that the supervisor is gone, or that it has said all it had to.
const ReportFD = 3

// Report is one line to the parent.
type Report struct {
	Progress string `json:"progress,omitempty"`
	Ready    bool   `json:"ready,omitempty"`
	Error    string `json:"error,omitempty"`
}

// Main is the process "devcluster supervise": it reads a Spec from in and runs its cluster until its parent is gone or it is stopped. It
// returns the exit code.
func Main(in io.Reader) int {
	out := lifeline.OpenInherited(ReportFD, "report")
	reports := json.NewEncoder(out)
	// A parent that has gone does not read: the error says nothing that the lifeline does not.
	send := func(r Report) { _ = reports.Encode(r) }
	signal.Ignore(syscall.SIGPIPE)

	var spec state.Spec
	if err := json.NewDecoder(in).Decode(&spec); err != nil {
		send(Report{Error: fmt.Sprintf("read spec: %v", err)})
		return 1
	}
	binary, err := BinaryPath()
	if err != nil {
		send(Report{Error: err.Error()})
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
	s := New(spec, binary, func(line string) { send(Report{Progress: line}) })
	err = s.Run(ctx, func() {
		send(Report{Ready: true})
		out.Close()
	})
	if err != nil {
		send(Report{Error: err.Error()})
		return 1
	}
	return 0
}
