// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/glassback/glassback/hack/devcluster/images"
	"github.com/glassback/glassback/hack/devcluster/lifeline"
	"github.com/glassback/glassback/hack/devcluster/sandbox"
	"github.com/glassback/glassback/hack/devcluster/state"
	"github.com/glassback/glassback/hack/devcluster/supervisor"
)

const (
	// endTimeout limits the time in which a cluster ends. Usually, killing its processes and removing its files takes less than a second.
	endTimeout = 30 * time.Second
	// stopTimeout limits the wait for a supervisor's answer to a stop request. askedTimeout limits the wait for its end after the answer.
	stopTimeout  = 3 * time.Second
	askedTimeout = 15 * time.Second
)

// Component is the state of one component of a cluster.
type Component = supervisor.Component

// Cluster is a running cluster. Its methods may be called from several goroutines at once.
type Cluster struct {
	dir     state.Dir
	token   string // distinguishes this cluster from a later one in the same directory
	client  *supervisor.Client
	config  *rest.Config
	sandbox *state.Sandbox // nil if its node is not real
	owned   *child         // nil if another process started the cluster
}

// child is the supervisor as a child of this process.
type child struct {
	cmd   *exec.Cmd
	alive *os.File // the write end of its lifeline
	wait  func() error
}

// Start starts a cluster that ends with Stop, or with this process. It returns when the API server is ready, Pods can be created in
// namespace default and the nodes are Ready. If ctx ends before that, Start removes the cluster.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	dir, child, err := launch(ctx, config)
	if err != nil {
		return nil, err
	}
	c, err := Open(string(dir))
	if err != nil {
		return nil, errors.Join(err, child.end())
	}
	c.owned = child
	return c, nil
}

