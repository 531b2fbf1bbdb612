// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/controller/ecsinstance"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/permissions"
)

// checker checks an installation. Its checks run one after the other, and each can use the results of those before it.
type checker struct {
	options *settings

	clients    *clients.Clients
	host       string             // of the API server
	inside     bool               // this process is a Pod of the cluster
	user       string             // as which the API server authenticates this process
	deployment *appsv1.Deployment // of the operator; nil if there is none
	account    permissions.Access // of the account whose permissions are checked
	webhooks   []registeredWebhooks
	keys       []cloudKey
	redis      []*redisv1.RedisCluster
}

// sections returns the checks of glassback check, by section.
func (c *checker) sections() []Section {
	namespace, pre := c.options.operatorNamespace, c.options.pre
	titled := func(id, installed, before string, run func(context.Context) Result) []Check {
		if pre {
			installed = before
		}
		return []Check{{ID: id, Title: installed, Run: run}}
	}
	connected := []string{"cluster/credentials", "cluster/ready"}
	instances := Check{
		ID: "cloud/instances", Title: "which access keys ECSInstances use", Run: c.checkInstances,
		Needs: []string{"crds/ecsinstances." + ecsv1alpha1.GroupName},
	}
	cloud := []Check{{ID: "cloud/credentials", Title: "the operator's own access key is accepted", Run: c.checkOwnKey}, instances}
	all := []Section{
		{ID: "cluster", Title: "Cluster", Checks: c.clusterChecks()},
		{ID: "crds", Title: "CustomResourceDefinitions", Needs: connected, Checks: c.crdChecks()},
		{ID: "operator", Title: "Operator", Needs: connected, Checks: titled("operator/deployment",
			"its Deployment in "+namespace+" is available", "no operator is in "+namespace+" yet", c.checkDeployment)},
		{ID: "permissions", Title: "Permissions", Needs: connected, More: c.wantedChecks, Checks: []Check{
			{ID: "permissions/account", Title: "whose permissions count", Run: c.checkAccount}}},
		{ID: "lease", Title: "Leader election", Needs: connected, Checks: titled("lease/holder",
			"one operator leads, by its Lease", "no operator leads yet, by its Lease", c.checkLease)},
		{ID: "webhooks", Title: "Webhooks", Needs: connected, More: c.registeredChecks, Checks: []Check{
			{ID: "webhooks/registered", Title: "the API server knows of them", Run: c.checkRegistered}}},
		{ID: "cloud", Title: "Cloud", Needs: connected, More: c.keyChecks, Checks: cloud},
		{ID: "redis", Title: "Redis", Needs: connected, More: c.nodeChecks, Checks: []Check{{
			ID: "redis/clusters", Title: "which RedisClusters there are", Run: c.checkRedisClusters,
			Needs: []string{"crds/redisclusters." + redisv1.GroupName}}}},
	}
	if pre { // Webhooks, ECSInstances and RedisClusters come with the installation.
		all = slices.DeleteFunc(all, func(s Section) bool { return s.ID == "webhooks" || s.ID == "redis" })
		all[len(all)-1].Checks = cloud[:1]
	}
	return all
}

// adopt takes over the options in the arguments of an operator in a namespace, except those that the command line sets. It returns false if
// it cannot parse the arguments.
func (o *settings) adopt(args []string, namespace string) bool {
	its, err := options.Parse(args)
	if err != nil {
		return false // another program, or another version
	}
	its.Cluster, its.WebhookURL = o.Cluster, o.WebhookURL
	if o.given("namespace") || o.allNamespaces {
		its.Namespaces = o.Namespaces
	}
	if o.given("controllers") {
		its.Controllers = o.Controllers
	}
	if o.given("webhooks") {
		its.Webhooks = o.Webhooks
	}
	if o.given("ecs-endpoint") {
		its.ECSEndpoint = o.ECSEndpoint
	}
	if o.given(ecsinstance.NamespacesFlag) {
		its.ECSOwnCredentials.Namespaces = o.ECSOwnCredentials.Namespaces
	}
	if o.given(ecsinstance.AllowFlag) {
		its.ECSOwnCredentials.Allowed = o.ECSOwnCredentials.Allowed
	}
	if !o.given("leader-elect-resource-name") {
		o.leaseName = its.Lease.Name
	}
	if !o.given("leader-elect-resource-namespace") {
		o.leaseNamespace = cmp.Or(its.Lease.Namespace, namespace)
	}
	o.Options = *its
	return true
}

// adoptFrom adopts the options of the operator of a Deployment.
func (o *settings) adoptFrom(d *appsv1.Deployment) {
	for _, container := range d.Spec.Template.Spec.Containers {
		if o.adopt(container.Args, d.Namespace) {
			return
		}
	}
}

// adoptNeighbour adopts the options of the operator whose container this process runs in. It returns false if there is no such operator.
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

// unanswered returns the result of a request that failed.
func unanswered(err error) Result {
	if apierrors.IsForbidden(err) {
		return skip("this account may not look: " + err.Error())
	}
	return fail(err.Error(), "try again; else see how the API server is")
}

// inPod returns the command by which a user runs the check in the operator's Pod.
func (c *checker) inPod() string {
	name := "glassback-manager"
	if c.deployment != nil {
		name = c.deployment.Name
	}
	return fmt.Sprintf("kubectl exec -n %s deployment/%s -- /glassback check", c.options.operatorNamespace, name)
}
