// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/glassback/glassback/pkg/backup/rdb"
	"github.com/glassback/glassback/pkg/redisnode"
)

const (
	// batchKeys and batchBytes limit what is sent at once. A larger value is sent alone.
	batchKeys  = 512
	batchBytes = 4 << 20
	// restoreTimeout limits the time to send a batch, and the time to wait for its answers. A large value takes seconds.
	restoreTimeout = 2 * time.Minute
	// sends is the largest number of times that keys are sent if masters change meanwhile.
	sends = 3
)

// restore is one run of glassback restore.
type restore struct {
	cluster, id string // of the backup
	choose      bool   // whether to return the ID of the backup, and restore nothing
	nodes       connection
	store       store
	patience    patience
	log         func(format string, args ...any)
}

// run adds the keys and the functions of a backup to a cluster. It keeps what the cluster has.
func (r *restore) run(ctx context.Context) (*Result, error) {
	m, err := resolve(ctx, r.store, r.cluster, r.id)
	if err != nil {
		return nil, err
	}
	if r.choose {
		return m.result(), nil
	}
	var libraries []string
	for _, s := range m.Shards { // Nothing is sent before all files are verified.
		c, err := r.read(ctx, m, s, nil)
		if err != nil {
			return nil, err
		}
		libraries = append(libraries, c.libraries...)
	}
	r.log("the files of backup %s are valid", m.ID)
	slices.Sort(libraries) // Each file has all of them.
	libraries = slices.Compact(libraries)
	before, err := r.nodes.await(ctx, r.patience, ready)
	if err != nil {
		return nil, err
	}
	client := r.nodes.client(before)
	result, err := r.send(ctx, client, m, before, libraries)
	return result, errors.Join(err, client.Close())
}

// read reads the file of a shard and verifies it.
func (r *restore) read(ctx context.Context, m *Manifest, s Shard, use func(*rdb.Record) error) (*contents, error) {
	name := path.Join(m.Cluster, m.ID, s.File)
	fail := func(err error) (*contents, error) { return nil, fmt.Errorf("%s in %s: %w", name, r.store, err) }
	file, err := r.store.open(ctx, name)
	if err != nil {
		return fail(err)
	}
	defer file.Close()
	in := verify(contextReader{ctx, file}, allSlots, use)
	_, err = io.Copy(io.Discard, in)
	in.stop()
	if err != nil {
		return fail(err)
	}
	if sum := hex.EncodeToString(in.sum.Sum(nil)); sum != s.SHA256 || in.bytes != s.Bytes || in.content.keys != s.Keys {
		return fail(fmt.Errorf("it has %d bytes with the SHA-256 %s, and the manifest wants %d with %s", in.bytes, sum, s.Bytes, s.SHA256))
	}
	return &in.content, nil
}

var allSlots = redisnode.AllSlots()

// client returns a client that follows redirections to the nodes of the cluster. It begins with the masters: at another address of the
// connection, there may be a node of another cluster by now.
func (c connection) client(t *topology) *redis.ClusterClient {
	var masters []string
	for _, s := range t.shards {
		masters = append(masters, s.master.address())
	}
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: masters, Username: c.login.User, Password: c.login.Password, Dialer: c.login.Dialer(5 * time.Second),
		Protocol: 2, DisableIdentity: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		PoolSize: 2, ReadTimeout: restoreTimeout, WriteTimeout: restoreTimeout,
	})
}

// send sends the functions, and then the keys. If masters change meanwhile, it sends the keys of their slots again: a master that has
// taken over may lack some. It sends no other key twice: a client may have deleted it.
func (r *restore) send(
	ctx context.Context, client *redis.ClusterClient, m *Manifest, before *topology, libraries []string,
) (*Result, error) {
	begin, slots := before, allSlots
	var first *sender // Later passes also skip what this one has restored.
	for range sends {
		kept, err := r.loadLibraries(ctx, client, libraries)
		if err != nil {
			return nil, err
		}
		s, err := r.sendKeys(ctx, client, m, before, slots)
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = s
		}
		after, err := r.replicated(ctx)
		if err != nil {
			return nil, err
		}
		if slots = before.changed(after); len(slots) == 0 {
			if n := begin.evicted(after); n > 0 { // Restored keys may be among them.
				return nil, fmt.Errorf("the cluster has evicted %d keys during the restore: raise maxmemory, or set maxmemory-policy to "+
					"noeviction, and restore again", n)
			}
			return r.result(m, first, kept)
		}
		r.log("masters have changed: the keys of slots %s are sent again", slots)
		before = after
	}
	return nil, errors.New("masters have changed again and again, and keys may be missing: restore again when the cluster is stable")
}

