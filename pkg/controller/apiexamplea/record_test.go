// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package apiexamplea

import (
	"testing"

	"github.com/glassback/glassback/pkg/recording/recordtest"
)

func TestAllFieldsAreRecorded(t *testing.T) {
	recordtest.Covers(t, observed{}, recordedObserved{}, "example")
	recordtest.Covers(t, plan{}, recordedPlan{})
}

func TestObservedIsPlain(t *testing.T) {
	recordtest.Plain(t, nil, observed{})
}
