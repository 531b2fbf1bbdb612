/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package sixth

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/glassback/glassback/pkg/child"
)

const reasonPublished = "Published"

// told tells of the problems of Services, each once: a sync that finds the same one
// again sends no event. It is forgotten when the operator stops, and then told anew;
// nothing else stands on it.
type told struct {
	recorder record.EventRecorder

	mu    sync.Mutex
	byKey map[cache.ObjectName]string // the reason of the problem that was told last
}

// tell sends an event if a Service has another problem than before, or none any more.
func (t *told) tell(service *corev1.Service, problem *child.Problem) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := cache.MetaObjectToName(service)
	was := t.byKey[key]
	switch {
	case problem == nil && was != "":
		delete(t.byKey, key)
		t.recorder.Event(service, corev1.EventTypeNormal, reasonPublished, "Nothing is wrong any more")
	case problem != nil && was != problem.Reason:
		t.byKey[key] = problem.Reason
		t.recorder.Event(service, corev1.EventTypeWarning, problem.Reason, problem.Message)
	}
}

func (t *told) forget(key cache.ObjectName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byKey, key)
}
