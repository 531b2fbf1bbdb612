// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

// The scripts are run with a real redis-server, each by the shells of Docker's images:
// dash with Debian's programs, and busybox with its own. Nothing else is in their PATH, so
// that they cannot need more.

// shells returns the ways to run a script: a PATH that has sh. It skips the test where
// there is no redis-server.
func shells(t *testing.T) map[string]string {
	t.Helper()
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("SKIPPED, nothing of the scripts was tested: there is no redis-cli")
	}
	server, err := exec.LookPath("redis-server")
	if err != nil { // It is the same program under another name.
		if server, err = exec.LookPath("redis-check-rdb"); err != nil {
			t.Skip("SKIPPED, nothing of the scripts was tested: there is no redis-server")
		}
	}
	link := func(path, target, name string) {
		if err := os.Symlink(target, filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
	programs := []string{"sh", "cat", "grep", "sed", "tr", "timeout", "sleep", "sha256sum", "mv"}
	all := map[string]string{"sh": t.TempDir()}
	for _, program := range programs {
		target, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		link(all["sh"], target, program)
	}
	if busybox, err := exec.LookPath("busybox"); err != nil {
		t.Log("SKIPPED, busybox was not tested: there is none")
	} else {
		all["busybox"] = t.TempDir()
		for _, program := range programs {
			link(all["busybox"], busybox, program)
		}
	}
	for _, path := range all {
		link(path, cli, "redis-cli")
		link(path, server, "redis-server")
	}
	return all
}

// scriptNode is what a Pod would be.
type scriptNode struct {
	t              *testing.T
	path, dir, ip  string
	port, bus      int
	auth           bool   // whether start.sh is told of a password
	tls            string // the transport, "plain" for none; "" without TLS
	users          bool   // whether the operator has a user of its own
	env            []string
	ended          chan error
	process        *os.Process
	stdout, stderr string // where they are
}

// newScriptNode makes a node that does not run, with the configuration of a RedisCluster.
func newScriptNode(t *testing.T, path string, config map[string]v1.ConfigValue) *scriptNode {
	t.Helper()
	dir := t.TempDir()
	n := &scriptNode{t: t, path: path, dir: dir,
		// No other process has this address, so that the port may be any.
		ip: fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)), port: 20000 + rand.IntN(10000),
		stdout: filepath.Join(dir, "stdout"), stderr: filepath.Join(dir, "stderr"),
	}
	rdc := &v1.RedisCluster{Spec: v1.RedisClusterSpec{Addr: "127.0.0.1:" + strconv.Itoa(n.port), Config: config}}
	rdc.Default()
	_, n.bus = ports(rdc)
	n.write("config/redis.conf", strings.Replace(redisConf(rdc), "dir "+dirData, "dir "+n.file("data"), 1)+"bind "+n.ip+"\n")
	for name, text := range map[string]string{
		"start.sh": startScript, "live.sh": liveScript, "ready.sh": readyScript, "timeout.sh": timeoutScript, "stop.sh": stopCommand,
	} {
		n.write("config/"+name, text)
	}
	if err := os.Mkdir(n.file("data"), 0o755); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *scriptNode) file(name string) string { return filepath.Join(n.dir, name) }

