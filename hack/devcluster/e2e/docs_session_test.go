// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/docs/commands"
	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/pkg/must"
)

// root is the root directory of the repository.
var root = filepath.Join("..", "..", "..")

// documentedImage is the name that documents give to an image in a registry.
const documentedImage = "registry.example.com/glassback:v0.2.0"

const (
	commandTimeout  = 4 * time.Minute  // limit for one command; some commands build programs
	notFoundTimeout = 20 * time.Second // limit until an object exists that a command needs
	outputTimeout   = 3 * time.Minute  // limit until a command prints the documented output
)

// session runs the commands of a document, as a reader does in terminals.
type session struct {
	*world // nil without a cluster

	t         *testing.T
	clone     string   // the directory of the cloned repository
	files     string   // a directory for output and variables
	values    []string // placeholders of all documents, each with its value
	env       []string
	operators []*operator // programs in the background
	groups    []int       // process groups that the present block has started
}

// newSession returns a session. With a cluster, its home directory has the kubeconfig.
func newSession(t *testing.T, w *world, clone string) *session {
	t.Helper()
	files := t.TempDir()
	s := &session{world: w, t: t, clone: clone, files: files}
	own := regexp.MustCompile(`^(KUBECONFIG|MAKE\w*|MFLAGS)=`)
	s.env = append(slices.DeleteFunc(withoutCloud(), own.MatchString), "HOME="+files, "CGO_ENABLED=0", "STATE="+filepath.Join(files, "state"),
		fmt.Sprintf("PATH=%[1]s/bin:%[1]s/bin/tools:%[2]s", clone, os.Getenv("PATH")))
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} { // Their defaults are below HOME.
		value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		if err != nil {
			t.Fatalf("go env %s: %v", name, err)
		}
		s.env = append(s.env, name+"="+strings.TrimSpace(string(value)))
	}
	dir := filepath.Join(files, "devcluster")
	if w != nil {
		dir = w.Dir()
		config, err := os.ReadFile(w.Kubeconfig())
		w.must(t, errors.Join(err, os.Mkdir(filepath.Join(files, ".kube"), 0o700)))
		w.must(t, os.WriteFile(filepath.Join(files, ".kube", "config"), config, 0o600))
	}
	s.values = []string{"/tmp/devcluster", dir, "NAMESPACE", metav1.NamespaceDefault}
	for _, address := range []string{"127.0.0.1:8099", "127.0.0.1:9443"} {
		s.values = append(s.values, address, freeAddress(t))
	}
	return s
}

// bash returns a command that runs a script in a process group of its own. The next script gets the variables that this one sets.
//
// As root, it mounts the clone over the repository's directory for the script. Go's cache has the packages that make has built in that
// directory, but none for other directories. Without root, the script builds the packages again.
func (s *session) bash(script string) *exec.Cmd {
	const frame = `[ ! -e "$STATE" ] || . "$STATE"; trap 'export -p >"$STATE"' EXIT; set -aeo pipefail` + "\n"
	cmd := exec.Command("bash", "-c", frame+script)
	cmd.Dir, cmd.Env = s.clone, s.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.Args = []string{"bash", "-ec", `cd "$0"; mount --bind "$1" .; cd "$PWD"; exec bash -c "$2"`, root, s.clone, frame + script}
		cmd.Dir, cmd.SysProcAttr.Unshareflags = "", syscall.CLONE_NEWNS
	}
	return cmd
}

// run runs a script to its end, and returns its output.
func (s *session) run(script string) (string, error) {
	s.t.Helper()
	out, err := os.CreateTemp(s.files, "printed")
	must.Succeed(s.t, err)
	defer out.Close()
	cmd := s.bash(script)
	cmd.Stdout, cmd.Stderr = out, out // With a file, Wait does not wait for background processes.
	must.Succeed(s.t, cmd.Start())
	s.groups = append(s.groups, cmd.Process.Pid)
	late := time.AfterFunc(commandTimeout, func() { _ = signal(cmd.Process.Pid, syscall.SIGKILL) })
	err = cmd.Wait()
	if !late.Stop() {
		err = fmt.Errorf("the command did not end within %s: %w", commandTimeout, err)
	}
	printed, readErr := os.ReadFile(out.Name())
	return string(printed), errors.Join(err, readErr)
}

// do runs a command that must succeed. It retries while an object does not exist: the operator may create the object later.
func (s *session) do(text string) error {
	s.t.Helper()
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		printed, err := s.run(text)
		if err == nil {
			return nil
		}
		if !strings.Contains(printed, "NotFound") || time.Since(began) > notFoundTimeout {
			return fmt.Errorf("%w\n%s", err, tail(printed, 40))
		}
	}
}

var (
	reads   = regexp.MustCompile(`^(kubectl (get|describe)|curl -s) `) // The documents post with curl -fsS….
	watches = regexp.MustCompile(` (-w|--watch)\b`)
)

// expect runs a command that must print the documented output. It repeats a command that only reads, until the output is right.
func (s *session) expect(c commands.Command) error {
	s.t.Helper()
	if watches.MatchString(c.Text) {
		o := s.launch(c.Text)
		defer s.end(o)
		eventually(s.t, 2*time.Minute, func(context.Context) error { return c.Compare(o.log.String(), true) })
		return nil
	}
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		printed, _ := s.run(c.Text) // The documented output can be that of a failure.
		err := c.Compare(printed, false)
		if err == nil || !reads.MatchString(c.Text) || time.Since(began) > outputTimeout {
			return err
		}
	}
}

