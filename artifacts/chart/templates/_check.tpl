{{/* Errors that the schema cannot express: values that are valid alone, and contradict each other. One message names all of them. */}}

{{- define "glassback.check" -}}
{{- $problems := list -}}
{{- with .Values -}}
{{- if and (not .leaderElection.enabled) (gt (int .replicas) 1) -}}
{{- $problems = append $problems (printf "replicas is %d and leaderElection.enabled is false: all of them would lead at once; elect a leader, or have 1 replica" (int .replicas)) -}}
{{- end -}}
{{- if and .webhooks.certManager.enabled (not .webhooks.enabled) -}}
{{- $problems = append $problems "webhooks.certManager.enabled is true and webhooks.enabled is false: there is nothing to make a certificate for; set both or neither" -}}
{{- end -}}
{{- if and .metrics.serviceMonitor.enabled (not .metrics.enabled) -}}
{{- $problems = append $problems "metrics.serviceMonitor.enabled is true and metrics.enabled is false: there is nothing to scrape; set both or neither" -}}
{{- end -}}
{{- if and .metrics.prometheusRule.enabled (not .metrics.enabled) -}}
{{- $problems = append $problems "metrics.prometheusRule.enabled is true and metrics.enabled is false: there is nothing to alert on; set both or neither" -}}
{{- end -}}
{{- $enabled := include "glassback.controllers" $ | fromJsonArray -}}
{{- if not $enabled -}}
{{- $problems = append $problems (printf "controllers is [%s]: that leaves none to run; [\"*\"] is all of them" (join ", " .controllers)) -}}
{{- end -}}
{{- if and .image.tag .image.digest -}}
{{- $problems = append $problems "image.tag and image.digest are both set: leave one of them out" -}}
{{- end -}}
{{- $ecs := has "ecsinstance" $enabled -}}
{{- $everybody := list (dict "namespaceSelector" (dict "matchLabels" (dict "metrics" "enabled"))) -}}
{{- /* Values that have an effect only with another one: the condition, in words, the value's name, the value, its default. */ -}}
{{- range list
  (list .crds.install "crds.install is false" "crds.keep" .crds.keep true)
  (list $ecs "the controller ecsinstance does not run" "ecsEndpoint" .ecsEndpoint "")
  (list $ecs "the controller ecsinstance does not run" "ecsOwnCredentials.namespaces" .ecsOwnCredentials.namespaces list)
  (list .ecsOwnCredentials.namespaces "ecsOwnCredentials.namespaces is empty" "ecsOwnCredentials.allow" .ecsOwnCredentials.allow list)
  (list .leaderElection.enabled "leaderElection.enabled is false" "leaderElection.leaseDuration" .leaderElection.leaseDuration "15s")
  (list .leaderElection.enabled "leaderElection.enabled is false" "leaderElection.renewDeadline" .leaderElection.renewDeadline "10s")
  (list .leaderElection.enabled "leaderElection.enabled is false" "leaderElection.retryPeriod" .leaderElection.retryPeriod "2s")
  (list .metrics.enabled "metrics.enabled is false" "metrics.secure" .metrics.secure true)
  (list .metrics.enabled "metrics.enabled is false" "metrics.objects" .metrics.objects 0)
  (list .metrics.serviceMonitor.enabled "metrics.serviceMonitor.enabled is false" "metrics.serviceMonitor.interval" .metrics.serviceMonitor.interval "")
  (list .metrics.serviceMonitor.enabled "metrics.serviceMonitor.enabled is false" "metrics.serviceMonitor.labels" .metrics.serviceMonitor.labels dict)
  (list .metrics.prometheusRule.enabled "metrics.prometheusRule.enabled is false" "metrics.prometheusRule.labels" .metrics.prometheusRule.labels dict)
  (list .userRoles.create "userRoles.create is false" "userRoles.aggregate" .userRoles.aggregate true)
  (list .serviceAccount.create "serviceAccount.create is false" "serviceAccount.annotations" .serviceAccount.annotations dict)
  (list .networkPolicy.enabled "networkPolicy.enabled is false" "networkPolicy.metricsFrom" .networkPolicy.metricsFrom $everybody)
  (list .metrics.enabled "metrics.enabled is false" "networkPolicy.metricsFrom" .networkPolicy.metricsFrom $everybody)
  (list .podDisruptionBudget.enabled "podDisruptionBudget.enabled is false" "podDisruptionBudget.maxUnavailable" .podDisruptionBudget.maxUnavailable 1)
-}}
{{- $value := index . 3 -}}
{{- if and (not (index . 0)) (not (kindIs "invalid" $value)) (ne (toJson $value) (toJson (index . 4))) -}}
{{- $problems = append $problems (printf "%s is set and %s: it has no effect, leave it out" (index . 2) (index . 1)) -}}
{{- end -}}
{{- end -}}
{{- range list "extraVolumes" "extraVolumeMounts" -}}
{{- $place := . -}}
{{- range index $.Values $place -}}
{{- if eq .name "webhook-certificate" -}}
{{- $problems = append $problems (printf "%s has webhook-certificate: the chart sets it" $place) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $flags := dict "leader-elect" "leaderElection" "leader-elect-lease-duration" "leaderElection" "leader-elect-renew-deadline" "leaderElection" "leader-elect-retry-period" "leaderElection" "leader-elect-resource-name" "" "leader-elect-resource-namespace" "" "health-probe-bind-address" "" "metrics-bind-address" "metrics" "metrics-secure" "metrics" "metrics-objects" "metrics" "inspect-bind-address" "inspect" "inspect-breakpoints" "inspect" "namespace" "watchNamespaces" "n" "watchNamespaces" "controllers" "controllers" "workers" "workers" "informer-queue" "informerQueue" "ecs-endpoint" "ecsEndpoint" "ecs-own-credentials-namespaces" "ecsOwnCredentials" "ecs-own-credentials-allow" "ecsOwnCredentials" "backup-image" "image" "webhooks" "webhooks" "webhook-port" "" "webhook-url" "" "webhook-cert-path" "webhooks.certManager" "install-crds" "crds" "logging-format" "logging" "v" "logging" "kubeconfig" "" "master" "" "version" "" -}}
{{- range .extraArgs -}}
{{- $name := regexReplaceAll "^(--([^=]*)|-(.)).*$" . "${2}${3}" -}}
{{- if hasKey $flags $name -}}
{{- $value := get $flags $name -}}
{{- $problems = append $problems (printf "extraArgs has %s: %s" . (ternary (printf "that is what the value %s is for" $value) "the chart depends on how it is" (ne $value ""))) -}}
{{- end -}}
{{- end -}}
{{- $own := list "POD_NAME" "POD_NAMESPACE" "POD_UID" "GOMEMLIMIT" -}}
{{- range .extraEnv -}}
{{- if has .name $own -}}
{{- $problems = append $problems (printf "extraEnv has %s: the chart sets it" .name) -}}
{{- end -}}
{{- end -}}
{{- $labels := list "helm.sh/chart" "app.kubernetes.io/name" "app.kubernetes.io/component" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" -}}
{{- range $place := list "commonLabels" "podLabels" -}}
{{- range $key, $_ := get $.Values $place | default dict -}}
{{- if has $key $labels -}}
{{- $problems = append $problems (printf "%s has %s: the chart sets it" $place $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $problems -}}
{{- fail (printf "these values cannot be:\n- %s\n" (join "\n- " $problems)) -}}
{{- end -}}
{{- end -}}
