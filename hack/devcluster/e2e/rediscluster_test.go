// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

const (
	// formedWithin limits the time until the seed's sample is a Redis Cluster.
	formedWithin = 30 * time.Second
	// onlyRedis makes the operator run no other controller.
	onlyRedis = "--controllers=rediscluster"

	withStorage = "rediscluster-storage.yaml"
	seedSample  = "rediscluster.yaml"
)

// TestNodeRunsRedisCluster creates the sample RedisCluster, with the shipped permissions. It checks every node, a client and the objects.
// Then it checks the operator's requests while the cluster is settled.
func TestNodeRunsRedisCluster(t *testing.T) {
	n := onNode(t)
	n.operate(t, onlyRedis).stop() // This operator installs the CRDs: the account has no permission for that.
	n.grantShipped(t, "manager")
	token, err := n.kube.CoreV1().ServiceAccounts(n.ns).CreateToken(t.Context(), "manager", &authenticationv1.TokenRequest{},
		metav1.CreateOptions{})
	n.must(t, err)
	c := n.known(t, artifact[redisv1.RedisCluster](t, "examples/"+seedSample))
	spy := n.spyAt(t, n.kubeconfig(t, token.Status.Token), c.in.listen(t, "127.0.0.1"))
	args := []string{"--kubeconfig", spy.kubeconfig, "--namespace", n.ns, "-v=2", onlyRedis,
		"--metrics-bind-address=" + metricsInside, "--metrics-secure=false"}
	follow(t, n.inside(binary(t), args...), args).waitFor("Started controller")
	n.createPod(t, "client", shell("redis:7", "exec sleep 3600"))
	n.running(t, "client")
	spy.forget()

	begun := time.Now()
	if out, err := n.kubectl(t, "apply", "--namespace", n.ns, "-f", "../../../artifacts/examples/"+seedSample); err != nil {
		t.Fatal(out)
	}
	eventually(t, redisPatience, func(ctx context.Context) error { return c.reported(ctx) })
	took := time.Since(begun)
	t.Logf("Ready %s after kubectl apply", took.Round(100*time.Millisecond))
	if took > formedWithin {
		t.Errorf("the RedisCluster took longer than %s to be Ready", formedWithin)
	}
	c.sixReady(t)
	c.askedByCLI(t)
	c.usedByCLI(t)
	c.described(t)
	c.measured(t)
	if err := c.checkSpec(t.Context()); err != nil {
		t.Error(err)
	}
	settled(t, patience, 3*time.Second, spy.requests)
	t.Logf("requests until then: %v", spy.requests())
	c.quiet(t, spy)
}

// sixReady makes the checks of the original tutorial.
func (c *realRedis) sixReady(t *testing.T) {
	t.Helper()
	out, err := c.kubectl(t, "get", "pod", "--namespace", c.ns, "-l", "app=redis", "--no-headers")
	c.must(t, err)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, line := range lines {
		if fields := strings.Fields(line); len(fields) < 4 || fields[1] != "1/1" || fields[2] != "Running" || fields[3] != "0" {
			t.Errorf("kubectl get pod: %s", line)
		}
	}
	if len(lines) != 6 {
		t.Errorf("kubectl get pod -l app=redis printed %d Pods, want 6:\n%s", len(lines), out)
	}
}

// askedByCLI runs redis-cli in every Pod, and checks the answers of its node.
func (c *realRedis) askedByCLI(t *testing.T) {
	t.Helper()
	pods, err := c.pods(t.Context())
	c.must(t, err)
	roles := map[string]int{}
	for _, pod := range pods {
		out, err := c.exec(t, pod.Name,
			"redis-cli -p $PORT CLUSTER INFO; redis-cli -p $PORT INFO replication; redis-cli -p $PORT CLUSTER NODES | wc -l")
		c.must(t, err)
		out = strings.ReplaceAll(out, "\r", "")
		want := []string{
			"cluster_state:ok\n", "cluster_slots_assigned:16384\n", "cluster_slots_ok:16384\n", "cluster_known_nodes:6\n", "cluster_size:3\n",
		}
		switch {
		case strings.Contains(out, "role:master\n"):
			roles["master"]++
			want = append(want, "connected_slaves:1\n")
		case strings.Contains(out, "role:slave\n"):
			roles["replica"]++
			want = append(want, "master_link_status:up\n")
		}
		for _, line := range append(want, "\n6\n") {
			if !strings.Contains(out, line) {
				t.Errorf("the answer of %s lacks %q:\n%s", pod.Name, line, out)
			}
		}
	}
	if want := map[string]int{"master": 3, "replica": 3}; !maps.Equal(roles, want) {
		t.Errorf("the nodes are %v, want %v", roles, want)
	}
}

