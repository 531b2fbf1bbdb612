// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childEnv has the test program run a server and then be killed.
const childEnv = "REDISTEST_CHILD"

// A test program that is killed cleans nothing up.
func TestServersEndWithTheTestProgram(t *testing.T) {
	if os.Getenv(childEnv) != "" {
		s := Start(t, Config{Dir: os.Getenv(childEnv)})
		fmt.Printf("server %d\n", s.PID)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	Binary(t)
	if !canLift {
		t.Skip("SKIPPED, the end of servers whose test was killed: only Linux sees to it")
	}
	child := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	child.Env = append(os.Environ(), childEnv+"="+t.TempDir())
	output, err := child.Output() // It ends once every process has closed it.
	_, line, _ := strings.Cut(string(output), "server ")
	var pid int
	if _, scanErr := fmt.Sscan(line, &pid); err == nil || scanErr != nil {
		t.Fatalf("the test program has error %v, and said %q", err, output)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	t.Errorf("the server %d is alive", pid)
}
