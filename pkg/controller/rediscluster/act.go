// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/redisnode"
)

const (
	// maxMoveTime is the maximum time for which a sync moves slots. Then the next sync observes the cluster again.
	maxMoveTime = 2 * time.Second
	// migrateTimeout is how long Redis may take to send keys: Redis serves no client meanwhile.
	migrateTimeout = 5 * time.Second
	// maxKeysAtOnce is the maximum number of keys that one command sends, for the same reason.
	maxKeysAtOnce = 32
	// maxHearingTime is how long the operator waits until the old owner of slots has learned of the new owner. The old owner
	// mostly learns at once. hearingPoll is how often the operator asks the old owner.
	maxHearingTime = time.Second
	hearingPoll    = 2 * time.Millisecond
)

// outcome is the result of writes.
type outcome struct {
	wrote    bool      // whether the caches do not show a write yet
	problems []problem // for the status
	wait     time.Duration
}

// executor carries out the commands of one plan.
type executor struct {
	*Controller
	o        *observed
	step     string           // the purpose of the commands, for events
	verified map[*member]bool // the members that verify has checked
}

// act carries out the plan and returns when to sync again. First it runs the upkeep, even if some of it fails. Each of the
// other commands may depend on those before it, so act stops at the first error. It also stops, without an error, at an
// eviction that the PodDisruptionBudget does not allow yet. It replaces a Pod only if the new Pod can mount the operator's password.
func (c *Controller) act(ctx context.Context, o *observed, p plan) (outcome, error) {
	e := executor{Controller: c, o: o, step: p.step, verified: map[*member]bool{}}
	err := e.runUpkeep(ctx, p.upkeep)
	wait, evictionRefused, commands := p.wait, "", p.commands
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
	c.sessions.get(o.rdc).recordResult(p, evictionRefused, err, c.clock.Now())
	return outcome{wait: wait}, err
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

// alwaysLogged holds the commands that can cost data or availability. The log shows them at any verbosity.
var alwaysLogged = []verb{deleteClaim, deletePod, evictPod, forget, failover, startRestore}

// run carries out one command.
func (e executor) run(ctx context.Context, c command) error {
	logger := klog.FromContext(ctx)
	if !slices.Contains(alwaysLogged, c.verb) {
		logger = logger.V(2)
	}
	logger.Info("Acting", "command", c.String(), "reason", e.step)
	if err := e.dispatch(ctx, c); err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return nil
}

func (e executor) dispatch(ctx context.Context, c command) error {
	switch c.verb {
	case createClaim:
		return e.createClaim(ctx, c.on)
	case growClaim:
		return e.growClaim(ctx, c.on)
	case deleteClaim:
		return e.deleteClaim(ctx, c.on)
	case createPod:
		return e.createPod(ctx, c.on)
	case deletePod:
		return e.deletePod(ctx, c.on)
	case evictPod:
		return e.evictPod(ctx, c.on)
	case meet:
		return e.meet(ctx, c.on, c.peer)
	case forget:
		return e.node(c.on).Forget(ctx, c.id)
	case addSlots:
		return e.addSlots(ctx, c.on, c.slots)
	case replicate:
		return e.node(c.on).Replicate(ctx, c.peer.id)
	case failover:
		return e.failover(ctx, c.on, c.how)
	case copyFunctions:
		return e.copyFunctions(ctx, c.on, c.peer)
	case moveSlots:
		return e.moveSlots(ctx, c.on, c.peer, c.slots)
	case openSlots:
		return e.node(c.on).SetSlots(ctx, c.slots, redisnode.SlotMigrating, c.peer.id)
	case resumeMove:
		return e.resumeMove(ctx, c.on, c.slots)
	case setUsers:
		return e.setUsers(ctx, c.on, c.names)
	case recordTLS:
		return e.recordTLS(ctx, c.on, c.names[0])
	case switchTLS:
		return e.switchTLS(ctx, c.names)
	case endSwitch:
		return e.endSwitch(ctx, c.names)
	case loadCertificate:
		return e.loadCertificate(ctx, c.on)
	case labelPod:
		return e.labelPod(ctx, c.on)
	case announce:
		return e.announce(ctx, c.on, addressIn(c.names[0]))
	case giveUpAddress:
		return e.giveUpAddress(ctx, c.on, addressIn(c.names[0]))
	case deleteService:
		return e.deleteService(ctx, c.names[0])
	case createAccount:
		return e.createAccount(ctx)
	case setDirectives:
		return e.setDirectives(ctx, c.on, c.names)
	case startBackup, startRestore, deleteJob:
		return e.changeJob(ctx, c)
	case closeSlots:
		return e.node(c.on).SetSlots(ctx, c.slots, redisnode.SlotStable, "")
	}
	return fmt.Errorf("unknown command %q", c.verb)
}

// node returns the connection to a member that answers.
func (e executor) node(m *member) Node { return e.sessions.node(e.o.rdc, m.pod) }

// key returns the key of the RedisCluster.
func (e executor) key() cache.ObjectName { return cache.MetaObjectToName(e.o.rdc) }

// purpose returns why the commands are carried out, for events.
func (e executor) purpose() string {
	if e.step == "" {
		return "it is not needed"
	}
	return e.step
}

// meet introduces one member to another. If a node of another cluster has one of the addresses now, the two clusters would
// merge, and one of them would lose its data. So meet first verifies both members.
func (e executor) meet(ctx context.Context, on, peer *member) error {
	for _, m := range []*member{on, peer} {
		if err := e.verify(ctx, m); err != nil {
			return err
		}
	}
	at := peer.own()
	return e.node(on).Meet(ctx, at.IP, peer.port(), at.Bus)
}

// verify asks the API server and the node again. It returns an error unless the member's Pod still has its address, the
// observed node answers there, and that node knows only nodes of this cluster and its own master, which may be lost.
func (e executor) verify(ctx context.Context, m *member) error {
	if e.verified[m] {
		return nil
	}
	live, err := e.podClient().Get(ctx, m.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get Pod %s: %w", m.name, err)
	}
	if live.UID != m.pod.UID || live.Status.PodIP != m.ip() || live.DeletionTimestamp != nil {
		return fmt.Errorf("the Pod %s was replaced in the meantime", m.name)
	}
	view, err := e.view(ctx, m)
	if err != nil {
		return err
	}
	if view.ID != m.id {
		return fmt.Errorf("the node of %s was replaced in the meantime", m.name)
	}
	for _, entry := range view.Table {
		if !entry.Handshake && e.o.byID[entry.ID] == nil && !m.isReplicaOf(entry.ID) {
			return fmt.Errorf("%s knows a node that belongs to no Pod of this cluster: %s", m.name, describe(&entry))
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
func (e executor) addSlots(ctx context.Context, m *member, slots redisnode.Slots) error {
	err := e.node(m).AddSlots(ctx, slots)
	if err == nil || !strings.Contains(err.Error(), "already busy") {
		return err
	}
	for _, other := range e.o.answering() {
		if other == m || !other.view.Master || m.entry(other.id) == nil {
			continue
		}
		if err := e.node(m).SetSlots(ctx, slots, redisnode.SlotImporting, other.id); err != nil {
			return err
		}
		return e.node(m).SetSlots(ctx, slots, redisnode.SlotNode, m.id)
	}
	return err
}

// resumeMove resumes moves whose target is lost. A former replica of the target, now a master, may have keys of the slots.
// resumeMove marks these slots as migrating to that master. If no other master has such keys, it removes the marks.
func (e executor) resumeMove(ctx context.Context, from *member, slots redisnode.Slots) error {
	for _, m := range e.o.answering() {
		if m == from || !m.view.Master || from.entry(m.id) == nil {
			continue
		}
		keys, err := e.node(m).Keys(ctx, slots, 1)
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			found := redisnode.NewSlots(slices.Collect(maps.Keys(keys))...)
			return e.node(from).SetSlots(ctx, found, redisnode.SlotMigrating, m.id)
		}
	}
	return e.node(from).SetSlots(ctx, slots, redisnode.SlotStable, "")
}

// moveSlots moves slots and their keys while clients use them: the old owner redirects clients to the new owner for each key
// that has moved. If the move is not finished, a later sync finds its marks and continues the move.
// https://redis.io/docs/latest/commands/cluster-setslot/
func (e executor) moveSlots(ctx context.Context, from, to *member, slots redisnode.Slots) error {
	begun := e.clock.Now()
	source, target, login := e.node(from), e.node(to), e.sessions.get(e.o.rdc).loginTo(to.pod)
	if err := mark(ctx, target, slots, redisnode.SlotImporting, to.self().Importing, from.id); err != nil {
		return err
	}
	if err := mark(ctx, source, slots, redisnode.SlotMigrating, from.self().Migrating, to.id); err != nil {
		return err
	}
	for {
		keys, err := source.Keys(ctx, slots, maxKeysAtOnce)
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		for _, some := range keys {
			if err := source.Migrate(ctx, to.ip(), to.port(), login, migrateTimeout, some); err != nil {
				return err
			}
			if e.clock.Since(begun) > maxMoveTime {
				return nil // The marks remain.
			}
		}
	}
	if err := target.SetSlots(ctx, slots, redisnode.SlotNode, to.id); err != nil {
		return err
	}
	return e.waitUntilHeard(ctx, source, slots)
}

// waitUntilHeard waits until the new owner has told the old owner that it has the slots. Then it removes the marks of the
// old owner. The operator does not tell the old owner itself: it would do so slot by slot. Then the old owner would conclude
// that the new owner has given up the other slots, and would believe any claim for them, however old. Meanwhile the old
// owner has no keys of the slots, and redirects clients to the new owner.
func (e executor) waitUntilHeard(ctx context.Context, source Node, slots redisnode.Slots) error {
	for begun := e.clock.Now(); e.clock.Since(begun) < maxHearingTime; {
		view, err := source.View(ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(view.Table, func(entry redisnode.Entry) bool { return entry.Myself && entry.Slots.Intersect(slots).Len() > 0 }) {
			return source.SetSlots(ctx, slots, redisnode.SlotStable, "")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(hearingPoll):
		}
	}
	return nil // A later sync removes the marks: see finishMoves.
}

// mark marks those slots that are not marked yet.
func mark(ctx context.Context, node Node, slots redisnode.Slots, how redisnode.SlotState, marks map[int]string, id string) error {
	var marked []int
	for slot, with := range marks {
		if with == id {
			marked = append(marked, slot)
		}
	}
	slots = slots.Without(redisnode.NewSlots(marked...))
	if slots.Len() == 0 {
		return nil
	}
	return node.SetSlots(ctx, slots, how, id)
}

// copyFunctions copies the functions of one master to a new one, if all masters with slots have the same code. It reads the
// code only now, since code can be large. If no master has a library any more after the copy, a user has deleted the library
// meanwhile. Then copyFunctions also deletes it from the new master, unless a user has loaded other code there.
func (e executor) copyFunctions(ctx context.Context, to, from *member) error {
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
			return fmt.Errorf("%s and %s do not have the same code of the library %s: load it on all masters", from.name, other.name, name)
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