// changed returns the slots of the masters that are in only one of the two topologies: keys of these slots may be lost. A slot that moved
// between two masters of both topologies has its keys.
func (t *topology) changed(after *topology) redisnode.Slots {
	var slots redisnode.Slots
	for _, pair := range [][2]*topology{{t, after}, {after, t}} {
		for _, s := range pair[0].shards {
			if !slices.ContainsFunc(pair[1].shards, s.sameRun) {
				slots = slots.Union(s.slots)
			}
		}
	}
	return slots
}

// sameRun returns whether the master is the same process, and was the master all the time. One that was a replica meanwhile has another
// history and a higher epoch. Either alone has another reason: the history changes with the first replica, and the epoch when slots arrive.
func (s shard) sameRun(o shard) bool {
	one, other := s.master.view, o.master.view
	return one.ID == other.ID && one.RunID == other.RunID && (one.History == other.History || s.epoch == o.epoch)
}

// evicted returns how many keys the masters have evicted since topology t, to free memory for other keys.
func (t *topology) evicted(after *topology) int64 {
	before := map[string]int64{}
	for _, s := range t.shards {
		before[s.master.view.RunID] = s.master.view.Stats.Evicted
	}
	sum := int64(0)
	for _, s := range after.shards {
		sum += s.master.view.Stats.Evicted - before[s.master.view.RunID]
	}
	return sum
}

// ready accepts every topology: slots may be moving.
func ready(*topology) error { return nil }

// replicated waits until the connected replicas have all writes that their masters have now.
func (r *restore) replicated(ctx context.Context) (*topology, error) {
	begin, err := r.nodes.await(ctx, r.patience, ready)
	if err != nil {
		return nil, err
	}
	offsets := map[string]int64{}
	for _, s := range begin.shards {
		offsets[s.master.view.ID] = s.master.view.Offset
	}
	return r.nodes.await(ctx, r.patience, func(t *topology) error {
		for _, s := range t.shards {
			for _, replica := range s.replicas {
				if replica.view.Offset < offsets[s.master.view.ID] {
					return changing("the replica %s does not have all keys yet", replica.address())
				}
			}
		}
		return nil
	})
}

// loadLibraries loads libraries of functions on each master. It keeps libraries that exist. It returns the names of the libraries that it
// did not load because they, or their functions, exist with other code.
func (r *restore) loadLibraries(ctx context.Context, client *redis.ClusterClient, libraries []string) ([]string, error) {
	var kept []string
	for _, code := range libraries {
		name := functionOf(code).Name
		var differs atomic.Bool
		err := r.patience.wait(ctx, func() error {
			return retry(ctx, client, client.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
				loaded, err := loadLibrary(ctx, master, name, code)
				if err == nil && !loaded {
					differs.Store(true)
				}
				return err
			}))
		})
		if err != nil {
			return nil, fmt.Errorf("load the library %s: %w", name, err)
		}
		if differs.Load() {
			kept = append(kept, name)
		}
	}
	return slices.Compact(kept), nil // Masters of the backup may have had different code under one name.
}

// loadLibrary loads a library on one master. It returns false if the master has other code under one of its names.
func loadLibrary(ctx context.Context, master *redis.Client, name, code string) (bool, error) {
	err := master.FunctionLoad(ctx, code).Err()
	if err == nil || !strings.Contains(err.Error(), "already exists") {
		return err == nil, err
	}
	list, err := master.FunctionList(ctx, redis.FunctionListQuery{LibraryNamePattern: name, WithCode: true}).Result()
	return len(list) == 1 && list[0].Code == code, err
}

// passingAnswers are the beginnings of errors that a node answers while slots move, a replica takes over or a node starts.
var passingAnswers = []string{
	"MOVED ", "ASK ", "TRYAGAIN ", "CLUSTERDOWN ", "LOADING ", "MASTERDOWN ", "READONLY ", "NOREPLICAS ", "BUSY ",
}

// passing makes an error unsteady unless it is an answer of a node that does not change with time.
func passing(err error) error {
	if err == nil {
		return nil
	}
	if answer, ok := errors.AsType[redis.Error](err); ok {
		text, _, _ := strings.Cut(answer.Error(), ", with args beginning with") // The arguments include data.
		if !slices.ContainsFunc(passingAnswers, func(p string) bool { return strings.HasPrefix(text, p) }) {
			return errors.New(text)
		}
	}
	return unsteady{err}
}

