// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// Application runs an image as a Deployment, behind a Service and an Ingress. On request it adds a
// HorizontalPodAutoscaler and a PodDisruptionBudget. All objects have the name of the Application.
//
// +genclient
// +genclient:method=GetScale,verb=get,subresource=scale,result=k8s.io/api/autoscaling/v1.Scale
// +genclient:method=UpdateScale,verb=update,subresource=scale,input=k8s.io/api/autoscaling/v1.Scale,result=k8s.io/api/autoscaling/v1.Scale
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=applications,singular=application,shortName=app,categories=glassback
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:metadata:annotations="glassback.dev/crd-revision=5"
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Updated",type=integer,priority=1,JSONPath=`.status.updatedReplicas`
// +kubebuilder:printcolumn:name="Image",type=string,priority=1,JSONPath=`.spec.image`
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$') || size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",fieldPath=".metadata",message="name must be a DNS label of no more than 63 characters that begins with a letter, like \"shop\": its Service has the same"
// +kubebuilder:validation:XValidation:rule="has(self.spec.image) && size(self.spec.image) > 0",fieldPath=".spec.image",reason=FieldValueRequired,message="say which image to run, like \"nginx:1.27\""
type Application struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	// +kubebuilder:default={}
	Spec ApplicationSpec `json:"spec"`
	// +optional
	Status ApplicationStatus `json:"status,omitempty"`
}

// Conditions returns the conditions of the status.
func (a *Application) Conditions() []metav1.Condition { return a.Status.Conditions }

