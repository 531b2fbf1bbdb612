// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package completion

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/must"
)

// commands are those of a small program.
var commands = map[string]Command{
	"":           {Flags: testFlags},
	"why":        {Flags: testFlags, Objects: true},
	"status":     {Flags: testFlags},
	"trace":      {Flags: testFlags, Objects: true, Everywhere: true},
	"completion": {Args: Shells},
}

func testFlags() *pflag.FlagSet {
	flags := command.Flags("test")
	flags.StringP("namespace", "n", "", "the namespace; or none")
	flags.BoolP("all-namespaces", "A", false, "all namespaces")
	flags.String("kubeconfig", "", "a file")
	flags.String("context", "", "a context")
	flags.String("secret", "", "hidden")
	flags.Lookup("secret").Hidden = true
	command.AddOutput(flags, new(string), command.Text, command.Wide)
	return flags
}

// kubeconfig serves some objects, and returns a kubeconfig for them. The answer is "hangs" for a namespace of that name.
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
		{"name":"shop","context":{"cluster":"c","namespace":"shop"}},{"name":"arn:aws:other","context":{"cluster":"c","namespace":"other"}}]}`
	must.Succeed(t, os.WriteFile(file, []byte(config), 0o600))
	return file
}

func TestComplete(t *testing.T) {
	t.Setenv("KUBECONFIG", kubeconfig(t))
	for name, test := range map[string]struct {
		words []string
		want  string
	}{
		"no words":                             {nil, "completion status trace why :4"},
		"the beginning of a command":           {[]string{"s"}, "status :4"},
		"a flag of no command":                 {[]string{"--out"}, "--output :4"},
		"a flag":                               {[]string{"status", "--o"}, "--output :4"},
		"all flags, except hidden ones":        {[]string{"status", "-"}, "--namespace --all-namespaces --kubeconfig --context --output :4"},
		"a value":                              {[]string{"status", "-o", ""}, "text wide :4"},
		"a value after an equals sign":         {[]string{"status", "--output=w"}, "wide :4"},
		"after help":                           {[]string{"status", "--help", "-"}, ":4"},
		"a command that does not exist":        {[]string{"explain", ""}, ":4"},
		"after an unknown flag":                {[]string{"status", "--no=1", "-o", "t"}, "text :4"},
		"a file":                               {[]string{"status", "--kubeconfig", ""}, ":0"},
		"a context":                            {[]string{"status", "--context", ""}, "arn:aws:other shop :4"},
		"a namespace":                          {[]string{"status", "-n", "s"}, "shop :4"},
		"a namespace, flags in one word":       {[]string{"status", "-An", ""}, "default shop :4"},
		"an argument of a list":                {[]string{"completion", "z"}, "zsh :4"},
		"a kind":                               {[]string{"why", "m"}, "mcj mycronjobs :4"},
		"an object of the context":             {[]string{"why", "mcj", ""}, "tick tock :4"},
		"an object behind a slash":             {[]string{"why", "mycronjob/to"}, "mycronjob/tock :4"},
		"an object of another namespace":       {[]string{"why", "-n", "other", "MyCronJob", ""}, "far :4"},
		"an object of another context":         {[]string{"why", "--context=arn:aws:other", "mcj", ""}, "far :4"},
		"an object of all namespaces":          {[]string{"why", "-A", "mycronjobs.batch.wzj.kubebuilder.io", ""}, "far tick tock :4"},
		"an object of a command about all":     {[]string{"trace", "mcj", ""}, "far tick tock :4"},
		"an object of a kind of others":        {[]string{"why", "jobs", ""}, ":4"},
		"a second object":                      {[]string{"why", "mcj", "tick", ""}, ":4"},
		"a kind that the server does not have": {[]string{"why", "rdc", ""}, ":4"},
		"a kubeconfig that does not exist":     {[]string{"why", "--kubeconfig", "/no/such", "mcj", ""}, ":4"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if code := Complete(t.Context(), commands, test.words, &out); code != command.OK {
				t.Errorf("exit code %d", code)
			}
			var got []string
			for line := range strings.Lines(out.String()) {
				word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
				got = append(got, word)
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// An API server that does not answer completes nothing, and does not hang the shell.
func TestAnAPIServerThatDoesNotAnswer(t *testing.T) {
	t.Setenv("KUBECONFIG", kubeconfig(t))
	var out strings.Builder
	Complete(t.Context(), commands, []string{"why", "-n", "hangs", "mcj", ""}, &out)
	if out.String() != ":4\n" {
		t.Errorf("%q", out.String())
	}
}

func TestRun(t *testing.T) {
	for name, test := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"a shell":          {[]string{"fish"}, command.OK, "# Completion of glassback for fish", ""},
		"no shell":         {nil, command.Usage, "", "glassback: say which shell: glassback completion bash|zsh|fish\n"},
		"an unknown shell": {[]string{"../x"}, command.Usage, "", "glassback: say which shell"},
		"a flag":           {[]string{"bash", "-n"}, command.Usage, "", "glassback: unknown shorthand flag"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			code := Run(t.Context(), test.args, &stdout, &stderr)
			if code != test.code || !strings.HasPrefix(stdout.String(), test.stdout) || !strings.HasPrefix(stderr.String(), test.stderr) {
				t.Errorf("exit code %d, %q, %q", code, stdout.String(), stderr.String())
			}
		})
	}
}

// TestTheScripts has each shell that is installed complete a line with a program that answers as glassback does.
func TestTheScripts(t *testing.T) {
	const answer = `#!/bin/sh
