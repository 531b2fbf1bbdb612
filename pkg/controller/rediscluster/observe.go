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

// observe reads what the caches have of the RedisCluster's Pods and volumes, and asks every node
// what it knows.
func (c *Controller) observe(ctx context.Context, rdc *v1.RedisCluster) (*observed, error) {
	o, err := c.gather(rdc)
	if err != nil {
		return nil, err
	}
	mine := c.sessions.of(rdc)
	if err := c.askNodes(ctx, o, mine); err != nil {
		return nil, err
	}
	o.identify()
	o.merge()
	mine.recall(o)
	return o, nil
}

// askNodes asks every node, if there is a password for it.
func (c *Controller) askNodes(ctx context.Context, o *observed, mine *session) error {
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
	return nil
}

// recall copies into o what is remembered from earlier syncs, and remembers what is seen now.
func (s *session) recall(o *observed) {
	s.begin()
	for _, m := range o.members {
		if !m.answers() {
			m.silent = s.lasting("silent "+m.name, o.now)
		}
		if at, ok := s.since["promoted "+m.name]; ok && o.now.Sub(at) < failoverPatience {
			m.promoted = s.lasting("promoted "+m.name, o.now)
		}
	}
	for _, n := range o.unknown() {
		n.suspect = s.lasting("suspect "+n.ID, o.now)
	}
	s.misses(o)
	s.links(o)
	if o.functionsDiffer() != "" {
		o.differing = s.lasting("functions differ", o.now)
	}
	if o.assigned().Len() < redisnode.SlotCount {
		o.unassigned = s.lasting("unassigned", o.now)
	}
	o.held, o.actedAt = s.held, s.acted
	if s.failure != nil {
		o.failing = s.lasting(failing, o.now)
		var taken takenError
		var budgets budgetsError
		switch {
		case errors.As(s.failure, &taken):
			o.failure = &problem{reasonConflict, taken.Error()}
		case errors.As(s.failure, &budgets):
			o.failure = &problem{reasonBudgets, budgets.Error()}
		default:
			o.failure = &problem{reasonFailing, cause(s.failure)}
		}
	}
	s.end()
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
	o.markOutdated()
	o.uncounted = uncounted(c.budgets.Observe(rdc, rdc.Name).Object, o.pods)
	return o, nil
}

// markOutdated finds the members that are not what the spec says now.
func (o *observed) markOutdated() {
	current := revision(o.rdc)
	for _, m := range o.members {
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
	pods := map[types.UID]bool{}
	var asking sync.WaitGroup
	for _, m := range o.members {
		if m.fails(unasked(m.pod)); m.whySilent != "" {
			continue
		}
		pods[m.pod.UID] = true
		node := c.sessions.node(o.rdc, m.pod)
		asking.Go(func() {
			view, err := node.View(ctx)
			m.view = view
			m.fails(err)
		})
	}
	asking.Wait()
	mine.keep(pods)
	for _, m := range o.members {
		m.unready = unreadyFor(m.pod, o.now)
		// One that is not ready for long: perhaps its probe has another password than the connection
		// that is still open.
		mine.refused = mine.refused || m.refused || m.unready > silentTooLong
		if m.view != nil && m.view.Loading {
			m.view = nil
			m.fails(errors.New("it is loading its data"))
		}
	}
}

// fails notes why the member does not answer; nil if it does.
func (m *member) fails(err error) {
	m.whySilent, m.refused = "", false
	if err != nil {
		m.whySilent, m.refused = cause(err), errors.Is(err, redisnode.ErrPassword)
	}
}

// unreadyFor returns for how long a Pod that runs has not been ready.
func unreadyFor(pod *corev1.Pod, now time.Time) time.Duration {
	if pod == nil {
		return 0
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && pod.Status.Phase == corev1.PodRunning {
			return now.Sub(c.LastTransitionTime.Time)
		}
	}
	return 0
}

// listens returns the port of a Pod, which is another one than the spec's until it is
// replaced.
func listens(rdc *v1.RedisCluster, pod *corev1.Pod) int {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == portRedis {
				return int(p.ContainerPort)
			}
		}
	}
	port, _ := ports(rdc)
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

// short is an ID as people read it.
func short(id string) string { return id[:min(len(id), 8)] }

// describe is what a node can be told by, in messages.
func describe(e *redisnode.Entry) string {
	return fmt.Sprintf("%s at %s:%d", short(e.ID), e.IP, e.Port)
}
