{{- /* Made from artifacts/rbac/role.yaml by "go run ." in hack/chart: do not edit. */ -}}
{{- define "glassback.rules" -}}
{{- if .cluster }}
# At the start: is every CRD there, and not older than the operator?
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
# Webhooks: who signs their certificates.
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  resourceNames: [glassback]
  verbs: [list, patch, watch]
{{- end }}
{{- if and .namespaced .webhooks }}
# Webhooks: how many replicas a master has, if a RedisCluster is scaled.
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
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [create, delete, get, list, patch, watch]
{{- end }}
{{- if and .namespaced (has "ecsinstance" .controllers) }}
# ECSInstance. It is patched to put its finalizer on and to take it off.
- apiGroups: [alibabacloud.zhouzhengxi.com]
  resources: [ecsinstances]
  verbs: [list, patch, watch]
- apiGroups: [alibabacloud.zhouzhengxi.com]
  resources: [ecsinstances/status]
  verbs: [update]
# Secrets hold its access keys and scripts. Their names are not known here. Each is watched
# alone, so that a corrected key is tried at once.
- apiGroups: [""]
  resources: [secrets]
  verbs: [list, watch]
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
# A Secret holds its password. The name is not known here.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
# Its Pods come and go one by one. One is got before it is introduced to another. One is
# patched before a directive is set in its node.
- apiGroups: [""]
  resources: [pods]
  verbs: [create, delete, get, list, patch, watch]
# One that is replaced is evicted, as far as its PodDisruptionBudget allows that.
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
# Their volumes can grow. They are deleted when there are to be fewer Pods, and never
# with their RedisCluster.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [create, delete, list, patch, watch]
# The names of its Pods, the configuration of each revision, and how many Pods may be
# taken down on purpose.
- apiGroups: [""]
  resources: [services]
  verbs: [create, get, list, patch, watch]
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
{{- end }}
{{- end }}
