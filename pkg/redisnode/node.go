/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package redisnode is a client of one redis-server of a Redis Cluster, version 7.0 or
// later, for the administration of the cluster. It never follows a redirection to
// another node and never repeats a request. Its callers decide what to do.
package redisnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// dialTimeout bounds connecting. Nodes are in the same cluster network, where an
	// answer takes a millisecond; a pod that is gone may give none at all, and a
	// controller asks all nodes in one sync.
	dialTimeout = time.Second
	// ioTimeout bounds sending a request, and waiting for its answer. Redis runs one
	// command after the other: a slow command of another client delays ours.
	ioTimeout = 3 * time.Second
	// bufferSize holds the answers of a View of some ten nodes. The default is four
	// times as much, for each of two buffers of each node of each cluster.
	bufferSize = 8 << 10
)

// Failover is how a replica takes its master's place.
type Failover string

// The ways of a failover, as of https://redis.io/docs/latest/commands/cluster-failover/
const (
	// Graceful has the master stop taking writes until the replica has them all.
	// Nothing is lost.
	Graceful Failover = ""
	// Force does not ask the master, which may be gone, but the other masters. The
	// writes that the replica has not got are lost.
	Force Failover = "FORCE"
	// Takeover needs no vote: for when most masters are gone. After a takeover by two
	// replicas at once, or beside a live master, two nodes own the slots for a while.
	Takeover Failover = "TAKEOVER"
)

// SlotState is the state into which SetSlots brings a slot.
type SlotState string

// The states of a slot, as of https://redis.io/docs/latest/commands/cluster-setslot/
const (
	// SlotImporting is set on the node that a slot goes to; the ID is its owner's.
	SlotImporting SlotState = "IMPORTING"
	// SlotMigrating is set on the owner; the ID is of the node that the slot goes to.
	SlotMigrating SlotState = "MIGRATING"
	// SlotNode gives the slot to the node with the ID, and closes it.
	SlotNode SlotState = "NODE"
	// SlotStable closes the slot. It does not matter which node has the slot's keys. It has no ID.
	SlotStable SlotState = "STABLE"
)

// ErrPassword is the class of the errors of a node that has another password than
// the one it was given, needs one, or has none. The text says which it is.
var ErrPassword = errors.New("the password is refused")

var errClosed = errors.New("the connection is closed")

// errTooOld is of a node that lacks commands which its callers need, and the rules by which they set users.
var errTooOld = errors.New("this Redis is older than 7.0: use the image of a later version")

// Node is a connection to one node. It may be used by many goroutines, whose requests
// wait for each other. Every error names the command, and none holds a password.
//
// A request whose context ends returns at once with the context's error. The node may
// have done it nevertheless, as with every other error that is not the node's answer.
type Node struct {
	options  redis.Options
	tls      TLS
	readOnly bool          // see DialReadOnly
	turn     chan struct{} // holds an element while a request is under way

	mu          sync.Mutex
	client      *redis.Client // nil until it is needed
	closed      bool
	certificate string // the fingerprint of the one that the node served last; "" without TLS
}

// Dial returns the node at ip and port. It connects with the first request, and with
// the first one after the connection was lost.
func Dial(ip string, port int, login Login) *Node {
	n := &Node{
		turn: make(chan struct{}, 1),
		options: redis.Options{
			Addr:      net.JoinHostPort(ip, strconv.Itoa(port)),
			OnConnect: authenticate(login),
			// RESP2 is what every version speaks.
			Protocol:                 2,
			DisableIdentity:          true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			PoolSize:                 1,
			MaxActiveConns:           1,
			PipelinePoolSize:         -1, // Pipelines go through the one connection too.
			MaxRetries:               -1, // The next sync is the retry.
			DialerRetries:            1,
			DialTimeout:              dialTimeout,
			ReadTimeout:              ioTimeout,
			WriteTimeout:             ioTimeout,
			ReadBufferSize:           bufferSize,
			WriteBufferSize:          bufferSize,
		},
		tls: login.TLS,
	}
	n.options.Dialer = n.dial
	return n
}