// ApplicationSpec has the container, and the ways to reach it. Only image is required.
//
// +kubebuilder:validation:XValidation:rule="self.?service.enabled.orValue(true) || !has(self.gateway)",fieldPath=".gateway",message="an HTTPRoute needs the Service: where service.enabled is false, gateway must be left out too"
// +kubebuilder:validation:XValidation:rule="self.?service.enabled.orValue(true) || !self.?ingress.enabled.orValue(true)",fieldPath=".ingress.enabled",message="an Ingress needs the Service: where service.enabled is false, ingress.enabled must be false too"
type ApplicationSpec struct {
	// image is the image of the one container in each Pod. Required.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^([A-Za-z0-9.-]+(:[0-9]+)?/|[[][0-9A-Fa-f:]+](:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?(@[A-Za-z][A-Za-z0-9+._-]*:[0-9A-Fa-f]+)?$')",message="must be the name of an image, like \"nginx:1.27\" or \"ghcr.io/owner/app:v1\": without spaces, and in lower case but for the tag"
	Image string `json:"image"`

	// command replaces the entrypoint of the image.
	// +optional
	// +listType=atomic
	Command []string `json:"command,omitempty"`

	// args replace the arguments of the entrypoint.
	// +optional
	// +listType=atomic
	Args []string `json:"args,omitempty"`

	// replicas has no Minimum: with a scale subresource, the API server itself rejects a negative
	// number. With a Minimum it would report the number twice.

	// replicas is the number of Pods. With autoscaling, it is only the first number of a new
	// Deployment: from then on the autoscaler sets the number.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`

	// port is the TCP port on which the container listens.
	// +optional
	// +kubebuilder:default=8080
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`

	// env are the environment variables of the container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:XValidation:rule="self.all(e, e.name.matches('^[-._a-zA-Z][-._a-zA-Z0-9]*$'))",message="the name of every variable must be letters, digits, \"_\", \"-\" and \".\", and must not begin with a digit",messageExpression="'the name \"%s\" must be letters, digits, \"_\", \"-\" and \".\", and must not begin with a digit'.format([self.filter(e, !e.name.matches('^[-._a-zA-Z][-._a-zA-Z0-9]*$'))[0].name])"
	// +kubebuilder:validation:XValidation:rule="self.all(e, !has(e.valueFrom) || e.?value.orValue('') == '' && [has(e.valueFrom.configMapKeyRef), has(e.valueFrom.secretKeyRef), has(e.valueFrom.fieldRef), has(e.valueFrom.resourceFieldRef)].exists_one(h, h))",message="every variable must have either value or valueFrom, and in valueFrom exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef",messageExpression="'%s must have either value or valueFrom, and in valueFrom exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef'.format([self.filter(e, !(!has(e.valueFrom) || e.?value.orValue('') == '' && [has(e.valueFrom.configMapKeyRef), has(e.valueFrom.secretKeyRef), has(e.valueFrom.fieldRef), has(e.valueFrom.resourceFieldRef)].exists_one(h, h)))[0].name])"
	Env []EnvVar `json:"env,omitempty"`

	// envFrom are the ConfigMaps and Secrets whose keys become environment variables. Each entry
	// has exactly one of configMapRef and secretRef.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(e, has(e.configMapRef) != has(e.secretRef))",message="every entry must have exactly one of configMapRef and secretRef",messageExpression="'[%d] must have exactly one of configMapRef and secretRef'.format([self.map(e, has(e.configMapRef) != has(e.secretRef)).indexOf(false)])"
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// The rule of resources ignores long exponents. The pattern rejects them, but the API server
	// evaluates the rule nevertheless, and quantity('1e-99999999') takes minutes.

	// resources are the requests and limits of the container, as in a Pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="['cpu', 'memory', 'ephemeral-storage'].all(k, !self.?requests[?k].hasValue() || !self.?limits[?k].hasValue() || [self.requests[k], self.limits[k]].exists(q, string(q).matches('[eE].*[0-9]{3}')) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)",fieldPath=".requests",message="no request for cpu, memory or ephemeral-storage may be more than its limit"
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// securityContext is the security context of the container, as in a Pod. That of the Pod is in
	// podTemplate.
	// +optional
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`

	// volumeMounts mount volumes of podTemplate in the container.
	// +optional
	// +listType=map
	// +listMapKey=mountPath
	// +kubebuilder:validation:MaxItems=32
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`

	// probes check whether the container works. Each has exactly one of httpGet, tcpSocket, grpc
	// and exec, as in a Pod. The port "http" is spec.port.
	// +optional
	Probes *Probes `json:"probes,omitempty"`

	// imagePullSecrets are the Secrets for pulling the image, in the same namespace.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(e, e.name != '')",message="every entry must have the name of a Secret"
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// podTemplate is added to the Pods: labels, scheduling, security, volumes, and additional
	// containers. It cannot replace what the operator sets. A user who can create Applications can
	// create Pods with them. Default: nothing is added, and the Pods get a token of their
	// ServiceAccount, as it says itself.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.labels) || !self.labels.exists(k, k.startsWith('app.aiops.org/') || k in ['app.kubernetes.io/managed-by', 'app.kubernetes.io/name'])",fieldPath=".labels",message="cannot set the labels that the operator sets: app.kubernetes.io/name, app.kubernetes.io/managed-by, app.aiops.org/…"
	// +kubebuilder:validation:XValidation:rule="!has(self.annotations) || !self.annotations.exists(k, k.startsWith('app.aiops.org/'))",fieldPath=".annotations",message="cannot set the annotations that the operator sets: app.aiops.org/…"
	// +kubebuilder:validation:XValidation:rule="!has(self.containers) || !self.containers.exists(c, c.name == 'app')",fieldPath=".containers",message="cannot have the name \"app\": the operator makes that container"
	// +kubebuilder:validation:XValidation:rule="!has(self.initContainers) || !self.initContainers.exists(c, c.name == 'app')",fieldPath=".initContainers",message="cannot have the name \"app\": the operator makes that container"
	PodTemplate *PodTemplate `json:"podTemplate,omitempty"`

	// restartOn are the kinds of objects whose changes replace the Pods, as a new image does:
	// ConfigMaps and Secrets that env, envFrom and volumes of the Pods name. The operator looks
	// for changes every 45 seconds. Default: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	RestartOn []RestartSource `json:"restartOn,omitempty"`

	// service is the way to reach the Application inside the cluster.
	// +optional
	// +kubebuilder:default={}
	Service Service `json:"service,omitempty"`

	// ingress is the way to reach the Application from outside the cluster, by HTTP.
	// +optional
	// +kubebuilder:default={}
	Ingress Ingress `json:"ingress,omitempty"`

	// gateway adds an HTTPRoute for a Gateway, with the host and the path of ingress. Without an
	// Ingress beside it, set ingress.enabled to false. The cluster must have the Gateway API.
	// +optional
	Gateway *Gateway `json:"gateway,omitempty"`

	// autoscaling adds a HorizontalPodAutoscaler, which sets the number of Pods.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`

	// pdb adds a PodDisruptionBudget, which limits how many Pods can be evicted at once.
	// +optional
	PDB *DisruptionBudget `json:"pdb,omitempty"`
}

