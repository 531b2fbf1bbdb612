// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/recording/recordtest"
)

func TestAllFieldsAreRecorded(t *testing.T) {
	recordtest.Covers(t, observed{}, recordedObserved{}, "ecs")
	recordtest.Covers(t, memory{}, recordedMemory{})
	recordtest.Covers(t, problem{}, recordedProblem{})
	recordtest.Covers(t, backoff{}, recordedBackoff{})
	recordtest.Covers(t, trial{}, recordedTrial{})
	recordtest.Covers(t, plan{}, recordedPlan{})
}

func TestObservedIsPlain(t *testing.T) {
	recordtest.Plain(t, []any{aliyun.AccessKey{}, corev1.Secret{}, session{}}, observed{}, plan{}, outcome{})
}

func TestPoliciesHaveTheNamesOfTheirFunctions(t *testing.T) {
	recordtest.Named(t, slices.Concat(policies, deletionPolicies))
}

// TestTheCorpusHasEveryPolicy keeps make decisions complete: it shows what a change of a policy changes.
func TestTheCorpusHasEveryPolicy(t *testing.T) {
	recordtest.InCorpus(t, "../../replay/testdata", Decisions, slices.Concat(policies, deletionPolicies))
}
