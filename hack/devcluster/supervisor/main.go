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
	return supervise(in, func(ctx context.Context, in *json.Decoder, binary string, t *teller) error {
		var spec state.Spec
		if err := in.Decode(&spec); err != nil {
			return fmt.Errorf("read spec: %w", err)
		}
		s := New(spec, binary, t.progress)
		if spec.Node == state.NodeReal {
			return s.runOutside(ctx, t.out)
		}
		return s.Run(ctx, t.ready)
	})
}

// supervise calls run with a context that ends with the process's parent, or when the process is told to end. It returns the exit code.
func supervise(in io.Reader, run func(context.Context, *json.Decoder, string, *teller) error) int {
	signal.Ignore(syscall.SIGPIPE)
	// Whatever that of who started it is: the modes of files are given where they are made, but containerd, for one, relies on it.
	syscall.Umask(0o022)
	t := &teller{out: lifeline.OpenInherited(ReportFD, "report")}
	binary, err := BinaryPath()
	if err != nil {
		t.say(Report{Error: err.Error()})
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
	err = run(ctx, json.NewDecoder(in), binary, t)
	switch {
	case errors.Is(err, errTold):
		return 1
	case err != nil:
		t.say(Report{Error: err.Error()})
		return 1
	}
	return 0
}

// Is reports whether a process is the supervisor of the cluster in a directory. Where the system does not tell, it is not.
func Is(pid int, dir string) bool {
	cmdline, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return err == nil && strings.HasSuffix(string(cmdline), "\x00supervise\x00"+dir+"\x00")
}

// errTold is an error of which the parent knows already.
var errTold = errors.New("it has been told")

// teller tells the parent how far the cluster is.
type teller struct{ out *os.File }

// say sends a report. A parent that has gone does not read: the error says nothing that the lifeline does not.
func (t *teller) say(r Report) { _ = json.NewEncoder(t.out).Encode(r) }

func (t *teller) progress(line string) { t.say(Report{Progress: line}) }

// ready says that the cluster is usable, and with that all that there is to say.
func (t *teller) ready() {
	t.say(Report{Ready: true})
	t.out.Close()
}