// PodTemplate is what a user adds to the Pods.
type PodTemplate struct {
	glassback.PodTemplate `json:",inline"`

	// automountServiceAccountToken is true if the containers get a token of the ServiceAccount.
	// +optional
	// +kubebuilder:default=false
	AutomountServiceAccountToken *bool `json:"automountServiceAccountToken,omitempty"`
}

// RestartSource is a kind of objects that Pods read.
//
// +kubebuilder:validation:Enum=ConfigMaps;Secrets
type RestartSource string

// The kinds of objects for restartOn.
const (
	RestartOnConfigMaps RestartSource = "ConfigMaps"
	RestartOnSecrets    RestartSource = "Secrets"
)

// EnvVar is an environment variable of the container.
type EnvVar struct {
	// name is the name of the variable. It does not begin with a digit.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// value is the value of the variable. Kubernetes replaces $(OTHER) in it by the value of the
	// variable OTHER.
	// +optional
	Value string `json:"value,omitempty"`

	// valueFrom is a source of the value, in place of value. It has exactly one of configMapKeyRef,
	// secretKeyRef, fieldRef and resourceFieldRef.
	// +optional
	ValueFrom *corev1.EnvVarSource `json:"valueFrom,omitempty"`
}

// Probes check whether the container works.
type Probes struct {
	// liveness restarts the container when it fails.
	// +optional
	Liveness *Probe `json:"liveness,omitempty"`
	// readiness takes the Pod out of the Service while it fails.
	// +optional
	Readiness *Probe `json:"readiness,omitempty"`
	// startup delays the other probes until it succeeds.
	// +optional
	Startup *Probe `json:"startup,omitempty"`
}

// Probe is one check of the container.
//
// +kubebuilder:validation:XValidation:rule="[has(self.httpGet), has(self.tcpSocket), has(self.grpc), has(self.exec)].exists_one(h, h)",message="must have exactly one of httpGet, tcpSocket, grpc and exec"
type Probe corev1.Probe

