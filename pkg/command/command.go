// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command holds what the command lines of glassback have in common: flags, exit codes, errors in one line, and output.
package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// The exit codes.
const (
	OK     = 0
	Failed = 1 // the command could not do its work, or found a failure
	Usage  = 2 // the command line is wrong
)

// Fail prints err in one line and returns Failed.
func Fail(stderr io.Writer, err error) int {
	fmt.Fprintln(stderr, "glassback:", strings.Join(strings.Fields(err.Error()), " "))
	return Failed
}

// Reject returns the exit code for an error of Parse. It prints err, unless the user asked for help.
func Reject(stderr io.Writer, err error) int {
	if errors.Is(err, pflag.ErrHelp) {
		return OK
	}
	Fail(stderr, err)
	return Usage
}

// Flags returns an empty set of flags for a command.
func Flags(name string) *pflag.FlagSet {
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	flags.SortFlags = false
	flags.Usage = func() {}
	return flags
}

// valuesKey is the annotation of a flag that holds its possible values.
const valuesKey = "glassback.dev/values"

// SetValues sets the possible values of a flag. Shells complete them. Parse rejects any other value of a string flag.
func SetValues(flags *pflag.FlagSet, name string, values ...string) {
	if err := flags.SetAnnotation(name, valuesKey, values); err != nil {
		panic(err) // There is no such flag.
	}
}

// Values returns the possible values of a flag, or nil if any value is possible.
func Values(flag *pflag.Flag) []string { return flag.Annotations[valuesKey] }

// AddOutput adds the flag -o, which selects the form of the output. The first form is the default.
func AddOutput(flags *pflag.FlagSet, output *string, forms ...string) {
	flags.StringVarP(output, "output", "o", forms[0], "form of the output: "+strings.Join(forms, ", "))
	SetValues(flags, "output", forms...)
}

// Parse reads the command line args. If args ask for help, it prints usage and the flags, and returns pflag.ErrHelp. It returns an error
// for --namespace without a value, which a script with an unset variable passes by mistake, and for a value that SetValues does not allow.
func Parse(flags *pflag.FlagSet, args []string, usage string, stdout io.Writer) error {
	err := flags.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		fmt.Fprint(stdout, usage, flags.FlagUsages())
	}
	if flag := flags.Lookup("namespace"); err == nil && flag != nil && flag.Changed && strings.Trim(flag.Value.String(), "[]") == "" {
		return errors.New("--namespace must not be empty: leave it out")
	}
	flags.Visit(func(flag *pflag.Flag) {
		values, value := Values(flag), flag.Value.String()
		if err == nil && len(values) > 0 && flag.Value.Type() == "string" && !slices.Contains(values, value) {
			err = fmt.Errorf("--%s must be one of %s, not %q", flag.Name, strings.Join(values, ", "), value)
		}
	})
	return err
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
