/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/cluster"
)

// nodeEnv says which node tests may have. With "simulated", those that need a real
// one are skipped, also where there could be one.
const nodeEnv = "GLASSBACK_E2E_NODE"

// realNode is a cluster with a real node, for all tests of this process: a node
// takes longer to start than most tests take. It starts when a test first asks for
// it, and TestMain stops it. If the process dies before that, the cluster notices.
var realNode suite

type suite struct {
	start sync.Once
	w     *world
	ended func() error
	err   error
}

func TestMain(m *testing.M) {
	redis.SetLogger(mute{}) // It writes of every connection that fails.
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

// mute is a logger.
type mute struct{}

func (mute) Printf(context.Context, string, ...any) {}

func (s *suite) world() (*world, error) {
	s.start.Do(func() {
		config, ended, err := audited(cluster.Config{
			Node: cluster.NodeReal, ExtraArgs: map[string][]string{cluster.APIServer: {noStreams}}, // TestInstallation has the other kind
		})
		if err != nil {
			s.err = err
			return
		}
		// Not a test's context: the cluster outlives the test that is the first.
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

// node is a test's part of the cluster with the real node: a namespace of its own.
type node struct {
	*world
	ns string
}

// needRealNode skips the test where there can be no real node.
func needRealNode(t *testing.T) {
	t.Helper()
	if os.Getenv(nodeEnv) == cluster.NodeSimulated {
		t.Skipf("SKIPPED, needs a real node: %s=%s asks for none", nodeEnv, cluster.NodeSimulated)
	}
	if err := cluster.RealNodeMissing(); err != nil {
		t.Skipf("SKIPPED, needs a real node: %v", err)
	}
}

// onNode returns a new namespace on the real node, or skips the test: see needRealNode. The namespace is deleted when the test
// ends. If the test failed, its objects, events and logs are saved first.
func onNode(t *testing.T) *node {
	t.Helper()
	needRealNode(t)
	w, err := realNode.world()
	if err != nil {
		t.Fatalf("start a cluster with a real node: %v", err)
	}
	artifacts := t.ArtifactDir() // made now: not in a cleanup
	n := &node{w, w.namespace(t)}
	t.Cleanup(func() {
		if t.Failed() {
			n.keep(t, artifacts)
		}
		n.delete(t)
	})
	return n
}

// delete deletes the namespace, and does not wait until it is gone. What its Pods
// would still do is of no interest.
func (n *node) delete(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	if err := n.kube.CoreV1().Pods(n.ns).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		t.Errorf("delete Pods of namespace %s: %v", n.ns, err)
	}
	if err := n.kube.CoreV1().Namespaces().Delete(ctx, n.ns, metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete namespace %s: %v", n.ns, err)
	}
}

// operate runs the operator in the cluster's network, where it reaches Services and
// Pods, for the test's namespace alone, and waits until its controllers work.
func (n *node) operate(t testing.TB, args ...string) *operator {
	t.Helper()
	args = append([]string{"--kubeconfig", n.Kubeconfig(), "--install-crds", "--namespace", n.ns, "-v=2"}, args...)
	o := follow(t, n.inside(binary(t), args...), args)
	o.waitFor("Started controller")
	return o
}

// inside returns a command that runs in the cluster's network. The caller has to end it: see
// launch.
func (n *node) inside(name string, args ...string) *exec.Cmd {
	return n.Command(context.Background(), name, args...)
}
