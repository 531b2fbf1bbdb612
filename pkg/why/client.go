/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package why

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/glassback/glassback/pkg/inspect"
)

// client asks one operator. It is safe for concurrent use.
type client struct {
	base  string
	http  http.Client
	token string // empty for none
}

// clientAt returns a client for the operator at an address, such as "http://127.0.0.1:8082".
func clientAt(address string) *client {
	return &client{base: strings.TrimSuffix(address, "/"), http: http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}}
}

// close closes the idle connections.
func (c *client) close() { c.http.CloseIdleConnections() }

// refusedError is an answer that is none.
type refusedError struct {
	Status int // of HTTP
	Reason string
}

// Error returns the reason.
func (r *refusedError) Error() string { return r.Reason }

// answerLimit is how long an answer may take, but for that of Stream.
const answerLimit = 15 * time.Second

// maxAnswer bounds an answer. The longest one that the API gives is far shorter.
const maxAnswer = 64 << 20

// Overview returns what all gears show.
func (c *client) overview(ctx context.Context) (*inspect.Overview, error) {
	return ask[inspect.Overview](ctx, c, "overview", nil)
}

// Life returns what is remembered of an object, whose kind may be called by any of its names. If
// there is none, the error is a refusedError with the status 404.
func (c *client) life(ctx context.Context, o inspect.Object) (*inspect.Life, error) {
	return ask[inspect.Life](ctx, c, "life", named(o))
}

// named is how an object is asked for. What is empty is not asked for.
func named(o inspect.Object) url.Values {
	query := url.Values{}
	for key, value := range map[string]string{"kind": o.Kind, "namespace": o.Namespace, "name": o.Name} {
		if value != "" {
			query.Set(key, value)
		}
	}
	return query
}

func ask[T any](ctx context.Context, c *client, what string, query url.Values) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	response, err := c.get(ctx, what, query)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer := new(T)
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(answer); err != nil {
		return nil, fmt.Errorf("read its answer: %w", err)
	}
	return answer, nil
}

// get returns a response that has been successful; the caller closes its body.
func (c *client) get(ctx context.Context, what string, query url.Values) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/inspect/api/"+what+"?"+query.Encode(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.base, err)
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, reason(err)
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, refusal(response)
	}
	return response, nil
}

// reason is err without the method and the URL.
func reason(err error) error {
	if outer, is := errors.AsType[*url.Error](err); is {
		return outer.Err
	}
	return err
}

// refusal reads why a response is none: in a Problem, or a line of whoever is before the API.
func refusal(response *http.Response) *refusedError {
	body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err != nil || len(body) == 0 {
		return &refusedError{response.StatusCode, response.Status}
	}
	var problem inspect.Problem
	if err := json.Unmarshal(body, &problem); err == nil && problem.Error != "" {
		return &refusedError{response.StatusCode, problem.Error}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	return &refusedError{response.StatusCode, fmt.Sprintf("%s: %s", response.Status, line)}
}

// listener gets what a stream brings. Neither func may be nil.
type listener struct {
	// Overview comes first, and then twice a second.
	Overview func(*inspect.Overview)
	Events   func(*inspect.Events)
}

// silence is how long a stream may bring nothing: then whoever sent it is gone.
const silence = 10 * time.Second

// Stream tells listener what happens, until ctx ends or the operator does: the error is never nil.
// What is empty of o is not asked for.
func (c *client) stream(ctx context.Context, o inspect.Object, listener listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() { cancel(fmt.Errorf("it has said nothing for %s", silence)) })
	defer quiet.Stop()
	response, err := c.get(ctx, "stream", named(o))
	if err == nil {
		err = listen(response.Body, func() { quiet.Reset(silence) }, listener)
		_ = response.Body.Close() // It is broken off.
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// listen reads server-sent events, as pkg/inspect sends them: of one line each.
func listen(body io.Reader, heard func(), listener listener) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxAnswer)
	event := ""
	for lines.Scan() {
		heard()
		field, value, _ := strings.Cut(lines.Text(), ": ")
		if field == "event" {
			event = value
		}
		if field != "data" {
			continue
		}
		var err error
		switch event {
		case "overview":
			err = tell(value, listener.Overview)
		case "events":
			err = tell(value, listener.Events)
		}
		if err != nil {
			return fmt.Errorf("read what the operator sends as %s: %w", event, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read what the operator sends: %w", err)
	}
	return errors.New("it has ended")
}

func tell[T any](data string, listener func(*T)) error {
	value := new(T)
	if err := json.Unmarshal([]byte(data), value); err != nil {
		return err
	}
	listener(value)
	return nil
}
