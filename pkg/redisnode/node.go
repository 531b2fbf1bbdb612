// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redisnode is a client of one redis-server of a Redis Cluster, version 7.0 or later. It sends the commands that administer the
// cluster. It never follows a redirection to another node and never repeats a request: its callers decide what to do.
package redisnode

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// dialTimeout limits the time to connect. Nodes are in the same cluster network, where an answer takes a millisecond. A deleted Pod may
	// not answer at all, and a controller asks all nodes in one sync.
	dialTimeout = time.Second
	// ioTimeout limits the time to send a request, and the time to wait for its answer. Redis runs one command after the other: a slow
	// command of another client delays ours.
	ioTimeout = 3 * time.Second
	// bufferSize is enough for the answers of a View of some ten nodes. The default is four times as large. Each node of each cluster has
	// two buffers.
	bufferSize = 8 << 10
)

// SlotState is the state that SetSlots gives to a slot.
type SlotState string

// The states of a slot, as of https://redis.io/docs/latest/commands/cluster-setslot/
const (
	// SlotImporting is set on the node that gets the slot. The ID is the owner's.
	SlotImporting SlotState = "IMPORTING"
	// SlotMigrating is set on the owner. The ID is that of the node that gets the slot.
	SlotMigrating SlotState = "MIGRATING"
	// SlotNode gives the slot to the node with the ID, and closes it.
	SlotNode SlotState = "NODE"
	// SlotStable closes the slot. It does not matter which node has the slot's keys. It has no ID.
	SlotStable SlotState = "STABLE"
)

// ErrPassword is the error of a node that refuses the password, that needs one and got none, or that has none and got one. The text says
// which case it is.
var ErrPassword = errors.New("the password is refused")

var errClosed = errors.New("the connection is closed")

// errTooOld is the error of a node that lacks commands which the callers need, and rules which they use to set users.
var errTooOld = errors.New("this Redis is older than 7.0: use the image of a later version")

// Node is a connection to one node. Many goroutines may use it: it sends one request at a time. Every error names the command, and no
// error contains a password.
//
// When the context of a request ends, the request returns at once with the context's error. The node may still have executed the command.
// The same holds for every other error that is not the node's answer.
type Node struct {
	options   redis.Options
	login     Login
	observers []Observer
	readOnly  bool          // see DialReadOnly
	turn      chan struct{} // holds an element while a request runs
	limit     replyLimit    // of the request

	mu          sync.Mutex
	client      *redis.Client // nil until the next request
	closed      bool
	certificate string // fingerprint of the certificate that the node served last; "" without TLS
}

// Dial returns the node at ip and port. The first request opens the connection. After a lost connection, the next request opens a new one.
// The observers are called after each request.
func Dial(ip string, port int, login Login, observers ...Observer) *Node {
	n := &Node{
		turn: make(chan struct{}, 1),
		options: redis.Options{
			Addr:      net.JoinHostPort(ip, strconv.Itoa(port)),
			OnConnect: login.authenticate,
			// Every version of Redis speaks RESP2.
			Protocol:                 2,
			DisableIdentity:          true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			PoolSize:                 1,
			MaxActiveConns:           1,
			PipelinePoolSize:         -1, // Pipelines use the same connection.
			MaxRetries:               -1, // The next sync is the retry.
			DialerRetries:            1,
			DialTimeout:              dialTimeout,
			ReadTimeout:              ioTimeout,
			WriteTimeout:             ioTimeout,
			ReadBufferSize:           bufferSize,
			WriteBufferSize:          bufferSize,
		},
		login: login, observers: observers,
		limit: replyLimit{all: longReplies, tenant: login.Tenant},
	}
	n.options.Dialer = n.dial
	return n
}

// reads are the commands that a read-only Node sends, by the names that observers get.
var reads = []string{"VIEW", "CLUSTER GETKEYSINSLOT", "FUNCTION LIST", "FUNCTION DUMP", "CONFIG GET", "ACL LIST"}

// ErrReadOnly is the error of a command that a read-only Node does not send.
var ErrReadOnly = errors.New("this connection only reads")

// DialReadOnly does the same as Dial, but its Node sends no command that can change the node.
func DialReadOnly(ip string, port int, login Login) *Node {
	n := Dial(ip, port, login)
	n.readOnly = true
	return n
}

// Close closes the connection. The request that is running fails, and all later requests fail.
func (n *Node) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if n.client != nil {
		_ = n.client.Close() // The error does not matter: the connection is not used again.
	}
}

