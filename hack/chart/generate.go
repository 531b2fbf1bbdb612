// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// templateDir is the directory of the templates, relative to artifacts.
const templateDir = "chart/templates"

// header is the first line of every generated template. It names the manifest.
const header = `{{- /* Made from artifacts/%s by "go run ." in hack/chart: do not edit. */ -}}` + "\n"

// namespace is the namespace in the manifests. The templates have the namespace of the release instead.
const namespace = "glassback-system"

// generate returns the generated templates by their paths, relative to artifacts.
func generate(artifacts string) (map[string]string, error) {
	root := os.DirFS(artifacts)
	sources := map[string]source{
		"rbac/role.yaml":          {templateDir + "/rbac/_rules.tpl", rules},
		"webhook/mutating.yaml":   {templateDir + "/webhook/mutating.yaml", webhooks},
		"webhook/validating.yaml": {templateDir + "/webhook/validating.yaml", webhooks},
		"prometheus/rules.yaml":   {templateDir + "/metrics/prometheus_rule.yaml", alerts},
	}
	for _, group := range []struct {
		manifests, dir string
		template       func(manifest string) (string, error)
	}{
		{"crd/*_*.yaml", templateDir + "/crds/", crd},
		{"rbac/*_user_roles.yaml", templateDir + "/rbac/", userRoles},
	} {
		manifests, err := fs.Glob(root, group.manifests)
		if err == nil && len(manifests) == 0 {
			err = fs.ErrNotExist
		}
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", group.manifests, err)
		}
		for _, manifest := range manifests {
			sources[manifest] = source{group.dir + path.Base(manifest), group.template}
		}
	}
	templates := map[string]string{}
	for name, source := range sources {
		manifest, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, fmt.Errorf("read a manifest: %w", err)
		}
		template, err := source.template(escape(string(manifest)))
		if err != nil {
			return nil, fmt.Errorf("make a template from %s: %w", name, err)
		}
		templates[source.path] = fmt.Sprintf(header, name) + template
	}
	return templates, nil
}

// source describes the template that is generated from a manifest.
type source struct {
	path     string // of the template, relative to artifacts
	template func(manifest string) (string, error)
}

// existing returns the generated templates that the chart contains now, by their paths, relative to artifacts.
func existing(artifacts string) (map[string]string, error) {
	templates := map[string]string{}
	root := os.DirFS(artifacts)
	begin, _, _ := strings.Cut(header, "%s")
	err := fs.WalkDir(root, templateDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(root, path)
		if strings.HasPrefix(string(text), begin) {
			templates[path] = string(text)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the templates: %w", err)
	}
	return templates, nil
}

// escape returns a template that renders as text. A description in a manifest may contain "{{".
func escape(text string) string { return strings.ReplaceAll(text, "{{", `{{ "{{" }}`) }

// crd makes a template from a CustomResourceDefinition.
func crd(manifest string) (string, error) {
	return edits{
		{"---\napiVersion:", "apiVersion:", 1},
		{"\n  annotations:\n", "\n  annotations:\n    {{- if .Values.crds.keep }}\n    helm.sh/resource-policy: keep\n    {{- end }}\n", 1},
		{"\nmetadata:\n", "\nmetadata:\n  labels:\n    {{- include \"glassback.labels\" . | nindent 4 }}\n", 1},
	}.apply("{{- if .Values.crds.install }}\n", manifest)
}

// webhooks makes a template from a webhook configuration. The template does not contain caBundle, so an upgrade does not remove the value
// that the operator or cert-manager wrote.
func webhooks(manifest string) (string, error) {
	n := strings.Count(manifest, "  clientConfig:\n")
	return edits{
		{"\n  labels:\n    app.kubernetes.io/name: glassback\n", "\n  labels:\n    {{- include \"glassback.labels\" . | nindent 4 }}\n" +
			"  {{- if .Values.webhooks.certManager.enabled }}\n  annotations:\n" +
			"    cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/glassback-webhook\n  {{- end }}\n", 1},
		{"\n        namespace: " + namespace + "\n", "\n        namespace: {{ .Release.Namespace }}\n", n},
		{"\n    namespaceSelector: {}\n", "\n    namespaceSelector:\n      {{- include \"glassback.namespaceSelector\" $ | nindent 6 }}\n", n},
	}.apply("{{- if .Values.webhooks.enabled }}\n", manifest)
}

// userRoles makes a template from the ClusterRoles for the users of one kind. Some of them are part of a built-in role.
func userRoles(manifest string) (string, error) {
	list := edits{
		{"\n  labels:\n    app.kubernetes.io/name: glassback\n", "\n  labels:\n    {{- include \"glassback.labels\" . | nindent 4 }}\n", 3},
	}
	for _, role := range []string{"admin", "edit", "view"} {
		label := "    rbac.authorization.k8s.io/aggregate-to-" + role + ": \"true\"\n"
		if strings.Contains(manifest, label) {
			list = append(list, edit{label, "    {{- if .Values.userRoles.aggregate }}\n" + label + "    {{- end }}\n", 1})
		}
	}
	return list.apply("{{- if .Values.userRoles.create }}\n", manifest)
}

// alerts makes a template from a PrometheusRule. Its "{{" are for Prometheus: escape has made Helm render them.
func alerts(manifest string) (string, error) {
	return edits{
		{namespace, "{{ .Release.Namespace }}", max(1, strings.Count(manifest, namespace))},
		{"\n  labels:\n    app.kubernetes.io/name: glassback\n", "\n  labels:\n    {{- include \"glassback.labels\" . | nindent 4 }}\n" +
			"    {{- with .Values.metrics.prometheusRule.labels }}\n    {{- toYaml . | nindent 4 }}\n    {{- end }}\n", 1},
	}.apply("{{- if .Values.metrics.prometheusRule.enabled }}\n", manifest)
}

// edits are the replacements that make a template from a manifest.
type edits []edit

type edit struct {
	old, new string
	times    int // how often the manifest contains old
}

// apply makes the edits, and wraps the result in condition and {{- end }}. It returns an error if the manifest does not contain an expected
// text.
func (e edits) apply(condition, manifest string) (string, error) {
	for _, edit := range e {
		if n := strings.Count(manifest, edit.old); n != edit.times || n == 0 {
			return "", fmt.Errorf("the manifest contains %q %d times, want %d", edit.old, n, edit.times)
		}
		manifest = strings.ReplaceAll(manifest, edit.old, edit.new)
	}
	return condition + withoutComment(manifest) + "{{- end }}\n", nil
}

// withoutComment removes the comment at the beginning of a manifest: it is about the manifest, not about the template.
func withoutComment(manifest string) string {
	for strings.HasPrefix(manifest, "#") {
		_, manifest, _ = strings.Cut(manifest, "\n")
	}
	return manifest
}
