// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/redisnode"
)

// carrier answers requests in place of the network.
type carrier func(*http.Request) (*http.Response, error)

func (c carrier) RoundTrip(r *http.Request) (*http.Response, error) { return c(r) }

func reply(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}

// feedCloud makes calls that succeed, are throttled, get no answer, and are never sent.
func feedCloud(t *testing.T) {
	t.Helper()
	answers := []func() (*http.Response, error){
		func() (*http.Response, error) {
			return reply(http.StatusOK, `{"RequestId":"R","AccountId":"1234567890"}`), nil
		},
		func() (*http.Response, error) {
			return reply(http.StatusBadRequest, `{"RequestId":"R","Code":"Throttling","Message":"later"}`), nil
		},
		func() (*http.Response, error) { return nil, errors.New("the cable is cut") },
	}
	for n, region := range []string{"cn-beijing", "cn-beijing", "mars-north-1", "no such region!"} {
		cloud, err := aliyun.New(aliyun.Config{Transport: carrier(func(*http.Request) (*http.Response, error) { return answers[n]() })})
		must.Succeed(t, err)
		key := &aliyun.AccessKey{ID: "LTAI", Secret: "secret"}
		if _, err := cloud.Open(key, region).Account(t.Context()); (err == nil) != (n == 0) {
			t.Errorf("call %d: %v", n, err)
		}
	}
}

func TestCloud(t *testing.T) {
	before := scrape(t).series("glassback_cloud_request_duration_seconds", "action=GetCallerIdentity").GetHistogram().GetSampleCount() / 3
	feedCloud(t)
	s, n := scrape(t), float64(before+1)
	s.expect(t, n, "glassback_cloud_requests_total", "action=GetCallerIdentity", "region=cn-beijing", "result=success")
	s.expect(t, n, "glassback_cloud_requests_total", "action=GetCallerIdentity", "region=cn-beijing", "result=Throttled")
	s.expect(t, n, "glassback_cloud_requests_total", "action=GetCallerIdentity", "region=mars-north-1", "result=Transient")
	s.expect(t, 3*n, "glassback_cloud_request_duration_seconds", "action=GetCallerIdentity")
}

func TestRegionsAreBounded(t *testing.T) {
	r := &regions{names: map[string]bool{}}
	for n := range maxRegions {
		if name := fmt.Sprint(n); r.label(name) != name {
			t.Errorf("region %s is %s", name, r.label(name))
		}
	}
	if got := r.label("one more"); got != "other" || r.label("0") != "0" {
		t.Errorf("a region beyond the limit is %s", got)
	}
}

// redisServer answers every command alike, and returns its port.
func redisServer(t *testing.T, answer string) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				commands := bufio.NewReader(conn)
				for command, err := readCommand(commands); err == nil; command, err = readCommand(commands) {
					if strings.EqualFold(command, "hello") {
						fmt.Fprint(conn, "-ERR unknown command\r\n")
					} else if answer != "" {
						fmt.Fprintf(conn, "%s\r\n", answer)
					}
				}
			}()
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

// readCommand reads an array of bulk strings, and returns the first:
// https://redis.io/docs/latest/develop/reference/protocol-spec/
func readCommand(from *bufio.Reader) (string, error) {
	line, err := from.ReadString('\n')
	if err != nil {
		return "", err
	}
	words, err := strconv.Atoi(strings.Trim(line, "*\r\n"))
	name := ""
	for n := range 2 * words {
		if line, err = from.ReadString('\n'); err != nil {
			return "", err
		}
		if n == 1 {
			name = strings.TrimSpace(line)
		}
	}
	return name, err
}

// feedRedis asks nodes that do as they are told, refuse, want a password, are not there, and do not answer in time.
func feedRedis(t *testing.T) {
	t.Helper()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	gone.Close()
	for _, port := range []int{
		redisServer(t, "+OK"), redisServer(t, "-ERR no"), redisServer(t, "-NOAUTH Authentication required."), gone.Addr().(*net.TCPAddr).Port,
		redisServer(t, ""),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		node := redisnode.Dial("127.0.0.1", port, redisnode.Login{})
		_ = node.Meet(ctx, "127.0.0.2", 6379, 16379)
		node.Close()
		cancel()
	}
}

func TestRedis(t *testing.T) {
	before := scrape(t).series("glassback_redis_request_duration_seconds", "command=CLUSTER MEET").GetHistogram().GetSampleCount() / 5
	feedRedis(t)
	s, n := scrape(t), float64(before+1)
	for _, result := range []redisnode.Result{
		redisnode.Success, redisnode.Refused, redisnode.Password, redisnode.Unreachable, redisnode.Canceled,
	} {
		s.expect(t, n, "glassback_redis_requests_total", "command=CLUSTER MEET", "result="+string(result))
	}
	s.expect(t, 5*n, "glassback_redis_request_duration_seconds", "command=CLUSTER MEET")
}

// feedClient asks an API server for a Pod.
func feedClient(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
	if _, err := client.CoreV1().Pods("default").Get(t.Context(), "a", metav1.GetOptions{}); err == nil {
		t.Error("there is a Pod where nothing is")
	}
}

func TestClient(t *testing.T) {
	feedClient(t)
	for _, m := range scrape(t)["rest_client_requests_total"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["code"] == "404" && labels["method"] == http.MethodGet && strings.HasPrefix(labels["host"], "127.0.0.1:") {
			return
		}
	}
	t.Error("the request was not counted")
}

// feedElection leads for a moment.
func feedElection(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: "glassback", LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "glassback-system", Name: "glassback"}, Client: fake.NewClientset().CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "me"},
		},
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				scrape(t).expect(t, 1, "leader_election_master_status", "name=glassback")
				cancel()
			},
			OnStoppedLeading: func() {},
		},
	})
	must.Succeed(t, err)
	scrape(t).expect(t, 0, "leader_election_master_status", "name=glassback")
	elector.Run(ctx)
}

func TestElection(t *testing.T) { feedElection(t) }
