{{- /* Made from artifacts/rbac/role.yaml by "go run ." in hack/chart: do not edit. */ -}}
{{- define "glassback.rules" -}}
{{- if .cluster }}
# At its start the operator checks that each CRD exists and is not older than the operator.
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
# Webhooks: their configurations name the CA that signs their certificates.
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  resourceNames: [glassback]
  verbs: [list, patch, watch]
{{- end }}
{{- if and .namespaced .webhooks }}
# Webhooks: a review of a scale reads how many replicas each master of the RedisCluster has.
- apiGroups: [bytewang123-redis.wzj.kubebuilder.io]
  resources: [redisclusters]
  verbs: [get]
{{- end }}
{{- if and .namespaced (has "apiexamplea" .controllers) }}
# ApiExampleA. The owner references of children have blockOwnerDeletion. If the API server runs OwnerReferencesPermissionEnforcement, such
# a reference needs the permission to update the owner's finalizers.
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
# ECSInstance. A patch adds and removes its finalizer.
- apiGroups: [alibabacloud.zhouzhengxi.com]
  resources: [ecsinstances]
  verbs: [list, patch, watch]
- apiGroups: [alibabacloud.zhouzhengxi.com]
  resources: [ecsinstances/status]
  verbs: [update]
# Secrets hold its access keys and scripts. Their names are in the specs. The operator watches each Secret separately, and tries a
# corrected key at once.
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
# A Secret holds its password. The name of the Secret is in the spec.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
# The operator creates and deletes single Pods. It gets a Pod from the API server before it introduces one Redis node to another.
- apiGroups: [""]
  resources: [pods]
  verbs: [create, delete, get, list, watch]
# To replace a Pod, the operator evicts it, if the PodDisruptionBudget allows that.
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
# Claims of the Pods can grow. The operator deletes them at a scale-in, and never when the RedisCluster is deleted.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [create, delete, list, patch, watch]
# The Service for the names of its Pods, a ConfigMap for each revision, and the PodDisruptionBudget.
- apiGroups: [""]
  resources: [services]
  verbs: [create, get, list, patch, watch]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [create, get, list, patch, watch]
{{- end }}
{{- end }}
