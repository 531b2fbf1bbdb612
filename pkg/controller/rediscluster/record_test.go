// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"math/rand"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/recording/recordtest"
)

func TestAllFieldsAreRecorded(t *testing.T) {
	recordtest.Covers(t, observed{}, recordedObserved{}, "rdc", "byID", "slots", "configs", "rules", // merge sets byID and slots
		"users", "userProblems", "refusals", "accountHash", "retired") // missingUser follows from them; hashes of passwords are secret.
	// markOutdated has used the others: outdated, pending and pendingUsers follow from them. Values of directives may be secret.
	recordtest.Covers(t, member{}, recordedMember{}, "entries", "config", "set", "wanted", "directives", "noConfig", "users",
		"service") // matchServices sets service.
	recordtest.Covers(t, node{}, recordedNode{}, "Entry", "member")
	recordtest.Covers(t, plan{}, recordedPlan{})
}

func TestObservedIsPlain(t *testing.T) {
	recordtest.Plain(t, []any{corev1.Secret{}, session{}}, observed{})
}

func TestPoliciesHaveTheNamesOfTheirFunctions(t *testing.T) {
	recordtest.Named(t, policies)
}

// TestTheCorpusHasEveryPolicy keeps make decisions complete: it shows what a change of a policy changes.
func TestTheCorpusHasEveryPolicy(t *testing.T) {
	recordtest.InCorpus(t, "../../replay/testdata", Decisions, policies)
}

// TestScenesAreReplayed decides again on random states of a cluster, of which many never occur. GLASSBACK_SEEDS=n decides on so many.
func TestScenesAreReplayed(t *testing.T) {
	for seed := range fakeapi.Seeds(t, 1000, 100) {
		o := sceneOf(rand.New(rand.NewSource(int64(seed)))).observed
		if recordtest.Check(t, Decisions, o, decide(o)); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
