/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package backup

import (
	"bytes"
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

	"github.com/glassback/glassback/pkg/backup/rdb"
	"github.com/glassback/glassback/pkg/redisnode"
)

// attempts is how often all shards are taken if the cluster changes meanwhile.
const attempts = 3

// maxBulk is the size of the largest argument that a server accepts unless proto-max-bulk-len is raised.
const maxBulk = 512 << 20

var errChanged = errors.New("the masters or their slots have changed during the backup")

// backup is one run of glassback backup.
type backup struct {
	cluster, id string
	retention   int
	nodes       connection
	store       store
	run         string // see newRun
	patience    patience
	log         func(format string, args ...any)
}

// make makes the backup, unless it exists. Afterwards, it deletes what the retention does not keep.
func (b *backup) make(ctx context.Context) (*Result, error) {
	m, err := readManifest(ctx, b.store, b.cluster, b.id)
	if errors.Is(err, fs.ErrNotExist) {
		if m, err = b.take(ctx); err == nil {
			m, err = b.finish(ctx, m)
		}
	}
	if err != nil {
		return nil, err
	}
	result := m.result()
	if err := b.prune(ctx); err != nil {
		result.Warning = strings.TrimPrefix(result.Warning+"; old backups are not deleted: "+err.Error(), "; ")
	}
	return result, nil
}

// take saves the file of each shard. It begins again if the cluster changes meanwhile.
func (b *backup) take(ctx context.Context) (*Manifest, error) {
	var m *Manifest
	var err error
	for range attempts {
		m, err = b.attempt(ctx)
		if _, passes := errors.AsType[unsteady](err); !passes || ctx.Err() != nil {
			return m, err
		}
		b.log("the shards are saved again: %v", err)
	}
	return nil, err
}

// attempt saves the file of each shard once. Its error is unsteady if another attempt may succeed.
func (b *backup) attempt(ctx context.Context) (*Manifest, error) {
	m := &Manifest{Schema: schema, Cluster: b.cluster, ID: b.id, StartedAt: time.Now().UTC(), Functions: []Function{}}
	before, err := b.steady(ctx)
	if err != nil {
		return nil, err
	}
	functions := map[Function]bool{}
	tooLarge := 0
	for _, s := range before.shards { // One after the other: only one node forks at a time.
		entry, content, err := b.saveShard(ctx, s)
		if err != nil {
			return nil, err
		}
		m.Shards = append(m.Shards, *entry)
		m.RedisVersion = newer(m.RedisVersion, s.master.view.Version)
		tooLarge += content.tooLarge
		for _, code := range content.libraries {
			functions[functionOf(code)] = true
		}
	}
	after, err := b.steady(ctx)
	if err != nil {
		return nil, err
	}
	if !before.same(after) {
		return nil, unsteady{errChanged}
	}
	m.Functions = slices.AppendSeq(m.Functions, maps.Keys(functions))
	slices.SortFunc(m.Functions, func(a, b Function) int { return strings.Compare(a.Name+" "+a.SHA256, b.Name+" "+b.SHA256) })
	if tooLarge > 0 {
		m.Warning = fmt.Sprintf("%d values are larger than 512 MiB: before you restore them, raise proto-max-bulk-len of the nodes", tooLarge)
	}
	return m, nil
}

// steady waits until each slot has one master that answers, and no slot is moved.
func (b *backup) steady(ctx context.Context) (*topology, error) {
	var t *topology
	err := b.patience.wait(ctx, func() (err error) {
		if t, err = b.nodes.look(ctx); err == nil && len(t.open) > 0 {
			return changing("slots %s are being moved", t.open)
		}
		return err
	})
	return t, err
}

// saveShard saves the file of a shard from the first of its nodes that can send it.
func (b *backup) saveShard(ctx context.Context, s shard) (*Shard, *contents, error) {
	var errs []error
	for _, from := range s.sources() {
		entry, content, err := b.save(ctx, s, from)
		if err == nil {
			b.log("slots %s: %d keys in %d bytes from the %s %s", entry.Slots, entry.Keys, entry.Bytes, entry.Role, entry.Address)
			return entry, content, nil
		}
		err = fmt.Errorf("slots %s from %s: %w", s.slots, from.address(), err)
		if _, passes := errors.AsType[unsteady](err); !passes || ctx.Err() != nil {
			return nil, nil, err
		}
		b.log("%v", err)
		errs = append(errs, err)
	}
	return nil, nil, unsteady{errors.Join(errs...)}
}

// save saves the snapshot of one node. Its error is unsteady if the node is at fault, and not the store.
func (b *backup) save(ctx context.Context, s shard, from node) (*Shard, *contents, error) {
	n := redisnode.DialReadOnly(from.entry.IP, from.entry.Port, b.nodes.login)
	defer n.Close()
	stream, err := n.Snapshot(ctx)
	if err != nil {
		return nil, nil, unsteady{err}
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
		return nil, nil, err
	}
	entry.SHA256, entry.Bytes = hex.EncodeToString(in.sum.Sum(nil)), in.bytes
	entry.Keys, entry.Expiring = in.content.keys, in.content.expiring
	return entry, &in.content, nil
}

