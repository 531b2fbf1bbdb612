// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

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
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/glassback/glassback/hack/devcluster/images"
	"github.com/glassback/glassback/pkg/must"
)

// imageDir is the directory into which the command "make node" writes the images.
const imageDir = "../../../bin/images"

// timeout is the longest time that a test waits for a server to start, to answer or to stop.
const timeout = 20 * time.Second

// enter is a shell script. It mounts /proc and /dev in the root directory $1, and runs the other arguments there, in the directory $2.
const enter = `mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && root=$1 && shift &&
	exec chroot "$root" /bin/sh -c 'cd "$1" && shift && exec "$@"' sh "$@"`

// container is an unpacked image.
type container struct {
	root   string
	config v1.Config
}

// unpack unpacks an image that "make node" built, into a temporary directory. Without the image, it skips the test.
func unpack(t *testing.T, name string) container {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can run images: run sudo make node integration")
	}
	image, err := images.Store(imageDir).Image(name)
	if errors.Is(err, images.ErrNotFound) {
		t.Skipf("image %s does not exist: run make node as root on Debian or Ubuntu", name)
	}
	must.Succeed(t, err)
	config, err := image.ConfigFile()
	must.Succeed(t, err)
	c := container{root: t.TempDir(), config: config.Config}
	files := mutate.Extract(image)
	defer files.Close()
	untar := exec.CommandContext(t.Context(), "tar", "-xpf", "-", "-C", c.root)
	untar.Stdin = files
	if out, err := untar.CombinedOutput(); err != nil {
		t.Fatalf("unpack %s: %v: %s", name, err, out)
	}
	return c
}