for word; do printf '[%s]' "$word"; done >"$0.args"
case $* in
*--kubeconfig*) echo :0 ;;
*--context*) printf 'arn:aws:a\tabout\narn:aws:b\n:4\n' ;;
*--output=*) printf 'wide\n:4\n' ;;
*) printf 'status\tlists objects\nstop\n:4\n' ;;
esac
`
	dir := t.TempDir()
	program := filepath.Join(dir, "glassback")
	must.Succeed(t, os.WriteFile(program, []byte(answer), 0o700))
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "afile"), nil, 0o600))
	bash := `source scripts/glassback.bash; compopt() { echo "compopt $*"; }
		COMP_LINE=$1 COMP_POINT=${#1}; _glassback; printf '%s\n' "${COMPREPLY[@]}"`
	fish := `source scripts/glassback.fish; complete -C $argv[1] | string replace -r '\t.*' ''; true`
	for name, test := range map[string]struct {
		shell, script, line string
		want                string
		args                string // of the program
	}{
		"bash, a command":             {"bash", bash, "glassback st", "status stop", "[__complete][st]"},
		"bash, an empty word":         {"bash", bash, "glassback why ", "status stop", "[__complete][why][]"},
		"bash, a word with a colon":   {"bash", bash, "glassback why --context arn:aws:", "a b", "[__complete][why][--context][arn:aws:]"},
		"bash, a value":               {"bash", bash, "glassback why --output=w", "wide", "[__complete][why][--output=w]"},
		"bash, files":                 {"bash", bash, "glassback why --kubeconfig ", "compopt -o default", "[__complete][why][--kubeconfig][]"},
		"fish, a command":             {"fish", fish, "glassback st", "status stop", "[__complete][st]"},
		"fish, an empty word":         {"fish", fish, "glassback why ", "status stop", "[__complete][why][]"},
		"fish, a value":               {"fish", fish, "glassback why --output=w", "--output=wide", "[__complete][why][--output=w]"},
		"fish, files":                 {"fish", fish, "glassback why --kubeconfig " + dir + "/af", dir + "/afile", ""},
		"zsh can read its own script": {"zsh", "source scripts/glassback.zsh; print -l $_comps[glassback]", "", "_glassback", ""},
		"zsh, a command":              {"zsh", zsh, "glassback st", "status stop", "[__complete][st]"},
		"zsh, an empty word":          {"zsh", zsh, "glassback why ", "status stop", "[__complete][why][]"},
		"zsh, a value":                {"zsh", zsh, "glassback why --output=w", "wide", "[__complete][why][--output=w]"},
		"zsh, a word with a colon":    {"zsh", zsh, "glassback why --context ar", "arn:aws:a arn:aws:b", "[__complete][why][--context][ar]"},
	} {
		t.Run(name, func(t *testing.T) {
			shell, err := exec.LookPath(test.shell)
			if err != nil {
				t.Skipf("SKIPPED, needs %s: %v", test.shell, err)
			}
			arguments := []string{"-c", test.script, test.shell, test.line}
			if test.shell == "fish" {
				arguments = slices.Delete(arguments, 2, 3)
			}
			cmd := exec.CommandContext(t.Context(), shell, arguments...)
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "ZDOTDIR="+dir)
			out, err := cmd.CombinedOutput()
			if got := strings.Join(strings.Fields(string(out)), " "); err != nil || got != test.want {
				t.Errorf("%q, error %v, want %q", got, err, test.want)
			}
			args, err := os.ReadFile(program + ".args")
			if test.args != "" && (err != nil || string(args) != test.args) {
				t.Errorf("the program got %s, error %v, want %s", args, err, test.args)
			}
		})
	}
}

// zsh calls the function as the completion system does, and prints what the function adds.
const zsh = `autoload -Uz compinit; compinit -u; source scripts/glassback.zsh
	compset() { :; }
	_describe() { local -a all; all=("${(@P)2}"); for one in $all; do one=${one//\\:/_}; print -r -- ${${one%%:*}//_/:}; done; }
	words=("${(@s: :)1}"); CURRENT=$#words; _glassback`
