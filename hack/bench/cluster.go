// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/glassback/glassback/pkg/clients"
)

// cluster is etcd and an API server, without nodes. It also counts the requests that this process sends to the API server.
type cluster struct {
	*clients.Clients

	root       string // of the repository
	dir        string
	kubeconfig string
	server     int          // the API server's process ID
	own        atomic.Int64 // requests of this process, without watches and requests for metrics
	namespaces int          // created so far
}

func (c *cluster) bin(path ...string) string {
	return filepath.Join(append([]string{c.root, "bin"}, path...)...)
}

// devcluster runs bin/devcluster and returns its output.
func (c *cluster) devcluster(ctx context.Context, command string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, c.bin("devcluster"), append([]string{command, "--dir", c.dir}, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("devcluster %s: %w: %s", command, err, out)
	}
	return string(out), nil
}

// startCluster starts a cluster with the repository's CustomResourceDefinitions. The caller stops the cluster, also after an error, unless
// it is nil.
func startCluster(ctx context.Context, root string) (*cluster, error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	c := &cluster{root: root, dir: dir, kubeconfig: filepath.Join(dir, "kubeconfig")}
	if _, err := c.devcluster(ctx, "up", "--node", "none", "--quiet"); err != nil {
		return c, err
	}
	if _, err := c.devcluster(ctx, "kubectl", "--", "apply", "--server-side", "-k", filepath.Join(root, "artifacts", "crd")); err != nil {
		return c, err
	}
	status, err := c.devcluster(ctx, "status")
	if err != nil {
		return c, err
	}
	if c.server, err = pidOf(status, "kube-apiserver"); err != nil {
		return c, err
	}
	config, err := clients.Load(clients.Flags{Kubeconfig: c.kubeconfig}, clients.Kubectl, "bench")
	if err != nil {
		return c, err
	}
	config.Wrap(transport.WrapperFunc(func(next http.RoundTripper) http.RoundTripper { return counter{next, &c.own} }))
	c.Clients, err = clients.New(config.Config)
	return c, err
}

func (c *cluster) stop() error {
	_, err := c.devcluster(context.Background(), "down")
	return errors.Join(err, os.RemoveAll(c.dir))
}

// pidOf returns the process ID of a component. status is the output of devcluster status.
func pidOf(status, component string) (int, error) {
	for line := range strings.Lines(status) {
		if fields := strings.Fields(line); len(fields) > 3 && fields[0] == component {
			return strconv.Atoi(fields[3])
		}
	}
	return 0, fmt.Errorf("no %s in %q", component, status)
}

// counter counts the requests other than watches and requests for metrics.
type counter struct {
	next  http.RoundTripper
	count *atomic.Int64
}

func (c counter) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") == "" && !strings.HasPrefix(r.URL.Path, "/metrics") {
		c.count.Add(1)
	}
	return c.next.RoundTrip(r)
}

// counted are the resources whose requests are measured. Others are left out, because the API server itself sends requests for them.
var counted = []string{"applications", "deployments", "services", "ingresses", "horizontalpodautoscalers", "poddisruptionbudgets",
	"mycronjobs", "jobs", "events"}

// planned are the resources that glassback plan reads. Of these, the API server itself reads few.
var planned = append([]string{"apiexampleas", "redisclusters", "ecsinstances", "configmaps", "persistentvolumeclaims", "pods", "secrets",
	"networkpolicies"}, counted...)

// requests returns how many requests for counted resources other processes have sent so far, without watches. Between two calls, this
// process must send requests for counted resources only, since all of its requests are subtracted.
func (c *cluster) requests(ctx context.Context) (float64, error) {
	text, err := c.metrics(ctx)
	return requestsIn(text, counted) - requestsIn(text, counted, "WATCH") - float64(c.own.Load()), err
}

// metrics returns the metrics of the API server.
func (c *cluster) metrics(ctx context.Context) (string, error) {
	text, err := c.Kube.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("get the API server's metrics: %w", err)
	}
	return string(text), nil
}

// requestsIn sums apiserver_request_total over the resources and the verbs. Without verbs, it sums over all verbs.
func requestsIn(metrics string, resources []string, verbs ...string) float64 {
	sum := 0.0
	for line := range strings.Lines(metrics) {
		series, found := strings.CutPrefix(line, "apiserver_request_total{")
		if !found {
			continue
		}
		labels, value, _ := strings.Cut(series, "} ")
		has := func(label string) func(string) bool {
			return func(value string) bool { return strings.Contains(labels, label+`="`+value+`"`) }
		}
		if slices.ContainsFunc(resources, has("resource")) && (len(verbs) == 0 || slices.ContainsFunc(verbs, has("verb"))) {
			n, _ := strconv.ParseFloat(strings.TrimSpace(value), 64) // Prometheus' format has a number here.
			sum += n
		}
	}
	return sum
}

// createNamespace creates a namespace and returns its name.
func (c *cluster) createNamespace(ctx context.Context) (string, error) {
	c.namespaces++
	ns := fmt.Sprintf("bench-%d", c.namespaces)
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	_, err := c.Kube.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
	return ns, err
}

// clean deletes the objects that a scenario leaves in a namespace, since the cluster has no controller that does. A running operator would
// create the children of an existing owner again. So clean deletes the owners, calls settle, and then deletes the children.
func (c *cluster) clean(ctx context.Context, ns string, settle func() error) error {
	owners := map[string]rest.Interface{
		"applications": c.Glassback.AppV1().RESTClient(), "mycronjobs": c.Glassback.BatchV1().RESTClient(),
		"redisclusters": c.Glassback.RedisV1().RESTClient(),
	}
	children := map[string]rest.Interface{
		"deployments": c.Kube.AppsV1().RESTClient(), "services": c.Kube.CoreV1().RESTClient(),
		"ingresses": c.Kube.NetworkingV1().RESTClient(), "jobs": c.Kube.BatchV1().RESTClient(), "events": c.Kube.CoreV1().RESTClient(),
	}
	if err := remove(ctx, ns, owners); err != nil {
		return err
	}
	if err := settle(); err != nil {
		return err
	}
	return remove(ctx, ns, children)
}

// remove deletes all objects of some resources.
func remove(ctx context.Context, ns string, resources map[string]rest.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for resource, client := range resources {
		group.Go(func() error {
			for {
				// Without a policy, a Job waits for a garbage collector.
				policy := metav1.DeletePropagationBackground
				err := client.Delete().Namespace(ns).Resource(resource).Body(&metav1.DeleteOptions{PropagationPolicy: &policy}).Do(ctx).Error()
				if err == nil || ctx.Err() != nil {
					return err
				}
				time.Sleep(time.Second) // The usual error is a timeout. The next request deletes the rest.
			}
		})
	}
	return group.Wait()
}
