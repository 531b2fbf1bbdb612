// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/trace"
)

// limits bound what a writer takes: 16 files of about 16 MiB, and 16 MiB of memory for records that wait.
var limits = writerLimits{fileSize: 16 << 20, files: 16, queueLength: 4096, queueSize: 16 << 20, memberSize: 1 << 20}

type writerLimits struct {
	fileSize    int // bytes after which the next file is begun
	files       int
	queueLength int // records
	queueSize   int // bytes of their decisions
	memberSize  int // bytes of JSON in one gzip member, about
}

const (
	flushInterval = time.Second
	// retryInterval is the time after which a writer that failed begins another file.
	retryInterval = 30 * time.Second
)

// The names of the files, in the order of time.
const (
	prefix     = "glassback-"
	suffix     = ".jsonl.gz"
	timeFormat = "20060102T150405.000000000Z"
)

// writer writes records to files, in a goroutine of its own.
type writer struct {
	dir     string
	header  Header
	limits  writerLimits
	counted func(Result, int) // Config.Count

	queue   chan *Record
	queued  atomic.Int64  // bytes of the decisions in queue
	dropped atomic.Uint64 // dropped syncs since the last line with this count
	// droppedStages counts the dropped stages since that line.
	droppedStages atomic.Uint64
	overview      atomic.Pointer[func() any] // see SetOverview
	stopped       chan struct{}
	once          sync.Once
	done          chan struct{}

	// The rest belongs to the goroutine.
	file    *os.File // nil after a failure
	size    int64    // of file
	member  bytes.Buffer
	packer  *gzip.Writer // writes to member
	line    bytes.Buffer // of add
	pending int          // bytes of JSON in packer
	records int          // syncs in packer
	retryAt time.Time
	shown   []byte // the last overview in file
}

// newWriter returns a writer that has begun its first file.
func newWriter(dir string, header Header, limits writerLimits, counted func(Result, int)) (*writer, error) {
	w := &writer{
		dir: dir, header: header, limits: limits, counted: counted, queue: make(chan *Record, limits.queueLength),
		stopped: make(chan struct{}), done: make(chan struct{}),
	}
	w.packer, _ = gzip.NewWriterLevel(&w.member, gzip.BestSpeed) // The level is valid.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the recording: %w", err)
	}
	return w, w.open()
}

// hasRoom reports whether put would take a record now.
func (w *writer) hasRoom() bool {
	return len(w.queue) < cap(w.queue) && w.queued.Load() < int64(w.limits.queueSize)
}

// put queues a record, or drops it. It never waits.
func (w *writer) put(r *Record, drop bool) {
	if !drop && w.hasRoom() {
		w.queued.Add(sizeOf(r))
		select {
		case w.queue <- r:
			return
		default:
			w.queued.Add(-sizeOf(r))
		}
	}
	w.drop(1)
}

// putStage queues the event of a stage, or drops it. Half of the queue is for syncs alone.
func (w *writer) putStage(e *trace.Event) {
	if len(w.queue) < cap(w.queue)/2 {
		select {
		case w.queue <- &Record{Time: e.Time.UTC(), Stage: stageOf(e)}:
			return
		default:
		}
	}
	w.droppedStages.Add(1)
}

func sizeOf(r *Record) int64 { return int64(len(r.Observed) + len(r.Plan)) }

func (w *writer) drop(records int) {
	w.dropped.Add(uint64(records))
	w.count(Dropped, records)
}

// stop makes run write the queue. It returns when run has ended, after timeout at the latest: a disk may hang.
func (w *writer) stop(timeout time.Duration) {
	w.once.Do(func() { close(w.stopped) })
	select {
	case <-w.done:
	case <-time.After(timeout):
	}
}

// run writes the records of the queue until stop.
func (w *writer) run(logger klog.Logger) {
	defer close(w.done)
	ticker := time.NewTicker(flushInterval)
	defer ticker.Stop()
	for {
		var err error
		select {
		case r := <-w.queue:
			err = w.write(r)
		case <-ticker.C:
			w.addOverview(time.Now())
			err = w.flush()
		case <-w.stopped:
			if err := w.finish(); err != nil {
				logger.Error(err, "Could not write the last records of syncs")
			}
			return
		}
		if err != nil {
			logger.Error(err, "Could not record syncs, and tries again", "after", retryInterval)
		}
	}
}

