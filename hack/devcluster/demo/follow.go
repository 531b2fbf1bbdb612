// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// sampleCronJob is the MyCronJob of which the demo waits for a completed Job.
const sampleCronJob = "mycronjob-sample"

// settledReasons are the reasons of objects that are not Ready because their spec requires that.
var settledReasons = []string{"Suspended"}

// follower polls the examples and holds their states.
type follower struct {
	api      *api
	examples []*example
	later    []string // files with more examples, each to be applied when the examples are settled
	real     bool     // containers run
	verdict  string   // the message after all examples are settled
	hints    []string // the lines below the verdict: commands that the user may try
	trouble  string   // the error of the last look, or ""
}

// example is one object, in the state of the last look.
type example struct {
	kind    *kind
	name    string
	object  *unstructured.Unstructured // empty before the first look
	cells   []cell                     // the columns that kubectl get prints, without the name and the age
	gone    bool
	applied time.Time
	took    time.Duration // from applied until it was no longer pending; zero before
}

// cell is a column of an object's table.
type cell struct{ heading, text string }

// apply applies files of examples, and follows their objects.
func (f *follower) apply(ctx context.Context, files ...string) error {
	names, err := f.api.apply(ctx, files...)
	for _, printed := range names {
		of, name, _ := strings.Cut(printed, "/") // of may also name Secrets
		for _, k := range kindsOn(f.real) {
			if strings.EqualFold(of, k.GroupKind().String()) {
				f.examples = append(f.examples, &example{kind: k, name: name, object: &unstructured.Unstructured{}, applied: time.Now()})
			}
		}
	}
	return err
}

// progress returns the number of examples that are settled, and of Pods that are ready. A Job's Pod does not count: they come and go.
func (f *follower) progress(ctx context.Context) int {
	n := 0
	for _, e := range f.examples {
		if e.pending() == "" {
			n++
		}
	}
	pods, err := f.api.pods(ctx)
	if err != nil {
		return n
	}
	for i := range pods {
		if pods[i].Labels[batchv1.JobNameLabel] == "" && isReady(&pods[i]) {
			n++
		}
	}
	return n
}

// look reads the examples from the API server. It stops at the first error. The examples after that keep their last states.
func (f *follower) look(ctx context.Context) {
	f.trouble = ""
	for _, e := range f.examples {
		if err := e.look(ctx, f.api.kube.CoreV1().RESTClient()); err != nil {
			f.trouble = strings.Join(strings.Fields(err.Error()), " ")
			return
		}
		if e.took == 0 && e.pending() == "" {
			e.took = time.Since(e.applied)
		}
	}
}

// look reads the object as the table that kubectl get prints. The API server makes it of the columns in the CustomResourceDefinition.
func (e *example) look(ctx context.Context, client rest.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	resource, _ := meta.UnsafeGuessKindToResource(e.kind.GroupVersionKind)
	data, err := client.Get().AbsPath("/apis/"+resource.GroupVersion().String()).Namespace(metav1.NamespaceDefault).
		Resource(resource.Resource).Name(e.name).
		SetHeader("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").Param("includeObject", string(metav1.IncludeObject)).DoRaw(ctx)
	if e.gone = apierrors.IsNotFound(err); e.gone {
		return nil
	}
	var table metav1.Table
	if err == nil {
		err = json.Unmarshal(data, &table)
	}
	if err == nil && len(table.Rows) != 1 {
		err = fmt.Errorf("it has %d rows", len(table.Rows))
	}
	object := &unstructured.Unstructured{}
	if err == nil {
		err = object.UnmarshalJSON(table.Rows[0].Object.Raw)
	}
	if err != nil {
		return fmt.Errorf("get %s: %w", e, err)
	}
	e.object, e.cells = object, nil
	for i, column := range table.ColumnDefinitions {
		if column.Priority > 0 || column.Name == "Name" || column.Name == "Age" {
			continue
		}
		text := ""
		if value := table.Rows[0].Cells[i]; value != nil {
			text = fmt.Sprint(value)
		}
		e.cells = append(e.cells, cell{strings.ToUpper(column.Name), text})
	}
	return nil
}

// String returns the kind and the name.
func (e *example) String() string { return strings.ToLower(e.kind.Kind) + "/" + e.name }

// seconds returns how long an example took or, if it is pending, how long it has waited.
func (e *example) seconds() string {
	return fmt.Sprintf("%.0f s", cmp.Or(e.took, time.Since(e.applied)).Seconds())
}

// pending returns what an example still waits for, or "".
func (e *example) pending() string {
	ready := conditionOf(e.object, glassback.ConditionReady)
	_, succeeded, _ := unstructured.NestedString(e.object.Object, "status", "lastSuccessfulTime")
	switch {
	case e.gone:
		return "Deleted"
	case e.object.GetAnnotations()[glassback.AnnotationPaused] == "true":
		return ""
	case ready.ObservedGeneration != e.object.GetGeneration(),
		ready.Status != metav1.ConditionTrue && !slices.Contains(settledReasons, ready.Reason):
		return cmp.Or(strings.TrimSpace(ready.Reason+" "+ready.Message), "no condition Ready")
	case e.name == sampleCronJob && !succeeded:
		return "no Job has completed"
	}
	return ""
}

// settled returns whether the last look succeeded and no example is pending.
func (f *follower) settled() bool {
	return f.trouble == "" && !slices.ContainsFunc(f.examples, func(e *example) bool { return e.pending() != "" })
}

// unsettled returns the names of the pending examples with what they wait for, and the error of the last look.
func (f *follower) unsettled() string {
	var all []string
	for _, e := range f.examples {
		if pending := e.pending(); pending != "" {
			all = append(all, e.String()+" ("+pending+")")
		}
	}
	if f.trouble != "" {
		all = append(all, f.trouble)
	}
	return strings.Join(all, ", ")
}

// conclude sets the verdict after all examples are settled. If the demo stays, it sets hints, too.
func (f *follower) conclude(after time.Duration, stay bool) {
	f.verdict = fmt.Sprintf("All %d examples are settled after %.0f s.", len(f.examples), after.Seconds())
	if !stay {
		return
	}
	f.hints = append(f.hints, "The demo runs until Ctrl-C, which ends its processes and removes its files. Try meanwhile:")
	widest := 0
	for _, k := range kindsOn(f.real) {
		widest = max(widest, len(k.command))
	}
	for _, k := range kindsOn(f.real) {
		f.hints = append(f.hints, fmt.Sprintf("  %-*s  # %s", widest, k.command, k.effect))
	}
}

// conditionOf returns the condition of a type, or an empty one.
func conditionOf(object *unstructured.Unstructured, conditionType string) metav1.Condition {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range list {
		var c metav1.Condition
		if fields, ok := item.(map[string]any); ok && fields["type"] == conditionType &&
			runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &c) == nil {
			return c
		}
	}
	return metav1.Condition{}
}
