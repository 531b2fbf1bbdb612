/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

	"github.com/glassback/glassback/hack/devcluster/cluster"
)

// root is the repository.
var root = filepath.Join("..", "..", "..")

// Where commands run, in the words of the comments.
const (
	onCluster     = "on a cluster"
	withOperator  = "on a cluster with an operator" // unless a document says otherwise
	onReal        = "on a real node"
	withInstalled = "on a real node with an operator"
	onNothing     = "without a cluster" // each block has a directory of its own for one
)

// places are these, and whether containers run there.
var places = map[string]struct{ real bool }{
	onCluster: {}, withOperator: {}, onReal: {real: true}, withInstalled: {real: true}, onNothing: {},
}

// documentedImage is what documents call an image that was pushed to a registry.
const documentedImage = "registry.example.com/glassback:v1.0.0"

const (
	commandPatience = 4 * time.Minute  // for what builds, too
	typingPatience  = 20 * time.Second // Who types commands is slower than an operator.
	lookingPatience = 3 * time.Minute
)

// session is a set of terminals in which the test follows a document.
type session struct {
	*world // nil without a cluster

	t         *testing.T
	clone     string   // where the repository was cloned to
	files     string   // a directory
	own       []string // words of documents, and what they stand for here
	env       []string
	operators []*operator // in the background
	groups    []int       // of processes that a block began
}

// newSession opens a terminal. Its kubeconfig is where kubectl looks for one.
func newSession(t *testing.T, w *world, clone string) *session {
	t.Helper()
	files := t.TempDir()
	s := &session{world: w, t: t, clone: clone, files: files}
	path := []string{filepath.Join(clone, "bin"), filepath.Join(clone, "bin", "tools"), os.Getenv("PATH")}
	vars := map[string]string{
		"HOME": files, "PATH": strings.Join(path, string(os.PathListSeparator)), "CGO_ENABLED": "0", "STATE": filepath.Join(files, "state"),
	}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} { // They are below HOME.
		value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		if err != nil {
			t.Fatalf("go env %s: %v", name, err)
		}
		vars[name] = strings.TrimSpace(string(value))
	}
	mine := regexp.MustCompile(`^(KUBECONFIG|MAKE\w*|MFLAGS|` + strings.Join(slices.Collect(maps.Keys(vars)), "|") + `)=`)
	s.env = slices.DeleteFunc(withoutCloud(), mine.MatchString)
	for name, value := range vars {
		s.env = append(s.env, name+"="+value)
	}
	dir := filepath.Join(files, "devcluster")
	if w != nil {
		dir = w.Dir()
		w.must(t, os.Mkdir(filepath.Join(files, ".kube"), 0o700))
		w.must(t, copyFile(w.Kubeconfig(), filepath.Join(files, ".kube", "config")))
	}
	s.own = []string{"/tmp/devcluster", dir, "NAMESPACE", metav1.NamespaceDefault}
	for _, address := range []string{"127.0.0.1:8099", "127.0.0.1:9443"} {
		s.own = append(s.own, address, "127.0.0.1:"+freePort(t))
	}
	return s
}

// bash returns a command that runs a script, in a group of processes of its own. Variables that
// are set in it are there in the next one, too.
func (s *session) bash(script string) *exec.Cmd {
	const frame = `[ ! -e "$STATE" ] || . "$STATE"; trap 'export -p >"$STATE"' EXIT; set -aeo pipefail` + "\n"
	cmd := exec.Command("bash", "-c", frame+script)
	cmd.Dir, cmd.Env = s.clone, s.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// run runs a script to its end, and returns what it has printed.
func (s *session) run(script string) (string, error) {
	s.t.Helper()
	out, err := os.CreateTemp(s.files, "printed")
	if err != nil {
		s.t.Fatal(err)
	}
	defer out.Close()
	cmd := s.bash(script)
	cmd.Stdout, cmd.Stderr = out, out // A file: Wait does not wait for background processes.
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.groups = append(s.groups, cmd.Process.Pid)
	late := time.AfterFunc(commandPatience, func() { _ = signal(cmd.Process.Pid, syscall.SIGKILL) })
	err = cmd.Wait()
	if !late.Stop() {
		err = fmt.Errorf("it did not end within %s: %w", commandPatience, err)
	}
	printed, readErr := os.ReadFile(out.Name())
	return string(printed), errors.Join(err, readErr)
}

// do runs a command that has to succeed. What it wants to find may be only just being made.
func (s *session) do(text string) error {
	s.t.Helper()
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		printed, err := s.run(text)
		if err == nil {
			return nil
		}
		if !strings.Contains(printed, "NotFound") || time.Since(began) > typingPatience {
			return fmt.Errorf("%w\n%s", err, tail(printed, 40))
		}
	}
}

var (
	looks   = regexp.MustCompile(`^(kubectl (get|describe)|curl -s) `) // curl -fsS… posts
	watches = regexp.MustCompile(` (-w|--watch)\b`)
)

// see runs a command that prints something like this. What only looks, looks again until it is so.
func (s *session) see(c command) error {
	s.t.Helper()
	if watches.MatchString(c.text) {
		o := s.launch(c.text)
		defer s.end(o)
		eventually(s.t, 2*time.Minute, func(context.Context) error { return alike(c.shown, o.log.String(), true) })
		return nil
	}
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		printed, _ := s.run(c.text) // It may be shown how it fails.
		err := alike(c.shown, printed, false)
		if err == nil || !looks.MatchString(c.text) || time.Since(began) > lookingPatience {
			return err
		}
	}
}

