/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	klabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

// viewTimeout is how long a node has to answer. Those that do not are not waited for any
// longer: the others may need help.
const viewTimeout = 2 * time.Second

// observe asks every node what it knows, and fills that in. It asks nobody else.
func (c *Controller) observe(ctx context.Context, o *observed, mine *session) error {
	var refusal errNoPassword
	switch err := c.sessions.authenticate(ctx, o.rdc, mine); {
	case err == nil:
		c.ask(ctx, o, mine)
	case errors.As(err, &refusal):
		o.problems = append(o.problems, problem{reasonNoPassword, refusal.Error()})
	case apierrors.IsNotFound(err):
		o.problems = append(o.problems, problem{reasonNoPassword,
			fmt.Sprintf("Secret %s, which is to have the password, does not exist: create it", o.rdc.Spec.AuthSecretRef.Name)})
	default:
		return err
	}
	o.identify()
	o.merge()
	mine.begin()
	for _, m := range o.members {
		if !m.answers() {
			m.silent = mine.lasting("silent "+m.name, o.now)
		}
		if at, ok := mine.since["promoted "+m.name]; ok && o.now.Sub(at) < failoverPatience {
			m.promoted = mine.lasting("promoted "+m.name, o.now)
		}
	}
	for _, n := range o.unknown() {
		n.suspect = mine.lasting("suspect "+n.ID, o.now)
	}
	mine.misses(o)
	mine.links(o)
	if o.functionsDiffer() != "" {
		o.differing = mine.lasting("functions differ", o.now)
	}
	if o.assigned().Len() < redisnode.SlotCount {
		o.unassigned = mine.lasting("unassigned", o.now)
	}
	o.held = mine.held
	if mine.failure != nil {
		lasting := mine.lasting(failing, o.now)
		var taken takenError
		var budgets budgetsError
		switch {
		case errors.As(mine.failure, &taken):
			o.failure = &problem{reasonConflict, taken.Error()}
		case errors.As(mine.failure, &budgets):
			o.failure = &problem{reasonBudgets, budgets.Error()}
		case lasting > failingTooLong:
			o.failure = &problem{reasonFailing, cause(mine.failure)}
		}
	}
	mine.end()
	o.empties()
	return nil
}

// failing is what lasts while commands fail.
const failing = "failing"

// gather finds the members, by what the caches show of Pods and their volumes.
func (c *Controller) gather(rdc *v1.RedisCluster) (*observed, error) {
	o := &observed{rdc: rdc, now: c.clock.Now(), revisions: map[string]bool{}}
	if was := meta.FindStatusCondition(rdc.Status.Conditions, v1.ConditionClusterFormed); was != nil {
		o.formed = was.Status == metav1.ConditionTrue || was.Reason != reasonForming
	}
	these := klabels.SelectorFromSet(klabels.Set{v1.LabelRedisCluster: rdc.Name})
	pods, err := c.pods.Pods(rdc.Namespace).List(these)
	if err != nil {
		return nil, fmt.Errorf("list Pods of RedisCluster %s: %w", rdc.Name, err)
	}
	claims, err := c.claims.PersistentVolumeClaims(rdc.Namespace).List(these)
	if err != nil {
		return nil, fmt.Errorf("list PersistentVolumeClaims of RedisCluster %s: %w", rdc.Name, err)
	}
	byOrdinal := map[int]*member{}
	at := func(ordinal int) *member {
		if byOrdinal[ordinal] == nil {
			byOrdinal[ordinal] = &member{name: podName(rdc, ordinal), ordinal: ordinal}
		}
		return byOrdinal[ordinal]
	}
	for ordinal := range int(*rdc.Spec.Size) {
		at(ordinal)
	}
	counted := klabels.SelectorFromSet(selector(rdc))
	for _, p := range pods {
		o.revisions[p.Annotations[AnnotationRevision]] = true
		if counted.Matches(klabels.Set(p.Labels)) {
			o.pods++
		}
		ordinal, ok := ordinalOf(rdc.Name+"-", p.Name)
		switch {
		case !ok:
		case metav1.IsControlledBy(p, rdc):
			at(ordinal).pod = p
		case ordinal < int(*rdc.Spec.Size):
			at(ordinal).taken = true
			o.problems = append(o.problems, problem{reasonConflict,
				fmt.Sprintf("Pod %s exists already, and is not of this RedisCluster: rename or delete one of the two", p.Name)})
		}
	}
	for _, claim := range claims {
		ordinal, ok := ordinalOf("data-"+rdc.Name+"-", claim.Name)
		if !ok || rdc.Spec.Storage == nil {
			continue
		}
		// One that is too many, and is on its way out with its Pod gone, was emptied before.
		if byOrdinal[ordinal] != nil || claim.DeletionTimestamp == nil {
			at(ordinal).claim = claim
		}
	}
	o.members = slices.SortedFunc(maps.Values(byOrdinal), func(a, b *member) int { return cmp.Compare(a.ordinal, b.ordinal) })
	o.pods += len(o.those(func(m *member) bool { return m.pod == nil && !m.taken }))
	o.classify()
	return o, nil
}

// classify finds the members that are to leave, and those that are not what the spec says now.
func (o *observed) classify() {
	size, current := int(*o.rdc.Spec.Size), revision(o.rdc)
	replaced := false
	for _, m := range o.members {
		// Of those whose volume somebody has deleted, one at a time.
		going := m.pod != nil && m.claim != nil && m.claim.DeletionTimestamp != nil && !replaced
		m.leaving = going || m.ordinal >= size
		replaced = replaced || going
		m.outdated = m.pod != nil && m.pod.Annotations[AnnotationRevision] != current
	}
}

