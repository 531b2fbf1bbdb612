// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/auth/credentials"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/responses"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ecs"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/sts"

	"github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/must"
)

// command is a run of the command.
type command struct {
	tb    testing.TB
	url   string
	first string        // line of its output
	lines *bufio.Reader // all others
	stop  context.CancelFunc
	code  chan int
}

func start(t *testing.T, args ...string) *command {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	c := &command{tb: t, lines: bufio.NewReader(reader), stop: cancel, code: make(chan int, 1)}
	go func() {
		code := run(ctx, append([]string{"--bind-address", "127.0.0.1:0"}, args...), writer, writer)
		writer.Close()
		c.code <- code
	}()
	t.Cleanup(func() {
		cancel()
		reader.Close()
	})
	c.first = c.line()
	c.url = regexp.MustCompile(`https?://[0-9.]+:[0-9]+`).FindString(c.first)
	if !strings.HasSuffix(c.first, "glassback --ecs-endpoint "+c.url+" --ecs-own-credentials-namespaces default") {
		t.Fatalf("it said %q", c.first)
	}
	return c
}

func (c *command) line() string {
	c.tb.Helper()
	line, err := c.lines.ReadString('\n')
	must.Succeed(c.tb, err)
	return strings.TrimSuffix(line, "\n")
}

// call makes a call, and returns the printed line without the time.
func (c *command) call(id, secret string, request requests.AcsRequest, response responses.AcsResponse) (string, error) {
	c.tb.Helper()
	client, err := sdk.NewClientWithOptions("cn-hangzhou", sdk.NewConfig(), credentials.NewAccessKeyCredential(id, secret))
	must.Succeed(c.tb, err)
	request.SetDomain(strings.TrimPrefix(c.url, "http://"))
	printed := make(chan string, 1)
	go func() {
		line, _ := c.lines.ReadString('\n')
		_, line, _ = strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		printed <- line
	}()
	err = client.DoAction(request, response)
	return <-printed, err
}

// got is the answer to a browser.
type got struct {
	status int
	header http.Header
	body   string
}

