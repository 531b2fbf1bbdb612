// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// ErrLocked means that another process holds the directory's lock.
var ErrLocked = errors.New("directory is locked")

// CheckOwner returns an error if another user can write to the directory: that user could put the address of another cluster, or another
// kubectl, into it.
func (d Dir) CheckOwner() error {
	info, err := os.Lstat(string(d))
	if err != nil {
		return fmt.Errorf("stat directory: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s must be a directory that you own and that no other user may write to: choose another, or run \"chmod go-w\"", d)
	}
	return nil
}

// lockPoll is the interval at which Wait checks the lock.
const lockPoll = 20 * time.Millisecond

// TryLock takes the directory's lock, or fails with ErrLocked. The lock lasts until the returned file and every copy of it that a child
// process inherited are closed.
func (d Dir) TryLock() (*os.File, error) {
	for {
		f, err := os.OpenFile(d.Path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open lock: %w", err)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, ErrLocked
			}
			return nil, fmt.Errorf("lock %s: %w", d, err)
		}
		if sameFile(f, d.Path("lock")) {
			return f, nil
		}
		f.Close() // the last holder removed the file after this process opened it: try the new file
	}
}

// Liveness is a directory's lock, opened to check whether a process of the cluster is alive. It checks the lock file that it opened, even
// after that file was removed and another cluster has made a new one.
type Liveness struct {
	dir  Dir
	file *os.File // nil if there is no lock, and so no cluster
}

// Liveness opens the directory's lock. It does not create the file.
func (d Dir) Liveness() (*Liveness, error) {
	f, err := os.Open(d.Path("lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return &Liveness{dir: d}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	return &Liveness{dir: d, file: f}, nil
}

// Close closes the lock.
func (l *Liveness) Close() {
	if l.file != nil {
		l.file.Close()
	}
}

// Ended reports whether no process of the cluster is alive.
func (l *Liveness) Ended() (bool, error) {
	if l.file == nil {
		return true, nil
	}
	// The lock is shared, so that two processes that check at once do not mistake each other for a cluster.
	err := syscall.Flock(int(l.file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", l.dir, err)
	}
	if err := syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN); err != nil {
		return false, fmt.Errorf("unlock %s: %w", l.dir, err)
	}
	return true, nil
}

// Wait waits until no process of the cluster is alive.
func (l *Liveness) Wait(ctx context.Context) error {
	for {
		ended, err := l.Ended()
		if err != nil || ended {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the processes of the cluster in %s to end: %w", l.dir, ctx.Err())
		case <-time.After(lockPoll):
		}
	}
}

// Holds reports whether lock is still the lock file of the directory. It returns false once the directory was removed or recreated.
func (d Dir) Holds(lock *os.File) bool { return sameFile(lock, d.Path("lock")) }

func sameFile(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	present, err := os.Stat(path)
	return err == nil && os.SameFile(opened, present)
}
