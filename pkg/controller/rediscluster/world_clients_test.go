// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

// writer is a client that writes up to 1,300 times a second. It remembers the last number that was acknowledged for each key. Each
// write returns the old number of its key, which must be at least as new. So a later write does not hide a loss.
type writer struct {
	w      *world
	client *redis.ClusterClient
	stop   context.CancelFunc
	done   sync.WaitGroup

	acknowledged [writerKeys]atomic.Int64
	total        atomic.Int64
	failed       atomic.Int64
	overwritten  atomic.Int64 // number of writes that found an older number than was acknowledged
	longest      atomic.Int64 // nanoseconds between two acknowledgements of one goroutine
}

const (
	writerKeys    = 4000
	writerStreams = 4
	writerPause   = 3 * time.Millisecond // between two writes of a stream: the servers share the machine
)

// writeKeys starts a writer, and waits until it has written each key once.
func (w *world) writeKeys() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	wr := &writer{w: w, stop: cancel, client: w.clusterClient()}
	for stream := range writerStreams {
		wr.done.Go(func() { wr.run(ctx, stream) })
	}
	w.t.Cleanup(wr.end)
	w.until("clients to write each key", func() bool {
		for last := range writerStreams { // The last key of a stream has its number: see run.
			if wr.acknowledged[last].Load() == 0 {
				return false
			}
		}
		return true
	})
	w.writer = wr
}

// run writes the numbers of one stream. A key is of one stream, so that its number only grows.
func (wr *writer) run(ctx context.Context, stream int) {
	last := time.Now()
	for n := int64(1); ctx.Err() == nil; n++ {
		key := stream + writerStreams*int(n%(writerKeys/writerStreams))
		before, err := wr.client.Do(ctx, "SET", name(key), n, "GET").Int64()
		if err != nil && !errors.Is(err, redis.Nil) { // Nil: there was no number.
			wr.failed.Add(1)
			time.Sleep(time.Millisecond)
			continue
		}
		if want := wr.acknowledged[key].Swap(n); before < want {
			wr.overwritten.Add(1)
			wr.w.t.Logf("%s was %d when it was written again, and %d was acknowledged", name(key), before, want)
		}
		wr.total.Add(1)
		wr.longest.Store(max(wr.longest.Load(), int64(time.Since(last))))
		last = time.Now()
		time.Sleep(writerPause)
	}
}

func name(key int) string { return fmt.Sprintf("key:%d", key) }

// end stops writing.
func (wr *writer) end() {
	wr.stop()
	wr.done.Wait()
	wr.client.Close()
}

// lost stops writing, and returns the keys that are not at least as new as what was acknowledged.
func (wr *writer) lost() []string {
	wr.w.t.Helper()
	wr.end()
	client := wr.w.clusterClient() // The other one may still know nodes that are gone.
	defer client.Close()
	var lost []string
	for key := range wr.acknowledged {
		want := wr.acknowledged[key].Load()
		var got int64
		wr.w.until("an answer to GET "+name(key), func() bool {
			var err error
			got, err = client.Get(context.Background(), name(key)).Int64()
			return err == nil || errors.Is(err, redis.Nil)
		})
		if got < want {
			lost = append(lost, name(key))
		}
	}
	wr.w.t.Logf("%d writes were acknowledged, %d failed; the longest pause was %s", wr.total.Load(), wr.failed.Load(),
		time.Duration(wr.longest.Load()))
	return lost
}

// kept stops writing, and checks that no acknowledged write is lost: now, or when its key was written again.
func (w *world) kept() {
	w.t.Helper()
	if lost, n := w.writer.lost(), w.writer.overwritten.Load(); len(lost) > 0 || n > 0 {
		w.t.Errorf("acknowledged writes are lost: %d were found to be when their key was written again, and now the keys %q", n, lost)
	}
	w.writer = nil
}

