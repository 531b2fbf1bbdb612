// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"time"
)

// entry is a file of an archive, or a directory, which has no data.
type entry struct {
	name string // a directory ends with /
	mode int64
	user int // and group
	data []byte
}

// writeTar writes a tar file whose entries all have one date.
func writeTar(out io.Writer, date time.Time, entries []entry) error {
	writer := tar.NewWriter(out)
	for _, e := range entries {
		header := &tar.Header{
			Name: e.name, Mode: e.mode, Uid: e.user, Gid: e.user, Size: int64(len(e.data)), ModTime: date,
			Typeflag: tar.TypeReg, Format: tar.FormatUSTAR,
		}
		if e.name[len(e.name)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := writer.WriteHeader(header); err != nil {
			return err
		}
		if _, err := writer.Write(e.data); err != nil {
			return err
		}
	}
	return writer.Close()
}

// tarGz returns a compressed tar file.
func tarGz(date time.Time, entries []entry) ([]byte, error) {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out) // Its header has no date.
	if err := writeTar(compressed, date, entries); err != nil {
		return nil, err
	}
	err := compressed.Close()
	return out.Bytes(), err
}

// archive returns the archive of a program and of some files beside it. Windows can read it too.
func (p *program) archive(date time.Time, legal []entry) ([]byte, error) {
	return tarGz(date, append([]entry{{name: p.exe("glassback"), mode: 0o755, data: p.data}}, legal...))
}
