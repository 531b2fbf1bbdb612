// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

// libraries gives members libraries, such as "f=1".
func libraries(library string, ordinals ...int) alter {
	name, digest, _ := strings.Cut(library, "=")
	return viewed(func(v *redisnode.View) {
		if v.Libraries == nil {
			v.Libraries = map[string]string{}
		}
		v.Libraries[name], v.Unwritten = digest, false
	}, ordinals...)
}

// wrote has something have been written to members.
func wrote(ordinals ...int) alter {
	return viewed(func(v *redisnode.View) { v.Unwritten = false }, ordinals...)
}

// differs has masters have had different functions for this long.
func differs(lasts time.Duration) alter { return func(o *observed) { o.functionsDifferFor = lasts } }

func TestDecideFunctions(t *testing.T) {
	wider := func() *observed { return sixAnd(master(""), replica(6)) }
	extra := func() *observed { return sixAnd(master("")) }
	moved := moves("4096 are left, now from demo-0 to demo-6", "move slots demo-0 demo-6 0-63")
	differ := "Waiting for all masters to have the same functions, before demo-6 gets slots: demo-0 and demo-%d do not have the same library f"
	decisions{
		"a new master gets the functions of the others first": {
			seen: with(wider(), libraries("f=1", 0, 1, 2)),
			want: does("demo-6 gets the functions of demo-0", "copy functions demo-6 demo-0"),
		},
		"and then slots": {seen: with(wider(), libraries("f=1", 0, 1, 2, 6)), want: moved},
		"one whose functions were deleted gets none": {seen: with(wider(), libraries("f=1", 0, 1, 2), wrote(6)), want: moved},
		"one that has keys, since it is about to get slots, too": {
			seen: with(wider(), libraries("f=1", 0, 1, 2), viewed(func(v *redisnode.View) { v.Keys = 1 }, 6)), want: moved,
		},
		"one that has others keeps them":             {seen: with(wider(), libraries("f=1", 0, 1, 2), libraries("g=1", 6)), want: moved},
		"no master has any: there is nothing to get": {seen: with(wider()), want: moved},
		"the masters differ: nothing is written, and no slot moved": {
			seen: with(wider(), libraries("f=1", 0, 1)), want: waits(fmt.Sprintf(differ, 2)),
		},
		"also if the first one has none": {seen: with(wider(), libraries("f=1", 1, 2)), want: waits(fmt.Sprintf(differ, 1))},
		"also if it is another library of the same name": {
			seen: with(wider(), libraries("f=1", 0, 1), libraries("f=2", 2)), want: waits(fmt.Sprintf(differ, 2)),
		},
		"they differ, and there is no new master: nothing waits": {seen: with(six(), libraries("f=1", 0)), want: settledIs},
		"a master with slots gets none": {
			seen: with(wider(), libraries("f=1", 0, 1, 2), has(0, "1-5460"), has(6, "0")),
			want: moves("4095 are left", "move slots demo-0 demo-6 1-64"),
		},
		"one that leaves with the only copy of a library is kept": {
			seen: with(extra(), sized(6), libraries("g=1", 6)),
			want: stuckBy(reasonHeldBack, "demo-6 has no slots, but the function library g, which no other master has: it is not deleted"),
		},
		"with a copy it is removed": {
			seen: with(extra(), sized(6), libraries("g=1", 1, 6)),
			want: does("Removing demo-6", append(every("forget demo-%d id-6", 0, 1, 2, 3, 4, 5), "delete Pod demo-6")...),
		},
		"one that has the only copy is not made a replica": {seen: with(extra(), libraries("g=1", 6)), want: settledIs},
		"with a copy it is": {seen: with(extra(), libraries("g=1", 1, 6)), want: does("Giving masters to 1", "replicate demo-6 demo-0")},
		"one that has the only copy is not replaced without a volume": {
			seen: with(extra(), libraries("g=1", 6), podIs(old, 6)),
			want: stuckBy(reasonHeldBack, "demo-6 is to be replaced, but has no slots, the function library g"),
		},
		"but with one": {seen: with(extra(), stored, libraries("g=1", 6), podIs(old, 6)), want: does("Replacing demo-6", "evict Pod demo-6")},
		"slots whose loss was accepted go to a master with functions": {
			seen: with(six(), renewed(0, 3), forgotten("id-0", 1, 2, 4, 5), accepting(lossToken("0-5460")), libraries("f=1", 1, 2)),
			want: does("demo-2 gets the slots 0-5460", "add slots demo-2 0-5460").losing("0-5460"),
		},
	}.run(t)
}

