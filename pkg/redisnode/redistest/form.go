// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/glassback/glassback/pkg/redisnode"
)

// formTimeout limits each step of Form. On an idle machine, a step takes one or two seconds.
const formTimeout = 40 * time.Second

// Form starts servers with the same config and makes a cluster of them: masters that share all slots, in order, and then their replicas.
// Server n is the replica of server n%masters. It connects with the config's password, and TLS if trust is not empty.
func Form(tb testing.TB, config Config, trust redisnode.TLS, masters, replicas int) []*Server {
	tb.Helper()
	ctx := context.Background()
	var servers []*Server
	var nodes []*redisnode.Node
	for range masters + replicas {
		s := Start(tb, config)
		n := redisnode.Dial(s.IP, s.Port, redisnode.Login{Password: s.Password, TLS: trust})
		defer n.Close()
		servers, nodes = append(servers, s), append(nodes, n)
	}
	check := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	await := func(what string, nodes []*redisnode.Node, is func(*redisnode.View) bool) {
		tb.Helper()
		for deadline := time.Now().Add(formTimeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			if !slices.ContainsFunc(nodes, func(n *redisnode.Node) bool {
				view, err := n.View(ctx)
				return err != nil || !is(view)
			}) {
				return
			}
		}
		tb.Fatalf("waited %s until %s", formTimeout, what)
	}
	for _, s := range servers[1:] {
		check(nodes[0].Meet(ctx, s.IP, s.Port, s.Port+BusOffset))
	}
	await("all nodes know each other", nodes, func(view *redisnode.View) bool {
		return len(view.Table) == len(nodes) &&
			!slices.ContainsFunc(view.Table, func(e redisnode.Entry) bool { return e.Handshake || !e.Connected })
	})
	for i := range masters {
		check(nodes[i].AddSlots(ctx, redisnode.SlotRange(i*redisnode.SlotCount/masters, (i+1)*redisnode.SlotCount/masters-1)))
	}
	for i := range replicas {
		master, err := nodes[i%masters].View(ctx)
		check(err)
		check(nodes[masters+i].Replicate(ctx, master.ID))
	}
	await("the cluster takes requests", nodes, func(view *redisnode.View) bool { return view.StateOK })
	await("all replicas are connected", nodes[masters:], func(view *redisnode.View) bool { return !view.Master && view.LinkUp })
	return servers
}