// reads are the commands of a read-only Node, as observers get them.
var reads = []string{"VIEW", "CLUSTER GETKEYSINSLOT", "FUNCTION LIST", "FUNCTION DUMP", "CONFIG GET", "ACL LIST"}

// ErrReadOnly says that a read-only Node did not send a command.
var ErrReadOnly = errors.New("this connection only reads")

// DialReadOnly is Dial, but the Node sends no command that may change something.
func DialReadOnly(ip string, port int, login Login) *Node {
	n := Dial(ip, port, login)
	n.readOnly = true
	return n
}

// Close closes the connection. A request that is under way fails, as do all later ones.
func (n *Node) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if n.client != nil {
		_ = n.client.Close() // What it says of a connection that is not needed is of no use.
	}
}

// View asks the node for all that it knows, in one round trip. While it loads its
// data, that is its version only, and no error.
func (n *Node) View(ctx context.Context) (*View, error) {
	var id, cluster, nodes, info, functions, directives *redis.Cmd
	var keys *redis.IntCmd
	loading := false
	err := n.pipeline(ctx, "VIEW", func(p redis.Pipeliner) {
		id = p.Do(ctx, "CLUSTER", "MYID")
		cluster = p.Do(ctx, "CLUSTER", "INFO")
		nodes = p.Do(ctx, "CLUSTER", "NODES")
		info = p.Do(ctx, "INFO", "server", "replication", "persistence", "memory", "clients", "stats")
		keys = p.DBSize(ctx)
		functions = p.Do(ctx, "FUNCTION", "LIST")
		if n.tls != (TLS{}) {
			directives = p.Do(ctx, tlsDirectives...)
		}
	}, func(cmd redis.Cmder) error {
		if redis.HasErrorPrefix(cmd.Err(), "LOADING") { // INFO answers even so.
			loading = true
			return nil
		}
		if noFunctions(cmd) || (cmd == redis.Cmder(directives) && isNoConfig(cmd.Err())) {
			return nil
		}
		if cmd == redis.Cmder(info) && redis.HasErrorPrefix(cmd.Err(), "syntax error") { // It takes one section only.
			return errTooOld
		}
		return cmd.Err()
	})
	if err != nil {
		return nil, err
	}
	if loading {
		view := &View{}
		view.parseInfo(text(info))
		return &View{Version: view.Version, Loading: true}, nil
	}
	view, err := parseView(text(id), text(cluster), text(nodes), text(info), keys.Val())
	if err == nil && functions.Err() == nil {
		view.Libraries, err = parseLibraries(functions.Val())
	}
	if err != nil {
		return nil, err
	}
	view.TLS = n.tlsState(directives)
	return view, nil
}

// text returns the answer to a command that answers with a text.
func text(cmd *redis.Cmd) string {
	text, _ := cmd.Val().(string)
	return text
}

// Meet has the node send a handshake to the one at ip, to make the two, and all that
// either of them knows, one cluster. It returns before that has come about. Two
// clusters become one too, passwords or not:
// https://redis.io/docs/latest/commands/cluster-meet/
func (n *Node) Meet(ctx context.Context, ip string, port, busPort int) error {
	return n.cluster(ctx, "MEET", ip, port, busPort)
}

// Forget has the node drop the one with the ID from its table, and not learn of it
// again from others for 60 seconds. A node that it does not know is as good as
// forgotten. It is an error to forget the node itself, or its master:
// https://redis.io/docs/latest/commands/cluster-forget/
func (n *Node) Forget(ctx context.Context, id string) error {
	err := n.cluster(ctx, "FORGET", id)
	if err != nil && strings.Contains(err.Error(), "ERR Unknown node") {
		return nil
	}
	return err
}

