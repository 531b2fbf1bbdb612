// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/glassback/glassback/pkg/redisnode"
)

const (
	// maxPause is the maximum time for which a master holds back writes while a replica takes over. The replica may take 10 s: 4 s until it
	// has the command, 5 s until Redis gives up, and 1 s until Redis notices that.
	maxPause = 15 * time.Second
	// promotionPoll is how often the operator asks the master whether it has become a replica.
	promotionPoll = 20 * time.Millisecond
)

// failover makes on take over from its master.
var failover = &verb{text: "failover", logged: true, do: executor.failover}

func (e executor) failover(ctx context.Context, c command) error {
	m, how := c.on, c.how
	var err error
	if how == redisnode.Graceful {
		err = e.promote(ctx, m)
	} else {
		err = e.node(m).Failover(ctx, how)
	}
	if err != nil {
		return err
	}
	e.session.recordPromotion(m, e.clock.Now())
	e.recorder.Eventf(e.o.Object, corev1.EventTypeNormal, "Failover", "%s", e.purpose())
	return nil
}

// promote makes a replica take over from its master once the replica has all writes. Redis makes the master hold back writes meanwhile,
// but for at most 5 s. A replica that is ready just then can still be elected, without the writes that the master accepts afterwards. So
// the operator pauses the writes, too, and ends this pause only when the master has become a replica.
//
// If the master does not become a replica, or the operator stops, the pause lasts for maxPause: until then, the replica may still be
// elected. The next attempt begins after the pause, so that clients can write in between.
func (e executor) promote(ctx context.Context, replica *member) error {
	master := e.o.masterOf(replica)
	if master == nil || !master.answers() {
		return fmt.Errorf("the master of %s does not answer", replica.Name)
	}
	end := e.clock.Now().Add(maxPause)
	if err := e.node(master).PauseWrites(ctx, maxPause); err != nil {
		return fmt.Errorf("hold back writes to %s: %w", master.Name, err)
	}
	err := e.node(replica).Failover(ctx, redisnode.Graceful)
	if err == nil {
		err = e.waitUntilReplica(ctx, master)
	}
	if err != nil {
		e.session.recordPromotion(replica, end)
		return err
	}
	// Clients wait, so the operator sends this even if it is about to stop.
	if err := e.node(master).ResumeWrites(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("end the pause of writes to %s: %w", master.Name, err)
	}
	return nil
}

// waitUntilReplica waits until a master has become a replica of another node.
func (e executor) waitUntilReplica(ctx context.Context, master *member) error {
	for begun := e.clock.Now(); ; {
		view, err := e.view(ctx, master)
		switch {
		case err == nil && !view.Master:
			return nil
		case e.clock.Since(begun) > failoverPatience:
			return errors.Join(fmt.Errorf("no replica has taken over from %s within %s", master.Name, failoverPatience), err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(promotionPoll):
		}
	}
}
