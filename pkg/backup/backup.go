// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/glassback/glassback/pkg/backup/rdb"
	"github.com/glassback/glassback/pkg/redisnode"
)

const (
	// attempts is the largest number of attempts to save a shard while the cluster changes, or while its master fails.
	attempts = 3
	// replicaWait is how long a backup waits for a replica that can send its shard. After that, the master sends it.
	replicaWait = 30 * time.Second
	// lifetime is the minimum age at which the files of a backup without a manifest are deleted. A run must take less time.
	lifetime = 24 * time.Hour
)

const (
	// maxBulk is the size of the largest argument that a server accepts unless proto-max-bulk-len is raised.
	maxBulk = 512 << 20
	// maxQuery is the size of the largest command, unless client-query-buffer-limit is raised.
	maxQuery = 1 << 30
)

var errChanged = changing("the masters or their slots have changed during the backup")

// backup is one run of glassback backup.
type backup struct {
	cluster, id string
	owner       string // see Manifest
	retention   int
	nodes       connection
	store       store
	run         string // see newRun
	patience    patience
	replicaWait time.Duration
	log         func(format string, args ...any)
}

// make makes the backup, unless it exists. Before that, it deletes the files of failed runs: they may have filled the store. At the end, it
// deletes the backups that the retention does not keep.
func (b *backup) make(ctx context.Context) (*Result, error) {
	var warnings []string
	m, err := b.existing(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		if err := b.clean(ctx, time.Now().Add(-lifetime)); err != nil {
			warnings = append(warnings, "what failed backups left is not deleted: "+err.Error())
		}
		if m, err = b.take(ctx); err == nil {
			m, err = b.finish(ctx, m) // After an error, the manifest may exist: all files stay.
		} else {
			err = errors.Join(err, b.abandon(ctx))
		}
	}
	if err != nil {
		return nil, err
	}
	result := m.result()
	if err := b.prune(ctx); err != nil {
		warnings = append(warnings, "old backups are not deleted: "+err.Error())
	}
	if result.Warning != "" {
		warnings = append(warnings, result.Warning)
	}
	result.Warning = strings.Join(warnings, "; ")
	return result, nil
}

// abandon deletes the files of this run, which has failed before it had all of them: another run saves all of them again. Otherwise they
// would fill the store for as long as lifetime.
func (b *backup) abandon(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return b.discard(ctx, path.Join(b.cluster, b.id), func(names []string) []string {
		return slices.DeleteFunc(names, func(name string) bool { return !strings.Contains(path.Base(name), b.run) })
	})
}

// clean deletes the files of failed runs that began before a time.
func (b *backup) clean(ctx context.Context, before time.Time) error {
	return b.discard(ctx, b.cluster, func(names []string) []string {
		return leftovers(find(b.cluster, names), b.owner, before.UTC().Format(idForm))
	})
}

