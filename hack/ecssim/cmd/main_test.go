// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/auth/credentials"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/responses"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ecs"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/sts"

	"github.com/glassback/glassback/hack/ecssim"
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
	if !strings.HasSuffix(c.first, "glassback --ecs-endpoint "+c.url) {
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
	want := "ECS is at " + c.url + ": ALIBABA_CLOUD_ACCESS_KEY_ID=test ALIBABA_CLOUD_ACCESS_KEY_SECRET=test glassback --ecs-endpoint " + c.url
	if c.first != want {
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
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	certificate, errCertificate := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	private, errKey := x509.MarshalPKCS8PrivateKey(key)
	if errCertificate != nil || errKey != nil {
		t.Fatal(errCertificate, errKey)
	}
	dir := t.TempDir()
	files := map[string][]byte{}
	for name, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: certificate}, "tls.key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		files[name] = pem.EncodeToMemory(block)
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), files[name], 0o600))
	}
	c := start(t, "--tls-cert-file", filepath.Join(dir, "tls.crt"), "--tls-private-key-file", filepath.Join(dir, "tls.key"))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(files["tls.crt"])
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	if page := get(t, &http.Client{Transport: transport}, c.url).body; !strings.HasPrefix(c.url, "https://") ||
		!strings.Contains(page, "no instance") {
		t.Errorf("at %s the page is %s", c.url, page)
	}
}

func TestWhatIsWrongWithTheFlags(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer busy.Close()
	for name, tc := range map[string]struct {
		args []string
		code int
		says string
	}{
		"a flag that there is not":  {args: []string{"--port", "1"}, code: exitUsage, says: "unknown flag: --port"},
		"something that is no flag": {args: []string{"start"}, code: exitUsage, says: `"start" is none`},
		"an address without a port": {args: []string{"--bind-address", "localhost"}, code: exitUsage, says: "--bind-address must be HOST:PORT"},
		"an account without a secret": {
			args: []string{"--account", "x:y", "--account", "hidden"},
			code: exitUsage,
			says: "--account must be ID:SECRET of an access key, and number 2 is not",
		},
		"a key of two accounts": {
			args: []string{"--account", "x:y", "--account", "x:z"}, code: exitUsage, says: `the access key ID "x" twice`,
		},
		"no speed":                    {args: []string{"--speed", "0"}, code: exitUsage, says: "--speed must be"},
		"a speed that is no number":   {args: []string{"--speed", "NaN"}, code: exitUsage, says: "--speed must be"},
		"a speed without end":         {args: []string{"--speed", "Inf"}, code: exitUsage, says: "--speed must be"},
		"a certificate without a key": {args: []string{"--tls-cert-file", "x"}, code: exitUsage, says: "need each other"},
		"a certificate that is not": {
			args: []string{"--tls-cert-file", "/none", "--tls-private-key-file", "/none"}, code: exitFailed, says: "no such file",
		},
		"an address that is not free": {
			args: []string{"--bind-address", busy.Addr().String()}, code: exitFailed, says: "give another --bind-address",
		},
		"an address of another machine": {args: []string{"--bind-address", "192.0.2.1:0"}, code: exitFailed, says: "give another --bind-address"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), tc.args, &stdout, &stderr)
			said := stderr.String()
			if code != tc.code || !strings.Contains(said, tc.says) || strings.Count(said, "\n") != 1 || strings.Contains(said, "hidden") ||
				stdout.Len() > 0 {
				t.Errorf("it ended with %d, saying %q and %q", code, said, stdout.String())
			}
		})
	}
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, &stdout, &stderr); code != exitOK || stderr.Len() > 0 ||
		!strings.Contains(stdout.String(), "--bind-address") {
		t.Errorf("it ended with %d, saying %q and %q", code, stdout.String(), stderr.String())
	}
}

func TestACallIsOneLine(t *testing.T) {
	call := ecssim.Call{
		Action: "a\nb", RegionID: "x y", InstanceID: strings.Repeat("i", 100), Code: "ü", Message: "secret",
		At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	if got, want := lineOf(call), `03:04:05 "a\nb" "x y" `+strings.Repeat("i", 64)+` "\u00fc"`; got != want {
		t.Errorf("it is %q, want %q", got, want)
	}
}

func TestThePageShowsWhatIsThereFirst(t *testing.T) {
	var instances []ecssim.Instance
	for n := range 25 {
		instances = append(instances, ecssim.Instance{ID: fmt.Sprint(n), State: "Stopped", Released: time.Unix(1, 0)})
	}
	instances[3].Released, instances[7].Released = time.Time{}, time.Time{}
	shown, more := rows(instances)
	var ids []string
	for _, r := range shown[:4] {
		ids = append(ids, r.ID+" "+r.State)
	}
	if got := strings.Join(ids, ","); len(shown) != 22 || more != 3 || got != "7 Stopped,3 Stopped,24 Released,23 Released" {
		t.Errorf("%d are shown, %d are not: %s", len(shown), more, got)
	}
}
