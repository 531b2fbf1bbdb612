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
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/cert"

	"github.com/glassback/glassback/pkg/cloud/aliyun"
	glassbackfake "github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/webhook"
	"github.com/glassback/glassback/pkg/webhook/certificate"
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
		cloud, err := aliyun.New(aliyun.Config{
			Observers: []aliyun.Observer{all.Cloud},
			Transport: carrier(func(*http.Request) (*http.Response, error) { return answers[n]() }),
		})
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

// redisServer accepts one connection. It calls answer when its client sends CLUSTER MEET, and sends the result, unless it is empty.
func redisServer(t *testing.T, answer func() string) (port int) {
	t.Helper()
	return must.Listen(t, func(conn net.Conn) {
		for words := bufio.NewScanner(conn); words.Scan(); {
			switch strings.ToLower(words.Text()) {
			case "hello":
				fmt.Fprint(conn, "-ERR unknown command\r\n")
			case "meet":
				fmt.Fprint(conn, answer())
			}
		}
	})
}

// feedRedis asks nodes that do as they are told, refuse, want a password, are not there, and do not answer before the caller gives up.
func feedRedis(t *testing.T) {
	t.Helper()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	gone.Close()
	ctx, giveUp := context.WithCancel(t.Context())
	says := func(answer string) int { return redisServer(t, func() string { return answer + "\r\n" }) }
	for _, port := range []int{
		says("+OK"), says("-ERR no"), says("-NOAUTH Authentication required."), gone.Addr().(*net.TCPAddr).Port,
		redisServer(t, func() string { giveUp(); return "" }),
	} {
		node := redisnode.Dial("127.0.0.1", port, redisnode.Login{}, all.Redis)
		_ = node.Meet(ctx, "127.0.0.2", 6379, 16379)
		node.Close()
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
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://server", Transport: carrier(func(*http.Request) (*http.Response, error) {
		return reply(http.StatusNotFound, ""), nil
	})})
	if _, err := client.CoreV1().Pods("default").Get(t.Context(), "a", metav1.GetOptions{}); err == nil {
		t.Error("there is a Pod where nothing is")
	}
	if scrape(t).series("rest_client_requests_total", "code=404", "host=server", "method=GET") == nil {
		t.Error("the request was not counted")
	}
}

// feedElection takes part in an election.
func feedElection(t *testing.T) {
	t.Helper()
	_, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: "glassback", LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Lock:      &resourcelock.LeaseLock{LockConfig: resourcelock.ResourceLockConfig{Identity: "me"}},
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	must.Succeed(t, err)
	scrape(t).expect(t, 0, "leader_election_master_status", "name=glassback")
}

var webhookPath = webhook.Path("validate", schema.GroupVersionKind{Group: "groupa.k8s.zhuang.com", Version: "v1", Kind: "ApiExampleA"})

const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE",` +
	`"resource":{"group":"groupa.k8s.zhuang.com","version":"v1","resource":"apiexampleas"},"namespace":"default","name":"a",` +
	`"object":{"apiVersion":"groupa.k8s.zhuang.com/v1","kind":"ApiExampleA","metadata":{"name":"a","namespace":"default"},"spec":%s}}}`

// feedWebhooks sends a request that is allowed, one that is refused, and two that are none.
func feedWebhooks(t *testing.T) {
	t.Helper()
	handler := webhook.NewHandler(glassbackfake.NewClientset(), all.Webhook)
	for body, want := range map[string]int{
		strings.ReplaceAll(review, "%s", `{"foo":"a","first_name":"Jimmy","last_name":"Song"}`): http.StatusOK,
		strings.ReplaceAll(review, "%s", `{"foo":1}`):                                           http.StatusOK,
		"":     http.StatusBadRequest,
		"null": http.StatusBadRequest,
	} {
		r := httptest.NewRequest(http.MethodPost, webhookPath, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: status %d, want %d: %s", body, w.Code, want, w.Body)
		}
	}
}

func TestWebhooks(t *testing.T) {
	before := scrape(t).series("controller_runtime_webhook_requests_total", "webhook="+webhookPath, "code=200").GetCounter().GetValue()
	feedWebhooks(t)
	s := scrape(t)
	s.expect(t, before+2, "controller_runtime_webhook_requests_total", "webhook="+webhookPath, "code=200")
	s.expect(t, before+2, "controller_runtime_webhook_requests_total", "webhook="+webhookPath, "code=400")
	for _, code := range []string{"429", "500", "507"} {
		s.expect(t, 0, "controller_runtime_webhook_requests_total", "webhook="+webhookPath, "code="+code)
	}
	s.expect(t, 2*(before+2), "controller_runtime_webhook_latency_seconds", "webhook="+webhookPath)
	s.expect(t, 0, "controller_runtime_webhook_requests_in_flight", "webhook="+webhookPath)
}

// feedCertificates reads certificates that are there, and some that are not. It returns until when they are valid.
func feedCertificates(t *testing.T) time.Time {
	t.Helper()
	dir := t.TempDir()
	if _, err := certificate.OpenFiles(dir, all.CertificateRead); err == nil {
		t.Error("there is a certificate in an empty directory")
	}
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("glassback", nil, nil)
	must.Succeed(t, err)
	for name, text := range map[string][]byte{certificate.CertFile: certPEM, certificate.KeyFile: keyPEM} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	if _, err := certificate.OpenFiles(dir, all.CertificateRead); err != nil {
		t.Error(err)
	}
	parsed, err := cert.ParseCertsPEM(certPEM)
	must.Succeed(t, err)
	return parsed[0].NotAfter
}

func TestCertificates(t *testing.T) {
	before := scrape(t)
	until := feedCertificates(t)
	s := scrape(t)
	s.expect(t, float64(until.Unix()), "glassback_webhook_certificate_expiry_timestamp_seconds")
	s.expect(t, before.series("certwatcher_read_certificate_total").GetCounter().GetValue()+2, "certwatcher_read_certificate_total")
	s.expect(t, before.series("certwatcher_read_certificate_errors_total").GetCounter().GetValue()+1,
		"certwatcher_read_certificate_errors_total")
}

// crowd is a listener to which so many connect at once, all of one address.
type crowd struct {
	net.Listener
	n int
}

func (c *crowd) Accept() (net.Conn, error) {
	if c.n--; c.n < 0 {
		return nil, net.ErrClosed
	}
	conn, _ := net.Pipe()
	return conn, nil
}

// feedConnections has a listener refuse two connections.
func feedConnections(t *testing.T) {
	t.Helper()
	const admitted = 128
	listener := webhook.Bounded(&crowd{n: admitted + 2}, all.Refused("webhooks"))
	for n := 0; ; n++ {
		conn, err := listener.Accept()
		if err != nil {
			if n != admitted {
				t.Errorf("%d connections were admitted, want %d", n, admitted)
			}
			return
		}
		defer conn.Close()
	}
}

func TestRefusedConnections(t *testing.T) {
	const name, labels = "glassback_connections_refused_total", "server=webhooks"
	feedConnections(t)
	before := scrape(t).series(name, labels).GetCounter().GetValue()
	feedConnections(t)
	scrape(t).expect(t, before+2, name, labels)
}
