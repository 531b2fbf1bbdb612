// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// file returns an RDB file with these parts between its header and its end.
func file(version int, parts ...string) []byte {
	data := append(fmt.Appendf(nil, "REDIS%04d%s", version, strings.Join(parts, "")), opEnd)
	return binary.LittleEndian.AppendUint64(data, checksum(0, data))
}

// payload returns the payload of DUMP for a value.
func payload(version uint16, value string) []byte {
	data := binary.LittleEndian.AppendUint16([]byte(value), version)
	return binary.LittleEndian.AppendUint64(data, checksum(0, data))
}

func readAll(in io.Reader, payloads bool) ([]Record, error) {
	r, records := NewReader(in, payloads), []Record{}
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		records = append(records, *record)
	}
}

// The parts of files.
const (
	aux      = "\xfa\x09redis-ver\x057.0.1\xfa\x04bits\xc0\x40"
	database = "\xfe\x00\xfb\x01\x00"
	slotInfo = "\xf4\x05\x01\x00"
	library  = "\xf5\x0b#!lua n=one"
	aString  = "\x00\x01k\x01v"

	// The parts of values.
	id         = "\x01\x02"
	rawID      = "0123456789abcdef"
	time8      = "8 bytes."
	compressed = "\xc3\x05\x0a\x00a\xe0\x00\x00" // "a", nine bytes from one byte before
)

// TestRead reads values of each type and key, and of each way to write a length. What a server writes, TestReadsWhatAServerWrites reads.
func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		kind, key, value string
		want             string // the key
	}{
		"a string":                     {"\x00", "\x01k", "\x01v", "k"},
		"a key of one byte":            {"\x00", "\xc0\xff", "\x01v", "-1"},
		"a key of two bytes":           {"\x00", "\xc1\x39\x30", "\x01v", "12345"},
		"a key of four bytes":          {"\x00", "\xc2\x00\x00\x00\x80", "\x01v", "-2147483648"},
		"compressed strings":           {"\x00", compressed, compressed, "aaaaaaaaaa"},
		"a length of two bytes":        {"\x00", "\x40\x03key", "\x01v", "key"},
		"a length of four bytes":       {"\x00", "\x80\x00\x00\x00\x03key", "\x01v", "key"},
		"a length of eight bytes":      {"\x00", "\x81\x00\x00\x00\x00\x00\x00\x00\x03key", "\x01v", "key"},
		"a set":                        {"\x02", "\x01k", "\x02\x01a\xc0\x01", "k"},
		"a hash":                       {"\x04", "\x01k", "\x01\x01f\x01v", "k"},
		"a sorted set":                 {"\x05", "\x01k", "\x01\x01m" + time8, "k"},
		"a list":                       {"\x12", "\x01k", "\x01\x02\x03abc", "k"},
		"a set in a listpack":          {"\x14", "\x01k", "\x03abc", "k"},
		"a hash whose fields expire":   {"\x18", "\x01k", time8 + "\x02\x00\x01f\x01v\x09\x01g\x01w", "k"},
		"such a hash in a listpack":    {"\x19", "\x01k", time8 + "\x02lp", "k"},
		"a stream without groups":      {"\x13", "\x01k", "\x01" + rawNode + "\x01" + id + id + id + "\x01\x00", "k"},
		"a stream with a group of 7.0": {"\x13", "\x01k", "\x00\x00" + id + id + id + "\x00\x01" + group(time8), "k"},
		"a stream with a group of 7.2": {"\x15", "\x01k", "\x00\x00" + id + id + id + "\x00\x01" + group(time8+time8), "k"},
	} {
		t.Run(name, func(t *testing.T) {
			data := file(12, aux, library, database, slotInfo, test.kind, test.key, test.value, aString)
			want := []Record{
				{Library: "#!lua n=one"},
				{Key: test.want, Idle: -1, Frequency: -1, Size: int64(len(test.value)), Payload: payload(12, test.kind+test.value)},
				{Key: "k", Idle: -1, Frequency: -1, Size: 2, Payload: payload(12, "\x00\x01v")},
			}
			got, err := readAll(iotest.OneByteReader(bytes.NewReader(data)), true)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("records %+v, error %v, want %+v", got, err, want)
			}
			for end := range data {
				if _, err := readAll(bytes.NewReader(data[:end]), false); err == nil || !strings.Contains(err.Error(), "ends too early") {
					t.Fatalf("the first %d of %d bytes: error %v", end, len(data), err)
				}
			}
		})
	}
}

const rawNode = "\x10" + rawID + "\x02lp"

// group returns a group of a stream whose consumer has these times.
func group(times string) string {
	return "\x01g" + id + "\x01" + "\x01" + rawID + time8 + "\x07" + "\x01\x01c" + times + "\x01" + rawID
}

func TestReadFieldsOfARecord(t *testing.T) {
	data := file(10, database,
		"\xfc\x01\x02\x00\x00\x00\x00\x00\x00", aString, "\xf8\x40\x80", aString, "\xf9\x05", aString, aString)
	want := []Record{
		{Key: "k", Expires: 0x201, Idle: -1, Frequency: -1, Size: 2}, {Key: "k", Idle: 128, Frequency: -1, Size: 2},
		{Key: "k", Idle: -1, Frequency: 5, Size: 2}, {Key: "k", Idle: -1, Frequency: -1, Size: 2},
	}
	if got, err := readAll(bytes.NewReader(data), false); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("records %+v, error %v", got, err)
	}
}

