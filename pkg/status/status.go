// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status is glassback status: it lists the objects of all five kinds in one table. Objects that are not ready come first. It warns
// if no operator process holds the Lease: then the statuses can be old.
package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/kubernetes"

	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/descriptor"
)

const long = `Status lists the objects of all five kinds in one table. Objects that are not ready come first.

The column OBJECT has the names that "glassback why" and "kubectl get" accept.
If no operator process holds the Lease, a line on stderr says so: then the states can be old.
The exit code is 0 if there is a list, 1 if there is none, and 2 if the command line is wrong.`

// settings are the values of the command's flags.
type settings struct {
	cluster           clients.Flags
	namespace         string // empty: that of the kubeconfig's context
	allNamespaces     bool
	output            string // text, wide, json or yaml
	operatorNamespace string
	leaseName         string
}

// New returns glassback status.
func New() *cobra.Command { return (&settings{}).command() }

func (o *settings) command() *cobra.Command {
	c := &cobra.Command{
		Use: "status [-n NAMESPACE | -A]", Short: "list all objects in one table, those that are not ready first", Long: long,
		Args:    command.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return o.validate() },
		RunE:    command.Run(o.run),
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVarP(&o.namespace, "namespace", "n", "",
		"namespace of the objects (default: that of the kubeconfig's context, or \"default\")")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "list the objects of all namespaces")
	command.AddOutput(c, &o.output, command.Text, command.Wide, command.JSON, command.YAML)
	o.cluster.Add(c, "file that says how to reach the cluster (default: as for kubectl)")
	flags.StringVar(&o.operatorNamespace, "operator-namespace", "",
		"namespace of the operator's Lease (default: that of this Pod, or "+command.DefaultNamespace+")")
	flags.StringVar(&o.leaseName, "leader-elect-resource-name", command.DefaultLease, "name of the operator's Lease")
	o.cluster.Complete(c)
	return c
}

// validate sets the defaults that depend on the environment, and returns an error that says which flag to correct.
func (o *settings) validate() error {
	o.operatorNamespace = cmp.Or(o.operatorNamespace, command.OwnNamespace(), command.DefaultNamespace)
	err := errors.Join(command.CheckNamespace("operator-namespace", o.operatorNamespace), command.CheckLease(o.leaseName))
	if o.namespace != "" {
		err = errors.Join(err, command.CheckNamespace("namespace", o.namespace))
	}
	return err
}

func (o *settings) run(ctx context.Context, stdout, stderr io.Writer) error {
	config, err := clients.Load(o.cluster, clients.Kubectl, "status")
	if err != nil {
		return err
	}
	c, err := clients.New(config.Config)
	if err != nil {
		return err
	}
	namespace := cmp.Or(o.namespace, config.Namespace, command.OwnNamespace(), metav1.NamespaceDefault)
	if o.allNamespaces {
		namespace = metav1.NamespaceAll
	}
	objects, err := list(ctx, c.Glassback, namespace)
	if err != nil {
		return err
	}
	o.warn(ctx, c.Kube, c.Time.Now(), stderr)
	if o.output == command.JSON || o.output == command.YAML {
		return command.Print(stdout, o.output, document{Schema: schemaName, Objects: objects})
	}
	if len(objects) == 0 {
		where := "in namespace " + namespace
		if o.allNamespaces {
			where = "in any namespace"
		}
		fmt.Fprintln(stderr, "There are no objects of Glassback "+where+".")
		return nil
	}
	return o.print(stdout, objects, c.Time.Now())
}

// warn prints a line if no operator process holds the Lease. It prints nothing if this account may not read the Lease.
func (o *settings) warn(ctx context.Context, kube kubernetes.Interface, now time.Time, stderr io.Writer) {
	state, err := clients.ReadLease(ctx, kube, o.operatorNamespace, o.leaseName, now)
	if err != nil || state.Held() {
		return
	}
	remedy := "start an operator, see glassback check"
	if state == (clients.Lease{}) {
		remedy = "name the namespace of the operator with --operator-namespace, or start an operator, see glassback check"
	}
	fmt.Fprintf(stderr, "No operator process holds the Lease %s/%s: %s. Unless an operator runs without --leader-elect, "+
		"the states can be old: %s.\n", o.operatorNamespace, o.leaseName, state, remedy)
}

// document is the output of -o json and -o yaml. Under one name of the schema, fields are only added, and their meanings do not change.
type document struct {
	Schema  string   `json:"schema"`
	Objects []Object `json:"objects"`
}

const schemaName = "glassback.dev/status/v1"

// Object is the state of one object.
type Object struct {
	Kind      string      `json:"kind"`
	Namespace string      `json:"namespace"`
	Name      string      `json:"name"`
	Created   metav1.Time `json:"created"`
	// Ready is the status of the condition Ready, or Unknown if there is none.
	Ready   metav1.ConditionStatus `json:"ready"`
	Reason  string                 `json:"reason,omitempty"`
	Message string                 `json:"message,omitempty"`
	// Paused says that the operator leaves the object alone.
	Paused bool `json:"paused,omitempty"`

	short string // the short name of the resource
}

// objectOf returns the state of one object.
func objectOf(kind, short string, o descriptor.Object) Object {
	row := Object{
		Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), Created: o.GetCreationTimestamp(), Ready: metav1.ConditionUnknown,
		Paused: o.GetAnnotations()[glassback.AnnotationPaused] == "true", short: short,
	}
	if ready := meta.FindStatusCondition(o.Conditions(), glassback.ConditionReady); ready != nil {
		row.Ready, row.Reason, row.Message = ready.Status, ready.Reason, ready.Message
	}
	return row
}

// compare orders objects that are not ready before others, and then by namespace, kind and name.
func compare(a, b Object) int {
	rank := map[metav1.ConditionStatus]int{metav1.ConditionFalse: 0, metav1.ConditionUnknown: 1, metav1.ConditionTrue: 2}
	return cmp.Or(cmp.Compare(rank[a.Ready], rank[b.Ready]), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Name, b.Name))
}

// print prints the table.
func (o *settings) print(stdout io.Writer, objects []Object, now time.Time) error {
	table := tabwriter.NewWriter(stdout, 6, 4, 3, ' ', 0)
	row := func(namespace, object, ready, reason, age, message string) {
		line := object + "\t" + ready + "\t" + reason + "\t" + age
		if o.allNamespaces {
			line = namespace + "\t" + line
		}
		if o.output == command.Wide {
			line += "\t" + message
		}
		fmt.Fprintln(table, line)
	}
	row("NAMESPACE", "OBJECT", "READY", "REASON", "AGE", "MESSAGE")
	for _, object := range objects {
		reason := cmp.Or(object.Reason, "<none>")
		if object.Paused {
			reason += " (paused)"
		}
		age := "<unknown>"
		if !object.Created.IsZero() {
			age = duration.HumanDuration(now.Sub(object.Created.Time))
		}
		row(object.Namespace, object.short+"/"+object.Name, string(object.Ready), command.Printable(reason), age,
			command.Printable(cmp.Or(object.Message, "<none>")))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}
