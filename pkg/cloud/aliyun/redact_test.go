// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package aliyun

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-logr/logr/funcr"
)

const userData = "#!/bin/sh\necho 'p4ssw0rd of the + database' > /etc/secret\n"

// leaks returns the first secret that is in a text, in whatever form.
func leaks(text string, more ...string) string {
	for _, s := range append(more, secret.ID, secret.Secret, secret.SecurityToken, userData, "p4ssw0rd") {
		once := url.QueryEscape(s)
		for _, form := range []string{
			s, once, url.PathEscape(s), url.QueryEscape(once), base64.StdEncoding.EncodeToString([]byte(s)),
			base64.RawURLEncoding.EncodeToString([]byte(s)), strings.TrimSpace(strings.ReplaceAll(s, "\n", " ")),
		} {
			if strings.Contains(text, form) {
				return form
			}
		}
	}
	for _, sign := range []string{"Signature=", "AccessKeyId=", "SecurityToken=", "UserData=", "POST&", "SignatureNonce=", "SignatureNonce%"} {
		if strings.Contains(text, sign) {
			return sign
		}
	}
	return ""
}

// all is everything that can be made of an error, or of anything else.
func all(what any) string {
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+"\n", what)
	}
	text, _ := json.Marshal(what)
	out.Write(text)
	logger := funcr.New(func(prefix, args string) { out.WriteString(prefix + args + "\n") }, funcr.Options{})
	logger.Info("Said", "what", what)
	if err, ok := what.(error); ok {
		logger.Error(err, "Failed")
	}
	return out.String()
}

// echoes answers with all that it was asked.
func echoes(status int, code string) wire {
	return func(r *http.Request) (*http.Response, error) {
		query := r.URL.Query()
		said := []string{
			r.URL.String(), r.URL.RawQuery, url.QueryEscape(r.URL.RawQuery), query.Get("Signature"), query.Get("UserData"), query.Get("AccessKeyId"),
			query.Get("SecurityToken"), userData, secret.Secret,
		}
		body, _ := json.Marshal(map[string]any{
			"RequestId": "R-1", "Code": code, "Message": strings.Join(said, " "), "HostId": r.URL.String(), "Recommend": r.URL.String(),
			"AccessDeniedDetail": map[string]string{"Key": secret.ID},
		})
		return reply(status, string(body))
	}
}

func TestErrorsHoldNoSecrets(t *testing.T) {
	wires := map[string]wire{
		"a request that cannot be sent": func(r *http.Request) (*http.Response, error) {
			return nil, &url.Error{Op: "Post", URL: r.URL.String(), Err: fmt.Errorf("dial %s: no", r.URL)}
		},
		"HTML that shows the URL": func(r *http.Request) (*http.Response, error) { return reply(502, "<html>"+r.URL.String()) },
		"an identity in the code": func(r *http.Request) (*http.Response, error) { return echoes(400, secret.ID)(r) },
		"a plain ID as the request's": func(r *http.Request) (*http.Response, error) {
			return reply(400, refusal("InvalidParameter", "x"))
		},
		"a success with all of it": echoes(200, ""),
	}
	for _, status := range []int{200, 400, 500} {
		for _, code := range []string{"SignatureDoesNotMatch", "IncompleteSignature", "InvalidParameter", "InvalidUserData.Base64FormatInvalid",
			"InvalidSecurityToken.Malformed",
			"InvalidAccessKeyId.NotFound", "IllegalTimestamp", "SignatureNonceUsed", "Throttling", "Unknown", "InternalError", "Forbidden.RAM"} {
			wires[fmt.Sprintf("%s with %d", code, status)] = echoes(status, code)
		}
	}
	for name, w := range wires {
		t.Run(name, func(t *testing.T) {
			var signatures []string
			region := open(t, wire(func(r *http.Request) (*http.Response, error) {
				signatures = append(signatures, r.URL.Query().Get("Signature"))
				return w(r)
			}))
			_, err := region.Create(t.Context(), CreateRequest{Name: "n", UserData: []byte(userData), Tags: map[string]string{"a": "b"}})
			e := failure(t, err)
			if len([]rune(e.Message)) > maxRunes || strings.ContainsAny(e.Message, "\r\n") {
				t.Errorf("the message is long, or has lines: %q", e.Message)
			}
			if found := leaks(all(err), signatures...); found != "" {
				t.Errorf("%q is in %q", found, e.Message)
			}
		})
	}
}

