/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package child

import (
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// A child may be repaired freeRepairs times for one generation of its owner. From
// then on whoever changes it back waits: first firstHold, then twice as long each
// time up to mostHold. All is forgiven once it has stayed as wanted for twice as
// long as that, but at least calm. An apply is no repair if the child was as it was
// applied the last time: then the owner wants something else.
const (
	freeRepairs = 5
	firstHold   = time.Second
	mostHold    = 5 * time.Minute
	calm        = 30 * time.Second
)

// repairs remembers how often children had to be applied, so that two controllers
// that want different things do not write as fast as the API server takes it.
type repairs struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	byKey map[cache.ObjectName]map[string]repair // by owner, and the child's kind
}

type repair struct {
	owner      types.UID
	generation int64 // of the owner
	times      int
	last       time.Time
	desired    string // the fingerprint of what was applied the last time
}

// fingerprint returns a digest of a configuration; "" of none, and of one that has no JSON.
func fingerprint[A comparable](configuration A) string {
	var none A
	data, err := json.Marshal(configuration)
	if configuration == none || err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return string(sum[:])
}

// of returns whether it was for this generation of owner.
func (r repair) of(owner metav1.Object) bool {
	return r.owner == owner.GetUID() && r.generation == owner.GetGeneration()
}

// hold is how long after the last one the next repair may come.
func (r repair) hold() time.Duration {
	if r.times < freeRepairs {
		return 0
	}
	return min(firstHold<<min(r.times-freeRepairs, 10), mostHold)
}

// wait returns how long the child must not be applied now.
func (r *repairs) wait(owner metav1.Object, kind string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.byKey[cache.MetaObjectToName(owner)][kind]
	if !last.of(owner) {
		return 0
	}
	return max(0, last.hold()-r.clock.Since(last.last))
}

// applied notes that the child was applied: found and desired are the fingerprints of what the
// operator owned of it before, and after.
func (r *repairs) applied(owner metav1.Object, kind, found, desired string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := cache.MetaObjectToName(owner)
	last := r.byKey[key][kind]
	unchanged := last.of(owner) && found != "" && found == last.desired
	if !last.of(owner) || r.clock.Since(last.last) > max(calm, 2*last.hold()) {
		last = repair{owner: owner.GetUID(), generation: owner.GetGeneration()}
	}
	if !unchanged {
		last.times++
		last.last = r.clock.Now()
	}
	last.desired = desired
	if r.byKey[key] == nil {
		r.byKey[key] = map[string]repair{}
	}
	r.byKey[key][kind] = last
}

func (r *repairs) forget(key cache.ObjectName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byKey, key)
}
