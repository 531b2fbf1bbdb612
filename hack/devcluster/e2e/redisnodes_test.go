// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/pkg/apis/glassback"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// realRedis is a RedisCluster on the real node. This process sends requests to its Redis nodes in the cluster's network.
type realRedis struct {
	*node
	name     string
	password string
	port     int
	tls      *tls.Config // nil for a client without TLS
	in       *network
}

// redis creates a RedisCluster from an example, with changes.
func (n *node) redis(t *testing.T, example string, change ...func(*redisv1.RedisCluster)) *realRedis {
	t.Helper()
	rdc := artifact[redisv1.RedisCluster](t, "examples/"+example)
	for _, f := range change {
		f(rdc)
	}
	c := n.known(t, rdc)
	_, err := n.glassback.RedisV1().RedisClusters(n.ns).Create(t.Context(), rdc, metav1.CreateOptions{})
	n.must(t, err)
	return c
}

// small makes a RedisCluster of three masters without replicas. It is for tests that have other RedisClusters, too: the probes of a dozen
// Pods on the real node need a processor.
func small(rdc *redisv1.RedisCluster) {
	rdc.Spec.Size, rdc.Spec.ReplicasPerMaster = ptr.To[int32](3), ptr.To[int32](0)
}

// known returns a RedisCluster that another client creates. No version of its PodDisruptionBudget may allow more than one eviction.
func (n *node) known(t *testing.T, rdc *redisv1.RedisCluster) *realRedis {
	t.Helper()
	addr, err := netip.ParseAddrPort(rdc.Spec.Addr)
	n.must(t, err)
	c := &realRedis{node: n, name: rdc.Name, port: int(addr.Port()), in: n.enter(t)}
	c.watchBudget(t)
	return c
}

// watchBudget watches the PodDisruptionBudget of a RedisCluster until the test ends. No version of it may allow more than one eviction, or
// an eviction while a Pod is not ready.
func (c *realRedis) watchBudget(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	watching.Go(func() {
		for ctx.Err() == nil {
			events, err := c.kube.PolicyV1().PodDisruptionBudgets(c.ns).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + c.name})
			if err != nil {
				if ctx.Err() == nil {
					t.Errorf("watch PodDisruptionBudget %s: %v", c.name, err)
				}
				return
			}
			for event := range events.ResultChan() { // The watch ends with ctx, or when the API server closes it.
				b, ok := event.Object.(*policyv1.PodDisruptionBudget)
				if !ok {
					continue
				}
				if s := b.Status; s.DisruptionsAllowed > 1 || (s.DisruptionsAllowed == 1 && s.CurrentHealthy < s.ExpectedPods) {
					t.Errorf("PodDisruptionBudget %s allows %d evictions while %d of %d Pods are ready", c.name, s.DisruptionsAllowed,
						s.CurrentHealthy, s.ExpectedPods)
				}
			}
		}
	})
}

func (c *realRedis) get(ctx context.Context) (*redisv1.RedisCluster, error) {
	return c.glassback.RedisV1().RedisClusters(c.ns).Get(ctx, c.name, metav1.GetOptions{})
}

