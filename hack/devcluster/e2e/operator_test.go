// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
)

// world is a cluster with clients for it.
type world struct {
	*cluster.Cluster
	kube      kubernetes.Interface
	glassback versioned.Interface
	config    *rest.Config
}

// start starts a cluster, which stops when the test ends.
func start(t testing.TB, config cluster.Config) *world {
	t.Helper()
	if _, measures := t.(*testing.B); !measures {
		var ended func() error
		var err error
		if config, ended, err = audited(config); err != nil {
			t.Fatalf("configure the audit log of the API server: %v", err)
		}
		t.Cleanup(func() {
			if err := ended(); err != nil {
				t.Error(err)
			}
		})
	}
	c, err := cluster.Start(t.Context(), config)
	if err != nil {
		t.Fatalf("start cluster: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("stop cluster: %v", err)
		}
	})
	return newWorld(c)
}

func newWorld(c *cluster.Cluster) *world {
	json := c.RESTConfig()
	json.QPS = -1
	json.WarningHandler = rest.NoWarnings{} // The API server sends thousands of warnings, which only kubectl should show.
	binary := rest.CopyConfig(json)
	binary.ContentType = runtime.ContentTypeProtobuf
	return &world{c, kubernetes.NewForConfigOrDie(binary), versioned.NewForConfigOrDie(json), json}
}

// operator is a running bin/glassback, or another program that runs beside it.
type operator struct {
	t       testing.TB
	name    string
	cmd     *exec.Cmd
	log     *logBuffer
	exited  chan struct{}
	waitErr error // valid after exited is closed
}

// logBuffer keeps the output of a process.
type logBuffer struct {
	mu   sync.Mutex
	b    bytes.Buffer
	wait []string // texts to wait for; one of them is enough
	then func()   // called when one of the texts is in the log; nil if nothing waits
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.b.Write(p)
	l.look()
	return n, err
}

// when calls then once, as soon as the log contains one of the texts.
func (l *logBuffer) when(texts []string, then func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wait, l.then = texts, then
	l.look()
}

func (l *logBuffer) look() {
	if l.then != nil && slices.ContainsFunc(l.wait, func(text string) bool { return bytes.Contains(l.b.Bytes(), []byte(text)) }) {
		l.then()
		l.then = nil
	}
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func binary(t testing.TB) string {
	t.Helper()
	return built(t, "GLASSBACK_BIN", "bin/glassback", "make build")
}

// built returns the path of a program that the Makefile builds, unless env names another.
func built(t testing.TB, env, file, how string) string {
	t.Helper()
	if path := os.Getenv(env); path != "" {
		return path
	}
	path, err := filepath.Abs("../../../" + file)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("find %s, run %s first: %v", file, how, err)
	}
	return path
}

// launch runs the operator with the arguments. The end of the test kills the operator if it still runs. If the test has failed, it prints
// the operator's log.
func launch(t testing.TB, args ...string) *operator {
	t.Helper()
	return follow(t, exec.Command(binary(t), args...), args)
}

// follow does the same as launch, with a given command.
func follow(t testing.TB, cmd *exec.Cmd, args []string) *operator {
	t.Helper()
	return begin(t, "glassback", cmd, args)
}

// begin does the same as follow, for any program.
func begin(t testing.TB, name string, cmd *exec.Cmd, args []string) *operator {
	t.Helper()
	artifacts := t.ArtifactDir() // A cleanup cannot call this.
	o := &operator{t: t, name: name, cmd: cmd, log: &logBuffer{}, exited: make(chan struct{})}
	o.cmd.Stdout, o.cmd.Stderr = o.log, o.log
	if err := o.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		o.waitErr = o.cmd.Wait()
		close(o.exited)
	}()
	t.Cleanup(func() {
		o.kill()
		if t.Failed() {
			file := filepath.Join(artifacts, fmt.Sprintf("%s-%d.log", name, o.cmd.Process.Pid))
			if err := os.WriteFile(file, []byte(o.log.String()), 0o644); err != nil {
				t.Error(err)
			}
			t.Logf("the log of %s %s is in %s (go test -artifacts keeps it); its end:\n%s",
				name, strings.Join(args, " "), file, tail(o.log.String(), 10))
		}
	})
	return o
}

// operate runs the operator on w and waits until its controllers have started.
func (w *world) operate(t testing.TB, args ...string) *operator {
	t.Helper()
	o := launch(t, append([]string{"--kubeconfig", w.Kubeconfig(), "-v=2"}, args...)...)
	o.waitFor("Started controller")
	return o
}

func (o *operator) waitFor(line string) {
	o.t.Helper()
	eventually(o.t, patience, func(context.Context) error {
		if o.running() && !strings.Contains(o.log.String(), line) {
			return fmt.Errorf("the log has no %q", line)
		}
		return nil
	})
	if !strings.Contains(o.log.String(), line) {
		o.t.Fatalf("%s ended (%v) before it logged %q:\n%s", o.name, o.waitErr, line, tail(o.log.String(), 30))
	}
}

func (o *operator) running() bool {
	select {
	case <-o.exited:
		return false
	default:
		return true
	}
}

// kill ends the process with SIGKILL, and returns when it has ended.
func (o *operator) kill() {
	_ = o.cmd.Process.Kill() // An error means that the process has ended.
	<-o.exited
}

// killAt ends the process with SIGKILL as soon as the process logs one of the lines. It returns the lines that are not in the log.
func (o *operator) killAt(patience time.Duration, lines ...string) (missing []string) {
	o.t.Helper()
	o.log.when(lines, func() { _ = o.cmd.Process.Kill() }) // As in kill.
	select {
	case <-o.exited:
	case <-time.After(patience):
		o.t.Fatalf("%s has logged none of %q within %s:\n%s", o.name, lines, patience, tail(o.log.String(), 30))
	}
	log := o.log.String()
	missing = slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.Contains(log, line) })
	if len(missing) == len(lines) {
		o.t.Fatalf("%s ended (%v) before it logged any of %q:\n%s", o.name, o.waitErr, lines, tail(log, 30))
	}
	return missing
}

// stop ends the process with SIGTERM, and returns its exit code.
func (o *operator) stop() int {
	o.t.Helper()
	if err := o.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		o.t.Fatalf("stop %s: %v", o.name, err)
	}
	return o.wait(30 * time.Second)
}

func (o *operator) wait(patience time.Duration) int {
	o.t.Helper()
	select {
	case <-o.exited:
	case <-time.After(patience):
		o.t.Fatalf("%s still runs after %s:\n%s", o.name, patience, tail(o.log.String(), 30))
	}
	return o.cmd.ProcessState.ExitCode()
}

// eventually calls check until it returns nil, and fails the test with its last error if that takes longer than patience.
func eventually(t testing.TB, patience time.Duration, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil || last == nil {
			last = err // This leaves out the error of a request that the timeout canceled.
		}
		select {
		case <-ctx.Done():
			t.Fatalf("after %s: %v", patience, last)
		case <-tick.C:
		}
	}
}

// settled waits until the result of count has not changed for a while: then all background work has ended. It fails the test if this takes
// longer than patience.
func settled[K, V comparable](t testing.TB, patience, while time.Duration, count func() map[K]V) {
	t.Helper()
	var before map[K]V
	since := time.Now()
	eventually(t, patience, func(context.Context) error {
		now := count()
		if before == nil || !maps.Equal(before, now) {
			before, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < while {
			return fmt.Errorf("the last change was %s ago: %v", quiet, now)
		}
		return nil
	})
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func namespaceObject() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
}

func serviceAccount(name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