// exec runs a shell script in a Pod.
func (n *node) exec(t *testing.T, pod, script string) (string, error) {
	t.Helper()
	return n.kubectl(t, "exec", "--namespace", n.ns, pod, "--", "sh", "-c", script)
}

// usedByCLI sets and gets keys with redis-cli from another Pod, by the name of the Service.
func (c *realRedis) usedByCLI(t *testing.T) {
	t.Helper()
	const keys = 30
	out, err := c.exec(t, "client",
		fmt.Sprintf("for i in $(seq %d); do redis-cli -c -h %s SET k$i v$i; done; for i in $(seq %d); do redis-cli -c -h %s.%s.svc GET k$i; done",
			keys, c.name, keys, c.name, c.ns))
	c.must(t, err)
	var want strings.Builder
	want.WriteString(strings.Repeat("OK\n", keys))
	for i := range keys {
		fmt.Fprintf(&want, "v%d\n", i+1)
	}
	if out != want.String() {
		t.Errorf("redis-cli -c in another Pod printed\n%s", out)
	}
}

// described checks the status and the children.
func (c *realRedis) described(t *testing.T) {
	t.Helper()
	rdc, err := c.get(t.Context())
	c.must(t, err)
	s := rdc.Status
	roles := map[redisv1.Role]int{}
	for _, n := range s.Nodes {
		roles[n.Role]++
		if n.ID == "" || n.IP == "" || (n.Role == redisv1.RoleReplica && (n.Link != "up" || n.Master == "")) {
			t.Errorf("status.nodes has %+v", n)
		}
	}
	slots := redisnode.Slots(nil)
	for _, shard := range s.Shards {
		these, err := redistest.ParseSlots(shard.Slots)
		c.must(t, err)
		slots = slots.Union(these)
		if len(shard.Replicas) != 1 {
			t.Errorf("status.shards has %+v", shard)
		}
	}
	if s.Endpoint != rdc.Spec.Addr || s.Size != 6 || s.Masters != 3 || s.SlotsAssigned != redisnode.SlotCount || s.Operation != nil ||
		len(s.Shards) != 3 || slots.Len() != redisnode.SlotCount || roles[redisv1.RoleMaster] != 3 || roles[redisv1.RoleReplica] != 3 {
		t.Errorf("the status is %+v", s)
	}
	for kind, want := range map[string]metav1.ConditionStatus{
		glassback.ConditionReady: metav1.ConditionTrue, glassback.ConditionProgressing: metav1.ConditionFalse,
		glassback.ConditionDegraded: metav1.ConditionFalse, redisv1.ConditionClusterFormed: metav1.ConditionTrue,
		redisv1.ConditionSlotsCovered: metav1.ConditionTrue, redisv1.ConditionDataLoss: metav1.ConditionFalse,
	} {
		if is := meta.FindStatusCondition(s.Conditions, kind); is == nil || is.Status != want {
			t.Errorf("condition %s is %+v, want %s", kind, is, want)
		}
	}
	out, err := c.kubectl(t, "get", "service,poddisruptionbudget,configmap", "--namespace", c.ns, "-l",
		redisv1.LabelRedisCluster+"="+c.name, "-o", "name")
	c.must(t, err)
	for _, child := range []string{"service/" + c.name, "poddisruptionbudget.policy/" + c.name, "configmap/" + c.name + "-"} {
		if !strings.Contains(out, child) {
			t.Errorf("the child %s does not exist:\n%s", child, out)
		}
	}
	if out, err = c.kubectl(t, "get", "rediscluster", "--namespace", c.ns); err != nil {
		t.Error(err)
	}
	t.Logf("kubectl get rediscluster:\n%s", out)
}

// metricsInside is the address of the metrics in the cluster's network.
const metricsInside = "127.0.0.1:9441"

