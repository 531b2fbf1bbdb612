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
)

// parentEnv makes the test binary a program that starts a cluster in the directory it names, says so, and waits to be killed.
const parentEnv = "DEVCLUSTER_TEST_PARENT_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentEnv); dir != "" {
		parent(dir)
		return
	}
	os.Exit(m.Run())
}

func parent(dir string) {
	if _, err := Start(context.Background(), Config{Dir: dir}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	select {}
}

func TestNothingOutlivesAKilledParent(t *testing.T) {
	ctx := testContext(t)
	dir := filepath.Join(t.TempDir(), "c")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parentEnv+"="+dir, BinaryEnv+"="+binary(t))
	cmd.Stderr = os.Stderr
	killParentWhenReady(t, cmd)

	// The supervisor notices, ends the cluster and removes the directory. Until then Open may find any stage of that.
	waitFor(t, ctx, "directory to be gone", func() (bool, error) {
		_, err := os.Stat(dir)
		return errors.Is(err, os.ErrNotExist), err
	})
	checkGone(t, parentPIDs)
}

// parentPIDs are the processes of the cluster that the parent started.
var parentPIDs []int

func killParentWhenReady(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "ready" {
		t.Errorf("parent said %q, %v", line, err)
	} else {
		dir := strings.TrimPrefix(cmd.Env[len(cmd.Env)-2], parentEnv+"=")
		c, err := Open(dir)
		if err != nil {
			t.Error(err)
		} else {
			parentPIDs = processes(t, context.Background(), c)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
}
