// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/glassback/glassback/pkg/crds"
)

// completeObject returns a function that completes KIND NAME, or KIND/NAME, with objects of the five kinds. namespaceOf returns the
// namespace of the objects, or "" for all, by the namespace of the kubeconfig.
func (o *target) completeObject(namespaceOf func(string) string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, last string) (words []string, _ cobra.ShellCompDirective) {
		kind, _, both := strings.Cut(last, "/")
		switch {
		case len(args) == 0 && !both:
			words = kinds()
		case len(args) == 0:
			for _, name := range o.names(c.Context(), kind, namespaceOf) {
				words = append(words, kind+"/"+name)
			}
		case len(args) == 1 && !strings.Contains(args[0], "/"):
			words = o.names(c.Context(), args[0], namespaceOf)
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// kinds returns the names of the five kinds, as kubectl completes them, and their short names.
func kinds() []string {
	var names []string
	for _, definition := range crds.All() {
		names = append(append(names, definition.Spec.Names.Plural), definition.Spec.Names.ShortNames...)
	}
	slices.Sort(names)
	return names
}

// names returns the names of the objects of one of the five kinds.
func (o *target) names(ctx context.Context, kind string, namespaceOf func(string) string) []string {
	all := crds.All()
	at := slices.IndexFunc(all, func(d *apiextensionsv1.CustomResourceDefinition) bool {
		names := d.Spec.Names
		return slices.ContainsFunc(append([]string{names.Plural, names.Singular, d.Name}, names.ShortNames...),
			func(name string) bool { return strings.EqualFold(name, kind) })
	})
	if at < 0 {
		return nil
	}
	spec := all[at].Spec
	return o.cluster.Names(ctx, func(namespace string) string {
		version := path.Join("/apis", spec.Group, spec.Versions[0].Name)
		if namespace = namespaceOf(namespace); namespace == "" {
			return path.Join(version, spec.Names.Plural)
		}
		return path.Join(version, "namespaces", namespace, spec.Names.Plural)
	})
}