// measured checks the metrics of the nodes.
func (c *realRedis) measured(t *testing.T) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DialContext: c.dialInside, DisableKeepAlives: true}, Timeout: 10 * time.Second}
	eventually(t, 30*time.Second, func(ctx context.Context) error { // The next poll shows the replicas' links.
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+metricsInside+"/metrics", http.NoBody)
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			return err
		}
		for name, want := range map[string]int{ // number of nodes whose metric is not 0
			"up": 6, "master": 3, "link_up": 3, "slots": 3, "keys": 6, "memory_used_bytes": 6, "clients": 6, "commands_total": 6,
			"replication_offset_bytes": 6, "last_save_timestamp_seconds": 6,
		} {
			series := regexp.MustCompile(fmt.Sprintf(`(?m)^glassback_redis_node_%s{namespace=%q,node="%s-\d",rediscluster=%q} [1-9]`,
				name, c.ns, c.name, c.name))
			if n := len(series.FindAll(body, -1)); n != want {
				return fmt.Errorf("%d nodes have the metric %s, want %d", n, name, want)
			}
		}
		return nil
	})
}

// commandCalls is a line of INFO commandstats.
var commandCalls = regexp.MustCompile(`(?m)^cmdstat_(\S+?):calls=(\d+),`)

// quiet checks a settled cluster for a while. The operator sends no request to the API server, and at most one poll to each node in 10 s.
//
// A poll is six commands. Only the operator sends four of these. The probes (scripts/*.sh) send PING, CLUSTER INFO and INFO. The nodes send
// PING and REPLCONF to each other.
func (c *realRedis) quiet(t *testing.T, spy *spy) {
	t.Helper()
	const while = 20 * time.Second
	before, began := c.calls(t), time.Now()
	spy.forget()
	time.Sleep(while) // the time without requests
	requests := spy.requests()
	after := c.calls(t)
	most := int(time.Since(began)/(10*time.Second)) + 1 // The first poll can be at the beginning.
	if len(requests) > 0 {
		t.Errorf("requests in %s: %v", while, requests)
	}
	for pod, calls := range after {
		for command := range calls {
			if calls[command] -= before[pod][command]; calls[command] == 0 {
				delete(calls, command)
			}
		}
		t.Logf("%s got these commands in %s: %v", pod, while, calls)
		for _, command := range []string{"cluster|myid", "cluster|nodes", "function|list"} {
			if n := calls[command]; n < 1 || n > most {
				t.Errorf("%s got the command %s %d times in %s, want 1 to %d", pod, command, n, while, most)
			}
			delete(calls, command)
		}
		for _, command := range []string{"ping", "info", "cluster|info", "replconf", "command", "command|docs", "hello"} {
			delete(calls, command)
		}
		if len(calls) > 0 {
			t.Errorf("%s also got the commands %v", pod, calls)
		}
	}
}

// calls returns how often each node got each command, by Pod.
func (c *realRedis) calls(t *testing.T) map[string]map[string]int {
	t.Helper()
	pods, err := c.pods(t.Context())
	c.must(t, err)
	all := map[string]map[string]int{}
	for _, pod := range pods {
		out, err := c.exec(t, pod.Name, "redis-cli -p $PORT INFO commandstats")
		c.must(t, err)
		all[pod.Name] = map[string]int{}
		for _, m := range commandCalls.FindAllStringSubmatch(out, -1) {
			n, err := strconv.Atoi(m[2])
			c.must(t, err)
			all[pod.Name][m[1]] = n
		}
	}
	return all
}

