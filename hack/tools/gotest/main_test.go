// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	in := `{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"TestX"}
{"Action":"output","Package":"a","Test":"TestX","Output":"=== RUN   TestX\n"}
{"Action":"output","Package":"a","Test":"TestX","Output":"    x_test.go:7: hello\n"}
{"Action":"output","Package":"a","Test":"TestX","Output":"--- PASS: TestX (0.00s)\n"}
{"Action":"pass","Package":"a","Test":"TestX"}
{"Action":"output","Package":"a","Test":"TestY/sub","Output":"=== RUN   TestY/sub\n"}
{"Action":"output","Package":"a","Test":"TestY/sub","Output":"    x_test.go:9: there is no real node: not root\n"}
{"Action":"output","Package":"a","Test":"TestY/sub","Output":"    --- SKIP: TestY/sub (0.00s)\n"}
{"Action":"skip","Package":"a","Test":"TestY/sub"}
{"Action":"pass","Package":"a","Test":"TestSlow/sub","Elapsed":31}
{"Action":"pass","Package":"a","Test":"TestSlow","Elapsed":31}
{"Action":"pass","Package":"a","Test":"TestSlower","Elapsed":61.7}
{"Action":"output","Package":"a","Output":"PASS\n"}
{"Action":"output","Package":"a","Output":"ok  \ta\t0.010s\n"}
{"Action":"pass","Package":"a","Elapsed":0.01}
{"Action":"output","Package":"b","Test":"TestZ","Output":"=== RUN   TestZ\n"}
{"Action":"output","Package":"b","Test":"TestZ","Output":"    z_test.go:3: got 1, want 2\n"}
{"Action":"output","Package":"b","Test":"TestZ","Output":"--- FAIL: TestZ (0.00s)\n"}
{"Action":"fail","Package":"b","Test":"TestZ"}
{"Action":"output","Package":"b","Output":"FAIL\n"}
{"Action":"output","Package":"b","Output":"FAIL\tb\t0.010s\n"}
{"Action":"fail","Package":"b","Elapsed":0.01}
{"Action":"output","Package":"c","Output":"?   \tc\t[no test files]\n"}
{"Action":"skip","Package":"c"}
{"ImportPath":"d","Action":"build-output","Output":"d.go:1:1: syntax error\n"}
{"ImportPath":"d","Action":"build-fail"}
not an event
`
	want := `ok  	a	0.010s
    62s TestSlower
    31s TestSlow
--- FAIL: TestZ (0.00s)
    z_test.go:3: got 1, want 2
FAIL
FAIL	b	0.010s
?   	c	[no test files]
d.go:1:1: syntax error
not an event
`
	var out bytes.Buffer
	skipped, err := report(strings.NewReader(in), &out)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
	if !slices.Equal(skipped, []string{"TestY/sub in a: there is no real node: not root"}) {
		t.Errorf("skipped %q", skipped)
	}
}

func TestKeep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "artifacts")
	old, kept, empty := filepath.Join(dir, "old"), filepath.Join(dir, "a", "b", "kept"), filepath.Join(dir, "a", "empty")
	write := func(file string) {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	there := func(path string) bool {
		_, err := os.Lstat(path)
		return err == nil
	}
	write(old)
	code, err := keep(dir, func(flags []string) (int, error) {
		if want := []string{"-artifacts", "-outputdir=" + dir}; !slices.Equal(flags, want) || there(old) || !there(dir) {
			t.Errorf("flags %q, want %q and an empty directory", flags, want)
		}
		write(kept)
		return 7, os.Mkdir(empty, 0o700)
	})
	if code != 7 || err != nil || !there(kept) || there(empty) {
		t.Errorf("code %d, %v; a file is there: %t, and an empty directory: %t", code, err, there(kept), there(empty))
	}
	if _, err := keep(dir, func([]string) (int, error) { return 0, os.MkdirAll(empty, 0o700) }); err != nil || there(dir) {
		t.Errorf("%v; a directory with nothing in it is there: %t", err, there(dir))
	}
	if _, err := keep("", func(flags []string) (int, error) { return len(flags), nil }); err != nil {
		t.Error(err)
	}
}
