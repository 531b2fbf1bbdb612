// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/pkg/apis/glassback"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

const (
	// redisPatience limits one operation on a RedisCluster, while other tests run.
	redisPatience = 5 * time.Minute
	// redisTimeout limits the wait for an answer of a node.
	redisTimeout = 2 * time.Second
)

// realRedis is a RedisCluster on the real node. This process sends requests to its Redis nodes in the cluster's network.
type realRedis struct {
	*node
	name     string
	user     string // "" for the default user
	password string
	port     int
	tls      *tls.Config // nil for a client without TLS
	outside  []string    // addresses of the machine that clients use; nil if they use the IPs of Pods
	in       *network
}

// redis creates a RedisCluster from an example, with changes. If the test fails, it prints the cluster's state.
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

// known returns a RedisCluster that another client creates.
func (n *node) known(t *testing.T, rdc *redisv1.RedisCluster) *realRedis {
	t.Helper()
	addr, err := netip.ParseAddrPort(rdc.Spec.Addr)
	n.must(t, err)
	c := &realRedis{node: n, name: rdc.Name, port: int(addr.Port()), in: n.enter(t)}
	c.watchBudget(t)
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		t.Log(c.describe(ctx))
	})
	return c
}

// describe returns the status of the RedisCluster, and the views of its nodes.
func (c *realRedis) describe(ctx context.Context) string {
	rdc, err := c.get(ctx)
	if err != nil {
		return fmt.Sprintf("RedisCluster %s: %v", c.name, err)
	}
	status, _ := yaml.Marshal(rdc.Status) // An error leaves the status empty.
	var b strings.Builder
	fmt.Fprintf(&b, "RedisCluster %s, generation %d:\n%s", c.name, rdc.Generation, status)
	pods, err := c.pods(ctx)
	if err != nil {
		fmt.Fprintf(&b, "Pods: %v\n", err)
	}
	first := map[string]string{} // the first Pod with each view
	for _, pod := range pods {
		seen, err := c.look(ctx, &pod)
		if err != nil {
			fmt.Fprintf(&b, "%s at %s: %v\n", pod.Name, pod.Status.PodIP, err)
			continue
		}
		fmt.Fprintf(&b, "%s at %s, %d keys, cluster ok: %t, link to %s up: %t\n", pod.Name, pod.Status.PodIP, seen.keys, seen.stateOK,
			seen.master, seen.linkUp)
		says := seen.says()
		if other := first[says]; other != "" {
			fmt.Fprintf(&b, "  as %s\n", other)
			continue
		}
		first[says] = pod.Name
		b.WriteString(says)
	}
	return b.String()
}

