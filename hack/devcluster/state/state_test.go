// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/must"
)

func TestALivenessKeepsToTheLockThatItOpened(t *testing.T) {
	dir := Dir(t.TempDir())
	if !hasEnded(t, dir) {
		t.Error("a directory without a lock is alive")
	}
	first, err := dir.TryLock()
	must.Succeed(t, err)
	if _, err := dir.TryLock(); !errors.Is(err, ErrLocked) || hasEnded(t, dir) {
		t.Errorf("a locked directory is dead, or is locked twice: %v", err)
	}
	liveness, err := dir.Liveness()
	must.Succeed(t, err)
	defer liveness.Close()
	must.Succeed(t, dir.Remove(""))
	second, err := dir.TryLock() // of a new cluster in the same directory
	must.Succeed(t, err)
	defer second.Close()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := liveness.Wait(over); !errors.Is(err, context.Canceled) {
		t.Errorf("the first cluster lives, but the wait for its end says %v", err)
	}
	first.Close()
	must.Succeed(t, liveness.Wait(t.Context()))
}

func TestRecord(t *testing.T) {
	dir := Dir(t.TempDir())
	if _, err := dir.Load(); err == nil || !strings.Contains(err.Error(), "no cluster in ") {
		t.Errorf("load from an empty directory: %v", err)
	}
	want := &Record{Spec: Spec{Dir: string(dir), Nodes: 2, Components: []string{Etcd}}, Control: "127.0.0.1:1", Token: "t"}
	must.Succeed(t, dir.Save(want))
	got, err := dir.Load()
	must.Succeed(t, err)
	if got.Control != want.Control || got.Token != want.Token || got.Spec.Nodes != 2 || !got.Spec.Has(Etcd) || got.Spec.Has(Kwok) {
		t.Errorf("got %+v", got)
	}
	info, err := os.Stat(dir.record())
	must.Succeed(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the token's file has mode %o", info.Mode().Perm())
	}
}

func TestRemoveLeavesForeignFiles(t *testing.T) {
	for name, test := range map[string]struct{ owns, foreign, left bool }{
		"its own directory goes":                      {owns: true},
		"its own directory with a guest's file stays": {owns: true, foreign: true, left: true},
		"a foreign directory stays":                   {left: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := Dir(t.TempDir())
			files, owned, want := made, "", 0
			if test.foreign {
				files, want = append(files[:len(files):len(files)], "notes.txt"), 1
			}
			if test.owns {
				owned = string(dir)
			}
			for _, name := range files {
				must.Succeed(t, os.WriteFile(dir.Path(name), nil, 0o600))
			}
			must.Succeed(t, dir.Remove(owned))
			if entries, err := os.ReadDir(string(dir)); (err == nil) != test.left || len(entries) != want {
				t.Errorf("left in it: %v, error %v", entries, err)
			}
		})
	}
}

func TestCheckForeign(t *testing.T) {
	dir := Dir(t.TempDir())
	if err := dir.CheckForeign(); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
	must.Succeed(t, os.Mkdir(dir.Path("pki"), 0o700))
	if err := dir.CheckForeign(); err == nil || !strings.Contains(err.Error(), "already holds pki") {
		t.Errorf("a foreign pki: %v", err)
	}
	must.Succeed(t, dir.Save(&Record{}))
	if err := dir.CheckForeign(); err != nil {
		t.Errorf("the pki of a dead cluster: %v", err)
	}
}

func hasEnded(t *testing.T, dir Dir) bool {
	t.Helper()
	liveness, err := dir.Liveness()
	must.Succeed(t, err)
	defer liveness.Close()
	ended, err := liveness.Ended()
	must.Succeed(t, err)
	return ended
}
