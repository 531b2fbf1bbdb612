// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// kind describes what the demo reads and shows of the examples of one kind, in addition to their names and conditions Ready.
type kind struct {
	schema.GroupKind
	tableOnly []column                                    // shown only in the table on a terminal, because their values change often
	columns   []column                                    // shown in the table, and in the lines without a terminal
	look      func(context.Context, *api, *example) error // reads other objects of the example; may be nil
	lacks     func(*example) string                       // returns what a Ready example still waits for, or ""; may be nil
	hint      hint

	// lookReal and lacksReal are called after look and lacks, but only if containers run. They may be nil.
	lookReal  func(context.Context, *api, *example) error
	lacksReal func(*example) string

	// onlyReal is set if the examples cannot become Ready without containers. On a simulated node the operator does not run their
	// controller, and the demo does not follow them.
	onlyReal bool
}

// column is a column of the table.
type column struct {
	heading string
	cell    func(*example) string
	real    bool // shown only if containers run
}

// hint is a command for the user to try, and its effect.
type hint struct{ command, effect string }

// kinds are the kinds of Glassback, in the order of the table.
var kinds = []kind{
	{
		GroupKind: schema.GroupKind{Group: groupav1.GroupName, Kind: "ApiExampleA"},
		columns:   []column{{heading: "STATUS", cell: inStatus("status")}, {heading: "GREETING", cell: inStatus("greeting")}},
		hint:      hint{"kubectl delete cm apiexamplea-sample-greeting", "the operator creates it again"},
	},
	{
		GroupKind: schema.GroupKind{Group: appv1.GroupName, Kind: "Application"},
		columns: []column{
			{heading: "PODS", cell: availablePods},
			{heading: "URL", cell: inStatus("url")},
			{heading: "PAGE", cell: func(e *example) string { return e.page }, real: true},
		},
		lookReal:  lookForPage,
		lacksReal: lacksPage,
		hint:      hint{"kubectl set image deploy/application-sample app=other", "the operator reverts it"},
	},
	{
		GroupKind: schema.GroupKind{Group: mcjv1.GroupName, Kind: "MyCronJob"},
		tableOnly: []column{
			{heading: "DONE", cell: completedJobs},
			{heading: "LAST JOB", cell: lastJob},
			{heading: "PRINTED", cell: func(e *example) string { return e.printed }, real: true},
		},
		columns:   []column{{heading: "SCHEDULE", cell: inStatus("schedule")}},
		look:      lookForJobs,
		lacks:     lacksJobs,
		lookReal:  lookForOutput,
		lacksReal: lacksOutput,
		hint:      hint{"kubectl annotate mcj " + sampleCronJob + " glassback.dev/run-now=1", "the operator creates one more Job"},
	},
	{
		GroupKind: schema.GroupKind{Group: redisv1.GroupName, Kind: "RedisCluster"},
		columns: []column{
			{heading: "NODES", cell: inStatus("size")},
			{heading: "MASTERS", cell: inStatus("masters")},
			{heading: "SLOTS", cell: inStatus("slotsAssigned")},
			{heading: "ENDPOINT", cell: inStatus("endpoint")},
		},
		hint:     hint{"kubectl exec rediscluster-sample-0 -- redis-cli -c set k v", "-c follows the redirect to the node of k"},
		onlyReal: true,
	},
	{
		GroupKind: schema.GroupKind{Group: ecsv1alpha1.GroupName, Kind: "ECSInstance"},
		columns: []column{
			{heading: "ID", cell: inStatus("instanceID")},
			{heading: "STATE", cell: inStatus("state")},
			{heading: "IP", cell: inStatus("ip")},
		},
		hint: hint{`kubectl patch ecs ecsinstance-sample --type merge -p '{"spec":{"powerState":"Stopped"}}'`, "the operator stops the instance"},
	},
}

// kindsOn returns the kinds that the demo follows on a real or a simulated node.
func kindsOn(real bool) []*kind {
	var all []*kind
	for i := range kinds {
		if real || !kinds[i].onlyReal {
			all = append(all, &kinds[i])
		}
	}
	return all
}

// skipped returns the kinds that the demo does not follow on a real or a simulated node.
func skipped(real bool) []*kind {
	var all []*kind
	for i := range kinds {
		if !real && kinds[i].onlyReal {
			all = append(all, &kinds[i])
		}
	}
	return all
}

// controllersOn returns the value of --controllers for a real or a simulated node. Pods on a simulated node have fictitious addresses. The
// operator must not connect to them, since other machines may have the same addresses.
func controllersOn(real bool) string {
	controllers := []string{"*"}
	for _, k := range skipped(real) {
		controllers = append(controllers, "-"+strings.ToLower(k.Kind))
	}
	return strings.Join(controllers, ",")
}

// withoutImage is an example whose image the demo's node does not have.
const withoutImage = "rediscluster-exporter.yaml"

// exampleFiles returns the files of artifacts/examples with one example of each kind that the demo follows, and the other files of these
// kinds, but withoutImage.
func exampleFiles(real bool) (first, later []string, err error) {
	for _, k := range kindsOn(real) {
		name := filepath.Join(artifacts, "examples", strings.ToLower(k.Kind))
		first = append(first, name+".yaml")
		others, err := filepath.Glob(name + "-*.yaml")
		if err != nil {
			return nil, nil, fmt.Errorf("list the examples of %s: %w", k.Kind, err)
		}
		later = append(later, slices.DeleteFunc(others, func(file string) bool { return filepath.Base(file) == withoutImage })...)
	}
	return first, later, nil
}

// kindOf returns the kind of an object. It returns false for a kind that is not Glassback's: an example may contain a Secret, too.
func kindOf(object *unstructured.Unstructured) (*kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.GroupKind == object.GroupVersionKind().GroupKind() })
	if i < 0 {
		return nil, false
	}
	return &kinds[i], true
}

// cells returns the text that render returns for each column. Unless containers run (real), it leaves out columns that need them.
func (k *kind) cells(real bool, render func(column) string) []string {
	var cells []string
	for _, c := range slices.Concat(k.tableOnly, k.columns) {
		if real || !c.real {
			cells = append(cells, render(c))
		}
	}
	return cells
}

// inStatus returns a function that returns a field of the status, or "".
func inStatus(field string) func(*example) string {
	return func(e *example) string {
		value, _, _ := unstructured.NestedFieldNoCopy(e.object.Object, "status", field)
		if value == nil {
			return ""
		}
		return fmt.Sprint(value)
	}
}

// availablePods returns the numbers of available Pods and of all Pods, such as "2/3".
func availablePods(e *example) string {
	available, all := inStatus("availableReplicas")(e), inStatus("replicas")(e)
	if all == "" {
		return ""
	}
	return available + "/" + all
}
