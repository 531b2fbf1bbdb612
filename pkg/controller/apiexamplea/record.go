// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package apiexamplea

import (
	"time"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/fields"
	"github.com/glassback/glassback/pkg/recording"
)

// Decisions holds decide and the types of its records, so that glassback replay can decide again.
var Decisions = recording.NewKind(kind.Kind, recordedPlan{}, restore, decide)

// recordedObserved is the form of observed in a record. decide reads only the ApiExampleA.
type recordedObserved struct {
	Now       time.Time       `json:"now"`
	Object    *v1.ApiExampleA `json:"object"`
	ConfigMap *child.State    `json:"configMap,omitempty"`
}

// recordedPlan is the form of a plan in a record. ConfigMap has no data, and Greeting is a digest of the greeting: its text is in the spec.
type recordedPlan struct {
	Invalid   *child.Problem                        `json:"invalid,omitempty"`
	ConfigMap *corev1ac.ConfigMapApplyConfiguration `json:"configMap,omitempty"`
	Greeting  string                                `json:"greeting,omitempty"`
}

// Record implements recording.Observed.
func (o *observed) Record() any {
	return recordedObserved{o.now.UTC(), o.example, o.configMap.State()}
}

// Record implements recording.Plan.
func (p plan) Record(*observed) any {
	recorded := recordedPlan{Invalid: p.invalid}
	if p.configMap != nil {
		bare := *p.configMap
		bare.Data = nil
		recorded.ConfigMap, recorded.Greeting = &bare, fields.Digest(p.configMap.Data[greetingKey])
	}
	return recorded
}

func restore(r *recordedObserved) *observed { return &observed{example: r.Object, now: r.Now} }
