// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/docs/commands"
	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/pkg/must"
)

// root is the root directory of the repository.
var root = filepath.Join("..", "..", "..")

// documentedImage is the name that documents give to an image in a registry.
const documentedImage = "registry.example.com/glassback:v0.2.0"

// documentRun runs the commands of the documents that are for one kind of cluster.
type documentRun struct {
	world *world
	real  bool
	clone string
	ecs   string // the URL of an ECS simulator
}

// TestEveryCommandInTheDocuments runs the commands of README.md and docs in their order, in a clone of the repository. The output must
// match the document. docs/commands.yaml says where and how each block runs, and why some blocks do not run.
//
// This test and TestNodeDocuments replace the directory of a cluster, NAMESPACE, and the ports that programs listen at on this machine.
// They do not replace port 8443, which must be free.
func TestEveryCommandInTheDocuments(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{})
	r := &documentRun{world: w, clone: clone(t), ecs: simulate(t, w, w.Kubeconfig()).url}
	r.documents(t)
}

// TestNodeDocuments does the same as TestEveryCommandInTheDocuments, with the blocks that need a real node.
func TestNodeDocuments(t *testing.T) {
	heavy.parallel(t)
	needRealNode(t)
	r := &documentRun{world: start(t, cluster.Config{Node: cluster.NodeReal}), real: true, clone: clone(t)}
	r.world.load(t, documentedImage)
	r.documents(t)
}

// documents runs the blocks of all documents, except translations: they have the blocks of their originals.
func (r *documentRun) documents(t *testing.T) {
	all, err := commands.Read(root)
	must.Succeed(t, err)
	for _, d := range all {
		blocks := slices.DeleteFunc(slices.Clone(d.Blocks), func(b *commands.Block) bool {
			return b.Skipped() || b.Place.Real != r.real
		})
		if len(blocks) > 0 && !d.Translation() {
			t.Run(d.Name, func(t *testing.T) { r.document(t, blocks) })
		}
	}
}

// document runs the blocks of a document, up to the first that fails.
func (r *documentRun) document(t *testing.T, blocks []*commands.Block) {
	t.Helper()
	terminal := newSession(t, r.world, r.clone)
	defer terminal.close()
	var place commands.Place
	for _, b := range blocks {
		if program := missing(b); program != "" {
			t.Run(b.Name, func(t *testing.T) { t.Skipf("SKIPPED, needs %s", program) })
			continue
		}
		began, s := time.Now(), terminal
		if !b.Place.Cluster {
			s = newSession(t, nil, r.clone)
		} else if b.Place != place {
			place = b.Place
			r.operate(s, place)
		}
		if err := s.block(b); err != nil {
			t.Errorf("%s: %v", b.Name, err)
			return
		}
		t.Logf("%s took %s", b.Name, time.Since(began).Round(100*time.Millisecond))
	}
}

// optional matches programs that some machines do not have. Blocks that use them do not run there.
var optional = regexp.MustCompile(`\b(curl|jq|pkill)\b`)

// missing returns the name of a program that the block needs and this machine does not have.
func missing(b *commands.Block) string {
	for _, c := range b.Commands {
		for _, program := range optional.FindAllString(c.Text, -1) {
			if _, err := exec.LookPath(program); err != nil {
				return program
			}
		}
	}
	return ""
}

// operate starts the operator, if the place needs one.
func (r *documentRun) operate(s *session, place commands.Place) {
	s.t.Helper()
	switch {
	case !place.Operator:
	case place.Real:
		must.Succeed(s.t, s.do("make deploy KUBECONFIG="+s.Kubeconfig()+" IMG="+documentedImage))
	default:
		must.Succeed(s.t, s.start(fmt.Sprintf("ALIBABA_CLOUD_ACCESS_KEY_ID=%s ALIBABA_CLOUD_ACCESS_KEY_SECRET=%s exec glassback "+
			"--install-crds --kubeconfig %s --ecs-endpoint %s --ecs-own-credentials-namespaces default",
			cloudKeyID, cloudKeySecret, s.Kubeconfig(), r.ecs)))
	}
}

// session runs the commands of a document, as a reader does in terminals.
type session struct {
	*world // nil without a cluster

	t         *testing.T
	clone     string   // the directory of the cloned repository
	files     string   // a directory for output and variables
	values    []string // placeholders of all documents, each with its value
	env       []string
	operators []*operator // programs in the background
	groups    []int       // process groups that the present block has started
}

