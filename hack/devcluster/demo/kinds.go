// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
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

// kind describes how the demo follows and shows the examples of one kind, beyond their names and conditions Ready.
type kind struct {
	schema.GroupKind
	ticking []column                                    // only in the table on a terminal: they change all the time
	columns []column                                    // in the table, and in the lines without a terminal
	look    func(context.Context, *api, *example) error // reads what the object does not contain; may be nil
	lacks   func(*example) string                       // returns what a Ready example still lacks, or ""; may be nil
	hint    hint

	// lookInside and lacksInside are look and lacks for clusters that run containers.
	lookInside  func(context.Context, *api, *example) error
	lacksInside func(*example) string

	// onlyReal is set if the examples cannot become Ready without containers. On a simulated node the operator does not run their
	// controller, and the demo does not follow them.
	onlyReal bool
}

// column is a column of the table.
type column struct {
	heading string
	cell    func(*example) string
	real    bool // it needs containers
}

// hint is a command that the user may try, and its effect.
type hint struct{ command, effect string }

// kinds are the kinds of Glassback, in the order of the table.
var kinds = []kind{
	{
		GroupKind: schema.GroupKind{Group: groupav1.GroupName, Kind: "ApiExampleA"},
		columns:   []column{{heading: "STATUS", cell: inStatus("status")}, {heading: "GREETING", cell: inStatus("greeting")}},
		hint:      hint{"kubectl delete cm apiexamplea-sample-greeting", "comes back"},
	},
	{
		GroupKind: schema.GroupKind{Group: appv1.GroupName, Kind: "Application"},
		columns: []column{
			{heading: "PODS", cell: availablePods},
			{heading: "URL", cell: inStatus("url")},
			{heading: "PAGE", cell: func(e *example) string { return e.page }, real: true},
		},
		lookInside:  lookForPage,
		lacksInside: lacksPage,
		hint:        hint{"kubectl set image deploy/application-sample app=other", "is undone"},
	},
	{
		GroupKind: schema.GroupKind{Group: mcjv1.GroupName, Kind: "MyCronJob"},
		ticking: []column{
			{heading: "DONE", cell: completedJobs},
			{heading: "LAST JOB", cell: lastJob},
			{heading: "PRINTED", cell: func(e *example) string { return e.printed }, real: true},
		},
		columns:     []column{{heading: "SCHEDULE", cell: inStatus("schedule")}},
		look:        lookForJobs,
		lacks:       lacksJobs,
		lookInside:  lookForOutput,
		lacksInside: lacksOutput,
		hint:        hint{"kubectl annotate mcj " + sampleCronJob + " glassback.dev/run-now=1", "one more Job"},
	},
	{
		GroupKind: schema.GroupKind{Group: redisv1.GroupName, Kind: "RedisCluster"},
		columns: []column{
			{heading: "NODES", cell: inStatus("size")},
			{heading: "MASTERS", cell: inStatus("masters")},
			{heading: "SLOTS", cell: inStatus("slotsAssigned")},
			{heading: "ENDPOINT", cell: inStatus("endpoint")},
		},
		hint:     hint{"kubectl exec rediscluster-sample-0 -- redis-cli -c set k v", "whichever node k belongs to"},
		onlyReal: true,
	},
	{
		GroupKind: schema.GroupKind{Group: ecsv1alpha1.GroupName, Kind: "ECSInstance"},
		columns: []column{
			{heading: "ID", cell: inStatus("instanceID")},
			{heading: "STATE", cell: inStatus("state")},
			{heading: "IP", cell: inStatus("ip")},
		},
		hint: hint{`kubectl patch ecs ecsinstance-sample --type merge -p '{"spec":{"powerState":"Stopped"}}'`, "is stopped, and stays so"},
	},
}

// kindsOn returns the kinds that are followed on a real node, or on a simulated one.
func kindsOn(real bool) []*kind {
	var all []*kind
	for i := range kinds {
		if real || !kinds[i].onlyReal {
			all = append(all, &kinds[i])
		}
	}
	return all
}

// controllersOn returns the controllers that the operator runs on a real or a simulated node. The Pods of a simulated node have fictitious
// addresses: another machine may answer there.
func controllersOn(real bool) string {
	controllers := []string{"*"}
	for _, k := range kinds {
		if k.onlyReal && !real {
			controllers = append(controllers, "-"+strings.ToLower(k.Kind))
		}
	}
	return strings.Join(controllers, ",")
}

// skippedKinds returns a line for each kind that the demo does not follow on a simulated node.
func skippedKinds(real bool) []string {
	var lines []string
	for _, k := range kinds {
		if k.onlyReal && !real {
			lines = append(lines, fmt.Sprintf("%ss are left alone, and not waited for: they need containers, which a simulated node has none of",
				k.Kind))
		}
	}
	return lines
}

// kindOf returns the kind of an object. It returns false for a kind that is not Glassback's: an example may contain a Secret, too.
func kindOf(object *unstructured.Unstructured) (*kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.GroupKind == object.GroupVersionKind().GroupKind() })
	if i < 0 {
		return nil, false
	}
	return &kinds[i], true
}

// cells returns the text of each column, which render returns. Without containers, it leaves out columns that need them.
func (k *kind) cells(real bool, render func(column) string) []string {
	var cells []string
	for _, c := range slices.Concat(k.ticking, k.columns) {
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

// availablePods returns the number of available Pods and of all Pods.
func availablePods(e *example) string {
	available, all := inStatus("availableReplicas")(e), inStatus("replicas")(e)
	if all == "" {
		return ""
	}
	return available + "/" + all
}
