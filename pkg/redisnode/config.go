// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrNoConfig is the error of a node that forbids the command CONFIG, or does not have it.
var ErrNoConfig = errors.New("the command CONFIG cannot be used")

// RefusedDirectiveError is the answer of a node that refuses to set a directive. It does not contain the value.
type RefusedDirectiveError struct {
	// Reason is the node's own text, such as "argument must be a memory value".
	Reason string
}

func (e *RefusedDirectiveError) Error() string { return e.Reason }

// Directives returns the present values of the named directives, as the node writes them. The map leaves out directives that the node
// does not know. The error is an ErrNoConfig if the node does not accept CONFIG: https://redis.io/docs/latest/commands/config-get/
func (n *Node) Directives(ctx context.Context, names []string) (map[string]string, error) {
	if len(names) == 0 {
		return map[string]string{}, nil
	}
	var values map[string]string
	err := n.do(ctx, func(cmd *redis.Cmd) (err error) {
		switch {
		case lacksCommand(cmd.Err()):
			return fmt.Errorf("CONFIG GET: %w", ErrNoConfig)
		case cmd.Err() != nil:
			return executed(cmd)
		}
		values, err = parseDirectives(cmd.Val())
		return err
	}, "CONFIG", "GET", words(names)...)
	return values, err
}

var errDirectives = errors.New("CONFIG GET: malformed answer")

// parseDirectives reads a list in which each name is followed by its value.
func parseDirectives(answer any) (map[string]string, error) {
	list, ok := answer.([]any)
	if !ok || len(list)%2 != 0 {
		return nil, errDirectives
	}
	values := make(map[string]string, len(list)/2)
	for i := 0; i < len(list); i += 2 {
		name, nameOK := list[i].(string)
		value, valueOK := list[i+1].(string)
		if !nameOK || !valueOK {
			return nil, errDirectives
		}
		values[name] = value
	}
	return values, nil
}

// SetDirective sets a directive until the node stops. If the node refuses CONFIG, the directive or its value, the error is a
// RefusedDirectiveError: https://redis.io/docs/latest/commands/config-set/
func (n *Node) SetDirective(ctx context.Context, name, value string) error {
	return n.do(ctx, func(cmd *redis.Cmd) error {
		answer, ok := errors.AsType[redis.Error](cmd.Err())
		if !ok || temporary(cmd.Err()) {
			return executed(cmd)
		}
		return fmt.Errorf("CONFIG SET %s: %w", name, &RefusedDirectiveError{reasonOf(answer.Error())})
	}, "CONFIG", "SET", name, value)
}

// Announce sets the address that the node announces to other nodes and to clients, until the node stops. For a port of 0, the node
// announces the port on which it listens. The IP and the ports change together.
func (n *Node) Announce(ctx context.Context, ip string, port, tlsPort, busPort int) error {
	return n.command(ctx, "CONFIG", "SET", "cluster-announce-ip", ip, "cluster-announce-port", port,
		"cluster-announce-tls-port", tlsPort, "cluster-announce-bus-port", busPort)
}

// temporary returns whether the node's state or this connection causes the error, and not the command. HasErrorPrefix ignores "ERR ".
func temporary(err error) bool {
	return slices.ContainsFunc([]string{"LOADING", "BUSY", "NOAUTH", "WRONGPASS", "MASTERDOWN", "AUTH", "max number of clients"},
		func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) })
}

// lacksCommand returns whether the error says that the node does not have a command, or forbids it.
func lacksCommand(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "unknown command") || redis.HasErrorPrefix(err, "NOPERM"))
}

// reasonOf returns the reason in a node's answer. It drops the list of arguments, which contains the value. One answer is, for example,
// "ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value".
func reasonOf(answer string) string {
	answer, _, _ = strings.Cut(answer, ", with args beginning with")
	if _, reason, ok := strings.Cut(answer, "') - "); ok {
		return brief(reason)
	}
	return brief(strings.TrimPrefix(answer, "ERR "))
}

// Value returns the value of a directive of redis.conf without its quotes and escapes, in the form that CONFIG SET accepts.
// It joins several words with one space. If a quote does not end, it returns the text unchanged.
func Value(text string) string {
	var words []string
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		word, after, ok := cutWord(rest)
		if !ok {
			return text
		}
		words, rest = append(words, word), after
	}
	return strings.Join(words, " ")
}