// dialer returns a function that connects to an IP, or to a hostname that resolve knows.
func (w *world) dialer(secure *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		address, dialer := net.JoinHostPort(w.resolve(host), port), &net.Dialer{Timeout: time.Second}
		if secure != nil {
			return (&tls.Dialer{NetDialer: dialer, Config: secure}).DialContext(ctx, network, address)
		}
		return dialer.DialContext(ctx, network, address)
	}
}

// clientTLS is how a client verifies the nodes; nil without TLS.
func (w *world) clientTLS(overTLS bool) *tls.Config {
	if !overTLS {
		return nil
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.secret("redis-tls").Data["ca.crt"])
	return &tls.Config{RootCAs: roots, ServerName: manifest.ServerName(w.rdc()), MinVersion: tls.VersionTLS12}
}

// clusterClient knows the cluster by the Pods that there are now.
func (w *world) clusterClient() *redis.ClusterClient {
	var seeds []string
	for _, p := range w.pods() {
		seeds = append(seeds, net.JoinHostPort(p.Status.PodIP, strconv.Itoa(manifest.PortFor(p, w.overTLS))))
	}
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: seeds, Dialer: w.dialer(w.clientTLS(w.overTLS)), Username: w.as.User, Password: cmp.Or(w.as.Password, w.password),
		MaxRedirects: 3, DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second,
	})
}

// nodeClient connects to the node of one Pod.
func (w *world) nodeClient(p *corev1.Pod, login redisnode.Login) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: net.JoinHostPort(p.Status.PodIP, strconv.Itoa(manifest.PortFor(p, false))), Username: login.User, Password: login.Password,
		MaxRetries: -1, ReadTimeout: time.Minute,
	})
}

// onMasters does something on each master that has slots, as a person.
func (w *world) onMasters(do func(context.Context, *redis.Client) error) {
	w.t.Helper()
	client := w.clusterClient()
	defer client.Close()
	must.Succeed(w.t, client.ForEachMaster(w.t.Context(), do))
}

// accepts returns which nodes do not treat a login as wanted: all accept it, or none.
func (w *world) accepts(login redisnode.Login, want bool) string {
	for _, p := range w.pods() {
		if err := w.tryLogin(p, login); (err == nil) != want {
			return fmt.Sprintf("%s, login as %q: %v, want it accepted: %t", p.Name, login.User, err, want)
		}
	}
	return ""
}

// expectLogin checks which logins all nodes accept, and which none does.
func (w *world) expectLogin(login redisnode.Login, want bool) {
	w.t.Helper()
	if why := w.accepts(login, want); why != "" {
		w.t.Error(why)
	}
}

func (w *world) tryLogin(p *corev1.Pod, login redisnode.Login) error {
	client := w.nodeClient(p, login)
	defer client.Close()
	return client.Ping(context.Background()).Err()
}

// outside returns a client that reaches the addresses of Services alone.
func (w *world) outside() *redis.ClusterClient {
	var seeds []string
	ips := map[string]bool{}
	for _, n := range w.rdc().Status.Nodes {
		if n.Address != "" {
			host, _, _ := net.SplitHostPort(n.Address)
			seeds = append(seeds, net.JoinHostPort(host, strconv.Itoa(w.portOutside(w.pod(n.Pod), w.overTLS))))
			ips[host] = true
		}
	}
	if len(seeds) == 0 {
		w.t.Fatal("no node has an address outside of the cluster")
	}
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: seeds[:1], MaxRedirects: 3,
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			if host, _, _ := net.SplitHostPort(address); !ips[host] {
				return nil, fmt.Errorf("%s is not outside of the cluster", address)
			}
			return w.dialer(w.clientTLS(w.overTLS))(ctx, network, address)
		},
	})
}

// portOutside returns the port of a Pod's Service for clients.
func (w *world) portOutside(p *corev1.Pod, overTLS bool) int {
	services := w.services()
	of := slices.IndexFunc(services, func(s corev1.Service) bool { return s.Name == p.Name })
	return manifest.ExternalPorts(&services[of]).ClientPort(overTLS)
}

