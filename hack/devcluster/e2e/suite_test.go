// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/cluster"
)

// nodeEnv names an environment variable for the kind of the node. With "simulated", tests that need a real node are skipped, even if the
// machine could run one.
const nodeEnv = "GLASSBACK_E2E_NODE"

// realNode is one cluster with a real node for all tests of this process, since the start of a node takes longer than most tests. The first
// test that needs it starts it, and TestMain stops it. If the process dies, the cluster stops by itself.
var realNode suite

type suite struct {
	start sync.Once
	w     *world
	ended func() error
	err   error
}

func TestMain(m *testing.M) {
	redis.SetLogger(mute{}) // go-redis logs every failed connection.
	flag.Parse()
	if err := flag.Set("test.parallel", "1000"); err != nil { // See places.parallel.
		panic(err)
	}
	code := m.Run()
	if err := realNode.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the cluster with the real node:", err)
		code = max(code, 1)
	}
	if err := verbs.check(code == 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// mute is a logger that drops all lines.
type mute struct{}

func (mute) Printf(context.Context, string, ...any) {}

func (s *suite) world() (*world, error) {
	s.start.Do(func() {
		config, ended, err := audited(cluster.Config{
			Node: cluster.NodeReal, ExtraArgs: map[string][]string{cluster.APIServer: {noStreams}}, // TestInstallation streams lists.
		})
		if err != nil {
			s.err = err
			return
		}
		// This is not the context of a test: the cluster outlives the first test.
		c, err := cluster.Start(context.Background(), config)
		if err != nil {
			s.err = errors.Join(err, ended())
			return
		}
		s.w, s.ended = newWorld(c), ended
	})
	return s.w, s.err
}

func (s *suite) stop() error {
	if s.w == nil {
		return nil
	}
	return errors.Join(s.w.Stop(), s.ended())
}

// node is the part of the cluster with the real node that belongs to one test: a namespace.
type node struct {
	*world
	ns string
}

// needRealNode skips the test on a machine that cannot run a real node.
func needRealNode(t *testing.T) {
	t.Helper()
	if os.Getenv(nodeEnv) == cluster.NodeSimulated {
		t.Skipf("SKIPPED, needs a real node: %s=%s asks for none", nodeEnv, cluster.NodeSimulated)
	}
	if err := cluster.RealNodeMissing(); err != nil {
		t.Skipf("SKIPPED, needs a real node: %v", err)
	}
}

// places limits how many tests run at the same time.
type places chan struct{}

// A heavy test loads most of a processor: the probes of a RedisCluster on a real node do, for example. If a machine is too busy, probes
// time out. The kubelet then replaces containers, which costs even more.
var (
	heavy = make(places, 1)
	light = make(places, max(1, runtime.GOMAXPROCS(0)-1))
)

// parallel waits for a place. The test keeps it until its subtests and cleanups have ended. The limit of -parallel would not do: a subtest
// would wait until all other tests had begun, and the cluster of its test would run until then. So TestMain removes that limit.
func (p places) parallel(t *testing.T) {
	t.Helper()
	t.Parallel()
	p <- struct{}{}
	t.Cleanup(func() { <-p })
}

// onNode returns a new namespace on the real node, or skips the test: see needRealNode. When the test ends, the namespace is deleted. If
// the test has failed, its objects, events and logs are saved before that.
func onNode(t *testing.T) *node {
	t.Helper()
	needRealNode(t)
	w, err := realNode.world()
	if err != nil {
		t.Fatalf("start a cluster with a real node: %v", err)
	}
	artifacts := t.ArtifactDir() // A cleanup cannot call this.
	n := &node{w, w.namespace(t)}
	t.Cleanup(func() {
		if t.Failed() {
			n.keep(t, artifacts)
		}
		n.delete(t)
	})
	return n
}

// delete deletes the namespace, without a wait for the end of the deletion. It deletes the Pods without a grace period.
func (n *node) delete(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // On a busy machine, a request can take more than ten seconds.
	defer cancel()
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	if err := n.kube.CoreV1().Pods(n.ns).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		t.Errorf("delete Pods of namespace %s: %v", n.ns, err)
	}
	if err := n.kube.CoreV1().Namespaces().Delete(ctx, n.ns, metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete namespace %s: %v", n.ns, err)
	}
}

// operate runs the operator for the test's namespace only, and waits until its controllers have started. It runs in the cluster's network,
// and so reaches Services and Pods.
func (n *node) operate(t testing.TB, args ...string) *operator {
	t.Helper()
	args = append([]string{"--kubeconfig", n.Kubeconfig(), "--install-crds", "--namespace", n.ns, "-v=2"}, args...)
	o := follow(t, n.inside(binary(t), args...), args)
	o.waitFor("Started controller")
	return o
}

// inside returns a command that runs in the cluster's network. The caller must end it: see launch.
func (n *node) inside(name string, args ...string) *exec.Cmd {
	return n.Command(context.Background(), name, args...)
}
