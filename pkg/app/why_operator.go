/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/glassback/glassback/pkg/inspect"
	"github.com/glassback/glassback/pkg/inspect/client"
)

// localOperator is where an operator is asked first that runs on this machine, as the documents
// start one.
const localOperator = "http://127.0.0.1:8082"

// localPatience is how long that may take to answer.
const localPatience = 2 * time.Second

// askOptions say which operator is asked, and about what: the flags that why and trace have both.
type askOptions struct {
	command string // "why" or "trace"
	local   string // where an operator on this machine is

	address           string // empty: the one on this machine, or else one in the cluster
	kubeconfig        string
	master            string
	operatorNamespace string
	leaseName         string
	sendOwnToken      bool

	output string                 // text or json
	object inspect.Object         // what is empty is not said
	given  func(flag string) bool // whether the command line has it
}

// flags returns those that both commands have.
func (o *askOptions) flags(namespace string) *pflag.FlagSet {
	flags := pflag.NewFlagSet("glassback "+o.command, pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringVarP(&o.object.Namespace, "namespace", "n", "", namespace)
	flags.StringVarP(&o.output, "output", "o", "text", "text, or json for programs")
	flags.StringVar(&o.address, "address", "", "http://HOST:PORT of the operator's page (default: that of the operator in the cluster of --kubeconfig or $KUBECONFIG; or "+localOperator+", if one answers; or in kubectl's cluster)")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "file that says how to reach the cluster that the operator runs in (default: as for kubectl)")
	flags.StringVar(&o.master, "master", "", "URL of the API server; overrides the one in the kubeconfig")
	flags.StringVar(&o.operatorNamespace, "operator-namespace", "", "namespace that it is installed in (default: "+defaultNamespace+")")
	flags.StringVar(&o.leaseName, "leader-elect-resource-name", defaultLeaseName, "name of its Lease")
	flags.BoolVar(&o.sendOwnToken, "send-own-token", false,
		"if you may not create a token of ServiceAccount glassback-inspector, send the operator's Pod the token of your kubeconfig: whoever controls that Pod can use it to do all that you may, until it expires")
	o.given = flags.Changed
	flags.Usage = func() {}
	return flags
}

// parse reads the command line. It prints usage if that is asked for, and returns
// pflag.ErrHelp then.
func (o *askOptions) parse(flags *pflag.FlagSet, args []string, usage string, stdout io.Writer) error {
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			fmt.Fprint(stdout, usage, flags.FlagUsages())
		}
		return err
	}
	if o.given("namespace") && o.object.Namespace == "" {
		return errors.New("--namespace must not be empty: leave it out")
	}
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("--output must be text or json, not %q", o.output)
	}
	return errors.Join(o.name(flags.Args()), o.validate())
}

