// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// noAction lists the reasons that need no action.
var noAction = []string{
	"Succeeded", "Greeted", "Settled", "RolledOut", "RolloutInProgress", "ScalingInProgress", "WaitingForDeployment",
	"NewReplicaSetAvailable", "NoConflict",
	"Scheduled", "Formed", "AllSlotsCovered", "NoDataLoss", "Adopting", "Creating", "Starting", "Stopping", "Changing", "Deleting",
}

// TestTheRunbookHasEveryAlert looks for a section for each alert: runbook_url leads to it.
func TestTheRunbookHasEveryAlert(t *testing.T) {
	alert := regexp.MustCompile(`(?m)^\s*- alert: (\w+)$`)
	var want, got []string
	for _, found := range alert.FindAllStringSubmatch(readFile(t, "../artifacts/prometheus/rules.yaml"), -1) {
		want = append(want, found[1])
	}
	for _, found := range heading.FindAllStringSubmatch(readFile(t, "runbook.md"), -1) {
		if strings.HasPrefix(found[1], "Glassback") {
			got = append(got, found[1])
		}
	}
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("docs/runbook.md has sections for\n%v\nthe alerts are\n%v", got, want)
	}
}

// TestEveryAlertLinksToItsSection looks for the runbook_url of each alert, and for the heading in the file that it leads to.
func TestEveryAlertLinksToItsSection(t *testing.T) {
	const repository = "https://github.com/glassback/glassback/blob/main/"
	url := regexp.MustCompile(`(?m)^ +runbook_url: (\S+)#(\S+)$`)
	_, rules, _ := strings.Cut(readFile(t, "../artifacts/prometheus/rules.yaml"), "- alert: ")
	for rule := range strings.SplitSeq(rules, "- alert: ") {
		name, _, _ := strings.Cut(rule, "\n")
		found := url.FindAllStringSubmatch(rule, -1)
		if len(found) != 1 {
			t.Errorf("%s has %d annotations runbook_url, want one", name, len(found))
			continue
		}
		file, inRepository := strings.CutPrefix(found[0][1], repository)
		if section := found[0][2]; !inRepository || file != "docs/runbook.md" || section != strings.ToLower(name) ||
			!slices.Contains(anchors(readFile(t, "../"+file)), section) {
			t.Errorf("%s links to %s#%s, which is not its section", name, found[0][1], section)
		}
	}
}

// TestTheRunbookHasEveryReason looks for every reason of a condition, unless it needs no action.
func TestTheRunbookHasEveryReason(t *testing.T) {
	reason := regexp.MustCompile(`\breason\w+\s*=\s*"(\w+)"`)
	childReason := regexp.MustCompile(`(?:k\.Name|[kK]ind) \+ "(\w+)"`) // begins with the kind of the child
	runbook := readFile(t, "runbook.md")
	reasons := map[string]bool{} // with the quotes of Markdown; true: it needs an action
	for _, pattern := range []string{"../pkg/controller/*/*.go", "../pkg/child/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no files %s: %v", pattern, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			code := readFile(t, file)
			for _, found := range reason.FindAllStringSubmatch(code, -1) {
				reasons["`"+found[1]+"`"] = !slices.Contains(noAction, found[1])
			}
			for _, found := range childReason.FindAllStringSubmatch(code, -1) {
				reasons["`…"+found[1]+"`"] = true
			}
		}
	}
	for reason, action := range reasons {
		if action && !strings.Contains(runbook, reason) {
			t.Errorf("docs/runbook.md has no action for %s", reason)
		}
	}
	for _, reason := range noAction {
		if _, known := reasons["`"+reason+"`"]; !known {
			t.Errorf("no condition has the reason %s", reason)
		}
	}
}
