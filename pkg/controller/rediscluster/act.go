/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/redisnode"
)

const (
	// moveBudget is how long a sync moves slots at most before it looks around again.
	moveBudget = 2 * time.Second
	// migrateTimeout is how long Redis may be busy with sending keys: it serves nobody
	// until then.
	migrateTimeout = 5 * time.Second
	// hearingTimeout is how long the old owner of slots may take to hear of the new one,
	// which it mostly does at once. hearingPoll is how often it is asked.
	hearingTimeout = time.Second
	hearingPoll    = 2 * time.Millisecond
	// keysAtOnce is how many keys are sent at once, for the same reason.
	keysAtOnce = 32
)

// executor carries out the commands of one plan.
type executor struct {
	*Controller
	o        *observed
	step     string           // what the commands are for
	verified map[*member]bool // by verify
}

// act carries out the commands of the plan, in their order, and returns when to look again. Of the
// upkeep, each is tried. Of the others, an error ends it: what comes next may rely on what
// failed. So does an eviction that is not allowed yet, which is no error.
func (c *Controller) act(ctx context.Context, o *observed, p plan) (outcome, error) {
	e := executor{Controller: c, o: o, step: p.step, verified: map[*member]bool{}}
	err := e.upkeep(ctx, p.upkeep)
	wait, held := p.wait, ""
	for _, command := range p.commands {
		failure := e.try(ctx, command)
		if refused, ok := errors.AsType[heldError](failure); ok {
			wait, held = refused.wait, refused.message
			break
		}
		if failure != nil {
			err = errors.Join(err, failure)
			break
		}
	}
	c.sessions.of(o.rdc).acts(p, held, err, c.clock.Now())
	return outcome{wait: wait}, err
}

// upkeep tries each of the commands, but none for a member of which one has failed: a Pod whose
// claim is somebody else's must not be made.
func (e executor) upkeep(ctx context.Context, commands []command) error {
	var errs []error
	failed := map[*member]bool{}
	for _, command := range commands {
		if failed[command.on] {
			continue
		}
		err := e.try(ctx, command)
		failed[command.on] = err != nil
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (e executor) try(ctx context.Context, c command) error {
	klog.FromContext(ctx).V(2).Info("Acting", "command", c.String())
	if err := e.carryOut(ctx, c); err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return nil
}

func (e executor) carryOut(ctx context.Context, c command) error {
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
		return e.failover(ctx, c)
	case copyFunctions:
		return e.copyFunctions(ctx, c.on, c.peer)
	case moveSlots:
		return e.move(ctx, c.on, c.peer, c.slots)
	case openSlots:
		return e.node(c.on).SetSlots(ctx, c.slots, redisnode.SlotMigrating, c.peer.id)
	case reunite:
		return e.reunite(ctx, c.on, c.slots)
	case closeSlots:
		return e.node(c.on).SetSlots(ctx, c.slots, redisnode.SlotStable, "")
	}
	return fmt.Errorf("unknown command %q", c.verb)
}

// node returns the connection to a member that answers.
func (e executor) node(m *member) Node {
	return e.sessions.node(e.o.rdc, m.pod)
}

func (e executor) key() cache.ObjectName { return cache.MetaObjectToName(e.o.rdc) }

func (e executor) createClaim(ctx context.Context, m *member) error {
	made, err := e.kube.CoreV1().PersistentVolumeClaims(e.o.rdc.Namespace).
		Create(ctx, claim(e.o.rdc, m.ordinal), metav1.CreateOptions{FieldManager: glassback.Name})
	if apierrors.IsAlreadyExists(err) {
		return takenError("PersistentVolumeClaim " + claimName(e.o.rdc, m.ordinal))
	}
	if err != nil {
		return err
	}
	e.written.Record(e.key(), "create persistentvolumeclaims", e.claimCache, made)
	return nil
}

// growClaim asks for a larger volume.
func (e executor) growClaim(ctx context.Context, m *member) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": m.claim.UID, "resourceVersion": m.claim.ResourceVersion},
		"spec":     map[string]any{"resources": map[string]any{"requests": corev1.ResourceList{corev1.ResourceStorage: e.o.rdc.Spec.Storage.Size}}},
	})
	if err != nil {
		return err
	}
	grown, err := e.kube.CoreV1().PersistentVolumeClaims(e.o.rdc.Namespace).
		Patch(ctx, m.claim.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: glassback.Name})
	if err != nil {
		return err
	}
	e.written.Record(e.key(), "patch persistentvolumeclaims", e.claimCache, grown)
	return nil
}

