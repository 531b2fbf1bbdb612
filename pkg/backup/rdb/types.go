// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rdb

const (
	typeModulePreGA = 6
	typeModule      = 7
)

// types holds the parts of a value, for each type that Redis 7.0 to 7.4 writes: https://github.com/redis/redis/blob/7.4.1/src/rdb.h
var types = map[byte]list{
	0:  {text},                                 // string
	2:  {repeat(text)},                         // set
	4:  {repeat(text, text)},                   // hash
	5:  {repeat(text, fixed(8))},               // sorted set: members and scores
	11: {text},                                 // set of integers
	16: {text},                                 // hash in a listpack
	17: {text},                                 // sorted set in a listpack
	18: {repeat(number, text)},                 // list: kinds of nodes, and nodes
	19: stream(fixed(8)),                       // stream
	20: {text},                                 // set in a listpack
	21: stream(fixed(8), fixed(8)),             // stream with one more time for each consumer
	24: {fixed(8), repeat(number, text, text)}, // hash whose fields expire: the first time; times, fields and values
	25: {fixed(8), text},                       // the same in a listpack
}

// stream returns the parts of a stream, with the times that each consumer has.
func stream(times ...part) list {
	id := list{number, number}.read
	pending := repeat(fixed(16), fixed(8), number)
	consumer := append(append(list{text}, times...), repeat(fixed(16)))
	group := []part{text, id, number, pending, repeat(consumer...)}
	return list{repeat(text, text), number, id, id, id, number, repeat(group...)}
}

// part reads a part of a value.
type part func(*Reader) error

// list is parts that follow each other.
type list []part

func (l list) read(r *Reader) error {
	for _, p := range l {
		if err := p(r); err != nil {
			return err
		}
	}
	return nil
}

func text(r *Reader) error { return r.text(nil) }

func number(r *Reader) error {
	_, err := r.number()
	return err
}

func fixed(size uint64) part {
	return func(r *Reader) error { return r.take(size, nil) }
}

// repeat reads a count, and then the parts that many times.
func repeat(parts ...part) part {
	return func(r *Reader) error {
		count, err := r.number()
		for ; err == nil && count > 0; count-- {
			err = list(parts).read(r)
		}
		return err
	}
}
