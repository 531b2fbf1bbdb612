// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command worlds runs the random tests of the controllers. They record each decision, and the command replays the recordings as glassback
// replay does: with the same code, no plan may differ. Run it in the root of the repository.
//
//	worlds [-worlds N] [-first SEED] [-only REGEXP]
//
// A world is one run of a random test. For RedisClusters it is one random state, on which decide runs once. Worlds run in portions. The
// command deletes the recording of a portion after it has replayed it. Its exit code is 0 if all tests succeed and no plan differs.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/replay"
)

// random are the tests, by the directories of their packages.
var random = map[string]string{
	"application":  "TestInvariants",
	"ecsinstance":  "TestRandomWorlds",
	"mycronjob":    "TestInvariants",
	"rediscluster": "TestScenesAreReplayed",
}

// portion is the number of worlds in a recording: the files of a portion have some 10 MB.
const portion = 500

func main() {
	worlds := flag.Int("worlds", 200, "how many random worlds of each controller run")
	first := flag.Int("first", 0, "the seed of the first world")
	only := flag.String("only", "", "run the controllers that match this regular expression")
	flag.Parse()
	if err := run(*first, *first+*worlds, *only); err != nil {
		fmt.Fprintln(os.Stderr, "worlds:", err)
		os.Exit(1)
	}
}

func run(first, end int, only string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	selected, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "worlds-")
	if err != nil {
		return err
	}
	var suites []*suite
	for _, name := range slices.Sorted(maps.Keys(random)) {
		if selected.MatchString(name) {
			suites = append(suites, &suite{controller: name, dir: dir, counts: map[string]int{}})
		}
	}
	for _, s := range suites { // One after the other: each compiles what the next one needs too.
		if err := s.compile(ctx); err != nil {
			return err
		}
		fmt.Println("compiled", s.controller)
	}
	var running sync.WaitGroup
	errs := make([]error, len(suites))
	for i, s := range suites {
		running.Go(func() {
			if errs[i] = s.run(ctx, first, end); errs[i] != nil {
				stop() // the others
			}
		})
	}
	running.Wait()
	total := 0
	for _, s := range suites {
		total += s.syncs
		fmt.Println(s)
	}
	fmt.Printf("replayed syncs: %d\n", total)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w\nThe recordings are in %s", err, dir)
	}
	return os.RemoveAll(dir)
}

// suite is the random test of one controller.
type suite struct {
	controller, dir string

	worlds, syncs int
	counts        map[string]int // syncs by policy
}

func (s *suite) String() string {
	var policies []string
	for _, policy := range slices.Sorted(maps.Keys(s.counts)) {
		policies = append(policies, fmt.Sprintf("%s %d", cmp.Or(policy, "-"), s.counts[policy]))
	}
	return fmt.Sprintf("%s: %d worlds, %d syncs: %s", s.controller, s.worlds, s.syncs, strings.Join(policies, ", "))
}

func (s *suite) source() string { return filepath.Join("pkg", "controller", s.controller) }

func (s *suite) binary() string { return filepath.Join(s.dir, s.controller+".test") }

func (s *suite) compile(ctx context.Context) error {
	return report(exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-o", s.binary(), "./"+s.source()))
}

// run runs and replays the worlds of some seeds.
func (s *suite) run(ctx context.Context, first, end int) error {
	began := time.Now()
	for ; first < end; first += portion {
		last := min(first+portion, end) - 1
		if err := s.runPortion(ctx, first, last); err != nil {
			return fmt.Errorf("%s, seeds %d-%d: %w", s.controller, first, last, err)
		}
		s.worlds += last - first + 1
		fmt.Printf("%s: %d worlds and %d replayed syncs after %s\n", s.controller, s.worlds, s.syncs, time.Since(began).Round(time.Second))
	}
	return nil
}

func (s *suite) runPortion(ctx context.Context, first, last int) error {
	recording := filepath.Join(s.dir, s.controller+".jsonl.gz")
	cmd := exec.CommandContext(ctx, s.binary(), "-test.run=^"+random[s.controller]+"$", "-decisions.every="+recording)
	cmd.Dir = s.source()
	cmd.Env = append(os.Environ(), fmt.Sprintf("GLASSBACK_SEEDS=%d-%d", first, last))
	if err := report(cmd); err != nil {
		return err
	}
	if err := s.replay(ctx, recording); err != nil {
		return err
	}
	return os.Remove(recording)
}

// replay replays a recording, and counts its decisions. It returns an error unless all are the same.
func (s *suite) replay(ctx context.Context, recording string) error {
	var out, failure strings.Builder
	code := command.Execute(ctx, replay.New(), []string{recording, "--output", command.JSON}, &out, &failure)
	var result replay.Result
	if err := json.Unmarshal([]byte(out.String()), &result); err != nil {
		return fmt.Errorf("replay %s: %w\n%s", recording, err, failure.String())
	}
	bad := len(result.Different) + len(result.NotComparable)
	if code != command.OK || bad > 0 || result.Syncs == 0 {
		return fmt.Errorf("%d of %d decisions are not the same, see glassback replay %s\n%s", bad, result.Syncs, recording, failure.String())
	}
	s.syncs += result.Syncs
	for _, c := range result.Counts {
		s.counts[c.Policy] += c.Same
	}
	return nil
}

// report runs a command. The error has its output.
func report(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, out)
	}
	return nil
}
