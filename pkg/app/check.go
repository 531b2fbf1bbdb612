/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/glassback/glassback/pkg/check"
)

const checkUsage = `Check says whether Glassback can work in a cluster, or why it does not, and what to do about it. It changes nothing.

Usage:
  glassback check [flags]

Before it is installed, with the account that is going to install it:

  glassback check --pre --kubeconfig ~/.kube/config

With neither --kubeconfig nor --master it uses the service account of the Pod that it runs in, or else what kubectl would use.
Of an operator that is installed in the cluster, it reads what that works with; else give it the flags that the operator is given.
The exit code is 0 if nothing has failed, 1 if something has, and 2 if the command line is wrong.

Flags:
`

// Where the operator is, in artifacts and unless something else is said.
const (
	defaultNamespace = "glassback-system"
	defaultLeaseName = "glassback"
)

// checkOptions are what the command line of check says.
type checkOptions struct {
	options

	pre               bool
	output            string
	limit             time.Duration // of each check
	operatorNamespace string
	leaseName         string
	leaseNamespace    string
	given             func(flag string) bool // whether the command line has it
}

func parseCheckOptions(args []string, stdout io.Writer) (*checkOptions, error) {
	o := &checkOptions{options: options{workers: 1, logging: logsapi.NewLoggingConfiguration()}}
	flags := pflag.NewFlagSet("glassback check", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.BoolVar(&o.pre, "pre", false, "check whether it can be installed")
	flags.StringVarP(&o.output, "output", "o", "text", "text, or json for programs")
	flags.DurationVar(&o.limit, "timeout", 10*time.Second, "how long each check may take")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "file that says how to reach the cluster")
	flags.StringVar(&o.master, "master", "", "URL of the API server; overrides the one in the kubeconfig")
	flags.StringSliceVarP(&o.namespaces, "namespace", "n", nil, "namespace that the operator works in; may be repeated (default: all)")
	flags.StringSliceVar(&o.controllers, "controllers", []string{"*"},
		"controllers that it runs: * for all, NAME for that one, -NAME for not that one; there are "+strings.Join(controllerNames(), ", "))
	flags.StringVar(&o.ecsEndpoint, "ecs-endpoint", "", "http://HOST:PORT or https://HOST:PORT of an ECS API (default: Alibaba Cloud's own)")
	flags.BoolVar(&o.webhooks, "webhooks", true, "whether it serves webhooks")
	flags.StringVar(&o.webhookURL, "webhook-url", "", "https://HOST:PORT by which the API server reaches the webhooks of an operator outside of the cluster")
	flags.StringVar(&o.operatorNamespace, "operator-namespace", "", "namespace that it is installed in (default: that of this Pod, or "+defaultNamespace+")")
	flags.StringVar(&o.leaseName, "leader-elect-resource-name", defaultLeaseName, "name of its Lease")
	flags.StringVar(&o.leaseNamespace, "leader-elect-resource-namespace", "", "namespace of its Lease (default: that of --operator-namespace)")
	o.given = flags.Changed
	flags.Usage = func() {}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			fmt.Fprint(stdout, checkUsage, flags.FlagUsages())
		}
		return nil, err
	}
	if rest := flags.Args(); len(rest) > 0 {
		return nil, fmt.Errorf("unexpected argument %q: there are only flags, see check --help", rest[0])
	}
	if flags.Changed("namespace") && len(o.namespaces) == 0 {
		return nil, errors.New("--namespace must not be empty: leave it out for all namespaces")
	}
	return o, o.validate()
}

func (o *checkOptions) validate() error {
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("--output must be text or json, not %q", o.output)
	}
	if o.limit < time.Second || o.limit > 10*time.Minute {
		return fmt.Errorf("--timeout must be from 1s to 10m, not %s", o.limit)
	}
	if u, err := url.Parse(o.webhookURL); o.webhookURL != "" && (err != nil || u.Scheme != "https" || u.Hostname() == "") {
		return fmt.Errorf("--webhook-url must be https://HOST:PORT, not %q", o.webhookURL)
	}
	o.operatorNamespace = cmp.Or(o.operatorNamespace, ownNamespace(), defaultNamespace)
	o.leaseNamespace = cmp.Or(o.leaseNamespace, o.operatorNamespace)
	for _, value := range []struct{ flag, namespace string }{
		{"operator-namespace", o.operatorNamespace}, {"leader-elect-resource-namespace", o.leaseNamespace},
	} {
		if problems := content.IsDNS1123Label(value.namespace); len(problems) > 0 {
			return fmt.Errorf("--%s %q is not the name of a namespace: %s", value.flag, value.namespace, problems[0])
		}
	}
	if problems := content.IsDNS1123Subdomain(o.leaseName); len(problems) > 0 {
		return fmt.Errorf("--leader-elect-resource-name %q is not the name of a Lease: %s", o.leaseName, problems[0])
	}
	return o.options.validate()
}

