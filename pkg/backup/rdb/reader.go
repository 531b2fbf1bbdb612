// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rdb

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"strconv"
)

const (
	magic      = "REDIS"
	minVersion = 10 // Redis 7.0
	maxVersion = 12 // Redis 7.4
	// bufferSize is also the size of the pieces that are added to the checksum: large pieces are faster.
	bufferSize = 64 << 10
)

// The opcodes: https://github.com/redis/redis/blob/7.4.1/src/rdb.h
const (
	opSlotInfo     = 244
	opFunction     = 245
	opModuleAux    = 247
	opIdle         = 248
	opFrequency    = 249
	opAux          = 250
	opResize       = 251
	opExpiresMilli = 252
	opSelect       = 254
	opEnd          = 255
)

// The encodings of a string.
const (
	plain = -1
	lzf   = 3 // 0 to 2 are integers of 1, 2 and 4 bytes
)

var (
	errNoRDB    = errors.New("it is no RDB file of Redis")
	errLength   = errors.New("malformed length")
	errLZF      = errors.New("malformed compressed string")
	errTrailing = errors.New("data follow the end of the file")
	errChecksum = errors.New("the checksum is wrong")
	errLibrary  = errors.New("a function library without code")
	errModule   = errors.New("data of a module, which cannot be restored")
)

// Record is a key with its value, or a function library.
type Record struct {
	// Library is the code of a function library. All other fields are zero then.
	Library string
	Key     string
	// Expires is when the key expires, in milliseconds since 1970; 0 for never.
	Expires int64
	// Idle is the number of seconds since the last use of the key, and Frequency its counter of uses. A field is -1 if the file lacks it: the
	// server writes only the one by which it evicts keys, if any.
	Idle, Frequency int64
	// Size is the size of the value in the file.
	Size int64
	// Payload is what DUMP returns for the key. It is nil if the Reader keeps no payloads.
	Payload []byte
}

// Reader reads an RDB file.
type Reader struct {
	in      *bufio.Reader
	keep    bool // whether records have payloads
	version uint16
	offset  int64   // how many bytes are consumed
	sum     uint64  // the checksum of what in has read
	raw     *[]byte // collects what is consumed; nil to collect nothing
}

// NewReader returns a Reader of a file. If payloads is false, its records have no payloads, and no value is held in memory.
func NewReader(in io.Reader, payloads bool) *Reader {
	r := &Reader{keep: payloads}
	r.in = bufio.NewReaderSize(io.TeeReader(in, (*summing)(&r.sum)), bufferSize)
	return r
}

// Next returns the next record. At the end, after it has verified the checksum, it returns io.EOF. Libraries come before keys. Every other
// error names its position in the file, in bytes.
func (r *Reader) Next() (*Record, error) {
	record, err := r.record()
	if err != nil && !errors.Is(err, io.EOF) {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the file ends too early")
		}
		return nil, fmt.Errorf("RDB file, byte %d: %w", r.offset, err)
	}
	return record, err
}

func (r *Reader) record() (*Record, error) {
	if r.version == 0 {
		if err := r.header(); err != nil {
			return nil, err
		}
	}
	record := &Record{Idle: -1, Frequency: -1}
	for {
		code, err := r.byte()
		if err != nil {
			return nil, err
		}
		switch code {
		case opEnd:
			return nil, r.end()
		case opFunction:
			library := []byte{}
			if err := r.text(&library); err != nil {
				return nil, err
			}
			if len(library) == 0 {
				return nil, errLibrary
			}
			return &Record{Library: string(library)}, nil
		case opModuleAux:
			return nil, errModule
		case opExpiresMilli:
			var expires []byte
			if err = r.take(8, &expires); err == nil {
				record.Expires = int64(binary.LittleEndian.Uint64(expires))
			}
		case opIdle:
			var idle uint64
			idle, err = r.number()
			record.Idle = int64(idle)
		case opFrequency:
			var frequency byte
			frequency, err = r.byte()
			record.Frequency = int64(frequency)
		case opSelect:
			err = r.selectDB()
		case opAux:
			err = list{text, text}.read(r)
		case opResize:
			err = list{number, number}.read(r)
		case opSlotInfo:
			err = list{number, number, number}.read(r)
		default:
			return record, r.value(record, code)
		}
		if err != nil {
			return nil, err
		}
	}
}

func (r *Reader) header() error {
	var header []byte
	if err := r.take(uint64(len(magic)+4), &header); err != nil {
		return err
	}
	version, err := strconv.ParseUint(string(header[len(magic):]), 10, 16)
	if err != nil || string(header[:len(magic)]) != magic {
		return errNoRDB
	}
	if version < minVersion || version > maxVersion {
		return fmt.Errorf("the file has RDB version %d, and this program reads %d to %d", version, minVersion, maxVersion)
	}
	r.version = uint16(version)
	return nil
}

// selectDB reads the number of the database. A Redis Cluster has only one.
func (r *Reader) selectDB() error {
	db, err := r.number()
	if err == nil && db != 0 {
		return fmt.Errorf("the file has a database %d: it is not of a cluster", db)
	}
	return err
}

// value reads the key and the value of a record.
func (r *Reader) value(record *Record, kind byte) error {
	parts, known := types[kind]
	switch {
	case kind == typeModule || kind == typeModulePreGA:
		return errModule
	case !known:
		return fmt.Errorf("unknown type or opcode %d", kind)
	}
	key := []byte{}
	if err := r.text(&key); err != nil {
		return err
	}
	record.Key = string(key)
	payload, begin := []byte{kind}, r.offset
	if r.keep {
		r.raw = &payload
	}
	err := parts.read(r)
	r.raw, record.Size = nil, r.offset-begin
	if err == nil && r.keep {
		payload = binary.LittleEndian.AppendUint16(payload, r.version)
		record.Payload = binary.LittleEndian.AppendUint64(payload, checksum(0, payload))
	}
	return err
}

