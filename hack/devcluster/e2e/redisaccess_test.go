// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// TestNodeRedisAccess opens a cluster for clients outside of the network of Pods, by ports of the machine, and closes it again, while a
// client writes. Another client reaches nothing but the machine. The operator is killed in the middle of both. While the cluster is open, a
// container ends, and TLS comes and goes, which replaces all Pods twice. Then clients get hostnames of load balancers instead, by which one
// of them writes.
func TestNodeRedisAccess(t *testing.T) {
	heavy.parallel(t)
	n := onNode(t)
	o := n.operate(t, onlyRedis)
	c := n.redis(t, withStorage)
	c.ready(t, "formation")
	changing := *c // Its nodes announce either address.
	changing.outside = []string{}
	killed := func(what, verb string) {
		t.Helper()
		o.killAt(redisPatience, acting(verb))
		o = n.operate(t, onlyRedis)
		changing.switched(t, what)
	}

	w := c.write(t)
	before := c.uids(t)
	c.patch(t, `{"spec": {"access": {"service": {}, "external": {"type": "NodePort"}}}}`)
	killed("access from outside", "announce address of")
	if after := c.uids(t); !maps.Equal(before, after) {
		t.Errorf("the Pods are %v, and were %v", after, before)
	}
	open := changing.opened(t)
	w.kept("access from outside")
	w.end()

	w = open.write(t)
	service, err := c.kube.CoreV1().Services(c.ns).Get(t.Context(), c.name+"-clients", metav1.GetOptions{})
	c.must(t, err)
	if conn, err := c.in.dial(t.Context(), "tcp", net.JoinHostPort(service.Spec.ClusterIP, fmt.Sprint(c.port))); err != nil {
		t.Errorf("the Service %s: %v", service.Name, err)
	} else {
		_ = conn.Close() // Nothing was sent.
	}
	c.signal(t, c.master(t), syscall.SIGKILL)
	changing.opened(t)
	open.heals(t, "a container that ended")
	w.kept("a container that ended")

	ca := c.newAuthority(t)
	ca.issue(t, 1)
	c.patch(t, fmt.Sprintf(`{"spec": {"tls": {"secretRef": {"name": "redis-tls"}, "port": %d}}}`, securePort))
	changing.switched(t, "TLS with access from outside")
	c.protocols(t, redisv1.ProtocolBoth, redisv1.ProtocolTLS)
	secure := changing.opened(t)
	secure.tls = &tls.Config{RootCAs: ca.pool, ServerName: c.name + "." + c.ns + ".svc", MinVersion: tls.VersionTLS12}
	secure.reachesAll(t)
	w.kept("TLS with access from outside")
	c.patch(t, `{"spec": {"tls": null}}`)
	changing.switched(t, "no TLS with access from outside")
	changing.opened(t)
	w.kept("no TLS with access from outside")
	w.end()

	w = c.write(t)
	c.patch(t, `{"spec": {"access": null}}`)
	killed("no access from outside", "announce address of")
	c.closed(t)
	w.kept("no access from outside")
	for _, address := range open.outside {
		if conn, err := c.in.dial(t.Context(), "tcp", address); err == nil {
			t.Errorf("%s still answers", address)
			_ = conn.Close() // Nothing was sent.
		}
	}

	before = c.uids(t)
	c.patch(t, fmt.Sprintf(`{"spec": {"access": {"external": {"type": "LoadBalancer", "hostname": "{pod}.%s.svc.cluster.local"}}}}`, c.ns))
	c.balance(t)
	killed("hostnames", "set directives of")
	named := c.named(t)
	named.reachesAll(t)
	named.signal(t, c.master(t), syscall.SIGKILL)
	c.named(t)
	c.heals(t, "a container that ended, with hostnames")
	c.patch(t, `{"spec": {"access": null}}`)
	killed("no hostnames", "set directives of")
	c.closed(t)
	w.kept("hostnames")
	if after := c.uids(t); !maps.Equal(before, after) {
		t.Errorf("the Pods are %v, and were %v", after, before)
	}
}

// closed waits until nothing is left of the access from outside.
func (c *realRedis) closed(t *testing.T) {
	t.Helper()
	eventually(t, redisPatience, func(ctx context.Context) error {
		for _, name := range []string{c.name + "-0", c.name + "-5", c.name + "-clients"} {
			if _, err := c.kube.CoreV1().Services(c.ns).Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the Service %s: %v, want none", name, err)
			}
		}
		return nil
	})
	c.heals(t, "no access from outside")
}

// balance does what a cloud does: it gives the Services of nodes the DNS name of a load balancer. Clients get another name, which the DNS
// of the cluster has.
func (c *realRedis) balance(t *testing.T) {
	t.Helper()
	const status = `{"status": {"loadBalancer": {"ingress": [{"hostname": "balancer.example.com"}]}}}`
	for ordinal := range 6 {
		eventually(t, redisPatience, func(ctx context.Context) error {
			_, err := c.kube.CoreV1().Services(c.ns).Patch(ctx, fmt.Sprintf("%s-%d", c.name, ordinal), types.MergePatchType, []byte(status),
				metav1.PatchOptions{}, "status")
			return err
		})
	}
}

// named waits until all nodes tell clients hostnames. It returns the RedisCluster for clients that use nothing else.
func (c *realRedis) named(t *testing.T) *realRedis {
	t.Helper()
	named := *c
	eventually(t, redisPatience, func(ctx context.Context) error {
		rdc, err := c.get(ctx)
		if err != nil {
			return err
		}
		named.outside = []string{}
		for _, node := range rdc.Status.Nodes {
			name := node.Pod + "." + c.ns + ".svc.cluster.local"
			if named.outside = append(named.outside, node.Address); node.Address != net.JoinHostPort(name, fmt.Sprint(c.port)) {
				return fmt.Errorf("%s has the address %q", node.Pod, node.Address)
			}
		}
		return nil
	})
	return &named
}

// reachesAll writes keys of every master. They are not those of a writer.
func (c *realRedis) reachesAll(t *testing.T) {
	t.Helper()
	client := c.client()
	defer client.Close()
	for i := range fewKeys {
		c.must(t, client.Set(t.Context(), fmt.Sprintf("other:%d", i), i, 0).Err())
	}
}

// opened waits until every node has an address outside of the network of Pods, and all nodes tell it to clients. It returns the
// RedisCluster for clients that use nothing else.
func (c *realRedis) opened(t *testing.T) *realRedis {
	t.Helper()
	open := *c
	eventually(t, redisPatience, func(ctx context.Context) error {
		rdc, err := c.get(ctx)
		if err != nil {
			return err
		}
		var addresses []string
		for _, node := range rdc.Status.Nodes {
			if node.Address == "" {
				return fmt.Errorf("%s has no address", node.Pod)
			}
			addresses = append(addresses, node.Address)
		}
		all, err := c.all(ctx)
		if err != nil {
			return err
		}
		pods, err := c.pods(ctx)
		if err != nil {
			return err
		}
		for _, s := range all {
			for _, e := range s.table {
				for _, pod := range pods {
					if e.ip == pod.Status.PodIP {
						return fmt.Errorf("%s tells clients the IP of %s", s.pod, pod.Name)
					}
				}
			}
		}
		open.outside = addresses
		return nil
	})
	return &open
}
