// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	manifestFile = "manifest.json"
	schema       = "glassback.dev/backup/v1"
	// idForm is the form of the id of a backup, a time in UTC. The ids of later backups are greater.
	idForm = "20060102T150405Z"
	// Latest stands for the newest backup.
	Latest = "latest"
)

// Manifest describes a backup. A backup exists if and only if its manifest does. Under one schema, fields are only added.
type Manifest struct {
	Schema       string     `json:"schema"`
	Cluster      string     `json:"cluster"` // namespace and name
	Owner        string     `json:"owner"`   // the UID of the RedisCluster; another one may get its name. "" is a backup by hand.
	ID           string     `json:"id"`
	StartedAt    time.Time  `json:"startedAt"`
	FinishedAt   time.Time  `json:"finishedAt"`
	RedisVersion string     `json:"redisVersion"` // the highest one of the nodes that sent a file
	Shards       []Shard    `json:"shards"`
	Functions    []Function `json:"functions"`
	Warning      string     `json:"warning,omitempty"`
}

// Shard describes the file of one master and its slots.
type Shard struct {
	Slots    string `json:"slots"`
	File     string `json:"file"`
	SHA256   string `json:"sha256"`
	Bytes    int64  `json:"bytes"`
	Keys     int64  `json:"keys"`
	Expiring int64  `json:"expiring"` // the keys that have an expiry
	Node     string `json:"node"`     // the ID of the node that sent the file
	Address  string `json:"address"`
	Role     string `json:"role"`   // master or replica
	Offset   int64  `json:"offset"` // the node's replication offset just before the snapshot
}

// Function describes a library of functions.
type Function struct {
	Name   string `json:"name"`
	Engine string `json:"engine"`
	SHA256 string `json:"sha256"` // of the code
}

// Result is what a successful backup or restore prints.
type Result struct {
	ID        string `json:"id"`
	Keys      int64  `json:"keys"`
	Expiring  int64  `json:"expiring"`
	Functions int    `json:"functions"`
	Bytes     int64  `json:"bytes"`
	Shards    int    `json:"shards"`
	// Skipped and Expired are of a restore: the keys that the cluster already had, and those whose expiry has passed.
	Skipped *int64 `json:"skipped,omitempty"`
	Expired *int64 `json:"expired,omitempty"`
	// Warning says what the user should look at.
	Warning string `json:"warning,omitempty"`
}

// result returns the numbers of the backup.
func (m *Manifest) result() *Result {
	r := &Result{ID: m.ID, Functions: len(m.Functions), Shards: len(m.Shards), Warning: m.Warning}
	for _, s := range m.Shards {
		r.Keys += s.Keys
		r.Expiring += s.Expiring
		r.Bytes += s.Bytes
	}
	return r
}

// functionOf describes the library with this code. The code begins with "#!lua name=library".
func functionOf(code string) Function {
	first, _, _ := strings.Cut(code, "\n")
	engine, rest, _ := strings.Cut(strings.TrimPrefix(first, "#!"), " ")
	sum := sha256.Sum256([]byte(code))
	f := Function{Engine: engine, SHA256: hex.EncodeToString(sum[:])}
	for word := range strings.FieldsSeq(rest) {
		if name, ok := strings.CutPrefix(word, "name="); ok {
			f.Name = name
		}
	}
	return f
}

// checkID returns an error if id is not the id of a backup.
func checkID(id string) error {
	if at, err := time.Parse(idForm, id); err != nil || at.Format(idForm) != id {
		return fmt.Errorf("%q is no id of a backup: ids are times in UTC, such as 20260131T030000Z", id)
	}
	return nil
}

// files matches the names of the files of a backup, and of files that put has not completed. The submatch is the mark of the owner.
var files = regexp.MustCompile(`^(?:manifest\.json|shard-[0-9]{1,5}-([0-9a-f]{8})[0-9a-f]{8}\.rdb)` +
	`(?:(?:\.[0-9a-f]{8})?` + regexp.QuoteMeta(unfinished) + `)?$`)

func random() string { return fmt.Sprintf("%08x", rand.Uint32()) }

// markOf returns the part of file names that stands for an owner.
func markOf(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(sum[:4])
}

// newRun returns a part of file names that differs from run to run. An abandoned run may still write from a machine that cannot be reached:
// it must not change the files of a later run.
func newRun(owner string) string { return markOf(owner) + random() }

func shardFile(firstSlot int, run string) string {
	return fmt.Sprintf("shard-%d-%s.rdb", firstSlot, run)
}

// marked returns whether a run of this owner has written a file. A manifest that was not completed has no mark, and may be of any owner.
func marked(name, owner string) bool {
	file := path.Base(name)
	match := files.FindStringSubmatch(file)
	return match != nil && (match[1] == markOf(owner) || match[1] == "" && file != manifestFile)
}