// TestNodeRedisKeepsWrites scales and rolls a Redis Cluster while a client writes. It kills the operator in every operation, before the
// first step of each kind. The next process completes the operation. No acknowledged write is lost.
func TestNodeRedisKeepsWrites(t *testing.T) {
	heavy.parallel(t)
	n := onNode(t)
	o := n.operate(t, onlyRedis)
	c := n.redis(t, withStorage)
	survives := func(operation string, steps ...string) {
		t.Helper()
		for i := range steps {
			steps[i] = acting(steps[i])
		}
		for len(steps) > 0 {
			steps = o.killAt(redisPatience, steps...)
			t.Logf("%s: killed the operator, remaining steps: %q", operation, steps)
			o = n.operate(t, onlyRedis)
		}
		c.ready(t, operation)
	}
	survives("formation", "create Pod", "meet", "add slots", "replicate")
	w := c.write(t)
	w.kept("nothing but writes")
	c.setWhileRunning(t)
	w.kept("directives")
	c.limited(t)
	w.kept("a NetworkPolicy")
	for _, change := range []struct {
		what  string
		begin func()
		steps []string // the test kills the operator before each of them
	}{
		{"scale to 8", func() { c.scale(t, 8) }, []string{"create Pod", "meet", "move slots", "replicate"}},
		{"scale to 6", func() { c.scale(t, 6) }, []string{"move slots", "forget", "delete claim", "delete Pod"}},
		{"another maxmemory-policy, and a podTemplate", func() {
			c.patch(t, `{"spec": {"config": {"maxmemory-policy": "noeviction"}, "podTemplate": {
				"labels": {"team": "shop"}, "env": [{"name": "TZ", "value": "UTC"}],
				"initContainers": [{"name": "before", "image": "busybox:1.35.0", "command": ["true"]}],
				"containers": [{"name": "beside", "image": "busybox:1.35.0", "command": ["sh", "-c", "trap exit TERM; sleep 1000 & wait"]}]
			}}}`)
		}, []string{"failover"}},
		// This image has the same content: another name is enough to replace all Pods.
		{"another image, and no podTemplate", func() {
			c.patch(t, `{"spec": {"image": "redis:7.0.15", "podTemplate": null}}`)
		}, []string{"evict Pod"}},
	} {
		change.begin()
		survives(change.what, change.steps...)
		w.kept(change.what)
		c.templated(t, change.what)
	}
	c.configured(t, "redis:7.0.15", "noeviction")
	c.claims(t, 6)
}

// TestNodeRedisUsers changes the users of a cluster while a client writes. It adds users, turns the default user off, changes a password,
// and reverts all of this. It kills the operator during the replacement of the Pods.
func TestNodeRedisUsers(t *testing.T) {
	heavy.parallel(t)
	n := onNode(t)
	o := n.operate(t, onlyRedis)
	c := n.redis(t, withStorage)
	c.ready(t, "formation")
	n.setPassword(t, "app", "e2e-first-password")
	users := func(rules string) {
		c.patch(t, `{"spec": {"users": [{"name": "default", "rules": "`+rules+`"},
			{"name": "app", "rules": "~* &* +@all", "passwordSecretRef": {"name": "app"}, "keepOldPasswordSeconds": 20}]}}`)
	}
	killed := func(what string, w *writer) {
		t.Helper()
		o.killAt(redisPatience, acting("evict Pod"))
		o = n.operate(t, onlyRedis)
		c.ready(t, what)
		w.kept(what)
		w.end()
	}
	loggedIn := func(what, password string, want bool) {
		t.Helper()
		eventually(t, redisPatience, func(context.Context) error {
			all, err := c.tryEach(t, "REDISCLI_AUTH="+password+" redis-cli --user app -h $POD_IP -p $PORT CLUSTER MYID 2>&1 | tail -n 1")
			if err != nil {
				return err
			}
			for pod, out := range all {
				if in := len(out) >= 40 && !strings.Contains(out, " "); in != want {
					return fmt.Errorf("%s: %s answers %q, want it to accept the login: %t", what, pod, out, want)
				}
			}
			return nil
		})
	}
	const open = "nopass ~* &* +@all"
	w := c.write(t)
	users(open)
	killed("users", w)

	before := c.uids(t)
	c.user, c.password = "app", "e2e-first-password"
	w = c.write(t)
	users("off")
	c.ready(t, "a closed cluster")
	for pod, out := range c.onEach(t, "redis-cli -h $POD_IP -p $PORT DBSIZE 2>&1") {
		if !strings.HasPrefix(out, "NOAUTH") {
			t.Errorf("%s answers a client without a password: %q", pod, out)
		}
	}
	n.setPassword(t, "app", "e2e-second-password")
	loggedIn("the new password", "e2e-second-password", true)
	loggedIn("the old password", "e2e-first-password", false)
	rdc, err := c.get(t.Context())
	c.must(t, err)
	replica, err := c.kube.CoreV1().Pods(c.ns).Get(t.Context(), rdc.Status.Shards[0].Replicas[0], metav1.GetOptions{})
	c.must(t, err)
	c.password = "e2e-second-password"
	c.signal(t, replica, syscall.SIGKILL)
	loggedIn("a container started again", c.password, true)
	c.ready(t, "a container started again")
	w.kept("users that change")
	users(open)
	c.ready(t, "an open cluster")
	if after := c.uids(t); !maps.Equal(before, after) {
		t.Errorf("the Pods are %v, before %v", after, before)
	}
	w.end()

	c.user, c.password = "", ""
	w = c.write(t)
	c.patch(t, `{"spec": {"users": null}}`)
	killed("no users", w)
}

