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

// Cluster-scoped resources: those of role.yaml, and those of the API groups in namespacedGroups.
var (
	atTheStart = []string{"customresourcedefinitions"}
	injection  = []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}

	ofTheCluster = []string{"componentstatuses", "namespaces", "nodes", "persistentvolumes", "ingressclasses", "ipaddresses", "servicecidrs"}
)

// namespacedGroups are the API groups whose other resources are namespaced.
var namespacedGroups = []string{
	"", "apps", "autoscaling", "batch", "networking.k8s.io", "policy",
	"alibabacloud.zhouzhengxi.com", "app.aiops.org", "batch.wzj.kubebuilder.io",
	"bytewang123-redis.wzj.kubebuilder.io", "groupa.k8s.zhuang.com",
}

// parts maps the first word of a comment above rules to the condition under which the operator needs these rules.
var parts = map[string]string{
	"All": "", "Webhooks": ".webhooks",
	"ApiExampleA": runs("apiexamplea"), "Application": runs("application"), "ECSInstance": runs("ecsinstance"),
	"MyCronJob": runs("mycronjob"), "RedisCluster": runs("rediscluster"),
}

func runs(controller string) string { return fmt.Sprintf("(has %q .controllers)", controller) }

// rules makes a template of the rules of a ClusterRole, each with a condition. A Role in a namespace has only some of them. Fewer are
// needed if another program writes the caBundle, or if the operator runs only some controllers.
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
		if needed, begins := parts[firstWord(block)]; begins {
			part, known = needed, true
		}
		switch {
		case when != ".namespaced":
		case !known:
			return "", fmt.Errorf("say in a comment which part of the operator needs this, one of %v: %s", slices.Sorted(maps.Keys(parts)), block)
		case part != "":
			when = "and " + when + " " + part
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

// firstWord returns the first word of the comment above a rule, or "" without a comment.
func firstWord(block string) string {
	comment, _ := strings.CutPrefix(block, "# ")
	if comment == block {
		return ""
	}
	return strings.TrimRight(strings.Fields(comment)[0], ".:")
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

// condition returns the template's condition for a rule.
func condition(block string) (string, error) {
	var parsed []rbacv1.PolicyRule
	if err := yaml.UnmarshalStrict([]byte(block), &parsed); err != nil || len(parsed) != 1 {
		return "", fmt.Errorf("parse one rule in %q: %w", block, err)
	}
	rule := parsed[0]
	namespaced := func(group string) bool { return slices.Contains(namespacedGroups, group) }
	isOfTheCluster := func(resource string) bool { return slices.Contains(ofTheCluster, resource) }
	among := func(resources []string) bool {
		return !slices.ContainsFunc(rule.Resources, func(r string) bool { return !slices.Contains(resources, r) })
	}
	switch {
	case among(atTheStart):
		return ".cluster", nil
	case among(injection):
		return ".injection", nil
	case len(rule.NonResourceURLs) == 0 && !slices.ContainsFunc(rule.Resources, isOfTheCluster) &&
		!slices.ContainsFunc(rule.APIGroups, func(g string) bool { return !namespaced(g) }):
		return ".namespaced", nil
	default:
		return "", fmt.Errorf("say in hack/chart/rules.go whether this is in a namespace: %s", block)
	}
}