// newSession returns a session. With a cluster, its home directory has the kubeconfig.
func newSession(t *testing.T, w *world, clone string) *session {
	t.Helper()
	files := t.TempDir()
	s := &session{world: w, t: t, clone: clone, files: files}
	own := regexp.MustCompile(`^(KUBECONFIG|MAKE\w*|MFLAGS)=`)
	s.env = append(slices.DeleteFunc(withoutCloud(), own.MatchString), "HOME="+files, "CGO_ENABLED=0", "STATE="+filepath.Join(files, "state"),
		fmt.Sprintf("PATH=%[1]s/bin:%[1]s/bin/tools:%[2]s", clone, os.Getenv("PATH")))
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} { // Their defaults are below HOME.
		value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		must.Succeed(t, err)
		s.env = append(s.env, name+"="+strings.TrimSpace(string(value)))
	}
	dir := filepath.Join(files, "devcluster")
	if w != nil {
		dir = w.Dir()
		config, err := os.ReadFile(w.Kubeconfig())
		must.Succeed(t, errors.Join(err, os.Mkdir(filepath.Join(files, ".kube"), 0o700)))
		must.Succeed(t, os.WriteFile(filepath.Join(files, ".kube", "config"), config, 0o600))
	}
	s.values = []string{"/tmp/devcluster", dir, "NAMESPACE", metav1.NamespaceDefault}
	for _, address := range []string{"127.0.0.1:8099", "127.0.0.1:9443"} {
		s.values = append(s.values, address, freeAddress(t))
	}
	return s
}

// block runs a block as its entry says.
func (s *session) block(b *commands.Block) error {
	s.t.Helper()
	defer s.endGroups()
	if b.AfterCtrlC {
		s.endAll()
	}
	for _, text := range b.Before {
		if err := s.do(text); err != nil {
			return fmt.Errorf("before the block, %s: %w", text, err)
		}
	}
	values := slices.Clone(s.values)
	for placeholder, value := range b.Replace {
		values = append(values, placeholder, value)
	}
	replace := strings.NewReplacer(values...).Replace
	var background strings.Builder
	for _, c := range b.Commands {
		c.Text = replace(c.Text)
		var err error
		switch {
		case b.Background:
			background.WriteString(c.Text + "\n")
		case b.Console:
			err = s.expect(c)
		default:
			err = s.do(c.Text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.Text, err)
		}
	}
	if b.Background {
		return s.start(background.String())
	}
	return nil
}

// bash returns a command that runs a script in a process group of its own. The next script gets the variables that this one sets.
//
// As root, it mounts the clone over the repository's directory for the script. Go's cache has the packages that make has built in that
// directory, but none for other directories. Without root, the script builds the packages again.
func (s *session) bash(script string) *exec.Cmd {
	const frame = `[ ! -e "$STATE" ] || . "$STATE"; trap 'export -p >"$STATE"' EXIT; set -aeo pipefail` + "\n"
	cmd := exec.Command("bash", "-c", frame+script)
	cmd.Dir, cmd.Env = s.clone, s.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.Args = []string{"bash", "-ec", `cd "$0"; mount --bind "$1" .; cd "$PWD"; exec bash -c "$2"`, root, s.clone, frame + script}
		cmd.Dir, cmd.SysProcAttr.Unshareflags = "", syscall.CLONE_NEWNS
	}
	return cmd
}

// run runs a script to its end, and returns its output.
func (s *session) run(script string) (string, error) {
	s.t.Helper()
	out, err := os.CreateTemp(s.files, "printed")
	must.Succeed(s.t, err)
	defer out.Close()
	cmd := s.bash(script)
	cmd.Stdout, cmd.Stderr = out, out // With a file, Wait does not wait for background processes.
	must.Succeed(s.t, cmd.Start())
	s.groups = append(s.groups, cmd.Process.Pid)
	err = cmd.Wait()
	printed, readErr := os.ReadFile(out.Name())
	return string(printed), errors.Join(err, readErr)
}

// do runs a command that must succeed. It retries while an object does not exist: the operator may create the object later.
func (s *session) do(text string) error {
	s.t.Helper()
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		printed, err := s.run(text)
		if err == nil {
			return nil
		}
		if !strings.Contains(printed, "NotFound") || time.Since(began) > patience {
			return fmt.Errorf("%w\n%s", err, tail(printed, 40))
		}
	}
}

var (
	reads   = regexp.MustCompile(`^(kubectl (get|describe)|curl -s) `) // The documents post with curl -fsS….
	watches = regexp.MustCompile(` (-w|--watch)\b`)
)

// expect runs a command that must print the documented output. It repeats a command that only reads, until the output is right.
func (s *session) expect(c commands.Command) error {
	s.t.Helper()
	if watches.MatchString(c.Text) {
		o := s.launch(c.Text)
		defer s.end(o)
		await(s.t, func(context.Context) error { return c.Compare(o.log.String(), true) })
		return nil
	}
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		printed, _ := s.run(c.Text) // The documented output can be that of a failure.
		err := c.Compare(printed, false)
		if err == nil || !reads.MatchString(c.Text) || time.Since(began) > patience {
			return err
		}
	}
}

