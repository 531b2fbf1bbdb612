// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Files returns the files that paths name. A directory stands for all recordings in it.
func Files(paths []string) ([]string, error) {
	var all []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			all = append(all, path)
			continue
		}
		files, err := filesIn(path)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("there is no recording in %s (%s*%s)", path, prefix, suffix)
		}
		all = append(all, files...)
	}
	return all, nil
}

// filesIn returns the recordings in a directory, in the order of time.
func filesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var all []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), prefix) && strings.HasSuffix(entry.Name(), suffix) {
			all = append(all, filepath.Join(dir, entry.Name()))
		}
	}
	return all, err
}

// magic is the beginning of a file that gzip has packed.
const magic = "\x1f\x8b"

// maxHeader bounds the first line of a file, in bytes.
const maxHeader = 1 << 20

// Read calls each for every record of a file, in order, with the number of its line. It stops at the first error of each. It returns an
// error if the file is not a recording, or has another schema. If a part of the file is missing or damaged, it returns a *Damage, after it
// has called each for the records before that part.
func Read(path string, each func(header *Header, line int, r *Record) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	damage, buffered := &Damage{path: path}, bufio.NewReader(file)
	switch begin, _ := buffered.Peek(len(magic)); {
	case len(begin) < len(magic) && strings.HasPrefix(magic, string(begin)): // The operator ended right after it created the file.
		return damage.by(io.ErrUnexpectedEOF)
	case string(begin) != magic:
		return notRecording(path, errors.New("it is not packed by gzip"))
	}
	packed, err := gzip.NewReader(buffered)
	if err != nil {
		return damage.orForeign(err)
	}
	lines := bufio.NewReaderSize(packed, maxHeader)
	header, err := readHeader(lines, damage)
	if err != nil {
		return err
	}
	for {
		text, err := lines.ReadBytes('\n')
		switch {
		case err == io.EOF && len(text) == 0:
			return nil
		case err == io.EOF:
			return damage.by(io.ErrUnexpectedEOF)
		case err != nil:
			return damage.by(err)
		}
		var r Record
		if err := json.Unmarshal(text, &r); err != nil {
			return damage.by(err)
		}
		damage.lines++
		if damage.last = r.Time; r.IsSync() {
			damage.syncs++
		}
		if err := each(header, damage.lines, &r); err != nil {
			return fmt.Errorf("%s: line %d: %w", path, damage.lines, err)
		}
	}
}

func readHeader(lines *bufio.Reader, damage *Damage) (*Header, error) {
	text, err := lines.ReadSlice('\n')
	if err != nil {
		return nil, damage.orForeign(err)
	}
	var header Header
	if err := json.Unmarshal(text, &header); err != nil {
		return nil, notRecording(damage.path, err)
	}
	if header.Schema != Schema {
		return nil, fmt.Errorf("%s has the schema %q, and this program reads %s: use the version that recorded it, or a newer one", damage.path,
			header.Schema, Schema)
	}
	damage.lines = 1
	return &header, nil
}

// Damage is the error of a recording that cannot be read to its end. It says what was read before that.
type Damage struct {
	path  string
	lines int       // that were read
	syncs int       // in these
	last  time.Time // of the last line
	cause error
}

func (d *Damage) by(cause error) *Damage {
	d.cause = cause
	return d
}

// orForeign returns the error of a file whose first line cannot be read: it is damaged, or no recording.
func (d *Damage) orForeign(cause error) error {
	if errors.Is(cause, io.ErrUnexpectedEOF) || errors.Is(cause, gzip.ErrChecksum) || errors.As(cause, new(flate.CorruptInputError)) {
		return d.by(cause)
	}
	return notRecording(d.path, cause)
}

func (d *Damage) Unwrap() error { return d.cause }

func (d *Damage) Error() string {
	how, read := "is truncated", "no record was read"
	if !errors.Is(d.cause, io.ErrUnexpectedEOF) {
		how = fmt.Sprintf("is damaged (%v)", d.cause)
	}
	if d.lines > 1 {
		read = fmt.Sprintf("%d syncs were read, until %s", d.syncs, d.last.Format(time.RFC3339))
	}
	return fmt.Sprintf("%s %s after line %d: %s. To read the rest, copy the file again", d.path, how, d.lines, read)
}

func notRecording(path string, err error) error {
	return fmt.Errorf("%s is not a recording of glassback --record: %w", path, err)
}
