// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clients connects to an API server: which one, with which credentials and clients, how far its clock is from that of this
// machine, and which operator process leads there.
package clients

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/glassback/glassback/pkg/version"
)

// Default is the cluster that is meant if no flag names one.
type Default int

// The defaults.
const (
	Pod          Default = iota // the cluster of the Pod that this process runs in, and no other one
	PodOrKubectl                // that cluster, or outside of a Pod the one that kubectl would use
	Kubectl                     // the cluster that kubectl would use; in a Pod without a kubeconfig the cluster of the Pod
)

// Flags say which cluster is meant. All of them may be empty.
type Flags struct {
	Kubeconfig string
	Context    string // of the kubeconfig; empty for its current one
	Master     string // URL of the API server
}

// Add adds the flags to a command, with kubeconfig as the usage of --kubeconfig.
func (f *Flags) Add(c *cobra.Command, kubeconfig string) {
	flags := c.Flags()
	flags.StringVar(&f.Kubeconfig, "kubeconfig", "", kubeconfig)
	flags.StringVar(&f.Context, "context", "", "context of the kubeconfig (default: its current one)")
	flags.StringVar(&f.Master, "master", "", "URL of the API server; overrides the one in the kubeconfig")
}

// Given reports whether one of the flags is set.
func (f Flags) Given() bool { return f != Flags{} }

// Config says how to reach an API server.
type Config struct {
	*rest.Config

	// InPod says that it is the service account of the Pod that this process runs in.
	InPod bool
	// Namespace is the one that kubectl would use. It is empty with InPod.
	Namespace string
}

// ErrNoCluster is the error of Load if no flag names a cluster, and there is no other one either.
var ErrNoCluster = errors.New("this is not a Pod, and kubectl has no cluster either")

// Load returns how to reach the cluster that the flags name, or else the default one. command is "", or the name of the command
// that is not the operator: an audit log then distinguishes them, and warnings of the API server are not shown.
func Load(flags Flags, otherwise Default, command string) (*Config, error) {
	config, err := load(flags, otherwise)
	if err != nil {
		return nil, err
	}
	config.UserAgent = "glassback/" + version.Version()
	if command != "" {
		config.UserAgent = "glassback-" + command + "/" + version.Version()
		config.WarningHandler = rest.NoWarnings{}
	}
	config.QPS = -1 // The server limits the rate itself, and knows more.
	// Without this, an API server compresses large lists, and since Kubernetes 1.37 also the watches that begin with a list. Inside
	// a cluster, the CPU time costs more than the network. kube-controller-manager does the same. A command may be far away.
	config.DisableCompression = command == ""
	hideCredentials(config.Config)
	return config, nil
}

func load(flags Flags, otherwise Default) (*Config, error) {
	if !flags.Given() && otherwise != Kubectl {
		config, err := rest.InClusterConfig()
		switch {
		case err == nil:
			return &Config{Config: config, InPod: true}, nil
		case !errors.Is(err, rest.ErrNotInCluster):
			return nil, fmt.Errorf("read the Pod's service account: %w", err)
		case otherwise == Pod:
			return nil, errors.New("this is not a Pod in a cluster: say which cluster with --kubeconfig FILE, such as --kubeconfig ~/.kube/config")
		}
	}
	if flags.Kubeconfig != "" {
		if _, err := os.Stat(flags.Kubeconfig); err != nil {
			return nil, fmt.Errorf("cannot read the kubeconfig, give --kubeconfig a file that is there: %w", err)
		}
	}
	rules := &clientcmd.ClientConfigLoadingRules{}
	if !flags.Given() || otherwise == Kubectl || (flags.Kubeconfig == "" && flags.Context != "") {
		rules = clientcmd.NewDefaultClientConfigLoadingRules()
	}
	rules.ExplicitPath = flags.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: flags.Context}
	overrides.ClusterInfo.Server = flags.Master
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) && !flags.Given() {
		return nil, ErrNoCluster
	}
	var namespace string
	if err == nil { // Otherwise Namespace returns the same error.
		namespace, _, err = loader.Namespace()
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use the kubeconfig %s: %w", cmp.Or(flags.Kubeconfig, "of kubectl"), err)
	}
	return &Config{Config: config, Namespace: namespace}, nil
}

// hideCredentials moves the user and the password of the server's URL, which logs and errors show, to where client-go hides them.
func hideCredentials(config *rest.Config) {
	u, err := url.Parse(config.Host)
	if err != nil || u.User == nil {
		return
	}
	if config.BearerToken == "" && config.BearerTokenFile == "" && config.Username == "" {
		config.Username = u.User.Username()
		config.Password, _ = u.User.Password()
	}
	u.User = nil
	config.Host = u.String()
}