func (n *scriptNode) write(name, text string) {
	n.t.Helper()
	if err := os.MkdirAll(filepath.Dir(n.file(name)), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(n.file(name), []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

func (n *scriptNode) read(path string) string {
	n.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		n.t.Fatal(err)
	}
	return string(data)
}

func (n *scriptNode) password(text string) {
	n.write("password", text)
	n.auth = true
}

func (n *scriptNode) command(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(n.path, "sh"), n.file("config/"+script))
	cmd.Env = []string{"PATH=" + n.path, "POD_IP=" + n.ip, "PORT=" + strconv.Itoa(n.port), "GLASSBACK_CONFIG=" + n.file("config")}
	if n.auth {
		cmd.Env = append(cmd.Env, "GLASSBACK_AUTH="+n.file("password"))
	}
	if n.tls != "" {
		cmd.Args = append(cmd.Args, "start.sh") // For tls.sh.
		cmd.Env = append(cmd.Env, "GLASSBACK_TLS="+strings.TrimPrefix(n.tls, "plain"), "GLASSBACK_TLS_DIR="+n.file("tls"),
			"GLASSBACK_TLS_CONF="+n.file("tls.conf"), "GLASSBACK_TLS_PORT="+strconv.Itoa(n.port+1))
	}
	if n.users {
		cmd.Env = append(cmd.Env, envUser+"="+v1.UserOperator, "GLASSBACK_ACL="+n.file("users.acl"))
	}
	cmd.Env = append(cmd.Env, n.env...)
	return cmd
}

// launch runs start.sh, and does not wait for anything.
func (n *scriptNode) launch() {
	n.t.Helper()
	script := "start.sh"
	switch {
	case n.users:
		script = "users.sh"
	case n.tls != "":
		script = "tls.sh"
	}
	cmd := n.command(context.Background(), script)
	for name, to := range map[string]any{n.stdout: &cmd.Stdout, n.stderr: &cmd.Stderr} {
		f, err := os.Create(name)
		if err != nil {
			n.t.Fatal(err)
		}
		defer f.Close()
		*to.(*io.Writer) = f
	}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	ended := make(chan error, 1)
	n.process, n.ended = cmd.Process, ended
	go func() { ended <- cmd.Wait() }()
	n.t.Cleanup(func() { // A process that has ended, and was waited for, gets no signal.
		_ = cmd.Process.Kill()
		for range 100 {
			if errors.Is(cmd.Process.Signal(syscall.Signal(0)), os.ErrProcessDone) {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// start runs start.sh until redis-server answers.
func (n *scriptNode) start() {
	n.t.Helper()
	n.launch()
	n.eventually("redis-server answers", func() bool {
		out, _ := n.probe("live.sh")
		return out == ""
	})
}

// end sends a signal, and returns what came of it.
func (n *scriptNode) end(signal os.Signal) error {
	n.t.Helper()
	if err := n.process.Signal(signal); err != nil {
		n.t.Fatal(err)
	}
	select {
	case err := <-n.ended:
		return err
	case <-time.After(20 * time.Second):
		n.t.Fatalf("%v does not end it:\n%s", signal, n.read(n.stdout))
		return nil
	}
}

func (n *scriptNode) eventually(what string, done func() bool) {
	n.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if done() {
			return
		}
	}
	out, _ := n.probe("ready.sh")
	n.t.Fatalf("never: %s; ready.sh: %s\n%s%s", what, out, n.read(n.stdout), n.read(n.stderr))
}

// probe returns what a script printed, and how long it took. It must fail if, and only if,
// it prints something: one line.
func (n *scriptNode) probe(script string) (string, time.Duration) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	before, begin := n.orphans(), time.Now()
	out, err := n.command(ctx, script).CombinedOutput()
	took := time.Since(begin)
	left := slices.DeleteFunc(n.orphans(), func(orphan string) bool { return slices.Contains(before, orphan) })
	if len(left) > 0 && script != "stop.sh" { // After stop.sh, the container ends.
		n.t.Errorf("%s has left processes behind: %q", script, left)
	}
	if (err == nil) != (len(out) == 0) || bytes.Count(out, []byte("\n")) != min(len(out), 1) {
		n.t.Errorf("%s: %v, and printed %q", script, err, out)
	}
	return strings.TrimSpace(string(out)), took
}

// orphans returns the processes, with their commands, that scripts have left behind. They have the node's IP in their environment, and
// their parent is neither such a process nor this test.
func (n *scriptNode) orphans() (all []string) {
	n.t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ") // None on other systems.
	must.Succeed(n.t, err)
	isOfNode := func(environment string) bool {
		data, _ := os.ReadFile(environment) // The process may have ended.
		return bytes.Contains(data, []byte("POD_IP="+n.ip+"\x00"))
	}
	for _, file := range files {
		if !isOfNode(file) {
			continue
		}
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "status"))
		_, after, found := strings.Cut(string(status), "\nPPid:\t")
		parent, _, _ := strings.Cut(after, "\n")
		if found && parent != strconv.Itoa(os.Getpid()) && !isOfNode(filepath.Join("/proc", parent, "environ")) {
			command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			all = append(all, filepath.Dir(file)+" "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return all
}

// cli has redis-cli send a command with the password of the file, and fails on an error.
func (n *scriptNode) cli(args ...string) string {
	n.t.Helper()
	cmd := exec.Command(filepath.Join(n.path, "redis-cli"), append([]string{"-e", "-h", n.ip, "-p", strconv.Itoa(n.port)}, args...)...)
	if n.auth {
		cmd.Env = []string{"REDISCLI_AUTH=" + strings.TrimRight(n.read(n.file("password")), "\n")}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Fatalf("%v: %v: %s", args, err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

func (n *scriptNode) expect(script, want string) {
	n.t.Helper()
	if out, _ := n.probe(script); out != want && (want == "" || !strings.Contains(out, want)) {
		n.t.Errorf("%s printed %q, want %q", script, out, want)
	}
}

func TestScriptsPassword(t *testing.T) {
	t.Parallel()
	for shell, path := range shells(t) {
		for sentence, password := range map[string]string{
			"plain":                  "secret",
			"with spaces":            "  two words ",
			"quotes":                 `"it's" 'so'`,
			"backslashes":            `\ \\ \n \x41 \" \`,
			"what a shell expands":   "$HOME ${PATH} $(id) `id` * ? ~ !! #",
			"the end of a document":  "EOF",
			"an option":              "-n",
			"a format":               "%s%d%%",
			"unicode":                "pässwörd – 密码 \u0085",
			"bytes that are no text": "\xff\xfe\x80",
			"a newline at the end":   "secret with a newline\n",
			"several":                "secret with newlines\n\n\n",
			"long":                   strings.Repeat(`0123456789"\`, 400),
		} {
			t.Run(shell+"/"+sentence, func(t *testing.T) {
				n := newScriptNode(t, path, nil)
				n.password(password)
				n.start()
				password := strings.TrimRight(password, "\n")
				for _, directive := range []string{"requirepass", "masterauth"} {
					_, got, _ := strings.Cut(n.cli("--raw", "CONFIG", "GET", directive), "\n")
					if got != password {
						t.Errorf("%s is %q, want %q", directive, got, password)
					}
				}
				n.expect("ready.sh", "cluster_state:fail")
				n.secretIsNowhere(password)
				n.write("password", "another")
				n.expect("ready.sh", "WRONGPASS")
				n.expect("live.sh", "")
			})
		}
	}
}

// TestScriptsUsers starts a node with the operator's user. Its users outlive the container, but not an older password of the operator.
func TestScriptsUsers(t *testing.T) {
	t.Parallel()
	for shell, path := range shells(t) {
		t.Run(shell, func(t *testing.T) {
			n := newScriptNode(t, path, nil)
			rdc := &v1.RedisCluster{Spec: v1.RedisClusterSpec{
				Addr: "127.0.0.1:" + strconv.Itoa(n.port), Users: []v1.User{{Name: v1.UserDefault, Rules: "off"}},
			}}
			rdc.Default()
			conf := strings.NewReplacer("dir "+dirData, "dir "+n.file("data"), fileUsers, n.file("users.acl")).Replace(redisConf(rdc))
			n.write("config/redis.conf", conf+"bind "+n.ip+"\n")
			for name, script := range map[string]string{
				"users.sh": usersScript, "ready.sh": readyOf(rdc), "stop.sh": asOperator(rdc, stopCommand),
			} {
				n.write("config/"+name, script)
			}
			n.users = true
			n.launch()
			n.eventually("it refuses to start without a password", func() bool {
				return strings.Contains(n.read(n.stderr), "cannot read the password")
			})
			n.password("first $password")
			n.start()
			own := []string{"--no-auth-warning", "--user", v1.UserOperator}
			cli := func(args ...string) string { return n.cli(append(own, args...)...) }
			if users := cli("ACL", "LIST"); !strings.Contains(users, "user default off") || strings.Count(users, "user ") != 2 {
				t.Errorf("a new node has the users %q", users)
			}
			got := cli("CONFIG", "GET", "masteruser", "masterauth")
			if !strings.Contains(got, v1.UserOperator) || !strings.Contains(got, "first $password") {
				t.Errorf("replicas log in as %q", got)
			}
			n.expect("ready.sh", "cluster_state:fail")
			n.expect("live.sh", "")
			n.secretIsNowhere("first $password")
			// Another Pod ends, which has no operator's user, and hands its slots over: see stop.sh.
			cli(append([]string{"ACL", "SETUSER", "default", "reset", "on", "nopass"}, strings.Fields(almostEverything)...)...)
			if got := cli("ACL", "DRYRUN", "default", "CLUSTER", "FAILOVER"); got != "OK" {
				t.Errorf("CLUSTER FAILOVER by the open user default: %s", got)
			}
			if got := cli("ACL", "DRYRUN", "default", "CONFIG", "GET", "masterauth"); !strings.Contains(got, "no permissions") {
				t.Errorf("CONFIG GET masterauth by the open user default: %s", got)
			}
			cli("ACL", "SETUSER", "default", "reset")
			cli("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
			answers := func(want string) {
				t.Helper()
				n.eventually("ready.sh: "+want, func() bool {
					out, _ := n.probe("ready.sh")
					return out == want
				})
			}
			answers("Not ready: the operator has not set the users yet.")
			cli("ACL", "SETUSER", v1.UserOperator, markRule("mark"))
			answers("")
			cli(append([]string{"ACL", "SETUSER", v1.UserOperator, "reset", "on", ">first $password"}, strings.Fields(everything)...)...)
			answers("Not ready: the operator has not set the users yet.")
			cli("ACL", "SETUSER", "app", "on", "nopass", "~*", "+@all")
			cli("ACL", "SAVE")
			answers("")
			_ = n.end(syscall.SIGKILL)

			n.password("second")
			n.start()
			if users := cli("ACL", "LIST"); !strings.Contains(users, "user default off") || !strings.Contains(users, "user app on") ||
				strings.Count(users, "user "+v1.UserOperator) != 1 {
				t.Errorf("after a restart it has the users %q", users)
			}
			if out, err := n.command(t.Context(), "stop.sh").CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("stop.sh: %v, %s", err, out)
			}
			_ = n.end(syscall.SIGTERM)
			n.write("users.acl", "user app on nopass ~* +@all\n")
			n.start()
			if users := cli("ACL", "LIST"); !strings.Contains(users, "user default off") {
				t.Errorf("after half of the file was lost, it has the users %q", users)
			}
		})
	}
}

// TestScriptsTLS runs a node with each transport. The probes answer with TLS alone, too, and after the certificate has expired.
func TestScriptsTLS(t *testing.T) {
	t.Parallel()
	for shell, path := range shells(t) {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			n := newScriptNode(t, path, nil)
			rdc := &v1.RedisCluster{
				ObjectMeta: metav1.ObjectMeta{Name: "tls", Namespace: "default"},
				Spec:       v1.RedisClusterSpec{Addr: "127.0.0.1:" + strconv.Itoa(n.port), TLS: &v1.TLS{Port: int32(n.port + 1)}},
			}
			rdc.Default()
			conf := strings.NewReplacer("dir "+dirData, "dir "+n.file("data"), dirTLS, n.file("tls"), fileTLS, n.file("tls.conf")).
				Replace(redisConf(rdc))
			n.write("config/redis.conf", conf+"bind "+n.ip+"\n")
			parameters := "--tls --cacert " + n.file("tls/ca.crt")
			for name, script := range map[string]string{
				"tls.sh": tlsScript, "live.sh": withTLS(rdc, liveScript, probeWithTLS), "ready.sh": withTLS(rdc, readyScript, probeWithTLS),
				"stop.sh": withTLS(rdc, stopCommand, parameters),
			} {
				n.write("config/"+name, script)
			}
			n.tls = "unknown"
			n.launch()
			n.eventually("it refuses to start without a certificate", func() bool { return strings.Contains(n.read(n.stderr), "has no tls.crt") })
			soon := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(4 * time.Second) }
			for key, text := range newAuthority(t).issue(t, soon) {
				n.write("tls/"+key, string(text))
			}
			n.launch()
			n.eventually("it refuses an unknown transport", func() bool { return strings.Contains(n.read(n.stderr), "not known: unknown") })

			tls := func(args ...string) string {
				cmd := exec.Command(filepath.Join(path, "redis-cli"), append([]string{"-e", "--tls", "--insecure", "-h", n.ip, "-p",
					strconv.Itoa(n.port + 1)}, args...)...)
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %v: %s", args, err, out)
				}
				return strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", " ")
			}
			for _, test := range []struct{ transport, want string }{
				{"plain" + transportPlain, "tls-cluster no tls-replication no port " + strconv.Itoa(n.port)},
				{transportBoth, "tls-cluster yes tls-replication yes port " + strconv.Itoa(n.port)},
				{transportOnly, "tls-cluster yes tls-replication yes port 0"},
			} {
				n.tls = test.transport
				n.start()
				got := tls("CONFIG", "GET", "tls-cluster")
				got += " " + tls("CONFIG", "GET", "tls-replication") + " " + tls("CONFIG", "GET", "port")
				if got != test.want {
					t.Errorf("with %q it has %q, want %q", test.transport, got, test.want)
				}
				if table := tls("CLUSTER", "NODES"); !strings.Contains(table, "@"+strconv.Itoa(n.bus)) {
					t.Errorf("with %q, the port of the bus is another one: %s", test.transport, table)
				}
				n.expect("ready.sh", "cluster_state:fail")
				if out, err := n.command(t.Context(), "stop.sh").CombinedOutput(); err != nil || len(out) > 0 {
					t.Errorf("stop.sh: %v, %s", err, out)
				}
				if test.transport == transportOnly {
					time.Sleep(4 * time.Second)
					n.expect("live.sh", "")
					n.expect("ready.sh", "cluster_state:fail")
				}
				_ = n.end(syscall.SIGTERM)
				n.expect("live.sh", "does not answer")
			}
		})
	}
}

// secretIsNowhere looks for the password where others could.
func (n *scriptNode) secretIsNowhere(password string) {
	n.t.Helper()
	for _, of := range []string{"cmdline", "environ"} {
		if name := fmt.Sprintf("/proc/%d/%s", n.process.Pid, of); strings.Contains(n.read(name), password) {
			n.t.Errorf("the password is in %s", name)
		}
	}
	err := filepath.WalkDir(n.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && path != n.file("password") && strings.Contains(n.read(path), password) &&
			password != "EOF" && password != "-n" { // The scripts and the log have those.
			n.t.Errorf("the password is in %s", path)
		}
		return err
	})
	if err != nil {
		n.t.Error(err)
	}
}

// nodesConf is that of a node that knows another one.
const nodesConf = `2d2a4ab8f7e6a1cd54dcbd9d6c3e4d5b0f3f1a11 127.0.0.2:6379@16379 master - 0 1700000000000 2 connected 5461-10922
e72d70428107b594fac768bea9a5fe94b4bd8db5 127.0.0.1:6379@16379 myself,%s connected%s
vars currentEpoch 6 lastVoteEpoch 0
`

func TestScriptsRefusals(t *testing.T) {
	manifest := func(n *scriptNode) {
		n.write("data/appendonlydir/appendonly.aof.manifest", "file appendonly.aof.1.incr.aof seq 1 type i\n")
	}
	for shell, path := range shells(t) {
		for sentence, test := range map[string]struct {
			prepare func(*scriptNode)
			want    string
		}{
			"no redis.conf":       {func(n *scriptNode) { os.Remove(n.file("config/redis.conf")) }, "there is no "},
			"no IP":               {func(n *scriptNode) { n.ip = "" }, "POD_IP"},
			"no password":         {func(n *scriptNode) { n.auth = true }, "cannot read the password"},
			"an empty password":   {func(n *scriptNode) { n.password("") }, "is empty"},
			"only newlines":       {func(n *scriptNode) { n.password("\n\n") }, "is empty"},
			"a newline inside":    {func(n *scriptNode) { n.password("secret\nport 1") }, "control character"},
			"a newline before it": {func(n *scriptNode) { n.password("\nsecret") }, "control character"},
			"an end of DOS":       {func(n *scriptNode) { n.password("secret\r\n") }, "control character"},
			"a tab":               {func(n *scriptNode) { n.password("a\tb") }, "control character"},
			"a NUL":               {func(n *scriptNode) { n.password("a\x00b") }, "control character"},
			"DEL":                 {func(n *scriptNode) { n.password("a\x7f") }, "control character"},
			"a master without data": {func(n *scriptNode) {
				n.write("data/nodes.conf", fmt.Sprintf(nodesConf, "master - 0 0 1", " 0-5460"))
			}, "its data"},
			"a lone master without data": {func(n *scriptNode) {
				n.write("data/nodes.conf", "e72d70428107b594fac768bea9a5fe94b4bd8db5 :0@0 myself,master - 0 0 0 connected 0-16383\n"+
					"vars currentEpoch 0 lastVoteEpoch 0\n")
			}, "its data"},
			"a replica without data": {func(n *scriptNode) {
				n.write("data/nodes.conf", fmt.Sprintf(nodesConf, "slave 2d2a4ab8f7e6a1cd54dcbd9d6c3e4d5b0f3f1a11 0 0 2", ""))
			}, "its data"},
			"data without a manifest": {func(n *scriptNode) {
				n.write("data/nodes.conf", fmt.Sprintf(nodesConf, "master - 0 0 1", " 0-5460"))
				n.write("data/appendonlydir/appendonly.aof.1.base.rdb", "REDIS")
			}, "its data"},
			"data without nodes.conf": {manifest, "nodes.conf"},
			"data with an empty nodes.conf": {func(n *scriptNode) {
				manifest(n)
				n.write("data/nodes.conf", "")
			}, "nodes.conf"},
			"a nodes.conf of garbage": {func(n *scriptNode) { n.write("data/nodes.conf", "\x00\x00garbage\n") }, "damaged"},
			"a nodes.conf without an end": {func(n *scriptNode) {
				manifest(n)
				n.write("data/nodes.conf", fmt.Sprintf(nodesConf, "master - 0 0 1", " 0-5460")[:220])
			}, "damaged"},
			"a nodes.conf without itself": {func(n *scriptNode) {
				manifest(n)
				n.write("data/nodes.conf", strings.Replace(nodesConf, "myself,", "", 1))
			}, "damaged"},
		} {
			t.Run(shell+"/"+sentence, func(t *testing.T) {
				n := newScriptNode(t, path, nil)
				test.prepare(n)
				n.launch()
				select {
				case err := <-n.ended:
					if err == nil {
						t.Error("start.sh succeeded")
					}
				case <-time.After(10 * time.Second):
					t.Fatalf("it was started:\n%s", n.read(n.stdout))
				}
				got := n.read(n.stderr)
				if !strings.HasPrefix(got, "Not started: ") || strings.Count(got, "\n") != 1 || !strings.Contains(got, test.want) {
					t.Errorf("start.sh said %q, want one line with %q", got, test.want)
				}
				if got := n.read(n.stdout); got != "" {
					t.Errorf("stdout is %q", got)
				}
			})
		}
	}
}

// TestScriptsFirstStart is about nodes that were killed before they were ever there.
func TestScriptsFirstStart(t *testing.T) {
	t.Parallel()
	for shell, path := range shells(t) {
		for sentence, prepare := range map[string]func(*scriptNode){
			"nothing is there": func(*scriptNode) {},
			"nodes.conf is empty, as while it is locked first": func(n *scriptNode) { n.write("data/nodes.conf", "") },
			"there is no data yet": func(n *scriptNode) {
				n.start()
				_ = n.end(syscall.SIGKILL)
				if err := os.RemoveAll(n.file("data/appendonlydir")); err != nil {
					n.t.Fatal(err)
				}
			},
			"there is no manifest yet": func(n *scriptNode) {
				n.start()
				_ = n.end(syscall.SIGKILL)
				if err := os.Remove(n.file("data/appendonlydir/appendonly.aof.manifest")); err != nil {
					n.t.Fatal(err)
				}
			},
			"killed at any time": func(n *scriptNode) {
				for i := range 15 {
					n.launch()
					time.Sleep(time.Duration(2*i) * time.Millisecond)
					_ = n.end(syscall.SIGKILL)
				}
			},
		} {
			t.Run(shell+"/"+sentence, func(t *testing.T) {
				n := newScriptNode(t, path, nil)
				prepare(n)
				n.start()
			})
		}
	}
}

// TestScriptsHostname has a redis-server of which one says that it is Redis 6: it would not start with the directive.
func TestScriptsHostname(t *testing.T) {
	t.Parallel()
	for shell, path := range shells(t) {
		for sentence, test := range map[string]struct {
			version, hostname, want string
		}{
			"a hostname":               {"", "a.example.com", "a.example.com"},
			"no hostname":              {"", "", ""},
			"a hostname and Redis 6":   {"6.2.14", "a.example.com", ""},
			"a hostname and Redis 8":   {"8.2.1", "a.example.com", "a.example.com"},
			"a hostname and Redis 10":  {"10.0.0", "a.example.com", "a.example.com"},
			"no hostname, and Redis 8": {"8.2.1", "", ""},
		} {
			t.Run(shell+"/"+sentence, func(t *testing.T) {
				n := newScriptNode(t, path, nil)
				if test.hostname != "" {
					n.env = append(n.env, envHostname+"="+test.hostname)
				}
				if test.version != "" {
					n.write("bin/redis-server", "#!/bin/sh\n"+`[ "$1" != --version ] || { echo "Redis server v=`+test.version+
						` sha=00000000:0 malloc=libc bits=64 build=0"; exit; }`+"\n"+"exec "+path+`/redis-server "$@"`+"\n")
					if err := os.Chmod(n.file("bin/redis-server"), 0o755); err != nil {
						t.Fatal(err)
					}
					n.env = append(n.env, "PATH="+n.file("bin")+":"+path)
				}
				n.start()
				if got := n.cli("CONFIG", "GET", directiveHostname); got != directiveHostname+"\n"+test.want {
					t.Errorf("the node says %q, want the hostname %q", got, test.want)
				}
			})
		}
	}
}

func TestScriptsEndCleanly(t *testing.T) {
	t.Parallel()
	for shell, path := range shells(t) {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			config := map[string]v1.ConfigValue{
				"save": "900 1", "maxmemory": "64mb", "notify-keyspace-events": "", "proc-title-template": `"{title} {listen-addr}"`,
			}
			for i := range 50 { // More than a pipe takes at once without a second process.
				config[fmt.Sprintf("# %d", i)] = v1.ConfigValue(strings.Repeat("x", 1000))
			}
			n := newScriptNode(t, path, config)
			n.start()
			for directive, want := range map[string]string{
				"save": "900 1", "maxmemory": "67108864", "notify-keyspace-events": "", "cluster-announce-ip": n.ip, "appendonly": "yes",
				"cluster-node-timeout": "5000",
			} {
				if _, got, _ := strings.Cut(n.cli("--raw", "CONFIG", "GET", directive), "\n"); got != want {
					t.Errorf("%s is %q, want %q", directive, got, want)
				}
			}
			id := n.cli("CLUSTER", "MYID")
			n.cli("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
			n.eventually("a cluster of one is ready", func() bool { out, _ := n.probe("ready.sh"); return out == "" })
			n.cli("SET", "key", "value")
			if err := n.end(syscall.SIGTERM); err != nil || !strings.Contains(n.read(n.stdout), "ready to exit") {
				t.Errorf("SIGTERM: %v\n%s", err, n.read(n.stdout))
			}
			n.expect("live.sh", "does not answer")
			n.expect("ready.sh", "Connection refused")
			n.start()
			if got := n.cli("CLUSTER", "MYID"); got != id {
				t.Errorf("it was %s, and is %s", id, got)
			}
			n.eventually("it is ready again", func() bool { out, _ := n.probe("ready.sh"); return out == "" })
			if got := n.cli("GET", "key"); got != "value" {
				t.Errorf("the key is %q", got)
			}
		})
	}
}

func TestScriptsProbesOfALoneNode(t *testing.T) {
	t.Parallel()
	for shell, path := range shells(t) {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			n := newScriptNode(t, path, map[string]v1.ConfigValue{"busy-reply-threshold": "100", "maxclients": "5"})
			n.start()
			n.expect("ready.sh", "cluster_state:fail")

			busy := exec.Command(filepath.Join(path, "redis-cli"), "-h", n.ip, "-p", strconv.Itoa(n.port), "EVAL", "while true do end", "0")
			if err := busy.Start(); err != nil {
				t.Fatal(err)
			}
			n.eventually("it is busy", func() bool { out, _ := n.probe("ready.sh"); return strings.Contains(out, "BUSY") })
			n.expect("live.sh", "")
			n.cli("SCRIPT", "KILL")
			_ = busy.Wait()

			n.full()

			if err := n.process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			for script, want := range map[string]string{"live.sh": "does not answer", "ready.sh": "nothing within 4 s"} {
				if out, took := n.probe(script); !strings.Contains(out, want) || took > 5*time.Second {
					t.Errorf("%s of a stopped node printed %q after %v", script, out, took)
				}
			}
			if err := n.process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			n.expect("live.sh", "")

			for _, program := range []string{"timeout", "sleep"} { // An image may lack them.
				if err := os.Remove(filepath.Join(path, program)); err != nil {
					t.Fatal(err)
				}
			}
			n.expect("live.sh", "")
			n.expect("ready.sh", "cluster_state:fail")
		})
	}
}

