/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Application runs an image: as a Deployment behind a Service and an Ingress, all
// of the Application's own name, with a HorizontalPodAutoscaler and a
// PodDisruptionBudget where asked for.
//
// +genclient
// +genclient:method=GetScale,verb=get,subresource=scale,result=k8s.io/api/autoscaling/v1.Scale
// +genclient:method=UpdateScale,verb=update,subresource=scale,input=k8s.io/api/autoscaling/v1.Scale,result=k8s.io/api/autoscaling/v1.Scale
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=applications,singular=application,shortName=app,categories=glassback
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:metadata:annotations="glassback.dev/crd-revision=1"
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

// ApplicationSpec says what runs, and how it is reached. Only image is needed.
//
// +kubebuilder:validation:XValidation:rule="self.?service.enabled.orValue(true) || !self.?ingress.enabled.orValue(true)",fieldPath=".ingress.enabled",message="an Ingress needs the Service: where service.enabled is false, ingress.enabled must be false too"
type ApplicationSpec struct {
	// image is what the one container of each Pod runs. Needed.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^([A-Za-z0-9.-]+(:[0-9]+)?/|[[][0-9A-Fa-f:]+](:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?(@[A-Za-z][A-Za-z0-9+._-]*:[0-9A-Fa-f]+)?$')",message="must be the name of an image, like \"nginx:1.27\" or \"ghcr.io/owner/app:v1\": without spaces, and in lower case but for the tag"
	Image string `json:"image"`

	// command replaces the image's entrypoint.
	// +optional
	// +listType=atomic
	Command []string `json:"command,omitempty"`

	// args replace the arguments of the image's entrypoint.
	// +optional
	// +listType=atomic
	Args []string `json:"args,omitempty"`

	// Why replicas has no Minimum: where there is a scale subresource, the API server
	// refuses a negative number by itself, and would say so twice.

	// replicas is how many Pods run. It counts until autoscaling is set: from then
	// on the number is left to the autoscaler.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`

	// port is the port that the container listens on, TCP.
	// +optional
	// +kubebuilder:default=8080
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`

	// env are the container's environment variables.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:XValidation:rule="self.all(e, e.name.matches('^[-._a-zA-Z][-._a-zA-Z0-9]*$'))",message="the name of every variable must be letters, digits, \"_\", \"-\" and \".\", and must not begin with a digit",messageExpression="'the name \"%s\" must be letters, digits, \"_\", \"-\" and \".\", and must not begin with a digit'.format([self.filter(e, !e.name.matches('^[-._a-zA-Z][-._a-zA-Z0-9]*$'))[0].name])"
	// +kubebuilder:validation:XValidation:rule="self.all(e, !has(e.valueFrom) || e.?value.orValue('') == '' && [has(e.valueFrom.configMapKeyRef), has(e.valueFrom.secretKeyRef), has(e.valueFrom.fieldRef), has(e.valueFrom.resourceFieldRef)].exists_one(h, h))",message="every variable must have either value or valueFrom, and in valueFrom exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef",messageExpression="'%s must have either value or valueFrom, and in valueFrom exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef'.format([self.filter(e, !(!has(e.valueFrom) || e.?value.orValue('') == '' && [has(e.valueFrom.configMapKeyRef), has(e.valueFrom.secretKeyRef), has(e.valueFrom.fieldRef), has(e.valueFrom.resourceFieldRef)].exists_one(h, h)))[0].name])"
	Env []EnvVar `json:"env,omitempty"`

	// envFrom are ConfigMaps and Secrets whose keys become environment variables: each
	// entry has exactly one of configMapRef and secretRef.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(e, has(e.configMapRef) != has(e.secretRef))",message="every entry must have exactly one of configMapRef and secretRef",messageExpression="'[%d] must have exactly one of configMapRef and secretRef'.format([self.map(e, has(e.configMapRef) != has(e.secretRef)).indexOf(false)])"
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// Why the rule of resources passes long exponents over: the pattern refuses them,
	// but keeps no rule from running, and quantity('1e-99999999') takes minutes.

	// resources are what the container asks for, and may not exceed, as in the
	// container of a Pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="['cpu', 'memory', 'ephemeral-storage'].all(k, !self.?requests[?k].hasValue() || !self.?limits[?k].hasValue() || [self.requests[k], self.limits[k]].exists(q, string(q).matches('[eE].*[0-9]{3}')) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)",fieldPath=".requests",message="no request for cpu, memory or ephemeral-storage may be more than its limit"
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// probes tell whether the container works: each by exactly one of httpGet,
	// tcpSocket, grpc and exec, as in the container of a Pod. The port "http" stands
	// for spec.port.
	// +optional
	Probes *Probes `json:"probes,omitempty"`

	// imagePullSecrets are Secrets of this namespace to pull the image with.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(e, e.name != '')",message="every entry must have the name of a Secret"
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// service is how the Application is reached inside the cluster.
	// +optional
	// +kubebuilder:default={}
	Service Service `json:"service,omitempty"`

	// ingress is how the Application is reached from outside.
	// +optional
	// +kubebuilder:default={}
	Ingress Ingress `json:"ingress,omitempty"`

	// autoscaling hands the number of replicas to a HorizontalPodAutoscaler.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`

	// pdb limits how many Pods are taken down at once on purpose, by a
	// PodDisruptionBudget.
	// +optional
	PDB *DisruptionBudget `json:"pdb,omitempty"`
}

