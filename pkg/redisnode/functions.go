/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package redisnode

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Libraries returns the node's libraries of functions, by name, each with a digest of all of
// it, its code included. A View has them too, without the code, which can be large.
func (n *Node) Libraries(ctx context.Context) (map[string]string, error) {
	var libraries map[string]string
	err := n.request(ctx, "FUNCTION LIST", func(client *redis.Client) error {
		cmd := client.Do(ctx, "FUNCTION", "LIST", "WITHCODE")
		if cmd.Err() != nil {
			return failed(cmd, cmd.Err())
		}
		var err error
		libraries, err = parseLibraries(cmd.Val())
		return err
	})
	return libraries, err
}

// DumpFunctions returns all libraries of functions of the node, for RestoreFunctions:
// https://redis.io/docs/latest/commands/function-dump/
func (n *Node) DumpFunctions(ctx context.Context) (string, error) {
	var dump string
	err := n.request(ctx, "FUNCTION DUMP", func(client *redis.Client) error {
		cmd := client.Do(ctx, "FUNCTION", "DUMP")
		dump = text(cmd)
		return failed(cmd, cmd.Err())
	})
	return dump, err
}

// RestoreFunctions adds the libraries of a dump to those of the node, all of them or none.
// It is an error if the node has one of the same name, and nothing is added then:
// https://redis.io/docs/latest/commands/function-restore/
func (n *Node) RestoreFunctions(ctx context.Context, dump string) error {
	return n.request(ctx, "FUNCTION RESTORE", func(client *redis.Client) error {
		cmd := client.Do(ctx, "FUNCTION", "RESTORE", dump)
		return failed(cmd, cmd.Err())
	})
}

// DeleteLibrary deletes a function library from the node. It is no error if the node does not have it:
// https://redis.io/docs/latest/commands/function-delete/
func (n *Node) DeleteLibrary(ctx context.Context, name string) error {
	return n.request(ctx, "FUNCTION DELETE", func(client *redis.Client) error {
		cmd := client.Do(ctx, "FUNCTION", "DELETE", name)
		if cmd.Err() != nil && strings.Contains(cmd.Err().Error(), "Library not found") {
			return nil
		}
		return failed(cmd, cmd.Err())
	})
}

// noFunctions returns whether a command was refused since the node has no functions: it is
// older than 7.0, or its configuration takes the command away or forbids it.
func noFunctions(cmd redis.Cmder) bool {
	return cmd.Name() == "function" && cmd.Err() != nil &&
		(strings.Contains(cmd.Err().Error(), "unknown command") || redis.HasErrorPrefix(cmd.Err(), "NOPERM"))
}

var errLibraries = errors.New("FUNCTION LIST: malformed answer")

// parseLibraries reads the answer to FUNCTION LIST, in which libraries and functions have no
// order: https://redis.io/docs/latest/commands/function-list/
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
					words[j] = fmt.Sprintf("%q", f)
				}
				slices.Sort(words)
				value = words
			}
			fmt.Fprintf(digest, "%q %q\n", fields[i], value)
		}
		if name == "" {
			return nil, errLibraries
		}
		if libraries == nil {
			libraries = make(map[string]string, len(list))
		}
		libraries[name] = hex.EncodeToString(digest.Sum(nil)[:8])
	}
	return libraries, nil
}
