// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

var (
	// clusterResources are read when the operator starts. The operator needs them only if it watches all namespaces.
	clusterResources = []string{"customresourcedefinitions"}
	// webhookConfigurations hold the caBundle, which the operator writes unless another program does.
	webhookConfigurations = []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}
	// clusterScoped are the cluster-scoped resources of namespacedGroups. A rule for one of them in a Role would have no effect.
	clusterScoped = []string{"componentstatuses", "namespaces", "nodes", "persistentvolumes", "ingressclasses", "ipaddresses", "servicecidrs"}
)

// namespacedGroups are the API groups whose resources are namespaced, except for those in clusterScoped.
var namespacedGroups = []string{
	"", "apps", "autoscaling", "batch", "gateway.networking.k8s.io", "networking.k8s.io", "policy",
	"alibabacloud.zhouzhengxi.com", "app.aiops.org", "batch.wzj.kubebuilder.io",
	"bytewang123-redis.wzj.kubebuilder.io", "groupa.k8s.zhuang.com",
}

// parts maps the first word of a comment to the template's condition for the rules below it. "" means no condition.
var parts = map[string]string{"All": "", "Webhooks": ".webhooks"}

func runs(controller string) string { return fmt.Sprintf("(has %q .controllers)", controller) }

// rules turns the rules of a ClusterRole into a template in which each rule has a condition. The chart uses it for a ClusterRole or for
// Roles. A Role gets only the rules for namespaced resources. Rules of webhooks and controllers that do not run are left out.
func rules(manifest string) (string, error) {
	_, list, found := strings.Cut(manifest, "\nrules:\n")
	if !found {
		return "", fmt.Errorf("the manifest has no rules")
	}
	var out strings.Builder
	out.WriteString(`{{- define "glassback.rules" -}}` + "\n")
	last, part, known := "", "", false
	for _, block := range blocks(list) {
		when, err := condition(block)
		if err != nil {
			return "", err
		}
		if needed, begins := partOf(block); begins {
			part, known = needed, true
		}
		if when == ".namespaced" {
			if !known {
				return "", fmt.Errorf("say in a comment which part of the operator needs this rule: its first sentence is the name of a kind, "+
					"or its first word one of %v: %s", slices.Sorted(maps.Keys(parts)), block)
			}
			if part != "" {
				when = "and " + when + " " + part
			}
		}
		if when != last {
			if last != "" {
				out.WriteString("{{- end }}\n")
			}
			fmt.Fprintf(&out, "{{- if %s }}\n", when)
		}
		last = when
		out.WriteString(block)
	}
	out.WriteString("{{- end }}\n{{- end }}\n")
	return out.String(), nil
}

// partOf returns the condition that begins with the comment above a rule. If the first sentence is one word, it names a kind, or a
// controller.
func partOf(block string) (condition string, begins bool) {
	comment, found := strings.CutPrefix(block, "# ")
	if !found {
		return "", false
	}
	line, _, _ := strings.Cut(comment, "\n")
	word, _, _ := strings.Cut(line, " ")
	name := strings.TrimRight(word, ".:")
	if condition, begins = parts[name]; !begins && (word == line || word != name) {
		return runs(strings.ToLower(name)), true
	}
	return condition, begins
}

// blocks splits a list into its entries, each with the comment above it, and removes the indentation.
func blocks(list string) []string {
	var all []string
	comment := ""
	for line := range strings.Lines(list) {
		line = strings.TrimPrefix(line, "  ")
		switch {
		case strings.HasPrefix(line, "#"):
			comment += line
		case strings.HasPrefix(line, "- "):
			all = append(all, comment+line)
			comment = ""
		case len(all) > 0:
			all[len(all)-1] += line
		}
	}
	return all
}

// condition returns the template's condition for a rule: .cluster, .injection or .namespaced.
func condition(block string) (string, error) {
	var parsed []rbacv1.PolicyRule
	if err := yaml.UnmarshalStrict([]byte(block), &parsed); err != nil || len(parsed) != 1 {
		return "", fmt.Errorf("parse one rule in %q: %w", block, err)
	}
	rule := parsed[0]
	among := func(values, allowed []string) bool {
		return len(values) > 0 && !slices.ContainsFunc(values, func(v string) bool { return !slices.Contains(allowed, v) })
	}
	isClusterScoped := func(resource string) bool {
		resource, _, _ = strings.Cut(resource, "/") // without the subresource
		return slices.Contains(clusterScoped, resource)
	}
	switch {
	case among(rule.Resources, clusterResources):
		return ".cluster", nil
	case among(rule.Resources, webhookConfigurations):
		return ".injection", nil
	case among(rule.APIGroups, namespacedGroups) && len(rule.Resources) > 0 && !slices.ContainsFunc(rule.Resources, isClusterScoped):
		return ".namespaced", nil
	default:
		return "", fmt.Errorf("say in hack/chart/rules.go whether these resources are namespaced: %s", block)
	}
}