// confirm returns an error if a node is not, after its snapshot, the master of the shard or a replica of it.
func (b *backup) confirm(ctx context.Context, s shard, from node) error {
	view, err := b.nodes.ask(ctx, from.entry.IP, from.entry.Port)
	if err != nil {
		return unsteady{err}
	}
	if master := s.master.view.ID; view.ID != from.view.ID || view.ID != master && (node{view: view}).own().MasterID != master {
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

// contents is what an RDB file has.
type contents struct {
	keys, expiring int64
	tooLarge       int // values that a server accepts only with a higher proto-max-bulk-len
	libraries      []string
}

// read reads a file. The error of a key of another slot is unsteady: the node has just become a replica of another master, or keys are
// moved. If use is not nil, read calls it for each record, with the payload.
func (c *contents) read(in io.Reader, slots redisnode.Slots, use func(*rdb.Record) error) error {
	for r := rdb.NewReader(in, use != nil); ; {
		record, err := r.Next()
		if err == io.EOF {
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
		if record.Size > maxBulk {
			c.tooLarge++
		}
	}
}

// verifying is a Reader of an RDB file that reads its content, too. It returns io.EOF only if the whole file is valid. Then its fields may
// be read.
type verifying struct {
	io.Reader

	sum     hash.Hash
	bytes   int64
	content contents

	pipe *io.PipeWriter
	done chan error // has the error of content.read, once it has returned
}

// verify returns a Reader of a file whose keys are of the slots. The caller calls stop at the end.
func verify(in io.Reader, slots redisnode.Slots, use func(*rdb.Record) error) *verifying {
	out, pipe := io.Pipe()
	v := &verifying{sum: sha256.New(), pipe: pipe, done: make(chan error, 1)}
	v.Reader = io.TeeReader(in, io.MultiWriter(v.sum, pipe))
	go func() {
		err := v.content.read(out, slots, use)
		_ = out.CloseWithError(err) // It returns no error.
		v.done <- err
	}()
	return v
}

func (v *verifying) Read(p []byte) (int, error) {
	n, err := v.Reader.Read(p)
	v.bytes += int64(n)
	if err == io.EOF {
		_ = v.pipe.Close() // As above.
		failed := <-v.done
		v.done <- failed // For another call, and for stop.
		if failed != nil {
			err = failed
		}
	}
	return n, err
}

// stop ends the goroutine that reads the content.
func (v *verifying) stop() {
	_ = v.pipe.CloseWithError(context.Canceled) // As above.
	<-v.done
}

// finish writes the manifest. If another run of this backup has been faster, it returns the manifest of that.
func (b *backup) finish(ctx context.Context, m *Manifest) (*Manifest, error) {
	directory := path.Join(b.cluster, b.id)
	names, err := b.store.list(ctx, directory)
	if err != nil {
		return nil, err
	}
	if slices.Contains(names, path.Join(directory, manifestFile)) {
		return readManifest(ctx, b.store, b.cluster, b.id)
	}
	for _, s := range m.Shards {
		if !slices.Contains(names, path.Join(directory, s.File)) {
			return nil, fmt.Errorf("%s was deleted during the backup", s.File)
		}
	}
	for _, name := range names { // An attempt with other slots may have left files.
		if file := path.Base(name); strings.HasSuffix(file, "-"+b.run+".rdb") && !m.has(file) {
			if err := b.store.remove(ctx, name); err != nil {
				return nil, fmt.Errorf("delete %s of an earlier attempt: %w", name, err)
			}
		}
	}
	m.FinishedAt = time.Now().UTC()
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := b.store.put(ctx, path.Join(directory, manifestFile), bytes.NewReader(append(text, '\n'))); err != nil {
		return nil, fmt.Errorf("write the manifest: %w", err)
	}
	return m, nil
}

// prune deletes older backups that are not kept, and what runs that failed have left. In the directory of this backup, another run may
// still write: the next backup deletes what it leaves.
func (b *backup) prune(ctx context.Context) error {
	names, err := b.store.list(ctx, b.cluster)
	if err != nil {
		return err
	}
	all := find(b.cluster, names)
	remove := surplus(all, b.id, b.retention)
	for _, s := range all {
		if !s.complete || s.id >= b.id || slices.Contains(remove, s.names[0]) {
			continue
		}
		m, err := readManifest(ctx, b.store, b.cluster, s.id)
		if err != nil {
			return err
		}
		remove = append(remove, slices.DeleteFunc(s.names[1:], func(name string) bool { return m.has(path.Base(name)) })...)
	}
	partial, err := b.store.partial(ctx, b.cluster)
	if err != nil {
		return err
	}
	for _, s := range find(b.cluster, partial) {
		if s.id < b.id {
			remove = append(remove, s.names...)
		}
	}
	for _, name := range remove {
		if err := b.store.remove(ctx, name); err != nil {
			return fmt.Errorf("delete %s: %w", name, err)
		}
	}
	return nil
}