// Connect opens a connection without TLS, and closes it: it shows that something listens on the port.
func (n *Node) Connect(ctx context.Context) error {
	conn, err := Login{}.open(ctx, n.options.Addr, dialTimeout, 0) // It has no TLS.
	if err != nil {
		return err
	}
	return conn.Close()
}

// View reads the whole state of the node in one round trip. While the node loads its data, the View has only the version, and View
// returns no error.
func (n *Node) View(ctx context.Context) (*View, error) {
	var id, cluster, nodes, info, functions, directives *redis.Cmd
	loading := false
	add := func(p redis.Pipeliner) {
		id = p.Do(ctx, "CLUSTER", "MYID")
		cluster = p.Do(ctx, "CLUSTER", "INFO")
		nodes = p.Do(ctx, "CLUSTER", "NODES")
		info = p.Do(ctx, "INFO", "server", "replication", "persistence", "memory", "clients", "stats", "keyspace")
		functions = p.Do(ctx, "FUNCTION", "LIST")
		if n.login.TLS != (TLS{}) {
			directives = p.Do(ctx, tlsDirectives...)
		}
	}
	errorOf := func(cmd redis.Cmder) error {
		if redis.HasErrorPrefix(cmd.Err(), "LOADING") { // A node that loads its data answers INFO.
			loading = true
			return nil
		}
		if hidesFunctions(cmd) || (cmd == redis.Cmder(directives) && lacksCommand(cmd.Err())) {
			return nil
		}
		if cmd == redis.Cmder(info) && redis.HasErrorPrefix(cmd.Err(), "syntax error") { // Redis 6 accepts only one section.
			return errTooOld
		}
		return cmd.Err()
	}
	var view *View
	err := n.request(ctx, "VIEW", func(client *redis.Client) error {
		err := exec(ctx, client.Pipeline(), add, errorOf)
		if err != nil {
			return err
		}
		if loading {
			view = &View{Loading: true, Version: versionOf(text(info))}
			return nil
		}
		view, err = parseView(text(id), text(cluster), text(nodes), text(info), n.login.TLS != (TLS{}))
		if err == nil && functions.Err() == nil {
			view.Libraries, err = parseLibraries(functions.Val())
		}
		if err == nil {
			view.TLS = n.tlsState(directives)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return view, nil
}

// text returns the answer to a command that answers with a text.
func text(cmd *redis.Cmd) string {
	text, _ := cmd.Val().(string)
	return text
}

// Meet makes the node send a handshake to the node at ip. The two nodes, and all nodes that either of them knows, become one cluster. Meet
// returns before the handshake has ended. It also joins two clusters into one, whether their passwords are equal or not:
// https://redis.io/docs/latest/commands/cluster-meet/
func (n *Node) Meet(ctx context.Context, ip string, port, busPort int) error {
	return n.command(ctx, "CLUSTER", "MEET", ip, port, busPort)
}

// Forget removes the node with the ID from this node's table. For 60 seconds, this node does not accept the ID from other nodes again. If
// this node does not know the ID, Forget returns no error. A node cannot forget itself or its master:
// https://redis.io/docs/latest/commands/cluster-forget/
func (n *Node) Forget(ctx context.Context, id string) error {
	err := n.command(ctx, "CLUSTER", "FORGET", id)
	if err != nil && strings.Contains(err.Error(), "ERR Unknown node") {
		return nil
	}
	return err
}

// AddSlots assigns slots to the node. No slot may have an owner in the node's table. If one of them has an owner, even the node itself,
// the error says "Slot … is already busy" and the node adds no slot: https://redis.io/docs/latest/commands/cluster-addslotsrange/
func (n *Node) AddSlots(ctx context.Context, slots Slots) error {
	if len(slots) == 0 {
		return nil
	}
	var args []any
	for _, r := range slots {
		args = append(args, r.First, r.Last)
	}
	return n.command(ctx, "CLUSTER", "ADDSLOTSRANGE", args...)
}

// Replicate makes the node a replica of the master with the ID. The node must know that master. A node that is a master with slots or keys
// refuses:
// https://redis.io/docs/latest/commands/cluster-replicate/
func (n *Node) Replicate(ctx context.Context, masterID string) error {
	return n.command(ctx, "CLUSTER", "REPLICATE", masterID)
}

// Reconnect makes a replica ask for the data of its master again, at the address that the replica knows for it now. In Valkey, CLUSTER
// REPLICATE for the present master does nothing: https://github.com/valkey-io/valkey/pull/884. So the node becomes a replica of another
// master, and at once of its own again, in one transaction: it never connects to the other. It must know both. In Valkey, it copies all
// data again. In Redis, it copies only what it lacks, if its master still has that. If its own is no master any more, the error says so,
// and the node stays a replica of the other.
func (n *Node) Reconnect(ctx context.Context, masterID, otherID string) error {
	return n.request(ctx, "CLUSTER REPLICATE", func(client *redis.Client) error {
		return exec(ctx, client.TxPipeline(), func(p redis.Pipeliner) {
			p.Do(ctx, "CLUSTER", "REPLICATE", otherID)
			p.Do(ctx, "CLUSTER", "REPLICATE", masterID)
		}, redis.Cmder.Err)
	})
}

// SetSlots sets the state of slots in one round trip. SlotState says which node the ID belongs to. It returns the first error, but the
// node executes the commands for all slots.
func (n *Node) SetSlots(ctx context.Context, slots Slots, how SlotState, id string) error {
	if len(slots) == 0 {
		return nil
	}
	return n.pipeline(ctx, "CLUSTER SETSLOT", func(p redis.Pipeliner) {
		for slot := range slots.All() {
			if how == SlotStable {
				p.Do(ctx, "CLUSTER", "SETSLOT", slot, string(how))
			} else {
				p.Do(ctx, "CLUSTER", "SETSLOT", slot, string(how), id)
			}
		}
	}, redis.Cmder.Err)
}

// Keys returns the keys of each of the slots, at most maxKeys for each slot, in one round trip. The map leaves out slots without keys.
func (n *Node) Keys(ctx context.Context, slots Slots, maxKeys int) (map[int][]string, error) {
	keys := map[int][]string{}
	if len(slots) == 0 {
		return keys, nil
	}
	answers := map[int]*redis.StringSliceCmd{}
	err := n.pipeline(ctx, "CLUSTER GETKEYSINSLOT", func(p redis.Pipeliner) {
		for slot := range slots.All() {
			answers[slot] = p.ClusterGetKeysInSlot(ctx, slot, maxKeys)
		}
	}, redis.Cmder.Err)
	if err != nil {
		return nil, err
	}
	for slot, answer := range answers {
		if found := answer.Val(); len(found) > 0 {
			keys[slot] = found
		}
	}
	return keys, nil
}

// sizeSamples is how many elements of a key Redis looks at to estimate the size of all of its elements.
const sizeSamples = 1000

// Sizes returns how many bytes of memory each of the keys takes, about, in one round trip: 0 for a key that the node does not have (any
// more), and all 0 if the node does not have the command. https://redis.io/docs/latest/commands/memory-usage/
func (n *Node) Sizes(ctx context.Context, keys []string) ([]int64, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	answers := make([]*redis.IntCmd, len(keys))
	err := n.pipeline(ctx, "MEMORY USAGE", func(p redis.Pipeliner) {
		for i, key := range keys {
			answers[i] = p.MemoryUsage(ctx, key, sizeSamples)
		}
	}, func(cmd redis.Cmder) error {
		if err := cmd.Err(); !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "ASK ") && !lacksCommand(err) {
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	sizes := make([]int64, len(keys))
	for i, answer := range answers {
		sizes[i] = answer.Val()
	}
	return sizes, nil
}

// Migrate moves keys to the node at ip and port, and replaces keys that exist there. The node logs in there with login. All keys must
// belong to one slot. Migrate returns no error for keys that the node does not have. The timeout limits each step: to connect, to send,
// and to wait for the answer. Both nodes execute no other command in this time:
// https://redis.io/docs/latest/commands/migrate/
func (n *Node) Migrate(ctx context.Context, ip string, port int, login Login, timeout time.Duration, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	args := []any{"MIGRATE", ip, port, "", 0, max(timeout.Milliseconds(), 1), "REPLACE"}
	switch {
	case login.User != "":
		args = append(args, "AUTH2", login.User, login.Password)
	case login.Password != "":
		args = append(args, "AUTH", login.Password)
	}
	args = append(append(args, "KEYS"), words(keys)...)
	return n.request(ctx, "MIGRATE", func(client *redis.Client) error {
		// The answer is "OK", or "NOKEY" if the node has none of the keys. Both are success.
		cmd := client.WithTimeout(3*timeout+ioTimeout).Do(ctx, args...)
		return failed(cmd, cmd.Err())
	})
}
