// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/redisnode"
)

// awaitTimeout limits a wait. On an idle machine, each wait takes one or two seconds.
const awaitTimeout = 5 * time.Minute

// Await waits until is returns true for the views of all nodes. A node that does not answer has no such view.
func Await(tb testing.TB, what string, nodes []*redisnode.Node, is func(*redisnode.View) bool) {
	tb.Helper()
	var last string
	for deadline := time.Now().Add(awaitTimeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if !slices.ContainsFunc(nodes, func(n *redisnode.Node) bool {
			view, err := n.View(tb.Context())
			last = fmt.Sprintf("%+v, %v", view, err)
			return err != nil || !is(view)
		}) {
			return
		}
	}
	tb.Fatalf("waited %s until %s; the last view: %s", awaitTimeout, what, last)
}

// Form starts servers with the same config and makes a cluster of them: masters that share all slots, in order, and then their replicas.
// Server n is the replica of server n%masters. It connects with the config's password, and TLS if trust is not empty.
func Form(tb testing.TB, config Config, trust redisnode.TLS, masters, replicas int) []*Server {
	tb.Helper()
	ctx := tb.Context()
	var servers []*Server
	var nodes []*redisnode.Node
	for range masters + replicas {
		s := Start(tb, config)
		n := redisnode.Dial(s.IP, s.Port, redisnode.Login{Password: s.Password, TLS: trust})
		defer n.Close()
		servers, nodes = append(servers, s), append(nodes, n)
	}
	for _, s := range servers[1:] {
		must.Succeed(tb, nodes[0].Meet(ctx, s.IP, s.Port, s.Port+BusOffset))
	}
	Await(tb, "all nodes know each other", nodes, func(view *redisnode.View) bool {
		return len(view.Table) == len(nodes) &&
			!slices.ContainsFunc(view.Table, func(e redisnode.Entry) bool { return e.Handshake || !e.Connected })
	})
	for i := range masters {
		must.Succeed(tb, nodes[i].AddSlots(ctx, redisnode.SlotRange(i*redisnode.SlotCount/masters, (i+1)*redisnode.SlotCount/masters-1)))
	}
	for i := range replicas {
		master, err := nodes[i%masters].View(ctx)
		must.Succeed(tb, err)
		must.Succeed(tb, nodes[masters+i].Replicate(ctx, master.ID))
	}
	Await(tb, "the cluster takes requests", nodes, func(view *redisnode.View) bool { return view.StateOK })
	Await(tb, "all replicas are connected", nodes[masters:], func(view *redisnode.View) bool { return !view.Master && view.LinkUp })
	return servers
}