// name reads KIND/NAME, or KIND NAME, as kubectl does.
func (o *askOptions) name(args []string) error {
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

// clusterFlags say that the operator is in a cluster.
var clusterFlags = []string{"kubeconfig", "master", "operator-namespace", "leader-elect-resource-name", "send-own-token"}

func (o *askOptions) validate() error {
	if u, err := url.Parse(o.address); o.given("address") &&
		(err != nil || u.Scheme != "http" || u.Hostname() == "" || *u != (url.URL{Scheme: u.Scheme, Host: u.Host})) {
		return fmt.Errorf("--address must be http://HOST:PORT, not %q: an operator in a cluster is asked through the API server, see --kubeconfig", o.address)
	}
	for _, flag := range clusterFlags {
		if o.address != "" && o.given(flag) {
			return fmt.Errorf("--address says where the operator is: leave out --%s", flag)
		}
	}
	o.operatorNamespace = cmp.Or(o.operatorNamespace, ownNamespace(), defaultNamespace)
	if problems := content.IsDNS1123Label(o.operatorNamespace); len(problems) > 0 {
		return fmt.Errorf("--operator-namespace %q is not the name of a namespace: %s", o.operatorNamespace, problems[0])
	}
	if problems := content.IsDNS1123Subdomain(o.leaseName); len(problems) > 0 {
		return fmt.Errorf("--leader-elect-resource-name %q is not the name of a Lease: %s", o.leaseName, problems[0])
	}
	return nil
}

// operator is one that answers.
type operator struct {
	*client.Client

	called    string // for a person
	remedy    string // where it does not answer
	namespace string // that objects are looked for in, if none is said
}

// reach finds the operator: at --address; in the cluster that flags or $KUBECONFIG name; on this
// machine; in the cluster that kubectl has. Which one it is, if nobody has said so, and whatever
// else a person should know of it, it tells.
func (o *askOptions) reach(ctx context.Context, tell func(string)) (*operator, error) {
	if o.address != "" {
		return &operator{Client: client.At(o.address), called: "the operator at " + o.address, remedy: "start it with --inspect-bind-address", namespace: "default"}, nil
	}
	if slices.ContainsFunc(clusterFlags, o.given) {
		return o.reachInCluster(ctx, tell)
	}
	named := os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != ""
	if !named {
		if found := o.reachHere(ctx, tell); found != nil {
			return found, nil
		}
	}
	found, err := o.reachInCluster(ctx, tell)
	if named && errors.Is(err, client.ErrNotInstalled) { // It may work on that cluster from here.
		if found := o.reachHere(ctx, tell); found != nil {
			return found, nil
		}
	}
	return found, err
}

// reachHere returns the operator on this machine; nil if none answers.
func (o *askOptions) reachHere(ctx context.Context, tell func(string)) *operator {
	ctx, cancel := context.WithTimeout(ctx, localPatience)
	defer cancel()
	local := client.At(o.local)
	if overview, err := local.Overview(ctx); err != nil || overview.Instance == "" {
		local.Close()
		return nil // Something else may be there.
	}
	found := &operator{Client: local, called: "the operator at " + o.local, namespace: "default"}
	tell("asking " + found.called)
	return found
}

func (o *askOptions) reachInCluster(ctx context.Context, tell func(string)) (*operator, error) {
	config, namespace, err := o.restConfig()
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("set up the client for %s: %w", config.Host, err)
	}
	pod, err := client.Find(ctx, kube, client.Installed{Namespace: o.operatorNamespace, Lease: o.leaseName})
	if err != nil {
		return nil, err
	}
	found := &operator{called: "Pod " + pod.Name + " in namespace " + pod.Namespace, remedy: "see glassback check", namespace: namespace}
	if found.Client, err = client.In(ctx, config, kube, pod, o.sendOwnToken); err != nil {
		return nil, err
	}
	tell("asking " + found.called)
	if pod.Leader != "" && !pod.Leads {
		tell(fmt.Sprintf("it stands by, and syncs nothing: %s leads, and is no Pod there", pod.Leader))
	}
	return found, nil
}

// unanswered says of err who has not answered, and what to do. A Refusal is an answer.
func (o *operator) unanswered(err error) error {
	if _, refused := errors.AsType[*client.Refusal](err); refused {
		return err
	}
	return fmt.Errorf("%s does not answer, %s: %w", o.called, cmp.Or(o.remedy, "see its log"), err)
}

// restConfig is that of kubectl, or of the Pod that this is. With it comes the namespace that
// objects are in, if none is said.
func (o *askOptions) restConfig() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	overrides := &clientcmd.ConfigOverrides{}
	overrides.ClusterInfo.Server = o.master
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", fmt.Errorf("no operator answers at %s, and kubectl has no cluster: start one with --inspect-bind-address=%s, or say with --address or --kubeconfig where it is",
			o.local, strings.TrimPrefix(o.local, "http://"))
	}
	if err != nil {
		return nil, "", fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	prepare(config, "glassback-"+o.command)
	config.WarningHandler = rest.NoWarnings{}
	return config, namespace, nil
}
