// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan implements the command glassback plan. It prints what this version of the operator would do with each object now, and
// changes nothing. It fills caches once, and runs fetch, observe and decide of each controller. Its clients reject writes.
package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/controller/ecsinstance"
	"github.com/glassback/glassback/pkg/version"
)

const long = `Plan prints what this version of the operator would do with the objects of all five kinds now. It changes nothing: neither in
the cluster nor in Redis nor in ECS.

For each object, the plan has the writes to the API server with the fields that they change, the commands to Redis, and the calls to ECS.
It shows no data of Secrets and ConfigMaps, and no values of environment variables. Run it before an upgrade, with the next version.

Redis-servers have the addresses of Pods: outside of the cluster, they do not answer. With --offline, the command asks neither them nor
ECS, reads no Secret, and says for which objects the plan is incomplete.

The exit code is 0 if there is nothing to do, 2 if there is something to do, and 1 if the command line is wrong, or if the state of an
object could not be read.`

// somethingToDo is the exit code if an object is not settled. A wrong command line has the code 1 here.
const somethingToDo = 2

// settings are the values of the command's flags.
type settings struct {
	cluster       clients.Flags
	namespace     string // empty: that of the kubeconfig's context
	allNamespaces bool
	offline       bool
	endpoint      string // of ECS
	own           ecsinstance.OwnCredentials
	backupImage   string // of the Jobs of RedisClusters
	output        string // text, json or yaml
}

// New returns glassback plan.
func New() *cobra.Command {
	o := &settings{}
	c := &cobra.Command{
		Use: "plan [-n NAMESPACE | -A] [--offline]", Short: "print what this version would do with all objects, and do nothing", Long: long,
		Annotations: map[string]string{command.UsageFails: "true"},
		Args:        command.NoArgs,
		PreRunE:     func(*cobra.Command, []string) error { return o.validate() },
		RunE:        command.Run(o.connectAndRun),
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVarP(&o.namespace, "namespace", "n", "",
		"namespace of the objects (default: that of the kubeconfig's context, or \"default\")")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "plan for the objects of all namespaces")
	flags.BoolVar(&o.offline, "offline", false, "ask neither Redis nor ECS, and read no Secret")
	command.AddOutput(c, &o.output, command.Text, command.JSON, command.YAML)
	o.cluster.Add(c, "file that says how to reach the cluster (default: as for kubectl)")
	flags.StringVar(&o.endpoint, "ecs-endpoint", "", "URL of ECS, as the operator has it (default: Alibaba Cloud's own)")
	o.own.AddFlags(flags)
	flags.StringVar(&o.backupImage, "backup-image", "", "image of the Jobs of backups, as the operator has it (default: none)")
	o.cluster.Complete(c)
	return c
}

func (o *settings) validate() error {
	if err := errors.Join(command.CheckBackupImage(o.backupImage), o.own.Validate()); err != nil {
		return err
	}
	if o.namespace != "" {
		return command.CheckNamespace("namespace", o.namespace)
	}
	return nil
}

func (o *settings) connectAndRun(ctx context.Context, stdout, stderr io.Writer) error {
	c, err := o.connect()
	if err != nil {
		return err
	}
	code, err := o.run(klog.NewContext(ctx, klog.Logger{}), c, stdout, stderr)
	if err != nil {
		return err
	}
	return command.Exit{Code: code}
}

// connect returns clients that only read, and sets the namespace.
func (o *settings) connect() (*clients.Clients, error) {
	config, err := clients.Load(o.cluster, clients.Kubectl, "plan")
	if err != nil {
		return nil, err
	}
	o.namespace = cmp.Or(o.namespace, config.Namespace, command.OwnNamespace(), metav1.NamespaceDefault)
	if o.allNamespaces {
		o.namespace = metav1.NamespaceAll
	}
	config.Wrap(clients.ReadOnly)
	return clients.New(config.Config)
}

// run prints the plan, and returns the exit code for it. It returns an error if there is no plan, or if it cannot print it.
func (o *settings) run(ctx context.Context, c *clients.Clients, stdout, stderr io.Writer) (int, error) {
	cloud, err := aliyun.New(aliyun.Config{
		Endpoint: o.endpoint, UserAgent: "glassback-plan/" + version.Version(), ReadOnly: true, Metadata: o.own.Metadata(),
	})
	if err != nil {
		return 0, err
	}
	kinds, err := newKinds(c, cloud, o)
	if err != nil {
		return 0, err
	}
	objects, err := planAll(ctx, kinds, o.offline)
	if err != nil {
		return 0, err
	}
	if o.output == command.JSON || o.output == command.YAML {
		err = command.Print(stdout, o.output, document{Schema: schemaName, Version: version.Version(), Objects: objects})
	} else {
		err = o.print(stdout, stderr, objects)
	}
	return o.exitCode(objects), err
}

// exitCode returns the exit code for these objects.
func (o *settings) exitCode(objects []Object) int {
	code := command.OK
	for _, object := range objects {
		switch {
		case object.Error != "" || (object.Incomplete != "" && !o.offline):
			return command.Failed
		case !object.Settled:
			code = somethingToDo
		}
	}
	return code
}

// document is the output of -o json and -o yaml. Under the same schema name, the meaning of a field never changes, and fields are only
// added.
type document struct {
	Schema  string   `json:"schema"`
	Version string   `json:"version"` // of this program
	Objects []Object `json:"objects"`
}

const schemaName = "glassback.dev/plan/v1"

// print prints the table.
func (o *settings) print(stdout, stderr io.Writer, objects []Object) error {
	if len(objects) == 0 {
		where := "in namespace " + o.namespace
		if o.allNamespaces {
			where = "in any namespace"
		}
		fmt.Fprintln(stderr, "There are no objects of Glassback "+where+".")
		return nil
	}
	return printTable(stdout, objects, o.allNamespaces)
}
