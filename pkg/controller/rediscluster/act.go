// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/redisnode"
)

// executor carries out the commands of one plan.
type executor struct {
	*Controller
	o        *observed
	session  *session
	step     string           // the purpose of the commands, for events
	verified map[*member]bool // the members that verify has checked
}

// act carries out the plan and returns when to sync again. First it runs the upkeep, even if some of it fails. Each of the
// other commands may depend on those before it, so act stops at the first error. It also stops, without an error, at an
// eviction that the PodDisruptionBudget does not allow yet. It replaces a Pod only if the new Pod can mount the operator's password.
func (c *Controller) act(ctx context.Context, o *observed, p plan) (time.Duration, error) {
	e := executor{Controller: c, o: o, session: c.sessions.get(o.Object), step: p.Step, verified: map[*member]bool{}}
	err := errors.Join(e.endLongTimeout(ctx), e.runUpkeep(ctx, p.Upkeep))
	wait, evictionRefused, commands := p.Wait.Duration, "", p.Commands
	if o.replacesPod(commands) {
		if accountErr := e.checkAccount(ctx); accountErr != nil {
			err, commands = errors.Join(err, accountErr), nil
		}
	}
	for _, command := range commands {
		commandErr := e.run(ctx, command)
		if refused, ok := errors.AsType[evictionRefusedError](commandErr); ok {
			wait, evictionRefused = refused.wait, refused.message
			break
		}
		if commandErr != nil {
			err = errors.Join(err, commandErr)
			break
		}
	}
	e.session.recordResult(p, evictionRefused, err, c.clock.Now())
	return wait, err
}