// retry returns an error as passing does. If the error is unsteady, retry makes the client reload its map of slots, which the client rarely
// does by itself.
func retry(ctx context.Context, client *redis.ClusterClient, err error) error {
	if err = passing(err); passes(err) {
		client.ReloadState(ctx)
	}
	return err
}

// sendKeys sends the keys of these slots once.
func (r *restore) sendKeys(
	ctx context.Context, client *redis.ClusterClient, m *Manifest, t *topology, slots redisnode.Slots,
) (*sender, error) {
	s := &sender{
		ctx: ctx, client: client, patience: r.patience, slots: slots, source: m.RedisVersion, target: t.shards[0].master.view.Version,
	}
	for _, shard := range m.Shards {
		_, err := r.read(ctx, m, shard, s.add)
		if err == nil {
			err = s.flush()
		}
		if err != nil {
			return nil, err
		}
		r.log("slots %s: in all, %d keys are restored, %d existed, %d have expired", shard.Slots, s.restored, s.skipped, s.expired)
	}
	return s, nil
}

// sender sends keys to a cluster, in batches.
type sender struct {
	ctx            context.Context // of the whole run
	client         *redis.ClusterClient
	patience       patience
	slots          redisnode.Slots // Other keys are left out.
	source, target string          // versions of Redis

	batch                      []*rdb.Record
	size                       int
	restored, skipped, expired int64
}

// add adds a key to the batch, and sends the batch if it is large enough.
func (s *sender) add(record *rdb.Record) error {
	switch {
	case record.Library != "" || !s.slots.Has(redisnode.KeySlot(record.Key)):
		return nil
	case record.Expires > 0 && record.Expires <= time.Now().UnixMilli():
		s.expired++
		return nil
	}
	size := len(record.Key) + len(record.Payload)
	if len(s.batch) == batchKeys || s.size+size > batchBytes {
		if err := s.flush(); err != nil {
			return err
		}
	}
	s.batch, s.size = append(s.batch, record), s.size+size
	return nil
}

// flush sends the batch, and repeats the keys that no node has accepted.
func (s *sender) flush() error {
	err := s.patience.wait(s.ctx, s.try)
	s.size = 0
	return err
}

// try sends the batch once. Keys that no node has accepted stay in the batch, and the error is then unsteady.
func (s *sender) try() error {
	if len(s.batch) == 0 {
		return nil
	}
	pipeline := s.client.Pipeline()
	answers := make([]*redis.StatusCmd, len(s.batch))
	for i, record := range s.batch {
		answers[i] = restoreCommand(s.ctx, record)
		_ = pipeline.Process(s.ctx, answers[i]) // Exec sends it.
	}
	_, failed := pipeline.Exec(s.ctx)
	var left []*rdb.Record
	var last error
	for i, answer := range answers {
		err := answer.Err()
		switch {
		case err == nil && answer.Val() == "OK":
			s.restored++
			continue
		case err == nil: // After a refused AUTH, the commands have no error.
			err = cmp.Or(failed, errNoAnswer)
		case redis.HasErrorPrefix(err, "BUSYKEY"):
			s.skipped++
			continue
		}
		left, last = append(left, s.batch[i]), passing(err)
		if !passes(last) {
			return fmt.Errorf("RESTORE: %w (the backup is of Redis %s, and the cluster runs Redis %s)", last, s.source, s.target)
		}
	}
	s.batch = left
	return retry(s.ctx, s.client, last)
}

var errNoAnswer = errors.New("a node has not answered")

// restoreCommand returns the command that creates a key unless it exists.
func restoreCommand(ctx context.Context, record *rdb.Record) *redis.StatusCmd {
	args := []any{"RESTORE", record.Key, record.Expires, record.Payload, "ABSTTL"}
	if record.Idle >= 0 {
		args = append(args, "IDLETIME", record.Idle)
	}
	if record.Frequency >= 0 {
		args = append(args, "FREQ", record.Frequency)
	}
	command := redis.NewStatusCmd(ctx, args...)
	command.SetFirstKeyPos(1)
	return command
}

// result returns the numbers of the restore, after it has compared them with the manifest.
func (r *restore) result(m *Manifest, s *sender, kept []string) (*Result, error) {
	result := m.result()
	if sum := s.restored + s.skipped + s.expired; sum != result.Keys {
		return nil, fmt.Errorf("the backup has %d keys, but %d were restored, %d existed and %d have expired", result.Keys, s.restored, s.skipped,
			s.expired)
	}
	result.Skipped, result.Expired, result.Warning = &s.skipped, &s.expired, ""
	if len(kept) > 0 {
		result.Warning = "these libraries of functions exist with other code and were not restored: " + strings.Join(kept, ", ")
	}
	return result, nil
}
