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

var (
	// conditionRow is a row of a table of conditions: types, status, reasons.
	conditionRow = regexp.MustCompile(`(?m)^\| ([A-Z]\w+(?:, [A-Z]\w+)*) \| (True|False) \| ([^|]*) \|`)
	// conditionType is the definition of a type of conditions.
	conditionType = regexp.MustCompile(`\bCondition\w+\s*=\s*"(\w+)"`)
	// reasonConstant is the definition of a reason: the name of the constant, and its value.
	reasonConstant = regexp.MustCompile(`\b([rR]eason\w+)\s*=\s*"(\w+)"`)
	// childReason is a reason that begins with the kind of a child, such as DeploymentRejected. The group is its end.
	childReason = regexp.MustCompile(`(?:k\.Name|[kK]ind) \+ "(\w+)"`)
	// setCondition is a call that sets a condition: its type, status, and the name of its reason.
	setCondition = regexp.MustCompile(`\.(?:Set|Keep)\((?:\w+\.)?Condition(\w+), (true|false), (?:\w+\.)?([rR]eason\w+),`)
	quotedReason = regexp.MustCompile("`(…?\\w+)`")
)

// otherReasons are reasons that are no constants of a controller: those of Deployments, and the power states of instances.
var otherReasons = map[string][]string{
	"application": {
		"MinimumReplicasAvailable", "MinimumReplicasUnavailable", "ReplicaSetUpdated", "ProgressDeadlineExceeded", "FailedCreate",
	},
	"ecsinstance": {"Running", "Stopped"},
}

// TestTheTablesOfConditionsHaveEveryReason compares the tables of conditions with the controllers: types, reasons, and every
// condition that is set with a constant reason.
func TestTheTablesOfConditionsHaveEveryReason(t *testing.T) {
	common := definitions(t, reasonConstant, "../pkg/report/*.go", "../pkg/child/*.go")
	for kind, group := range map[string]string{
		"apiexamplea": "groupa/v1", "application": "app/v1", "mycronjob": "batch/v1", "rediscluster": "redis/v1",
		"ecsinstance": "alibabacloud/v1alpha1",
	} {
		t.Run(kind, func(t *testing.T) {
			controller := "../pkg/controller/" + kind + "/*.go"
			rows := conditionRows(t, kind+".md")
			for _, found := range definitions(t, conditionType, "../pkg/apis/glassback/*.go", "../pkg/apis/"+group+"/*.go") {
				for _, status := range []string{"True", "False"} {
					// An ApiExampleA is never Progressing: its sync takes a moment.
					if !rows.has(found[1], status, "") && (kind != "apiexamplea" || found[1]+status != "ProgressingTrue") {
						t.Errorf("no row for %s %s", found[1], status)
					}
				}
			}
			constants := map[string]string{}
			known := slices.Clone(otherReasons[kind])
			for _, found := range append(definitions(t, reasonConstant, controller), common...) {
				constants[found[1]] = found[2]
				known = append(known, found[2])
			}
			want := slices.DeleteFunc(slices.Clone(known), func(reason string) bool { return reason == "Conflict" })
			if len(definitions(t, regexp.MustCompile(`\bchild\.New\(`), controller)) > 0 {
				want = append(want, "Conflict")
				for _, found := range definitions(t, childReason, "../pkg/child/*.go") {
					want = append(want, "…"+found[1])
				}
			}
			for _, reason := range want {
				if !rows.has("", "", reason) {
					t.Errorf("no row for the reason %s", reason)
				}
			}
			for _, row := range rows {
				for _, reason := range row.reasons {
					if !slices.ContainsFunc(append(known, want...), func(one string) bool { return same(one, reason) }) {
						t.Errorf("a row for %s has the reason %s, which the code does not set", row.types, reason)
					}
				}
			}
			for _, found := range definitions(t, setCondition, controller) {
				status, reason := map[string]string{"true": "True", "false": "False"}[found[2]], constants[found[3]]
				if !rows.has(found[1], status, reason) {
					t.Errorf("no row for %s %s with the reason %s", found[1], status, reason)
				}
			}
		})
	}
}

