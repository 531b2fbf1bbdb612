// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glassback/glassback/hack/devcluster/state"
	"github.com/glassback/glassback/pkg/must"
)

// These variables make the test binary a parent: see TestMain. parentEnv has the directory of its cluster, and nodeEnv its kind of node.
const (
	parentEnv = "DEVCLUSTER_TEST_PARENT_DIR"
	nodeEnv   = "DEVCLUSTER_TEST_PARENT_NODE"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentEnv); dir != "" {
		runParent(dir)
		return
	}
	os.Exit(m.Run())
}

// runParent starts a cluster, prints "ready" to stdout, and then waits to be killed.
func runParent(dir string) {
	if _, err := Start(context.Background(), Config{Dir: dir, Node: os.Getenv(nodeEnv)}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	select {}
}

func TestNothingOutlivesAKilledParent(t *testing.T) { killParent(t, testContext(t), NodeSimulated) }

// killParent starts a cluster in a child process, and kills that process. It checks that the processes of the cluster end, and that its
// directory is removed.
func killParent(t *testing.T, ctx context.Context, node string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "c")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parentEnv+"="+dir, nodeEnv+"="+node, BinaryEnv+"="+binary(t))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "ready" {
		t.Errorf("the parent printed %q, error %v; want ready", line, err)
	}
	c, openErr := Open(dir)
	liveness, livenessErr := state.Dir(dir).Liveness()
	var pids []int
	if openErr == nil {
		pids = processes(t, ctx, c)
	}
	if err := errors.Join(openErr, livenessErr, cmd.Process.Kill()); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if t.Failed() {
		return
	}
	defer liveness.Close()
	if err := liveness.Wait(ctx); err != nil {
		t.Error(err)
	}
	checkGone(t, pids)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory is still there: %v", err)
	}
}
