// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/recording/recordtest"
)

// corpus is a recording of tests.
const corpus = "../../pkg/replay/testdata/glassback-ecsinstance.jsonl.gz"

// edited returns a copy of the corpus with another text.
func edited(t *testing.T, edit func(text []byte) []byte) string {
	t.Helper()
	var b bytes.Buffer
	packer := gzip.NewWriter(&b)
	if _, err := packer.Write(edit(recordtest.Text(t, corpus))); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, packer.Close())
	path := filepath.Join(t.TempDir(), "edited.jsonl.gz")
	must.Succeed(t, os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

func TestOnlyEqualPlansSucceed(t *testing.T) {
	for sentence, test := range map[string]struct {
		edit func(text []byte) []byte
		want string // in the error; "" for none
	}{
		"equal plans": {func(text []byte) []byte { return text }, ""},
		"another policy decided": {func(text []byte) []byte {
			return bytes.Replace(text, []byte(`"policy":"createInstance"`), []byte(`"policy":"changeType"`), 1)
		}, "1 of "},
		"another program recorded": {func(text []byte) []byte {
			return bytes.Replace(text, []byte(`"kind":"ECSInstance"`), []byte(`"kind":"Other"`), 1)
		}, "1 of "},
		"nothing is recorded": {func(text []byte) []byte { return text[:bytes.IndexByte(text, '\n')+1] }, "0 of 0 "},
		"a part is missing":   {func(text []byte) []byte { return text[:len(text)-10] }, "truncated"},
	} {
		t.Run(sentence, func(t *testing.T) {
			is := &suite{controller: "ecsinstance", counts: map[string]int{}}
			err := is.replay(t.Context(), edited(t, test.edit))
			if test.want == "" {
				if err != nil || is.syncs == 0 || is.counts["createInstance"] == 0 {
					t.Errorf("error %v, %s", err, is)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || is.syncs > 0 {
				t.Errorf("error %v, want one with %q; %s", err, test.want, is)
			}
		})
	}
}

// TestEachRandomTestExists compiles nothing: it looks for the tests in the source.
func TestEachRandomTestExists(t *testing.T) {
	for controller, name := range random {
		files, err := filepath.Glob(filepath.Join("../../pkg/controller", controller, "*_test.go"))
		must.Succeed(t, err)
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			must.Succeed(t, err)
			found = found || bytes.Contains(text, []byte("\nfunc "+name+"(t *testing.T) {"))
		}
		if !found {
			t.Errorf("the package %s has no %s", controller, name)
		}
	}
}