// launch runs a script in the background, until end, or else until the document ends.
func (s *session) launch(script string) *operator {
	s.t.Helper()
	cmd := s.bash(script)
	cmd.WaitDelay = time.Second // for what holds its output
	o := begin(s.t, "command", cmd, []string{script})
	s.t.Cleanup(func() { _ = signal(cmd.Process.Pid, syscall.SIGKILL) })
	return o
}

var (
	works   = regexp.MustCompile(`"Started controller"|glassback --ecs-endpoint http`)
	unclean = regexp.MustCompile(`(?m)^(panic: |fatal error: |glassback: |exit status ).*`)
	fails   = regexp.MustCompile(`\b(go|make) run\b|\bkubectl get .*-w`)
)

// start runs a script in the background, and waits until what it starts works.
func (s *session) start(script string) error {
	s.t.Helper()
	o := s.launch(script)
	s.operators = append(s.operators, o)
	began := time.Now()
	for !works.MatchString(o.log.String()) {
		if !o.running() {
			return fmt.Errorf("it has ended (%v):\n%s", o.waitErr, tail(o.log.String(), 40))
		}
		if time.Since(began) > commandPatience {
			return fmt.Errorf("it does not work after %s:\n%s", commandPatience, tail(o.log.String(), 40))
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}

// end presses Ctrl-C.
func (s *session) end(o *operator) {
	s.t.Helper()
	if err := signal(o.cmd.Process.Pid, syscall.SIGINT); err != nil {
		s.t.Errorf("%v has ended before Ctrl-C: %v\n%s", o.cmd.Args, err, tail(o.log.String(), 20))
		return
	}
	code := o.wait(time.Minute)
	status, _ := o.cmd.ProcessState.Sys().(syscall.WaitStatus)
	interrupted := code == 0 || code == 130 || status.Signal() == syscall.SIGINT
	if fails.MatchString(strings.Join(o.cmd.Args, " ")) {
		interrupted = true // They fail after Ctrl-C in any case. If what go has run failed, it says so.
	}
	if wrong := unclean.FindString(o.log.String()); !interrupted || wrong != "" {
		s.t.Errorf("after Ctrl-C it ended with %s, %s\n%s", o.cmd.ProcessState, wrong, tail(o.log.String(), 20))
	}
}

// endAll presses Ctrl-C wherever something runs in the background.
func (s *session) endAll() {
	s.t.Helper()
	for _, o := range slices.Backward(s.operators) {
		s.end(o)
	}
	s.operators = nil
}

// close deletes the document's objects while the operator still runs to clean up after them.
func (s *session) close() {
	s.t.Helper()
	if s.world != nil {
		const all = "kubectl delete glassback --all --cascade=foreground "
		printed, err := s.run(all + "--wait=false; kubectl delete pods --all --grace-period=1; " + all + "--timeout=2m")
		if err != nil && !strings.Contains(printed, "the server doesn't have a resource type") {
			s.t.Errorf("delete what the document has made: %v\n%s", err, printed)
		}
		if printed, err := s.run("kubectl delete secrets,persistentvolumeclaims,horizontalpodautoscalers --all"); err != nil {
			s.t.Errorf("delete what the document has made: %v\n%s", err, printed)
		}
	}
	s.endAll()
	s.endGroups()
}

// endGroups ends what a block has left running with &.
func (s *session) endGroups() {
	for _, group := range s.groups {
		_ = signal(group, syscall.SIGTERM) // Mostly the group has ended.
	}
	s.groups = nil
}

// signal sends a signal to a group of processes, as a terminal does.
func signal(group int, s syscall.Signal) error { return syscall.Kill(-group, s) }

// clone copies the repository as git clone would, into a new directory, with what make integration
// has built: a document that says "make image" changes nothing here.
func clone(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		from, to := filepath.Join(root, entry.Name()), filepath.Join(dir, entry.Name())
		switch {
		case slices.Contains([]string{".git", ".cache", "bin", "dist", "tmp"}, entry.Name()):
		case entry.IsDir():
			err = errors.Join(err, os.CopyFS(to, os.DirFS(from)))
		default:
			err = errors.Join(err, copyFile(from, to))
		}
	}
	tools := filepath.Join(dir, "bin", "tools")
	devcluster, findErr := cluster.FindBinary()
	err = errors.Join(err, findErr, os.MkdirAll(tools, 0o755))
	for name, from := range map[string]string{
		"devcluster": devcluster, "glassback": binary(t), "ecssim": built(t, "ECSSIM_BIN", "bin/ecssim", "make ecssim"),
	} {
		err = errors.Join(err, copyFile(from, filepath.Join(dir, "bin", name)))
	}
	err = errors.Join(err, os.Symlink("../devcluster", filepath.Join(tools, "kubectl")),
		os.Symlink(filepath.Join(filepath.Dir(devcluster), "images"), filepath.Join(dir, "bin", "images")))
	if err != nil {
		t.Fatalf("clone the repository: %v", err)
	}
	return dir
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, info.Mode().Perm())
}