const library = "#!lua name=notes\nredis.register_function('note', function(keys, args) return redis.call('SET', keys[1], args[1]) end)"

// callers call a function on many keys, and count how often a node did not know it.
type callers struct {
	t       *testing.T
	stop    context.CancelFunc
	done    sync.WaitGroup
	calls   int
	unknown []string
}

// call loads the library on every master, and begins to call its function.
func (w *world) call(t *testing.T) *callers {
	t.Helper()
	w.onMasters(func(ctx context.Context, c *redis.Client) error { return c.FunctionLoad(ctx, library).Err() })
	ctx, cancel := context.WithCancel(t.Context())
	c := &callers{t: t, stop: cancel}
	client := w.clusterClient()
	c.done.Go(func() {
		defer client.Close()
		for ; ctx.Err() == nil; c.calls++ {
			key := fmt.Sprintf("called:%d", c.calls%1000) // The keys of a writer are others.
			if err := client.FCall(ctx, "note", []string{key}, c.calls).Err(); err != nil && strings.Contains(err.Error(), "Function not found") {
				c.unknown = append(c.unknown, key)
			}
			time.Sleep(10 * time.Millisecond) // The servers share the machine.
		}
	})
	t.Cleanup(c.end)
	return c
}

func (c *callers) end() {
	c.stop()
	c.done.Wait()
}

// check ends the calls.
func (c *callers) check() {
	c.t.Helper()
	c.end()
	c.t.Logf("the function was called %d times", c.calls)
	if n := len(c.unknown); n > 0 {
		c.t.Errorf("%d of %d calls found no function, first for %s", n, c.calls, c.unknown[0])
	}
}

// onMasters does something on each master that has slots, as a person.
func (w *world) onMasters(do func(context.Context, *redis.Client) error) {
	w.t.Helper()
	client := w.clusterClient()
	defer client.Close()
	if err := client.ForEachMaster(w.t.Context(), do); err != nil {
		w.t.Fatal(err)
	}
}

// haveFunctions checks that all masters with slots have the same library.
func (w *world) haveFunctions() {
	w.t.Helper()
	shards := w.rdc().Status.Shards
	want := w.view(shards[0].Master).Libraries
	for _, shard := range shards {
		if got := w.view(shard.Master).Libraries; len(got) != 1 || differentLibrary(got, want) != "" {
			w.t.Errorf("%s has the libraries %q, want %q", shard.Master, got, want)
		}
	}
}

// diesAround ends a life of the controller before its first write of this kind, and the next
// one right after it.
func (w *world) diesAround(write string) func(int) bool {
	tries, next := 0, false
	return func(int) bool {
		if next {
			next = false
			return false
		}
		if w.last == write {
			tries++
			next = tries == 2
		}
		return tries != 1 || w.last != write
	}
}

// TestFunctionsOutliveMasters has a master be added while a function is called. See also
// TestWithoutReplicas.
func TestFunctionsOutliveMasters(t *testing.T) {
	t.Parallel()
	for sentence, test := range map[string]struct {
		spec, change func(*v1.RedisCluster)
	}{
		"a master is added": {without, size(8)},
		"replicas become masters": {
			func(rdc *v1.RedisCluster) {
				rdc.Spec.Size, rdc.Spec.ReplicasPerMaster = ptr.To[int32](9), ptr.To[int32](2)
			},
			func(rdc *v1.RedisCluster) { rdc.Spec.ReplicasPerMaster = ptr.To[int32](1) },
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "functions", test.spec)
			w.ready("the cluster to be formed")
			calls := w.call(t)
			w.lives = w.diesAround("FUNCTION RESTORE")
			w.change(test.change)
			w.ready("the change to be made")
			calls.check()
			if w.deaths != 2 {
				t.Errorf("the controller died %d times, want before the first copy and after it", w.deaths)
			}
			if n := countFunc(w.all, func(write string) bool { return write == "FUNCTION RESTORE" }); n != 1 {
				t.Errorf("functions were copied %d times, want to the one new master once", n)
			}
			w.haveFunctions()
		})
	}
}

