// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

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

// client reads from one operator. It is safe for concurrent use.
type client struct {
	base  string
	http  http.Client
	token string // empty for none
	at    string // the moment of a recording; empty for the present, and for the end of a recording
}

// clientAt returns a client for the operator at an address, such as "http://127.0.0.1:8082".
func clientAt(address string) *client {
	return &client{base: strings.TrimSuffix(address, "/"), http: http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}}
}

// close ends the idle connections.
func (c *client) close() { c.http.CloseIdleConnections() }

// refusedError is an error that the API, or a proxy, returned.
type refusedError struct {
	Status  int // the HTTP status
	Reason  string
	Foreign bool // the answer does not have the form of the API: another server, or a proxy, may have sent it
}

// Error returns the reason.
func (r *refusedError) Error() string { return r.Reason }

// answerTimeout bounds a request and its answer. A stream has no such bound: see silence.
const answerTimeout = 15 * time.Second

// maxAnswer bounds an answer, in bytes. The API's longest answers are far shorter.
const maxAnswer = 64 << 20

// overview returns the current state of all parts of the operator.
func (c *client) overview(ctx context.Context) (*inspect.Overview, error) {
	return get[inspect.Overview](ctx, c, "overview", url.Values{})
}

// life returns the recorded events of an object. o.Kind is any name of the kind, such as "jobs.batch". If
// nothing is recorded, life returns a refusedError with the status 404.
func (c *client) life(ctx context.Context, o inspect.Object) (*inspect.Life, error) {
	return get[inspect.Life](ctx, c, "life", query(o))
}

// query returns the query for an object, without the empty fields.
func query(o inspect.Object) url.Values {
	values := url.Values{}
	for key, value := range map[string]string{"kind": o.Kind, "namespace": o.Namespace, "name": o.Name} {
		if value != "" {
			values.Set(key, value)
		}
	}
	return values
}

// get requests a path of the API and decodes the answer.
func get[T any](ctx context.Context, c *client, path string, query url.Values) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	response, err := c.request(ctx, path, query)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer := new(T)
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(answer); err != nil {
		return nil, fmt.Errorf("decode the answer: %w", err)
	}
	return answer, nil
}

// request returns a successful response. The caller closes its body.
func (c *client) request(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	if c.at != "" {
		query.Set("at", c.at)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/inspect/api/"+path+"?"+query.Encode(), nil)
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

// reason returns err without the method and the URL.
func reason(err error) error {
	if outer, is := errors.AsType[*url.Error](err); is {
		return outer.Err
	}
	return err
}

// refusal returns the error in a response: the Problem of the API, or the status and the first line of the
// body, for example that of a proxy.
func refusal(response *http.Response) *refusedError {
	body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err != nil || len(body) == 0 {
		return &refusedError{response.StatusCode, response.Status, true}
	}
	var problem inspect.Problem
	if err := json.Unmarshal(body, &problem); err == nil && problem.Error != "" {
		return &refusedError{response.StatusCode, problem.Error, false}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	return &refusedError{response.StatusCode, fmt.Sprintf("%s: %s", response.Status, line), true}
}

// listener receives the messages of a stream. Neither func may be nil.
type listener struct {
	// Overview is called first, and then twice a second.
	Overview func(*inspect.Overview)
	Events   func(*inspect.Events)
}

// silence is the longest time without a message. After that the operator counts as gone.
const silence = 10 * time.Second

// stream calls listener with the events of the objects that match all non-empty fields of o. It returns when
// ctx or the connection ends, or after silence. The error is never nil.
func (c *client) stream(ctx context.Context, o inspect.Object, listener listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() { cancel(fmt.Errorf("the operator sent nothing for %s", silence)) })
	defer quiet.Stop()
	response, err := c.request(ctx, "stream", query(o))
	if err == nil {
		err = listen(response.Body, func() { quiet.Reset(silence) }, listener)
		_ = response.Body.Close() // The rest of the stream is not read, so an error does not matter.
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// listen reads the server-sent events of pkg/inspect, which have one line each. It calls received for each line.
func listen(body io.Reader, received func(), listener listener) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxAnswer)
	event := ""
	for lines.Scan() {
		received()
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
			err = decodeFor(listener.Overview, value)
		case "events":
			err = decodeFor(listener.Events, value)
		}
		if err != nil {
			return fmt.Errorf("decode the stream message %q: %w", event, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	return errors.New("the stream has ended")
}

// decodeFor decodes a message and calls receive with it.
func decodeFor[T any](receive func(*T), data string) error {
	message := new(T)
	if err := json.Unmarshal([]byte(data), message); err != nil {
		return err
	}
	receive(message)
	return nil
}
