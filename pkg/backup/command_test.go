// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/must"
)

// required are the flags of a valid command line.
var required = []string{"--cluster=shop/cache", "--id=20260131T030000Z", "--address=127.0.0.1:1", "--directory=/missing"}

func TestFlags(t *testing.T) {
	s3 := []string{"--directory=", "--s3-endpoint=https://s3.example.com:9000", "--s3-bucket=b", "--s3-credentials=/missing"}
	for name, test := range map[string]struct {
		args []string // after the required ones
		want string   // "" for a valid command line
	}{
		"a directory":                  {nil, ""},
		"S3":                           {s3, ""},
		"S3 with all":                  {append(slices.Clone(s3), "--s3-prefix=a/b", "--s3-region=r"), ""},
		"S3 without TLS":               {append(slices.Clone(s3), "--s3-endpoint=http://minio.shop:9000"), ""},
		"more addresses":               {[]string{"--address=cache.shop.svc:6379", "--address=[::1]:6379"}, ""},
		"a user":                       {[]string{"--user=u", "--password-file=f"}, ""},
		"TLS":                          {[]string{"--tls-ca=f", "--tls-server-name=n"}, ""},
		"an argument":                  {[]string{"now"}, `unexpected argument "now"`},
		"an unknown flag":              {[]string{"--now"}, "unknown flag: --now"},
		"no namespace":                 {[]string{"--cluster=cache"}, `--cluster must be NAMESPACE/NAME, not "cache"`},
		"a path":                       {[]string{"--cluster=../.."}, "--cluster must be"},
		"a deeper path":                {[]string{"--cluster=a/b/c"}, "--cluster must be"},
		"no id":                        {[]string{"--id="}, `--id: "" is no id of a backup`},
		"an address without a port":    {[]string{"--address=host"}, `--address must be HOST:PORT, not "host"`},
		"a port that is none":          {[]string{"--address=host:0"}, "--address must be HOST:PORT"},
		"a user without a password":    {[]string{"--user=u"}, "--user needs --password-file"},
		"a CA without a name":          {[]string{"--tls-ca=f"}, "need each other"},
		"a name without a CA":          {[]string{"--tls-server-name=n"}, "need each other"},
		"two stores":                   {[]string{"--s3-bucket=b"}, "--directory cannot be combined"},
		"no store":                     {[]string{"--directory="}, "--directory is missing, or --s3-endpoint"},
		"half of S3":                   {s3[:3], "--directory is missing, or --s3-endpoint"},
		"an endpoint without a scheme": {append(slices.Clone(s3), "--s3-endpoint=s3.example.com"), "--s3-endpoint must be https://HOST[:PORT]"},
		"an endpoint with a path":      {append(slices.Clone(s3), "--s3-endpoint=https://s3.example.com/b"), "--s3-endpoint must be"},
	} {
		for _, restores := range []bool{false, true} {
			_, err := parse(restores, append(slices.Clone(required), test.args...))
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%s, of a restore: %t: error %v, want %q", name, restores, err, test.want)
			}
		}
	}
	for _, test := range []struct {
		flag            string
		backup, restore bool // whether it is valid
	}{
		{"--id=latest", false, true},
		{"--owner=7f0c5a3e", true, true},
		{"--choose", false, true},
		{"--retention=0", false, false},
		{"--retention=1001", false, false},
	} {
		for restores, want := range map[bool]bool{false: test.backup, true: test.restore} {
			if _, err := parse(restores, append(slices.Clone(required), test.flag)); (err == nil) != want {
				t.Errorf("%s, of a restore: %t: error %v", test.flag, restores, err)
			}
		}
	}
}

// parse reads the command line of one of the two commands.
func parse(restores bool, args []string) (*settings, error) {
	o := &settings{restores: restores}
	c := o.command()
	if err := c.ParseFlags(args); err != nil {
		return nil, err
	}
	return o, errors.Join(c.ValidateArgs(c.Flags().Args()), c.PreRunE(c, nil))
}

// program is one of the two commands.
type program struct {
	t    *testing.T
	args []string
}

// run runs a command with the given flags, and returns its exit code, its result or error in the file of --result, and all its output.
func (p program) run(restore bool, more ...string) (code int, result, output string) {
	p.t.Helper()
	file := filepath.Join(p.t.TempDir(), "result")
	args := slices.Concat(p.args, []string{"--result", file}, more)
	var stdout, stderr strings.Builder
	code = command.Execute(p.t.Context(), (&settings{restores: restore}).command(), args, &stdout, &stderr)
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Error(err)
	}
	if err == nil && (strings.Count(string(text), "\n") != 1 || (code == command.OK) != (stdout.String() == string(text))) {
		p.t.Errorf("exit code %d, stdout is %q, and the result %q", code, stdout.String(), text)
	}
	return code, string(text), stdout.String() + stderr.String()
}