// setWhileRunning changes directives that redis-server can set while it runs. One is in redis.conf, the other is not. The operator replaces
// no Pod, even if a value is wrong. After the restart of a container, it sets the directives again.
func (c *realRedis) setWhileRunning(t *testing.T) {
	t.Helper()
	before := c.uids(t)
	has := func(what, policy, slow string) {
		t.Helper()
		c.ready(t, what)
		for pod, out := range c.onEach(t, "redis-cli -p $PORT CONFIG GET maxmemory-policy slowlog-max-len | sort | tr '\\n' ' '") {
			for _, value := range []string{policy, slow} {
				if !strings.Contains(" "+out, " "+value+" ") {
					t.Errorf("%s: %s has %q, want %s", what, pod, out, value)
				}
			}
		}
		if after := c.uids(t); !maps.Equal(before, after) {
			t.Errorf("%s: the Pods are %v, before %v", what, after, before)
		}
	}
	c.patch(t, `{"spec": {"config": {"maxmemory-policy": "allkeys-lfu", "slowlog-max-len": "64"}}}`)
	has("directives", "allkeys-lfu", "64")
	rdc, err := c.get(t.Context())
	c.must(t, err)
	replica, err := c.kube.CoreV1().Pods(c.ns).Get(t.Context(), rdc.Status.Shards[0].Replicas[0], metav1.GetOptions{})
	c.must(t, err)
	c.signal(t, replica, syscall.SIGKILL)
	eventually(t, redisPatience, func(ctx context.Context) error {
		pod, err := c.kube.CoreV1().Pods(c.ns).Get(ctx, replica.Name, metav1.GetOptions{})
		if err != nil || pod.Status.ContainerStatuses[0].RestartCount == replica.Status.ContainerStatuses[0].RestartCount {
			return fmt.Errorf("the container of %s has not restarted (%w)", replica.Name, err)
		}
		out, err := c.exec(t, replica.Name, "redis-cli -p $PORT CONFIG GET slowlog-max-len")
		if err != nil || !strings.Contains(out, "64") {
			return fmt.Errorf("%s does not have the directive after the restart: %q (%w)", replica.Name, out, err)
		}
		return nil
	})
	has("a container started again", "allkeys-lfu", "64")
	c.patch(t, `{"spec": {"config": {"maxmemory-policy": "sometimes"}}}`)
	c.wrong(t, "DirectiveRejected", "maxmemory-policy: argument(s) must be one of the following")
	c.patch(t, `{"spec": {"config": {"maxmemory-policy": "allkeys-lru", "slowlog-max-len": null}}}`)
	has("the spec is right", "allkeys-lru", "128")
}

// limited gives the cluster a NetworkPolicy, and removes it again. At first a foreign NetworkPolicy has the name. The real node enforces no
// NetworkPolicies.
func (c *realRedis) limited(t *testing.T) {
	t.Helper()
	policies, before := c.kube.NetworkingV1().NetworkPolicies(c.ns), c.uids(t)
	_, err := policies.Create(t.Context(), &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: c.name},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "none"}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		},
	}, metav1.CreateOptions{})
	c.must(t, err)
	c.patch(t, `{"spec": {"networkPolicy": {"from": [{"namespaceSelector": {}}], "ingress": [{"ports": [{"port": 9121}]}]}}}`)
	eventually(t, patience, func(ctx context.Context) error {
		rdc, err := c.get(ctx)
		if err != nil || rdc.Status.ObservedGeneration != rdc.Generation {
			return fmt.Errorf("the spec has not been observed (%w)", err)
		}
		return nil
	})
	policy, err := policies.Get(t.Context(), c.name, metav1.GetOptions{})
	c.must(t, err)
	if policy.Spec.PodSelector.MatchLabels["app"] != "none" || len(policy.OwnerReferences) > 0 {
		t.Errorf("the operator changed the foreign NetworkPolicy: %+v", policy)
	}
	c.must(t, policies.Delete(t.Context(), c.name, metav1.DeleteOptions{}))
	eventually(t, patience, func(ctx context.Context) error {
		policy, err := policies.Get(ctx, c.name, metav1.GetOptions{})
		if err != nil || len(policy.OwnerReferences) != 1 || len(policy.Spec.Ingress) != 4 {
			return fmt.Errorf("the NetworkPolicy is %+v (%w)", policy, err)
		}
		return nil
	})
	c.ready(t, "a NetworkPolicy")
	c.patch(t, `{"spec": {"networkPolicy": {"from": [{"podSelector": {}}]}}}`)
	eventually(t, patience, func(ctx context.Context) error {
		policy, err := policies.Get(ctx, c.name, metav1.GetOptions{})
		if err != nil || policy.Spec.Ingress[2].From[0].PodSelector == nil {
			return fmt.Errorf("the NetworkPolicy is %+v (%w)", policy, err)
		}
		return nil
	})
	c.patch(t, `{"spec": {"networkPolicy": null}}`)
	eventually(t, patience, func(ctx context.Context) error {
		if _, err := policies.Get(ctx, c.name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the NetworkPolicy still exists (%w)", err)
		}
		return nil
	})
	c.ready(t, "no NetworkPolicy")
	if after := c.uids(t); !maps.Equal(before, after) {
		t.Errorf("the Pods are %v, before %v", after, before)
	}
}