// full fills all of the node's connections for a moment.
func (n *scriptNode) full() {
	n.t.Helper()
	var all []net.Conn
	n.eventually("it is full", func() bool {
		// One more each time: a probe may have had the place of one that was turned away.
		conn, err := net.Dial("tcp", net.JoinHostPort(n.ip, strconv.Itoa(n.port)))
		if err != nil {
			n.t.Fatal(err)
		}
		all = append(all, conn)
		out, _ := n.probe("ready.sh")
		return strings.Contains(out, "max number of clients")
	})
	n.expect("live.sh", "")
	for _, conn := range all {
		conn.Close()
	}
	n.eventually("it is not full", func() bool { out, _ := n.probe("ready.sh"); return strings.Contains(out, "cluster_state") })
}

func TestScriptsProbesWhileLoading(t *testing.T) {
	t.Parallel()
	for shell, path := range shells(t) {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			n := newScriptNode(t, path, map[string]v1.ConfigValue{"loading-process-events-interval-bytes": "1024", "rdbcompression": "no"})
			n.start()
			n.cli("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
			n.eventually("it is ready", func() bool { out, _ := n.probe("ready.sh"); return out == "" })
			for i := range 20 {
				n.cli("SET", "key"+strconv.Itoa(i), strings.Repeat("x", 4096))
			}
			n.cli("BGREWRITEAOF") // Redis answers while it reads the base, and hardly while it reads commands.
			n.eventually("it is rewritten", func() bool {
				info := n.cli("INFO", "persistence")
				return strings.Contains(info, "aof_rewrite_in_progress:0") && strings.Contains(info, "aof_rewrite_scheduled:0")
			})
			if err := n.end(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			n.write("config/redis.conf", n.read(n.file("config/redis.conf"))+"key-load-delay 200000\n")
			n.launch()
			n.eventually("it is loading", func() bool { out, _ := n.probe("ready.sh"); return strings.Contains(out, "LOADING") })
			n.expect("live.sh", "")
			n.eventually("it is ready again", func() bool { out, _ := n.probe("ready.sh"); return out == "" })
		})
	}
}

