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

// actor carries out the commands of one sync.
type actor struct {
	*Controller
	o        *observed
	mine     *session
	step     string           // what the commands are for
	verified map[*member]bool // by verify
}

// act carries the commands out, in their order, and returns when to look again. Of the
// upkeep, each is tried. Of the others, an error ends it: what comes next may rely on what
// failed. So does an eviction that is not allowed yet, which is no error.
func (a actor) act(ctx context.Context, next plan) (time.Duration, error) {
	var errs []error
	failed := map[*member]bool{} // A Pod whose claim is somebody else's must not be made.
	for _, command := range next.upkeep {
		if failed[command.on] {
			continue
		}
		err := a.try(ctx, command)
		failed[command.on] = err != nil
		errs = append(errs, err)
	}
	a.mine.held = ""
	for _, command := range next.commands {
		err := a.try(ctx, command)
		if held, ok := errors.AsType[heldError](err); ok {
			a.mine.held = held.message
			return held.wait, errors.Join(errs...)
		}
		if err != nil {
			errs = append(errs, err)
			break
		}
	}
	return next.wait, errors.Join(errs...)
}

func (a actor) try(ctx context.Context, c command) error {
	klog.FromContext(ctx).V(2).Info("Acting", "command", c.String())
	if err := a.carryOut(ctx, c); err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return nil
}

func (a actor) carryOut(ctx context.Context, c command) error {
	switch c.verb {
	case createClaim:
		return a.createClaim(ctx, c.on)
	case growClaim:
		return a.growClaim(ctx, c.on)
	case deleteClaim:
		return a.deleteClaim(ctx, c.on)
	case createPod:
		return a.createPod(ctx, c.on)
	case deletePod:
		return a.deletePod(ctx, c.on)
	case evictPod:
		return a.evictPod(ctx, c.on)
	case meet:
		return a.meet(ctx, c.on, c.peer)
	case forget:
		return a.node(c.on).Forget(ctx, c.id)
	case addSlots:
		return a.addSlots(ctx, c.on, c.slots)
	case replicate:
		return a.node(c.on).Replicate(ctx, c.peer.id)
	case failover:
		return a.failover(ctx, c)
	case copyFunctions:
		return a.copyFunctions(ctx, c.on, c.peer)
	case moveSlots:
		return a.move(ctx, c.on, c.peer, c.slots)
	case openSlots:
		return a.node(c.on).SetSlots(ctx, c.slots, redisnode.SlotMigrating, c.peer.id)
	case reunite:
		return a.reunite(ctx, c.on, c.slots)
	case closeSlots:
		return a.node(c.on).SetSlots(ctx, c.slots, redisnode.SlotStable, "")
	}
	return fmt.Errorf("unknown command %q", c.verb)
}

// node returns the connection to a member that answers.
func (a actor) node(m *member) Node {
	port, _ := ports(a.o.rdc)
	return a.sessions.node(a.mine, m.pod, listens(m.pod, port))
}

func (a actor) key() cache.ObjectName { return cache.MetaObjectToName(a.o.rdc) }

func (a actor) createClaim(ctx context.Context, m *member) error {
	made, err := a.kube.CoreV1().PersistentVolumeClaims(a.o.rdc.Namespace).
		Create(ctx, claim(a.o.rdc, m.ordinal), metav1.CreateOptions{FieldManager: glassback.Name})
	if apierrors.IsAlreadyExists(err) {
		return takenError("PersistentVolumeClaim " + claimName(a.o.rdc, m.ordinal))
	}
	if err != nil {
		return err
	}
	a.written.Record(a.key(), "create persistentvolumeclaims", a.claimCache, made)
	return nil
}

// growClaim asks for a larger volume.
func (a actor) growClaim(ctx context.Context, m *member) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": m.claim.UID, "resourceVersion": m.claim.ResourceVersion},
		"spec":     map[string]any{"resources": map[string]any{"requests": corev1.ResourceList{corev1.ResourceStorage: a.o.rdc.Spec.Storage.Size}}},
	})
	if err != nil {
		return err
	}
	grown, err := a.kube.CoreV1().PersistentVolumeClaims(a.o.rdc.Namespace).
		Patch(ctx, m.claim.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: glassback.Name})
	if err != nil {
		return err
	}
	a.written.Record(a.key(), "patch persistentvolumeclaims", a.claimCache, grown)
	return nil
}

