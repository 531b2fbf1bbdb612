/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package fakeapi

import (
	"errors"
	"fmt"
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

// Histories runs a test with the seeds from 0. Their number is short under -short. Otherwise it is in the environment variable
// GLASSBACK_SEEDS, and usual without the variable. For each seed, Histories calls begin once, step as often as steps says, and settle
// once. It stops at the first failure.
func Histories(t *testing.T, usual, short uint64, steps int, begin func(*History) (step, settle func())) {
	t.Helper()
	seeds := usual
	if n, err := strconv.ParseUint(os.Getenv("GLASSBACK_SEEDS"), 10, 64); err == nil {
		seeds = n
	}
	if testing.Short() {
		seeds = short
	}
	for seed := range seeds {
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