// stored describes the files of one backup in a store.
type stored struct {
	id       string
	complete bool      // whether it has a manifest
	names    []string  // of its files in the store, the manifest first
	manifest *Manifest // nil if it was not read
}

// find returns the backups of a cluster that are in the store, the newest first, complete or not. It ignores all other names.
func find(cluster string, names []string) []stored {
	byID := map[string]*stored{}
	for _, name := range names {
		directory, file := path.Split(name)
		above, id := path.Split(path.Clean(directory))
		if path.Clean(above) != cluster || checkID(id) != nil || !files.MatchString(file) {
			continue
		}
		s := byID[id]
		if s == nil {
			s = &stored{id: id}
			byID[id] = s
		}
		if file == manifestFile {
			s.complete, s.names = true, slices.Insert(s.names, 0, name)
		} else {
			s.names = append(s.names, name)
		}
	}
	var all []stored
	for _, s := range byID {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b stored) int { return strings.Compare(b.id, a.id) })
	return all
}

// leftovers returns the names of the files that failed runs of an owner have left, before an id. A run with a later id may still write.
func leftovers(all []stored, owner, before string) []string {
	var names []string
	for _, s := range all {
		for _, name := range s.names {
			if !s.complete && s.id < before && marked(name, owner) {
				names = append(names, name)
			}
		}
	}
	return names
}

// surplus returns the names of the files to delete after the backup with this id. They are the files of all backups of the owner but the
// newest complete ones, and in the kept backups the files of other runs of the owner. The manifest of a backup comes before its other
// files.
func surplus(all []stored, owner, id string, retention int) []string {
	var names []string
	for _, s := range all {
		if s.manifest == nil || s.manifest.Owner != owner {
			continue
		}
		keep := retention > 0 || s.id == id
		if keep {
			retention--
		} else {
			names = append(names, s.names[0])
		}
		for _, name := range s.names[1:] { // Once its manifest is gone, files of other runs are leftovers.
			if named := s.manifest.has(path.Base(name)); named != keep && (named || marked(name, owner)) {
				names = append(names, name)
			}
		}
	}
	return names
}

// has returns whether the manifest names a file.
func (m *Manifest) has(file string) bool {
	return slices.ContainsFunc(m.Shards, func(s Shard) bool { return s.File == file })
}

// readManifest returns the manifest of a backup. If there is none, the error is an fs.ErrNotExist.
func readManifest(ctx context.Context, s store, cluster, id string) (*Manifest, error) {
	name := path.Join(cluster, id, manifestFile)
	content, err := readFile(ctx, s, name)
	if err != nil {
		return nil, fmt.Errorf("read %s in %s: %w", name, s, err)
	}
	m := &Manifest{}
	err = json.Unmarshal(content, m)
	if err == nil {
		err = m.check(cluster, id)
	}
	if err != nil {
		return nil, fmt.Errorf("%s in %s is damaged: %w", name, s, err)
	}
	return m, nil
}

// check returns an error if the manifest is not one of this backup.
func (m *Manifest) check(cluster, id string) error {
	if m.Schema != schema {
		return fmt.Errorf("its schema is %q, and this program reads %s", m.Schema, schema)
	}
	if m.Cluster != cluster || m.ID != id || len(m.Shards) == 0 {
		return fmt.Errorf("it describes backup %q of %q with %d shards", m.ID, m.Cluster, len(m.Shards))
	}
	for _, s := range m.Shards {
		if !files.MatchString(s.File) {
			return fmt.Errorf("%q is no name of a file", s.File)
		}
	}
	return nil
}

// resolve returns the manifest of the backup with the id. For Latest, it returns that of the newest backup.
func resolve(ctx context.Context, s store, cluster, id string) (*Manifest, error) {
	if id != Latest {
		m, err := readManifest(ctx, s, cluster, id)
		if !errors.Is(err, fs.ErrNotExist) {
			return m, err
		}
	}
	names, err := s.list(ctx, cluster)
	if err != nil {
		return nil, fmt.Errorf("list the backups of %s in %s: %w", cluster, s, err)
	}
	var ids []string
	for _, found := range find(cluster, names) {
		if !found.complete {
			continue
		}
		ids = append(ids, found.id)
		if id == Latest {
			return readManifest(ctx, s, cluster, found.id)
		}
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("there is no backup of %s in %s", cluster, s)
	}
	const most = 20
	more := ""
	if len(ids) > most {
		more = fmt.Sprintf(" and %d older ones", len(ids)-most)
	}
	return nil, fmt.Errorf("there is no backup %s of %s in %s, but %s%s", id, cluster, s, strings.Join(ids[:min(most, len(ids))], ", "), more)
}