// launch runs a script in the background, until end, or until the document ends.
func (s *session) launch(script string) *operator {
	s.t.Helper()
	cmd := s.bash(script)
	cmd.WaitDelay = time.Second // Processes that outlive the script can keep its output open.
	o := begin(s.t, "command", cmd, []string{script})
	s.t.Cleanup(func() { _ = signal(cmd.Process.Pid, syscall.SIGKILL) })
	return o
}

var (
	started = regexp.MustCompile(`"Started controller"|glassback --ecs-endpoint http|The page is at http`)
	unclean = regexp.MustCompile(`(?m)^(panic: |fatal error: |glassback: |exit status ).*`)
	wrapper = regexp.MustCompile(`\b(go|make) run\b|\bkubectl get .*-w`)
)

// start runs a script in the background, and waits until its program has started.
func (s *session) start(script string) error {
	s.t.Helper()
	o := s.launch(script)
	s.operators = append(s.operators, o)
	began := time.Now()
	for !started.MatchString(o.log.String()) {
		if !o.running() {
			return fmt.Errorf("the command has ended (%v):\n%s", o.waitErr, tail(o.log.String(), 40))
		}
		if time.Since(began) > commandTimeout {
			return fmt.Errorf("the program has not started after %s:\n%s", commandTimeout, tail(o.log.String(), 40))
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}

// end ends a background command with Ctrl-C.
func (s *session) end(o *operator) {
	s.t.Helper()
	if err := signal(o.cmd.Process.Pid, syscall.SIGINT); err != nil {
		s.t.Errorf("%v has ended before Ctrl-C: %v\n%s", o.cmd.Args, err, tail(o.log.String(), 20))
		return
	}
	code := o.wait(time.Minute)
	status, _ := o.cmd.ProcessState.Sys().(syscall.WaitStatus)
	interrupted := code == 0 || code == 130 || status.Signal() == syscall.SIGINT
	if wrapper.MatchString(strings.Join(o.cmd.Args, " ")) {
		interrupted = true // These wrappers always fail after Ctrl-C. If the program itself fails, the output shows it.
	}
	if wrong := unclean.FindString(o.log.String()); !interrupted || wrong != "" {
		s.t.Errorf("after Ctrl-C, the command ended with %s, %s\n%s", o.cmd.ProcessState, wrong, tail(o.log.String(), 20))
	}
}

// endAll ends all background commands with Ctrl-C, the last one first.
func (s *session) endAll() {
	s.t.Helper()
	for _, o := range slices.Backward(s.operators) {
		s.end(o)
	}
	s.operators = nil
}

// close deletes the document's objects, and then ends the operator: the finalizers of the objects need the operator.
func (s *session) close() {
	s.t.Helper()
	if s.world != nil {
		const all = "kubectl delete glassback --all --cascade=foreground "
		printed, err := s.run(all + "--wait=false; kubectl delete pods --all --grace-period=1; " + all + "--timeout=2m")
		if err != nil && !strings.Contains(printed, "the server doesn't have a resource type") {
			s.t.Errorf("delete the objects of the document: %v\n%s", err, printed)
		}
		if printed, err := s.run("kubectl delete secrets,persistentvolumeclaims,horizontalpodautoscalers --all"); err != nil {
			s.t.Errorf("delete the objects of the document: %v\n%s", err, printed)
		}
	}
	s.endAll()
	s.endGroups()
}

// endGroups ends the processes that a block left running with &.
func (s *session) endGroups() {
	for _, group := range s.groups {
		_ = signal(group, syscall.SIGTERM) // An error means that the group has ended.
	}
	s.groups = nil
}

// signal sends a signal to a process group, as a terminal does.
func signal(group int, s syscall.Signal) error { return syscall.Kill(-group, s) }

// clone copies the repository into a new directory, with the programs that make docs has built. A command like "make image" then
// changes no file of the repository itself.
func clone(t *testing.T) string {
	t.Helper()
	devcluster, err := cluster.FindBinary()
	must.Succeed(t, err)
	const script = `
		repository=$1 clone=$2 devcluster=$3 glassback=$4 ecssim=$5
		tar -C "$repository" --exclude=./.git --exclude=./.cache --exclude=./bin --exclude=./dist --exclude=./tmp -c . | tar -C "$clone" -x
		mkdir -p "$clone/bin/tools"
		cp "$devcluster" "$clone/bin/devcluster"
		cp "$glassback" "$clone/bin/glassback"
		cp "$ecssim" "$clone/bin/ecssim"
		ln -s ../devcluster "$clone/bin/tools/kubectl"
		cp -r "$(dirname "$devcluster")/images" "$clone/bin/images"`
	dir, ecssim := t.TempDir(), built(t, "ECSSIM_BIN", "bin/ecssim", "make ecssim")
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script, "clone", root, dir, devcluster, binary(t), ecssim)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("clone the repository: %v\n%s", err, out)
	}
	return dir
}
