// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package completion completes command lines of glassback in a shell: for the program itself, and for the plugin of kubectl.
//
// A shell runs "glassback __complete" with the words up to the cursor. The last word may be empty. kubectl runs
// kubectl_complete-glassback with the same words. Both expect the output of cobra: a word in each line, its description after a tab, and a
// directive in the last line. Completion prints no errors, because they would be in the middle of a command line.
package completion

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/glassback/glassback/pkg/command"
)

const usage = `Completion prints the script by which a shell completes command lines of glassback.

Usage:
  glassback completion bash|zsh|fish

For bash:  source <(glassback completion bash)
For zsh:   source <(glassback completion zsh)
For fish:  glassback completion fish | source

For kubectl glassback, kubectl needs this program under the name kubectl_complete-glassback in a directory of PATH.
`

// Shells are the shells that have a script.
var Shells = []string{"bash", "zsh", "fish"}

//go:embed scripts
var scripts embed.FS

// Run prints the script for a shell, and returns the exit code of the process.
func Run(_ context.Context, args []string, stdout, stderr io.Writer) int {
	flags := command.Flags("glassback completion")
	err := command.Parse(flags, args, usage, stdout)
	if err == nil && (flags.NArg() != 1 || !slices.Contains(Shells, flags.Arg(0))) {
		err = errors.New("say which shell: glassback completion " + strings.Join(Shells, "|"))
	}
	if err != nil {
		return command.Reject(stderr, err)
	}
	script, err := scripts.ReadFile("scripts/glassback." + flags.Arg(0))
	if err == nil {
		_, err = stdout.Write(script)
	}
	if err != nil {
		return command.Fail(stderr, err)
	}
	return command.OK
}

// Request is the command by which a script asks for words.
const Request = "__complete"

// Command says which words can follow the name of a command.
type Command struct {
	Flags      func() *pflag.FlagSet // nil: none
	Args       []string              // the possible values of the only argument
	Objects    bool                  // the arguments are KIND NAME, or KIND/NAME
	Everywhere bool                  // without a namespace, the command is about all namespaces
}

// The directives, as in cobra: whether the shell offers the names of files if there are no words.
const (
	offerFiles = 0
	noFiles    = 4
)

// Complete prints the words that can stand in place of the last one of words, and returns the exit code of the process. The command with an
// empty name has the flags that a command line without a command can have.
func Complete(ctx context.Context, commands map[string]Command, words []string, stdout io.Writer) int {
	if len(words) == 0 {
		words = []string{""}
	}
	offered, directive := complete(ctx, commands, words[:len(words)-1], words[len(words)-1])
	for _, word := range offered {
		fmt.Fprintln(stdout, word)
	}
	fmt.Fprintf(stdout, ":%d\n", directive)
	return command.OK
}

// complete returns the words that can follow those before, and that begin with last.
func complete(ctx context.Context, commands map[string]Command, before []string, last string) (offered []string, directive int) {
	if len(before) == 0 && !strings.HasPrefix(last, "-") {
		return matching(last, slices.Sorted(maps.Keys(commands))), noFiles
	}
	name := ""
	if len(before) > 0 && !strings.HasPrefix(before[0], "-") {
		name, before = before[0], before[1:]
	}
	c, known := commands[name]
	if !known {
		return nil, noFiles
	}
	l := &line{Command: c, flags: command.Flags(name)}
	if c.Flags != nil {
		l.flags = c.Flags()
	}
	l.flags.ParseErrorsAllowlist.UnknownFlags = true
	err := l.flags.Parse(before)
	if unfinished, is := errors.AsType[*pflag.ValueRequiredError](err); is {
		return l.values(ctx, unfinished.GetFlag(), last)
	}
	if err != nil {
		return nil, noFiles
	}
	if strings.HasPrefix(last, "-") {
		return l.flag(ctx, last)
	}
	return matching(last, l.args(ctx, last)), noFiles
}

// harmless matches words that no shell interprets. Names of contexts and objects are the text of others, and a shell puts them into the
// command line as they are.
var harmless = regexp.MustCompile(`^[\w.:/@=+,%-]+$`)

// matching returns the harmless words of all that begin with a prefix.
func matching(prefix string, all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(word string) bool {
		return !strings.HasPrefix(word, prefix) || !harmless.MatchString(word)
	})
}

// line is a command line up to the word that is completed.
type line struct {
	Command

	flags *pflag.FlagSet // they have the values of the line
}

// value returns the value of a flag, or "" if the command does not have the flag.
func (l *line) value(name string) string {
	if flag := l.flags.Lookup(name); flag != nil {
		return flag.Value.String()
	}
	return ""
}

// flag completes the name of a flag, or the value in --NAME=VALUE. As with cobra, the words are then the values alone.
func (l *line) flag(ctx context.Context, last string) (offered []string, directive int) {
	name, value, both := strings.Cut(last, "=")
	if flag := l.flags.Lookup(strings.TrimPrefix(name, "--")); both {
		if flag == nil {
			return nil, noFiles
		}
		return l.values(ctx, flag, value)
	}
	l.flags.VisitAll(func(flag *pflag.Flag) {
		if name := "--" + flag.Name; !flag.Hidden && strings.HasPrefix(name, last) {
			about, _, _ := strings.Cut(flag.Usage, ";")
			offered = append(offered, name+"\t"+about)
		}
	})
	return offered, noFiles
}

// values completes the value of a flag.
func (l *line) values(ctx context.Context, flag *pflag.Flag, prefix string) (offered []string, directive int) {
	var all []string
	switch flag.Name {
	case "kubeconfig", "webhook-cert-path":
		return nil, offerFiles
	case "context":
		all = l.contexts()
	case "namespace", "operator-namespace", "leader-elect-resource-namespace":
		all = l.namespaces(ctx)
	default:
		all = command.Values(flag)
	}
	return matching(prefix, all), noFiles
}

// args returns the possible values of an argument.
func (l *line) args(ctx context.Context, last string) []string {
	switch {
	case !l.Objects && l.flags.NArg() == 0:
		return l.Args
	case !l.Objects || l.flags.NArg() > 1 || strings.Contains(l.flags.Arg(0), "/"):
		return nil
	case l.flags.NArg() == 1:
		return l.objects(ctx, l.flags.Arg(0))
	}
	kind, _, both := strings.Cut(last, "/")
	if !both {
		return kinds()
	}
	names := l.objects(ctx, kind)
	for i := range names {
		names[i] = kind + "/" + names[i]
	}
	return names
}

// kubeconfig returns the value of --kubeconfig. The shell has not replaced a ~ yet.
func (l *line) kubeconfig() string {
	file := l.value("kubeconfig")
	rest, tilde := strings.CutPrefix(file, "~/")
	home, err := os.UserHomeDir()
	if !tilde || err != nil {
		return file
	}
	return filepath.Join(home, rest)
}
