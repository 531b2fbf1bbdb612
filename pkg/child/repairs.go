// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// A child may be repaired freeRepairs times without a delay, for one generation of its owner. Each later repair waits:
// at first minDelay, then twice as long each time, up to maxDelay. The count starts again when the last repair was more
// than twice the delay, and more than calm, ago. An apply is no repair if the child still has the fields of the last
// apply: then the desired state has changed.
const (
	freeRepairs = 5
	minDelay    = time.Second
	maxDelay    = 5 * time.Minute
	calm        = 30 * time.Second
)

// repairs counts how often children were repaired. Without it, two controllers that desire different states would write
// as fast as the API server allows.
type repairs struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	byKey map[cache.ObjectName][]repair // for each owner, one repair for each child
}

type repair struct {
	child      string
	owner      types.UID
	generation int64 // of the owner
	times      int
	last       time.Time
	desired    checksum // of the configuration of the last apply
}

// sameGeneration returns whether r counts repairs for the present generation of owner.
func (r repair) sameGeneration(owner metav1.Object) bool {
	return r.owner == owner.GetUID() && r.generation == owner.GetGeneration()
}

// delay returns how long the next repair must wait after the last one.
func (r repair) delay() time.Duration {
	if r.times < freeRepairs {
		return 0
	}
	return min(minDelay<<min(r.times-freeRepairs, 10), maxDelay)
}

// of returns the repair of an owner's child, and its index in the list. child is the result of nameOf. The index is negative if the child
// has no repair.
func (r *repairs) of(owner cache.ObjectName, child string) (repair, int) {
	list := r.byKey[owner]
	i := slices.IndexFunc(list, func(entry repair) bool { return entry.child == child })
	if i < 0 {
		return repair{}, i
	}
	return list[i], i
}

// wait returns how long an apply to the child must wait from now; 0 if it need not wait.
func (r *repairs) wait(owner metav1.Object, child string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, _ := r.of(cache.MetaObjectToName(owner), child)
	if !last.sameGeneration(owner) {
		return 0
	}
	return max(0, last.delay()-r.clock.Since(last.last))
}

// applied counts an apply to the child. desired is the checksum of the fields that the operator owns now. found returns that of the fields
// that it owned before the apply. It is called only if the last apply was for the same generation; it is nil if the child did not exist.
func (r *repairs) applied(owner metav1.Object, child string, desired checksum, found func() checksum) {
	key := cache.MetaObjectToName(owner)
	r.mu.Lock()
	last, _ := r.of(key, child)
	r.mu.Unlock() // found takes long.
	unchanged := last.sameGeneration(owner) && found != nil && last.desired != (checksum{}) && found() == last.desired

	r.mu.Lock()
	defer r.mu.Unlock()
	// Drop the repairs for earlier generations.
	r.byKey[key] = slices.DeleteFunc(r.byKey[key], func(entry repair) bool { return !entry.sameGeneration(owner) })
	last, i := r.of(key, child)
	if !last.sameGeneration(owner) || r.clock.Since(last.last) > max(calm, 2*last.delay()) {
		last = repair{owner: owner.GetUID(), generation: owner.GetGeneration()}
	}
	if !unchanged {
		last.times++
		last.last = r.clock.Now()
	}
	last.child, last.desired = child, desired
	if i < 0 {
		r.byKey[key] = append(r.byKey[key], last)
		return
	}
	r.byKey[key][i] = last
}

func (r *repairs) forget(key cache.ObjectName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byKey, key)
}
