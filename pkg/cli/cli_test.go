// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/must"
)

func TestTheNameOfTheBinaryDecidesWhatRunsWithoutACommand(t *testing.T) {
	const operator, explains = "--leader-elect-retry-period does nothing without --leader-elect", "Glassback explains what its operator does"
	operatorFlag := []string{"--leader-elect-retry-period=1s"}
	for name, test := range map[string]struct {
		binary         string
		args           []string
		code           int
		stdout, stderr string // their beginnings
	}{
		"the operator":                 {"/glassback", operatorFlag, command.Usage, "", operator},
		"a binary with another name":   {"operator", operatorFlag, command.Usage, "", operator},
		"a directory of the same name": {"/kubectl-glassback/glassback", operatorFlag, command.Usage, "", operator},
		"a command that there is not": {
			"glassback", []string{"explain"}, command.Usage, "", `glassback has no command "explain": see glassback --help`,
		},
		"a command":                 {"glassback", []string{"replay", "--help"}, command.OK, "Replay decides again", ""},
		"the plugin":                {"/home/me/.krew/bin/kubectl-glassback", nil, command.OK, explains, ""},
		"the plugin on Windows":     {"kubectl-glassback.exe", nil, command.OK, explains, ""},
		"the help of the plugin":    {"kubectl-glassback", []string{"help"}, command.OK, explains, ""},
		"the plugin with a command": {"kubectl-glassback", []string{"version"}, command.OK, "glassback dev (commit ", ""},
		"the plugin with a flag": {
			"kubectl-glassback", operatorFlag, command.Usage, "", "unknown flag: --leader-elect-retry-period: see kubectl glassback --help",
		},
		"the plugin with a command that there is not": {
			"kubectl-glassback", []string{"explain"}, command.Usage, "", `kubectl glassback has no command "explain": see kubectl glassback --help`,
		},
		"kubectl completes": {"/bin/kubectl_complete-glassback", []string{"st"}, command.OK, "status\tlist all objects in one table", ""},
		"the operator is no part of the plugin": {
			"kubectl_complete-glassback", []string{"--leader"}, command.OK, ":4\n", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			code := Run(t.Context(), test.binary, test.args, &stdout, &stderr)
			if test.stderr != "" {
				test.stderr = "glassback: " + test.stderr
			}
			if code != test.code || !strings.HasPrefix(stdout.String(), test.stdout) || !strings.HasPrefix(stderr.String(), test.stderr) {
				t.Errorf("exit code %d, %q, %q", code, stdout.String(), stderr.String())
			}
		})
	}
}

func TestVersion(t *testing.T) {
	for form, want := range map[string]string{"text": "glassback dev (commit ", "yaml": "commit: unknown\n"} {
		var stdout strings.Builder
		code := Run(t.Context(), "glassback", []string{"version", "-o", form}, &stdout, io.Discard)
		if code != command.OK || !strings.HasPrefix(stdout.String(), want) || (form == "text") != (strings.Count(stdout.String(), "\n") == 1) {
			t.Errorf("%s: exit code %d, %q", form, code, stdout.String())
		}
	}
}

func TestCompletionScripts(t *testing.T) {
	const refusal = "glassback: say which shell: glassback completion bash|zsh|fish\n"
	for name, test := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"bash":             {[]string{"bash"}, command.OK, "# bash completion V2 for glassback ", ""},
		"zsh":              {[]string{"zsh"}, command.OK, "#compdef glassback\n", ""},
		"fish":             {[]string{"fish"}, command.OK, "# fish completion for glassback ", ""},
		"no shell":         {nil, command.Usage, "", refusal},
		"an unknown shell": {[]string{"../x"}, command.Usage, "", refusal},
		"two shells":       {[]string{"bash", "zsh"}, command.Usage, "", refusal},
	} {
		for _, binary := range []string{"glassback", "kubectl-glassback"} { // Both print the scripts for glassback.
			var stdout, stderr strings.Builder
			code := Run(t.Context(), binary, append([]string{"completion"}, test.args...), &stdout, &stderr)
			if code != test.code || !strings.HasPrefix(stdout.String(), test.stdout) || stderr.String() != test.stderr {
				t.Errorf("%s, %s: exit code %d, %.50q, %q", binary, name, code, stdout.String(), stderr.String())
			}
		}
	}
}

