{{- /* Made from artifacts/rbac/role.yaml by "go run ." in hack/chart: do not edit. */ -}}
{{- define "glassback.rules" -}}
{{- if .cluster }}
# At the start: does every CRD exist, and is it not older than the operator?
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [get]
{{- end }}
{{- if .namespaced }}
# All controllers record events.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end }}
{{- if .injection }}
# Webhooks: the operator writes its CA into their configurations.
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  resourceNames: [glassback]
  verbs: [list, patch, watch]
{{- end }}
{{- if and .namespaced .webhooks }}
# Webhooks: the replicas of each master, when a RedisCluster is scaled.
- apiGroups: [bytewang123-redis.wzj.kubebuilder.io]
  resources: [redisclusters]
  verbs: [get]
{{- end }}
{{- if and .namespaced (has "apiexamplea" .controllers) }}
# ApiExampleA. Children are owned with blockOwnerDeletion, which needs the right to
# update finalizers where the API server enforces permissions of owner references.
- apiGroups: [groupa.k8s.zhuang.com]
  resources: [apiexampleas]
  verbs: [list, watch]
- apiGroups: [groupa.k8s.zhuang.com]
  resources: [apiexampleas/status, apiexampleas/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create, get, list, patch, watch]
{{- end }}
{{- if and .namespaced (has "application" .controllers) }}
# Application
- apiGroups: [app.aiops.org]
  resources: [applications]
  verbs: [list, watch]
- apiGroups: [app.aiops.org]
  resources: [applications/status, applications/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [services]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [create, get, list, patch, watch]
- apiGroups: [networking.k8s.io]
  resources: [ingresses]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [gateway.networking.k8s.io]
  resources: [httproutes]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [create, delete, get, list, patch, watch]
# With restartOn, the operator reads the metadata of the ConfigMaps and Secrets that the Pods name.
- apiGroups: [""]
  resources: [configmaps, secrets]
  verbs: [get]
{{- end }}
{{- if and .namespaced (has "ecsinstance" .controllers) }}
# ECSInstance. Patches add and remove its finalizer.
- apiGroups: [alibabacloud.zhouzhengxi.com]
  resources: [ecsinstances]
  verbs: [list, patch, watch]
- apiGroups: [alibabacloud.zhouzhengxi.com]
  resources: [ecsinstances/status]
  verbs: [update]
# ECSInstances name Secrets with access keys and user data.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
{{- end }}
{{- if and .namespaced (has "mycronjob" .controllers) }}
# MyCronJob
- apiGroups: [batch.wzj.kubebuilder.io]
  resources: [mycronjobs]
  verbs: [get, list, watch]
- apiGroups: [batch.wzj.kubebuilder.io]
  resources: [mycronjobs/status, mycronjobs/finalizers]
  verbs: [update]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [create, delete, get, list, watch]
{{- end }}
{{- if and .namespaced (has "rediscluster" .controllers) }}
# RedisCluster
- apiGroups: [bytewang123-redis.wzj.kubebuilder.io]
  resources: [redisclusters]
  verbs: [list, watch]
- apiGroups: [bytewang123-redis.wzj.kubebuilder.io]
  resources: [redisclusters/status, redisclusters/finalizers]
  verbs: [update]
# It names Secrets with passwords. With spec.users, the operator creates one for its own user. RBAC
# cannot limit the right to create to one name. The operator changes and deletes no Secret.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create, get]
# The operator creates and deletes single Pods, and reads a Pod again before CLUSTER MEET. It patches
# a Pod before it sets a directive in its node.
- apiGroups: [""]
  resources: [pods]
  verbs: [create, delete, get, list, patch, watch]
# It replaces a Pod by an eviction, as the PodDisruptionBudget allows.
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
# Claims can grow. The operator deletes a claim when it removes a node, and never with the
# RedisCluster.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [create, delete, list, patch, watch]
# Services name the Pods; those of spec.access are deleted with it. A ConfigMap holds the
# redis.conf of each revision. A PodDisruptionBudget limits evictions.
- apiGroups: [""]
  resources: [services]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [create, get, list, patch, watch]
# Who can connect to its Pods, if its spec says so.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [create, delete, get, list, patch, watch]
# The Jobs that make and restore backups, if its spec says so.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [create, delete, get, list, watch]
{{- end }}
{{- end }}