// deleteClaim deletes exactly the claim that was seen. It stays until its Pod is gone.
func (a actor) deleteClaim(ctx context.Context, m *member) error {
	if m.claim.DeletionTimestamp != nil {
		return nil
	}
	err := a.kube.CoreV1().PersistentVolumeClaims(a.o.rdc.Namespace).
		Delete(ctx, m.claim.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &m.claim.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	a.written.RecordDelete(a.key(), "delete persistentvolumeclaims", a.claimCache, m.claim)
	return nil
}

func (a actor) createPod(ctx context.Context, m *member) error {
	made, err := a.kube.CoreV1().Pods(a.o.rdc.Namespace).Create(ctx, pod(a.o.rdc, m.ordinal), metav1.CreateOptions{FieldManager: glassback.Name})
	if apierrors.IsAlreadyExists(err) {
		return takenError("Pod " + m.name)
	}
	if err != nil {
		return err
	}
	a.written.Record(a.key(), "create pods", a.podCache, made)
	return nil
}

// deletePod deletes exactly the Pod that was seen. One that is not ready, it deletes as
// long as that is so: the PodDisruptionBudget counts on a Pod that has become ready.
func (a actor) deletePod(ctx context.Context, m *member) error {
	exactly := &metav1.Preconditions{UID: ptr.To(m.pod.UID)}
	if !isReady(m.pod) {
		exactly.ResourceVersion = ptr.To(m.pod.ResourceVersion)
	}
	err := a.kube.CoreV1().Pods(a.o.rdc.Namespace).Delete(ctx, m.name, metav1.DeleteOptions{Preconditions: exactly})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	a.deleted(m, "delete pods")
	return nil
}

// deleted notes that a Pod was deleted, and by what.
func (a actor) deleted(m *member, by string) {
	a.written.RecordDelete(a.key(), by, a.podCache, m.pod)
	a.recorder.Eventf(a.o.rdc, corev1.EventTypeNormal, "PodDeleted", "Deleted Pod %s: %s", m.name, a.why())
}

// why is the step that is being carried out.
func (a actor) why() string {
	if a.step == "" {
		return "it is not needed"
	}
	return a.step
}

// meet introduces one member to another. It is the one command that could reach somebody
// else's node, if the address has passed on: two clusters would become one, and one of
// them would lose everything. So both are looked at again, at the source.
func (a actor) meet(ctx context.Context, on, peer *member) error {
	for _, m := range []*member{on, peer} {
		if err := a.verify(ctx, m); err != nil {
			return err
		}
	}
	self := peer.self()
	return a.node(on).Meet(ctx, peer.ip(), self.Port, self.BusPort)
}

// verify makes sure that the member's Pod still has its address, and that the node there
// is the one that was seen.
func (a actor) verify(ctx context.Context, m *member) error {
	if a.verified[m] {
		return nil
	}
	live, err := a.kube.CoreV1().Pods(a.o.rdc.Namespace).Get(ctx, m.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get Pod %s: %w", m.name, err)
	}
	if live.UID != m.pod.UID || live.Status.PodIP != m.ip() || live.DeletionTimestamp != nil {
		return fmt.Errorf("the Pod %s is another one by now", m.name)
	}
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	view, err := a.node(m).View(ctx)
	if err != nil {
		return err
	}
	if view.ID != m.id {
		return fmt.Errorf("the node of %s is another one by now", m.name)
	}
	for _, e := range view.Table {
		if !e.Handshake && a.o.byID[e.ID] == nil && !m.follows(e.ID) {
			return fmt.Errorf("%s knows a node that is none of this cluster's Pods: %s", m.name, describe(&e))
		}
	}
	a.verified[m] = true
	return nil
}

func (a actor) failover(ctx context.Context, c command) error {
	if err := a.node(c.on).Failover(ctx, c.how); err != nil {
		return err
	}
	a.mine.since["promoted "+c.on.name] = a.clock.Now()
	a.recorder.Eventf(a.o.rdc, corev1.EventTypeNormal, "Failover", "%s", a.why())
	return nil
}

// addSlots gives slots to a member that nobody has. If the nodes believe that somebody
// has them who does not, Redis refuses. Then it has the member import them, from whomever.
func (a actor) addSlots(ctx context.Context, m *member, slots redisnode.Slots) error {
	err := a.node(m).AddSlots(ctx, slots)
	if err == nil || !strings.Contains(err.Error(), "already busy") {
		return err
	}
	for _, other := range a.o.answering() {
		if other == m || !other.view.Master || m.entry(other.id) == nil {
			continue
		}
		if err := a.node(m).SetSlots(ctx, slots, redisnode.SlotImporting, other.id); err != nil {
			return err
		}
		return a.node(m).SetSlots(ctx, slots, redisnode.SlotNode, m.id)
	}
	return err
}

// reunite marks slots as on the move to whoever has keys of them, if anybody but their
// owner does: a replica of the master that they were on the move to. Otherwise they stay.
func (a actor) reunite(ctx context.Context, from *member, slots redisnode.Slots) error {
	for _, m := range a.o.answering() {
		if m == from || !m.view.Master || from.entry(m.id) == nil {
			continue
		}
		keys, err := a.node(m).Keys(ctx, slots, 1)
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			found := redisnode.NewSlots(slices.Collect(maps.Keys(keys))...)
			return a.node(from).SetSlots(ctx, found, redisnode.SlotMigrating, m.id)
		}
	}
	return a.node(from).SetSlots(ctx, slots, redisnode.SlotStable, "")
}

// move moves slots, and the keys in them, while clients go on: a key that is not here any
// more, they are sent to ask for there. What is not finished is found by its marks, and
// gone on with.
// https://redis.io/docs/latest/commands/cluster-setslot/
func (a actor) move(ctx context.Context, from, to *member, slots redisnode.Slots) error {
	began := a.clock.Now()
	source, target := a.node(from), a.node(to)
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
			if err := source.Migrate(ctx, to.ip(), to.port(), a.mine.password, migrateTimeout, some); err != nil {
				return err
			}
		}
		if a.clock.Since(began) > moveBudget {
			return nil // The marks say what is left.
		}
	}
	if err := target.SetSlots(ctx, slots, redisnode.SlotNode, to.id); err != nil {
		return err
	}
	return a.hears(ctx, source, slots)
}

// hears waits until the node has heard from the new owner that it has the slots, and then
// removes its marks. It is not told: of what the new owner says in the meantime, slot by
// slot, it would conclude that the owner has given up those that are not yet among them,
// and take a claim for them from anybody, however old. Until it has heard, it sends who
// asks to the new owner, since it has no keys.
func (a actor) hears(ctx context.Context, node Node, slots redisnode.Slots) error {
	for began := a.clock.Now(); a.clock.Since(began) < hearingTimeout; {
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
