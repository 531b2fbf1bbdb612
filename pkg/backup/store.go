// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
	"syscall"
)

// store holds files by names such as "shop/cache/20261126T030000Z/manifest.json".
type store interface {
	// put writes a file, or replaces it. The file exists only once put has returned no error, and then survives a power loss. put wraps an
	// error of content.
	put(ctx context.Context, name string, content io.Reader) error
	// create writes a small file as put does. If the file exists, the error is an fs.ErrExist.
	create(ctx context.Context, name string, content []byte) error
	// size returns the size of a file. If there is none, the error is an fs.ErrNotExist.
	size(ctx context.Context, name string) (int64, error)
	// open opens a file. If there is none, the error is an fs.ErrNotExist.
	open(ctx context.Context, name string) (io.ReadCloser, error)
	// list returns the names of all files in a directory and below, sorted.
	list(ctx context.Context, directory string) ([]string, error)
	// partial returns the names of the files in a directory that put has not completed, each with the suffix unfinished.
	partial(ctx context.Context, directory string) ([]string, error)
	// remove deletes a file if it exists, and its directory once that is empty.
	remove(ctx context.Context, name string) error
	// String returns where the files are.
	String() string
}

// unfinished is the suffix of the name of a file that put has not completed.
const unfinished = ".tmp"

// directory is a store in a directory.
type directory struct {
	root *os.Root
	link func(from, to string) error // root.Link
}

func openDirectory(name string) (*directory, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return &directory{root: root, link: root.Link}, nil
}

func (d *directory) String() string { return d.root.Name() }

func (d *directory) put(ctx context.Context, name string, content io.Reader) error {
	return d.write(ctx, name, content, d.root.Rename)
}

// create links the file to its name. On a file system without links, it may replace a file that another process creates at the same moment.
func (d *directory) create(ctx context.Context, name string, content []byte) error {
	return d.write(ctx, name, bytes.NewReader(content), func(partial, name string) error {
		err := d.link(partial, name)
		if err == nil {
			return d.root.Remove(partial)
		}
		if _, failed := d.root.Lstat(name); failed == nil {
			return fs.ErrExist
		} else if !errors.Is(failed, fs.ErrNotExist) {
			return errors.Join(err, failed)
		}
		return d.root.Rename(partial, name)
	})
}

// write writes a file under another name, and then publishes it. A Pod with the same volume that runs as another user of the group can read
// and delete the file.
func (d *directory) write(ctx context.Context, name string, content io.Reader, publish func(partial, name string) error) error {
	if err := d.makeDirectories(name); err != nil {
		return err
	}
	partial := name + "." + random() + unfinished
	file, err := d.root.OpenFile(partial, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o660)
	if err != nil {
		return err
	}
	_ = file.Chmod(0o660) // Against a umask. Some file systems have no modes.
	if _, err = io.Copy(file, contextReader{ctx, content}); err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = publish(partial, name)
	}
	if err != nil {
		return errors.Join(err, d.root.Remove(partial))
	}
	for parent := path.Dir(name); err == nil; parent = path.Dir(parent) {
		err = d.sync(parent)
		if parent == "." {
			break
		}
	}
	return err
}

// makeDirectories makes the directories of a file.
func (d *directory) makeDirectories(name string) error {
	for i, c := range name {
		if c != '/' {
			continue
		}
		err := d.root.Mkdir(name[:i], 0o770)
		if err == nil {
			_ = d.root.Chmod(name[:i], 0o770) // Against a umask.
		} else if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

func (d *directory) size(_ context.Context, name string) (int64, error) {
	info, err := d.root.Stat(name)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// sync makes changes of a directory survive a power loss. Some file systems cannot do this, and answer EINVAL.
func (d *directory) sync(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := d.root.Open(name)
	if err != nil {
		return err
	}
	if err = dir.Sync(); errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, dir.Close())
}

func (d *directory) open(_ context.Context, name string) (io.ReadCloser, error) {
	return d.root.Open(name)
}

func (d *directory) list(ctx context.Context, under string) ([]string, error) {
	return d.walk(ctx, under, func(name string) bool { return !strings.HasSuffix(name, unfinished) })
}

func (d *directory) partial(ctx context.Context, under string) ([]string, error) {
	return d.walk(ctx, under, func(name string) bool { return strings.HasSuffix(name, unfinished) })
}

func (d *directory) walk(ctx context.Context, under string, wanted func(name string) bool) ([]string, error) {
	var names []string
	err := fs.WalkDir(d.root.FS(), under, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // There is no backup, or another process has deleted the file.
			return nil
		case err != nil:
			return err
		case entry.Type().IsRegular() && wanted(name):
			names = append(names, name)
		}
		return ctx.Err()
	})
	return names, err
}

func (d *directory) remove(_ context.Context, name string) error {
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := path.Dir(name)
	_ = d.root.Remove(parent) // It fails until the directory is empty.
	if err := d.sync(parent); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return d.sync(path.Dir(parent))
}

// contextReader is a Reader that fails once its context ends.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// readFile returns the content of a small file.
func readFile(ctx context.Context, s store, name string) ([]byte, error) {
	const limit = 64 << 20
	file, err := s.open(ctx, name)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if len(content) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return content, nil
}
