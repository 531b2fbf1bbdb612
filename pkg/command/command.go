/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package command holds what the command lines of glassback have in common: flags, exit codes, errors in one line, and output.
package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/spf13/pflag"
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

// Parse reads the command line args. If args ask for help, it prints usage and the flags, and returns pflag.ErrHelp. It returns an error
// for --namespace without a value, which a script with an unset variable passes by mistake.
func Parse(flags *pflag.FlagSet, args []string, usage string, stdout io.Writer) error {
	err := flags.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		fmt.Fprint(stdout, usage, flags.FlagUsages())
	}
	if flag := flags.Lookup("namespace"); err == nil && flag != nil && flag.Changed && strings.Trim(flag.Value.String(), "[]") == "" {
		return errors.New("--namespace must not be empty: leave it out")
	}
	return err
}

// PrintJSON prints a document for programs.
func PrintJSON(stdout io.Writer, document any) error {
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
