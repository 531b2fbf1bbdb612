// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

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

// inShells runs a test with each shell. path is a PATH that has sh.
func inShells(t *testing.T, test func(t *testing.T, path string)) {
	t.Helper()
	t.Parallel()
	for shell, path := range shells(t) {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			test(t, path)
		})
	}
}

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
	link := func(path, target, name string) { must.Succeed(t, os.Symlink(target, filepath.Join(path, name))) }
	programs := []string{"sh", "cat", "grep", "sed", "tr", "timeout", "sleep", "sha256sum", "mv"}
	all := map[string]string{"sh": t.TempDir()}
	for _, program := range programs {
		target, err := exec.LookPath(program)
		must.Succeed(t, err)
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
	_, n.bus = Ports(rdc)
	n.configure(rdc, map[string]string{
		"start.sh": startScript, "live.sh": liveScript, "ready.sh": readyScript, "timeout.sh": timeoutScript, "stop.sh": stopCommand,
	})
	must.Succeed(t, os.Mkdir(n.file("data"), 0o755))
	return n
}

// configure writes redis.conf, with the node's own files, and scripts.
func (n *scriptNode) configure(rdc *v1.RedisCluster, scripts map[string]string) {
	n.t.Helper()
	own := strings.NewReplacer("dir "+dirData, "dir "+n.file("data"), fileUsers, n.file("users.acl"), DirTLS, n.file("tls"),
		FileTLS, n.file("tls.conf"))
	n.write("config/redis.conf", own.Replace(redisConf(rdc))+"bind "+n.ip+"\n")
	for name, text := range scripts {
		n.write("config/"+name, text)
	}
}

func (n *scriptNode) file(name string) string { return filepath.Join(n.dir, name) }

func (n *scriptNode) write(name, text string) {
	n.t.Helper()
	must.Succeed(n.t, os.MkdirAll(filepath.Dir(n.file(name)), 0o755))
	must.Succeed(n.t, os.WriteFile(n.file(name), []byte(text), 0o644))
}

func (n *scriptNode) read(path string) string {
	n.t.Helper()
	data, err := os.ReadFile(path)
	must.Succeed(n.t, err)
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
		must.Succeed(n.t, err)
		defer f.Close()
		*to.(*io.Writer) = f
	}
	must.Succeed(n.t, cmd.Start())
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
	n.until("live.sh", "")
}

// patience is for a machine that is busy.
const patience = 5 * time.Minute

// end sends a signal, and returns what came of it.
func (n *scriptNode) end(signal os.Signal) error {
	n.t.Helper()
	must.Succeed(n.t, n.process.Signal(signal))
	return n.wait()
}

func (n *scriptNode) wait() error {
	n.t.Helper()
	select {
	case err := <-n.ended:
		return err
	case <-time.After(patience):
		n.t.Fatalf("it does not end:\n%s", n.read(n.stdout))
		return nil
	}
}

func (n *scriptNode) eventually(what string, done func() bool) {
	n.t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			n.t.Fatalf("never: %s; ready.sh: %s\n%s%s", what, n.probe("ready.sh"), n.read(n.stdout), n.read(n.stderr))
		}
	}
}

