{{/* Names of objects, and labels. */}}

{{- define "glassback.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "glassback.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Labels of every object, and of the Pods. */ -}}
{{- define "glassback.selector" -}}
app.kubernetes.io/name: glassback
{{- end }}

{{- /* Labels of the Pods only, in addition to the selector. */ -}}
{{- define "glassback.component" -}}
app.kubernetes.io/component: manager
{{- end }}

{{- /* The name of a cluster-scoped object. A cluster can have several releases with watchNamespaces and without webhooks. */ -}}
{{- define "glassback.clusterName" -}}
{{- if and .root.Values.watchNamespaces (not .root.Values.webhooks.enabled) -}}
{{ .name }}-{{ .root.Release.Namespace }}
{{- else -}}
{{ .name }}
{{- end -}}
{{- end }}

{{- /* Not empty if the operator keeps a CA: for webhooks, or without them for metrics or the page. */ -}}
{{- define "glassback.keepsCA" -}}
{{- with .Values -}}
{{- if .webhooks.enabled | ternary (not .webhooks.certManager.enabled) (or (and .metrics.enabled .metrics.secure) .inspect.enabled) -}}
yes
{{- end -}}
{{- end -}}
{{- end }}

{{- define "glassback.image" -}}
{{- with .Values.image -}}
{{- $released := index $.Chart.Annotations "glassback.dev/image" | default "" -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else if and (not .tag) (hasPrefix (printf "%s@" .repository) $released) -}}
{{ $released }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* The ServiceAccount of the operator, as a subject of bindings. */ -}}
{{- define "glassback.subjects" -}}
- kind: ServiceAccount
  name: {{ .Values.serviceAccount.name }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- /* The namespaceSelector of a webhook. */ -}}
{{- define "glassback.namespaceSelector" -}}
{{- if .Values.watchNamespaces -}}
matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: In
    values:
      {{- toYaml .Values.watchNamespaces | nindent 6 }}
{{- else -}}
{}
{{- end -}}
{{- end }}