// TestDeletedFunctionsStayDeleted deletes a library on one master after the other while a new
// one waits for its slots.
func TestDeletedFunctionsStayDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "functions")
	w.ready("the cluster to be formed")
	w.onMasters(func(ctx context.Context, c *redis.Client) error { return c.FunctionLoad(ctx, library).Err() })
	first := sync.Once{}
	w.onMasters(func(ctx context.Context, c *redis.Client) error {
		var err error
		first.Do(func() { err = c.FunctionDelete(ctx, "notes").Err() })
		return err
	})
	w.change(size(8))
	w.until("the difference to be noticed", func() bool {
		op := w.rdc().Status.Operation
		return op != nil && strings.Contains(op.Step, "Waiting for all masters to have the same functions, before functions-6 gets slots")
	})
	w.checkOnlyStatusWrites(t)
	if got := w.view("functions-6").Libraries; len(got) > 0 {
		t.Errorf("the new master has the libraries %q", got)
	}
	w.onMasters(func(ctx context.Context, c *redis.Client) error {
		if err := c.FunctionDelete(ctx, "notes").Err(); err != nil && !strings.Contains(err.Error(), "Library not found") {
			return err
		}
		return nil
	})
	w.ready("the new size")
	for _, p := range w.names() {
		if got := w.view(p).Libraries; len(got) > 0 {
			t.Errorf("%s has the libraries %q", p, got)
		}
	}
}

// TestALibraryDeletedDuringACopyStaysDeleted deletes a library after the code was read, or after the masters were compared.
func TestALibraryDeletedDuringACopyStaysDeleted(t *testing.T) {
	t.Parallel()
	for sentence, when := range map[string]func(w *world, then func()){
		"after FUNCTION DUMP": func(w *world, then func()) { w.dumped = then },
		"before FUNCTION RESTORE": func(w *world, then func()) {
			w.lives = func(int) bool {
				if w.last == "FUNCTION RESTORE" {
					then()
				}
				return true
			}
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "functions", calm)
			w.ready("the cluster to be formed")
			w.onMasters(func(ctx context.Context, c *redis.Client) error {
				return errors.Join(c.FunctionLoad(ctx, library).Err(), c.FunctionLoad(ctx, strings.ReplaceAll(library, "note", "other")).Err())
			})
			deleted := false
			when(w, func() {
				if !deleted {
					deleted = true
					w.onMasters(func(ctx context.Context, c *redis.Client) error { return c.FunctionDelete(ctx, "notes").Err() })
				}
			})
			w.change(size(8))
			w.until("functions to be copied", func() bool { return deleted && len(w.view("functions-6").Libraries) > 0 })
			if got := w.view("functions-6").Libraries; len(got) != 1 || got["others"] == "" {
				t.Fatalf("the new master has the libraries %q, want others alone", got)
			}
			w.ready("the new size")
			w.haveFunctions()
		})
	}
}

// TestAMasterThatLosesItsFunctionsDuringACopyDeletesNone has one master lose all libraries, as a restart without a volume does.
func TestAMasterThatLosesItsFunctionsDuringACopyDeletesNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "functions", calm)
	w.ready("the cluster to be formed")
	w.onMasters(func(ctx context.Context, c *redis.Client) error { return c.FunctionLoad(ctx, library).Err() })
	lost := false
	w.lives = func(int) bool {
		if w.last == "FUNCTION RESTORE" && !lost {
			lost = true
			first := sync.Once{}
			w.onMasters(func(ctx context.Context, c *redis.Client) (err error) {
				first.Do(func() { err = c.FunctionFlush(ctx).Err() })
				return err
			})
		}
		return true
	}
	w.change(size(8))
	w.until("functions to be copied", func() bool { return lost })
	if got := w.view("functions-6").Libraries; len(got) != 1 {
		t.Errorf("the new master has the libraries %q, want the one that two masters still have", got)
	}
}

// TestFunctionsOfOtherCodeAreNotCopied has a master with a library of which the code alone is
// another one, which no View shows.
func TestFunctionsOfOtherCodeAreNotCopied(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "functions")
	w.ready("the cluster to be formed")
	first := sync.Once{}
	w.onMasters(func(ctx context.Context, c *redis.Client) error {
		code := library
		first.Do(func() { code = strings.Replace(library, "args[1]", "'other'", 1) })
		return c.FunctionLoad(ctx, code).Err()
	})
	w.change(size(8))
	w.until("the difference to be reported", func() bool {
		return strings.Contains(w.condition("Degraded").Message, "do not have the same code of the library notes")
	})
	if got := w.view("functions-6").Libraries; len(got) > 0 {
		t.Errorf("the new master has the libraries %q", got)
	}
	w.onMasters(func(ctx context.Context, c *redis.Client) error { return c.FunctionLoadReplace(ctx, library).Err() })
	w.ready("the new size")
	if got := w.view("functions-6").Libraries; len(got) != 1 {
		t.Errorf("the new master has the libraries %q", got)
	}
}
