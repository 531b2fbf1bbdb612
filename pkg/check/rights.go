// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/permissions"
)

// rightsDocument is the output of --rights with -o json and -o yaml. It changes only as document may.
type rightsDocument struct {
	Schema string  `json:"schema"`
	Rights []right `json:"rights"`
}

const rightsSchema = "glassback.dev/rights/v1"

// right has the operator's permissions for one resource.
type right struct {
	Where    string   `json:"where"`
	Resource string   `json:"resource"` // as in "pods/eviction" or "leases.coordination.k8s.io glassback"
	Verbs    []string `json:"verbs"`
	By       []string `json:"by"` // the parts of the operator that need it
}

// rights returns the rights that an operator with these options needs, if it is installed from artifacts in a cluster.
func (o *settings) rights() []right {
	mode := options.WebhooksOnlyCertificate
	switch {
	case o.WebhookURL != "":
		mode = options.WebhooksFromURL
	case o.Webhooks:
		mode = options.WebhooksFromService
	}
	o.MetricsAddress, o.MetricsSecure = ":8443", true
	all := o.Wants(mode, o.operatorNamespace, types.NamespacedName{Namespace: o.leaseNamespace, Name: o.leaseName})
	all = append(all, permissions.WantedBy("the start", metav1.NamespaceAll, []permissions.Permission{permissions.Definitions})...)
	var list []right
	for _, w := range permissions.Merge(all) {
		slices.Sort(w.By)
		list = append(list, right{Where: where(w), Resource: w.String(), Verbs: w.Verbs, By: slices.Compact(w.By)})
	}
	return list
}

// printRights prints the rights that the operator needs.
func (o *settings) printRights(stdout io.Writer) error {
	if o.output != command.Text {
		return command.Print(stdout, o.output, rightsDocument{rightsSchema, o.rights()})
	}
	table := tabwriter.NewWriter(stdout, 6, 4, 3, ' ', 0)
	fmt.Fprintln(table, "RESOURCE\tVERBS\tWHERE\tNEEDED BY")
	for _, r := range o.rights() {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", r.Resource, strings.Join(r.Verbs, ","), r.Where, strings.Join(r.By, ", "))
	}
	return table.Flush()
}
