// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// dice is the source of random numbers for all goroutines of a world but the test's own. The n-th roll for a purpose depends only on the
// seed, the purpose and n. It is the same in every run, in whatever order goroutines roll for other purposes.
type dice struct {
	seed uint64

	mu    sync.Mutex
	rolls map[string]uint64
}

// roll returns a source of random numbers for one decision.
func (d *dice) roll(purpose string) *rand.Rand {
	d.mu.Lock()
	d.rolls[purpose]++
	n := d.rolls[purpose]
	d.mu.Unlock()
	sum := fnv.New64a()
	sum.Write([]byte(purpose))
	return rand.New(rand.NewPCG(d.seed, sum.Sum64()+n))
}

// maxLines is how many lines a ring of logs keeps.
const maxLines = 60

// logs is the LogSink of one operator. It keeps the object that is synced, and passes every line to text. If text is nil, it keeps the
// last lines in the world and formats them only when a test fails.
type logs struct {
	world  *world
	text   logr.LogSink
	object string
}

// line is a line of a log, before it is formatted.
type line struct {
	at     time.Time
	msg    string
	err    error
	values []any
}

func (l line) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", l.at.Format("15:04:05.000000"), l.msg)
	if l.err != nil {
		fmt.Fprintf(&b, " err=%q", l.err)
	}
	for i := 0; i+1 < len(l.values); i += 2 {
		fmt.Fprintf(&b, " %v=%v", l.values[i], l.values[i+1])
	}
	return b.String()
}

func (l *logs) Init(logr.RuntimeInfo) {}

func (l *logs) Enabled(level int) bool { return l.text != nil || level <= 4 }

func (l *logs) Info(level int, msg string, values ...any) {
	if l.text != nil {
		l.text.Info(level, msg, values...)
		return
	}
	l.keep(line{msg: msg, values: values})
}

func (l *logs) Error(err error, msg string, values ...any) {
	if l.text != nil {
		l.text.Error(err, msg, values...)
		return
	}
	l.keep(line{msg: msg, err: err, values: values})
}

func (l *logs) keep(is line) {
	is.at = time.Now()
	if l.object != "" {
		is.values = append([]any{"object", l.object}, is.values...)
	}
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	if len(l.world.lines) >= 2*maxLines {
		l.world.lines = append(l.world.lines[:0], l.world.lines[maxLines:]...)
	}
	l.world.lines = append(l.world.lines, is)
	if is.msg == "Synced" {
		l.world.syncs++
	}
}

func (l *logs) WithValues(values ...any) logr.LogSink {
	with := *l
	for i := 0; i+1 < len(values); i += 2 {
		if values[i] == "object" {
			with.object = fmt.Sprint(values[i+1])
		}
	}
	if l.text != nil {
		with.text = l.text.WithValues(values...)
	}
	return &with
}

func (l *logs) WithName(name string) logr.LogSink {
	with := *l
	if l.text != nil {
		with.text = l.text.WithName(name)
	}
	return &with
}

// objectOf returns the object that is synced with a context, "" for none.
func objectOf(ctx context.Context) string {
	if l, ok := klog.FromContext(ctx).GetSink().(*logs); ok {
		return l.object
	}
	return ""
}
