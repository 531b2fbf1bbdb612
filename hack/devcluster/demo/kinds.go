package main

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
)

// kind is how the demo follows and shows the examples of one kind. Every one has a name and a condition Ready; what is here comes besides,
// as far as there is any.
type kind struct {
	schema.GroupKind
	ticking []column                                    // of the table only: they change again and again
	columns []column                                    // of the table, and of the lines where there is no terminal
	look    func(context.Context, *api, *example) error // asks for what the object itself does not say
	lacks   func(*example) string                       // says what an example that is Ready lacks still, or nothing
	hint    hint

	// The same of what containers do, where there are any.
	lookInside  func(context.Context, *api, *example) error
	lacksInside func(*example) string
}

// column is one of the table.
type column struct {
	heading string
	cell    func(*example) string
	real    bool // it is about what containers do
}

// hint is what the user may do with an example of artifacts/examples, and what happens then.
type hint struct{ command, effect string }

// kinds are Glassback's, in the order of the table.
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
		hint:        hint{"kubectl annotate mcj " + seed + " glassback.dev/run-now=1", "one more Job"},
	},
}

// kindOf returns the kind of an object, and false for one that is not followed: what an example needs besides, such as a Secret, and a
// RedisCluster, which is taken but has no controller yet.
func kindOf(object *unstructured.Unstructured) (*kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.GroupKind == object.GroupVersionKind().GroupKind() })
	if i < 0 {
		return nil, false
	}
	return &kinds[i], true
}

// cells returns what each column of the table has, by a function. Columns about containers are left out where there are none.
func (k *kind) cells(real bool, of func(column) string) []string {
	var cells []string
	for _, c := range slices.Concat(k.ticking, k.columns) {
		if real || !c.real {
			cells = append(cells, of(c))
		}
	}
	return cells
}

// inStatus returns what is in a field of the status, or "".
func inStatus(field string) func(*example) string {
	return func(e *example) string {
		value, _, _ := unstructured.NestedFieldNoCopy(e.object.Object, "status", field)
		if value == nil {
			return ""
		}
		return fmt.Sprint(value)
	}
}

// availablePods returns how many Pods are available, of how many.
func availablePods(e *example) string {
	available, all := inStatus("availableReplicas")(e), inStatus("replicas")(e)
	if all == "" {
		return ""
	}
	return available + "/" + all
}