func TestScriptsProbesOfACluster(t *testing.T) {
	t.Parallel()
	for shell, path := range shells(t) {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			var nodes []*scriptNode
			for range 4 {
				n := newScriptNode(t, path, map[string]v1.ConfigValue{"enable-debug-command": "yes"})
				n.password("sec \"ret\\")
				n.start()
				nodes = append(nodes, n)
			}
			first, replica := nodes[0], nodes[3]
			for i, slots := range [][2]string{{"0", "5460"}, {"5461", "10922"}, {"10923", "16383"}} {
				nodes[i].cli("CLUSTER", "ADDSLOTSRANGE", slots[0], slots[1])
			}
			for i, n := range nodes[1:] {
				n.cli("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+2))
				first.cli("CLUSTER", "MEET", n.ip, strconv.Itoa(n.port), strconv.Itoa(n.bus))
			}
			id := first.cli("CLUSTER", "MYID")
			replica.eventually("it knows its master", func() bool { return strings.Contains(replica.cli("CLUSTER", "NODES"), id) })
			replica.cli("CLUSTER", "REPLICATE", id)
			for _, n := range nodes {
				n.eventually("it is ready", func() bool { out, _ := n.probe("ready.sh"); return out == "" })
			}

			replica.cli("CONFIG", "SET", "masterauth", "wrong")
			replica.cli("CLIENT", "KILL", "TYPE", "master")
			replica.eventually("its link is down", func() bool {
				out, _ := replica.probe("ready.sh")
				return strings.Contains(out, "master_link_status:down")
			})
			replica.expect("live.sh", "")
			first.expect("ready.sh", "")
			replica.cli("CONFIG", "SET", "masterauth", "sec \"ret\\")
			replica.eventually("its link is up", func() bool { out, _ := replica.probe("ready.sh"); return out == "" })

			// A node that comes back knows where it belongs.
			if err := replica.end(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			replica.start()
			replica.eventually("it is ready again", func() bool { out, _ := replica.probe("ready.sh"); return out == "" })
			for _, n := range nodes {
				n.eventually("it is connected to all", func() bool { return !strings.Contains(n.cli("CLUSTER", "NODES"), "disconnected") })
			}

			// Only a master that has a replica hands over, and to the one that is not behind.
			nodes[1].expect("stop.sh", "")
			replica.expect("stop.sh", "")
			first.cli("SET", "bar", "value") // in one of its slots
			first.expect("stop.sh", "")
			for n, role := range map[*scriptNode]string{first: "slave", replica: "master", nodes[1]: "master"} {
				if got, _, _ := strings.Cut(n.cli("ROLE"), "\n"); got != role {
					t.Errorf("it is a %s after its master has stopped, want a %s", got, role)
				}
			}
			if got := replica.cli("GET", "bar"); got != "value" {
				t.Errorf("the write that came before is %q", got)
			}

			// With access from outside, a master announces another address. A Pod of before does not hand over there.
			other := redistest.FreeIP(t)
			for _, port := range []int{replica.port, replica.bus} {
				p := newProxy(t, net.JoinHostPort(other, strconv.Itoa(port)))
				p.set(net.JoinHostPort(replica.ip, strconv.Itoa(port)))
			}
			replica.cli("CONFIG", "SET", "cluster-announce-ip", other)
			follows := func() bool {
				info := first.cli("INFO", "replication")
				return strings.Contains(info, "master_host:"+other) && strings.Contains(info, "master_port:"+strconv.Itoa(replica.port)) &&
					strings.Contains(info, "master_link_status:up")
			}
			first.eventually("it asks its master at the other address", follows)
			role := func() string {
				got, _, _ := strings.Cut(replica.cli("ROLE"), "\n")
				return got
			}
			if replica.expect("stop.sh", ""); role() != "master" {
				t.Error("it handed over by its old stop.sh")
			}
			replica.write("config/stop.sh", withAddress(&v1.RedisCluster{Spec: v1.RedisClusterSpec{
				Access: &v1.Access{External: &v1.ExternalAccess{}},
			}}, stopCommand))
			replica.cli("DEBUG", "CHANGE-REPL-ID")
			if replica.expect("stop.sh", ""); role() != "master" {
				t.Error("it handed over to a replica with the data of another history")
			}
			replica.cli("CLIENT", "KILL", "TYPE", "REPLICA")
			history := func(n *scriptNode) string {
				_, id, _ := strings.Cut(n.cli("INFO", "replication"), "master_replid:")
				return id[:40]
			}
			first.eventually("it has copied its master again", func() bool { return history(first) == history(replica) && follows() })
			if replica.expect("stop.sh", ""); role() != "slave" {
				t.Error("it has not handed over at the address that it announces")
			}

			// Two masters that are gone are a majority: no replica takes over.
			for _, n := range nodes[1:3] {
				_ = n.end(syscall.SIGKILL)
			}
			first.eventually("the cluster is down", func() bool {
				out, _ := first.probe("ready.sh")
				return strings.Contains(out, "cluster_state:fail")
			})
			first.expect("live.sh", "")

			// One that has lost its data is not to come back.
			if err := os.RemoveAll(nodes[1].file("data/appendonlydir")); err != nil {
				t.Fatal(err)
			}
			nodes[1].launch()
			if err := <-nodes[1].ended; err == nil || !strings.Contains(nodes[1].read(nodes[1].stderr), "Its replicas would lose theirs too") {
				t.Errorf("%v: %s", err, nodes[1].read(nodes[1].stderr))
			}
		})
	}
}