// AddSlots gives the node slots that have no owner as far as it knows. If it knows
// one of any of them, even itself, the error says "Slot … is already busy" and no
// slot is added: https://redis.io/docs/latest/commands/cluster-addslotsrange/
func (n *Node) AddSlots(ctx context.Context, slots Slots) error {
	if len(slots) == 0 {
		return nil
	}
	var args []any
	for _, r := range slots {
		args = append(args, r.First, r.Last)
	}
	return n.cluster(ctx, "ADDSLOTSRANGE", args...)
}

// Replicate makes the node a replica of the master with the ID, which it must know.
// A master with slots or keys refuses:
// https://redis.io/docs/latest/commands/cluster-replicate/
func (n *Node) Replicate(ctx context.Context, masterID string) error {
	return n.cluster(ctx, "REPLICATE", masterID)
}

// Failover has the node, a replica, take its master's place. It returns before that
// has come about; a failover that does not succeed is given up without a word.
func (n *Node) Failover(ctx context.Context, how Failover) error {
	if how == Graceful {
		return n.cluster(ctx, "FAILOVER")
	}
	return n.cluster(ctx, "FAILOVER", string(how))
}

// SetSlots puts slots into the state, with the ID of the node that the state is
// about, in one round trip. It returns the first error, but the node has seen to the
// slots after that too.
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

// Keys returns up to most keys of each of the slots, in one round trip. Slots that
// have none are not in the map.
func (n *Node) Keys(ctx context.Context, slots Slots, most int) (map[int][]string, error) {
	keys := map[int][]string{}
	if len(slots) == 0 {
		return keys, nil
	}
	var answers []*redis.StringSliceCmd
	err := n.pipeline(ctx, "CLUSTER GETKEYSINSLOT", func(p redis.Pipeliner) {
		for slot := range slots.All() {
			answers = append(answers, p.ClusterGetKeysInSlot(ctx, slot, most))
		}
	}, redis.Cmder.Err)
	if err != nil {
		return nil, err
	}
	i := 0
	for slot := range slots.All() {
		if found := answers[i].Val(); len(found) > 0 {
			keys[slot] = found
		}
		i++
	}
	return keys, nil
}

// Migrate moves keys to the node at ip and port, where it logs in, and replaces
// what that has of the same name. All must be of one slot. Keys that are not there are
// as good as moved. The timeout is for each step of it: connecting, sending, and the
// answer. Both nodes do nothing else meanwhile:
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
	args = append(args, "KEYS")
	for _, key := range keys {
		args = append(args, key)
	}
	return n.request(ctx, "MIGRATE", func(client *redis.Client) error {
		// "NOKEY" is no error, but another text than "OK".
		cmd := client.WithTimeout(3*timeout+ioTimeout).Do(ctx, args...)
		return failed(cmd, cmd.Err())
	})
}

// cluster sends one command of CLUSTER.
func (n *Node) cluster(ctx context.Context, command string, args ...any) error {
	return n.request(ctx, "CLUSTER "+command, func(client *redis.Client) error {
		cmd := client.Do(ctx, append([]any{"CLUSTER", command}, args...)...)
		return failed(cmd, cmd.Err())
	})
}

// pipeline sends the commands that add adds, and returns the first error that errorOf
// finds in one of them. To an Observer they are one, by the name of command.
func (n *Node) pipeline(ctx context.Context, command string, add func(redis.Pipeliner), errorOf func(redis.Cmder) error) error {
	return n.request(ctx, command, func(client *redis.Client) error {
		p := client.Pipeline()
		add(p)
		cmds, err := p.Exec(ctx)
		answered := err == nil
		for _, cmd := range cmds {
			if err := failed(cmd, errorOf(cmd)); err != nil {
				return err
			}
			answered = answered || cmd.Err() != nil
		}
		if answered {
			return nil
		}
		// go-redis keeps a refused AUTH from the commands, which were not sent then.
		return failed(cmds[0], err)
	})
}

