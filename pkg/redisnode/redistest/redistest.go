// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redistest runs real redis-servers for tests, each with an IP of its own on
// the loopback interface, as pods have. Only Linux has those without further ado.
package redistest

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	// DefaultPort is the port of a Config that has none.
	DefaultPort = 6379
	// BusOffset is how much higher the port of the cluster bus is.
	BusOffset = 10000

	// startTimeout is for a slow and busy machine.
	startTimeout = 20 * time.Second
	// stopTimeout is longer than the shutdown-timeout of Redis, 10 s, in which a master
	// waits for its replicas.
	stopTimeout = 20 * time.Second
	// logSize is the size of the kept end of a server's log, in bytes.
	logSize = 64 << 10
	// logLines is how much of it a test that failed shows.
	logLines = 30
)

// Config is the configuration of a server. Every field is optional.
type Config struct {
	// IP is its address, and the only one that it binds: FreeIP if it is "".
	IP   string
	Port int
	// Dir holds its data. It is made if it is not there, and outlives the server: a
	// server with the Dir of another one, which has ended, and a new IP is a pod that
	// came back. A temporary one of the test if it is "".
	Dir string
	// TLSPort is a port that Directives open. Start waits for it instead of Port, which they may close.
	TLSPort int
	// Password is the password that clients and the other nodes must send.
	Password string
	// Directives are lines of redis.conf, such as "cluster-node-timeout 1000". They
	// come after those of Start, and win.
	Directives []string
	// FileLimit, if it is not 0, is beyond how many bytes of a file, rounded up to 512,
	// the server cannot write, as if the disk were full. LiftFileLimit makes room.
	FileLimit int64
}

// Server is a redis-server that was started.
type Server struct {
	IP       string
	Port     int
	Dir      string
	Password string
	PID      int

	waitPort int

	tb    testing.TB
	cmd   *exec.Cmd
	log   tail
	ended chan struct{} // closed when the process has been waited for
}

