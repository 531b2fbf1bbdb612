// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// namespace is where the replicas would run in a cluster.
const namespace = "glassback-system"

// binaries are the programs that are run.
type binaries struct{ glassback, devcluster, ecssim string }

// built finds the programs, as the Makefile or the environment says, or skips the test.
func built(t *testing.T) binaries {
	t.Helper()
	find := func(env, file, how string) string {
		path := os.Getenv(env)
		if path == "" {
			path = filepath.Join(root, file)
		}
		path, err := filepath.Abs(path)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			t.Skipf("SKIPPED, needs %s: run %s, or set %s", file, how, env)
		}
		return path
	}
	return binaries{
		find("GLASSBACK_BIN", "bin/glassback", "make build"),
		find("DEVCLUSTER_BIN", "bin/devcluster", "make devcluster"),
		find("ECSSIM_BIN", "bin/ecssim", "make ecssim"),
	}
}

// world is a cluster in which Pods run by their word alone, and an ECS that is as real.
type world struct {
	binaries

	dir string // of the cluster
	ecs string // its URL
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{binaries: built(t), dir: t.TempDir()}
	t.Cleanup(func() {
		if out, err := exec.Command(w.devcluster, "down", "--dir", w.dir).CombinedOutput(); err != nil {
			t.Errorf("devcluster down: %v\n%s", err, out)
		}
	})
	if out, err := exec.CommandContext(t.Context(), w.devcluster, "up", "--quiet", "--dir", w.dir).CombinedOutput(); err != nil {
		t.Fatalf("devcluster up: %v\n%s", err, out)
	}
	log := w.begin(t, exec.Command(w.ecssim, "--bind-address", "127.0.0.1:0", "--speed", "20"))
	log.waitFor(t, "glassback --ecs-endpoint ")
	w.ecs = regexp.MustCompile(`http://\S+:\d+`).FindString(log.String())
	return w
}

// kubectl runs kubectl and returns its output.
func (w *world) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), w.devcluster, append([]string{"kubectl", "--dir", w.dir, "--"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// log is the output of a process.
type log struct {
	mu     sync.Mutex
	b      bytes.Buffer
	exited chan struct{}
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *log) waitFor(t *testing.T, text string) {
	t.Helper()
	eventually(t, func(context.Context) error {
		select {
		case <-l.exited:
			t.Fatalf("it ended before it logged %q:\n%s", text, l)
		default:
		}
		if !strings.Contains(l.String(), text) {
			return fmt.Errorf("the log has no %q:\n%s", text, l)
		}
		return nil
	})
}

// begin starts a program that is killed when the test ends.
func (w *world) begin(t *testing.T, cmd *exec.Cmd) *log {
	t.Helper()
	l := &log{exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = l, l
	cmd.Env = append(os.Environ(), "ALIBABA_CLOUD_ACCESS_KEY_ID=test", "ALIBABA_CLOUD_ACCESS_KEY_SECRET=test")
	succeed(t, cmd.Start())
	go func() {
		_ = cmd.Wait() // Tests check its effects.
		close(l.exited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // It fails only if the process has ended.
		<-l.exited
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(cmd.Path), l)
		}
	})
	return l
}

// eventually calls check until it returns nil, and fails the test with its last error if that takes longer than a minute.
func eventually(t *testing.T, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// replica is an operator that competes with others for the lease.
type replica struct {
	*log

	pod, address string
}

// blind matches the error for a kind that is not watched. The API server does not serve a new kind at once.
var blind = regexp.MustCompile(`(?m)^glassback_informer_watching.* 0$`)

// replica starts an operator as the Pod of that name, and waits until it sees everything.
func (w *world) replica(t *testing.T, pod string) *replica {
	t.Helper()
	r := &replica{pod: pod, address: freeAddress(t)}
	r.log = w.begin(t, exec.Command(w.glassback, "--kubeconfig", filepath.Join(w.dir, "kubeconfig"), "--install-crds", "--leader-elect",
		"--leader-elect-resource-namespace", namespace, "--metrics-bind-address", r.address, "--metrics-secure=false",
		"--metrics-objects=5", "--backup-image=glassback/glassback:dev",
		"--webhook-url", "https://"+freeAddress(t), "--ecs-endpoint", w.ecs))
	eventually(t, func(ctx context.Context) error {
		body, _, err := r.get(ctx)
		if not := blind.Find(body); not != nil {
			return fmt.Errorf("%s: %s", pod, not)
		}
		return err
	})
	return r
}

// freeAddress returns an address that is free.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	succeed(t, err)
	defer l.Close()
	return l.Addr().String()
}

// get returns the metrics of a replica, and of which kind the text is.
func (r *replica) get(ctx context.Context) (body []byte, contentType string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.address+"/metrics", http.NoBody)
	if err != nil {
		return nil, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return body, response.Header.Get("Content-Type"), err
}

// scrape adds the metrics of a replica with the labels that Prometheus adds by artifacts/prometheus/service_monitor.yaml. If the metric
// has such a label already, that one gets the prefix exported_.
func (r *replica) scrape(t *testing.T, into memory, at time.Time) {
	t.Helper()
	own := map[string]string{"job": "glassback-metrics", "namespace": namespace, "pod": r.pod, "instance": r.address}
	into.add(labels.FromMap(map[string]string{
		model.MetricNameLabel: "up", "job": own["job"], "namespace": own["namespace"], "pod": own["pod"], "instance": own["instance"],
	}), at, 1)
	body, contentType, err := r.get(t.Context())
	succeed(t, err)
	parser, err := textparse.New(body, contentType, nil, textparse.ParserOptions{})
	succeed(t, err)
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		succeed(t, err)
		if entry != textparse.EntrySeries {
			continue
		}
		var of labels.Labels
		parser.Labels(&of)
		builder := labels.NewBuilder(of)
		for name, is := range own {
			if has := of.Get(name); has != "" {
				builder.Set("exported_"+name, has)
			}
			builder.Set(name, is)
		}
		_, _, v := parser.Series()
		into.add(builder.Labels(), at, v)
	}
}

// succeed fails the test, and ends it, if there is an error.
func succeed(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}
