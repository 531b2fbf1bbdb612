// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/kinds"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/version"
)

const long = `Check says whether Glassback can work in a cluster, or why it does not, and what to do about it. It changes nothing.

Before it is installed, with the account that is going to install it:

  glassback check --pre --kubeconfig ~/.kube/config

With neither --kubeconfig nor --master it uses the service account of the Pod that it runs in, or else what kubectl would use.
Of an operator that is installed in the cluster, it reads what that works with; else give it the flags that the operator is given.
The exit code is 0 if nothing has failed, 1 if something has, and 2 if the command line is wrong.`

// settings are the values of the command's flags.
type settings struct {
	options.Options // of the operator that is checked

	pre               bool
	onlyRights        bool
	allNamespaces     bool
	output            string
	limit             time.Duration // of each check
	operatorNamespace string
	leaseName         string
	leaseNamespace    string
	given             func(flag string) bool // whether the command line has it
}

// New returns glassback check.
func New() *cobra.Command { return (&settings{}).command() }

func (o *settings) command() *cobra.Command {
	c := &cobra.Command{
		Use: "check", Short: "check the cluster and the installation", Long: long,
		Args:    command.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return o.validate() },
		RunE:    command.Run(o.run),
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.BoolVar(&o.pre, "pre", false, "check whether it can be installed")
	flags.BoolVar(&o.onlyRights, "rights", false, "with --pre: print the rights that the operator will have, and ask no cluster")
	command.AddOutput(c, &o.output, command.Text, command.JSON, command.YAML)
	flags.DurationVar(&o.limit, "timeout", 10*time.Second, "how long each check may take")
	o.Cluster.Add(c, "file that says how to reach the cluster")
	flags.StringSliceVarP(&o.Namespaces, "namespace", "n", nil, "namespace that the operator works in; may be repeated (default: all)")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "the operator works in all namespaces, whatever --namespace says")
	flags.StringSliceVar(&o.Controllers, "controllers", []string{"*"},
		"controllers that it runs: * for all, NAME for that one, -NAME for not that one; there are "+
			strings.Join(kinds.Names(), ", "))
	command.CompleteValues(c, "controllers", kinds.Names()...)
	flags.StringVar(&o.ECSEndpoint, "ecs-endpoint", "",
		"http://HOST:PORT or https://HOST:PORT of an ECS API (default: Alibaba Cloud's own)")
	o.ECSOwnCredentials.AddFlags(flags)
	flags.BoolVar(&o.Webhooks, "webhooks", true, "whether it serves webhooks")
	flags.StringVar(&o.WebhookURL, "webhook-url", "",
		"https://HOST:PORT by which the API server reaches the webhooks of an operator outside of the cluster")
	flags.StringVar(&o.operatorNamespace, "operator-namespace", "",
		"namespace that it is installed in (default: that of this Pod, or "+command.DefaultNamespace+")")
	flags.StringVar(&o.leaseName, "leader-elect-resource-name", command.DefaultLease, "name of its Lease")
	flags.StringVar(&o.leaseNamespace, "leader-elect-resource-namespace", "",
		"namespace of its Lease (default: that of --operator-namespace)")
	o.given = flags.Changed
	o.Cluster.Complete(c)
	return c
}

func (o *settings) validate() error {
	if o.allNamespaces {
		o.Namespaces = nil
	}
	if o.onlyRights && !o.pre {
		return errors.New("--rights lists what an operator will be granted: use it with --pre")
	}
	if o.limit < time.Second || o.limit > 10*time.Minute {
		return fmt.Errorf("--timeout must be from 1s to 10m, not %s", o.limit)
	}
	if o.WebhookURL != "" && command.Origin(o.WebhookURL, "https") == nil {
		return fmt.Errorf("--webhook-url must be https://HOST:PORT, not %q", o.WebhookURL)
	}
	o.operatorNamespace = cmp.Or(o.operatorNamespace, command.OwnNamespace(), command.DefaultNamespace)
	o.leaseNamespace = cmp.Or(o.leaseNamespace, o.operatorNamespace)
	return errors.Join(
		command.CheckNamespace("operator-namespace", o.operatorNamespace),
		command.CheckNamespace("leader-elect-resource-namespace", o.leaseNamespace),
		command.CheckLease(o.leaseName),
		o.Validate(),
	)
}

// document is the output of -o json and -o yaml. Under the same schema name, the meaning of a field never changes, and fields are only
// added.
type document struct {
	Schema  string        `json:"schema"`
	Version string        `json:"version"` // of this binary
	Pre     bool          `json:"pre"`
	State   State         `json:"state"`
	Counts  map[State]int `json:"counts"`
	Report
}

const schemaName = "glassback.dev/check/v1"

func (o *settings) run(ctx context.Context, stdout, _ io.Writer) error {
	if o.onlyRights {
		return o.printRights(stdout)
	}
	runner := Runner{Limit: o.limit, Slow: "see what keeps it, or give it longer with --timeout"}
	if o.output == command.Text {
		runner.printer = &printer{out: stdout, colour: command.Colour(stdout)}
	}
	report := runner.Run(ctx, (&checker{options: o}).sections())
	if o.output != command.Text {
		if err := command.Print(stdout, o.output, documentOf(o, report)); err != nil {
			return err
		}
	}
	if report.State() == Failed {
		return command.Exit{Code: command.Failed}
	}
	return nil
}

func documentOf(o *settings, report Report) document {
	d := document{Schema: schemaName, Version: version.Version(), Pre: o.pre, State: report.State(), Counts: map[State]int{}, Report: report}
	for _, state := range []State{OK, Warning, Failed, Skipped} {
		d.Counts[state] = len(report.Outcomes(state))
	}
	return d
}
