/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/command"
)

// TestTheReadmeShowsTheFlagsAsTheyAre compares the text below "Flags:" of
// glassback --help with README.md.
func TestTheReadmeShowsTheFlagsAsTheyAre(t *testing.T) {
	var out, errors bytes.Buffer
	if code := Run(t.Context(), []string{"--help"}, &out, &errors); code != command.OK || errors.Len() > 0 {
		t.Fatalf("glassback --help: exit code %d, %s", code, errors.String())
	}
	_, flags, found := strings.Cut(out.String(), "Flags:\n")
	if !found {
		t.Fatalf("glassback --help has no flags:\n%s", out.String())
	}
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "```\n" + flags + "```\n"; !strings.Contains(string(readme), want) {
		t.Errorf("README.md has other flags than glassback --help; it should read\n%s", want)
	}
}