// deleteClaim deletes exactly the claim that was seen. It stays until its Pod is gone.
func (e executor) deleteClaim(ctx context.Context, m *member) error {
	if m.claim.DeletionTimestamp != nil {
		return nil
	}
	err := e.kube.CoreV1().PersistentVolumeClaims(e.o.rdc.Namespace).
		Delete(ctx, m.claim.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &m.claim.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	e.written.RecordDelete(e.key(), "delete persistentvolumeclaims", e.claimCache, m.claim)
	return nil
}

func (e executor) createPod(ctx context.Context, m *member) error {
	made, err := e.kube.CoreV1().Pods(e.o.rdc.Namespace).Create(ctx, pod(e.o.rdc, m.ordinal), metav1.CreateOptions{FieldManager: glassback.Name})
	if apierrors.IsAlreadyExists(err) {
		return takenError("Pod " + m.name)
	}
	if err != nil {
		return err
	}
	e.written.Record(e.key(), "create pods", e.podCache, made)
	return nil
}

// deletePod deletes exactly the Pod that was seen. One that is not ready, it deletes as
// long as that is so: the PodDisruptionBudget counts on a Pod that has become ready.
func (e executor) deletePod(ctx context.Context, m *member) error {
	exactly := &metav1.Preconditions{UID: ptr.To(m.pod.UID)}
	if !isReady(m.pod) {
		exactly.ResourceVersion = ptr.To(m.pod.ResourceVersion)
	}
	err := e.kube.CoreV1().Pods(e.o.rdc.Namespace).Delete(ctx, m.name, metav1.DeleteOptions{Preconditions: exactly})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	e.deleted(m, "delete pods")
	return nil
}

// deleted notes that a Pod was deleted, and by what.
func (e executor) deleted(m *member, by string) {
	e.written.RecordDelete(e.key(), by, e.podCache, m.pod)
	e.recorder.Eventf(e.o.rdc, corev1.EventTypeNormal, "PodDeleted", "Deleted Pod %s: %s", m.name, e.why())
}

// why is the step that is being carried out.
func (e executor) why() string {
	if e.step == "" {
		return "it is not needed"
	}
	return e.step
}

// meet introduces one member to another. It is the one command that could reach somebody
// else's node, if the address has passed on: two clusters would become one, and one of
// them would lose everything. So both are looked at again, at the source.
func (e executor) meet(ctx context.Context, on, peer *member) error {
	for _, m := range []*member{on, peer} {
		if err := e.verify(ctx, m); err != nil {
			return err
		}
	}
	self := peer.self()
	return e.node(on).Meet(ctx, peer.ip(), self.Port, self.BusPort)
}

// verify makes sure that the member's Pod still has its address, and that the node there
// is the one that was seen.
func (e executor) verify(ctx context.Context, m *member) error {
	if e.verified[m] {
		return nil
	}
	live, err := e.kube.CoreV1().Pods(e.o.rdc.Namespace).Get(ctx, m.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get Pod %s: %w", m.name, err)
	}
	if live.UID != m.pod.UID || live.Status.PodIP != m.ip() || live.DeletionTimestamp != nil {
		return fmt.Errorf("the Pod %s is another one by now", m.name)
	}
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	view, err := e.node(m).View(ctx)
	if err != nil {
		return err
	}
	if view.ID != m.id {
		return fmt.Errorf("the node of %s is another one by now", m.name)
	}
	for _, entry := range view.Table {
		if !entry.Handshake && e.o.byID[entry.ID] == nil && !m.follows(entry.ID) {
			return fmt.Errorf("%s knows a node that is none of this cluster's Pods: %s", m.name, describe(&entry))
		}
	}
	e.verified[m] = true
	return nil
}

func (e executor) failover(ctx context.Context, c command) error {
	if err := e.node(c.on).Failover(ctx, c.how); err != nil {
		return err
	}
	e.sessions.of(e.o.rdc).since["promoted "+c.on.name] = e.clock.Now()
	e.recorder.Eventf(e.o.rdc, corev1.EventTypeNormal, "Failover", "%s", e.why())
	return nil
}

// addSlots gives slots to a member that nobody has. If the nodes believe that somebody
// has them who does not, Redis refuses. Then it has the member import them, from whomever.
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

// reunite marks slots as on the move to whoever has keys of them, if anybody but their
// owner does: a replica of the master that they were on the move to. Otherwise they stay.
func (e executor) reunite(ctx context.Context, from *member, slots redisnode.Slots) error {
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

// move moves slots, and the keys in them, while clients go on: a key that is not here any
// more, they are sent to ask for there. What is not finished is found by its marks, and
// gone on with.
// https://redis.io/docs/latest/commands/cluster-setslot/
func (e executor) move(ctx context.Context, from, to *member, slots redisnode.Slots) error {
	began := e.clock.Now()
	source, target, password := e.node(from), e.node(to), e.sessions.of(e.o.rdc).password
	if err := mark(ctx, target, slots, redisnode.SlotImporting, to.self().Importing, from.id); err != nil {
		return err
	}
	if err := mark(ctx, source, slots, redisnode.SlotMigrating, from.self().Migrating, to.id); err != nil {
		return err
	}
	for {
		keys, err := source.Keys(ctx, slots, keysAtOnce)
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		for _, some := range keys {
			if err := source.Migrate(ctx, to.ip(), to.port(), password, migrateTimeout, some); err != nil {
				return err
			}
		}
		if e.clock.Since(began) > moveBudget {
			return nil // The marks say what is left.
		}
	}
	if err := target.SetSlots(ctx, slots, redisnode.SlotNode, to.id); err != nil {
		return err
	}
	return e.hears(ctx, source, slots)
}

// hears waits until the node has heard from the new owner that it has the slots, and then
// removes its marks. It is not told: of what the new owner says in the meantime, slot by
// slot, it would conclude that the owner has given up those that are not yet among them,
// and take a claim for them from anybody, however old. Until it has heard, it sends who
// asks to the new owner, since it has no keys.
func (e executor) hears(ctx context.Context, node Node, slots redisnode.Slots) error {
	for began := e.clock.Now(); e.clock.Since(began) < hearingTimeout; {
		view, err := node.View(ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(view.Table, func(e redisnode.Entry) bool { return e.Myself && e.Slots.Intersect(slots).Len() > 0 }) {
			return node.SetSlots(ctx, slots, redisnode.SlotStable, "")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(hearingPoll):
		}
	}
	return nil // See open.
}

// mark opens those of the slots that are not yet open so.
func mark(ctx context.Context, node Node, slots redisnode.Slots, how redisnode.SlotState, open map[int]string, id string) error {
	var marked []int
	for slot, with := range open {
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

// takenError says that a name is taken, as far as the caches show by somebody else. It is
// theirs that are behind, or it is an object without the label of this RedisCluster.
type takenError string

func (e takenError) Error() string {
	return string(e) + " exists already, and does not have the labels of this RedisCluster: rename or delete one of the two"
}