// says returns a node's view of all nodes. It leaves out the parts that differ even between nodes that agree.
func (s *seen) says() string {
	var lines []string
	for _, e := range s.table {
		lines = append(lines, fmt.Sprintf("  %s at %s, %s of %s, slots %s, connected: %t\n",
			e.id, e.ip, strings.TrimPrefix(e.flags, "myself,"), e.master, e.slots, e.connected))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
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

// scale changes the size, as a user does.
func (c *realRedis) scale(t *testing.T, size int) {
	t.Helper()
	if out, err := c.kubectl(t, "scale", "--namespace", c.ns, "rediscluster/"+c.name, "--replicas", strconv.Itoa(size)); err != nil {
		t.Fatal(out)
	}
}

// pods returns the Pods of the RedisCluster, sorted by name.
func (c *realRedis) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := c.kube.CoreV1().Pods(c.ns).List(ctx, metav1.ListOptions{
		LabelSelector: redisv1.LabelApp + "=" + redisv1.AppRedis + "," + redisv1.LabelRedisCluster + "=" + c.name,
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
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

// seen is the view of a Pod's node.
type seen struct {
	pod, ip string
	nodes   string // the answer to CLUSTER NODES
	master  string // the address at which the node asks for its master's data
	keys    int64
	stateOK bool
	linkUp  bool
	self    entry
	table   []entry
}

// entry is a line of CLUSTER NODES.
type entry struct {
	id, ip, flags, master string
	connected             bool
	slots                 redisnode.Slots
	open                  bool // whether a slot is migrating or importing
}

// look reads the view of a Pod's node.
func (c *realRedis) look(ctx context.Context, pod *corev1.Pod) (*seen, error) {
	client := redis.NewClient(&redis.Options{
		Addr: net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(c.port)), Username: c.user, Password: c.password, Dialer: c.dial,
		Protocol: 2, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1, DialTimeout: dialTimeout, ReadTimeout: redisTimeout,
	})
	defer client.Close()
	p := client.Pipeline()
	info, nodes, replication, keys := p.ClusterInfo(ctx), p.ClusterNodes(ctx), p.Info(ctx, "replication"), p.DBSize(ctx)
	if _, err := p.Exec(ctx); err != nil {
		return nil, err
	}
	s := &seen{
		pod: pod.Name, ip: pod.Status.PodIP, nodes: nodes.Val(), keys: keys.Val(),
		stateOK: strings.Contains(info.Val(), "cluster_state:ok\r\n"),
		linkUp:  strings.Contains(replication.Val(), "master_link_status:up\r\n"),
	}
	if _, rest, found := strings.Cut(replication.Val(), "\r\nmaster_host:"); found {
		s.master, _, _ = strings.Cut(rest, "\r\n")
	}
	table, err := parseNodes(nodes.Val())
	s.table = table
	for _, e := range table {
		if strings.Contains(e.flags, "myself") {
			s.self = e
		}
	}
	if c.outside != nil { // Nodes announce the address of the machine, or are about to, or were.
		s.ip = s.self.ip
	}
	return s, err
}

func parseNodes(text string) ([]entry, error) {
	var table []entry
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			return nil, fmt.Errorf("malformed line of CLUSTER NODES: %q", line)
		}
		ip, _, _ := strings.Cut(fields[1], ":")
		e := entry{id: fields[0], ip: ip, flags: fields[2], master: fields[3], connected: fields[7] == "connected"}
		var ranges []string
		for _, slots := range fields[8:] {
			if strings.HasPrefix(slots, "[") {
				e.open = true
			} else {
				ranges = append(ranges, slots)
			}
		}
		slots, err := redistest.ParseSlots(strings.Join(ranges, ","))
		if err != nil {
			return nil, err
		}
		e.slots = slots
		table = append(table, e)
	}
	return table, nil
}

// all reads the views of all nodes.
func (c *realRedis) all(ctx context.Context) ([]*seen, error) {
	pods, err := c.pods(ctx)
	if err != nil {
		return nil, err
	}
	var all []*seen
	for _, pod := range pods {
		s, err := c.look(ctx, &pod)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pod.Name, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// checkSpec returns an error if a node reports a state that differs from the spec.
func (c *realRedis) checkSpec(ctx context.Context) error {
	rdc, err := c.get(ctx)
	if err != nil {
		return err
	}
	pods, err := c.pods(ctx)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) || pod.DeletionTimestamp != nil {
			return fmt.Errorf("Pod %s is not ready: %+v", pod.Name, pod.Status.ContainerStatuses)
		}
	}
	all, err := c.all(ctx)
	if err != nil {
		return err
	}
	rdc.Default()
	size, masters := int(*rdc.Spec.Size), int(rdc.Spec.Masters())
	if len(all) != size {
		return fmt.Errorf("the cluster has %d Pods, want %d", len(all), size)
	}
	for _, s := range all {
		if err := s.agrees(all); err != nil {
			return fmt.Errorf("%s: %w", s.pod, err)
		}
	}
	return divided(all, masters)
}

// agrees returns an error if the state of the node is wrong, or if its view of another node differs from that node's own view.
func (s *seen) agrees(all []*seen) error {
	replica := strings.Contains(s.self.flags, "slave")
	switch {
	case !s.stateOK:
		return errors.New("its cluster_state is not ok")
	case replica && !s.linkUp:
		return errors.New("its link to its master is down")
	case len(s.table) != len(all):
		return fmt.Errorf("its table has %d of %d nodes:\n%s", len(s.table), len(all), s.nodes)
	}
	for _, other := range all {
		i := slices.IndexFunc(s.table, func(e entry) bool { return e.id == other.self.id })
		if i < 0 {
			return fmt.Errorf("its table lacks %s:\n%s", other.pod, s.nodes)
		}
		e := s.table[i]
		if flags := strings.TrimPrefix(e.flags, "myself,"); flags != "master" && flags != "slave" {
			return fmt.Errorf("its table has %s with the flags %s", other.pod, e.flags)
		}
		if e.ip != other.ip || e.master != other.self.master || e.open || (!e.connected && e.id != s.self.id) ||
			!e.slots.Equal(other.self.slots) {
			return fmt.Errorf("its entry for %s, at %s, is\n%+v\nbut the own entry of that node is\n%+v", other.pod, other.ip, e, other.self)
		}
	}
	return nil
}

// divided returns an error if slots or replicas are not divided evenly.
func divided(all []*seen, masters int) error {
	var slots redisnode.Slots
	shares, replicas := map[string]int{}, map[string]int{}
	for _, s := range all {
		if s.self.master != "-" {
			replicas[s.self.master]++
			continue
		}
		if both := slots.Intersect(s.self.slots); both.Len() > 0 {
			return fmt.Errorf("%s has slots that another node has too: %s", s.pod, both)
		}
		slots = slots.Union(s.self.slots)
		shares[s.self.id] = s.self.slots.Len()
	}
	if slots.Len() != redisnode.SlotCount || len(shares) != masters {
		return fmt.Errorf("%d masters have %d slots, want %d with %d", len(shares), slots.Len(), masters, redisnode.SlotCount)
	}
	for id, n := range shares {
		if share := redisnode.SlotCount / masters; n < share || n > share+1 {
			return fmt.Errorf("the masters have slots as in %v, want %d or one more", shares, share)
		}
		if n, least := replicas[id], (len(all)-masters)/masters; n < least || n > least+1 {
			return fmt.Errorf("the masters have replicas as in %v, want %d or one more", replicas, least)
		}
	}
	return nil
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

// ready waits until the RedisCluster is Ready after a change of its spec. Then it checks all nodes.
func (c *realRedis) ready(t *testing.T, what string) {
	t.Helper()
	begun := time.Now()
	eventually(t, redisPatience, c.reported)
	if err := c.checkSpec(t.Context()); err != nil {
		t.Errorf("%s: the RedisCluster is Ready, but the nodes differ from the spec: %v", what, err)
	}
	t.Logf("%s: Ready after %s", what, time.Since(begun).Round(100*time.Millisecond))
}

// lagging follows the logs of all Pods. The returned function waits until the Pods have ended. It returns the masters' log lines about
// replicas that lacked writes when the master ended.
func (c *realRedis) lagging(t *testing.T) func() string {
	t.Helper()
	pods, err := c.pods(t.Context())
	c.must(t, err)
	found := make(chan string, len(pods))
	for _, pod := range pods {
		logs, err := c.kube.CoreV1().Pods(c.ns).GetLogs(pod.Name, &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
		c.must(t, err)
		go func() {
			defer logs.Close()
			all, _ := io.ReadAll(logs) // A node that ends can break the connection. The test uses the lines before that.
			found <- laggingReplica.FindString(string(all))
		}()
	}
	return func() string {
		t.Helper()
		var all []string
		for range pods {
			if line := <-found; line != "" {
				all = append(all, line)
			}
		}
		return strings.Join(all, "; ")
	}
}

// laggingReplica matches a line of a redis-server that ends: a replica lacks writes.
var laggingReplica = regexp.MustCompile(`Lagging replica .*`)

// heals waits until the RedisCluster is Ready and all nodes match the spec.
func (c *realRedis) heals(t *testing.T, what string) {
	t.Helper()
	begun := time.Now()
	eventually(t, redisPatience, func(ctx context.Context) error {
		return cmp.Or(c.checkSpec(ctx), c.reported(ctx))
	})
	t.Logf("%s: the cluster is healthy after %s", what, time.Since(begun).Round(100*time.Millisecond))
}

// wrong waits until the condition Degraded has the reason and its message contains the words. It also waits for an event with the reason.
func (c *realRedis) wrong(t *testing.T, reason, words string) {
	t.Helper()
	begun := time.Now()
	eventually(t, patience, func(ctx context.Context) error {
		rdc, err := c.get(ctx)
		if err != nil {
			return err
		}
		degraded := meta.FindStatusCondition(rdc.Status.Conditions, glassback.ConditionDegraded)
		if degraded == nil || degraded.Status != metav1.ConditionTrue || degraded.Reason != reason || !strings.Contains(degraded.Message, words) {
			return fmt.Errorf("RedisCluster %s is not Degraded with reason %s and %q: %+v", c.name, reason, words,
				ptr.Deref(degraded, metav1.Condition{}))
		}
		t.Logf("Degraded after %s, %s: %s", time.Since(begun).Round(100*time.Millisecond), reason, degraded.Message)
		return nil
	})
	eventually(t, patience, func(ctx context.Context) error { // The operator sends events in the background.
		events, err := c.events(ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(events, func(e corev1.Event) bool { return e.Type == corev1.EventTypeWarning && e.Reason == reason }) {
			return fmt.Errorf("no event has the reason %s", reason)
		}
		return nil
	})
}

// events returns the events of the RedisCluster in their order.
func (c *realRedis) events(ctx context.Context) ([]corev1.Event, error) {
	list, err := c.kube.CoreV1().Events(c.ns).List(ctx,
		metav1.ListOptions{FieldSelector: "involvedObject.kind=RedisCluster,involvedObject.name=" + c.name})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Event) int { return earlier(&a, &b) })
	return list.Items, nil
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

// host is the name by which clients find the cluster.
func (c *realRedis) host() string { return c.name + "." + c.ns + ".svc.cluster.local" }

// client returns a client of the cluster. It finds the nodes by the name of the Service.
func (c *realRedis) client() *redis.ClusterClient {
	seeds, dial := []string{net.JoinHostPort(c.host(), strconv.Itoa(c.port))}, c.dial
	if outside := c.outside; len(outside) > 0 {
		// The client appends to its addresses, and so needs its own.
		seeds, dial = slices.Clone(outside), func(ctx context.Context, protocol, addr string) (net.Conn, error) {
			if !slices.Contains(outside, addr) {
				return nil, fmt.Errorf("%s is not outside of the network of Pods", addr)
			}
			return c.dial(ctx, protocol, addr)
		}
	}
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: seeds, Username: c.user, Password: c.password, Dialer: dial,
		// The client does not retry. So only the cluster causes pauses of a writer.
		Protocol: 2, DisableIdentity: true, DialerRetries: 1, DialTimeout: dialTimeout, ReadTimeout: redisTimeout, WriteTimeout: redisTimeout,
	})
}

const fewKeys = 300

// fill writes some keys. The values contain the RedisCluster's name.
func (c *realRedis) fill(t *testing.T) {
	t.Helper()
	client := c.client()
	defer client.Close()
	for i := range fewKeys {
		c.must(t, client.Set(t.Context(), keyName(i), c.name+"-"+keyName(i), 0).Err())
	}
}

// filled checks that all keys of fill exist.
func (c *realRedis) filled(t *testing.T, what string) {
	t.Helper()
	if err := c.full(t.Context()); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// unlessSlow calls read again while a connection takes too long, which says nothing about a key: a busy machine may need more than
// dialTimeout.
func unlessSlow(read func() error) error {
	for slow := time.Now().Add(20 * dialTimeout); ; {
		err := read()
		if late, ok := errors.AsType[net.Error](err); !ok || !late.Timeout() || time.Now().After(slow) {
			return err
		}
	}
}

// full returns an error about the first key that is missing or has another value.
func (c *realRedis) full(ctx context.Context) error {
	client := c.client()
	defer client.Close()
	for i := range fewKeys {
		var got string
		err := unlessSlow(func() (err error) {
			got, err = client.Get(ctx, keyName(i)).Result()
			return err
		})
		if err != nil || got != c.name+"-"+keyName(i) {
			return fmt.Errorf("%s is %q: %w", keyName(i), got, err)
		}
	}
	return nil
}
