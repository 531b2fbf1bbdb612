// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

import "testing"

// TestOnlyAFailureCounts has the output of go test for each way to fail.
func TestOnlyAFailureCounts(t *testing.T) {
	for output, want := range map[string]Result{
		"--- FAIL: TestSync (0.00s)\n    act_test.go:6: 2\nFAIL\n":                                      Fails,
		"    --- FAIL: TestSync/a_row (0.00s)\nFAIL\n":                                                  Fails,
		"--- FAIL: TestSync (0.00s)\npanic: runtime error: index out of range\nFAIL\n":                  Panics,
		"fatal error: all goroutines are asleep - deadlock!\nFAIL\n":                                    Panics,
		"panic: test timed out after 5m0s\n\trunning tests:\n--- FAIL: TestSync (300.00s)\nFAIL\n":      TimesOut,
		"# example.com/small/pkg\npkg/act.go:4:9: undefined: two\nFAIL\texample.com/pkg [build failed]": Broken,
	} {
		if got := resultOf(output); got != want {
			t.Errorf("%q is %s, want %s", output, got, want)
		}
	}
}
