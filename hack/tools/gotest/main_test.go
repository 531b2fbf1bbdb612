/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package main

import (
	"bytes"
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
