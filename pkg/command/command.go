// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command holds what the command lines of glassback have in common: exit codes, errors in one line, flags, and output.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// The exit codes.
const (
	OK     = 0
	Failed = 1 // the command could not do its work, or found a failure
	Usage  = 2 // the command line is wrong
)

// Exit is an error with the exit code of the process. Its cause is printed, if there is one.
type Exit struct {
	Code  int
	Cause error
}

// Error returns the text of the cause.
func (e Exit) Error() string { return fmt.Sprint(e.Cause) }

// Run returns a function for RunE of a command. An error that has no exit code gets Failed.
func Run(run func(ctx context.Context, stdout, stderr io.Writer) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		err := run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		if _, has := errors.AsType[Exit](err); err != nil && !has {
			err = Exit{Failed, err}
		}
		return err
	}
}

// UsageFails is the annotation of a command that has the code Usage for a result. A wrong command line has the code Failed there.
const UsageFails = "glassback.dev/usage-fails"

// Execute runs a command line, and returns the exit code of the process. It prints an error in one line. An error without an exit code
// says what is wrong with the command line.
func Execute(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.PersistentPreRunE = checkNamespaceFlag
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return fmt.Errorf("%w: see %s --help", err, c.CommandPath()) })
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetArgs(append([]string{}, args...)) // With nil, cobra would read os.Args.
	c, err := root.ExecuteContextC(ctx)
	if err == nil {
		return OK
	}
	exit, has := errors.AsType[Exit](err)
	if !has {
		exit = Exit{Usage, err}
		if c.Annotations[UsageFails] != "" {
			exit.Code = Failed
		}
	}
	if exit.Cause != nil {
		fmt.Fprintln(stderr, "glassback:", strings.Join(strings.Fields(exit.Cause.Error()), " "))
	}
	return exit.Code
}

// checkNamespaceFlag returns an error for --namespace without a value, which a script with an unset variable passes by mistake.
func checkNamespaceFlag(c *cobra.Command, _ []string) error {
	flag := c.Flags().Lookup("namespace")
	if flag != nil && flag.Changed && strings.Trim(flag.Value.String(), "[]") == "" {
		return errors.New("--namespace must not be empty: leave it out")
	}
	return nil
}

// NoArgs is for Args of a command that has only flags.
func NoArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q: there are only flags, see --help", args[0])
	}
	return nil
}

// CompleteValues has shells complete the value of a flag with one of values.
func CompleteValues(c *cobra.Command, flag string, values ...string) {
	Complete(c, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// Complete has shells complete the value of a flag with what a function returns.
func Complete(c *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // There is no such flag, or it is completed already.
	}
}

// CompleteFiles has shells complete the names of files.
var CompleteFiles = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)

// AddOutput adds the flag -o, which selects the form of the output. The first form is the default.
func AddOutput(c *cobra.Command, output *string, forms ...string) {
	*output = forms[0]
	c.Flags().VarP(choice{output, forms}, "output", "o", "form of the output: "+strings.Join(forms, ", "))
	CompleteValues(c, "output", forms...)
}

// choice is the value of a flag that has one of several values.
type choice struct {
	value *string
	all   []string
}

// String returns the value.
func (c choice) String() string { return *c.value }

// Type returns the type that the usage shows.
func (c choice) Type() string { return "string" }

// Set sets the value.
func (c choice) Set(value string) error {
	if !slices.Contains(c.all, value) {
		return errors.New("must be one of " + strings.Join(c.all, ", "))
	}
	*c.value = value
	return nil
}

// The forms of output: text, text with more columns, and two for programs.
const (
	Text = "text"
	Wide = "wide"
	JSON = "json"
	YAML = "yaml"
)

// Print prints a document for programs, as JSON or YAML.
func Print(stdout io.Writer, form string, document any) error {
	if form == YAML {
		text, err := yaml.Marshal(document)
		if err == nil {
			_, err = stdout.Write(text)
		}
		return err
	}
	encoder := json.NewEncoder(stdout)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}

// Colour reports whether out is a terminal whose user wants colours: https://no-color.org
func Colour(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Printable returns text in one line, without control characters: text of others cannot change a terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}
