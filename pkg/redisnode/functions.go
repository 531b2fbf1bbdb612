// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Libraries returns a digest of each function library of the node, by name. The digest covers the code too. A View has digests without
// the code, since code can be large.
func (n *Node) Libraries(ctx context.Context) (map[string]string, error) {
	return ask(ctx, n, parseLibraries, "FUNCTION", "LIST", "WITHCODE")
}

// DumpFunctions returns all function libraries of the node, for RestoreFunctions:
// https://redis.io/docs/latest/commands/function-dump/
func (n *Node) DumpFunctions(ctx context.Context) (string, error) {
	return ask(ctx, n, func(answer any) (string, error) {
		dump, _ := answer.(string)
		return dump, nil
	}, "FUNCTION", "DUMP")
}

// RestoreFunctions adds the libraries of a dump to those of the node. If the node already has a library with one of the names, it adds
// none of them and returns an error:
// https://redis.io/docs/latest/commands/function-restore/
func (n *Node) RestoreFunctions(ctx context.Context, dump string) error {
	return n.command(ctx, "FUNCTION", "RESTORE", dump)
}

// DeleteLibrary deletes a function library from the node. It returns no error if the node does not have the library:
// https://redis.io/docs/latest/commands/function-delete/
func (n *Node) DeleteLibrary(ctx context.Context, name string) error {
	return n.do(ctx, unless("Library not found"), "FUNCTION", "DELETE", name)
}

// hidesFunctions returns whether the node does not list its functions. It is older than 7.0, its configuration removes FUNCTION, or an ACL
// forbids it. Or it is a replica with replica-serve-stale-data no, and has no connection to its master.
func hidesFunctions(cmd redis.Cmder) bool {
	return cmd.Name() == "function" && (lacksCommand(cmd.Err()) || redis.HasErrorPrefix(cmd.Err(), "MASTERDOWN"))
}

var errLibraries = errors.New("FUNCTION LIST: malformed answer")

// parseLibraries reads the answer to FUNCTION LIST. The libraries and functions are in any order, so parseLibraries sorts the functions:
// https://redis.io/docs/latest/commands/function-list/
func parseLibraries(answer any) (map[string]string, error) {
	list, ok := answer.([]any)
	if !ok {
		return nil, errLibraries
	}
	var libraries map[string]string
	for _, one := range list {
		fields, ok := one.([]any)
		if !ok || len(fields)%2 != 0 {
			return nil, errLibraries
		}
		name, digest := "", sha256.New()
		for i := 0; i < len(fields); i += 2 {
			value := fields[i+1]
			switch fields[i] {
			case "library_name":
				name, _ = value.(string)
			case "functions":
				functions, _ := value.([]any)
				words := make([]string, len(functions))
				for j, f := range functions {
					one := sha256.New()
					writeValue(one, f)
					words[j] = string(one.Sum(nil))
				}
				slices.Sort(words)
				value = strings.Join(words, "")
			}
			writeValue(digest, fields[i])
			writeValue(digest, value)
		}
		if name == "" || len(name) > maxText {
			return nil, errLibraries
		}
		if libraries == nil {
			libraries = make(map[string]string, len(list))
		}
		libraries[name] = hex.EncodeToString(digest.Sum(nil)[:8])
	}
	return libraries, nil
}

// writeValue writes a reply so that different replies are never the same bytes.
func writeValue(w io.Writer, value any) {
	switch value := value.(type) {
	case string:
		fmt.Fprintf(w, "$%d ", len(value))
		_, _ = io.WriteString(w, value) // A hash returns no error.
	case []any:
		fmt.Fprintf(w, "*%d ", len(value))
		for _, element := range value {
			writeValue(w, element)
		}
	default:
		fmt.Fprintf(w, "%v ", value)
	}
}
