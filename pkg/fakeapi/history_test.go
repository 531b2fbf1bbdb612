// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestInterrupt gives a fault to the second of three writes.
func TestInterrupt(t *testing.T) {
	for sentence, test := range map[string]struct {
		fault   Fault
		want    string // the data of the versions, in their order
		failed  bool   // whether the second write returns an error
		crashed bool
	}{
		"no fault: all writes have an effect":         {NoFault, "123", false, false},
		"a refused write has no effect":               {Refused, "13", true, false},
		"a lost answer: the write has its effect":     {AnswerLost, "123", true, false},
		"a crash: nothing is written after the write": {Crash, "12", false, true},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := New()
			var failed []int
			crashed := s.Interrupt(func(write int) Fault {
				if write == 1 {
					return test.fault
				}
				return NoFault
			}, func() {
				for n := range 3 {
					if err := apply(s, wanted("a", fmt.Sprint(n+1)), own); err != nil {
						failed = append(failed, n)
					}
				}
			})
			got := ""
			for _, event := range s.Events() {
				got += event.Now.(*corev1.ConfigMap).Data["a"]
			}
			if got != test.want || crashed != test.crashed || slices.Equal(failed, []int{1}) != test.failed {
				t.Errorf("versions %s, failed %v, crashed %t; want %s, failed: %t, crashed %t", got, failed, crashed, test.want, test.failed,
					test.crashed)
			}
			if s.Before != nil || s.After != nil {
				t.Error("the faults are still set")
			}
		})
	}
}

func TestInterruptPassesOtherPanicsOn(t *testing.T) {
	const other = "other"
	defer func() {
		if r := recover(); r != other {
			t.Errorf("recovered %v, want %v", r, other)
		}
	}()
	New().Interrupt(func(int) Fault { return NoFault }, func() { panic(other) })
}

func TestHistoriesFollowFromTheirSeeds(t *testing.T) {
	t.Setenv("GLASSBACK_SEEDS", "3")
	run := func() []string {
		var all []string
		Histories(t, 1, 3, 2, func(h *History) (step, settle func()) {
			return func() { all = append(all, fmt.Sprint(h.Random.IntN(1000))) }, func() { all = append(all, "settled") }
		})
		return all
	}
	first := run()
	t.Setenv("GLASSBACK_SEEDS", "1-2")
	if later := run(); !testing.Short() && !slices.Equal(later, first[3:]) {
		t.Errorf("steps of the seeds 1-2 %q, want %q", later, first[3:])
	}
	t.Setenv("GLASSBACK_SEEDS", "3")
	if len(first) != 9 || first[2] != "settled" || first[5] != "settled" || first[0] == first[3] || !slices.Equal(run(), first) {
		t.Errorf("steps %q, want two numbers and the end for each of three seeds, twice the same", first)
	}
}
