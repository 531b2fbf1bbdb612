// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Fault is how one write of an operator fails.
type Fault int

// The faults of a write.
const (
	NoFault    Fault = iota
	Refused          // The write has no effect, and its answer is an error.
	AnswerLost       // The write has its effect, and its answer is an error.
	Crash            // The write has its effect, and the operator stops.
)

// crash is the panic that stops an operator.
type crash struct{}

// Interrupt calls do, and gives a fault to each write of it. The first write has number 0. Interrupt sets Before and After for the time
// of the call. It returns whether do has crashed.
func (s *Server) Interrupt(fault func(write int) Fault, do func()) (crashed bool) {
	write := -1
	s.Before = func(r Request) error {
		if !r.Writes() {
			return nil
		}
		write++
		if fault(write) == Refused {
			return errors.New("refused")
		}
		return nil
	}
	s.After = func(r Request) error {
		switch {
		case r.Writes() && fault(write) == AnswerLost:
			return errors.New("answer lost")
		case r.Writes() && fault(write) == Crash:
			panic(crash{})
		}
		return nil
	}
	defer func() {
		s.Before, s.After = nil, nil
		if r := recover(); r != nil {
			if _, crashed = r.(crash); !crashed {
				panic(r)
			}
		}
	}()
	do()
	return false
}

// History is one random run of a test. A test that fails prints the notes.
type History struct {
	*testing.T

	Random *rand.Rand
	notes  []string
}

// Note adds a line to the notes.
func (h *History) Note(format string, args ...any) {
	h.notes = append(h.notes, fmt.Sprintf(format, args...))
}

// Seeds returns the seeds of a random test, from 0 on: usual seeds, or under -short, short seeds. Without -short, the environment variable
// GLASSBACK_SEEDS replaces usual. Its value is a number of seeds, or the first and the last seed, such as 7-7.
func Seeds(t *testing.T, usual, short uint64) iter.Seq[uint64] {
	t.Helper()
	first, end := uint64(0), usual
	if text := os.Getenv("GLASSBACK_SEEDS"); testing.Short() {
		end = short
	} else if text != "" {
		var err error
		if first, end, err = parseSeeds(text); err != nil {
			t.Fatalf("GLASSBACK_SEEDS=%s: %v", text, err)
		}
	}
	return func(yield func(uint64) bool) {
		for seed := first; seed < end; seed++ {
			if !yield(seed) {
				return
			}
		}
	}
}

func parseSeeds(text string) (first, end uint64, err error) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		end, err = strconv.ParseUint(text, 10, 64)
		return 0, end, err
	}
	if first, err = strconv.ParseUint(from, 10, 64); err != nil {
		return 0, 0, err
	}
	if end, err = strconv.ParseUint(to, 10, 64); err == nil && end < first {
		err = errors.New("the last seed is less than the first")
	}
	return first, end + 1, err
}

// Histories runs a test with each of its Seeds. For each seed, Histories calls begin once, step as often as steps says, and settle once. It
// stops at the first failure.
func Histories(t *testing.T, usual, short uint64, steps int, begin func(*History) (step, settle func())) {
	t.Helper()
	for seed := range Seeds(t, usual, short) {
		h := &History{T: t, Random: rand.New(rand.NewPCG(seed, 1))}
		step, settle := begin(h)
		for n := range steps + 1 {
			if n < steps {
				step()
			} else {
				settle()
			}
			if t.Failed() {
				t.Fatalf("seed %d after:\n%s", seed, strings.Join(h.notes, "\n"))
			}
		}
	}
}
