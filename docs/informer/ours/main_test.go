// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/glassback/glassback/docs/informer/apitest"
)

func TestOurProgram(t *testing.T) { apitest.Play(t, run) }
