// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
)

// The participants.
const (
	full       = "glassback"                    // with its default flags, and with all of its controllers
	alone      = "glassback, application alone" // as the peer, which has one controller
	recorded   = "glassback --record"           // as full, and it records all syncs
	cr16       = "controller-runtime, 16 workers"
	cr1        = "controller-runtime, 1 worker" // its default
	bareClient = "bare client, 16 writers"

	planOnline  = "glassback plan"
	planOffline = "glassback plan --offline"
)

// scenario is one table of the results.
type scenario struct {
	name         string
	participants []string // the ratios refer to the first one
	rounds       int
	full, smoke  size
	run          func(ctx context.Context, b *bench, participant string, s size) (sample, error)
}

var (
	everything = []string{cr16, cr1, full, alone, bareClient}
	pair       = []string{cr16, full, alone}
)

var scenarios = []scenario{
	{"burst500", everything, 5, size{objects: 500}, size{objects: 20}, burst},
	{"burst5000", []string{cr16, full, alone, bareClient}, 2, size{objects: 5000}, size{objects: 40}, burst},
	{"change", everything, 5, size{objects: 500}, size{objects: 20}, change},
	{"restart", pair, 2, size{objects: 5000}, size{objects: 40}, restart},
	{"status", pair, 5, size{objects: 500, rate: 500, seconds: 20}, size{objects: 20, rate: 50, seconds: 2}, statuses},
	{"cron500", []string{bareClient, full}, 2, size{objects: 500, seconds: 5, slots: 8}, size{objects: 20, seconds: 5, slots: 1}, cron},
	{"cron2000", []string{bareClient, full}, 2, size{objects: 2000, seconds: 60, slots: 2}, size{objects: 40, seconds: 5, slots: 1}, cron},
	{"record", []string{full, recorded}, 5, size{objects: 500}, size{objects: 20}, burst},
	{"plan", []string{planOnline, planOffline}, 1, size{objects: 5000}, size{objects: 40}, plan},
	{"admission", []string{cr16, full}, 5, size{seconds: 10}, size{seconds: 1}, admission},
}

// size is the amount of work of a scenario.
type size struct {
	objects int
	rate    int // changes a second
	seconds int // the duration, or the time between two slots
	slots   int
}

// bench is one run.
type bench struct {
	*cluster

	smoke    bool
	profiler *profiler
}

func main() {
	smoke := flag.Bool("smoke", false, "run every scenario with few objects and one round: the figures mean nothing")
	only := flag.String("only", "", "run this scenario only")
	rounds := flag.Int("rounds", 0, "rounds of each scenario; 0 for the default of each")
	profiles := flag.String("profiles", "", "write a CPU profile of each operator in a burst, change or restart to this directory")
	root := flag.String("root", "../..", "the repository, with its programs in bin")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, *root, *smoke, *only, *rounds, *profiles); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root string, smoke bool, only string, rounds int, profiles string) (err error) {
	chosen := slices.DeleteFunc(slices.Clone(scenarios), func(s scenario) bool { return only != "" && s.name != only })
	if len(chosen) == 0 {
		return fmt.Errorf("no scenario %q", only)
	}
	if root, err = filepath.Abs(root); err != nil {
		return err
	}
	c, err := startCluster(ctx, root)
	if c != nil {
		defer func() {
			if stopErr := c.stop(); err == nil {
				err = stopErr
			}
		}()
	}
	if err != nil {
		return err
	}
	profiler, err := newProfiler(ctx, c, profiles)
	if err != nil {
		return err
	}
	b := &bench{c, smoke, profiler}
	for _, s := range chosen {
		if rounds > 0 {
			s.rounds = rounds
		}
		if smoke {
			s.rounds, s.full = 1, s.smoke
		}
		r, err := b.measure(ctx, s)
		r.print(os.Stdout) // after an error the rounds before it
		if err != nil {
			return err
		}
	}
	return nil
}

// measure runs all rounds of a scenario. Each round begins with another participant.
func (b *bench) measure(ctx context.Context, s scenario) (result, error) {
	r := result{scenario: s.name, participants: s.participants, samples: map[string][]sample{}}
	for round := range s.rounds {
		first := round % len(s.participants)
		for _, p := range append(slices.Clone(s.participants[first:]), s.participants[:first]...) {
			got, err := s.run(ctx, b, p, s.full)
			if err != nil {
				return r, fmt.Errorf("%s of %s: %w", s.name, p, err)
			}
			r.samples[p] = append(r.samples[p], got)
			fmt.Fprintf(os.Stderr, "%s, round %d, %s:", s.name, round+1, p)
			for _, m := range metrics {
				if value, ok := got[m]; ok {
					fmt.Fprintf(os.Stderr, " %s %s;", short(value), m)
				}
			}
			fmt.Fprintln(os.Stderr)
		}
	}
	return r, nil
}