// kubeconfig serves some objects, and returns a kubeconfig for them. There is no answer for a namespace with the name "hangs".
func kubeconfig(t *testing.T) string {
	t.Helper()
	names := map[string]string{
		"/api/v1/namespaces": "default,shop",
		"/apis/batch.wzj.kubebuilder.io/v1/namespaces/shop/mycronjobs":  "tick,tock",
		"/apis/batch.wzj.kubebuilder.io/v1/namespaces/other/mycronjobs": "far",
		"/apis/batch.wzj.kubebuilder.io/v1/mycronjobs":                  "far,tick,tock,bad\\nname,$(reboot)",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/hangs/") {
			<-r.Context().Done()
			return
		}
		if names[r.URL.Path] == "" || !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
			http.NotFound(w, r)
			return
		}
		var items []string
		for name := range strings.SplitSeq(names[r.URL.Path], ",") {
			items = append(items, `{"metadata":{"name":"`+name+`"}}`)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[%s]}`, strings.Join(items, ","))
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "config")
	config := `{"clusters":[{"name":"c","cluster":{"server":"` + server.URL + `"}}],"current-context":"shop","contexts":[
		{"name":"shop","context":{"cluster":"c","namespace":"shop"}},{"name":"arn:aws:other","context":{"cluster":"c","namespace":"other"}},
		{"name":"$(reboot)","context":{"cluster":"c"}}]}`
	must.Succeed(t, os.WriteFile(file, []byte(config), 0o600))
	return file
}

// TestCompletion completes command lines. A shell itself filters values and arguments by the beginning of the last word.
func TestCompletion(t *testing.T) {
	t.Setenv("KUBECONFIG", kubeconfig(t))
	for name, test := range map[string]struct {
		line string // the last word may be empty
		want string
	}{
		"a command":                      {"s", "status :4"},
		"a flag of the operator":         {"--leader-elect-l", "--leader-elect-lease-duration :4"},
		"a flag":                         {"status --o", "--output --operator-namespace :4"},
		"a hidden flag":                  {"--vm", ":4"},
		"a value":                        {"status -o ", "text wide json yaml :4"},
		"a value after an equals sign":   {"trace --stage=w", "wire queue index dispatch enqueue sync write done :4"},
		"a controller":                   {"check --controllers ", "apiexamplea application ecsinstance mycronjob rediscluster :4"},
		"a queue":                        {"--informer-queue ", "DeltaFIFO RealFIFO :4"},
		"a value of any kind":            {"why --last ", ":4"},
		"after help":                     {"status --help -", ":4"},
		"a file of the operator":         {"--webhook-cert-path ", ":0"},
		"a kubeconfig":                   {"status --kubeconfig ", ":0"},
		"a recording":                    {"replay a ", ":0"},
		"a context":                      {"status --context ", "arn:aws:other shop :4"},
		"a namespace":                    {"plan -n ", "default shop :4"},
		"the namespace of an operator":   {"check --operator-namespace ", "default shop :4"},
		"a namespace, flags in one word": {"status -An ", "default shop :4"},
		"a shell":                        {"completion z", "zsh :4"},
		"no argument":                    {"status ", ":4"},
		"a kind": {
			"why ", "aea apiexampleas app applications ecs ecsinstances mcj mycronjobs rdc redisclusters :4",
		},
		"an object of the context":             {"why mcj ", "tick tock :4"},
		"an object behind a slash":             {"why mycronjob/to", "mycronjob/tick mycronjob/tock :4"},
		"an object of another namespace":       {"why -n other MyCronJob ", "far :4"},
		"an object of another context":         {"why --context=arn:aws:other mcj ", "far :4"},
		"an object of all namespaces":          {"trace mycronjobs.batch.wzj.kubebuilder.io ", "far tick tock :4"},
		"an object of a namespace":             {"trace -n other mcj ", "far :4"},
		"all namespaces win":                   {"trace -n other -A mcj ", "far tick tock :4"},
		"an object of a kind of others":        {"why jobs ", ":4"},
		"a second object":                      {"why mcj tick ", ":4"},
		"a kind that the server does not have": {"why rdc ", ":4"},
		"a kubeconfig that does not exist":     {"why --kubeconfig /no/such mcj ", ":4"},
		"an API server that does not answer":   {"why -n hangs mcj ", ":4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			code := Run(t.Context(), "glassback", append([]string{"__complete"}, strings.Split(test.line, " ")...), &out, io.Discard)
			var got []string
			for line := range strings.Lines(out.String()) {
				word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
				got = append(got, word)
			}
			if code != command.OK || strings.Join(got, " ") != test.want {
				t.Errorf("exit code %d, %q, want %q", code, got, test.want)
			}
		})
	}
}