// ordinalOf returns the ordinal that name has after prefix.
func ordinalOf(prefix, name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	ordinal, err := strconv.Atoi(digits)
	return ordinal, ok && err == nil && strconv.Itoa(ordinal) == digits
}

// ask asks all nodes at once what they know.
func (c *Controller) ask(ctx context.Context, o *observed, mine *session) {
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	port, _ := ports(o.rdc)
	pods := map[types.UID]bool{}
	var asking sync.WaitGroup
	for _, m := range o.members {
		if m.err = unasked(m.pod); m.err != nil {
			continue
		}
		pods[m.pod.UID] = true
		node := c.sessions.node(mine, m.pod, listens(m.pod, port))
		asking.Go(func() { m.view, m.err = node.View(ctx) })
	}
	asking.Wait()
	mine.keep(pods)
	for _, m := range o.members {
		mine.refusedBy(m.err)
		if m.unready = m.pod != nil && unreadyFor(m.pod, o.now) > silentTooLong; m.unready {
			// Perhaps its probe has another password than the connection that is still open.
			mine.refused = true
		}
		if m.view != nil && m.view.Loading {
			m.view, m.err = nil, errors.New("it is loading its data")
		}
	}
}

// unreadyFor returns for how long a Pod that runs has not been ready.
func unreadyFor(pod *corev1.Pod, now time.Time) time.Duration {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && pod.Status.Phase == corev1.PodRunning {
			return now.Sub(c.LastTransitionTime.Time)
		}
	}
	return 0
}

// listens returns the port of a Pod, which is another one than the spec's until it is
// replaced.
func listens(pod *corev1.Pod, port int) int {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == portRedis {
				return int(p.ContainerPort)
			}
		}
	}
	return port
}

// unasked says why there is nobody to ask in a Pod; nil if there is somebody.
func unasked(pod *corev1.Pod) error {
	switch {
	case pod == nil:
		return errors.New("there is no Pod")
	case pod.DeletionTimestamp != nil:
		return errors.New("the Pod is being deleted")
	case pod.Status.PodIP == "" || pod.Status.Phase != corev1.PodRunning:
		return errors.New(waitingFor(pod))
	}
	return nil
}

// waitingFor says what a Pod that does not run waits for.
func waitingFor(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		w := s.State.Waiting
		if w == nil || w.Reason == "" {
			continue
		}
		if ended := s.LastTerminationState.Terminated; ended != nil && ended.Message != "" {
			return w.Reason + ": " + lastWords(ended.Message)
		}
		return strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return strings.TrimSuffix(c.Reason+": "+c.Message, ": ")
		}
	}
	return "the Pod does not run yet"
}

// blinkTime is how long a node may not answer before a cluster in which all is well is
// taken for one in which it is not.
const blinkTime = 3 * time.Second

// blinks returns whether nothing has happened but that nodes, which run, have not answered
// for a moment.
func (o *observed) blinks() bool {
	silent := o.those(func(m *member) bool { return !m.answers() })
	return len(silent) > 0 && o.formed && o.rdc.Status.Operation == nil && o.rdc.Status.ObservedGeneration == o.rdc.Generation &&
		!slices.ContainsFunc(silent, func(m *member) bool {
			return m.silent > blinkTime || unasked(m.pod) != nil || notStarting(m.pod) || errors.Is(m.err, redisnode.ErrPassword)
		})
}

// lastWords is the end of what a container has printed, in one line.
func lastWords(message string) string {
	words := strings.Join(strings.Fields(message), " ")
	const most = 300
	if len(words) > most {
		words = "…" + strings.ToValidUTF8(words[len(words)-most:], "")
	}
	return words
}

// identify gives every member the ID of its node: by its own account, or by the status,
// as long as that can be the same node. Without a volume a Pod's node ends with it.
func (o *observed) identify() {
	for _, m := range o.members {
		if m.answers() {
			m.id = m.view.ID
			continue
		}
		for _, was := range o.rdc.Status.Nodes {
			if was.Pod == m.name && (m.claim != nil || (m.pod != nil && m.pod.Status.PodIP != "" && m.pod.Status.PodIP == was.IP)) {
				m.id = was.ID
			}
		}
	}
	// One whose ID was never noted is found by its address, as the others know it.
	for _, m := range o.members {
		if m.answers() || m.id != "" || m.ip() == "" {
			continue
		}
		for _, other := range o.answering() {
			for _, e := range other.view.Table {
				if !e.Handshake && e.IP == m.ip() {
					m.id = e.ID
				}
			}
		}
	}
}

// empties has a Pod emptied that is to be replaced, and has the only copy of its slots: one
// at a time, and none while another leaves. The one with the fewest slots is the one that
// was being emptied.
func (o *observed) empties() {
	if o.rdc.Spec.Storage != nil || *o.rdc.Spec.ReplicasPerMaster > 0 || len(o.holders()) < 2 ||
		slices.ContainsFunc(o.members, func(m *member) bool { return m.leaving || !m.answers() }) {
		return
	}
	outdated := o.those(func(m *member) bool { return m.outdated })
	if len(outdated) == 0 {
		return
	}
	next := slices.MinFunc(outdated, func(a, b *member) int {
		return cmp.Or(cmp.Compare(o.slots[a.id].Len(), o.slots[b.id].Len()), cmp.Compare(a.ordinal, b.ordinal))
	})
	next.leaving = true
}

// short is an ID as people read it.
func short(id string) string { return id[:min(len(id), 8)] }

// describe is what a node can be told by, in messages.
func describe(e *redisnode.Entry) string {
	return fmt.Sprintf("%s at %s:%d", short(e.ID), e.IP, e.Port)
}