// command returns a command in the container. Without arguments, the container runs its own program.
func (c container) command(ctx context.Context, args ...string) *exec.Cmd {
	if len(args) == 0 {
		args = c.config.Cmd
	}
	args = append([]string{"--mount", "sh", "-c", enter, "sh", c.root, "/" + c.config.WorkingDir}, args...)
	cmd := exec.CommandContext(ctx, "unshare", args...)
	cmd.Env = c.config.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func (c container) output(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.command(t.Context(), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// log is the output of a server.
type log struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.String()
}

// start starts a server. At the end of the test, it sends the signal that Kubernetes would send, and the server must exit without an error.
func (c container) start(t *testing.T, args ...string) *log {
	t.Helper()
	cmd, out := c.command(context.WithoutCancel(t.Context()), args...), &log{}
	cmd.Stdout, cmd.Stderr = out, out
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() {
		stop := syscall.SIGTERM
		if c.config.StopSignal == "SIGQUIT" {
			stop = syscall.SIGQUIT
		}
		timer := time.AfterFunc(timeout, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		defer timer.Stop()
		_ = cmd.Process.Signal(stop)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v ended with %v: %s", args, err, out)
		}
	})
	return out
}

// eventually repeats ask until it returns no error, and returns the answer. After the timeout, it fails the test.
func eventually(t *testing.T, out *log, ask func() (string, error)) string {
	t.Helper()
	for deadline := time.Now().Add(timeout); ; time.Sleep(50 * time.Millisecond) {
		answer, err := ask()
		if err == nil {
			return answer
		}
		if time.Now().After(deadline) {
			t.Fatalf("no answer: %v: %s: %s", err, answer, out)
		}
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestBusyboxRuns(t *testing.T) {
	c := unpack(t, "busybox")
	if c.config.Cmd[0] != "sh" {
		t.Errorf("the image runs %v, want sh", c.config.Cmd)
	}
	for name, test := range map[string]struct{ script, want string }{
		"the shell":           {"echo hello", "hello"},
		"date":                {"date -d 2020-02-02 +%F", "2020-02-02"},
		"applets by path":     {"/bin/ls -d /bin/sleep /usr/bin/env; /usr/bin/env -i /bin/echo ok", "/bin/sleep\n/usr/bin/env\nok"},
		"users":               {"id nobody; stat -c %U:%G /root", "uid=65534(nobody) gid=65534(nogroup) groups=65534(nogroup)\nroot:root"},
		"temporary files":     {"stat -c %a /tmp /var/tmp", "1777\n1777"},
		"names of /etc/hosts": {"echo 10.1.2.3 me > /etc/hosts; ping -c 1 -W 1 me | grep -o 'PING me (10.1.2.3)'", "PING me (10.1.2.3)"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.output(t, "sh", "-c", test.script); got != test.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestNginxRuns(t *testing.T) {
	c := unpack(t, "nginx")
	if got := c.output(t, "nginx", "-t"); !strings.Contains(got, "test is successful") {
		t.Errorf("got %s", got)
	}
	port := freePort(t)
	site := filepath.Join(c.root, "etc/nginx/conf.d/default.conf")
	text, err := os.ReadFile(site)
	must.Succeed(t, err)
	changed := strings.Replace(string(text), "listen 80;", fmt.Sprintf("listen 127.0.0.1:%d;", port), 1)
	if changed == string(text) {
		t.Fatal("default.conf has no \"listen 80;\"")
	}
	must.Succeed(t, os.WriteFile(site, []byte(changed), 0o600))
	out := c.start(t)
	get := func(path string) (int, string, error) {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
		if err != nil {
			return 0, "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return response.StatusCode, response.Header.Get("Content-Type") + " " + string(body), err
	}
	page := eventually(t, out, func() (string, error) { _, page, err := get("/"); return page, err })
	if !strings.HasPrefix(page, "text/html ") || !strings.Contains(page, "<h1>Welcome to nginx!</h1>") {
		t.Errorf("got %s", page)
	}
	if status, _, err := get("/none"); status != http.StatusNotFound {
		t.Errorf("got %d, %v", status, err)
	}
	eventually(t, out, func() (string, error) {
		if !strings.Contains(out.String(), `"GET / HTTP/1.1" 200`) || !strings.Contains(out.String(), "/none") {
			return "", errors.New("the log does not have both requests")
		}
		return "", nil
	})
	if workers := c.output(t, "sh", "-c", "ps -o user,args | grep -c '^nginx .*worker process'"); workers == "0" {
		t.Error("no worker runs as nginx")
	}
}

func TestRedisRuns(t *testing.T) {
	c := unpack(t, "redis")
	if got := c.output(t, "redis-server", "--version"); !strings.HasPrefix(got, "Redis server v=") {
		t.Errorf("got %s", got)
	}
	if got := c.output(t, "sh", "-c", "stat -c %u /data; ls /usr/local/bin /usr/bin/redis-*"); !strings.HasPrefix(got, "999\n") {
		t.Errorf("got %s", got)
	}
	for name, test := range map[string]struct {
		config    string
		args      []string // PORT stands for the free port
		protected string
	}{
		"redis-server with options":                 {"", []string{"redis-server", "--port", "PORT"}, "no"},
		"options without redis-server":              {"", []string{"--port", "PORT", "--save", ""}, "no"},
		"redis-server with a configuration file":    {"save \"\"\n", []string{"redis-server", "/etc/redis.conf", "--port", "PORT"}, "no"},
		"a configuration file without redis-server": {"port PORT\n", []string{"/etc/redis.conf"}, "no"},
		"a file with protected mode": {
			"protected-mode yes\n", []string{"redis-server", "/etc/redis.conf", "--port", "PORT"}, "yes",
		},
		"an option with protected mode": {"", []string{"redis-server", "--port", "PORT", "--protected-mode", "yes"}, "yes"},
	} {
		t.Run(name, func(t *testing.T) {
			port := fmt.Sprint(freePort(t))
			config := []byte(strings.ReplaceAll(test.config, "PORT", port))
			must.Succeed(t, os.WriteFile(filepath.Join(c.root, "etc/redis.conf"), config, 0o600))
			args := append([]string{}, c.config.Entrypoint...)
			for _, arg := range test.args {
				args = append(args, strings.ReplaceAll(arg, "PORT", port))
			}
			out := c.start(t, args...)
			cli := func(command string) (string, error) {
				answer, err := c.command(t.Context(), "sh", "-c", "/usr/local/bin/redis-cli -p "+port+" "+command).CombinedOutput()
				return strings.TrimSpace(string(answer)), err
			}
			if got := eventually(t, out, func() (string, error) { return cli("ping") }); got != "PONG" {
				t.Errorf("got %s", got)
			}
			if got, err := cli("config get protected-mode"); got != "protected-mode\n"+test.protected {
				t.Errorf("got %s, %v", got, err)
			}
			if got, err := cli("config get dir"); got != "dir\n/data" {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

// waitAsleep waits until five consecutive checks find the process asleep. A process that still starts does not sleep that long.
func waitAsleep(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for asleep := 0; asleep < 5; time.Sleep(20 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		must.Succeed(t, err)
		asleep++
		if !bytes.Contains(stat, []byte(") S ")) {
			asleep = 0
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d is not asleep after %v: %s", pid, timeout, stat)
		}
	}
}

func TestPauseExitsOnSignal(t *testing.T) {
	c := unpack(t, pauseImage)
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		cmd := exec.CommandContext(t.Context(), c.config.Entrypoint[0])
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: c.root, Credential: &syscall.Credential{Uid: 65535, Gid: 65535}}
		must.Succeed(t, cmd.Start())
		waitAsleep(t, cmd.Process.Pid)
		if err := cmd.Process.Signal(signal); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", signal, err)
		}
	}
}