// succeed runs a command that must succeed, and returns its result.
func (p program) succeed(restore bool, more ...string) Result {
	p.t.Helper()
	code, text, output := p.run(restore, more...)
	if code != command.OK {
		p.t.Fatalf("exit code %d: %s", code, output)
	}
	var result Result
	must.Succeed(p.t, json.Unmarshal([]byte(text), &result))
	return result
}

// TestWrongCredentials has S3 reject the access key. Its answer repeats the key, as that of Amazon does.
func TestWrongCredentials(t *testing.T) {
	const keyID, key = "AKIAWRONGKEYID", "wrong-secret-key"
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `<Error><Code>InvalidAccessKeyId</Code><Message>The key %s with %s is not known.</Message></Error>`, keyID, key)
	}))
	t.Cleanup(server.Close)
	args := []string{"--directory=", "--s3-endpoint=" + server.URL, "--s3-bucket=backups", "--s3-region=a",
		"--s3-credentials=" + credentialsOf(t, keyID, key)}
	for _, restore := range []bool{false, true} {
		code, result, output := program{t, required}.run(restore, args...)
		if code != refused || !strings.Contains(result, "The key [secret] with [secret] is not known") {
			t.Errorf("exit code %d, result %q", code, result)
		}
		if strings.Contains(result+output, key) || strings.Contains(result+output, keyID) {
			t.Errorf("the output has the access key: %q, %q", result, output)
		}
	}
}

// The operator and the nodes read a password without newlines at its end, and so do the Jobs. "kubectl create secret --from-file" keeps
// them.
func TestNewlinesAtTheEndOfASecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	for content, want := range map[string]string{"a\nb\n\n": "a\nb", "a\r\n": "a\r", "a": "a"} {
		must.Succeed(t, os.WriteFile(file, []byte(content), 0o600))
		if got, err := (&settings{}).secret(file, endOfPassword); err != nil || got != want {
			t.Errorf("of %q: %q, %v, want %q", content, got, err, want)
		}
	}
}

func TestCommandsThatFail(t *testing.T) {
	empty := t.TempDir()
	blank := filepath.Join(t.TempDir(), "blank")
	must.Succeed(t, os.WriteFile(blank, []byte("\n"), 0o600))
	noCredentials := []string{"--directory=", "--s3-endpoint=https://a", "--s3-bucket=b", "--s3-credentials=" + empty}
	broken := credentialsOf(t, "the-key-id", "the-secret-key")
	must.Succeed(t, os.WriteFile(filepath.Join(broken, fileAuthorities), []byte("x"), 0o600))
	noCA := []string{"--directory=", "--s3-endpoint=https://a", "--s3-bucket=b", "--s3-credentials=" + broken}
	for name, test := range map[string]struct {
		restore bool
		args    []string
		code    int
		want    string
	}{
		"help":                 {false, []string{"--help"}, command.OK, ""},
		"a wrong flag":         {false, []string{"--directory="}, command.Usage, ""},
		"no directory":         {false, nil, command.Failed, "/missing: no such file or directory"},
		"no credentials":       {true, noCredentials, command.Failed, "accessKeyID: no such file"},
		"no CA of S3":          {true, noCA, command.Failed, "ca.crt of the credentials has no certificate"},
		"no password":          {true, []string{"--password-file=" + blank}, command.Failed, "blank is empty"},
		"no CA":                {true, []string{"--tls-ca=/missing/ca", "--tls-server-name=n"}, command.Failed, "/missing/ca: no such file"},
		"nothing to restore":   {true, []string{"--directory=" + empty, "--id=latest"}, command.Failed, "there is no backup of shop/cache in "},
		"nothing with this id": {true, []string{"--directory=" + empty}, command.Failed, "there is no backup of shop/cache in "},
	} {
		code, result, output := program{t, required}.run(test.restore, test.args...)
		if code != test.code || !strings.Contains(result, test.want) || (test.want == "") != (result == "") {
			t.Errorf("%s: exit code %d, result %q, output %q, want %d and %q", name, code, result, output, test.code, test.want)
		}
	}
}

// TestTheCommandLinesOfTheOperator parses the arguments that the operator gives its Jobs: a test of the controller writes them.
func TestTheCommandLinesOfTheOperator(t *testing.T) {
	lines, err := os.ReadFile("../controller/rediscluster/testdata/jobs.txt")
	must.Succeed(t, err)
	parsed, ends := map[string]int{}, false
	for line := range strings.Lines(string(lines)) {
		words := strings.Fields(line)
		if words[0] == "#" {
			ends = ends || strings.TrimSpace(line) == fmt.Sprintf("# exit codes: %d is wrong usage, and %d ends a Job", command.Usage, refused)
			continue
		}
		parsed[words[0]]++
		o, err := parse(words[0] == "restore", words[1:])
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if len(o.addresses) < 2 || o.id == "" || (o.directory == "") == (o.endpoint == "") {
			t.Errorf("%s: %+v", line, o)
		}
	}
	if parsed["backup"] < 5 || parsed["restore"] < 2 || !ends {
		t.Errorf("the file has these command lines: %v, and the exit codes: %t", parsed, ends)
	}
}
