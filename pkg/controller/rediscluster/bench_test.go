// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/redisnode"
)

// onRequest skips a benchmark that takes minutes, unless -bench names it.
func onRequest(b *testing.B) {
	b.Helper()
	if all, err := regexp.MatchString(flag.Lookup("test.bench").Value.String(), "Benchmark"); err != nil || all {
		b.Skip("it takes minutes, and runs only by its name: make bench BENCH=" + b.Name())
	}
}

// defaultTimeout gives a RedisCluster the operator's own cluster-node-timeout.
func defaultTimeout(rdc *v1.RedisCluster) { delete(rdc.Spec.Config, "cluster-node-timeout") }

// BenchmarkSettledClusters measures what one operator costs whose 1, 10 and 50 RedisClusters, of 6 redis-servers each, are settled. The
// window has several polls of each cluster. The fake API server and the nodes need no CPU of this process then.
func BenchmarkSettledClusters(b *testing.B) {
	onRequest(b)
	const window = 6 * poll
	w := newWorld(b, "settled", defaultTimeout)
	first := w.rdc()
	w.live()
	made := 1
	for _, clusters := range []int{1, 10, 50} {
		for ; made < clusters; made++ {
			another := first.DeepCopy()
			another.Name, another.UID = fmt.Sprint("settled-", made), types.UID(fmt.Sprintf("settled-%d-uid", made))
			must.Succeed(b, w.client.Tracker().Add(another))
			if made%10 == 9 { // The nodes of more clusters would not hear from each other in time.
				w.until("some clusters to be formed", func() bool { return w.readyClusters() == made+1 })
			}
		}
		w.until("all clusters to be formed", func() bool { return w.readyClusters() == clusters })
		w.restServers()
		time.Sleep(2 * poll)
		b.Run(fmt.Sprint(clusters), func(b *testing.B) {
			for b.Loop() {
				before := w.spent(b)
				time.Sleep(window)
				after := w.spent(b)
				each := float64(clusters) * window.Seconds()
				b.ReportMetric((after.cpu-before.cpu).Seconds()*1000/each, "cpu-ms/cluster/s")
				b.ReportMetric(float64(after.asked-before.asked)/each, "requests/cluster/s")
				b.ReportMetric(float64(after.bytes-before.bytes)/each, "B/cluster/s")
				b.ReportMetric(float64(after.actions-before.actions), "api-requests")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// readyClusters returns how many RedisClusters are Ready.
func (w *world) readyClusters() int {
	w.t.Helper()
	list, err := w.client.RedisV1().RedisClusters("default").List(w.t.Context(), metav1.ListOptions{})
	must.Succeed(w.t, err)
	n := 0
	for _, rdc := range list.Items {
		if meta.IsStatusConditionTrue(rdc.Status.Conditions, glassback.ConditionReady) {
			n++
		}
	}
	return n
}

// restServers makes the redis-servers use less CPU: they look after their timeouts less often.
func (w *world) restServers() {
	w.t.Helper()
	for _, p := range w.pods() {
		client := redis.NewClient(&redis.Options{Addr: p.Status.PodIP + ":6379"})
		must.Succeed(w.t, client.ConfigSet(w.t.Context(), "hz", "1").Err())
		client.Close()
	}
}

// costs are what this process has spent.
type costs struct {
	cpu   time.Duration
	asked int64 // Views, each of which is one pipeline
	bytes int64 // read and written, by all connections
	// actions are requests to the API server.
	actions int
}

func (w *world) spent(b *testing.B) costs {
	b.Helper()
	var usage syscall.Rusage
	must.Succeed(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Skip("SKIPPED, the traffic of the operator: only Linux counts it")
	}
	var read, written int64
	if _, err := fmt.Sscanf(string(text), "rchar: %d\nwchar: %d", &read, &written); err != nil {
		b.Fatal(err)
	}
	return costs{
		time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), w.asked.Load(), read + written,
		len(w.kube.Actions()) + len(w.client.Actions()),
	}
}

// BenchmarkMillionsOfKeys measures how long operations take in a cluster with millions of keys, to which a client writes. Nothing that was
// acknowledged may be lost, and no key.
func BenchmarkMillionsOfKeys(b *testing.B) {
	onRequest(b)
	const keysPerSlot = 184 // 3,014,656 keys
	w := newWorld(b, "large", storage, defaultTimeout)
	w.live()
	w.ready("the cluster to be formed")
	w.fill(keysPerSlot)
	w.writeKeys()
	load := w.writer
	for _, operation := range []struct {
		name   string
		change func(*v1.RedisCluster)
	}{
		{"scale out from 6 to 8 nodes", size(8)},
		{"replace 8 Pods", func(rdc *v1.RedisCluster) { rdc.Spec.Config["tcp-backlog"] = "256" }},
		{"scale in from 8 to 6 nodes", size(6)},
	} {
		b.Run(operation.name, func(b *testing.B) {
			for b.Loop() {
				load.longest.Store(0)
				writes, begin := load.total.Load(), time.Now()
				before := w.keysOf()
				w.change(operation.change)
				w.ready(operation.name)
				took := time.Since(begin).Seconds()
				moved := 0
				for id, keys := range w.keysOf() {
					moved += max(0, keys-before[id])
				}
				b.ReportMetric(took, "s")
				b.ReportMetric(float64(moved), "keys-to-another-master")
				b.ReportMetric(float64(moved)/took, "keys-to-another-master/s")
				b.ReportMetric(float64(load.total.Load()-writes)/took, "writes/s")
				b.ReportMetric(time.Duration(load.longest.Load()).Seconds(), "longest-pause-s")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
	w.kept()
	all := 0
	for _, keys := range w.keysOf() {
		all += keys
	}
	if want := keysPerSlot*redisnode.SlotCount + writerKeys; all != want {
		b.Errorf("there are %d keys, want %d", all, want)
	}
}

// fill writes keys of some 100 bytes of memory, the same number to each slot.
func (w *world) fill(perSlot int) {
	w.t.Helper()
	tags := map[int]string{}
	for n := 0; len(tags) < redisnode.SlotCount; n++ {
		tag := fmt.Sprint("{", n, "}")
		tags[redisnode.KeySlot(tag)] = tag
	}
	client := w.clusterClient()
	defer client.Close()
	ctx := context.Background()
	script := redis.NewScript(`for n = 1, ARGV[1] do redis.call('SET', KEYS[1] .. n, 'value ' .. n) end return 1`)
	for _, tag := range tags {
		must.Succeed(w.t, script.Eval(ctx, client, []string{tag}, perSlot).Err())
	}
}

// keysOf returns how many keys each master has, by its ID.
func (w *world) keysOf() map[string]int {
	w.t.Helper()
	keys := map[string]int{}
	w.onMasters(func(ctx context.Context, c *redis.Client) error {
		id, err := c.ClusterMyID(ctx).Result()
		if err != nil {
			return err
		}
		n, err := c.DBSize(ctx).Result()
		w.mu.Lock()
		defer w.mu.Unlock()
		keys[id] = int(n)
		return err
	})
	return keys
}