// Binary returns the path of a program that runs as redis-server under this name. Without one, it skips the test.
func Binary(tb testing.TB) string {
	tb.Helper()
	if testing.Short() {
		tb.Skip("a test with -short starts no redis-server")
	}
	// Debian has one program for all, under many names, in the packages redis-server
	// and redis-tools.
	for _, name := range []string{"redis-server", "redis-check-rdb"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	tb.Skip("SKIPPED, nothing of a real redis-server was tested: neither redis-server nor redis-check-rdb is in PATH")
	return ""
}

// Version returns the name and the version of the server, such as "Redis server v=7.0.15" or "Valkey server v=8.1.1".
func Version(tb testing.TB) string {
	tb.Helper()
	out, err := (&exec.Cmd{Path: Binary(tb), Args: []string{"redis-server", "--version"}}).Output()
	if err != nil {
		tb.Fatal(err)
	}
	version, _, _ := strings.Cut(string(out), " sha=")
	return version
}

var lastIP atomic.Uint32

// FreeIP returns a loopback address where no server is, and that it has not returned
// before. Test programs that run at the same time begin at different ones.
func FreeIP(tb testing.TB) string {
	tb.Helper()
	const hosts = 254 // of each 127.a.b.0/24, with 1 to 254 for a
	pid := uint32(os.Getpid())
	for range hosts {
		n := lastIP.Add(1) - 1
		ip := fmt.Sprintf("127.%d.%d.%d", 1+(pid>>8+n/hosts)%hosts, pid&0xff, 1+n%hosts)
		if canBind(ip, DefaultPort) && canBind(ip, DefaultPort+BusOffset) {
			return ip
		}
	}
	tb.Skip("SKIPPED, nothing of a real redis-server was tested: no port can be bound on 127.0.0.0/8; only Linux has all of it")
	return ""
}

func canBind(ip string, port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// Start starts a server that the end of the test kills, and returns once it accepts
// connections. It may still be loading its data then.
func Start(tb testing.TB, config Config) *Server {
	tb.Helper()
	binary := Binary(tb)
	if config.IP == "" {
		config.IP = FreeIP(tb)
	}
	if config.Port == 0 {
		config.Port = DefaultPort
	}
	if config.Dir == "" {
		config.Dir = tb.TempDir()
	}
	s := &Server{
		IP: config.IP, Port: config.Port, Dir: config.Dir, Password: config.Password,
		waitPort: cmp.Or(config.TLSPort, config.Port),
		tb:       tb, ended: make(chan struct{}),
	}
	file := filepath.Join(s.Dir, "redis.conf")
	if err := errors.Join(os.MkdirAll(s.Dir, 0o700), os.WriteFile(file, config.file(), 0o600)); err != nil {
		tb.Fatal(err)
	}
	s.cmd = command(tb, binary, file, config.FileLimit)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	s.cmd.WaitDelay = time.Second // A child that saves a snapshot has the same output.
	if err := start(s.cmd); err != nil {
		tb.Fatalf("start redis-server: %v", err)
	}
	s.PID = s.cmd.Process.Pid
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // Tests kill servers: how one ended is no news.
	}()
	tb.Cleanup(s.cleanup)
	s.waitListening()
	return s
}

// file returns the redis.conf.
func (c Config) file() []byte {
	lines := []string{
		"bind " + c.IP,
		"port " + strconv.Itoa(c.Port),
		"protected-mode no",
		"dir " + strconv.Quote(c.Dir),
		"cluster-enabled yes",
		"cluster-announce-ip " + c.IP,
		"appendonly yes",
		`save ""`,
		"repl-diskless-sync-delay 0",
	}
	if c.Password != "" {
		lines = append(lines, "requirepass "+strconv.Quote(c.Password), "masterauth "+strconv.Quote(c.Password))
	}
	return []byte(strings.Join(append(lines, c.Directives...), "\n") + "\n")
}

// command returns the command that runs the server. With a limit, a shell sets the limit, and makes the server ignore the signal that
// would kill it at the limit.
func command(tb testing.TB, binary, file string, limit int64) *exec.Cmd {
	tb.Helper()
	if limit == 0 {
		return &exec.Cmd{Path: binary, Args: []string{"redis-server", file}}
	}
	if !canLift {
		tb.Skip("SKIPPED, nothing of a redis-server without room was tested: only Linux can lift the limit of a process that runs")
	}
	name := filepath.Join(tb.TempDir(), "redis-server") // A shell gives a program no other name.
	if err := os.Symlink(binary, name); err != nil {
		tb.Fatal(err)
	}
	const blockSize = 512
	blocks := strconv.FormatInt((limit+blockSize-1)/blockSize, 10)
	return exec.Command("/bin/sh", "-c", `trap "" XFSZ && ulimit -S -f "$1" && exec "$2" "$3"`, "sh", blocks, name, file)
}

func (s *Server) waitListening() {
	s.tb.Helper()
	deadline := time.Now().Add(startTimeout)
	for time.Now().Before(deadline) {
		if conn, err := net.DialTimeout("tcp", net.JoinHostPort(s.IP, strconv.Itoa(s.waitPort)), time.Second); err == nil {
			conn.Close()
			return
		}
		select {
		case <-s.ended:
			s.tb.Fatalf("redis-server %s ended as it started:\n%s", s.IP, &s.log)
		case <-time.After(10 * time.Millisecond):
		}
	}
	s.tb.Fatalf("redis-server %s accepts no connections:\n%s", s.IP, &s.log)
}

func (s *Server) cleanup() {
	s.Kill()
	if s.tb.Failed() {
		lines := strings.Split(strings.TrimSpace(s.log.String()), "\n")
		s.tb.Logf("the last lines of redis-server %s in %s:\n%s", s.IP, s.Dir, strings.Join(lines[max(0, len(lines)-logLines):], "\n"))
	}
}

// Address returns the server's ip:port.
func (s *Server) Address() string {
	return net.JoinHostPort(s.IP, strconv.Itoa(s.Port))
}

// Kill ends the server as the loss of its machine would, and waits for its end.
func (s *Server) Kill() {
	s.tb.Helper()
	s.end(syscall.SIGKILL)
}

// Stop asks the server to end, as a kubelet does, and waits for its end.
func (s *Server) Stop() {
	s.tb.Helper()
	s.end(syscall.SIGTERM)
}

func (s *Server) end(signal syscall.Signal) {
	s.tb.Helper()
	s.Signal(signal)
	select {
	case <-s.ended:
	case <-time.After(stopTimeout):
		s.tb.Errorf("redis-server %s did not end on %s", s.IP, signal)
	}
}

// Signal sends a signal to the server, if it runs: SIGSTOP makes it a node that does
// not answer, and SIGCONT brings it back.
func (s *Server) Signal(signal syscall.Signal) {
	s.tb.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.tb.Errorf("send %s to redis-server %s: %v", signal, s.IP, err)
	}
}

// Running reports whether the server has not ended.
func (s *Server) Running() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// LiftFileLimit lets the server write files of every size.
func (s *Server) LiftFileLimit() {
	s.tb.Helper()
	if err := liftFileLimit(s.PID); err != nil {
		s.tb.Fatalf("lift the file limit of redis-server %s: %v", s.IP, err)
	}
}

// tail is a Writer that keeps only the end of its data.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write appends data, and drops the oldest bytes that do not fit.
func (t *tail) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, data...)
	if len(t.text) > 2*logSize {
		t.text = append(t.text[:0], t.text[len(t.text)-logSize:]...)
	}
	return len(data), nil
}

// String returns the kept bytes.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text[max(0, len(t.text)-logSize):])
}
