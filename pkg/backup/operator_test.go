// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"os"
	"strings"
	"testing"
)

// TestTheCommandLinesOfTheOperator parses the arguments that the operator gives its Jobs: a test of the controller writes them.
func TestTheCommandLinesOfTheOperator(t *testing.T) {
	lines, err := os.ReadFile("../controller/rediscluster/testdata/jobs.txt")
	if err != nil {
		t.Fatal(err)
	}
	parsed := map[string]int{}
	for line := range strings.Lines(string(lines)) {
		words := strings.Fields(line)
		if words[0] == "#" {
			continue
		}
		parsed[words[0]]++
		o, err := parse(words[0], "", words[1:], &strings.Builder{})
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if len(o.addresses) < 2 || o.id == "" || (o.directory == "") == (o.endpoint == "") {
			t.Errorf("%s: %+v", line, o)
		}
	}
	if parsed["backup"] < 5 || parsed["restore"] < 2 {
		t.Errorf("the file has these command lines: %v", parsed)
	}
}