// finish writes what is queued, and closes the file. After a failure, it counts the other records as dropped.
func (w *writer) finish() error {
	var err error
	for {
		select {
		case r := <-w.queue:
			err = errors.Join(err, w.write(r))
		default:
			err = errors.Join(err, w.flush())
			if w.file != nil {
				_ = w.file.Close() // All has been written.
			}
			return err
		}
	}
}

// write adds a record to the member, which it flushes when it is large enough.
func (w *writer) write(r *Record) error {
	w.queued.Add(-sizeOf(r))
	if w.file == nil {
		if time.Now().Before(w.retryAt) {
			w.dropRecord(r)
			return nil
		}
		if err := w.open(); err != nil {
			w.dropRecord(r)
			return err
		}
	}
	if w.shown == nil { // The first line of a file: it is not later than the next one.
		w.addOverview(r.Time)
	}
	if dropped, stages := w.dropped.Swap(0), w.droppedStages.Swap(0); dropped > 0 || stages > 0 {
		w.add(&Record{Time: r.Time, Dropped: dropped, DroppedStages: stages})
	}
	w.add(r)
	if r.IsSync() {
		w.records++
	}
	if w.pending < w.limits.memberSize {
		return nil
	}
	return w.flush()
}

// dropRecord counts a record that cannot be written.
func (w *writer) dropRecord(r *Record) {
	if r.IsSync() {
		w.drop(1)
	} else {
		w.droppedStages.Add(1)
	}
}

// addOverview adds the current overview to the member, if it differs from the last one in the file.
func (w *writer) addOverview(at time.Time) {
	overview := w.overview.Load()
	if overview == nil || w.file == nil {
		return
	}
	text, err := json.Marshal((*overview)())
	if err != nil || bytes.Equal(text, w.shown) { // JSON cannot encode a time with some years.
		return
	}
	w.shown = text
	w.add(&Record{Time: at.UTC(), Overview: text})
}

func (w *writer) add(line any) {
	w.line.Reset()
	encoder := json.NewEncoder(&w.line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(line); err != nil { // JSON cannot encode a time with some years.
		w.drop(1)
		return
	}
	w.pending += w.line.Len()
	_, _ = w.packer.Write(w.line.Bytes()) // A bytes.Buffer takes everything.
}

// flush appends the member to the file, with a single write.
func (w *writer) flush() error {
	if w.pending == 0 {
		return nil
	}
	_ = w.packer.Close() // A bytes.Buffer takes everything.
	n, err := w.file.Write(w.member.Bytes())
	records := w.records
	w.discard()
	if err != nil {
		_ = w.file.Truncate(w.size) // The file then ends with a complete member, unless Truncate fails too.
		_ = w.file.Close()          // It has failed already.
		w.fail(records)
		return fmt.Errorf("write to the recording: %w", err)
	}
	w.size += int64(n)
	w.count(Written, records)
	if w.size < int64(w.limits.fileSize) {
		return nil
	}
	return w.open()
}

// discard empties the member.
func (w *writer) discard() {
	w.member.Reset()
	w.packer.Reset(&w.member)
	w.pending, w.records = 0, 0
}

// fail drops records, and leaves the writer without a file until retryInterval has passed. The caller has closed the file.
func (w *writer) fail(records int) {
	w.file, w.retryAt = nil, time.Now().Add(retryInterval)
	w.drop(records)
}

// open begins the next file, with its header, and deletes the oldest files.
func (w *writer) open() error {
	if w.file != nil {
		_ = w.file.Close() // All has been written.
	}
	w.header.Time, w.shown = time.Now().UTC(), nil
	name := filepath.Join(w.dir, prefix+w.header.Time.Format(timeFormat)+suffix)
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		w.fail(0)
		return fmt.Errorf("begin a file of the recording: %w", err)
	}
	w.file, w.size = file, 0
	w.add(w.header)
	if err := w.flush(); err != nil {
		return err
	}
	return w.prune(name)
}

// prune deletes the oldest files, but not the present one.
func (w *writer) prune(present string) error {
	files, err := filesIn(w.dir)
	if err != nil {
		return fmt.Errorf("list the files of the recording: %w", err)
	}
	for _, file := range files[:max(0, len(files)-w.limits.files)] {
		if file == present {
			continue // The clock was set back.
		}
		if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("delete an old file of the recording: %w", err)
		}
	}
	return nil
}

// Result says what became of a record.
type Result string

// The results.
const (
	Written Result = "written"
	Dropped Result = "dropped"
)

func (w *writer) count(result Result, records int) {
	if w.counted != nil && records > 0 {
		w.counted(result, records)
	}
}