func TestAccessKeysDoNotShow(t *testing.T) {
	type nested struct {
		Key   AccessKey
		Point *AccessKey
	}
	for name, what := range map[string]any{
		"a key": secret, "a pointer to one": &secret, "in something else": nested{secret, &secret}, "the region of one": open(t, says(200, fine)),
		"in a list": []AccessKey{secret}, "as what a map says": map[string]AccessKey{"a": secret},
	} {
		if found := leaks(all(what)); found != "" {
			t.Errorf("%s: %q is in %s", name, found, all(what))
		}
	}
	if secret.String() != hidden || secret.GoString() != hidden {
		t.Error(secret.String(), secret.GoString())
	}
}

// TestNothingIsPrinted runs some tests in another process, in which DEBUG would make the SDK print its requests.
func TestNothingIsPrinted(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPrinter$", "-test.v")
	cmd.Env = append(os.Environ(), "ALIYUN_TEST_PRINTER=1", "DEBUG=signer,cli,SDK,sdk2")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestPrinter")) {
		t.Fatalf("%v: %s", err, out)
	}
	if found := leaks(string(out)); found != "" {
		t.Errorf("%q is in %s", found, out)
	}
}

// TestPrinter is the process of TestNothingIsPrinted, and does nothing in any other.
func TestPrinter(t *testing.T) {
	if os.Getenv("ALIYUN_TEST_PRINTER") == "" {
		return
	}
	for _, w := range []wire{
		echoes(400, "SignatureDoesNotMatch"), echoes(500, "InternalError"), fails(io.EOF), says(200, `{"RequestId":"R-1","InstanceId":"i-1"}`),
	} {
		_, _ = open(t, w).Create(t.Context(), CreateRequest{UserData: []byte(userData)})
	}
}

func TestClean(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"lines become one":            {"a\r\n b\tc\u2028d", "a b c d"},
		"what cannot be printed goes": {"a\x00b\x1b[31m", "a b [31m"},
		"runes are not cut in two":    {strings.Repeat("云", 600), strings.Repeat("云", 499) + "…"},
		"what fits stays":             {strings.Repeat("x", 500), strings.Repeat("x", 500)},
		"invalid UTF-8 is replaced":   {"a\xffb", "a\ufffdb"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := clean(test.text); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// FuzzAnswer has a server say anything at all.
func FuzzAnswer(f *testing.F) {
	f.Add(200, fine)
	f.Add(200, `{"RequestId":"R-1","Instances":{"Instance":[{"InstanceId":"i-1","Tags":{"Tag":[{"TagKey":"a"}]}}]}}`)
	f.Add(400, refusal("InvalidParameter", secret.ID))
	f.Add(400, `{"RequestId":"R-1","Code":"X","Message":{"a":[1,2]},"HostId":3,"Recommend":4,"AccessDeniedDetail":5}`)
	f.Add(404, `{"RequestId":"R-1","RequestId":null,"Code":null}`)
	f.Add(502, "<html>")
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 100 || status > 999 {
			return
		}
		found, err := open(t, says(status, body)).Describe(t.Context(), []string{"i-1"})
		if err == nil {
			if status/100 != 2 || len(found) > 1 {
				t.Errorf("%d %q is taken for %v", status, body, found)
			}
			return
		}
		e := failure(t, err)
		if e.Class == "" || e.Message == "" || !utf8.ValidString(err.Error()) || len([]rune(e.Message)) > maxRunes || leaks(err.Error()) != "" {
			t.Errorf("%d %q is %#v", status, body, e)
		}
	})
}
