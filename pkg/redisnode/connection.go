// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// do sends a command that has a subcommand, and returns the error that judge makes of its answer.
func (n *Node) do(ctx context.Context, judge func(*redis.Cmd) error, name, subcommand string, args ...any) error {
	return n.request(ctx, name+" "+subcommand, func(client *redis.Client) error {
		return judge(client.Do(ctx, append([]any{name, subcommand}, args...)...))
	})
}

// command sends a command that has a subcommand, and whose answer says nothing but that the node has executed it.
func (n *Node) command(ctx context.Context, name, subcommand string, args ...any) error {
	return n.do(ctx, executed, name, subcommand, args...)
}

func executed(cmd *redis.Cmd) error { return failed(cmd, cmd.Err()) }

// unless is executed, but an error that has this text is none.
func unless(text string) func(*redis.Cmd) error {
	return func(cmd *redis.Cmd) error {
		if err := cmd.Err(); err != nil && strings.Contains(err.Error(), text) {
			return nil
		}
		return executed(cmd)
	}
}

// ask sends a command that has a subcommand, and parses its answer.
func ask[T any](
	ctx context.Context, n *Node, parse func(answer any) (T, error), name, subcommand string, args ...any,
) (parsed T, err error) {
	err = n.do(ctx, func(cmd *redis.Cmd) (err error) {
		if cmd.Err() == nil {
			parsed, err = parse(cmd.Val())
			return err
		}
		return executed(cmd)
	}, name, subcommand, args...)
	return parsed, err
}

// words returns texts as arguments of a command.
func words(texts []string) []any {
	var args []any
	for _, text := range texts {
		args = append(args, text)
	}
	return args
}

// pipeline sends the commands that add queues. It returns the first error that errorOf returns for one of them. An Observer gets them as
// one request, named command.
func (n *Node) pipeline(ctx context.Context, command string, add func(redis.Pipeliner), errorOf func(redis.Cmder) error) error {
	return n.request(ctx, command, func(client *redis.Client) error { return exec(ctx, client.Pipeline(), add, errorOf) })
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

// auth returns the command that logs in; nil if none is needed. go-redis itself would send the password with HELLO, but a node without a
// password accepts any password there.
func (l Login) auth() []string {
	switch {
	case l.Password == "":
		return nil
	case l.User == "":
		return []string{"AUTH", l.Password}
	}
	return []string{"AUTH", l.User, l.Password}
}

// authenticate logs in on a new connection.
func (l Login) authenticate(ctx context.Context, conn *redis.Conn) error {
	if command := l.auth(); command != nil {
		return conn.Process(ctx, redis.NewStatusCmd(ctx, words(command)...))
	}
	return nil
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
func (n *Node) dial(ctx context.Context, _, address string) (net.Conn, error) {
	conn, err := n.login.open(ctx, address, dialTimeout, ioTimeout)
	if err != nil {
		return deadConn{err: err}, nil // Each read returns it.
	}
	if secure, ok := conn.(*tls.Conn); ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.certificate = Fingerprint(secure.ConnectionState().PeerCertificates[0].Raw)
	}
	return limitReplies(conn, &n.limit), nil
}

// Dialer returns the dialer of another client of go-redis. Its connections return an error instead of replies of more than 2 MiB to one
// request, or of arrays that are nested more than eight times. The timeout limits the time to connect.
func (l Login) Dialer(timeout time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		conn, err := l.open(ctx, address, timeout, timeout)
		if err != nil {
			return nil, err
		}
		limit := &replyLimit{}
		limit.begin(maxReplies)
		return limitReplies(conn, limit), nil
	}
}

// open connects to an address. The timeouts limit the time to connect, and that of a TLS handshake.
func (l Login) open(ctx context.Context, address string, timeout, handshake time.Duration) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, "tcp", address)
	if err == nil && l.TLS != (TLS{}) {
		conn, err = l.TLS.handshake(ctx, conn, handshake)
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