// request has do use the connection, once those before it are done.
func (n *Node) request(ctx context.Context, command string, do func(*redis.Client) error) error {
	if n.readOnly && !slices.Contains(reads, command) {
		return fmt.Errorf("%s: %w", command, ErrReadOnly)
	}
	select {
	case n.turn <- struct{}{}:
		defer func() { <-n.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	client, err := n.connection()
	if err != nil {
		return err
	}
	start := time.Now()
	err = n.exchange(ctx, client, do)
	observe(ctx, command, err, time.Since(start))
	return err
}

// exchange is do, and hangs up when ctx ends. go-redis itself can observe a deadline
// while it waits for an answer (with ContextTimeoutEnabled), but no cancellation, and its error
// is not that of ctx. It takes closing the client; the next request has
// another one.
func (n *Node) exchange(ctx context.Context, client *redis.Client, do func(*redis.Client) error) error {
	inTime := context.AfterFunc(ctx, func() { n.hangUp(client) })
	err := do(client)
	if inTime() && (err == nil || ctx.Err() == nil) {
		return err
	}
	n.hangUp(client) // The function may not have come that far.
	if err != nil {
		return ctx.Err()
	}
	return nil
}

func (n *Node) connection() (*redis.Client, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, errClosed
	}
	if n.client == nil {
		options := n.options // It sets defaults in what it gets.
		n.client = redis.NewClient(&options)
	}
	return n.client, nil
}

func (n *Node) hangUp(client *redis.Client) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.client == client {
		n.client = nil
		_ = client.Close() // As in Close.
	}
}

// authenticate returns what is done with a new connection. The client's own way is to
// give HELLO the password, but a node without a password takes any with that.
func authenticate(login Login) func(context.Context, *redis.Conn) error {
	return func(ctx context.Context, conn *redis.Conn) error {
		switch {
		case login.Password == "":
			return nil
		case login.User == "":
			return conn.Auth(ctx, login.Password).Err()
		}
		return conn.AuthACL(ctx, login.User, login.Password).Err()
	}
}

// failed wraps the error of a command.
func failed(cmd redis.Cmder, err error) error {
	if err == nil {
		return nil
	}
	if answer, ok := errors.AsType[redis.Error](err); ok {
		err = refused(answer.Error())
	}
	return fmt.Errorf("%s: %w", strings.ToUpper(cmd.FullName()), err)
}

// refused makes an error of a node's answer.
func refused(answer string) error {
	switch {
	case strings.HasPrefix(answer, "WRONGPASS "):
		return fmt.Errorf("%w: the node has another one", ErrPassword)
	case strings.HasPrefix(answer, "NOAUTH "):
		return fmt.Errorf("%w: the node needs one and was given none", ErrPassword)
	case strings.HasPrefix(answer, "ERR AUTH <password> called without any password"):
		return fmt.Errorf("%w: the node has none and was given one", ErrPassword)
	}
	// A node where a command was renamed quotes the arguments: a password of AUTH, or
	// of MIGRATE.
	answer, _, _ = strings.Cut(answer, ", with args beginning with")
	return refusal(answer)
}

// refusal is an answer of the node that is an error.
type refusal string

func (r refusal) Error() string { return string(r) }

// dial connects, and returns a dead connection if it cannot. A dialer that returns an
// error makes go-redis dial in the background every second, answer every request with
// that error until it succeeds, and write a line to a log of its own.
func (n *Node) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	if err == nil && n.tls != (TLS{}) {
		conn, err = n.handshake(ctx, conn, n.tls)
	}
	if err != nil {
		// go-redis unwraps what goes wrong with a new connection: the address would go.
		return deadConn{err: fmt.Errorf("connect: %w", err)}, nil
	}
	return conn, nil
}

// deadConn is a connection that could not be made.
type deadConn struct {
	net.Conn // nil: what is not overridden here is not called

	err error
}

func (c deadConn) Read([]byte) (int, error)         { return 0, c.err }
func (c deadConn) Write([]byte) (int, error)        { return 0, c.err }
func (c deadConn) Close() error                     { return nil }
func (c deadConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c deadConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c deadConn) SetDeadline(time.Time) error      { return nil }
func (c deadConn) SetReadDeadline(time.Time) error  { return nil }
func (c deadConn) SetWriteDeadline(time.Time) error { return nil }