// ownNamespace returns the namespace of the Pod that this is, "" if it is none.
func ownNamespace() string {
	if namespace := os.Getenv("POD_NAMESPACE"); namespace != "" {
		return namespace
	}
	text, err := os.ReadFile(namespaceFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// checkSchema names what -o json prints. What it means does not change under this name:
// fields are only ever added.
const checkSchema = "glassback.dev/check/v1"

// checkDocument is what -o json prints.
type checkDocument struct {
	Schema  string              `json:"schema"`
	Version string              `json:"version"` // of this binary
	Pre     bool                `json:"pre"`
	State   check.State         `json:"state"`
	Counts  map[check.State]int `json:"counts"`
	check.Report
}

// runCheck is the command check. It returns the process's exit code.
func runCheck(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseCheckOptions(args, stdout)
	if errors.Is(err, pflag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		refuse(stderr, err)
		return exitUsage
	}
	c := &checker{options: o}
	sections, err := c.sections()
	if err != nil {
		refuse(stderr, err)
		return exitFailed
	}
	runner := check.Runner{Limit: o.limit, Slow: "see what keeps it, or give it longer with --timeout"}
	if o.output == "text" {
		runner.Observer = &check.Text{Out: stdout, Colour: colourful(stdout)}
	}
	report := runner.Run(ctx, sections)
	if o.output == "json" {
		if err := printReport(stdout, o, report); err != nil {
			refuse(stderr, err)
			return exitFailed
		}
	}
	if report.State() == check.Failed {
		return exitFailed
	}
	return exitOK
}

func printReport(stdout io.Writer, o *checkOptions, report check.Report) error {
	document := checkDocument{Schema: checkSchema, Version: version, Pre: o.pre, State: report.State(), Counts: map[check.State]int{}, Report: report}
	for _, state := range []check.State{check.OK, check.Warning, check.Failed, check.Skipped} {
		document.Counts[state] = len(report.Outcomes(state))
	}
	encoder := json.NewEncoder(stdout)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}

// colourful returns whether out is a terminal whose user likes colours: https://no-color.org
func colourful(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// checker asks about an installation. Its checks run one after the other, and each knows what
// those before it have found.
type checker struct {
	options *checkOptions

	clients     *clients
	host        string             // of the API server
	inside      bool               // it is a Pod of the cluster
	user        string             // that the API server takes it for
	deployment  *appsv1.Deployment // of the operator; nil if there is none
	account     access             // whose permissions are asked for
	definitions []*apiextensionsv1.CustomResourceDefinition
	webhooks    []registeredWebhooks
	keys        []cloudKey
	redis       []redisNodes
}

// needConnection is what all checks but those of the connection need.
var needConnection = []string{"cluster/credentials", "cluster/ready"}

// sections are what check asks.
func (c *checker) sections() ([]check.Section, error) {
	crds, err := c.crdChecks()
	if err != nil {
		return nil, err
	}
	all := []check.Section{
		{ID: "cluster", Title: "Cluster", Checks: c.clusterChecks()},
		{ID: "crds", Title: "CustomResourceDefinitions", Needs: needConnection, Checks: crds},
		{ID: "operator", Title: "Operator", Needs: needConnection, Checks: c.operatorChecks()},
		{ID: "permissions", Title: "Permissions", Needs: needConnection, Checks: c.permissionChecks(), More: c.wantedChecks},
		{ID: "lease", Title: "Leader election", Needs: needConnection, Checks: c.leaseChecks()},
		{ID: "webhooks", Title: "Webhooks", Needs: needConnection, Checks: c.webhookChecks(), More: c.registeredChecks},
	}
	all = append(all,
		check.Section{ID: "cloud", Title: "Cloud", Needs: needConnection, Checks: c.cloudChecks(), More: c.keyChecks},
		check.Section{ID: "redis", Title: "Redis", Needs: needConnection, Checks: c.redisChecks(), More: c.nodeChecks})
	if c.options.pre {
		// What is not installed has neither.
		all = slices.DeleteFunc(all, func(s check.Section) bool { return s.ID == "webhooks" || s.ID == "redis" })
	}
	return all, nil
}

// adopt takes over what an operator in a namespace works with, by its arguments, as far as the
// command line does not say it.
func (o *checkOptions) adopt(args []string, namespace string) bool {
	its, err := parseOptions(args, io.Discard)
	if err != nil {
		return false // It is another program, or another version.
	}
	if !o.given("namespace") {
		o.namespaces = its.namespaces
	}
	if !o.given("controllers") {
		o.controllers = its.controllers
	}
	if !o.given("webhooks") {
		o.webhooks = its.webhooks
	}
	if !o.given("ecs-endpoint") {
		o.ecsEndpoint = its.ecsEndpoint
	}
	o.webhookCertPath = its.webhookCertPath
	o.metricsAddress, o.metricsSecure, o.inspectAddress = its.metricsAddress, its.metricsSecure, its.inspectAddress
	o.lease.elect = its.lease.elect
	if !o.given("leader-elect-resource-name") {
		o.leaseName = its.lease.name
	}
	if !o.given("leader-elect-resource-namespace") {
		o.leaseNamespace = cmp.Or(its.lease.namespace, namespace)
	}
	return true
}

// adoptFrom is adopt for the operator of a Deployment.
func (o *checkOptions) adoptFrom(d *appsv1.Deployment) {
	for _, container := range d.Spec.Template.Spec.Containers {
		if o.adopt(container.Args, d.Namespace) {
			return
		}
	}
}

// adoptNeighbour is adopt for the operator in whose container this process runs, if it does.
func (o *checkOptions) adoptNeighbour(commandLine []byte) bool {
	program, args, _ := strings.Cut(strings.TrimSuffix(string(commandLine), "\x00"), "\x00")
	if filepath.Base(program) != "glassback" || args == "" {
		return false
	}
	return o.adopt(strings.Split(args, "\x00"), o.operatorNamespace)
}

// runs returns whether the operator runs a controller.
func (c *checker) runs(controller string) bool {
	return slices.Contains(c.options.controllers, controller)
}

// unanswered is the result of a request that has failed.
func unanswered(err error) check.Result {
	if apierrors.IsForbidden(err) {
		return check.Skip("this account may not look: " + err.Error())
	}
	return check.Fail(err.Error(), "try again; else see how the API server is")
}

// inPod says how to run a check where the operator runs.
func (c *checker) inPod() string {
	name := "glassback-manager"
	if c.deployment != nil {
		name = c.deployment.Name
	}
	return fmt.Sprintf("kubectl exec -n %s deployment/%s -- /glassback check", c.options.operatorNamespace, name)
}
