// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/hack/devcluster/state"
	"github.com/glassback/glassback/pkg/must"
)

// releasedImage is the name of the image in a release.
const releasedImage = "ghcr.io/glassback/glassback"

// release has the files of a release.
type release struct {
	dir     string // the directory of the files
	version string // such as v0.2.0
}

// chart returns the name of the package of the chart.
func (r release) chart() string { return "glassback-" + strings.TrimPrefix(r.version, "v") + ".tgz" }

// making is a release that another process is building.
type making struct {
	release

	out  bytes.Buffer
	done chan struct{} // closed when the process has ended
	err  error         // valid once done is closed
}

// makeRelease starts to build a release of a checkout, for the architecture of this machine only.
func makeRelease(t *testing.T, checkout string) *making {
	t.Helper()
	version := versionOf(t, checkout)
	m := &making{release: release{filepath.Join(t.TempDir(), "dist"), version}, done: make(chan struct{})}
	cmd := exec.CommandContext(t.Context(), built(t, "RELEASE_BIN", "bin/tools/release", "make bin/tools/release"), "make",
		"--source", checkout, "--dist", m.dir, "--version", version, "--commit", strings.Repeat("0a", 20), "--date", "2026-01-02T03:04:05Z",
		"--platforms", "linux/"+runtime.GOARCH)
	cmd.Stdout, cmd.Stderr = &m.out, &m.out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // After SIGTERM, the program removes its temporary files.
	if err := cmd.Start(); err != nil {
		t.Fatalf("make release %s: %v", version, err)
	}
	go func() {
		m.err = cmd.Wait()
		close(m.done)
	}()
	t.Cleanup(func() { <-m.done })
	return m
}

// made waits until the release is built.
func (m *making) made(t *testing.T) release {
	t.Helper()
	<-m.done
	if m.err != nil {
		t.Fatalf("make release %s: %v\n%s", m.version, m.err, m.out.String())
	}
	return m.release
}

// versionOf returns the version of a checkout.
func versionOf(t *testing.T, checkout string) string {
	t.Helper()
	chart, err := os.ReadFile(filepath.Join(checkout, "artifacts", "chart", "Chart.yaml"))
	must.Succeed(t, err)
	_, version, _ := strings.Cut(string(chart), "\nappVersion: ")
	version, _, _ = strings.Cut(version, "\n")
	return version
}

// nextCheckout returns a directory with all files that a release needs. They are the same as in this checkout, but have the next version.
func nextCheckout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	const script = `tar -C "$1" -c CHANGELOG.md LICENSE go.mod go.sum main.go pkg artifacts | tar -C "$2" -x`
	copying := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script, "copy", root, dir)
	if out, err := copying.CombinedOutput(); err != nil {
		t.Fatalf("copy the checkout: %v\n%s", err, out)
	}
	version := strings.TrimPrefix(versionOf(t, root), "v")
	dot := strings.LastIndex(version, ".")
	patch, err := strconv.Atoi(version[dot+1:])
	if err != nil {
		t.Fatalf("the version %s does not end with a number: %v", version, err)
	}
	for _, name := range []string{"CHANGELOG.md", filepath.Join("artifacts", "chart", "Chart.yaml")} {
		file := filepath.Join(dir, name)
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, bytes.ReplaceAll(text, []byte(version), fmt.Appendf(nil, "%s.%d", version[:dot], patch+1)), 0o600)
		}
		must.Succeed(t, err)
	}
	return dir
}

// user runs commands with only the files of a release, kubectl and helm. A user has no checkout and no Go.
type user struct {
	*world

	home string // the home directory; programs are in its directory bin
}

// newUser returns a user with the kubeconfig of the cluster.
func (w *world) newUser(t *testing.T) *user {
	t.Helper()
	u := &user{world: w, home: t.TempDir()}
	w.must(t, os.Mkdir(filepath.Join(u.home, "bin"), 0o700))
	devcluster, err := cluster.FindBinary()
	w.must(t, err)
	helm := built(t, "HELM_BIN", "bin/tools/helm", "make bin/tools/helm")
	for name, program := range map[string]string{"kubectl": devcluster, "helm": helm} {
		w.must(t, os.Symlink(program, filepath.Join(u.home, "bin", name)))
	}
	return u
}

// shell runs a script in the directory of a release, and returns its standard output. It fails the test if the script fails.
func (u *user) shell(t *testing.T, r release, script string) string {
	t.Helper()
	out, err := u.try(t, r, script)
	must.Succeed(t, err)
	return out
}

// try does the same as shell, but returns the error of the script.
func (u *user) try(t *testing.T, r release, script string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = r.dir
	path := filepath.Join(u.home, "bin") + ":/usr/sbin:/usr/bin:/sbin:/bin"
	cmd.Env = []string{"HOME=" + u.home, "KUBECONFIG=" + u.Kubeconfig(), "PATH=" + path}
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	began := time.Now()
	out, err := cmd.Output()
	t.Logf("%s took %s", script, time.Since(began).Round(100*time.Millisecond))
	if err != nil {
		return string(out), fmt.Errorf("%s: %w\n%s%s", script, err, out, complaints.String())
	}
	if strings.Contains(complaints.String(), "PodSecurity") {
		t.Errorf("%s: %s", script, complaints.String())
	}
	return string(out), nil
}

// imports imports the image of a release into the node's containerd, as docs/install.md says. On a machine without ctr, devcluster loads
// the image.
func (u *user) imports(t *testing.T, r release) {
	t.Helper()
	archive := "glassback-" + r.version + "-image.tar"
	if _, err := exec.LookPath("ctr"); err != nil {
		_, err := u.Load(t.Context(), filepath.Join(r.dir, archive))
		u.must(t, err)
		return
	}
	record, err := state.Dir(u.Dir()).Load()
	u.must(t, err)
	u.shell(t, r, fmt.Sprintf("ctr --address /proc/%d/root/run/containerd/containerd.sock --namespace k8s.io images import --digests "+
		"--base-name %s %s", record.Sandbox.Init, releasedImage, archive))
}

// everything returns a line for each object of the cluster that matches the selector, of all kinds except events. It leaves out objects in
// the namespaces of Kubernetes, whose components create objects at any time.
func (u *user) everything(t *testing.T, r release, selector string) ([]string, error) {
	t.Helper()
	const line = `{.metadata.namespace}/{.apiVersion}/{.kind}/{.metadata.name}{"\n"}`
	out, err := u.try(t, r, `kinds=$(kubectl api-resources --verbs=list -o name | grep -v '^events' | paste -sd ,)
		kubectl get "$kinds" --all-namespaces --selector '`+selector+`' -o 'jsonpath={range .items[*]}`+line+`{end}'`)
	lines := slices.DeleteFunc(strings.Fields(out), func(line string) bool { return strings.HasPrefix(line, "kube-") })
	slices.Sort(lines)
	return lines, err
}
