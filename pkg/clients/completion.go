// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/glassback/glassback/pkg/command"
)

// The limits of a request for names: how long a user waits after Tab, and how many names a shell can show.
const (
	completionTimeout = 2 * time.Second
	maxNames          = "500"
)

// Complete has shells complete the flags of a command whose values are in the kubeconfig, or in the cluster that f names: contexts and
// namespaces. Call it once the command has all of its flags.
func (f *Flags) Complete(c *cobra.Command) {
	namespaces := func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return f.Names(c.Context(), func(string) string { return "/api/v1/namespaces" }), cobra.ShellCompDirectiveNoFileComp
	}
	for flag, complete := range map[string]cobra.CompletionFunc{
		"kubeconfig": command.CompleteFiles, "context": f.contexts, "namespace": namespaces,
		"operator-namespace": namespaces, "leader-elect-resource-namespace": namespaces,
	} {
		if c.Flags().Lookup(flag) != nil {
			command.Complete(c, flag, complete)
		}
	}
}

// contexts returns the names of the contexts in the kubeconfig.
func (f *Flags) contexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.Kubeconfig
	config, err := rules.Load()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return harmless(slices.Sorted(maps.Keys(config.Contexts))), cobra.ShellCompDirectiveNoFileComp
}

// Names returns the names of the objects at a path, which depends on the namespace of the kubeconfig. After an error it returns none: an
// error would be in the middle of a command line.
func (f *Flags) Names(ctx context.Context, path func(namespace string) string) []string {
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	config, err := Load(*f, Kubectl, "completion")
	if err != nil {
		return nil
	}
	c, err := New(config.Config)
	if err != nil {
		return nil
	}
	raw, err := c.Kube.CoreV1().RESTClient().Get().AbsPath(path(config.Namespace)).Param("limit", maxNames).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").Do(ctx).Raw()
	var list metav1.PartialObjectMetadataList
	if err != nil || json.Unmarshal(raw, &list) != nil {
		return nil
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return harmless(names)
}

// shellSafe matches words that no shell interprets. Names of contexts and objects are the text of others.
var shellSafe = regexp.MustCompile(`^[\w.:/@=+,%-]+$`)

// harmless returns the words that no shell interprets.
func harmless(all []string) []string {
	return slices.DeleteFunc(all, func(word string) bool { return !shellSafe.MatchString(word) })
}