// launch runs a script in the background, until end, or until the document ends.
func (s *session) launch(script string) *operator {
	s.t.Helper()
	cmd := s.bash(script)
	cmd.WaitDelay = time.Second // Processes that outlive the script can keep its output open.
	o := begin(s.t, "command", cmd, []string{script})
	s.t.Cleanup(func() { _ = signal(cmd.Process.Pid, syscall.SIGKILL) })
	return o
}

var (
	started = regexp.MustCompile(`"Started controller"|glassback --ecs-endpoint http|The page is at http`)
	unclean = regexp.MustCompile(`(?m)^(panic: |fatal error: |glassback: |exit status ).*`)
	wrapper = regexp.MustCompile(`\b(go|make) run\b|\bkubectl get .*-w`)
)

// start runs a script in the background, and waits until its program has started. Many scripts compile the program first, which takes half
// an hour if much else runs on the machine.
func (s *session) start(script string) error {
	s.t.Helper()
	o := s.launch(script)
	s.operators = append(s.operators, o)
	awaitFor(s.t, 6*patience, func(context.Context) error {
		if o.running() && !started.MatchString(o.log.String()) {
			return fmt.Errorf("the program has not started:\n%s", tail(o.log.String(), 40))
		}
		return nil
	})
	if !started.MatchString(o.log.String()) {
		return fmt.Errorf("the command has ended (%v):\n%s", o.waitErr, tail(o.log.String(), 40))
	}
	return nil
}

// end ends a background command with Ctrl-C.
func (s *session) end(o *operator) {
	s.t.Helper()
	if err := signal(o.cmd.Process.Pid, syscall.SIGINT); err != nil {
		s.t.Errorf("%v has ended before Ctrl-C: %v\n%s", o.cmd.Args, err, tail(o.log.String(), 20))
		return
	}
	code := o.wait(patience)
	status, _ := o.cmd.ProcessState.Sys().(syscall.WaitStatus)
	interrupted := code == 0 || code == 130 || status.Signal() == syscall.SIGINT
	if wrapper.MatchString(strings.Join(o.cmd.Args, " ")) {
		interrupted = true // These wrappers always fail after Ctrl-C. If the program itself fails, the output shows it.
	}
	if wrong := unclean.FindString(o.log.String()); !interrupted || wrong != "" {
		s.t.Errorf("after Ctrl-C, the command ended with %s, %s\n%s", o.cmd.ProcessState, wrong, tail(o.log.String(), 20))
	}
}

// endAll ends all background commands with Ctrl-C, the last one first.
func (s *session) endAll() {
	s.t.Helper()
	for _, o := range slices.Backward(s.operators) {
		s.end(o)
	}
	s.operators = nil
}

// close deletes the document's objects, and then ends the operator: the finalizers of the objects need the operator.
func (s *session) close() {
	s.t.Helper()
	if s.world != nil {
		const all = "kubectl delete glassback --all --cascade=foreground "
		printed, err := s.run(all + "--wait=false; kubectl delete pods --all --grace-period=1; " + all + "--timeout=" + patience.String())
		if err != nil && !strings.Contains(printed, "the server doesn't have a resource type") {
			s.t.Errorf("delete the objects of the document: %v\n%s", err, printed)
		}
		if printed, err := s.run("kubectl delete secrets,persistentvolumeclaims,horizontalpodautoscalers --all"); err != nil {
			s.t.Errorf("delete the objects of the document: %v\n%s", err, printed)
		}
	}
	s.endAll()
	s.endGroups()
}

// endGroups ends the processes that a block left running with &.
func (s *session) endGroups() {
	for _, group := range s.groups {
		_ = signal(group, syscall.SIGTERM) // An error means that the group has ended.
	}
	s.groups = nil
}

// signal sends a signal to a process group, as a terminal does.
func signal(group int, s syscall.Signal) error { return syscall.Kill(-group, s) }

// clone copies the repository into a new directory, with the programs that make docs has built. A command like "make image" then
// changes no file of the repository itself.
func clone(t *testing.T) string {
	t.Helper()
	devcluster, err := cluster.FindBinary()
	must.Succeed(t, err)
	dir, ecssim := t.TempDir(), built(t, "ECSSIM_BIN", "bin/ecssim", "make ecssim")
	script(t, `
		repository=$1 clone=$2 devcluster=$3 glassback=$4 ecssim=$5
		tar -C "$repository" --exclude=./.git --exclude=./.cache --exclude=./bin --exclude=./dist --exclude=./tmp -c . | tar -C "$clone" -x
		mkdir -p "$clone/bin/tools"
		cp "$devcluster" "$clone/bin/devcluster"
		cp "$glassback" "$clone/bin/glassback"
		cp "$ecssim" "$clone/bin/ecssim"
		ln -s ../devcluster "$clone/bin/tools/kubectl"
		cp -r "$(dirname "$devcluster")/images" "$clone/bin/images"`, root, dir, devcluster, binary(t), ecssim)
	return dir
}