func TestReadErrors(t *testing.T) {
	valid := file(10, database, aString)
	damaged := bytes.Clone(valid)
	damaged[len(damaged)-10]++ // the value
	unsummed := bytes.Clone(valid)
	copy(unsummed[len(unsummed)-8:], make([]byte, 8))
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		in   io.Reader
		want string // "" for no error
	}{
		"a valid file":               {bytes.NewReader(valid), ""},
		"a file without a checksum":  {bytes.NewReader(unsummed), ""},
		"a wrong checksum":           {bytes.NewReader(damaged), "RDB file, byte 28: the checksum is wrong"},
		"data after the end":         {bytes.NewReader(append(valid, 0)), "data follow the end"},
		"an empty file":              {bytes.NewReader(nil), "RDB file, byte 0: the file ends too early"},
		"no RDB file":                {strings.NewReader("VALKEY080.."), "it is no RDB file of Redis"},
		"an old version":             {bytes.NewReader(file(9)), "RDB version 9, and this program reads 10 to 12"},
		"a future version":           {bytes.NewReader(file(13)), "RDB version 13"},
		"another database":           {bytes.NewReader(file(10, "\xfe\x01")), "database 1"},
		"a module":                   {bytes.NewReader(file(10, "\x07\x01k\x01")), "data of a module"},
		"data beside keys":           {bytes.NewReader(file(10, "\xf7\x01")), "data of a module"},
		"an empty library":           {bytes.NewReader(file(10, "\xf5\x00")), "a function library without code"},
		"an unknown type":            {bytes.NewReader(file(10, "\x1a\x01k")), "RDB file, byte 10: unknown type or opcode 26"},
		"a malformed length":         {bytes.NewReader(file(10, "\x00\x82")), "malformed length"},
		"an unknown encoding":        {bytes.NewReader(file(10, "\x00\xc4")), "unknown encoding 4"},
		"a count that is none":       {bytes.NewReader(file(10, "\x02\x01k\xc0\x01")), "malformed length"},
		"a compressed key, too long": {bytes.NewReader(file(10, "\x00\xc3\x05\x0b\x00a\xe0\x00\x00\x01v")), "malformed compressed string"},
		"from before its beginning":  {bytes.NewReader(file(10, "\x00\xc3\x04\x05\x00a\x20\x01\x01v")), "malformed compressed string"},
		"literals that are missing":  {bytes.NewReader(file(10, "\x00\xc3\x01\x05\x05\x01v")), "malformed compressed string"},
		"a place that is missing":    {bytes.NewReader(file(10, "\x00\xc3\x03\x05\x00a\xe0\x01v")), "malformed compressed string"},
		"a length without an end":    {bytes.NewReader(file(10, "\x00\x81\xff\xff\xff\xff\xff\xff\xff\xff")), "ends too early"},
		"a reader that fails":        {io.MultiReader(bytes.NewReader(valid[:20]), iotest.ErrReader(broken)), "RDB file, byte 20: broken"},
		"and after the last byte":    {io.MultiReader(bytes.NewReader(valid), iotest.ErrReader(broken)), "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readAll(test.in, true)
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// TestDecompressEndsAtTheLength decompresses a megabyte, of which each three bytes stand for 264, into a string of ten bytes.
func TestDecompressEndsAtTheLength(t *testing.T) {
	data := append([]byte{0, 'a'}, bytes.Repeat([]byte{7 << 5, 255, 0}, 350_000)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := decompress(nil, data, 10)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, errLZF) || took > 1<<20 {
		t.Errorf("error %v, and %d bytes allocated", err, took)
	}
}

// FuzzReader reads damaged files: it neither panics nor hangs, and what it yields does not depend on whether it keeps payloads.
func FuzzReader(f *testing.F) {
	f.Add(file(10, aux, library, database, aString, "\x00"+compressed+compressed))
	f.Add(file(12, slotInfo, "\x13\x01k\x01"+rawNode+"\x01"+id+id+id+"\x01\x01"+group(time8)))
	f.Add(file(12, "\xfc"+time8+"\xf9\x05\x18\x01k"+time8+"\x02\x00\x01f\x01v\x09\x01g\x01w"))
	f.Fuzz(func(t *testing.T, data []byte) {
		kept, err := readAll(bytes.NewReader(data), true)
		counted, again := readAll(iotest.HalfReader(bytes.NewReader(data)), false)
		if len(kept) != len(counted) || (err == nil) != (again == nil) || (err != nil && err.Error() != again.Error()) {
			t.Fatalf("%d records and error %v with payloads, %d and %v without", len(kept), err, len(counted), again)
		}
		for i := range kept {
			if kept[i].Library == "" && int64(len(kept[i].Payload)) != kept[i].Size+11 {
				t.Errorf("a value of %d bytes has a payload of %d", kept[i].Size, len(kept[i].Payload))
			}
			kept[i].Payload = nil
		}
		if !reflect.DeepEqual(kept, counted) {
			t.Errorf("%+v with payloads, %+v without", kept, counted)
		}
	})
}
