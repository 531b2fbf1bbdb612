// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/glassback/glassback/pkg/redisnode"
)

// maxLag is how many bytes of writes a replica may lack to be the source of a snapshot.
const maxLag = 1 << 20

// connection is how to reach the nodes of a cluster.
type connection struct {
	addresses []string // host:port; the first node that answers names the others
	login     redisnode.Login
}

// node holds the observed state of a node of a cluster.
type node struct {
	entry redisnode.Entry // from the table of the node that was asked first
	view  *redisnode.View
	err   error // why there is no view
}

func (n node) address() string { return net.JoinHostPort(n.entry.IP, strconv.Itoa(n.entry.Port)) }

// own returns the node's entry about itself.
func (n node) own() redisnode.Entry {
	i := slices.IndexFunc(n.view.Table, func(e redisnode.Entry) bool { return e.Myself })
	return n.view.Table[i] // A View without this entry is an error.
}

// shard is a master with slots, and the replicas that are connected to it.
type shard struct {
	master     node
	slots      redisnode.Slots
	epoch      int64
	replicas   []node
	replicated bool // whether it should have replicas
}

// same returns whether the same master has the same slots.
func (s shard) same(o shard) bool {
	return s.master.view.ID == o.master.view.ID && s.epoch == o.epoch && s.slots.Equal(o.slots)
}

// usable returns the replicas that lack few writes, the best one first.
func (s shard) usable() []node {
	var sources []node
	for _, r := range s.replicas {
		if r.view.Offset+maxLag >= s.master.view.Offset {
			sources = append(sources, r)
		}
	}
	slices.SortFunc(sources, func(a, b node) int {
		return cmp.Or(cmp.Compare(b.view.Offset, a.view.Offset), cmp.Compare(a.view.ID, b.view.ID))
	})
	return sources
}

// topology holds the shards of a cluster, sorted by their first slots.
type topology struct {
	shards []shard
	open   redisnode.Slots // the slots that are being moved
	stray  int64           // how many keys the masters without slots have
}

// newer returns the higher one of two versions of Redis.
func newer(a, b string) string {
	one, err := version.ParseGeneric(a)
	if err != nil {
		return b
	}
	if other, err := version.ParseGeneric(b); err == nil && one.LessThan(other) {
		return b
	}
	return a
}

// unsteady is an error that may pass: a cluster that changes, or a node that does not answer.
type unsteady struct{ error }

func (u unsteady) Unwrap() error { return u.error }

// passes returns whether an error may pass.
func passes(err error) bool {
	_, passes := errors.AsType[unsteady](err)
	return passes
}

func changing(format string, args ...any) error { return unsteady{fmt.Errorf(format, args...)} }

// await waits until each slot has one master that answers, and check returns no unsteady error.
func (c connection) await(ctx context.Context, p patience, check func(*topology) error) (t *topology, err error) {
	err = p.wait(ctx, func() error {
		var err error
		if t, err = c.look(ctx); err != nil {
			return err
		}
		return check(t)
	})
	return t, err
}

// look asks all nodes for their views. Its error is unsteady if the shards are not complete.
func (c connection) look(ctx context.Context) (*topology, error) {
	first, err := c.first(ctx)
	if err != nil {
		return nil, err
	}
	var nodes []node
	for _, entry := range first.view.Table {
		switch {
		case entry.Myself:
			nodes = append(nodes, first)
		case !entry.Handshake && !entry.NoAddr:
			nodes = append(nodes, node{entry: entry})
		}
	}
	var asked errgroup.Group
	asked.SetLimit(16)
	for i := range nodes {
		if n := &nodes[i]; n.view == nil {
			asked.Go(func() error {
				n.view, n.err = c.ask(ctx, n.entry.IP, n.entry.Port)
				return ctx.Err()
			})
		}
	}
	if err := asked.Wait(); err != nil {
		return nil, err
	}
	return arrange(nodes)
}