// onEach runs a shell script in every Pod, and returns the outputs by Pod.
func (c *realRedis) onEach(t *testing.T, script string) map[string]string {
	t.Helper()
	all, err := c.tryEach(t, script)
	c.must(t, err)
	return all
}

// tryEach does the same as onEach, but returns an error if the container of a Pod does not run.
func (c *realRedis) tryEach(t *testing.T, script string) (map[string]string, error) {
	t.Helper()
	pods, err := c.pods(t.Context())
	all := map[string]string{}
	for _, pod := range pods {
		out, execErr := c.exec(t, pod.Name, script)
		all[pod.Name], err = out, errors.Join(err, execErr)
	}
	return all, err
}

// templated checks that all Pods have the containers and labels of the podTemplate, and no others.
func (c *realRedis) templated(t *testing.T, what string) {
	t.Helper()
	rdc, err := c.get(t.Context())
	c.must(t, err)
	template := cmp.Or(rdc.Spec.PodTemplate, &redisv1.PodTemplate{})
	pods, err := c.pods(t.Context())
	c.must(t, err)
	for _, pod := range pods {
		spec := pod.Spec
		if len(spec.Containers) != 1+len(template.Containers) || len(spec.InitContainers) != len(template.InitContainers) ||
			pod.Labels["team"] != template.Labels["team"] {
			t.Errorf("%s: %s has labels %v, init containers %+v, containers %+v", what, pod.Name, pod.Labels, spec.InitContainers, spec.Containers)
		}
	}
}

// acting matches the operator's log line before a step.
func acting(verb string) string { return ` command="` + verb + " " }

// configured checks that all Pods have the image and the maxmemory-policy.
func (c *realRedis) configured(t *testing.T, image, policy string) {
	t.Helper()
	pods, err := c.pods(t.Context())
	c.must(t, err)
	for _, pod := range pods {
		out, err := c.exec(t, pod.Name, "redis-cli -p $PORT CONFIG GET maxmemory-policy")
		c.must(t, err)
		if got := pod.Spec.Containers[0].Image; got != image || !strings.Contains(out, policy) {
			t.Errorf("%s has the image %s and the policy %q, want %s and %s", pod.Name, got, out, image, policy)
		}
	}
}