// cutWord returns the first word of a line of redis.conf, and the rest of the line. A word, or a part of it, may be in quotes. If a quote
// does not end, cutWord returns false.
func cutWord(text string) (word, rest string, ok bool) {
	var b strings.Builder
	var quote byte // 0 outside of quotes
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote == 0 && (c == ' ' || c == '\t'):
			return b.String(), text[i:], true
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote != 0 && c == quote:
			quote = 0
		case quote == '\'' && strings.HasPrefix(text[i:], `\'`):
			i++
			b.WriteByte('\'')
		case quote == '"' && c == '\\' && i+1 < len(text):
			char, length := unescape(text[i+1:])
			i += length
			b.WriteByte(char)
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), "", quote == 0
}

// unescape returns the character that text begins with after a backslash in double quotes, and its length in text:
// https://github.com/redis/redis/blob/7.0.15/src/sds.c, sdssplitargs.
func unescape(text string) (char byte, length int) {
	if text[0] == 'x' && len(text) >= 3 {
		if code, err := hex.DecodeString(text[1:3]); err == nil {
			return code[0], 3
		}
	}
	if i := strings.IndexByte("nrtba", text[0]); i >= 0 {
		return "\n\r\t\b\a"[i], 1
	}
	return text[0], 1
}

// Quoted returns value in double quotes: one word of redis.conf with the same meaning. It is one line, whatever the value has.
func Quoted(value string) string {
	var b strings.Builder
	for _, c := range []byte(value) {
		switch {
		case c == '\\' || c == '"':
			b.WriteString(`\` + string(c))
		case c < ' ':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return `"` + b.String() + `"`
}

// SameValue returns whether two values of a directive certainly mean the same. A node does not always return the text that was set: for
// 100mb it returns 104857600, and for KEA it returns AKE. SameValue may return false for two values that mean the same.
func SameValue(a, b string) bool {
	as, bs := strings.Fields(a), strings.Fields(b)
	if slices.EqualFunc(as, bs, sameWord) {
		return true
	}
	// A node returns client-output-buffer-limit for all classes. The other value may be a part of it, such as "pubsub 32mb 8mb 60".
	short, long := as, bs
	if len(short) > len(long) {
		short, long = long, short
	}
	if len(short) < 2 || isNumber(short[0]) || !isNumber(short[1]) {
		return false
	}
	for i := 0; i+len(short) <= len(long); i++ {
		if slices.EqualFunc(short, long[i:i+len(short)], sameWord) {
			return true
		}
	}
	return false
}

// sameWord returns whether two words are equal except for their case, are the same number, or are the same flags in another order.
func sameWord(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	m, aIsNumber := bytesOf(a)
	n, bIsNumber := bytesOf(b)
	if aIsNumber || bIsNumber {
		return aIsNumber && bIsNumber && m == n
	}
	return sameFlags(a, b)
}

// sameFlags returns whether two words consist of the same flags of notify-keyspace-events. Each flag is one character.
func sameFlags(a, b string) bool {
	x, y := []byte(a), []byte(b)
	slices.Sort(x)
	slices.Sort(y)
	upper := a != strings.ToLower(a) // Flags have no effect without K or E. So a word in lower case is no list of flags.
	return upper && slices.Equal(x, y) && len(slices.Compact(x)) == len(a)
}

func isNumber(word string) bool {
	_, ok := bytesOf(word)
	return ok
}

// bytesOf parses a number, with or without a unit of memory. A unit without b is a power of 1000.
func bytesOf(word string) (int64, bool) {
	digits := strings.TrimRight(word, "bBkKmMgG")
	factor, ok := map[string]int64{
		"": 1, "b": 1, "k": 1000, "kb": 1 << 10, "m": 1000_000, "mb": 1 << 20, "g": 1000_000_000, "gb": 1 << 30,
	}[strings.ToLower(word[len(digits):])]
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n > 1<<62/factor || n < -(1<<62)/factor {
		return 0, false
	}
	return n * factor, true
}
