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

// ErrLocked says that a process of a cluster is alive in the directory.
var ErrLocked = errors.New("directory is locked")

// CheckOwner refuses a directory that another user can write to: they could put another cluster's address, or another kubectl, in it.
func (d Dir) CheckOwner() error {
	info, err := os.Lstat(string(d))
	if err != nil {
		return fmt.Errorf("look at directory: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s must be a directory of yours that no other user may write to: use another, or chmod go-w", d)
	}
	return nil
}

// lockPoll is how often a held lock is tried again.
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
		f.Close() // whoever held it removed the file while this process waited for it: take the new one
	}
}

// Life is a directory's lock, opened to see whether a process of the cluster is alive. It keeps to the lock that it opened, even when that
// is removed and another cluster makes a new one.
type Life struct {
	dir  Dir
	file *os.File // nil: there is no lock, so no cluster runs
}

// Life opens the directory's lock. It creates nothing.
func (d Dir) Life() (*Life, error) {
	f, err := os.Open(d.Path("lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return &Life{dir: d}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	return &Life{dir: d, file: f}, nil
}

// Close closes the lock.
func (l *Life) Close() {
	if l.file != nil {
		l.file.Close()
	}
}

// Ended reports whether no process of the cluster is alive.
func (l *Life) Ended() (bool, error) {
	if l.file == nil {
		return true, nil
	}
	// A shared lock, so that two who only ask do not mistake each other for a cluster.
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
func (l *Life) Wait(ctx context.Context) error {
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

// Holds reports whether lock is still the directory's. It is not once the directory has been removed or recreated.
func (d Dir) Holds(lock *os.File) bool { return sameFile(lock, d.Path("lock")) }

func sameFile(f *os.File, path string) bool {
	held, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(held, there)
}
