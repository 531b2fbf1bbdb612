{{/* The controllers that run, as a list in JSON. The last value about a controller counts, as in the flag --controllers. */}}

{{- define "glassback.controllers" -}}
{{- $enabled := list -}}
{{- range $name := list "apiexamplea" "application" "ecsinstance" "mycronjob" "rediscluster" -}}
{{- $on := has "*" $.Values.controllers -}}
{{- range $.Values.controllers -}}
{{- if eq . $name -}}
{{- $on = true -}}
{{- else if eq . (printf "-%s" $name) -}}
{{- $on = false -}}
{{- end -}}
{{- end -}}
{{- if $on -}}
{{- $enabled = append $enabled $name -}}
{{- end -}}
{{- end -}}
{{- toJson $enabled -}}
{{- end -}}