// callsOfStop runs stop.sh of a master with one replica, and returns how it called redis-cli, which only records its calls. role is what
// the master answers after the replica was asked to take over. Both ports of the nodes are open; among is whether the nodes use TLS.
func callsOfStop(t *testing.T, rdc *v1.RedisCluster, role, among string) []string {
	t.Helper()
	rdc.Spec.AuthSecretRef = &v1.SecretKeyReference{Name: "auth", Key: "password"}
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	cli := `#!/bin/sh
echo "${REDISCLI_AUTH:+with password }$*" >>` + calls + `
case "$*" in
*MYID*) echo a0 ;;
*tls-cluster*) printf 'tls-cluster\n` + among + `\n' ;;
*NODES*) printf 'a0 203.0.113.1:6379@16379 myself,master - 0 0 1 connected\nb1 203.0.113.2:6379@16379 slave a0 0 0 1 connected\n' ;;
*203.0.113.2*INFO*) printf 'role:slave\r\nmaster_host:10.0.0.1\r\nmaster_link_status:up\r\nmaster_replid:c2\r\n' ;;
*INFO*) printf 'role:` + role + `\r\nmaster_replid:c2\r\n' ;;
*) echo OK ;;
esac
`
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "redis-cli"), []byte(cli), 0o700))
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "password"), []byte("secret"), 0o600))
	stop := exec.Command("sh", "-c", pod(rdc, 0).Spec.Containers[0].Lifecycle.PreStop.Exec.Command[2])
	stop.Env = []string{
		"PATH=" + dir + ":" + os.Getenv("PATH"), "POD_IP=10.0.0.1", "PORT=6379", "GLASSBACK_TLS_PORT=6380",
		"GLASSBACK_AUTH=" + filepath.Join(dir, "password"),
	}
	if out, err := stop.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(calls)
	must.Succeed(t, err)
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// TestStopHoldsBackWrites runs stop.sh of a master that becomes a replica, and of one that does not: only the first accepts writes again.
func TestStopHoldsBackWrites(t *testing.T) {
	const pause, takeOver = "10.0.0.1 -p 6379 CLIENT PAUSE 60000 WRITE", "203.0.113.2 -p 6379 CLUSTER FAILOVER"
	for role, want := range map[string][]string{
		"slave":  {pause, takeOver, "10.0.0.1 -p 6379 CLIENT UNPAUSE"},
		"master": {pause, takeOver, pause, takeOver},
	} {
		var got []string
		for _, call := range callsOfStop(t, six().rdc, role, "no") {
			if _, command, ok := strings.Cut(call, "-h "); ok && (strings.Contains(call, "PAUSE") || strings.Contains(call, "FAILOVER")) {
				got = append(got, command)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the master is then a %s: stop.sh sent %q, want %q", role, got, want)
		}
	}
}

// TestStopSendsNoPasswordOutsideWithoutTLS runs stop.sh of a master that announces an address outside of the network of Pods.
func TestStopSendsNoPasswordOutsideWithoutTLS(t *testing.T) {
	for among, tls := range map[string]bool{"yes": true, "no": false} {
		rdc := six().rdc
		external(v1.ExternalLoadBalancer)(rdc)
		rdc.Spec.TLS = &v1.TLS{Mode: v1.TLSPreferred, Port: 6380, SecretRef: v1.SecretReference{Name: "redis-tls"}}
		asked := 0
		for _, call := range callsOfStop(t, rdc, "slave", among) {
			if strings.Contains(call, "203.0.113.2") {
				asked++
				if !strings.HasPrefix(call, "with password ") || strings.Contains(call, "--tls") != tls {
					t.Errorf("tls-cluster %s: redis-cli was called %q, want TLS: %t", among, call, tls)
				}
			}
		}
		if asked < 2 {
			t.Errorf("tls-cluster %s: the replica was not asked to take over", among)
		}
	}
}