// writesOutside checks that a client outside of the cluster reads and writes keys of all masters.
func (w *world) writesOutside() {
	w.t.Helper()
	client := w.outside()
	defer client.Close()
	for i := range 100 {
		key, value := fmt.Sprintf("outside:%d", i), time.Now().String()
		w.until("a client outside to write "+key, func() bool { return client.Set(w.t.Context(), key, value, 0).Err() == nil })
		w.until("a client outside to read "+key, func() bool {
			got, err := client.Get(w.t.Context(), key).Result()
			return err == nil && got == value
		})
	}
}

// notOutside describes a node that does not announce the address of its Service, or knows another one by the IP of its Pod.
func (w *world) notOutside() string {
	rdc, pods := w.rdc(), w.pods()
	if len(pods) != int(*rdc.Spec.Size) || len(rdc.Status.Nodes) != len(pods) {
		return fmt.Sprintf("%d Pods, %d nodes", len(pods), len(rdc.Status.Nodes))
	}
	for _, n := range rdc.Status.Nodes {
		if ip, _, _ := net.SplitHostPort(n.Address); ip == "" || ip == n.IP {
			return fmt.Sprintf("%s has the address %q", n.Pod, n.Address)
		}
		node := w.node(n.Pod)
		view, err := node.View(w.t.Context())
		node.Close()
		if err != nil {
			return fmt.Sprintf("%s: %v", n.Pod, err)
		}
		for _, e := range view.Table {
			if slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.Status.PodIP == e.IP }) {
				return fmt.Sprintf("%s knows %+v by the IP of its Pod", n.Pod, e)
			}
		}
	}
	return ""
}

// opened syncs until every node announces the address of its Service, and a client outside of the cluster can use it.
func (w *world) opened(what string) {
	w.t.Helper()
	w.reach(what, w.notOutside)
	w.ready(what)
	w.writesOutside()
}

// closed syncs until nothing is left of the access from outside: a RedisCluster stays Ready while the access is removed. The status
// that nothing is done any more comes before the deletion of the last Service, and an operator that is killed between them deletes it in
// its next life.
func (w *world) closed() {
	w.t.Helper()
	w.ready("the access from inside alone")
	w.reach("the end of the access from outside", func() string {
		if w.condition(glassback.ConditionProgressing).Status != "False" || len(w.services()) > 0 {
			return fmt.Sprintf("there are %d Services, and an operation", len(w.services()))
		}
		for _, n := range w.rdc().Status.Nodes {
			for _, e := range w.view(n.Pod).Table {
				if (e.Port != redistest.DefaultPort && e.Port != manifest.PortFor(w.pod(n.Pod), true)) ||
					e.BusPort != redistest.DefaultPort+redistest.BusOffset || n.Address != "" {
					return fmt.Sprintf("%s has the address %q and knows %+v", n.Pod, n.Address, e)
				}
			}
		}
		return ""
	})
}

// answersPing returns whether a connection, if there is one, answers to a client.
func answersPing(conn io.ReadWriteCloser, err error) bool {
	if err != nil {
		return false
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return false
	}
	answer := make([]byte, 7)
	_, err = io.ReadFull(conn, answer)
	return err == nil && string(answer) == "+PONG\r\n"
}

// busIsSecure returns whether the node of a Pod speaks TLS on the port of the bus: without, it closes the connection.
func (w *world) busIsSecure(p *corev1.Pod) bool {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(p.Status.PodIP, "16379"), time.Minute)
	must.Succeed(w.t, err)
	defer conn.Close()
	must.Succeed(w.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	// The answer counts. With TLS 1.3, the server asks for our certificate after the handshake.
	err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}).Handshake()
	var alert tls.AlertError
	return err == nil || errors.As(err, &alert)
}