// end verifies that the file ends, and its checksum.
func (r *Reader) end() error {
	var sum []byte
	if err := r.take(8, &sum); err != nil {
		return err
	}
	_, err := r.in.Peek(1)
	switch {
	case err == nil:
		return errTrailing
	case errors.Is(err, io.EOF) && r.sum != 0 && binary.LittleEndian.Uint64(sum) != 0: // With "rdbchecksum no", Redis writes 0.
		return errChecksum
	}
	return err
}

// summing is a Writer that adds what is written to a checksum. The checksum of a file with its own checksum at the end is 0.
type summing uint64

func (s *summing) Write(data []byte) (int, error) {
	*s = summing(checksum(uint64(*s), data))
	return len(data), nil
}

// table is of the polynomial of Jones, reflected.
var table = crc64.MakeTable(0x95AC9329AC4BC9B5)

// checksum adds data to a checksum as Redis does it: without the two inversions of hash/crc64.
func checksum(sum uint64, data []byte) uint64 { return ^crc64.Update(^sum, table, data) }

// take consumes n bytes, and appends them to into unless that is nil. It allocates no more memory than there are bytes in the input.
func (r *Reader) take(n uint64, into *[]byte) error {
	for n > 0 {
		if _, err := r.in.Peek(1); err != nil { // It fills an empty buffer.
			return unexpected(err)
		}
		piece, _ := r.in.Peek(int(min(n, uint64(r.in.Buffered()))))
		if into != nil {
			*into = append(*into, piece...)
		}
		if r.raw != nil {
			*r.raw = append(*r.raw, piece...)
		}
		r.offset += int64(len(piece))
		n -= uint64(len(piece))
		_, _ = r.in.Discard(len(piece)) // It is in the buffer.
	}
	return nil
}

// byte consumes a byte.
func (r *Reader) byte() (byte, error) {
	b, err := r.in.ReadByte()
	if err != nil {
		return 0, unexpected(err)
	}
	if r.raw != nil {
		*r.raw = append(*r.raw, b)
	}
	r.offset++
	return b, nil
}

// unexpected turns the end of the input into an error.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// length reads a length, or how a string is encoded if it is not plain.
func (r *Reader) length() (length uint64, encoding int, err error) {
	first, err := r.byte()
	if err != nil {
		return 0, plain, err
	}
	var more []byte
	switch first >> 6 {
	case 0:
		return uint64(first), plain, nil
	case 1:
		second, err := r.byte()
		return uint64(first&0x3f)<<8 | uint64(second), plain, err
	case 3:
		return 0, int(first & 0x3f), nil
	}
	switch first {
	case 0x80:
		if err := r.take(4, &more); err != nil {
			return 0, plain, err
		}
		return uint64(binary.BigEndian.Uint32(more)), plain, nil
	case 0x81:
		if err := r.take(8, &more); err != nil {
			return 0, plain, err
		}
		return binary.BigEndian.Uint64(more), plain, nil
	}
	return 0, plain, errLength
}

// number reads a length that does not belong to a string, such as a count.
func (r *Reader) number() (uint64, error) {
	n, encoding, err := r.length()
	if err == nil && encoding != plain {
		err = errLength
	}
	return n, err
}

// text reads a string, and appends it to into, decoded, unless that is nil.
func (r *Reader) text(into *[]byte) error {
	length, encoding, err := r.length()
	switch {
	case err != nil:
		return err
	case encoding == plain:
		return r.take(length, into)
	case encoding == lzf:
		return r.compressed(into)
	case encoding > lzf:
		return fmt.Errorf("%w: unknown encoding %d", errLength, encoding)
	}
	var digits []byte
	if err := r.take(1<<encoding, &digits); err != nil {
		return err
	}
	if into != nil {
		number := [8]byte{}
		copy(number[8-len(digits):], digits)
		*into = strconv.AppendInt(*into, int64(binary.LittleEndian.Uint64(number[:]))>>(64-8*len(digits)), 10)
	}
	return nil
}

// compressed reads a string that LZF has compressed.
func (r *Reader) compressed(into *[]byte) error {
	size, err := r.number()
	if err != nil {
		return err
	}
	length, err := r.number()
	if err != nil {
		return err
	}
	if into == nil {
		return r.take(size, nil)
	}
	var data []byte
	if err := r.take(size, &data); err != nil {
		return err
	}
	*into, err = decompress(*into, data, length)
	return err
}

// decompress appends length bytes to into, from data in the format of LibLZF.
func decompress(into, data []byte, length uint64) ([]byte, error) {
	begin := len(into)
	for len(data) > 0 {
		if uint64(len(into)-begin) > length { // A byte of data may stand for 88.
			return nil, errLZF
		}
		control := int(data[0])
		data = data[1:]
		if control < 1<<5 { // control+1 uncompressed bytes
			if control >= len(data) {
				return nil, errLZF
			}
			into, data = append(into, data[:control+1]...), data[control+1:]
			continue
		}
		count := control >> 5
		if count == 7 && len(data) > 0 {
			count += int(data[0])
			data = data[1:]
		}
		if len(data) == 0 {
			return nil, errLZF
		}
		from := len(into) - (control&0x1f)<<8 - int(data[0]) - 1
		data = data[1:]
		if from < begin {
			return nil, errLZF
		}
		for i := range count + 2 { // Source and target may overlap.
			into = append(into, into[from+i])
		}
	}
	if uint64(len(into)-begin) != length {
		return nil, errLZF
	}
	return into, nil
}
