// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

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

// Login is a user of a node and its password. If User is "", it is the default user. If Password is "", the connection does not log in.
type Login struct {
	User, Password string
	TLS            TLS
	// Tenant is the namespace of the node, for which long replies have a share of memory.
	Tenant string
}

// User is a user of a node, as the node describes it.
type User struct {
	// Hashes are the SHA-256 hashes of its passwords, sorted.
	Hashes []string
	// Rules are all other rules of the user, as the node writes them.
	Rules string
}

// RefusedRulesError is the answer of a node that refuses the rules of a user. It contains no password.
type RefusedRulesError struct {
	// Reason is the node's own text, such as "modifier '+foo': Unknown command or category name in ACL".
	Reason string
}

func (e *RefusedRulesError) Error() string { return e.Reason }

// HashPassword returns the hash of a password in the form of User.Hashes.
func HashPassword(password string) string {
	sum := sha256.Sum256([]byte(password))
	return hex.EncodeToString(sum[:])
}

// Users returns the users of the node, by name: https://redis.io/docs/latest/commands/acl-list/
func (n *Node) Users(ctx context.Context) (map[string]User, error) {
	return ask(ctx, n, parseUsers, "ACL", "LIST")
}

var errUsers = errors.New("ACL LIST: malformed answer") // The error does not quote the answer: it contains hashes of passwords.

// parseUsers parses lines like "user app on #5e88… ~app:* resetchannels -@all +get".
func parseUsers(answer any) (map[string]User, error) {
	lines, ok := answer.([]any)
	if !ok {
		return nil, errUsers
	}
	users := make(map[string]User, len(lines))
	for _, one := range lines {
		line, _ := one.(string)
		first, rest, _ := strings.Cut(line, " ") // Only a space separates words: patterns may contain other white space.
		name, rest, ok := strings.Cut(rest, " ")
		if first != "user" || (!ok && name == "") || len(name) > maxText {
			return nil, errUsers
		}
		var user User
		var rules strings.Builder
		for word := range strings.SplitSeq(rest, " ") {
			if hash, ok := strings.CutPrefix(word, "#"); ok {
				user.Hashes = append(user.Hashes, strings.Clone(hash))
				continue
			}
			if rules.Len() > 0 {
				rules.WriteByte(' ')
			}
			rules.WriteString(word)
		}
		slices.Sort(user.Hashes)
		user.Rules = rules.String()
		users[strings.Clone(name)] = user
	}
	return users, nil
}

// SetUser applies rules to a user, and creates the user if necessary. The change lasts until the node stops or loads its file of users. The
// node applies all rules or none. If it refuses a rule, the error is a RefusedRulesError:
// https://redis.io/docs/latest/commands/acl-setuser/
func (n *Node) SetUser(ctx context.Context, name string, rules []string) error {
	return n.do(ctx, func(cmd *redis.Cmd) error {
		if answer, ok := errors.AsType[redis.Error](cmd.Err()); ok && !temporary(cmd.Err()) {
			if reason, ok := strings.CutPrefix(answer.Error(), "ERR Error in ACL SETUSER "); ok {
				return fmt.Errorf("ACL SETUSER %s: %w", name, &RefusedRulesError{brief(reason)})
			}
			if strings.HasPrefix(answer.Error(), "ERR ") { // The error leaves out the node's text, which may quote other parts of the command.
				return fmt.Errorf("ACL SETUSER %s: %w", name, &RefusedRulesError{"it is not a valid list of rules"})
			}
		}
		return executed(cmd)
	}, "ACL", "SETUSER", append([]any{name}, words(rules)...)...)
}

// DeleteUsers deletes users, and ends their connections. It returns no error for a user that the node does not have:
// https://redis.io/docs/latest/commands/acl-deluser/
func (n *Node) DeleteUsers(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	return n.command(ctx, "ACL", "DELUSER", words(names)...)
}

// EndConnections ends all connections of a user, also those of replicas that copy the data. It returns no error for a user that the node
// does not have: https://redis.io/docs/latest/commands/client-kill/
func (n *Node) EndConnections(ctx context.Context, user string) error {
	return n.do(ctx, unless("No such user"), "CLIENT", "KILL", "USER", user)
}

// SaveUsers writes the users to the file of the directive aclfile: https://redis.io/docs/latest/commands/acl-save/
func (n *Node) SaveUsers(ctx context.Context) error {
	return n.command(ctx, "ACL", "SAVE")
}
