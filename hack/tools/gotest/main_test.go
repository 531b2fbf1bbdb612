// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	in := `{"Action":"output","Package":"a","Test":"TestX","Output":"=== RUN   TestX\n"}
{"Action":"output","Package":"a","Test":"TestX","Output":"--- PASS: TestX (0.00s)\n"}
{"Action":"pass","Package":"a","Test":"TestX"}
{"Action":"output","Package":"a","Test":"TestY/sub","Output":"    x_test.go:9: there is no real node: not root\n"}
{"Action":"output","Package":"a","Test":"TestY/sub","Output":"    --- SKIP: TestY/sub (0.00s)\n"}
{"Action":"skip","Package":"a","Test":"TestY/sub"}
{"Action":"pass","Package":"a","Test":"TestSlow/sub","Elapsed":31}
{"Action":"pass","Package":"a","Test":"TestSlow","Elapsed":31}
{"Action":"pass","Package":"a","Test":"TestSlower","Elapsed":61.7}
{"Action":"output","Package":"a","Output":"ok  \ta\t0.010s\n"}
{"Action":"pass","Package":"a","Elapsed":0.01}
{"Action":"output","Package":"b","Test":"TestZ","Output":"=== RUN   TestZ\n"}
{"Action":"output","Package":"b","Test":"TestZ","Output":"    z_test.go:3: got 1, want 2\n"}
{"Action":"output","Package":"b","Test":"TestZ","Output":"--- FAIL: TestZ (0.00s)\n"}
{"Action":"fail","Package":"b","Test":"TestZ"}
{"Action":"output","Package":"b","Output":"FAIL\tb\t0.010s\n"}
{"Action":"fail","Package":"b","Elapsed":0.01}
{"ImportPath":"d","Action":"build-output","Output":"d.go:1:1: syntax error\n"}
not an event
`
	want := "ok  \ta\t0.010s\n    62s TestSlower\n    31s TestSlow\n" +
		"--- FAIL: TestZ (0.00s)\n    z_test.go:3: got 1, want 2\nFAIL\tb\t0.010s\n" +
		"d.go:1:1: syntax error\nnot an event\n"
	for _, verbose := range []bool{false, true} {
		var out bytes.Buffer
		skipped, err := report(strings.NewReader(in), &out, verbose)
		if err != nil || out.String() != want {
			t.Errorf("error %v, printed\n%s\nwant\n%s", err, out.String(), want)
		}
		if !slices.Equal(skipped, []string{"TestY/sub in a: there is no real node: not root"}) {
			t.Errorf("skipped %q", skipped)
		}
		want = "--- PASS: TestX (0.00s)\n" + want
	}
}

func TestKeep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "artifacts")
	there := func(path ...string) bool {
		_, err := os.Lstat(filepath.Join(append([]string{dir}, path...)...))
		return err == nil
	}
	code, err := keep(dir, func(flags []string) (int, error) {
		if want := []string{"-artifacts", "-outputdir=" + dir}; !slices.Equal(flags, want) {
			t.Errorf("flags %q, want %q", flags, want)
		}
		return 7, errors.Join(os.Mkdir(filepath.Join(dir, "kept"), 0o700),
			os.WriteFile(filepath.Join(dir, "kept", "file"), nil, 0o600), os.Mkdir(filepath.Join(dir, "empty"), 0o700))
	})
	if code != 7 || err != nil || !there("kept", "file") || there("empty") {
		t.Errorf("code %d, %v; a file is there: %t, and an empty directory: %t", code, err, there("kept", "file"), there("empty"))
	}
	if _, err := keep(dir, func([]string) (int, error) { return 0, os.Mkdir(filepath.Join(dir, "empty"), 0o700) }); err != nil || there() {
		t.Errorf("%v; a directory with nothing in it, or with the files of an earlier run, is there", err)
	}
	if _, err := keep("", func(flags []string) (int, error) { return len(flags), nil }); err != nil {
		t.Error(err)
	}
}
