// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// cluster sends a subcommand of CLUSTER.
func (n *Node) cluster(ctx context.Context, command string, args ...any) error {
	return n.command(ctx, "CLUSTER", command, args...)
}

// command sends a command that has a subcommand.
func (n *Node) command(ctx context.Context, name, subcommand string, args ...any) error {
	return n.request(ctx, name+" "+subcommand, func(client *redis.Client) error {
		cmd := client.Do(ctx, append([]any{name, subcommand}, args...)...)
		return failed(cmd, cmd.Err())
	})
}

// pipeline sends the commands that add queues. It returns the first error that errorOf returns for one of them. An Observer gets them as
// one request, named command.
func (n *Node) pipeline(ctx context.Context, command string, add func(redis.Pipeliner), errorOf func(redis.Cmder) error) error {
	return n.send(ctx, command, (*redis.Client).Pipeline, add, errorOf)
}

// transaction is pipeline, but the node executes all commands or none, even if the connection breaks.
func (n *Node) transaction(ctx context.Context, command string, add func(redis.Pipeliner), errorOf func(redis.Cmder) error) error {
	return n.send(ctx, command, (*redis.Client).TxPipeline, add, errorOf)
}

func (n *Node) send(
	ctx context.Context, command string, begin func(*redis.Client) redis.Pipeliner, add func(redis.Pipeliner), errorOf func(redis.Cmder) error,
) error {
	return n.request(ctx, command, func(client *redis.Client) error { return exec(ctx, begin(client), add, errorOf) })
}

func exec(ctx context.Context, p redis.Pipeliner, add func(redis.Pipeliner), errorOf func(redis.Cmder) error) error {
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
	// After a refused AUTH, go-redis sends no command and sets no error on the commands.
	return failed(cmds[0], err)
}

// request waits for its turn, and calls do with the connection. do must parse the replies.
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
	n.limit.begin(maxRepliesTo(command))
	defer n.limit.end()
	start := time.Now()
	err = n.exchange(ctx, client, do)
	n.observe(ctx, command, err, time.Since(start))
	return err
}

// exchange calls do, and closes the client when ctx ends. The next request opens another client. go-redis itself does not stop waiting
// for an answer when ctx is canceled. ContextTimeoutEnabled covers only deadlines, and its error is not that of ctx.
func (n *Node) exchange(ctx context.Context, client *redis.Client, do func(*redis.Client) error) error {
	stopWatching := context.AfterFunc(ctx, func() { n.hangUp(client) })
	err := do(client)
	if stopWatching() && (err == nil || ctx.Err() == nil) {
		return err
	}
	n.hangUp(client) // The function of AfterFunc may not have run yet.
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
		options := n.options // NewClient writes defaults into its argument.
		n.client = redis.NewClient(&options)
	}
	return n.client, nil
}

func (n *Node) hangUp(client *redis.Client) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if client != nil && n.client == client {
		n.client = nil
		_ = client.Close() // The client is not used again.
	}
}

// authenticate returns a function that logs in on a new connection. go-redis itself would send the password with HELLO, but a node
// without a password accepts any password there.
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

// refused returns an ErrPassword or a refusal for the text of an error answer.
func refused(answer string) error {
	switch {
	case strings.HasPrefix(answer, "WRONGPASS "):
		return fmt.Errorf("%w: the node has another one", ErrPassword)
	case strings.HasPrefix(answer, "NOAUTH "):
		return fmt.Errorf("%w: the node needs one and was given none", ErrPassword)
	case strings.HasPrefix(answer, "ERR AUTH <password> called without any password"):
		return fmt.Errorf("%w: the node has none and was given one", ErrPassword)
	}
	// A node with a renamed command quotes the arguments in its answer. These include the password of AUTH or MIGRATE.
	answer, _, _ = strings.Cut(answer, ", with args beginning with")
	return refusal(brief(answer))
}

// refusal is an error answer of the node.
type refusal string

func (r refusal) Error() string { return string(r) }

// dial connects, and returns a deadConn if it cannot. After an error of a dialer, go-redis dials in the background every second, answers
// every request with that error until a dial succeeds, and writes a line to a log of its own.
func (n *Node) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := n.open(ctx)
	if err != nil {
		return deadConn{err: err}, nil //nolint:nilerr // Each read returns it.
	}
	return limitReplies(conn, &n.limit), nil
}

// open connects.
func (n *Node) open(ctx context.Context) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", n.options.Addr)
	if err == nil && n.login.TLS != (TLS{}) {
		conn, err = n.handshake(ctx, conn, n.login.TLS)
	}
	if err != nil {
		// go-redis removes the outermost layer of this error. The inner layer has the address.
		return nil, fmt.Errorf("connect: %w", err)
	}
	return conn, nil
}

// deadConn is a connection that could not be opened. Each read and write returns the error.
type deadConn struct {
	net.Conn // nil: go-redis calls only the methods below

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