// TestNodeRedisHeals deletes Pods and kills a process while a client writes.
func TestNodeRedisHeals(t *testing.T) {
	heavy.parallel(t)
	n := onNode(t)
	n.operate(t, onlyRedis)
	c := n.redis(t, withStorage)
	c.ready(t, "formation")
	w := c.write(t)
	pods := n.kube.CoreV1().Pods(n.ns)

	c.must(t, pods.Delete(t.Context(), c.master(t).Name, metav1.DeleteOptions{}))
	c.heals(t, "a master's Pod was deleted")
	w.kept("a master's Pod was deleted")

	before := c.ids(t)
	lagging := c.lagging(t)
	c.deleteAll(t)
	c.heals(t, "all Pods were deleted at once")
	w.kept("all Pods were deleted at once")
	if lag := lagging(); t.Failed() {
		t.Logf("log lines of the masters about replicas when they ended: %q", lag)
	}
	if after := c.ids(t); !maps.Equal(before, after) {
		t.Errorf("the IDs of the nodes are %v, before %v", after, before)
	}

	// A killed master has saved all acknowledged writes, except at most 2 s of them if the disk is slow
	// (https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/). Usually it returns before the other nodes notice.
	// Otherwise its replica takes over. Then the writes that the replica had not received are lost, which are fewer.
	master := c.master(t)
	c.signal(t, master, syscall.SIGKILL)
	eventually(t, patience, func(ctx context.Context) error {
		pod, err := pods.Get(ctx, master.Name, metav1.GetOptions{})
		if err != nil || pod.Status.ContainerStatuses[0].RestartCount == 0 {
			return fmt.Errorf("the container of %s has not restarted: %w", master.Name, err)
		}
		return nil
	})
	c.heals(t, "a master's container was killed")
	f := w.check("a master's container was killed")
	if most := int64(2 * float64(f.acknowledged) / f.took.Seconds() / 3); f.lost > most {
		t.Errorf("%d acknowledged writes are lost, want at most %d: the writes of one of three masters in 2 s", f.lost, most)
	}
}

// master returns the Pod of a master.
func (c *realRedis) master(t *testing.T) *corev1.Pod {
	t.Helper()
	pods, err := c.pods(t.Context())
	c.must(t, err)
	for _, pod := range pods {
		s, err := c.look(t.Context(), &pod)
		c.must(t, err)
		if s.self.slots.Len() > 0 {
			return &pod
		}
	}
	t.Fatal("no Pod has the role of a master")
	return nil
}

// ids returns the IDs of the nodes, by Pod.
func (c *realRedis) ids(t *testing.T) map[string]string {
	t.Helper()
	all, err := c.all(t.Context())
	c.must(t, err)
	ids := map[string]string{}
	for _, s := range all {
		ids[s.pod] = s.self.id
	}
	return ids
}

// deleteAll deletes all Pods at once, and waits until they no longer exist.
func (c *realRedis) deleteAll(t *testing.T) {
	t.Helper()
	before := c.uids(t)
	c.must(t, c.kube.CoreV1().Pods(c.ns).DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: redisv1.LabelRedisCluster + "=" + c.name}))
	c.replaced(t, before)
}

// replaced waits until none of these Pods exists.
func (c *realRedis) replaced(t *testing.T, before map[string]types.UID) {
	t.Helper()
	eventually(t, redisPatience, func(ctx context.Context) error {
		pods, err := c.pods(ctx)
		for _, pod := range pods {
			if before[pod.Name] == pod.UID {
				return fmt.Errorf("%s still exists", pod.Name)
			}
		}
		return err
	})
}

// signal sends a signal to a Pod's redis-server from outside of the container. Inside, redis-server is process 1, which ignores SIGKILL and
// SIGSTOP.
func (c *realRedis) signal(t *testing.T, pod *corev1.Pod, signal syscall.Signal) {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	c.must(t, err)
	for _, process := range processes {
		name, nameErr := os.ReadFile(filepath.Join(process, "comm"))
		cgroups, cgroupErr := os.ReadFile(filepath.Join(process, "cgroup"))
		if nameErr != nil || cgroupErr != nil || strings.TrimSpace(string(name)) != "redis-server" ||
			!strings.Contains(string(cgroups), string(pod.UID)) {
			continue // This is another process, or the process has ended.
		}
		pid, err := strconv.Atoi(filepath.Base(process))
		c.must(t, err)
		c.must(t, syscall.Kill(pid, signal))
		return
	}
	t.Fatalf("Pod %s has no redis-server", pod.Name)
}

// claims waits until the number of claims is as wanted.
func (c *realRedis) claims(t *testing.T, want int) {
	t.Helper()
	eventually(t, patience, func(ctx context.Context) error {
		list, err := c.kube.CoreV1().PersistentVolumeClaims(c.ns).List(ctx,
			metav1.ListOptions{LabelSelector: redisv1.LabelRedisCluster + "=" + c.name})
		if err != nil || len(list.Items) != want {
			return fmt.Errorf("%d claims exist, want %d (%w)", len(list.Items), want, err)
		}
		return nil
	})
}

func (n *node) setPassword(t *testing.T, secret, password string) {
	t.Helper()
	n.setSecret(t, secret, map[string]string{"password": password})
}

