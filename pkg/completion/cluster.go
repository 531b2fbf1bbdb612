// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package completion

import (
	"cmp"
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/crds"
)

// The limits of a request: how long a user waits after Tab, and how many names a shell can show.
const (
	timeout  = 2 * time.Second
	maxNames = "500"
)

// kinds returns the names of the five kinds, as kubectl completes them, and their short names.
func kinds() []string {
	var names []string
	for _, definition := range crds.All() {
		names = append(append(names, definition.Spec.Names.Plural), definition.Spec.Names.ShortNames...)
	}
	slices.Sort(names)
	return names
}

// contexts returns the names of the contexts in the kubeconfig.
func (l *line) contexts() []string {
	names, err := clients.Contexts(l.kubeconfig())
	if err != nil {
		return nil
	}
	return names
}

// namespaces returns the names of all namespaces.
func (l *line) namespaces(ctx context.Context) []string {
	return l.names(ctx, func(string) string { return "/api/v1/namespaces" })
}

// objects returns the names of the objects of a kind. They are in the namespace of the command line, or else of the kubeconfig.
func (l *line) objects(ctx context.Context, kind string) []string {
	all := crds.All()
	at := slices.IndexFunc(all, func(d *apiextensionsv1.CustomResourceDefinition) bool {
		names := d.Spec.Names
		return slices.ContainsFunc(append([]string{names.Plural, names.Singular, names.Plural + "." + d.Spec.Group}, names.ShortNames...),
			func(name string) bool { return strings.EqualFold(name, kind) })
	})
	if at < 0 {
		return nil
	}
	d := all[at]
	return l.names(ctx, func(namespace string) string {
		if l.value("all-namespaces") == "true" || (l.Everywhere && l.value("namespace") == "") {
			return path.Join("/apis", d.Spec.Group, d.Spec.Versions[0].Name, d.Spec.Names.Plural)
		}
		namespace = cmp.Or(l.value("namespace"), namespace, metav1.NamespaceDefault)
		return path.Join("/apis", d.Spec.Group, d.Spec.Versions[0].Name, "namespaces", namespace, d.Spec.Names.Plural)
	})
}

// names returns the names of the objects at a path, which depends on the namespace of the kubeconfig. After an error it returns none.
func (l *line) names(ctx context.Context, at func(namespace string) string) []string {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	flags := clients.Flags{Kubeconfig: l.kubeconfig(), Context: l.value("context"), Master: l.value("master")}
	config, err := clients.Load(flags, clients.Kubectl, "completion")
	if err != nil {
		return nil
	}
	c, err := clients.New(config.Config)
	if err != nil {
		return nil
	}
	raw, err := c.Kube.CoreV1().RESTClient().Get().AbsPath(at(config.Namespace)).Param("limit", maxNames).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").Do(ctx).Raw()
	if err != nil {
		return nil
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}