// condition is a row of a table of conditions.
type condition struct {
	types, reasons []string
	status         string
	refers         bool // to the reasons of another condition
}

type conditions []condition

// conditionRows returns the rows of the section Conditions of a document.
func conditionRows(t *testing.T, name string) conditions {
	t.Helper()
	_, section, _ := strings.Cut(readFile(t, name), "\n## Conditions\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows conditions
	for _, found := range conditionRow.FindAllStringSubmatch(section, -1) {
		row := condition{types: strings.Split(found[1], ", "), status: found[2], refers: strings.Contains(found[3], "the reason of ")}
		for _, reason := range quotedReason.FindAllStringSubmatch(found[3], -1) {
			row.reasons = append(row.reasons, reason[1])
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no table of conditions", name)
	}
	return rows
}

// has reports whether a row is about a condition. An empty string stands for any. A row that refers to the reasons of Degraded has
// all of them.
func (rows conditions) has(kind, status, reason string) bool {
	return slices.ContainsFunc(rows, func(row condition) bool {
		return (kind == "" || slices.Contains(row.types, kind)) && (status == "" || row.status == status) &&
			(reason == "" || slices.ContainsFunc(row.reasons, func(one string) bool { return same(one, reason) }) ||
				(kind != "" && row.refers && rows.has("Degraded", "True", reason)))
	})
}

// same reports whether two reasons are the same, of which one may begin with … instead of the kind of a child.
func same(a, b string) bool {
	endOfA, shortA := strings.CutPrefix(a, "…")
	endOfB, shortB := strings.CutPrefix(b, "…")
	return a == b || (shortA && strings.HasSuffix(b, endOfA)) || (shortB && strings.HasSuffix(a, endOfB))
}

// definitions returns what a pattern finds in files of Go, without tests.
func definitions(t *testing.T, pattern *regexp.Regexp, globs ...string) [][]string {
	t.Helper()
	var all [][]string
	for _, glob := range globs {
		files, err := filepath.Glob(glob)
		if err != nil || len(files) == 0 {
			t.Fatalf("no files %s: %v", glob, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			all = append(all, pattern.FindAllStringSubmatch(readFile(t, file), -1)...)
		}
	}
	return all
}

// noAction lists the reasons that need no action.
var noAction = []string{
	"Succeeded", "Greeted", "Settled", "RolledOut", "RolloutInProgress", "ScalingInProgress", "WaitingForDeployment",
	"NewReplicaSetAvailable", "NoConflict",
	"Scheduled", "Formed", "AllSlotsCovered", "NoDataLoss", "Adopting", "Creating", "Starting", "Stopping", "Changing", "Deleting",
}

// TestEveryAlertLinksToItsSection looks for the runbook_url of each alert, and for its section in the runbook, which has no other
// sections of alerts.
func TestEveryAlertLinksToItsSection(t *testing.T) {
	const runbook = "https://github.com/glassback/glassback/blob/main/docs/runbook.md#"
	var want, got []string
	rules := strings.Split(readFile(t, "../artifacts/prometheus/rules.yaml"), "- alert: ")[1:]
	for _, rule := range rules {
		name, _, _ := strings.Cut(rule, "\n")
		want = append(want, name)
		if n := strings.Count(rule, "runbook_url: "+runbook+strings.ToLower(name)+"\n"); n != 1 {
			t.Errorf("%s has %d annotations runbook_url with its section, want one", name, n)
		}
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

// TestTheRunbookHasEveryReason looks for every reason of a condition, unless it needs no action.
func TestTheRunbookHasEveryReason(t *testing.T) {
	runbook := readFile(t, "runbook.md")
	reasons := map[string]bool{} // with the quotes of Markdown; true: it needs an action
	reason := regexp.MustCompile(`\breason\w+\s*=\s*"(\w+)"`)
	for _, found := range definitions(t, reason, "../pkg/controller/*/*.go", "../pkg/child/*.go") {
		reasons["`"+found[1]+"`"] = !slices.Contains(noAction, found[1])
	}
	for _, found := range definitions(t, childReason, "../pkg/controller/*/*.go", "../pkg/child/*.go") {
		reasons["`…"+found[1]+"`"] = true
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
