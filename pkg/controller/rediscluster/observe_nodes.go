// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"errors"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/glassback/glassback/pkg/redisnode"
)

// viewTimeout is how long a node may take to answer. The operator does not wait longer for a silent
// node: the other nodes may need it.
const viewTimeout = 2 * time.Second

// askNodes asks all nodes at once for their view.
func (c *Controller) askNodes(ctx context.Context, o *observed) {
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	current, asked := c.sessions.get(o.Object), map[types.UID]bool{}
	var requests goroutines
	for _, m := range o.Members {
		if err := whyNotAsked(m.Pod); err != nil {
			m.fail(err)
			continue
		}
		asked[m.Pod.UID] = true
		node, last := c.sessions.node(o.Object, m.Pod), current.asked[m.Pod.UID]
		requests.run(func() {
			view, err := node.View(ctx)
			switch {
			case err != nil:
				m.fail(err)
			case view.Loading:
				m.fail(errors.New("it is loading its data"))
			default:
				m.View = view
				m.askDirectives(ctx, node, last)
				if o.accountHash == "" || m.View == nil {
					return
				}
				if m.users, err = node.Users(ctx); err != nil {
					m.fail(err)
				}
			}
		})
	}
	requests.wait()
	current.closeOthers(asked)
	current.recordAccepted(o)
	current.refused = current.refused && current.secrets == nil // With users, it covers this sync alone: only authenticate resets it.
	for _, m := range o.Members {
		m.UnreadyFor = duration(unreadyFor(m.Pod, o.Now))
		// The probe of a Pod that stays unready may have another password than the open connection.
		current.refused = current.refused || m.Refused || (m.UnreadyFor.Duration > silentTooLong && !isRedisReady(m.Pod))
	}
}

// fail sets why the member does not answer.
func (m *member) fail(err error) {
	m.View, m.WhySilent, m.Refused = nil, withoutPort(err), errors.Is(err, redisnode.ErrPassword)
	m.Untrusted = errors.Is(err, redisnode.ErrCertificate)
}

// whyNotAsked returns why the operator does not ask the node in a Pod; nil if it does.
func whyNotAsked(pod *corev1.Pod) error {
	switch {
	case pod == nil:
		return errors.New("there is no Pod")
	case pod.DeletionTimestamp != nil:
		return errors.New("the Pod is being deleted")
	case pod.Status.PodIP == "" || !redisRuns(pod):
		return errors.New(waitingFor(pod))
	}
	return nil
}

// identify sets the ID of every member's node: by its own view, or by the status as long as the Pod
// can be the same node. Without a volume, a node ends with its Pod.
func (o *observed) identify() {
	for _, m := range o.Members {
		if m.answers() {
			m.ID = m.View.ID
			continue
		}
		for _, last := range o.Object.Status.Nodes {
			if last.Pod == m.Name && (m.Claim != nil || (m.Pod != nil && m.Pod.Status.PodIP != "" && m.Pod.Status.PodIP == last.IP)) {
				m.ID = last.ID
			}
		}
	}
	// The other nodes may know the address of a member whose ID is not in the status.
	for _, m := range o.Members {
		if m.answers() || m.ID != "" {
			continue
		}
		for _, other := range o.answering() {
			for _, e := range other.View.Table {
				// A new Pod is not the node that its Service had before: see LabelExternal.
				external := manifest.IsExternal(m.Pod) && manifest.Serves(m.service, addressOf(&e))
				if !e.Handshake && (external || (e.IP != "" && e.IP == m.ip())) {
					m.ID = e.ID
				}
			}
		}
	}
}