func (n *node) setSecret(t *testing.T, name string, data map[string]string) {
	t.Helper()
	secrets := n.kube.CoreV1().Secrets(n.ns)
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
	_, err := secrets.Create(t.Context(), s, metav1.CreateOptions{})
	if err != nil {
		_, err = secrets.Update(t.Context(), s, metav1.UpdateOptions{})
	}
	n.must(t, err)
}

// TestNodeRedisReportsTrouble adds and removes causes of trouble. As long as the cause exists, a condition and an event report it, and the
// operator deletes no data. The tests of pkg/controller/rediscluster test a full disk, where it disturbs no other test.
// TestNodeKeepsSecrets tests a wrong password.
func TestNodeRedisReportsTrouble(t *testing.T) {
	heavy.parallel(t)
	for name, test := range map[string]func(*testing.T, *node){
		"bad Pods, and no answer": testBadPods,
		"bad config":              testBadConfig,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, onNode(t))
		})
	}
}

// testBadPods changes the spec so that new Pods cannot start, and then reverts the change. At the end, a node does not answer.
func testBadPods(t *testing.T, n *node) {
	n.operate(t, onlyRedis)
	c := n.redis(t, seedSample)
	c.ready(t, "formation")
	c.fill(t)
	for _, bad := range []struct {
		what, patch, reason, words string
		replaced                   int // number of Pods that the operator replaces before it stops
		undo                       string
	}{
		{
			"an image that does not exist", `{"spec": {"image": "redis:none"}}`, "PodNotStarting", "redis:none", 1,
			`{"spec": {"image": "redis:7"}}`,
		},
		{
			"more CPUs than any machine has", `{"spec": {"resources": {"requests": {"cpu": "1k"}}}}`, "PodNotStarting", "Insufficient cpu", 1,
			`{"spec": {"resources": null}}`,
		},
		{
			"a Pod that the API server rejects", `{"spec": {"podTemplate": {"containers": [
				{"name": "beside", "image": "busybox:1.35.0", "volumeMounts": [{"name": "none", "mountPath": "/none"}]}]}}}`,
			"PodRejected", "spec.containers[1].volumeMounts[0].name: Not found", 0, `{"spec": {"podTemplate": null}}`,
		},
	} {
		before := c.uids(t)
		c.patch(t, bad.patch)
		c.wrong(t, bad.reason, bad.words)
		after := c.uids(t)
		maps.DeleteFunc(after, func(pod string, uid types.UID) bool { return before[pod] == uid })
		if len(after) != bad.replaced {
			t.Errorf("%s: the Pods %v were replaced, want %d", bad.what, slices.Sorted(maps.Keys(after)), bad.replaced)
		}
		c.filled(t, bad.what)
		c.patch(t, bad.undo)
		c.ready(t, "without "+bad.what)
		c.filled(t, "without "+bad.what)
	}
	c.doesNotAnswer(t)
}

// testBadConfig sets a directive that redis-server does not know. The condition must contain redis-server's own error. The size in the spec
// is also too small. Without webhooks it stays in the spec, and the controller works with six.
func testBadConfig(t *testing.T, n *node) {
	n.operate(t, onlyRedis)
	c := n.redis(t, seedSample, func(rdc *redisv1.RedisCluster) {
		rdc.Spec.Config = map[string]redisv1.ConfigValue{"maxmemroy": "1"}
		rdc.Spec.Size = ptr.To[int32](3)
	})
	c.wrong(t, "PodNotStarting", "maxmemroy")
	c.patch(t, `{"spec": {"config": {"maxmemroy": null, "maxmemory": "96mb"}}}`)
	c.ready(t, "the directive is right")
}

// doesNotAnswer stops a master. The pause is longer than a Pod may be silent, and shorter than the liveness probe allows. The replica takes
// over, and the Pod stays.
func (c *realRedis) doesNotAnswer(t *testing.T) {
	t.Helper()
	before, master := c.uids(t), c.master(t)
	c.signal(t, master, syscall.SIGSTOP)
	eventually(t, patience, c.full) // The replica answers for the silent master.
	c.wrong(t, "PodNotAnswering", master.Name)
	c.signal(t, master, syscall.SIGCONT)
	c.heals(t, "it answers again")
	c.filled(t, "it answers again")
	if after := c.uids(t); !maps.Equal(before, after) {
		t.Errorf("the Pods are %v, before %v", after, before)
	}
}
