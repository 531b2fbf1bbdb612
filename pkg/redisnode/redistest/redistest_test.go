// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childEnv has the test program run a server and then be killed.
const childEnv = "REDISTEST_CHILD"

func TestServer(t *testing.T) {
	first := Start(t, Config{})
	if !first.Running() {
		t.Errorf("it does not run:\n%s", first.Log())
	}
	second := Start(t, Config{})
	if first.IP == second.IP {
		t.Errorf("two servers have the IP %s", first.IP)
	}
	first.Kill()
	first.Kill()
	second.Stop()
	second.Wait()
	if first.Running() || second.Running() || !strings.Contains(second.Log(), "bye bye") {
		t.Errorf("running: %t, %t; log:\n%s", first.Running(), second.Running(), second.Log())
	}
	again := Start(t, Config{Dir: first.Dir})
	if again.IP == first.IP {
		t.Errorf("the pod that came back has the IP %s again", again.IP)
	}
	nodes, err := os.ReadFile(filepath.Join(again.Dir, "nodes.conf"))
	if err != nil || !strings.Contains(string(nodes), "myself") {
		t.Errorf("nodes.conf is %q, %v", nodes, err)
	}
}

func TestFreeIP(t *testing.T) {
	was := map[string]bool{}
	for range 600 {
		ip := FreeIP(t)
		if parsed := net.ParseIP(ip); was[ip] || parsed == nil || !parsed.IsLoopback() {
			t.Fatalf("got %s, and got it before: %t", ip, was[ip])
		}
		was[ip] = true
	}
}

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
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	t.Errorf("the server %d is alive", pid)
}