// StartDetached starts a cluster that outlives this process: Open and Stop end it.
func StartDetached(ctx context.Context, config Config) (*Cluster, error) {
	dir, child, err := launch(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := lifeline.Detach(child.alive); err != nil {
		return nil, errors.Join(err, child.wait())
	}
	if err := child.cmd.Process.Release(); err != nil {
		return nil, fmt.Errorf("release supervisor: %w", err)
	}
	return Open(string(dir))
}

// Open returns the cluster that runs in a directory, or an error if none runs there. path is absolute.
func Open(path string) (*Cluster, error) {
	dir := state.Dir(path)
	record, err := dir.Load()
	if err != nil {
		return nil, err
	}
	liveness, err := dir.Liveness()
	if err != nil {
		return nil, err
	}
	defer liveness.Close()
	if ended, err := liveness.Ended(); err != nil {
		return nil, err
	} else if ended {
		return nil, fmt.Errorf("the cluster in %s is dead: its logs are in %s, and \"devcluster down --dir %s\" removes them",
			dir, dir.Path("logs"), dir)
	}
	if !record.Ready {
		return nil, fmt.Errorf("the cluster in %s is still being started", dir)
	}
	config, err := clientcmd.BuildConfigFromFlags("", dir.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig: %w", err)
	}
	return &Cluster{dir: dir, token: record.Token, client: supervisor.NewClient(record), config: config, sandbox: record.Sandbox}, nil
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.dir.Kubeconfig() }

// RESTConfig returns a new client configuration for the administrator, with client-go's default limits.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.config) }

// WriteKubeconfig writes a kubeconfig with the bearer token of another user.
func (c *Cluster) WriteKubeconfig(file, token string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["devcluster"] = &clientcmdapi.Cluster{Server: c.config.Host, CertificateAuthorityData: c.config.CAData}
	config.AuthInfos["token"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["devcluster"] = &clientcmdapi.Context{Cluster: "devcluster", AuthInfo: "token"}
	config.CurrentContext = "devcluster"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// Dir returns the cluster's directory.
func (c *Cluster) Dir() string { return string(c.dir) }

// LogFile returns the path of a component's log. Stop removes it.
func (c *Cluster) LogFile(component string) string { return c.dir.Log(component) }

// Status returns the states of the components.
func (c *Cluster) Status(ctx context.Context) ([]Component, error) { return c.client.Status(ctx) }

// Kill ends a component with SIGKILL and returns when it is gone. It stays dead until Restart.
func (c *Cluster) Kill(ctx context.Context, component string) error {
	return c.client.Kill(ctx, component, "KILL")
}

// Terminate ends a component with SIGTERM, so that it can finish its work, and returns when it is gone. It stays dead until Restart.
func (c *Cluster) Terminate(ctx context.Context, component string) error {
	return c.client.Kill(ctx, component, "TERM")
}

// Restart starts a component, after killing it if it runs, and returns when it is ready. It keeps its port and its data.
func (c *Cluster) Restart(ctx context.Context, component string) error {
	return c.client.Restart(ctx, component)
}

// Load loads the images of a tar archive into the real node of a cluster, and returns their names. The archive has the format of "docker
// save" or of OCI. An image replaces another one with the same name. After an error, Load returns the names of the images that it loaded
// before the error.
func (c *Cluster) Load(ctx context.Context, archive string) ([]string, error) {
	if c.sandbox == nil {
		return nil, errNoContainers
	}
	names, err := images.Store(c.dir.Path("node", "images")).Load(ctx, archive)
	for i, name := range names {
		if pullErr := c.client.Pull(ctx, name); pullErr != nil {
			return names[:i], pullErr
		}
	}
	return names, err
}

// errNoContainers means that a cluster has no real node.
var errNoContainers = configError("this cluster runs no containers: start one with --node real")

// Real reports whether the cluster's node is real.
func (c *Cluster) Real() bool { return c.sandbox != nil }

// Enter moves the calling thread into the cluster's network. The thread must be locked to its goroutine. A program that it executes
// reaches the cluster's Services and Pods, also by name. Enter does nothing if the cluster has no real node.
func (c *Cluster) Enter() error {
	if c.sandbox == nil {
		return nil
	}
	return sandbox.Enter(c.sandbox.Init, c.sandbox.Network, c.dir.Path("node", "etc", "resolv.conf"))
}

// Command returns a command that runs in the cluster's network, like "devcluster exec": KUBECONFIG is set, and PATH begins with a kubectl.
func (c *Cluster) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	binary, err := os.Readlink(c.dir.Path("bin", "kubectl"))
	cmd := exec.CommandContext(ctx, binary, append([]string{"exec", "--dir", string(c.dir), "--", name}, args...)...)
	cmd.Err = err
	return cmd
}

// Stop ends the cluster and removes its files. It returns after the last process has ended. It may be called again.
func (c *Cluster) Stop() error {
	if c.owned != nil {
		// The result of the supervisor does not show whether files are left: Remove checks that.
		_ = c.owned.end()
	}
	record, err := c.dir.Load()
	if (err != nil && !c.dir.Exists()) || (err == nil && record.Token != c.token) {
		return nil // This cluster is gone; another one may use the directory now.
	}
	err = Remove(string(c.dir))
	if errors.Is(err, ErrNoCluster) {
		return nil
	}
	return err
}

// ErrNoCluster means that a directory has no cluster, alive or dead.
var ErrNoCluster = errors.New("no cluster")

// Remove ends the cluster of a directory, if it is alive, and removes its files. It returns when the last process of the cluster has ended.
// path is absolute.
func Remove(path string) error {
	dir := state.Dir(path)
	record, err := dir.Load()
	if err != nil {
		if !dir.Exists() {
			return fmt.Errorf("%w in %s", ErrNoCluster, dir)
		}
		return err
	}
	liveness, err := dir.Liveness()
	if err != nil {
		return err
	}
	defer liveness.Close()
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if err := end(ctx, record, liveness); err != nil {
		return err
	}
	return removeDead(ctx, dir, record)
}

// end ends a cluster, if it is alive. It kills a supervisor that does not end on request.
func end(ctx context.Context, record *state.Record, liveness *state.Liveness) error {
	if ended, err := liveness.Ended(); err != nil || ended {
		return err
	}
	patience := time.Duration(0)
	if record.Control != "" {
		asking, cancel := context.WithTimeout(ctx, stopTimeout)
		if supervisor.NewClient(record).Stop(asking) == nil {
			patience = askedTimeout
		}
		cancel()
	}
	// The processes of a supervisor that has just ended still run for a moment.
	waiting, cancel := context.WithTimeout(ctx, max(patience, stopTimeout))
	err := liveness.Wait(waiting)
	cancel()
	if err == nil || ctx.Err() != nil {
		return err
	}
	if box := record.Sandbox; box != nil {
		if err := sandbox.Kill(box.Init, box.Network, box.Cgroup); err != nil {
			return err
		}
	}
	if supervisor.Is(record.Supervisor, record.Spec.Dir) {
		_ = syscall.Kill(record.Supervisor, syscall.SIGKILL) // An error means that it has just ended.
	}
	return liveness.Wait(ctx)
}

// removeDead removes the files of a dead cluster, unless the cluster removed them itself, or another cluster was started there.
func removeDead(ctx context.Context, dir state.Dir, record *state.Record) error {
	for {
		if now, err := dir.Load(); err != nil || now.Token != record.Token {
			return nil
		}
		lock, err := dir.TryLock()
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil
		case errors.Is(err, state.ErrLocked): // A process checks liveness, or another cluster starts.
		case err != nil:
			return err
		default:
			defer lock.Close()
			now, err := dir.Load()
			if err != nil || now.Token != record.Token {
				return nil
			}
			if now.Sandbox != nil {
				if err := sandbox.RemoveCgroup(now.Sandbox.Cgroup); err != nil {
					return err
				}
			}
			return dir.Remove(record.Made)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("lock %s: %w", dir, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// launch starts the supervisor and returns when the cluster is ready.
func launch(ctx context.Context, config Config) (state.Dir, *child, error) {
	spec, err := complete(config)
	if err != nil {
		return "", nil, err
	}
	binary, err := binaryOf(config)
	if err != nil {
		return "", nil, err
	}
	if spec.Dir == "" {
		if spec.Dir, err = os.MkdirTemp("", "devcluster-"); err != nil {
			return "", nil, fmt.Errorf("make directory: %w", err)
		}
		// The supervisor makes the directory again, and so knows that it may remove it.
		if err := os.Remove(spec.Dir); err != nil {
			return "", nil, fmt.Errorf("make directory: %w", err)
		}
	}
	if spec.Dir, err = directory(spec); err != nil {
		return "", nil, err
	}
	child, reports, err := startSupervisor(binary, spec)
	if err != nil {
		return "", nil, err
	}
	defer reports.Close()
	dir := state.Dir(spec.Dir)
	if err := child.follow(ctx, reports, config.Progress); err != nil {
		return "", nil, err
	}
	return dir, child, nil
}

// startSupervisor starts the supervisor in a session of its own: a terminal's Ctrl-C reaches only its parent, which then ends it in order.
func startSupervisor(binary string, spec state.Spec) (*child, *os.File, error) {
	input, err := json.Marshal(spec)
	if err != nil {
		return nil, nil, fmt.Errorf("encode spec: %w", err)
	}
	reports, out, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("create pipe: %w", err)
	}
	defer out.Close()
	cmd := exec.Command(binary, "supervise", spec.Dir) // With the directory, a list of processes shows which cluster this is.
	cmd.Env = os.Environ()
	cmd.Dir = "/" // A process must not keep another directory in use.
	cmd.Stdin = bytes.NewReader(input)
	cmd.ExtraFiles = []*os.File{out} // supervisor.ReportFD
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	read, write, err := lifeline.Attach(cmd)
	if err != nil {
		reports.Close()
		return nil, nil, err
	}
	defer read.Close()
	if err := cmd.Start(); err != nil {
		reports.Close()
		write.Close()
		return nil, nil, fmt.Errorf("start %s: %w", binary, err)
	}
	return &child{cmd: cmd, alive: write, wait: sync.OnceValue(cmd.Wait)}, reports, nil
}

// follow reads the reports of the supervisor until the cluster is ready. If the start fails or ctx ends first, follow returns after the
// supervisor has ended.
func (c *child) follow(ctx context.Context, reports *os.File, progress func(string)) error {
	cut := context.AfterFunc(ctx, func() {
		c.alive.Close()
		time.AfterFunc(endTimeout, func() { _ = c.cmd.Process.Kill() }) // If it still runs then, it hangs.
	})
	decoder := json.NewDecoder(reports)
	failure := ""
	for {
		var r supervisor.Report
		if err := decoder.Decode(&r); err != nil {
			break // the supervisor is gone
		}
		if r.Ready && cut() {
			return nil
		}
		if r.Error != "" {
			failure = r.Error
		}
		if r.Progress != "" && progress != nil {
			progress(r.Progress)
		}
	}
	cut()
	waitErr := c.end()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("start cluster: %w", context.Cause(ctx))
	case failure != "":
		return fmt.Errorf("start cluster: %s", failure)
	default:
		return fmt.Errorf("start cluster: supervisor ended without a word: %w", waitErr)
	}
}

// end closes the supervisor's lifeline and waits until the supervisor has ended the cluster. It kills a supervisor that hangs; then the
// components end, too.
func (c *child) end() error {
	c.alive.Close() // A second Close has no effect.
	late := time.AfterFunc(endTimeout, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	return c.wait()
}

// Wait waits until the cluster has ended or ctx ends. It always returns an error, which says which of the two happened.
func (c *Cluster) Wait(ctx context.Context) error {
	liveness, err := c.dir.Liveness()
	if err != nil {
		return err
	}
	defer liveness.Close()
	if err := liveness.Wait(ctx); err != nil {
		return err
	}
	return fmt.Errorf("the cluster in %s has ended", c.dir)
}
