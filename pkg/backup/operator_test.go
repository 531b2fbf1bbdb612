// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/command"
)

// TestTheCommandLinesOfTheOperator parses the arguments that the operator gives its Jobs: a test of the controller writes them.
func TestTheCommandLinesOfTheOperator(t *testing.T) {
	lines, err := os.ReadFile("../controller/rediscluster/testdata/jobs.txt")
	if err != nil {
		t.Fatal(err)
	}
	parsed, ends := map[string]int{}, false
	for line := range strings.Lines(string(lines)) {
		words := strings.Fields(line)
		if words[0] == "#" {
			ends = ends || strings.TrimSpace(line) == fmt.Sprintf("# exit codes: %d is wrong usage, and %d ends a Job", command.Usage, refused)
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
	if parsed["backup"] < 5 || parsed["restore"] < 2 || !ends {
		t.Errorf("the file has these command lines: %v, and the exit codes: %t", parsed, ends)
	}
}