// probe returns what a script printed. It must fail if, and only if, it prints something: one line.
func (n *scriptNode) probe(script string) string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	before := n.orphans()
	out, err := n.command(ctx, script).CombinedOutput()
	left := func() []string {
		return slices.DeleteFunc(n.orphans(), func(orphan string) bool { return slices.Contains(before, orphan) })
	}
	// After stop.sh, the container ends. A process that the other scripts have killed may need a moment to end.
	for end := time.Now().Add(patience); script != "stop.sh" && len(left()) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			n.t.Fatalf("%s has left processes behind: %q", script, left())
		}
	}
	if (err == nil) != (len(out) == 0) || bytes.Count(out, []byte("\n")) != min(len(out), 1) {
		n.t.Errorf("%s: %v, and printed %q", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// says returns whether a script prints a text as a part of its line; "" is that it prints nothing.
func (n *scriptNode) says(script, want string) bool {
	n.t.Helper()
	out := n.probe(script)
	return out == want || (want != "" && strings.Contains(out, want))
}

// until waits until a script prints a text; "" is nothing.
func (n *scriptNode) until(script, want string) {
	n.t.Helper()
	n.eventually(script+" prints "+want, func() bool { return n.says(script, want) })
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

// directive returns the value of a directive.
func (n *scriptNode) directive(name string) string {
	n.t.Helper()
	_, value, _ := strings.Cut(n.cli("--raw", "CONFIG", "GET", name), "\n")
	return value
}

// role is that of the node, such as "master".
func (n *scriptNode) role() string {
	n.t.Helper()
	role, _, _ := strings.Cut(n.cli("ROLE"), "\n")
	return role
}

func (n *scriptNode) expect(script, want string) {
	n.t.Helper()
	if !n.says(script, want) {
		n.t.Errorf("%s printed another thing than %q: %q", script, want, n.probe(script))
	}
}

// noState is what ready.sh says of a node without the slots of a whole cluster.
const noState = "cluster_state:fail"

func TestScriptsPassword(t *testing.T) {
	inShells(t, func(t *testing.T, path string) {
		for sentence, password := range map[string]string{
			"with spaces":            "  two words ",
			"quotes":                 `"it's" 'so'`,
			"backslashes":            `\ \\ \n \x41 \" \`,
			"what a shell expands":   "$HOME ${PATH} $(id) `id` * ? ~ !! #",
			"the end of a document":  "EOF",
			"an option":              "-n",
			"a format":               "%s%d%%",
			"unicode":                "pässwörd – 密码 \u0085",
			"bytes that are no text": "\xfe\x80\xff",
			"newlines at the end":    "secret with newlines\n\n\n",
			"long":                   strings.Repeat(`0123456789"\`, 400),
		} {
			t.Run(sentence, func(t *testing.T) {
				n := newScriptNode(t, path, nil)
				if strings.Contains(password, "\xff") && strings.HasPrefix(redistest.Version(t), "Valkey ") {
					t.Skip("SKIPPED, a password with the byte 255: Valkey 8.1 reads it as the end of its configuration")
				}
				n.password(password)
				n.start()
				password := strings.TrimRight(password, "\n")
				for _, directive := range []string{"requirepass", "masterauth"} {
					if got := n.directive(directive); got != password {
						t.Errorf("%s is %q, want %q", directive, got, password)
					}
				}
				n.expect("ready.sh", noState)
				n.secretIsNowhere(password)
				n.write("password", "another")
				n.expect("ready.sh", "WRONGPASS")
				n.expect("live.sh", "")
			})
		}
	})
}

// TestScriptsUsers starts a node with the operator's user. Its users outlive the container, but not an older password of the operator.
func TestScriptsUsers(t *testing.T) {
	inShells(t, func(t *testing.T, path string) {
		n := newScriptNode(t, path, nil)
		rdc := &v1.RedisCluster{Spec: v1.RedisClusterSpec{
			Addr: "127.0.0.1:" + strconv.Itoa(n.port), Users: []v1.User{{Name: v1.UserDefault, Rules: "off"}},
		}}
		rdc.Default()
		n.configure(rdc, map[string]string{"users.sh": usersScript, "ready.sh": readyOf(rdc), "stop.sh": asOperator(rdc, stopCommand)})
		n.users = true
		n.refuses("cannot read the password")
		n.password("first $password")
		n.start()
		cli := func(args ...string) string {
			t.Helper()
			return n.cli(append([]string{"--no-auth-warning", "--user", v1.UserOperator}, args...)...)
		}
		if users := cli("ACL", "LIST"); !strings.Contains(users, "user default off") || strings.Count(users, "user ") != 2 {
			t.Errorf("a new node has the users %q", users)
		}
		got := cli("CONFIG", "GET", "masteruser", "masterauth")
		if !strings.Contains(got, v1.UserOperator) || !strings.Contains(got, "first $password") {
			t.Errorf("replicas log in as %q", got)
		}
		n.expect("ready.sh", noState)
		n.secretIsNowhere("first $password")
		// Another Pod ends, which has no operator's user, and hands its slots over: see stop.sh.
		cli(append([]string{"ACL", "SETUSER", "default", "reset", "on", "nopass"}, strings.Fields(AlmostEverything)...)...)
		if got := cli("ACL", "DRYRUN", "default", "CLUSTER", "FAILOVER"); got != "OK" {
			t.Errorf("CLUSTER FAILOVER by the open user default: %s", got)
		}
		if got := cli("ACL", "DRYRUN", "default", "CONFIG", "GET", "masterauth"); !strings.Contains(got, "no permissions") {
			t.Errorf("CONFIG GET masterauth by the open user default: %s", got)
		}
		cli("ACL", "SETUSER", "default", "reset")
		cli("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
		n.until("ready.sh", "Not ready: the operator has not set the users yet.")
		cli("ACL", "SETUSER", v1.UserOperator, MarkRule("mark"))
		n.until("ready.sh", "")
		cli(append([]string{"ACL", "SETUSER", v1.UserOperator, "reset", "on", ">first $password"}, strings.Fields(Everything)...)...)
		n.until("ready.sh", "Not ready: the operator has not set the users yet.")
		cli("ACL", "SETUSER", "app", "on", "nopass", "~*", "+@all")
		cli("ACL", "SAVE")
		n.until("ready.sh", "")
		_ = n.end(syscall.SIGKILL)

		n.password("second")
		n.start()
		if users := cli("ACL", "LIST"); !strings.Contains(users, "user default off") || !strings.Contains(users, "user app on") ||
			strings.Count(users, "user "+v1.UserOperator) != 1 {
			t.Errorf("after a restart it has the users %q", users)
		}
		n.expect("stop.sh", "")
		_ = n.end(syscall.SIGTERM)
		n.write("users.acl", "user app on nopass ~* +@all\n")
		n.start()
		if users := cli("ACL", "LIST"); !strings.Contains(users, "user default off") {
			t.Errorf("after half of the file was lost, it has the users %q", users)
		}
	})
}

// TestScriptsTLS runs a node with each transport. The probes answer with TLS alone, too, and after the certificate has expired.
func TestScriptsTLS(t *testing.T) {
	inShells(t, func(t *testing.T, path string) {
		n := newScriptNode(t, path, nil)
		rdc := &v1.RedisCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "tls", Namespace: "default"},
			Spec:       v1.RedisClusterSpec{Addr: "127.0.0.1:" + strconv.Itoa(n.port), TLS: &v1.TLS{Port: int32(n.port + 1)}},
		}
		rdc.Default()
		n.configure(rdc, map[string]string{
			"tls.sh": TLSScript, "live.sh": withTLS(rdc, liveScript, probeWithTLS), "ready.sh": withTLS(rdc, readyScript, probeWithTLS),
			"stop.sh": withTLS(rdc, stopCommand, "--tls --cacert "+n.file("tls/ca.crt")),
		})
		n.tls = "unknown"
		n.refuses("has no tls.crt")
		ca := redistest.NewAuthority(t)
		certify := func(changes ...func(*x509.Certificate)) {
			for key, text := range ca.Issue(t, changes...) {
				n.write("tls/"+key, string(text))
			}
		}
		certify()
		n.refuses("not known: unknown")
		tls := func(args ...string) string {
			t.Helper()
			address := []string{"-e", "--tls", "--insecure", "-h", n.ip, "-p", strconv.Itoa(n.port + 1)}
			out, err := exec.Command(filepath.Join(path, "redis-cli"), append(address, args...)...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %v: %s", args, err, out)
			}
			return strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", " ")
		}
		for _, test := range []struct{ transport, want string }{
			{"plain" + TransportPlain, "tls-cluster no tls-replication no port " + strconv.Itoa(n.port)},
			{TransportBoth, "tls-cluster yes tls-replication yes port " + strconv.Itoa(n.port)},
			{TransportOnly, "tls-cluster yes tls-replication yes port 0"},
		} {
			n.tls = test.transport
			n.start()
			got := tls("CONFIG", "GET", "tls-cluster") + " " + tls("CONFIG", "GET", "tls-replication") + " " + tls("CONFIG", "GET", "port")
			if got != test.want {
				t.Errorf("with %q it has %q, want %q", test.transport, got, test.want)
			}
			if table := tls("CLUSTER", "NODES"); !strings.Contains(table, "@"+strconv.Itoa(n.bus)) {
				t.Errorf("with %q, the port of the bus is another one: %s", test.transport, table)
			}
			n.expect("ready.sh", noState)
			n.expect("stop.sh", "")
			_ = n.end(syscall.SIGTERM)
			n.expect("live.sh", "does not answer")
		}
		certify(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		})
		n.start()
		n.expect("ready.sh", noState)
	})
}

// refuses runs start.sh, which must end with an error.
func (n *scriptNode) refuses(want string) {
	n.t.Helper()
	n.launch()
	if err := n.wait(); err == nil {
		n.t.Errorf("start.sh succeeded, want %q", want)
	}
	got := n.read(n.stderr)
	if !strings.HasPrefix(got, "Not started: ") || strings.Count(got, "\n") != 1 || !strings.Contains(got, want) {
		n.t.Errorf("start.sh said %q, want one line with %q", got, want)
	}
	if got := n.read(n.stdout); got != "" {
		n.t.Errorf("stdout is %q", got)
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
	ofMaster := fmt.Sprintf(nodesConf, "master - 0 0 1", " 0-5460")
	manifest := func(n *scriptNode) {
		n.write("data/appendonlydir/appendonly.aof.manifest", "file appendonly.aof.1.incr.aof seq 1 type i\n")
	}
	knows := func(conf string) func(*scriptNode) { return func(n *scriptNode) { n.write("data/nodes.conf", conf) } }
	withData := func(conf string) func(*scriptNode) { return func(n *scriptNode) { manifest(n); knows(conf)(n) } }
	inShells(t, func(t *testing.T, path string) {
		for sentence, test := range map[string]struct {
			prepare func(*scriptNode)
			want    string
		}{
			"no redis.conf":         {func(n *scriptNode) { os.Remove(n.file("config/redis.conf")) }, "there is no "},
			"no IP":                 {func(n *scriptNode) { n.ip = "" }, "POD_IP"},
			"no password":           {func(n *scriptNode) { n.auth = true }, "cannot read the password"},
			"an empty password":     {func(n *scriptNode) { n.password("") }, "is empty"},
			"a newline inside":      {func(n *scriptNode) { n.password("secret\nport 1") }, "control character"},
			"a NUL":                 {func(n *scriptNode) { n.password("a\x00b") }, "control character"},
			"a master without data": {knows(ofMaster), "its data"},
			"a lone master without data": {knows("e72d70428107b594fac768bea9a5fe94b4bd8db5 :0@0 myself,master - 0 0 0 connected 0-16383\n" +
				"vars currentEpoch 0 lastVoteEpoch 0\n"), "its data"},
			"data without a manifest": {func(n *scriptNode) {
				knows(ofMaster)(n)
				n.write("data/appendonlydir/appendonly.aof.1.base.rdb", "REDIS")
			}, "its data"},
			"data without nodes.conf":       {manifest, "nodes.conf"},
			"data with an empty nodes.conf": {withData(""), "nodes.conf"},
			"a nodes.conf of garbage":       {knows("\x00\x00garbage\n"), "damaged"},
			"a nodes.conf without an end":   {withData(ofMaster[:220]), "damaged"},
			"a nodes.conf without itself":   {withData(strings.Replace(nodesConf, "myself,", "", 1)), "damaged"},
		} {
			t.Run(sentence, func(t *testing.T) {
				n := newScriptNode(t, path, nil)
				test.prepare(n)
				n.refuses(test.want)
			})
		}
	})
}

// TestScriptsFirstStart is about nodes that were killed before they were ever there.
func TestScriptsFirstStart(t *testing.T) {
	without := func(name string) func(*scriptNode) {
		return func(n *scriptNode) {
			n.start()
			_ = n.end(syscall.SIGKILL)
			must.Succeed(n.t, os.RemoveAll(n.file("data/appendonlydir/"+name)))
		}
	}
	inShells(t, func(t *testing.T, path string) {
		for sentence, prepare := range map[string]func(*scriptNode){
			"nodes.conf is empty, as while it is locked first": func(n *scriptNode) { n.write("data/nodes.conf", "") },
			"there is no data yet":                             without(""),
			"there is no manifest yet":                         without("appendonly.aof.manifest"),
			"killed at any time": func(n *scriptNode) {
				for i := range 15 {
					n.launch()
					time.Sleep(time.Duration(2*i) * time.Millisecond)
					_ = n.end(syscall.SIGKILL)
				}
			},
		} {
			t.Run(sentence, func(t *testing.T) {
				n := newScriptNode(t, path, nil)
				prepare(n)
				n.start()
			})
		}
	})
}

// TestScriptsHostname has a redis-server of which one says that it is Redis 6: it would not start with the directive.
func TestScriptsHostname(t *testing.T) {
	inShells(t, func(t *testing.T, path string) {
		for sentence, test := range map[string]struct {
			version, hostname, want string
		}{
			"a hostname":              {"", "a.example.com", "a.example.com"},
			"no hostname":             {"", "", ""},
			"a hostname and Redis 6":  {"6.2.14", "a.example.com", ""},
			"a hostname and Redis 10": {"10.0.0", "a.example.com", "a.example.com"},
		} {
			t.Run(sentence, func(t *testing.T) {
				n := newScriptNode(t, path, nil)
				if test.hostname != "" {
					n.env = append(n.env, EnvHostname+"="+test.hostname)
				}
				if test.version != "" {
					n.write("bin/redis-server", "#!/bin/sh\n"+`[ "$1" != --version ] || { echo "Redis server v=`+test.version+
						` sha=00000000:0 malloc=libc bits=64 build=0"; exit; }`+"\n"+"exec "+path+`/redis-server "$@"`+"\n")
					must.Succeed(t, os.Chmod(n.file("bin/redis-server"), 0o755))
					n.env = append(n.env, "PATH="+n.file("bin")+":"+path)
				}
				n.start()
				if got := n.directive("cluster-announce-hostname"); got != test.want {
					t.Errorf("the node has the hostname %q, want %q", got, test.want)
				}
			})
		}
	})
}

func TestScriptsEndCleanly(t *testing.T) {
	inShells(t, func(t *testing.T, path string) {
		config := map[string]v1.ConfigValue{"save": "900 1", "notify-keyspace-events": "", "proc-title-template": `"{title} {listen-addr}"`}
		for i := range 50 { // More than a pipe takes at once without a second process.
			config[fmt.Sprintf("# %d", i)] = v1.ConfigValue(strings.Repeat("x", 1000))
		}
		n := newScriptNode(t, path, config)
		n.start()
		for directive, want := range map[string]string{
			"save": "900 1", "notify-keyspace-events": "", "cluster-announce-ip": n.ip, "appendonly": "yes",
		} {
			if got := n.directive(directive); got != want {
				t.Errorf("%s is %q, want %q", directive, got, want)
			}
		}
		id := n.cli("CLUSTER", "MYID")
		n.cli("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
		n.until("ready.sh", "")
		n.cli("SET", "key", "value")
		if err := n.end(syscall.SIGTERM); err != nil || !strings.Contains(n.read(n.stdout), "ready to exit") {
			t.Errorf("SIGTERM: %v\n%s", err, n.read(n.stdout))
		}
		n.expect("live.sh", "does not answer")
		n.expect("ready.sh", "Connection refused")
		n.start()
		n.until("ready.sh", "")
		if got, value := n.cli("CLUSTER", "MYID"), n.cli("GET", "key"); got != id || value != "value" {
			t.Errorf("it was %s, and is %s; the key is %q", id, got, value)
		}
	})
}

func TestScriptsProbesOfALoneNode(t *testing.T) {
	inShells(t, func(t *testing.T, path string) {
		n := newScriptNode(t, path, map[string]v1.ConfigValue{"busy-reply-threshold": "100", "maxclients": "5"})
		n.start()
		n.expect("ready.sh", noState)

		busy := exec.Command(filepath.Join(path, "redis-cli"), "-h", n.ip, "-p", strconv.Itoa(n.port), "EVAL", "while true do end", "0")
		must.Succeed(t, busy.Start())
		n.until("ready.sh", "BUSY")
		n.expect("live.sh", "")
		n.cli("SCRIPT", "KILL")
		_ = busy.Wait()

		var all []net.Conn
		n.eventually("all of its connections are taken", func() bool {
			// One more each time: a probe may have had the place of one that was turned away.
			conn, err := net.Dial("tcp", net.JoinHostPort(n.ip, strconv.Itoa(n.port)))
			must.Succeed(t, err)
			all = append(all, conn)
			return n.says("ready.sh", "max number of clients")
		})
		n.expect("live.sh", "")
		for _, conn := range all {
			conn.Close()
		}
		n.until("ready.sh", noState)

		must.Succeed(t, n.process.Signal(syscall.SIGSTOP))
		n.expect("live.sh", "does not answer")
		n.expect("ready.sh", "nothing within 4 s")
		must.Succeed(t, n.process.Signal(syscall.SIGCONT))
		n.until("live.sh", "")

		for _, program := range []string{"timeout", "sleep"} { // An image may lack them.
			must.Succeed(t, os.Remove(filepath.Join(path, program)))
		}
		n.expect("live.sh", "")
		n.expect("ready.sh", noState)
	})
}

func TestScriptsProbesWhileLoading(t *testing.T) {
	inShells(t, func(t *testing.T, path string) {
		n := newScriptNode(t, path, map[string]v1.ConfigValue{
			"loading-process-events-interval-bytes": "1024", "rdbcompression": "no", "enable-debug-command": "yes",
		})
		n.start()
		n.cli("DEBUG", "POPULATE", "3000", "key", "4096")
		n.cli("BGREWRITEAOF") // Redis answers while it reads the base, and hardly while it reads commands.
		n.eventually("it is rewritten", func() bool {
			info := n.cli("INFO", "persistence")
			return strings.Contains(info, "aof_rewrite_in_progress:0") && strings.Contains(info, "aof_rewrite_scheduled:0")
		})
		must.Succeed(t, n.end(syscall.SIGTERM))
		n.write("config/redis.conf", n.read(n.file("config/redis.conf"))+"key-load-delay 200000\n")
		n.launch()
		n.until("ready.sh", "LOADING")
		n.expect("live.sh", "")
		n.cli("CONFIG", "SET", "key-load-delay", "0")
		n.until("ready.sh", noState)
	})
}

func TestScriptsProbesOfACluster(t *testing.T) {
	inShells(t, func(t *testing.T, path string) {
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
			n.until("ready.sh", "")
		}

		replica.cli("CONFIG", "SET", "masterauth", "wrong")
		replica.cli("CLIENT", "KILL", "TYPE", "master")
		replica.until("ready.sh", "master_link_status:down")
		replica.expect("live.sh", "")
		first.expect("ready.sh", "")
		replica.cli("CONFIG", "SET", "masterauth", "sec \"ret\\")
		replica.until("ready.sh", "")

		// A node that comes back knows where it belongs.
		must.Succeed(t, replica.end(syscall.SIGTERM))
		replica.start()
		replica.until("ready.sh", "")
		for _, n := range nodes {
			n.eventually("it is connected to all", func() bool { return !strings.Contains(n.cli("CLUSTER", "NODES"), "disconnected") })
		}

		// Only a master that has a replica hands over, and to the one that is not behind.
		nodes[1].expect("stop.sh", "")
		replica.expect("stop.sh", "")
		first.cli("SET", "bar", "value") // in one of its slots
		first.expect("stop.sh", "")
		for n, role := range map[*scriptNode]string{first: "slave", replica: "master", nodes[1]: "master"} {
			if got := n.role(); got != role {
				t.Errorf("it is a %s after its master has stopped, want a %s", got, role)
			}
		}
		if got := replica.cli("GET", "bar"); got != "value" {
			t.Errorf("the write that came before is %q", got)
		}

		// With access from outside, a master announces another address. A Pod of before does not hand over there.
		other := redistest.FreeIP(t)
		for _, port := range []int{replica.port, replica.bus} {
			redistest.NewProxy(t, net.JoinHostPort(other, strconv.Itoa(port))).Set(net.JoinHostPort(replica.ip, strconv.Itoa(port)))
		}
		replica.cli("CONFIG", "SET", "cluster-announce-ip", other)
		follows := func() bool {
			info := first.cli("INFO", "replication")
			return strings.Contains(info, "master_host:"+other) && strings.Contains(info, "master_port:"+strconv.Itoa(replica.port)) &&
				strings.Contains(info, "master_link_status:up")
		}
		first.eventually("it asks its master at the other address", follows)
		stops := func(role, otherwise string) {
			t.Helper()
			if replica.expect("stop.sh", ""); replica.role() != role {
				t.Error(otherwise)
			}
		}
		stops("master", "it handed over by its old stop.sh")
		replica.write("config/stop.sh", withAddress(&v1.RedisCluster{Spec: v1.RedisClusterSpec{
			Access: &v1.Access{External: &v1.ExternalAccess{}},
		}}, stopCommand))
		replica.cli("DEBUG", "CHANGE-REPL-ID")
		stops("master", "it handed over to a replica with the data of another history")
		replica.cli("CLIENT", "KILL", "TYPE", "REPLICA")
		history := func(n *scriptNode) string {
			_, id, _ := strings.Cut(n.cli("INFO", "replication"), "master_replid:")
			return id[:40]
		}
		first.eventually("it has copied its master again", func() bool { return history(first) == history(replica) && follows() })
		stops("slave", "it has not handed over at the address that it announces")

		// Two masters that are gone are a majority: no replica takes over.
		for _, n := range nodes[1:3] {
			_ = n.end(syscall.SIGKILL)
		}
		first.until("ready.sh", noState)
		first.expect("live.sh", "")
	})
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
	stop := exec.Command("sh", "-c", Pod(rdc, 0).Spec.Containers[0].Lifecycle.PreStop.Exec.Command[2])
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
		for _, call := range callsOfStop(t, loadCluster(t, "sample"), role, "no") {
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
		rdc := loadCluster(t, "sample")
		rdc.Spec.Access = &v1.Access{External: &v1.ExternalAccess{Type: v1.ExternalLoadBalancer}}
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