// expectTLS checks what all nodes speak, and the status.
func (w *world) expectTLS(plain, secure, bus bool) {
	w.t.Helper()
	for _, p := range w.pods() {
		address := func(overTLS bool) string {
			return net.JoinHostPort(p.Status.PodIP, strconv.Itoa(manifest.PortFor(p, overTLS)))
		}
		if got := answersPing(net.DialTimeout("tcp", address(false), time.Minute)); got != plain {
			w.t.Errorf("%s answers without TLS: %t, want %t", p.Name, got, plain)
		}
		if got := answersPing(tls.Dial("tcp", address(true), w.clientTLS(true))); got != secure {
			w.t.Errorf("%s answers with TLS: %t, want %t", p.Name, got, secure)
		}
		if got := w.busIsSecure(p); got != bus {
			w.t.Errorf("%s speaks TLS on its bus: %t, want %t", p.Name, got, bus)
		}
		node := w.connect(p)
		values, err := node.Directives(context.Background(), []string{noFailover, "tls-replication", "cluster-announce-bus-port"})
		node.Close()
		if err != nil || values[noFailover] != "no" || (values["tls-replication"] == "yes") != bus ||
			(values["cluster-announce-bus-port"] == "0") != (w.rdc().Spec.External() == nil) {
			w.t.Errorf("%s has %v (%v)", p.Name, values, err)
		}
	}
	if status := w.rdc().Status.TLS; status == nil || (status.Clients == v1.ProtocolTLS) == plain || (status.Nodes == v1.ProtocolTLS) != bus {
		w.t.Errorf("status.tls is %+v", status)
	}
}

// tellsPorts waits until every node names the port of each Pod for clients without TLS to such a client. With Redis 7.0, a node learns
// that port of another one only from a PING of that node.
func (w *world) tellsPorts(of func(*corev1.Pod) int) {
	w.t.Helper()
	ports := map[string]int{}
	for _, p := range w.pods() {
		ports[w.view(p.Name).ID] = of(p)
	}
	w.until("the ports that nodes name to clients without TLS", func() bool {
		return !slices.ContainsFunc(w.pods(), func(p *corev1.Pod) bool {
			node := redisnode.Dial(p.Status.PodIP, redistest.DefaultPort, w.login(p))
			defer node.Close()
			view, err := node.View(context.Background())
			return err != nil || slices.ContainsFunc(view.Table, func(e redisnode.Entry) bool { return e.Port != ports[e.ID] })
		})
	})
}

// endpoints returns the hosts that the node of a Pod tells to clients.
func (w *world) endpoints(p *corev1.Pod) ([]string, error) {
	if p.Status.PodIP == "" {
		return nil, errors.New("the Pod has no IP")
	}
	client := w.nodeClient(p, redisnode.Login{})
	defer client.Close()
	shards, err := client.Do(w.t.Context(), "CLUSTER", "SLOTS").Slice()
	var hosts []string
	for _, shard := range shards {
		for _, node := range shard.([]any)[2:] { // After the first and the last slot.
			host, _ := node.([]any)[0].(string)
			hosts = append(hosts, host)
		}
	}
	return hosts, err
}