// first returns the first node that answers.
func (c connection) first(ctx context.Context) (node, error) {
	var errs []error
	for _, address := range c.addresses {
		host, text, err := net.SplitHostPort(address)
		if err != nil {
			return node{}, err
		}
		port, err := strconv.Atoi(text)
		if err != nil {
			return node{}, err
		}
		view, err := c.ask(ctx, host, port)
		if ctx.Err() != nil {
			return node{}, ctx.Err()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", address, err))
			continue
		}
		n := node{view: view}
		n.entry = n.own()
		if n.entry.IP == "" { // Otherwise, a name of several nodes would be the address of one.
			n.entry.IP, n.entry.Port = host, port
		}
		return n, nil
	}
	err := fmt.Errorf("no node of the cluster answers: %w", errors.Join(errs...))
	if errors.Is(err, redisnode.ErrPassword) || errors.Is(err, redisnode.ErrCertificate) {
		return node{}, err
	}
	return node{}, unsteady{err}
}

// ask returns the view of one node.
func (c connection) ask(ctx context.Context, host string, port int) (*redisnode.View, error) {
	n := redisnode.DialReadOnly(host, port, c.login)
	defer n.Close()
	view, err := n.View(ctx)
	if err == nil && view.Loading {
		return nil, errors.New("the node loads its data")
	}
	return view, err
}

// arrange makes shards of nodes. Its error is unsteady if a slot has two owners, or none that answers.
func arrange(nodes []node) (*topology, error) {
	t := &topology{}
	var owned redisnode.Slots
	for _, n := range nodes {
		if n.err == nil && n.entry.ID != n.view.ID {
			n.err = errors.New("another node is at its address")
		}
		if n.err != nil {
			if n.entry.Master && len(n.entry.Slots) > 0 {
				return nil, changing("the master of slots %s at %s: %w", n.entry.Slots, n.address(), n.err)
			}
			continue
		}
		own := n.own()
		open := slices.AppendSeq(slices.Collect(maps.Keys(own.Migrating)), maps.Keys(own.Importing))
		t.open = t.open.Union(redisnode.NewSlots(open...))
		switch {
		case own.Master && len(own.Slots) == 0:
			t.stray += n.view.Keys
			continue
		case !own.Master:
			continue
		case !n.view.StateOK:
			return nil, changing("the master of slots %s at %s takes no requests: its cluster_state is fail", own.Slots, n.address())
		case len(owned.Intersect(own.Slots)) > 0:
			return nil, changing("slots %s have two masters", owned.Intersect(own.Slots))
		}
		owned = owned.Union(own.Slots)
		t.shards = append(t.shards, shard{
			master: n, slots: own.Slots, epoch: own.Epoch, replicas: replicasOf(n, nodes),
			replicated: slices.ContainsFunc(nodes, func(other node) bool { return other.entry.MasterID == n.view.ID }),
		})
	}
	if missing := allSlots.Without(owned); len(missing) > 0 {
		return nil, changing("slots %s have no master", missing)
	}
	slices.SortFunc(t.shards, func(a, b shard) int { return cmp.Compare(a.slots[0].First, b.slots[0].First) })
	return t, nil
}

// replicasOf returns the replicas that are connected to a master, and have its history: another node may have got its address.
func replicasOf(master node, nodes []node) []node {
	var replicas []node
	for _, n := range nodes {
		if n.err == nil && n.entry.ID == n.view.ID && n.view.LinkUp && n.own().MasterID == master.view.ID &&
			n.view.History == master.view.History {
			replicas = append(replicas, n)
		}
	}
	return replicas
}

// patience is how long wait retries after unsteady errors, and the pause between two attempts.
type patience struct{ limit, pause time.Duration }

var defaultPatience = patience{limit: 2 * time.Minute, pause: 2 * time.Second}

// wait calls do until do succeeds or returns an error that is not unsteady, or until the limit is reached.
func (p patience) wait(ctx context.Context, do func() error) error {
	deadline := time.Now().Add(p.limit)
	for {
		err := do()
		if !passes(err) || !time.Now().Before(deadline) {
			return err
		}
		if ended := sleep(ctx, p.pause); ended != nil {
			return errors.Join(ended, err)
		}
	}
}

// sleep waits for a pause. If ctx ends before, it returns the error of ctx.
func sleep(ctx context.Context, pause time.Duration) error {
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