// Service is the way to reach an Application inside the cluster.
type Service struct {
	// enabled is true if the Application has a Service.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// type is the type of the Service. NodePort also opens a port on every node, and LoadBalancer
	// requests a load balancer as well.
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	// port is the TCP port of the Service, which forwards to spec.port. Default: spec.port.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`

	// annotations are annotations of the Service. The operator leaves others alone.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Ingress is the way to reach an Application from outside the cluster, by HTTP.
//
// +kubebuilder:validation:XValidation:rule="!has(self.annotations) || !('kubernetes.io/ingress.class' in self.annotations)",fieldPath=".annotations",message="set className instead of kubernetes.io/ingress.class"
type Ingress struct {
	// enabled is true if the Application has an Ingress.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// className is the name of the IngressClass. Its controller serves the Ingress. With "", the
	// Ingress gets the default class of the cluster when it is created. If it exists already, it
	// loses its class: delete it, and the operator creates it anew.
	// +optional
	// +kubebuilder:default=nginx
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of an IngressClass, like \"nginx\": lower case letters, digits, \"-\" and \".\"; or \"\" for the default class of the cluster"
	ClassName *string `json:"className,omitempty"`

	// host is the host name of the Application. It may begin with "*.".
	// +optional
	// +kubebuilder:default=example.foo.com
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([*][.])?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$') && !self.matches('^[0-9]+[.][0-9]+[.][0-9]+[.][0-9]+$')",message="must be a host name in lower case, like \"shop.example.com\" or \"*.example.com\": without scheme, port and path, and not an IP address"
	Host string `json:"host,omitempty"`

	// path is the path of the Application on the host. It matches as a prefix.
	// +optional
	// +kubebuilder:default=/
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[-A-Za-z0-9._~!$&()*+,;=:@%/\\\\x27]*$') && !self.matches('//|/[.][.]?(/|$)|%2[fF]')",message="must be the path of a URL, like \"/shop\": it begins with \"/\", and has no \"//\", \"/./\", \"/../\" or \"%2F\", no spaces, and no \"?\" or \"#\""
	Path string `json:"path,omitempty"`

	// tls makes the Ingress serve HTTPS.
	// +optional
	TLS *IngressTLS `json:"tls,omitempty"`

	// annotations are annotations of the Ingress. The operator leaves others alone.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}

// IngressTLS makes an Ingress serve HTTPS.
type IngressTLS struct {
	// secretName is the Secret with tls.crt and tls.key, in the same namespace.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret, like \"shop-tls\": lower case letters, digits, \"-\" and \".\""
	SecretName string `json:"secretName"`
}

// Gateway names the Gateway of an HTTPRoute.
type Gateway struct {
	// name is the name of the Gateway.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Gateway, like \"public\": lower case letters, digits, \"-\" and \".\""
	Name string `json:"name"`

	// namespace is the namespace of the Gateway, which must allow routes of this one. Default: the
	// namespace of the Application.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",message="must be the name of a namespace, like \"gateways\": at most 63 lower case letters, digits and \"-\""
	Namespace string `json:"namespace,omitempty"`

	// sectionName is the name of one listener of the Gateway. Default: all that match.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a listener, like \"https\": lower case letters, digits, \"-\" and \".\""
	SectionName string `json:"sectionName,omitempty"`
}

// Autoscaling has the limits and the targets of a HorizontalPodAutoscaler.
//
// +kubebuilder:validation:XValidation:rule="self.maxReplicas < 1 || !has(self.minReplicas) || self.minReplicas > 10000 || self.minReplicas <= self.maxReplicas",fieldPath=".minReplicas",message="must not be more than maxReplicas"
type Autoscaling struct {
	// minReplicas is the smallest number of Pods.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the largest number of Pods.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxReplicas int32 `json:"maxReplicas"`

	// targetCPUUtilizationPercentage is the target for CPU, in percent of resources.requests.
	// Default: 80, if targetMemoryUtilizationPercentage is not set either.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetCPUUtilizationPercentage *int32 `json:"targetCPUUtilizationPercentage,omitempty"`

	// targetMemoryUtilizationPercentage is the target for memory, in percent of resources.requests.
	// Default: no target.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetMemoryUtilizationPercentage *int32 `json:"targetMemoryUtilizationPercentage,omitempty"`
}

// DisruptionBudget limits how many Pods can be evicted at once, for example by a drain of their
// nodes.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.minAvailable) && has(self.maxUnavailable))",fieldPath=".maxUnavailable",message="minAvailable and maxUnavailable exclude each other: set one of them"
type DisruptionBudget struct {
	// minAvailable is the number of Pods that must stay available: a number, or a share like "50%".
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : self.matches('^([0-9]{1,2}|100)%$')",message="must be a number that is not negative, or a share from \"0%\" to \"100%\""
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// maxUnavailable is the number of Pods that may be unavailable: a number, or a share like
	// "25%". Default: 1, if minAvailable is not set either.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : self.matches('^([0-9]{1,2}|100)%$')",message="must be a number that is not negative, or a share from \"0%\" to \"100%\""
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// ApplicationStatus is the observed state of the Application.
type ApplicationStatus struct {
	// observedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready (the Application matches the spec, and the rollout is complete),
	// Progressing (a rollout is in progress), Available (enough Pods are available), Degraded
	// (there is a problem) and Conflict (an object of another owner has a name that the Application
	// needs).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// replicas is the number of Pods of all versions. During a rollout, the operator updates this
	// and the other numbers at most every 10 seconds.
	// +optional
	Replicas int32 `json:"replicas"`
	// updatedReplicas is the number of Pods of the latest version.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// readyReplicas is the number of Pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// availableReplicas is the number of Pods that are available to the Deployment.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`

	// selector selects the Pods. The scale subresource needs it.
	// +optional
	Selector string `json:"selector,omitempty"`

	// url is the address of the Application: of its Ingress or its HTTPRoute, or else of its Service
	// inside the cluster.
	// +optional
	URL string `json:"url,omitempty"`

	// resources are the existing objects of the Application.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Resources []ResourceReference `json:"resources,omitempty"`
}

// ResourceReference names one object in the namespace of the Application.
type ResourceReference struct {
	// apiVersion is the API group and version of the object.
	// +required
	APIVersion string `json:"apiVersion"`
	// kind is the kind of the object.
	// +required
	Kind string `json:"kind"`
	// name is the name of the object.
	// +required
	Name string `json:"name"`
}

// Condition types of an Application, besides those of every resource.
const (
	ConditionAvailable = "Available"
	ConditionConflict  = "Conflict"
)

// ApplicationList is a list of Applications.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ApplicationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Application `json:"items"`
}

// LabelApplication is a label of every object and Pod of an Application. Its value is the name of
// the Application.
const LabelApplication = GroupName + "/application"
