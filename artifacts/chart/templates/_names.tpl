{{/* What objects are called, and the labels by which they are found. */}}

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

{{- /* On every object, and on the Pods. */ -}}
{{- define "glassback.selector" -}}
app.kubernetes.io/name: glassback
{{- end }}

{{- /* On the Pods alone, beside the selector. */ -}}
{{- define "glassback.component" -}}
app.kubernetes.io/component: manager
{{- end }}

{{- /* The name of something of the cluster. A release that works in some namespaces and registers no webhooks is not alone in its cluster. */ -}}
{{- define "glassback.clusterName" -}}
{{- if and .root.Values.watchNamespaces (not .root.Values.webhooks.enabled) -}}
{{ .name }}-{{ .root.Release.Namespace }}
{{- else -}}
{{ .name }}
{{- end -}}
{{- end }}

{{- define "glassback.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* The operator's account, to whom rights are granted. */ -}}
{{- define "glassback.subjects" -}}
- kind: ServiceAccount
  name: {{ .Values.serviceAccount.name }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- /* Which namespaces a webhook is for. */ -}}
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