// discard deletes those files of a directory that pick returns, also files that put has not completed.
func (b *backup) discard(ctx context.Context, directory string, pick func(names []string) []string) error {
	var errs []error
	for _, list := range []func(context.Context, string) ([]string, error){b.store.list, b.store.partial} {
		names, err := list(ctx, directory)
		if err == nil {
			err = b.remove(ctx, pick(names))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// existing returns the manifest of the backup. It returns an error if the backup belongs to another owner.
func (b *backup) existing(ctx context.Context) (*Manifest, error) {
	m, err := readManifest(ctx, b.store, b.cluster, b.id)
	if err == nil && m.Owner != b.owner {
		return nil, fmt.Errorf("backup %s of %s exists in %s, and is of another cluster of this name: its owner is %q, and not %q", b.id,
			b.cluster, b.store, m.Owner, b.owner)
	}
	return m, err
}

// saved is the file of a shard.
type saved struct {
	shard
	entry   *Shard
	content *contents
}

// take saves the file of each shard, until all shards at one moment have a file. If a shard gets another master or other slots meanwhile,
// only its file is saved again.
func (b *backup) take(ctx context.Context) (*Manifest, error) {
	m := &Manifest{
		Schema: schema, Cluster: b.cluster, Owner: b.owner, ID: b.id, StartedAt: time.Now().UTC(), Functions: []Function{},
	}
	var done []saved
	for round := 0; ; round++ {
		t, err := b.steady(ctx)
		if err == nil {
			before := len(done)
			done = slices.DeleteFunc(done, func(s saved) bool { return !slices.ContainsFunc(t.shards, s.same) })
			if changed := before - len(done); changed > 0 {
				b.log("%d shards are saved again: they have other masters or slots now", changed)
			}
			if len(done) == len(t.shards) {
				m.describe(done, t.stray)
				return m, nil
			}
			done, err = b.saveMissing(ctx, t, done)
		}
		switch {
		case err != nil && (!passes(err) || ctx.Err() != nil):
			return nil, err
		case t == nil && round+1 >= attempts, t != nil && round+1 >= attempts*len(t.shards):
			return nil, cmp.Or(err, errChanged)
		case err != nil:
			b.log("the shards without a file are tried again: %v", err)
		}
	}
}

// saveMissing saves the files of the shards that have none, one after the other: only one node forks at a time.
func (b *backup) saveMissing(ctx context.Context, t *topology, done []saved) ([]saved, error) {
	for _, s := range t.shards {
		if slices.ContainsFunc(done, func(other saved) bool { return other.same(s) }) {
			continue
		}
		file, err := b.saveShard(ctx, s)
		if err != nil {
			return done, err
		}
		done = append(done, *file)
	}
	return done, nil
}

// describe fills in what is in the files. stray is how many keys masters without slots have.
func (m *Manifest) describe(done []saved, stray int64) {
	slices.SortFunc(done, func(a, b saved) int { return cmp.Compare(a.slots[0].First, b.slots[0].First) })
	functions := map[Function]bool{}
	tooLarge, largest := 0, int64(0)
	for _, s := range done {
		m.Shards = append(m.Shards, *s.entry)
		m.RedisVersion = newer(m.RedisVersion, s.master.view.Version)
		tooLarge, largest = tooLarge+s.content.tooLarge, max(largest, s.content.largest)
		for _, code := range s.content.libraries {
			functions[functionOf(code)] = true
		}
	}
	m.Functions = slices.AppendSeq(m.Functions, maps.Keys(functions))
	slices.SortFunc(m.Functions, func(a, b Function) int { return strings.Compare(a.Name+" "+a.SHA256, b.Name+" "+b.SHA256) })
	m.Warning = sizeWarning(tooLarge, largest)
	if stray > 0 {
		m.Warning = strings.TrimPrefix(m.Warning+fmt.Sprintf("; %d keys on masters without slots are not in the backup", stray), "; ")
	}
}

// sizeWarning returns a warning about values that are too large for the nodes, "" for none. It names the directives to raise before a
// restore.
func sizeWarning(tooLarge int, largest int64) string {
	if tooLarge == 0 {
		return ""
	}
	directives := "proto-max-bulk-len"
	if largest > maxQuery-1<<20 { // The key and the rest of the command count, too.
		directives += " and client-query-buffer-limit"
	}
	return fmt.Sprintf("%d values are larger than 512 MiB, up to %d bytes: before you restore them, raise %s of the nodes", tooLarge, largest,
		directives)
}

// steady waits until each slot has one master that answers, and no slot is being moved.
func (b *backup) steady(ctx context.Context) (*topology, error) {
	return b.nodes.await(ctx, b.patience, func(t *topology) error {
		if len(t.open) > 0 {
			return changing("slots %s are being moved", t.open)
		}
		return nil
	})
}

// saveShard saves the file of a shard from a replica. It also tries the master if the shard has no replicas, or after replicaWait.
func (b *backup) saveShard(ctx context.Context, s shard) (*saved, error) {
	begin := time.Now()
	for failed := 0; ; {
		sources := s.usable()
		if !s.replicated || time.Since(begin) >= b.replicaWait {
			sources = append(sources, s.master)
			failed++
		}
		for i, from := range sources {
			file, err := b.save(ctx, s, from)
			if err == nil {
				entry := file.entry
				b.log("slots %s: %d keys in %d bytes from the %s %s", entry.Slots, entry.Keys, entry.Bytes, entry.Role, entry.Address)
				return file, nil
			}
			err = fmt.Errorf("slots %s from %s: %w", s.slots, from.address(), err)
			if !passes(err) || ctx.Err() != nil || failed == attempts && i == len(sources)-1 {
				return nil, err
			}
			b.log("%v", err)
		}
		var err error
		if s, err = b.again(ctx, s); err != nil {
			return nil, err
		}
	}
}

// again waits, and returns the new state of a shard. Its error is unsteady if the shard has another master or other slots now.
func (b *backup) again(ctx context.Context, s shard) (shard, error) {
	if err := sleep(ctx, b.patience.pause); err != nil {
		return s, err
	}
	t, err := b.steady(ctx)
	if err != nil {
		return s, err
	}
	if i := slices.IndexFunc(t.shards, s.same); i >= 0 {
		return t.shards[i], nil
	}
	return s, errChanged
}

// save saves the snapshot of one node. Its error is unsteady if the node is at fault, and not the store.
func (b *backup) save(ctx context.Context, s shard, from node) (*saved, error) {
	n := redisnode.DialReadOnly(from.entry.IP, from.entry.Port, b.nodes.login)
	defer n.Close()
	stream, err := n.Snapshot(ctx)
	if err != nil {
		return nil, unsteady{err}
	}
	defer stream.Close()
	entry := &Shard{
		Slots: s.slots.String(), File: shardFile(s.slots[0].First, b.run), Node: from.view.ID, Address: from.address(), Role: "replica",
		Offset: from.view.Offset,
	}
	if from.view.ID == s.master.view.ID {
		entry.Role = "master"
	}
	in := verify(unsteadyReader{stream}, s.slots, nil)
	err = b.store.put(ctx, path.Join(b.cluster, b.id, entry.File), in)
	in.stop()
	if err == nil {
		err = b.confirm(ctx, s, from)
	}
	if err != nil {
		return nil, err
	}
	entry.SHA256, entry.Bytes = hex.EncodeToString(in.sum.Sum(nil)), in.bytes
	entry.Keys, entry.Expiring = in.content.keys, in.content.expiring
	return &saved{s, entry, &in.content}, nil
}

// confirm returns an error unless the node, after its snapshot, still is the master of the shard or a replica of that master.
func (b *backup) confirm(ctx context.Context, s shard, from node) error {
	view, err := b.nodes.ask(ctx, from.entry.IP, from.entry.Port)
	if err != nil {
		return unsteady{err}
	}
	master := s.master.view // Without replicas, it begins another history when it sends its snapshot.
	follows := (node{view: view}).own().MasterID == master.ID && view.History == master.History
	if view.ID != from.view.ID || view.ID != master.ID && !follows {
		return changing("it has become a node of another shard")
	}
	return nil
}

// unsteadyReader makes every error but io.EOF unsteady.
type unsteadyReader struct{ io.Reader }

func (r unsteadyReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = unsteady{err}
	}
	return n, err
}

// contents holds the counts and the libraries of an RDB file.
type contents struct {
	keys, expiring int64
	tooLarge       int   // values that a server accepts only with a higher proto-max-bulk-len
	largest        int64 // the size of the largest value
	libraries      []string
}

// read reads a file. The error for a key of another slot is unsteady: the node has just become a replica of another master, or keys are
// being moved. If use is not nil, read calls it for each record, with the payload.
func (c *contents) read(in io.Reader, slots redisnode.Slots, use func(*rdb.Record) error) error {
	for r := rdb.NewReader(in, use != nil); ; {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if use != nil {
			if err := use(record); err != nil {
				return err
			}
		}
		if record.Library != "" {
			c.libraries = append(c.libraries, record.Library)
			continue
		}
		if slot := redisnode.KeySlot(record.Key); !slots.Has(slot) {
			return changing("it has a key of slot %d", slot)
		}
		c.keys++
		if record.Expires > 0 {
			c.expiring++
		}
		c.largest = max(c.largest, record.Size)
		if record.Size > maxBulk {
			c.tooLarge++
		}
	}
}

// verifying is a Reader of an RDB file that also parses the file. It returns io.EOF only if the whole file is valid. Only after that may
// its fields be read.
type verifying struct {
	io.Reader

	sum     hash.Hash
	bytes   int64
	content contents

	pipe *io.PipeWriter
	wait func() error // waits until content.read has returned, and returns its error
}

// verify returns a Reader that verifies a file: all keys must belong to slots. The caller must call stop.
func verify(in io.Reader, slots redisnode.Slots, use func(*rdb.Record) error) *verifying {
	out, pipe := io.Pipe()
	v := &verifying{sum: sha256.New(), pipe: pipe}
	v.Reader = io.TeeReader(in, io.MultiWriter(v.sum, pipe))
	var reading errgroup.Group
	reading.Go(func() error {
		err := v.content.read(out, slots, use)
		_ = out.CloseWithError(err) // It returns no error.
		return err
	})
	v.wait = reading.Wait
	return v
}

func (v *verifying) Read(p []byte) (int, error) {
	n, err := v.Reader.Read(p)
	v.bytes += int64(n)
	if err == io.EOF {
		_ = v.pipe.Close() // It returns no error.
		if failed := v.wait(); failed != nil {
			return n, failed
		}
	}
	return n, err
}

// stop ends the goroutine that reads the content.
func (v *verifying) stop() {
	_ = v.pipe.CloseWithError(context.Canceled) // It returns no error.
	_ = v.wait()                                // Read has returned it, or the caller has another error.
}

// finish writes the manifest. If another run of this backup was faster, it returns the manifest of that run.
func (b *backup) finish(ctx context.Context, m *Manifest) (*Manifest, error) {
	err := b.publish(ctx, m)
	if err != nil {
		if other, failed := b.existing(ctx); !errors.Is(failed, fs.ErrNotExist) {
			return other, failed
		}
	}
	return m, err
}

// publish writes the manifest if it does not exist, and if all files do.
func (b *backup) publish(ctx context.Context, m *Manifest) error {
	directory := path.Join(b.cluster, b.id)
	m.FinishedAt = time.Now().UTC()
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	for _, s := range m.Shards {
		size, err := b.store.size(ctx, path.Join(directory, s.File))
		if err != nil {
			return fmt.Errorf("%s was saved, and cannot be found: %w", s.File, err)
		}
		if size != s.Bytes {
			return fmt.Errorf("%s was saved with %d bytes, and has %d", s.File, s.Bytes, size)
		}
	}
	if err := b.store.create(ctx, path.Join(directory, manifestFile), append(text, '\n')); err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	return nil
}

// prune deletes older backups that the retention does not keep. It also deletes the files of a run if another run of the same backup was
// faster.
func (b *backup) prune(ctx context.Context) error {
	names, err := b.store.list(ctx, b.cluster)
	if err != nil {
		return err
	}
	all := find(b.cluster, names)
	var errs []error
	for i := range all {
		if !all[i].complete {
			continue
		}
		all[i].manifest, err = readManifest(ctx, b.store, b.cluster, all[i].id)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // Another process may have deleted it.
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, b.remove(ctx, surplus(all, b.owner, b.id, b.retention)))...)
}

// remove deletes files in the given order, and stops at the first error: the manifest of a file must be deleted before the file.
func (b *backup) remove(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := b.store.remove(ctx, name); err != nil {
			return fmt.Errorf("delete %s: %w", name, err)
		}
		b.log("deleted %s", name)
	}
	return nil
}