// watchEndpoints asks all nodes for what they tell to clients until the test calls stop. It is an error if that is neither an IP nor a
// hostname: Redis tells "?" for a node without a name. Versions after 7.4 do so for a moment when a node returns or is new: see
// docs/rediscluster.md.
func (w *world) watchEndpoints() (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var watching sync.WaitGroup
	answers := 0
	forgets := !strings.HasPrefix(redistest.Version(w.t), "Redis server v=7.")
	watching.Go(func() {
		for ctx.Err() == nil {
			for _, p := range w.pods() {
				hosts, err := w.endpoints(p)
				if err == nil {
					answers++
				}
				for _, host := range hosts {
					if net.ParseIP(host) == nil && !strings.HasSuffix(host, domain) && (host != "?" || !forgets) {
						w.t.Errorf("%s tells clients the endpoint %q", p.Name, host)
					}
				}
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	return func() {
		cancel()
		watching.Wait()
		w.until("no node to be without its name", func() bool {
			return !slices.ContainsFunc(w.pods(), func(p *corev1.Pod) bool {
				hosts, err := w.endpoints(p)
				return err != nil || slices.Contains(hosts, "?")
			})
		})
		if answers == 0 {
			w.t.Error("no node told clients an endpoint")
		}
	}
}

// unnamed describes why clients do not get hostnames with this suffix alone, or why nodes do not use the IPs of Pods alone.
func (w *world) unnamed(suffix string) string {
	pods := w.pods()
	if n := len(w.rdc().Status.Nodes); n != int(*w.rdc().Spec.Size) || n != len(pods) {
		return fmt.Sprintf("there are %d nodes and %d Pods", n, len(pods))
	}
	for _, p := range pods {
		hosts, err := w.endpoints(p)
		if err != nil || slices.ContainsFunc(hosts, func(host string) bool { return !strings.HasSuffix(host, suffix) }) {
			return fmt.Sprintf("%s tells clients %q (%v)", p.Name, hosts, err)
		}
		for _, e := range w.view(p.Name).Table {
			if !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.Status.PodIP == e.IP }) {
				return fmt.Sprintf("%s knows %+v", p.Name, e)
			}
		}
	}
	for _, n := range w.rdc().Status.Nodes {
		if n.Address != fmt.Sprintf("%s%s:%d", n.Pod, suffix, redistest.DefaultPort) {
			return fmt.Sprintf("the status has %+v", n)
		}
	}
	for _, s := range w.services() {
		if at := manifest.ExternalPorts(&s); at.Bus != 0 || at.Port != redistest.DefaultPort {
			return fmt.Sprintf("the Service %s has the ports %+v", s.Name, s.Spec.Ports)
		}
	}
	return ""
}

// named syncs until every node tells hostnames that end with suffix, and no others. Then it checks the cluster: a client outside of it
// reads and writes by these names alone.
func (w *world) named(what, suffix string) {
	w.t.Helper()
	w.reach(what, func() string {
		w.balance()
		return w.unnamed(suffix)
	})
	w.ready(what)
	w.writesOutside()
}

const library = "#!lua name=notes\nredis.register_function('note', function(keys, args) return redis.call('SET', keys[1], args[1]) end)"

// callers call a function on many keys, and count how often a node did not know it.
type callers struct {
	t       testing.TB
	stop    context.CancelFunc
	done    sync.WaitGroup
	calls   int
	unknown []string
}

// loadFunctions loads a library on every master.
func (w *world) loadFunctions(code string) {
	w.t.Helper()
	w.onMasters(func(ctx context.Context, c *redis.Client) error { return c.FunctionLoad(ctx, code).Err() })
}

// call loads the library, and begins to call its function.
func (w *world) call() *callers {
	w.t.Helper()
	w.loadFunctions(library)
	ctx, cancel := context.WithCancel(w.t.Context())
	c, client := &callers{t: w.t, stop: cancel}, w.clusterClient()
	c.done.Go(func() {
		defer client.Close()
		for ; ctx.Err() == nil; c.calls++ {
			key := fmt.Sprintf("called:%d", c.calls%1000) // The keys of a writer are others.
			if err := client.FCall(ctx, "note", []string{key}, c.calls).Err(); err != nil && strings.Contains(err.Error(), "Function not found") {
				c.unknown = append(c.unknown, key)
			}
			time.Sleep(10 * time.Millisecond) // The servers share the machine.
		}
	})
	w.t.Cleanup(func() {
		cancel()
		c.done.Wait()
	})
	return c
}

// check ends the calls.
func (c *callers) check() {
	c.t.Helper()
	c.stop()
	c.done.Wait()
	if n := len(c.unknown); n > 0 || c.calls == 0 {
		c.t.Errorf("%d of %d calls found no function: %q", n, c.calls, c.unknown)
	}
}

// haveFunctions checks that all masters with slots have the same library.
func (w *world) haveFunctions() {
	w.t.Helper()
	shards := w.rdc().Status.Shards
	want := w.view(shards[0].Master).Libraries
	for _, shard := range shards {
		if got := w.view(shard.Master).Libraries; len(got) != 1 || differentLibrary(got, want) != "" {
			w.t.Errorf("%s has the libraries %q, want %q", shard.Master, got, want)
		}
	}
}