// runUpkeep runs all commands. After a command for a member has failed, it skips the other commands for that member: a Pod
// must not be created if its claim belongs to another owner. Commands without a member count as those of one member.
func (e executor) runUpkeep(ctx context.Context, commands []command) error {
	var errs []error
	failed := map[*member]bool{}
	for _, command := range commands {
		if failed[command.on] {
			continue
		}
		err := e.run(ctx, command)
		failed[command.on] = err != nil
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// verb is a kind of command.
type verb struct {
	text string // for logs and tests
	do   func(executor, context.Context, command) error
	// writes returns what the command writes to the API server, for glassback plan. It is nil if the command writes nothing there.
	writes func(*observed, command) write
	// logged says that the command can cost data or availability: the log shows it at any verbosity.
	logged bool
}

// write is a write to the API server: from one object to another, either of which may be nil. The zero write is none.
type write struct {
	verb, kind, name string
	before, after    any
}

// The commands to redis-servers. Those to the API server are in the files of their subjects.
var (
	// on and peer become nodes of the same cluster.
	meet = &verb{text: "meet", do: executor.meet}
	// on forgets the node id.
	forget = &verb{text: "forget", logged: true, do: func(e executor, ctx context.Context, c command) error {
		return e.node(c.on).Forget(ctx, c.id)
	}}
	// on gets slots that have no owner.
	addSlots = &verb{text: "add slots", do: executor.addSlots}
	// on becomes a replica of peer.
	replicate = &verb{text: "replicate", do: executor.replicate}
	// on gets the functions of peer.
	copyFunctions = &verb{text: "copy functions", do: executor.copyFunctions}
)

// run carries out one command.
func (e executor) run(ctx context.Context, c command) error {
	logger := klog.FromContext(ctx)
	if !c.verb.logged {
		logger = logger.V(2)
	}
	logger.Info("Acting", "command", c.String(), "reason", e.step)
	if err := c.verb.do(e, ctx, c); err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return nil
}

// replicate makes a node a replica of another one, or connects it again to its master. In Valkey, the command for the present master does
// nothing: then the node still asks at the same address.
func (e executor) replicate(ctx context.Context, c command) error {
	node, before, master := e.node(c.on), c.on.View, c.peer.ID
	if err := node.Replicate(ctx, master); err != nil || e.o.masterOf(c.on) != c.peer {
		return err
	}
	view, err := e.view(ctx, c.on)
	if err != nil || view.MasterIP != before.MasterIP || view.MasterPort != before.MasterPort {
		return err
	}
	other := view.OtherMaster(master)
	if other == "" {
		return nil
	}
	if err = node.Reconnect(ctx, master, other); err == nil {
		return nil
	}
	// If another replica has just taken over from the master, this one must not stay at the other master.
	ctx = context.WithoutCancel(ctx)
	if view, viewErr := e.view(ctx, c.on); viewErr == nil {
		for _, entry := range view.Table {
			if entry.ID == master && entry.MasterID != "" {
				err = errors.Join(err, node.Replicate(ctx, entry.MasterID))
			}
		}
	}
	return err
}

// node returns the connection to a member that answers.
func (e executor) node(m *member) Node { return e.sessions.node(e.o.Object, m.Pod) }

// key returns the key of the RedisCluster.
func (e executor) key() cache.ObjectName { return cache.MetaObjectToName(e.o.Object) }

// purpose returns why the commands are carried out, for events.
func (e executor) purpose() string {
	if e.step == "" {
		return "it is not needed"
	}
	return e.step
}

// meet introduces one member to another. If a node of another cluster has one of the addresses now, the two clusters would
// merge, and one of them would lose its data. So meet first verifies both members.
func (e executor) meet(ctx context.Context, c command) error {
	for _, m := range []*member{c.on, c.peer} {
		if err := e.verify(ctx, m); err != nil {
			return err
		}
	}
	at := c.peer.own()
	return e.node(c.on).Meet(ctx, at.IP, c.peer.port(), at.Bus)
}

// verify asks the API server and the node again. It returns an error unless the member's Pod still has its address, the
// observed node answers there, and that node knows only nodes of this cluster and its own master, which may be lost.
func (e executor) verify(ctx context.Context, m *member) error {
	if e.verified[m] {
		return nil
	}
	live, err := e.podClient().Get(ctx, m.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get Pod %s: %w", m.Name, err)
	}
	if live.UID != m.Pod.UID || live.Status.PodIP != m.ip() || live.DeletionTimestamp != nil {
		return fmt.Errorf("the Pod %s was replaced in the meantime", m.Name)
	}
	view, err := e.view(ctx, m)
	if err != nil {
		return err
	}
	if view.ID != m.ID {
		return fmt.Errorf("the node of %s was replaced in the meantime", m.Name)
	}
	for _, entry := range view.Table {
		if !entry.Handshake && e.o.byID[entry.ID] == nil && !m.isReplicaOf(entry.ID) {
			return fmt.Errorf("%s knows a node that belongs to no Pod of this cluster: %s", m.Name, describe(&entry))
		}
	}
	e.verified[m] = true
	return nil
}

// view asks a node for its view.
func (e executor) view(ctx context.Context, m *member) (*redisnode.View, error) {
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	return e.node(m).View(ctx)
}

// addSlots gives a member slots that have no owner. Redis refuses the command if the node believes that the slots have an
// owner. Then the node imports the slots instead, from any other master.
func (e executor) addSlots(ctx context.Context, c command) error {
	m, slots := c.on, c.slots
	err := e.node(m).AddSlots(ctx, slots)
	if err == nil || !strings.Contains(err.Error(), "already busy") {
		return err
	}
	for _, other := range e.o.answering() {
		if other == m || !other.View.Master || m.entry(other.ID) == nil {
			continue
		}
		if err := e.node(m).SetSlots(ctx, slots, redisnode.SlotImporting, other.ID); err != nil {
			return err
		}
		return e.node(m).SetSlots(ctx, slots, redisnode.SlotNode, m.ID)
	}
	return err
}

// copyFunctions copies the functions of one master to a new one, if all masters with slots have the same code. It reads the
// code only now, since code can be large. If no master has a library any more after the copy, a user has deleted the library
// meanwhile. Then copyFunctions also deletes it from the new master, unless a user has loaded other code there.
func (e executor) copyFunctions(ctx context.Context, c command) error {
	to, from := c.on, c.peer
	libraries, err := e.node(from).Libraries(ctx)
	if err != nil {
		return err
	}
	dump, err := e.node(from).DumpFunctions(ctx)
	if err != nil {
		return err
	}
	masters := e.o.functionMasters()
	for _, other := range masters {
		theirs, err := e.node(other).Libraries(ctx)
		if err != nil {
			return err
		}
		if name := differentLibrary(libraries, theirs); name != "" {
			return fmt.Errorf("%s and %s do not have the same code of the library %s: load it on all masters", from.Name, other.Name, name)
		}
	}
	if err := e.node(to).RestoreFunctions(ctx, dump); err != nil {
		return err
	}
	for _, other := range masters {
		left, err := e.node(other).Libraries(ctx)
		if err != nil {
			return err
		}
		maps.DeleteFunc(libraries, func(name, _ string) bool { return left[name] != "" })
	}
	if len(libraries) == 0 {
		return nil
	}
	copied, err := e.node(to).Libraries(ctx)
	if err != nil {
		return err
	}
	for name, code := range libraries {
		if copied[name] != code {
			continue
		}
		if err := e.node(to).DeleteLibrary(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
