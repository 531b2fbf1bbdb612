// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// templateDir is the directory of the templates, relative to artifacts.
const templateDir = "chart/templates"

// mark begins every generated template.
const mark = `{{- /* Made from artifacts/%s by "go run ." in hack/chart: do not edit. */ -}}` + "\n"

// namespace is the namespace in the manifests; a template replaces it by the release's.
const namespace = "glassback-system"

// generate returns the generated templates by their paths, relative to artifacts.
func generate(artifacts string) (map[string]string, error) {
	templates := map[string]string{}
	crds, err := filepath.Glob(filepath.Join(artifacts, "crd", "*_*.yaml"))
	if err != nil || len(crds) == 0 {
		return nil, fmt.Errorf("look for CustomResourceDefinitions: %d found: %w", len(crds), err)
	}
	sources := map[string]source{
		"rbac/role.yaml":          {templateDir + "/rbac/_rules.tpl", rules},
		"webhook/mutating.yaml":   {templateDir + "/webhook/mutating.yaml", webhooks},
		"webhook/validating.yaml": {templateDir + "/webhook/validating.yaml", webhooks},
		"prometheus/rules.yaml":   {templateDir + "/metrics/prometheus_rule.yaml", alerts},
	}
	users, err := filepath.Glob(filepath.Join(artifacts, "rbac", "*_user_roles.yaml"))
	if err != nil || len(users) == 0 {
		return nil, fmt.Errorf("look for the roles of users: %d found: %w", len(users), err)
	}
	for _, file := range users {
		sources["rbac/"+filepath.Base(file)] = source{templateDir + "/rbac/" + filepath.Base(file), userRoles}
	}
	for _, file := range crds {
		sources["crd/"+filepath.Base(file)] = source{templateDir + "/crds/" + filepath.Base(file), crd}
	}
	for path, source := range sources {
		manifest, err := os.ReadFile(filepath.Join(artifacts, filepath.FromSlash(path)))
		if err != nil {
			return nil, fmt.Errorf("read what a template is made of: %w", err)
		}
		template, err := source.template(escape(string(manifest)))
		if err != nil {
			return nil, fmt.Errorf("make a template of %s: %w", path, err)
		}
		templates[source.path] = fmt.Sprintf(mark, path) + template
	}
	return templates, nil
}

// source describes how a manifest becomes a template.
type source struct {
	path     string
	template func(manifest string) (string, error)
}

// generated returns the texts of the generated templates in the chart, by their paths.
func generated(artifacts string) (map[string]string, error) {
	templates := map[string]string{}
	dir := filepath.Join(artifacts, filepath.FromSlash(templateDir))
	begin, _, _ := strings.Cut(mark, "%s")
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(artifacts, path)
		if strings.HasPrefix(string(text), begin) {
			templates[filepath.ToSlash(below)] = string(text)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look at the templates: %w", err)
	}
	return templates, nil
}

// escape returns a template that renders the text unchanged: a description may contain braces.
func escape(text string) string { return strings.ReplaceAll(text, "{{", `{{ "{{" }}`) }

// crd makes a template of a CustomResourceDefinition.
func crd(manifest string) (string, error) {
	return edits{
		{"---\napiVersion:", "apiVersion:", 1},
		{"\n  annotations:\n", "\n  annotations:\n    {{- if .Values.crds.keep }}\n    helm.sh/resource-policy: keep\n    {{- end }}\n", 1},
		{"\nmetadata:\n", "\nmetadata:\n  labels:\n    {{- include \"glassback.labels\" . | nindent 4 }}\n", 1},
	}.around("{{- if .Values.crds.install }}\n", manifest)
}

// webhooks makes a template of a webhook configuration. The template does not contain caBundle, so an upgrade does not remove the value
// that the operator or cert-manager wrote.
func webhooks(manifest string) (string, error) {
	n := strings.Count(manifest, "  clientConfig:\n")
	return edits{
		{"\n  labels:\n    app.kubernetes.io/name: glassback\n", "\n  labels:\n    {{- include \"glassback.labels\" . | nindent 4 }}\n" +
			"  {{- if .Values.webhooks.certManager.enabled }}\n  annotations:\n" +
			"    cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/glassback-webhook\n  {{- end }}\n", 1},
		{"\n        namespace: " + namespace + "\n", "\n        namespace: {{ .Release.Namespace }}\n", n},
		{"\n    namespaceSelector: {}\n", "\n    namespaceSelector:\n      {{- include \"glassback.namespaceSelector\" $ | nindent 6 }}\n", n},
	}.around("{{- if .Values.webhooks.enabled }}\n", manifest)
}

// userRoles makes a template of the ClusterRoles for users of a kind.
func userRoles(manifest string) (string, error) {
	list := edits{
		{"\n  labels:\n    app.kubernetes.io/name: glassback\n", "\n  labels:\n    {{- include \"glassback.labels\" . | nindent 4 }}\n", 3},
	}
	for _, role := range []string{"admin", "edit", "view"} {
		label := "    rbac.authorization.k8s.io/aggregate-to-" + role + ": \"true\"\n"
		list = append(list, edit{label, "    {{- if .Values.userRoles.aggregate }}\n" + label + "    {{- end }}\n", 1})
	}
	return list.around("{{- if .Values.userRoles.create }}\n", manifest)
}

// alerts makes a template of a PrometheusRule. escape has protected its braces, which are for Prometheus.
func alerts(manifest string) (string, error) {
	return edits{
		{namespace, "{{ .Release.Namespace }}", max(1, strings.Count(manifest, namespace))},
		{"\n  labels:\n    app.kubernetes.io/name: glassback\n", "\n  labels:\n    {{- include \"glassback.labels\" . | nindent 4 }}\n" +
			"    {{- with .Values.metrics.prometheusRule.labels }}\n    {{- toYaml . | nindent 4 }}\n    {{- end }}\n", 1},
	}.around("{{- if .Values.metrics.prometheusRule.enabled }}\n", manifest)
}

// edits are replacements that make a template of a manifest.
type edits []edit

type edit struct {
	old, new string
	times    int // how often old is in the manifest
}

// around makes the edits, and puts the result between an if and its end. It fails if the manifest does not contain the expected texts.
func (e edits) around(condition, manifest string) (string, error) {
	for _, edit := range e {
		if n := strings.Count(manifest, edit.old); n != edit.times || n == 0 {
			return "", fmt.Errorf("it has %q %d times, not %d times", edit.old, n, edit.times)
		}
		manifest = strings.ReplaceAll(manifest, edit.old, edit.new)
	}
	return condition + withoutHeading(manifest) + "{{- end }}\n", nil
}

// withoutHeading removes the comments at the beginning of a manifest: they describe the file.
func withoutHeading(manifest string) string {
	for strings.HasPrefix(manifest, "#") {
		_, manifest, _ = strings.Cut(manifest, "\n")
	}
	return manifest
}
