{{/* The command line. It leaves out flags with their default value. */}}

{{- define "glassback.args" -}}
- --backup-image={{ include "glassback.image" . }}
{{- with .Values }}
{{- if .leaderElection.enabled }}
- --leader-elect
{{- with .leaderElection }}
{{- if ne .leaseDuration "15s" }}
- --leader-elect-lease-duration={{ .leaseDuration }}
{{- end }}
{{- if ne .renewDeadline "10s" }}
- --leader-elect-renew-deadline={{ .renewDeadline }}
{{- end }}
{{- if ne .retryPeriod "2s" }}
- --leader-elect-retry-period={{ .retryPeriod }}
{{- end }}
{{- end }}
{{- end }}
- --health-probe-bind-address=:8081
{{- if .metrics.enabled }}
- --metrics-bind-address=:8443
{{- if not .metrics.secure }}
- --metrics-secure=false
{{- end }}
{{- if .metrics.objects }}
- --metrics-objects={{ .metrics.objects }}
{{- end }}
{{- end }}
{{- if .inspect.enabled }}
- --inspect-bind-address=:8444
{{- end }}
{{- with .watchNamespaces }}
- --namespace={{ join "," . }}
{{- end }}
{{- if ne (join "," .controllers) "*" }}
- --controllers={{ join "," .controllers }}
{{- end }}
{{- if ne (int .workers) 16 }}
- --workers={{ .workers }}
{{- end }}
{{- if ne .informerQueue "DeltaFIFO" }}
- --informer-queue={{ .informerQueue }}
{{- end }}
{{- include "glassback.ecsArgs" . }}
{{- if not .webhooks.enabled }}
- --webhooks=false
{{- else if .webhooks.certManager.enabled }}
- --webhook-cert-path=/tmp/k8s-webhook-server/serving-certs
{{- end }}
{{- if ne .logging.format "text" }}
- --logging-format={{ .logging.format }}
{{- end }}
{{- if .logging.verbosity }}
- -v={{ .logging.verbosity }}
{{- end }}
{{- range .extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* The arguments about ECS, which the operator and its check have in common. */}}
{{- define "glassback.ecsArgs" }}
{{- with .ecsEndpoint }}
- --ecs-endpoint={{ . }}
{{- end }}
{{- with .ecsOwnCredentials.namespaces }}
- --ecs-own-credentials-namespaces={{ join "," . }}
{{- end }}
{{- with .ecsOwnCredentials.allow }}
- --ecs-own-credentials-allow={{ join "," . }}
{{- end }}
{{- end }}