// patch changes the RedisCluster.
func (c *realRedis) patch(t *testing.T, patch string) {
	t.Helper()
	_, err := c.glassback.RedisV1().RedisClusters(c.ns).Patch(t.Context(), c.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	c.must(t, err)
}

// pods returns the Pods of the RedisCluster.
func (c *realRedis) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := c.kube.CoreV1().Pods(c.ns).List(ctx, metav1.ListOptions{
		LabelSelector: redisv1.LabelApp + "=" + redisv1.AppRedis + "," + redisv1.LabelRedisCluster + "=" + c.name,
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// uids returns the UIDs of the Pods, by name.
func (c *realRedis) uids(t *testing.T) map[string]types.UID {
	t.Helper()
	pods, err := c.pods(t.Context())
	c.must(t, err)
	uids := map[string]types.UID{}
	for _, pod := range pods {
		uids[pod.Name] = pod.UID
	}
	return uids
}

// reported returns why the RedisCluster is not Ready, in its present generation.
func (c *realRedis) reported(ctx context.Context) error {
	rdc, err := c.get(ctx)
	if err != nil {
		return err
	}
	ready := meta.FindStatusCondition(rdc.Status.Conditions, glassback.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != rdc.Generation {
		return fmt.Errorf("RedisCluster %s, generation %d, is not Ready: %+v", c.name, rdc.Generation, ptr.Deref(ready, metav1.Condition{}))
	}
	return nil
}

// agree returns why the nodes are not the cluster of the spec, or do not agree about it.
func (c *realRedis) agree(ctx context.Context) error {
	rdc, err := c.get(ctx)
	if err != nil {
		return err
	}
	pods, err := c.pods(ctx)
	if err != nil {
		return err
	}
	rdc.Default()
	if len(pods) != int(*rdc.Spec.Size) {
		return fmt.Errorf("the cluster has %d Pods, want %d", len(pods), *rdc.Spec.Size)
	}
	var views []string
	for _, pod := range pods {
		view, err := c.view(ctx, &pod, len(pods), int(rdc.Spec.Masters()))
		if err != nil {
			return fmt.Errorf("%s: %w", pod.Name, err)
		}
		if views = append(views, view); view != views[0] || !strings.Contains(view, " "+pod.Status.PodIP+" ") {
			return fmt.Errorf("%s at %s has the view\n%s\nand the first Pod has\n%s", pod.Name, pod.Status.PodIP, view, views[0])
		}
	}
	return nil
}

// undecided matches what CLUSTER NODES says of a node that is not a full member, or of a slot that moves.
var undecided = regexp.MustCompile(`fail|handshake|noaddr|disconnected|\[`)

// view returns what the node of a Pod knows of all nodes: a line for each of them, with its ID, IP, role, master and slots.
func (c *realRedis) view(ctx context.Context, pod *corev1.Pod, size, masters int) (string, error) {
	client := redis.NewClient(&redis.Options{
		Addr: net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(c.port)), Password: c.password, Dialer: c.dial,
		Protocol: 2, DisableIdentity: true, DialerRetries: 1,
	})
	defer client.Close()
	p := client.Pipeline()
	info, replication, nodes := p.ClusterInfo(ctx), p.Info(ctx, "replication"), p.ClusterNodes(ctx)
	if _, err := p.Exec(ctx); err != nil {
		return "", err
	}
	for _, want := range []string{"state:ok", "slots_ok:16384", fmt.Sprintf("known_nodes:%d", size), fmt.Sprintf("size:%d", masters)} {
		if !strings.Contains(info.Val(), "cluster_"+want+"\r\n") {
			return "", fmt.Errorf("CLUSTER INFO has no %s:\n%s", want, info.Val())
		}
	}
	if !strings.Contains(replication.Val(), "role:master\r\n") && !strings.Contains(replication.Val(), "master_link_status:up\r\n") {
		return "", fmt.Errorf("the link to its master is down:\n%s", replication.Val())
	}
	if undecided.MatchString(nodes.Val()) {
		return "", fmt.Errorf("CLUSTER NODES has\n%s", nodes.Val())
	}
	var lines []string
	for line := range strings.Lines(nodes.Val()) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			return "", fmt.Errorf("malformed line of CLUSTER NODES: %q", line)
		}
		address, _, _ := strings.Cut(fields[1], "@")
		ip := address[:max(0, strings.LastIndexByte(address, ':'))] // Redis writes no brackets around IPv6.
		lines = append(lines, fmt.Sprintln(fields[0], ip, strings.TrimPrefix(fields[2], "myself,"), fields[3], fields[8:]))
	}
	slices.Sort(lines)
	return strings.Join(lines, ""), nil
}

// ready waits until the RedisCluster is Ready, and all nodes match the spec.
func (c *realRedis) ready(t *testing.T, what string) {
	t.Helper()
	await(t, func(ctx context.Context) error {
		if err := cmp.Or(c.reported(ctx), c.agree(ctx)); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
}

// wrong waits until the condition Degraded has the reason and its message contains the words.
func (c *realRedis) wrong(t *testing.T, reason, words string) {
	t.Helper()
	await(t, func(ctx context.Context) error {
		rdc, err := c.get(ctx)
		if err != nil {
			return err
		}
		is := meta.FindStatusCondition(rdc.Status.Conditions, glassback.ConditionDegraded)
		if is == nil || is.Status != metav1.ConditionTrue || is.Reason != reason || !strings.Contains(is.Message, words) {
			return fmt.Errorf("RedisCluster %s is not Degraded with reason %s and %q: %+v", c.name, reason, words,
				ptr.Deref(is, metav1.Condition{}))
		}
		return nil
	})
}

// dial connects to a node, with TLS if the client uses it.
func (c *realRedis) dial(ctx context.Context, protocol, addr string) (net.Conn, error) {
	conn, err := c.in.dial(ctx, protocol, addr)
	if err != nil || c.tls == nil {
		return conn, err
	}
	secure := tls.Client(conn, c.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
}

// client returns a client of the cluster. It finds the nodes by the name of the Service.
func (c *realRedis) client() *redis.ClusterClient {
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:    []string{net.JoinHostPort(c.name+"."+c.ns+".svc."+cluster.Domain, strconv.Itoa(c.port))},
		Password: c.password, Dialer: c.dial, Protocol: 2, DisableIdentity: true, DialerRetries: 1,
	})
}

const fewKeys = 300

func keyName(key int) string { return "key:" + strconv.Itoa(key) }

// fill writes some keys. The values contain the RedisCluster's name.
func (c *realRedis) fill(t *testing.T) {
	t.Helper()
	client := c.client()
	defer client.Close()
	for i := range fewKeys {
		await(t, func(ctx context.Context) error {
			return client.Set(ctx, keyName(i), c.name+"-"+keyName(i), 0).Err()
		})
	}
}

const (
	writerKeys    = 4000
	writerStreams = 4
	writerPause   = 3 * time.Millisecond // The servers on the same machine need the CPU.
	shownLosses   = 5                    // number of losses that the test prints one by one
)

// writer is a client that writes all the time. It keeps the acknowledged writes.
//
// Each key belongs to one stream, which writes increasing numbers to it. So a write is lost if the key later has a lower number, or does
// not exist. Each write returns the old value and checks it. kept checks all keys.
type writer struct {
	t    *testing.T
	c    *realRedis
	stop context.CancelFunc
	done sync.WaitGroup

	acknowledged [writerKeys]atomic.Int64    // by key
	written      [writerStreams]atomic.Int64 // number of acknowledged writes of each stream
	lost         atomic.Int64
}

// write starts a writer, and waits until it has written every key once.
func (c *realRedis) write(t *testing.T) *writer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &writer{t: t, c: c, stop: cancel}
	for stream := range writerStreams {
		w.done.Go(func() { w.run(ctx, stream) })
	}
	t.Cleanup(w.end)
	await(t, func(context.Context) error {
		for key := range w.acknowledged {
			if w.acknowledged[key].Load() == 0 {
				return fmt.Errorf("%s has not been written", keyName(key))
			}
		}
		return nil
	})
	return w
}

// run writes the numbers of one stream.
func (w *writer) run(ctx context.Context, stream int) {
	client := w.c.client()
	defer func() { _ = client.Close() }() // All writes have ended.
	for number := int64(1); ctx.Err() == nil; number++ {
		key := stream + writerStreams*int(number%(writerKeys/writerStreams))
		if before, err := number64(client.Do(ctx, "SET", keyName(key), number, "GET")); err != nil {
			// If all Pods have new IPs, go-redis can take almost a minute to resolve the name again. A new client resolves it at once.
			_ = client.Close()
			client = w.c.client()
			time.Sleep(dialTimeout)
		} else {
			w.compare(key, before, w.acknowledged[key].Swap(number), "when it was written again")
			w.written[stream].Add(1)
			time.Sleep(writerPause)
		}
	}
}

// number64 returns the number in an answer, or 0 if the key did not exist.
func number64(cmd *redis.Cmd) (int64, error) {
	number, err := cmd.Int64()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return number, err
}

// compare fails the test if the number that was read is lower than the acknowledged one.
func (w *writer) compare(key int, got, want int64, when string) {
	if got < want && w.lost.Add(1) <= shownLosses {
		w.t.Errorf("%s was %d %s, but %d had been acknowledged", keyName(key), got, when, want)
	}
}

// kept waits until writes succeed again, and reads every key with another client: the clients of the streams may still know deleted nodes.
// It fails the test if an acknowledged write is lost.
func (w *writer) kept(what string) {
	w.t.Helper()
	for stream := range w.written {
		before := w.written[stream].Load()
		await(w.t, func(context.Context) error {
			if w.written[stream].Load() == before {
				return fmt.Errorf("%s: no write is acknowledged", what)
			}
			return nil
		})
	}
	client := w.c.client()
	defer client.Close()
	for key := range w.acknowledged {
		want, got := w.acknowledged[key].Load(), int64(0)
		await(w.t, func(ctx context.Context) (err error) {
			got, err = number64(client.Do(ctx, "GET", keyName(key)))
			return err
		})
		w.compare(key, got, want, "after "+what)
	}
}

// end stops writing.
func (w *writer) end() {
	w.stop()
	w.done.Wait()
}
