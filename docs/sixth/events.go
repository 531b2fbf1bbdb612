// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package sixth

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/glassback/glassback/pkg/child"
)

const reasonPublished = "Published"

// events sends an event when the problem of a Service changes. It remembers the problems in memory: after a restart it
// sends an event again, and nothing else depends on it.
type events struct {
	recorder record.EventRecorder

	mu      sync.Mutex
	reasons map[cache.ObjectName]string // of the last reported problem
}

// report sends an event if the problem of a Service has changed or ended.
func (e *events) report(service *corev1.Service, problem *child.Problem) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := cache.MetaObjectToName(service)
	before := e.reasons[key]
	switch {
	case problem == nil && before != "":
		delete(e.reasons, key)
		e.recorder.Event(service, corev1.EventTypeNormal, reasonPublished, "The ConfigMap holds the address again")
	case problem != nil && before != problem.Reason:
		e.reasons[key] = problem.Reason
		e.recorder.Event(service, corev1.EventTypeWarning, problem.Reason, problem.Message)
	}
}

func (e *events) forget(key cache.ObjectName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.reasons, key)
}
