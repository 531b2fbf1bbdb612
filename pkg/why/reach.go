// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/inspect"
)

// localOperator is the URL of an operator on this machine, with the address that the documents use.
const localOperator = "http://127.0.0.1:8082"

// localPatience is the time in which that operator must answer.
const localPatience = 2 * time.Second

// target holds the flags that why and trace have in common: they select an operator and an object.
type target struct {
	program string // "why" or "trace"
	local   string // URL of an operator on this machine

	address           string // empty: the operator on this machine, or else one in the cluster
	cluster           clients.Flags
	operatorNamespace string
	leaseName         string
	sendOwnToken      bool

	output string                 // text, json or yaml
	object inspect.Object         // a field is empty if the user did not name it
	given  func(flag string) bool // whether the command line has it
}

// addFlags adds the flags that both commands have.
func (o *target) addFlags(c *cobra.Command, namespace string) {
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVarP(&o.object.Namespace, "namespace", "n", "", namespace)
	command.AddOutput(c, &o.output, command.Text, command.JSON, command.YAML)
	flags.StringVar(&o.address, "address", "",
		"http://HOST:PORT of the operator's page (default: that of the operator in the cluster of --kubeconfig or $KUBECONFIG; "+
			"or "+localOperator+", if one answers; or in kubectl's cluster)")
	o.cluster.Add(c, "file that says how to reach the cluster that the operator runs in (default: as for kubectl)")
	flags.StringVar(&o.operatorNamespace, "operator-namespace", "",
		"namespace that it is installed in (default: "+command.DefaultNamespace+")")
	flags.StringVar(&o.leaseName, "leader-elect-resource-name", command.DefaultLease, "name of its Lease")
	flags.BoolVar(&o.sendOwnToken, "send-own-token", false,
		"if you may not create a token of ServiceAccount glassback-inspector, send the operator's Pod the token of your kubeconfig: "+
			"an attacker who controls that Pod can use it to do all that you may, until it expires")
	o.given = flags.Changed
	o.cluster.Complete(c)
}

// name reads KIND/NAME, or KIND NAME, as kubectl does.
func (o *target) name(args []string) error {
	switch len(args) {
	case 0:
		return nil
	case 1, 2:
		kind, name, both := strings.Cut(strings.Join(args, "/"), "/")
		if kind == "" || (both && (name == "" || strings.Contains(name, "/"))) {
			return fmt.Errorf("%q is no KIND/NAME, such as mcj/mycronjob-sample: the namespace is said with -n", strings.Join(args, " "))
		}
		o.object.Kind, o.object.Name = kind, name
		return nil
	}
	return fmt.Errorf("unexpected argument %q: ask for one object at a time", args[2])
}

// clusterFlags are the flags which mean that the operator is in a cluster.
var clusterFlags = []string{"kubeconfig", "context", "master", "operator-namespace", "leader-elect-resource-name", "send-own-token"}

// validate reads the object, and checks the flags that both commands have.
func (o *target) validate(args []string) error {
	return errors.Join(o.name(args), o.validateFlags())
}

func (o *target) validateFlags() error {
	if o.given("address") && command.Origin(o.address, "http") == nil {
		return fmt.Errorf("--address must be http://HOST:PORT, not %q: "+
			"an operator in a cluster is asked through the API server, see --kubeconfig", o.address)
	}
	for _, flag := range clusterFlags {
		if o.address != "" && o.given(flag) {
			return fmt.Errorf("--address says where the operator is: leave out --%s", flag)
		}
	}
	o.operatorNamespace = cmp.Or(o.operatorNamespace, command.OwnNamespace(), command.DefaultNamespace)
	return errors.Join(command.CheckNamespace("operator-namespace", o.operatorNamespace), command.CheckLease(o.leaseName))
}

// operator is an operator that answers.
type operator struct {
	*client

	called    string // its name in messages
	remedy    string // what to do if it does not answer
	namespace string // of objects, if the user names none
}

// reach finds the operator: at --address; in the cluster that flags or $KUBECONFIG name; on this machine; in the cluster of
// kubectl. It calls notice with the name of the operator that it found, unless the user named it by --address.
func (o *target) reach(ctx context.Context, notice func(string)) (*operator, error) {
	if o.address != "" {
		return &operator{
			client: clientAt(o.address), called: "the operator at " + o.address,
			remedy: "start it with --inspect-bind-address", namespace: "default",
		}, nil
	}
	if slices.ContainsFunc(clusterFlags, o.given) {
		return o.reachInCluster(ctx, notice)
	}
	named := os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != ""
	if !named {
		if found := o.reachHere(ctx, notice); found != nil {
			return found, nil
		}
	}
	found, err := o.reachInCluster(ctx, notice)
	if named && errors.Is(err, errNotInstalled) { // An operator on this machine may work on that cluster.
		if found := o.reachHere(ctx, notice); found != nil {
			return found, nil
		}
	}
	return found, err
}

// reachHere returns the operator on this machine, or nil if none answers.
func (o *target) reachHere(ctx context.Context, notice func(string)) *operator {
	ctx, cancel := context.WithTimeout(ctx, localPatience)
	defer cancel()
	local := clientAt(o.local)
	if overview, err := local.overview(ctx); err != nil || overview.Instance == "" {
		local.close()
		return nil // Another program may listen there.
	}
	found := &operator{client: local, called: "the operator at " + o.local, namespace: "default"}
	notice("asking " + found.called)
	return found
}

func (o *target) reachInCluster(ctx context.Context, notice func(string)) (*operator, error) {
	config, err := clients.Load(o.cluster, clients.Kubectl, o.program)
	if errors.Is(err, clients.ErrNoCluster) {
		return nil, fmt.Errorf("no operator answers at %s, and kubectl has no cluster: start one with --inspect-bind-address=%s, "+
			"or say with --address or --kubeconfig where it is", o.local, strings.TrimPrefix(o.local, "http://"))
	}
	if err != nil {
		return nil, err
	}
	c, err := clients.New(config.Config)
	if err != nil {
		return nil, err
	}
	pod, err := findReplica(ctx, c.Kube, o.operatorNamespace, o.leaseName)
	if err != nil {
		return nil, err
	}
	found := &operator{
		called: "Pod " + pod.name + " in namespace " + pod.namespace, namespace: config.Namespace,
		remedy: "see glassback check, and that it has --inspect-bind-address",
	}
	if found.client, err = clientIn(ctx, config.Config, c.Kube, pod, o.sendOwnToken); err != nil {
		return nil, err
	}
	notice("asking " + found.called)
	if pod.leader != "" && !pod.leads {
		notice(fmt.Sprintf("this replica is a standby and syncs nothing: the leader %s is not a Pod of this cluster", pod.leader))
	}
	return found, nil
}

// unanswered adds the name of the operator to err, and what to do. It does not change an answer of the operator.
func (o *operator) unanswered(err error) error {
	if refusal, refused := errors.AsType[*refusedError](err); refused {
		if refusal.Foreign && refusal.Status == http.StatusNotFound {
			return fmt.Errorf("%s serves no page there: start it with --inspect-bind-address, and ask at that address: %w", o.called, err)
		}
		return err
	}
	return fmt.Errorf("%s does not answer, %s: %w", o.called, cmp.Or(o.remedy, "see its log"), err)
}
