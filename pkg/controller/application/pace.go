/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package application

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
)

// countsEvery is how often a status is written at most for numbers and messages
// alone. A rollout changes them with every Pod; who waits for it waits for a
// condition.
const countsEvery = 10 * time.Second

// pace remembers when statuses were written. It is not in the status itself: after
// a restart a write comes sooner, and that is all.
type pace struct {
	mu sync.Mutex
	at map[cache.ObjectName]time.Time
}

// wait returns how long numbers and messages alone are to wait.
func (p *pace) wait(key cache.ObjectName, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.at[key].Add(countsEvery).Sub(now))
}

func (p *pace) reported(key cache.ObjectName, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == nil {
		p.at = map[cache.ObjectName]time.Time{}
	}
	p.at[key] = now
}

func (p *pace) forget(key cache.ObjectName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.at, key)
}

// transition returns whether more has changed than numbers, and how they are put in
// words.
func transition(was, is v1.ApplicationStatus) bool {
	return !equality.Semantic.DeepEqual(withoutNumbers(was), withoutNumbers(is))
}

func withoutNumbers(status v1.ApplicationStatus) v1.ApplicationStatus {
	status.Replicas, status.UpdatedReplicas, status.ReadyReplicas, status.AvailableReplicas = 0, 0, 0, 0
	conditions := make([]metav1.Condition, len(status.Conditions))
	for i, c := range status.Conditions {
		c.Message = "" // What the API server says may be another text each time.
		if c.Type == glassback.ConditionProgressing || c.Type == v1.ConditionAvailable {
			c.Reason = ""
		}
		conditions[i] = c
	}
	status.Conditions = conditions
	return status
}
