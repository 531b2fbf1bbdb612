/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	alert    = regexp.MustCompile(`(?m)^\s*- alert: (\w+)$`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	quoted   = regexp.MustCompile("(?ms)^```.*?^```$")
	section  = regexp.MustCompile(`\]\(([^):]*)#([^)]+)\)`)
	symbol   = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	constant = regexp.MustCompile(`\breason\w+\s*=\s*"(\w+)"`)
	suffix   = regexp.MustCompile(`(?:k\.Name|[kK]ind) \+ "(\w+)"`)
)

// passing are the reasons that need no action, and whose names say so.
var passing = []string{
	"Greeted", "Settled", "RolledOut", "RolloutInProgress", "ScalingInProgress", "WaitingForDeployment",
	"NewReplicaSetAvailable", "NoConflict",
	"Scheduled", "Formed", "AllSlotsCovered", "NoDataLoss", "Adopting", "Creating", "Starting", "Stopping", "Changing", "Deleting",
}

// TestTheRunbookHasEveryAlert finds a section for each, to which runbook_url can lead.
func TestTheRunbookHasEveryAlert(t *testing.T) {
	runbook := text(t, "docs", "runbook.md")
	var want, got []string
	for _, found := range alert.FindAllStringSubmatch(text(t, "artifacts", "prometheus", "rules.yaml"), -1) {
		want = append(want, found[1])
	}
	for _, found := range heading.FindAllStringSubmatch(runbook, -1) {
		if strings.HasPrefix(found[1], "Glassback") {
			got = append(got, found[1])
		}
	}
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("docs/runbook.md has sections for\n%v\nthe alerts are\n%v", got, want)
	}
}

// TestTheRunbookHasEveryReason finds every reason of a condition in the runbook, unless it needs no action.
func TestTheRunbookHasEveryReason(t *testing.T) {
	runbook := text(t, "docs", "runbook.md")
	reasons := map[string]bool{}
	for _, pattern := range []string{"controller/*/*.go", "child/*.go"} {
		files, err := filepath.Glob(filepath.Join(root, "pkg", filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files %s: %v", pattern, err)
		}
		for _, file := range files {
			code, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, found := range constant.FindAllStringSubmatch(string(code), -1) {
				reasons["`"+found[1]+"`"] = !slices.Contains(passing, found[1])
			}
			for _, found := range suffix.FindAllStringSubmatch(string(code), -1) {
				reasons["`…"+found[1]+"`"] = true
			}
		}
	}
	for reason, wanted := range reasons {
		if wanted && !strings.Contains(runbook, reason) {
			t.Errorf("docs/runbook.md does not say what to do about %s", reason)
		}
	}
	for _, reason := range passing {
		if _, known := reasons["`"+reason+"`"]; !known {
			t.Errorf("no condition has the reason %s", reason)
		}
	}
}

// TestLinkedSectionsAreThere follows the links to a section of a document.
func TestLinkedSectionsAreThere(t *testing.T) {
	for _, d := range documents(t) {
		for _, link := range section.FindAllStringSubmatch(quoted.ReplaceAllString(text(t, d.name), ""), -1) {
			file := d.name
			if link[1] != "" {
				file = filepath.Join(filepath.Dir(d.name), link[1])
			}
			if !slices.Contains(anchors(text(t, file)), link[2]) {
				t.Errorf("%s links to %s#%s, and there is no such section", d.name, link[1], link[2])
			}
		}
	}
}

// anchors are the headings of a document, as GitHub calls them in links.
func anchors(document string) []string {
	var all []string
	for _, found := range heading.FindAllStringSubmatch(quoted.ReplaceAllString(document, ""), -1) {
		name := symbol.ReplaceAllString(strings.ToLower(found[1]), "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}

// text is what is in a file of the repository.
func text(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