// EnvVar is an environment variable of the container.
type EnvVar struct {
	// name is the variable's name. It must not begin with a digit.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// value is the variable's value. $(OTHER) in it stands for the value of another
	// variable.
	// +optional
	Value string `json:"value,omitempty"`

	// valueFrom says where the value is, instead: exactly one of configMapKeyRef,
	// secretKeyRef, fieldRef and resourceFieldRef.
	// +optional
	ValueFrom *corev1.EnvVarSource `json:"valueFrom,omitempty"`
}

// Probes tell whether the container works.
type Probes struct {
	// liveness restarts the container when it fails.
	// +optional
	Liveness *Probe `json:"liveness,omitempty"`
	// readiness takes the Pod out of the Service while it fails.
	// +optional
	Readiness *Probe `json:"readiness,omitempty"`
	// startup holds the other probes back until it succeeds.
	// +optional
	Startup *Probe `json:"startup,omitempty"`
}

// Probe asks the container one thing.
//
// +kubebuilder:validation:XValidation:rule="[has(self.httpGet), has(self.tcpSocket), has(self.grpc), has(self.exec)].exists_one(h, h)",message="must have exactly one of httpGet, tcpSocket, grpc and exec"
type Probe corev1.Probe

// Service is how an Application is reached inside the cluster.
type Service struct {
	// enabled is whether there is a Service.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// type says from where the Service can be reached.
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	// port is the Service's port, TCP. It leads to spec.port, and is the same if not
	// set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`

	// annotations are put on the Service.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Ingress is how an Application is reached from outside the cluster, by HTTP.
//
// +kubebuilder:validation:XValidation:rule="!has(self.annotations) || !('kubernetes.io/ingress.class' in self.annotations)",fieldPath=".annotations",message="set className instead of kubernetes.io/ingress.class"
type Ingress struct {
	// enabled is whether there is an Ingress.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// className is the IngressClass, which says who serves the Ingress.
	// +optional
	// +kubebuilder:default=nginx
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of an IngressClass, like \"nginx\": lower case letters, digits, \"-\" and \".\""
	ClassName string `json:"className,omitempty"`

	// host is the name by which the Application is reached. It may begin with "*.".
	// +optional
	// +kubebuilder:default=example.foo.com
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([*][.])?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$') && !self.matches('^[0-9]+[.][0-9]+[.][0-9]+[.][0-9]+$')",message="must be a host name in lower case, like \"shop.example.com\" or \"*.example.com\": without scheme, port and path, and not an IP address"
	Host string `json:"host,omitempty"`

	// path is where on the host the Application is.
	// +optional
	// +kubebuilder:default=/
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[-A-Za-z0-9._~!$&()*+,;=:@%/\\\\x27]*$') && !self.matches('//|/[.][.]?(/|$)|%2[fF]')",message="must be the path of a URL, like \"/shop\": it begins with \"/\", and has no \"//\", \"/./\", \"/../\" or \"%2F\", no spaces, and no \"?\" or \"#\""
	Path string `json:"path,omitempty"`

	// tls has the Ingress serve HTTPS.
	// +optional
	TLS *IngressTLS `json:"tls,omitempty"`

	// annotations are put on the Ingress.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}

// IngressTLS has an Ingress serve HTTPS.
type IngressTLS struct {
	// secretName is the Secret of this namespace that holds tls.crt and tls.key.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret, like \"shop-tls\": lower case letters, digits, \"-\" and \".\""
	SecretName string `json:"secretName"`
}

// Autoscaling says between which numbers of replicas, and by what, a
// HorizontalPodAutoscaler chooses.
//
// +kubebuilder:validation:XValidation:rule="self.maxReplicas < 1 || !has(self.minReplicas) || self.minReplicas > 10000 || self.minReplicas <= self.maxReplicas",fieldPath=".minReplicas",message="must not be more than maxReplicas"
type Autoscaling struct {
	// minReplicas is the least number of replicas.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the greatest number of replicas.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxReplicas int32 `json:"maxReplicas"`

	// targetCPUUtilizationPercentage is the use of CPU, in percent of what
	// resources.requests asks for, that the autoscaler aims at. 80, if neither it nor
	// targetMemoryUtilizationPercentage is set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetCPUUtilizationPercentage *int32 `json:"targetCPUUtilizationPercentage,omitempty"`

	// targetMemoryUtilizationPercentage is the use of memory, in percent of what
	// resources.requests asks for, that the autoscaler aims at.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetMemoryUtilizationPercentage *int32 `json:"targetMemoryUtilizationPercentage,omitempty"`
}

// DisruptionBudget limits how many Pods are taken down at once on purpose: by a
// node that is drained, for example. If neither field is set, it is one.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.minAvailable) && has(self.maxUnavailable))",fieldPath=".maxUnavailable",message="minAvailable and maxUnavailable exclude each other: set one of them"
type DisruptionBudget struct {
	// minAvailable is how many Pods must stay available: a number, or a share like
	// "50%".
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : self.matches('^([0-9]{1,2}|100)%$')",message="must be a number that is not negative, or a share from \"0%\" to \"100%\""
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// maxUnavailable is how many Pods may be unavailable: a number, or a share like
	// "25%".
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : self.matches('^([0-9]{1,2}|100)%$')",message="must be a number that is not negative, or a share from \"0%\" to \"100%\""
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// ApplicationStatus says what the Application has become.
type ApplicationStatus struct {
	// observedGeneration is the metadata.generation that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready (all is as the spec says, and rolled out), Progressing (a
	// rollout is under way), Available (enough Pods serve), Degraded (something is
	// wrong, with the Deployment's reason where it has one) and Conflict (an object
	// that is not the Application's has the name of one that it needs).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// replicas is the number of Pods, of whatever version.
	//
	// While a rollout goes on, this and the other numbers are brought up to date
	// every ten seconds.
	// +optional
	Replicas int32 `json:"replicas"`
	// updatedReplicas is the number of Pods of the latest version.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// readyReplicas is the number of Pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// availableReplicas is the number of Pods that have been ready for long enough.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`

	// selector finds the Pods. It is there for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`

	// url is where the Application is reached: by its Ingress, or else by its Service,
	// from inside the cluster.
	// +optional
	URL string `json:"url,omitempty"`

	// resources are the objects that make up the Application.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Resources []ResourceReference `json:"resources,omitempty"`
}

// ResourceReference names one object in the Application's namespace.
type ResourceReference struct {
	// apiVersion is the object's API group and version.
	// +required
	APIVersion string `json:"apiVersion"`
	// kind is the object's kind.
	// +required
	Kind string `json:"kind"`
	// name is the object's name.
	// +required
	Name string `json:"name"`
}

// Condition types of an Application beside those that every resource has.
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

// LabelApplication is on every object and Pod of an Application, and holds its
// name.
const LabelApplication = GroupName + "/application"
