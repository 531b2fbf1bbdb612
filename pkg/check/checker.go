/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package check

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/permissions"
)

// checker asks about an installation. Its checks run one after the other, and each knows what those before it have found.
type checker struct {
	options *settings

	clients     *clients.Clients
	host        string             // of the API server
	inside      bool               // this process is a Pod of the cluster
	user        string             // that the API server takes this process for
	deployment  *appsv1.Deployment // of the operator; nil if there is none
	account     permissions.Access // of the account whose permissions count
	definitions []*apiextensionsv1.CustomResourceDefinition
	webhooks    []registeredWebhooks
	keys        []cloudKey
	redis       []redisNodes
}

// needConnection is what all checks but those of the connection need.
var needConnection = []string{"cluster/credentials", "cluster/ready"}

// sections are what check asks.
func (c *checker) sections() ([]Section, error) {
	crds, err := c.crdChecks()
	if err != nil {
		return nil, err
	}
	all := []Section{
		{ID: "cluster", Title: "Cluster", Checks: c.clusterChecks()},
		{ID: "crds", Title: "CustomResourceDefinitions", Needs: needConnection, Checks: crds},
		{ID: "operator", Title: "Operator", Needs: needConnection, Checks: c.operatorChecks()},
		{ID: "permissions", Title: "Permissions", Needs: needConnection, Checks: c.permissionChecks(), More: c.wantedChecks},
		{ID: "lease", Title: "Leader election", Needs: needConnection, Checks: c.leaseChecks()},
		{ID: "webhooks", Title: "Webhooks", Needs: needConnection, Checks: c.webhookChecks(), More: c.registeredChecks},
	}
	all = append(all,
		Section{ID: "cloud", Title: "Cloud", Needs: needConnection, Checks: c.cloudChecks(), More: c.keyChecks},
		Section{ID: "redis", Title: "Redis", Needs: needConnection, Checks: c.redisChecks(), More: c.nodeChecks})
	if c.options.pre {
		// What is not installed has neither.
		all = slices.DeleteFunc(all, func(s Section) bool { return s.ID == "webhooks" || s.ID == "redis" })
	}
	return all, nil
}

// adopt takes over what an operator in a namespace works with, by its arguments, as far as the
// command line does not say it.
func (o *settings) adopt(args []string, namespace string) bool {
	its, err := options.Parse(args, io.Discard)
	if err != nil {
		return false // It is another program, or another version.
	}
	if !o.given("namespace") {
		o.Namespaces = its.Namespaces
	}
	if !o.given("controllers") {
		o.Controllers = its.Controllers
	}
	if !o.given("webhooks") {
		o.Webhooks = its.Webhooks
	}
	if !o.given("ecs-endpoint") {
		o.ECSEndpoint = its.ECSEndpoint
	}
	o.WebhookCertPath = its.WebhookCertPath
	o.MetricsAddress, o.MetricsSecure, o.InspectAddress = its.MetricsAddress, its.MetricsSecure, its.InspectAddress
	o.Lease.Elect = its.Lease.Elect
	if !o.given("leader-elect-resource-name") {
		o.leaseName = its.Lease.Name
	}
	if !o.given("leader-elect-resource-namespace") {
		o.leaseNamespace = cmp.Or(its.Lease.Namespace, namespace)
	}
	return true
}

// adoptFrom is adopt for the operator of a Deployment.
func (o *settings) adoptFrom(d *appsv1.Deployment) {
	for _, container := range d.Spec.Template.Spec.Containers {
		if o.adopt(container.Args, d.Namespace) {
			return
		}
	}
}

// adoptNeighbour is adopt for the operator in whose container this process runs, if it does.
func (o *settings) adoptNeighbour(commandLine []byte) bool {
	program, args, _ := strings.Cut(strings.TrimSuffix(string(commandLine), "\x00"), "\x00")
	if filepath.Base(program) != "glassback" || args == "" {
		return false
	}
	return o.adopt(strings.Split(args, "\x00"), o.operatorNamespace)
}

// runs returns whether the operator runs a controller.
func (c *checker) runs(controller string) bool {
	return slices.Contains(c.options.Controllers, controller)
}

// unanswered is the result of a request that has failed.
func unanswered(err error) Result {
	if apierrors.IsForbidden(err) {
		return skip("this account may not look: " + err.Error())
	}
	return fail(err.Error(), "try again; else see how the API server is")
}

// inPod says how to run a check where the operator runs.
func (c *checker) inPod() string {
	name := "glassback-manager"
	if c.deployment != nil {
		name = c.deployment.Name
	}
	return fmt.Sprintf("kubectl exec -n %s deployment/%s -- /glassback check", c.options.operatorNamespace, name)
}
