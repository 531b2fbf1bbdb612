/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package recording

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
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

// maxHeader bounds the first line of a file, in bytes.
const maxHeader = 1 << 20

// Read calls each with the records of a file in their order, and the number of their line. It ends with the first error of each. It returns
// an error if the file is no recording, if its schema is another one, or if a part of it is missing; then it has called each with the
// records before that.
func Read(path string, each func(header *Header, line int, r *Record) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		return notRecording(path, err)
	}
	lines := bufio.NewReaderSize(packed, maxHeader)
	header, err := readHeader(path, lines)
	if err != nil {
		return err
	}
	for line := 2; ; line++ {
		text, err := lines.ReadBytes('\n')
		switch {
		case err == io.EOF && len(text) == 0:
			return nil
		case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("%s is truncated in line %d: the lines before it are complete. Copy the file again, or replay the others", path, line)
		case err != nil:
			return fmt.Errorf("%s cannot be read beyond line %d: %w", path, line-1, err)
		}
		var r Record
		if err := json.Unmarshal(text, &r); err != nil {
			return fmt.Errorf("%s: line %d is no record: %w", path, line, err)
		}
		if err := each(header, line, &r); err != nil {
			return fmt.Errorf("%s: line %d: %w", path, line, err)
		}
	}
}

func readHeader(path string, lines *bufio.Reader) (*Header, error) {
	text, err := lines.ReadSlice('\n')
	var header Header
	if err == nil {
		err = json.Unmarshal(text, &header)
	}
	switch {
	case err != nil:
		return nil, notRecording(path, err)
	case header.Schema != Schema:
		return nil, fmt.Errorf("%s has the schema %q, and this program reads %s: use the version that recorded it, or a newer one", path,
			header.Schema, Schema)
	}
	return &header, nil
}

func notRecording(path string, err error) error {
	return fmt.Errorf("%s is not a recording of glassback --record: %w", path, err)
}
