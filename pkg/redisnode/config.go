/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package redisnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrNoConfig is the class of the errors of a node that forbids the command CONFIG, or does not have it.
var ErrNoConfig = errors.New("the command CONFIG cannot be used")

// RefusedDirectiveError is the answer of a node that refuses to set a directive. It does not have the value.
type RefusedDirectiveError struct {
	// Reason is what the node says, such as "argument must be a memory value".
	Reason string
}

func (e *RefusedDirectiveError) Error() string { return e.Reason }

// Directives returns the present values of the named directives, as the node writes them. Directives that the node
// does not know are not in the map. It is an ErrNoConfig if the node does not answer such questions:
// https://redis.io/docs/latest/commands/config-get/
func (n *Node) Directives(ctx context.Context, names []string) (map[string]string, error) {
	if len(names) == 0 {
		return map[string]string{}, nil
	}
	args := []any{"CONFIG", "GET"}
	for _, name := range names {
		args = append(args, name)
	}
	var values map[string]string
	err := n.request(ctx, "CONFIG GET", func(client *redis.Client) error {
		cmd := client.Do(ctx, args...)
		if isNoConfig(cmd.Err()) {
			return fmt.Errorf("CONFIG GET: %w", ErrNoConfig)
		}
		if cmd.Err() != nil {
			return failed(cmd, cmd.Err())
		}
		var err error
		values, err = parseDirectives(cmd.Val())
		return err
	})
	return values, err
}

var errDirectives = errors.New("CONFIG GET: malformed answer")

// parseDirectives reads a list of names, each with its value after it.
func parseDirectives(answer any) (map[string]string, error) {
	list, ok := answer.([]any)
	if !ok || len(list)%2 != 0 {
		return nil, errDirectives
	}
	values := make(map[string]string, len(list)/2)
	for i := 0; i < len(list); i += 2 {
		name, isText := list[i].(string)
		value, isAlso := list[i+1].(string)
		if !isText || !isAlso {
			return nil, errDirectives
		}
		values[name] = value
	}
	return values, nil
}

// SetDirective sets a directive until the node stops. If the node refuses that, for whatever reason, it is a
// RefusedDirectiveError: https://redis.io/docs/latest/commands/config-set/
func (n *Node) SetDirective(ctx context.Context, name, value string) error {
	return n.request(ctx, "CONFIG SET", func(client *redis.Client) error {
		cmd := client.Do(ctx, "CONFIG", "SET", name, value)
		answer, ok := errors.AsType[redis.Error](cmd.Err())
		if !ok || temporary(cmd.Err()) {
			return failed(cmd, cmd.Err())
		}
		return fmt.Errorf("CONFIG SET %s: %w", name, &RefusedDirectiveError{reasonOf(answer.Error())})
	})
}

// temporary returns whether a node refuses any command at this moment, or this connection.
func temporary(err error) bool {
	return slices.ContainsFunc([]string{"LOADING", "BUSY", "NOAUTH", "WRONGPASS", "MASTERDOWN", "ERR AUTH", "ERR max number of clients"},
		func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) })
}

// isNoConfig returns whether a node forbids CONFIG, or does not have it.
func isNoConfig(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "unknown command") || redis.HasErrorPrefix(err, "NOPERM"))
}

// reasonOf returns why a directive was refused, without the name of the directive and without arguments. A node answers
// "ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value".
func reasonOf(answer string) string {
	answer, _, _ = strings.Cut(answer, ", with args beginning with")
	if _, reason, ok := strings.Cut(answer, "') - "); ok {
		return reason
	}
	return strings.TrimPrefix(answer, "ERR ")
}

// Value returns the value of a directive of redis.conf without its quotes and escapes, as CONFIG SET takes it.
// Several words have one space between them. A text with a quote that does not end is returned as it is.
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

// cutWord returns the first word of a line of redis.conf, and what follows it. A word may be in quotes, or have a part in
// quotes. It returns false if a quote does not end.
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
		case c == '\\' && i+1 < len(text) && (quote == '"' || (quote == '\'' && text[i+1] == '\'')):
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), "", quote == 0
}

// Quoted returns a value of Directives as the one word of redis.conf that means the same.
func Quoted(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}

// SameValue returns whether two values of a directive certainly mean the same. Nodes write the values that they were given
// in a way of their own: 100mb is 104857600, and KEA is AKE. It may return false for two values that mean the same.
func SameValue(a, b string) bool {
	as, bs := strings.Fields(a), strings.Fields(b)
	if slices.EqualFunc(as, bs, sameWord) {
		return true
	}
	// Of client-output-buffer-limit, a node writes all classes: "pubsub 32mb 8mb 60" is a part of that.
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

// sameWord returns whether two words are equal but for their case, or are the same number, or are flags that only have
// another order.
func sameWord(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	m, isNumber := bytesOf(a)
	n, isAlso := bytesOf(b)
	if isNumber || isAlso {
		return isNumber && isAlso && m == n
	}
	return sameFlags(a, b)
}

// sameFlags returns whether two words have the same characters, as the flags of notify-keyspace-events.
func sameFlags(a, b string) bool {
	x, y := []byte(a), []byte(b)
	slices.Sort(x)
	slices.Sort(y)
	upper := a != strings.ToLower(a) // K and E: other words are no flags.
	return upper && slices.Equal(x, y) && len(slices.Compact(x)) == len(a)
}

func isNumber(word string) bool {
	_, ok := bytesOf(word)
	return ok
}

// bytesOf returns a number, which may have a unit of memory. A unit without b is a power of 1000.
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