func get(t *testing.T, client *http.Client, url string) got {
	t.Helper()
	response, err := client.Get(url)
	must.Succeed(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must.Succeed(t, err)
	return got{response.StatusCode, response.Header, string(body)}
}

func TestItServesUntilItIsStopped(t *testing.T) {
	c := start(t, "--speed", "1000000")
	want := "ECS is at " + c.url + ": ALIBABA_CLOUD_ACCESS_KEY_ID=test ALIBABA_CLOUD_ACCESS_KEY_SECRET=test glassback "
	if !strings.HasPrefix(c.first, want) {
		t.Errorf("it says %q, want %q", c.first, want)
	}
	if page := get(t, http.DefaultClient, c.url).body; !strings.Contains(page, "There is no instance yet.") {
		t.Errorf("the page is %s", page)
	}
	create, created := ecs.CreateCreateInstanceRequest(), ecs.CreateCreateInstanceResponse()
	create.InstanceType, create.ImageId = "ecs.g6.large", "ubuntu"
	create.InstanceName, create.UserData = "<script>alert(1)</script>", "c2VjcmV0"
	create.Tag = &[]ecs.CreateInstanceTag{{Key: v1alpha1.TagObject, Value: "default/web & more"}}
	line, err := c.call("test", "test", create, created)
	if want := "CreateInstance cn-hangzhou " + created.InstanceId + " OK"; err != nil || line != want {
		t.Errorf("it printed %q and answered %v, want %q", line, err, want)
	}
	line, err = c.call("test", "wrong", create, created)
	if err == nil || line != "CreateInstance cn-hangzhou - SignatureDoesNotMatch" {
		t.Errorf("it printed %q and answered %v", line, err)
	}
	page := get(t, http.DefaultClient, c.url)
	for _, part := range []string{
		created.InstanceId, "&lt;script&gt;alert(1)&lt;/script&gt;", "cn-hangzhou", "Stopped", "ecs.g6.large", "default/web &amp; more",
	} {
		if !strings.Contains(page.body, part) {
			t.Errorf("%q is not on the page", part)
		}
	}
	if strings.Contains(page.body, "<script>") || strings.Contains(page.body, "c2VjcmV0") || page.header.Get("Content-Security-Policy") == "" {
		t.Errorf("the page is %+v", page)
	}
	if other := get(t, http.DefaultClient, c.url+"/favicon.ico"); other.status != http.StatusNotFound {
		t.Errorf("there is another page: %+v", other)
	}
	c.stop()
	if code := <-c.code; code != exitOK {
		t.Errorf("it ended with %d", code)
	}
}

func TestEachKeyIsAnAccountOfItsOwn(t *testing.T) {
	c := start(t, "--account", "first:one", "--account", "second:t:w:o")
	if strings.Contains(c.first, "=one") || !strings.Contains(c.first, "_ID=first ") {
		t.Errorf("it says %q", c.first)
	}
	for key, account := range map[[2]string]string{{"first", "one"}: "1234567890123456", {"second", "t:w:o"}: "1234567890123457"} {
		response := sts.CreateGetCallerIdentityResponse()
		line, err := c.call(key[0], key[1], sts.CreateGetCallerIdentityRequest(), response)
		if err != nil || response.AccountId != account || line != "GetCallerIdentity cn-hangzhou - OK" {
			t.Errorf("%v is %q, %v, and it printed %q", key, response.AccountId, err, line)
		}
	}
	if _, err := c.call("test", "test", ecs.CreateDescribeRegionsRequest(), ecs.CreateDescribeRegionsResponse()); err == nil {
		t.Error("the account of those who give none is there")
	}
}

func TestHTTPS(t *testing.T) {
	other := httptest.NewTLSServer(nil) // whose certificate is for 127.0.0.1
	defer other.Close()
	pair, file := other.TLS.Certificates[0], filepath.Join(t.TempDir(), "both.pem")
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	must.Succeed(t, err)
	both := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	must.Succeed(t, os.WriteFile(file, both, 0o600))
	c := start(t, "--tls-cert-file", file, "--tls-private-key-file", file)
	if page := get(t, other.Client(), c.url).body; !strings.HasPrefix(c.url, "https://") || !strings.Contains(page, "no instance") {
		t.Errorf("at %s the page is %s", c.url, page)
	}
}

func TestWhatIsWrongWithTheFlags(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer busy.Close()
	for args, test := range map[string]struct {
		code int
		says string
	}{
		"--port 1":                       {exitUsage, "unknown flag: --port"},
		"start":                          {exitUsage, `"start" is none`},
		"--bind-address localhost":       {exitUsage, "--bind-address must be HOST:PORT"},
		"--account x:y --account hidden": {exitUsage, "--account must be ID:SECRET of an access key, and number 2 is not"},
		"--account x:y --account x:z":    {exitUsage, `the access key ID "x" twice`},
		"--speed 0":                      {exitUsage, "--speed must be"},
		"--speed NaN":                    {exitUsage, "--speed must be"},
		"--speed Inf":                    {exitUsage, "--speed must be"},
		"--tls-cert-file x":              {exitUsage, "need each other"},
		"--tls-cert-file /none --tls-private-key-file /none": {exitFailed, "no such file"},
		"--bind-address " + busy.Addr().String():             {exitFailed, "give another --bind-address"},
	} {
		t.Run(args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), strings.Fields(args), &stdout, &stderr)
			said := stderr.String()
			if code != test.code || !strings.Contains(said, test.says) || strings.Count(said, "\n") != 1 || strings.Contains(said, "hidden") ||
				stdout.Len() > 0 {
				t.Errorf("it ended with %d, saying %q and %q", code, said, stdout.String())
			}
		})
	}
}
