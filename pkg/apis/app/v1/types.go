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
// +kubebuilder:validation:XValidation:rule="!(has(self.service) && has(self.service.enabled) && !self.service.enabled) || (has(self.ingress) && has(self.ingress.enabled) && !self.ingress.enabled)",fieldPath=".ingress.enabled",message="an Ingress needs the Service: where service.enabled is false, ingress.enabled must be false too"
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

	// Why the rules of env and others look at text one character at a time: text inside
	// of a Kubernetes type and the keys of a map have no MaxLength, so the API server
	// reckons with any length, and takes only what costs the same for all.

	// env are the container's environment variables.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:XValidation:rule="self.all(e, '0123456789'.indexOf(e.name.charAt(0)) < 0 && e.name != '.' && !e.name.startsWith('..') && size(e.name) <= 128 && [0, 16, 32, 48, 64, 80, 96, 112].all(a, a >= size(e.name) || [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].all(b, a + b >= size(e.name) || '-._abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'.indexOf(e.name.charAt(a + b)) >= 0)) && (!has(e.value) || e.value == '' || !has(e.valueFrom)) && (!has(e.valueFrom) || !has(e.valueFrom.fileKeyRef) && [has(e.valueFrom.configMapKeyRef), has(e.valueFrom.secretKeyRef), has(e.valueFrom.fieldRef), has(e.valueFrom.resourceFieldRef)].exists_one(h, h)) && (!has(e.valueFrom) || (!has(e.valueFrom.configMapKeyRef) || e.valueFrom.configMapKeyRef.name != '' && e.valueFrom.configMapKeyRef.key != '') && (!has(e.valueFrom.secretKeyRef) || e.valueFrom.secretKeyRef.name != '' && e.valueFrom.secretKeyRef.key != '') && (!has(e.valueFrom.fieldRef) || (!has(e.valueFrom.fieldRef.apiVersion) || e.valueFrom.fieldRef.apiVersion in ['', 'v1']) && (e.valueFrom.fieldRef.fieldPath in ['metadata.name', 'metadata.namespace', 'metadata.uid', 'spec.nodeName', 'spec.serviceAccountName', 'status.hostIP', 'status.hostIPs', 'status.podIP', 'status.podIPs'] || e.valueFrom.fieldRef.fieldPath.startsWith('metadata.labels[') || e.valueFrom.fieldRef.fieldPath.startsWith('metadata.annotations['))) && (!has(e.valueFrom.resourceFieldRef) || e.valueFrom.resourceFieldRef.resource in ['limits.cpu', 'limits.memory', 'limits.ephemeral-storage', 'requests.cpu', 'requests.memory', 'requests.ephemeral-storage'] && (!has(e.valueFrom.resourceFieldRef.divisor) || (type(e.valueFrom.resourceFieldRef.divisor) == int ? e.valueFrom.resourceFieldRef.divisor in [0, 1] : e.valueFrom.resourceFieldRef.divisor in ['1m', '1', '1k', '1M', '1G', '1T', '1P', '1E', '1Ki', '1Mi', '1Gi', '1Ti', '1Pi', '1Ei', '0'])))))",message="every entry must have a name, and either a value or one source in valueFrom",messageExpression="self.map(e, !('0123456789'.indexOf(e.name.charAt(0)) < 0 && e.name != '.' && !e.name.startsWith('..') && size(e.name) <= 128 && [0, 16, 32, 48, 64, 80, 96, 112].all(a, a >= size(e.name) || [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].all(b, a + b >= size(e.name) || '-._abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'.indexOf(e.name.charAt(a + b)) >= 0))) ? 'the name \"%s\" must be 1 to 128 letters, digits, \"_\", \"-\" and \".\", the first neither a digit nor \"..\"'.format([e.name]) : !((!has(e.value) || e.value == '' || !has(e.valueFrom)) && (!has(e.valueFrom) || !has(e.valueFrom.fileKeyRef) && [has(e.valueFrom.configMapKeyRef), has(e.valueFrom.secretKeyRef), has(e.valueFrom.fieldRef), has(e.valueFrom.resourceFieldRef)].exists_one(h, h))) ? '%s must have either value or valueFrom, and valueFrom exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef'.format([e.name]) : !(!has(e.valueFrom) || (!has(e.valueFrom.configMapKeyRef) || e.valueFrom.configMapKeyRef.name != '' && e.valueFrom.configMapKeyRef.key != '') && (!has(e.valueFrom.secretKeyRef) || e.valueFrom.secretKeyRef.name != '' && e.valueFrom.secretKeyRef.key != '') && (!has(e.valueFrom.fieldRef) || (!has(e.valueFrom.fieldRef.apiVersion) || e.valueFrom.fieldRef.apiVersion in ['', 'v1']) && (e.valueFrom.fieldRef.fieldPath in ['metadata.name', 'metadata.namespace', 'metadata.uid', 'spec.nodeName', 'spec.serviceAccountName', 'status.hostIP', 'status.hostIPs', 'status.podIP', 'status.podIPs'] || e.valueFrom.fieldRef.fieldPath.startsWith('metadata.labels[') || e.valueFrom.fieldRef.fieldPath.startsWith('metadata.annotations['))) && (!has(e.valueFrom.resourceFieldRef) || e.valueFrom.resourceFieldRef.resource in ['limits.cpu', 'limits.memory', 'limits.ephemeral-storage', 'requests.cpu', 'requests.memory', 'requests.ephemeral-storage'] && (!has(e.valueFrom.resourceFieldRef.divisor) || (type(e.valueFrom.resourceFieldRef.divisor) == int ? e.valueFrom.resourceFieldRef.divisor in [0, 1] : e.valueFrom.resourceFieldRef.divisor in ['1m', '1', '1k', '1M', '1G', '1T', '1P', '1E', '1Ki', '1Mi', '1Gi', '1Ti', '1Pi', '1Ei', '0'])))) ? '%s: configMapKeyRef and secretKeyRef need a name and a key, fieldRef a fieldPath like \"metadata.name\", resourceFieldRef a resource like \"limits.memory\" and a divisor, if any, like \"1Mi\"'.format([e.name]) : '').filter(m, m != '')[0]"
	Env []corev1.EnvVar `json:"env,omitempty"`

	// envFrom are ConfigMaps and Secrets whose keys become environment variables.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(e, has(e.configMapRef) != has(e.secretRef) && (!has(e.configMapRef) || e.configMapRef.name != '') && (!has(e.secretRef) || e.secretRef.name != ''))",message="every entry must have exactly one of configMapRef and secretRef, with a name",messageExpression="'[%d] must have exactly one of configMapRef and secretRef, with a name'.format([self.map(e, has(e.configMapRef) != has(e.secretRef) && (!has(e.configMapRef) || e.configMapRef.name != '') && (!has(e.secretRef) || e.secretRef.name != '')).indexOf(false)])"
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// Why quantities have no exponent: to parse 1e-999999999, or to compare 1e999999999,
	// takes the API server, and everybody who reads the object, longer than they have.

	// resources are what the container asks for, and may not exceed. Those other than
	// cpu, memory and ephemeral-storage are whole numbers.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.limits) || ['cpu', 'memory', 'ephemeral-storage'].all(k, !(k in self.limits) || (type(self.limits[k]) == int ? self.limits[k] >= 0 : size(self.limits[k]) <= 32 && !self.limits[k].matches('[eE][-+.0-9]') && (!isQuantity(self.limits[k]) || !quantity(self.limits[k]).isLessThan(quantity('0')))))",fieldPath=".limits",message="must be quantities like \"100m\" or \"64Mi\": not negative, and without an exponent"
	// +kubebuilder:validation:XValidation:rule="!has(self.requests) || ['cpu', 'memory', 'ephemeral-storage'].all(k, !(k in self.requests) || (type(self.requests[k]) == int ? self.requests[k] >= 0 : size(self.requests[k]) <= 32 && !self.requests[k].matches('[eE][-+.0-9]') && (!isQuantity(self.requests[k]) || !quantity(self.requests[k]).isLessThan(quantity('0')))))",fieldPath=".requests",message="must be quantities like \"100m\" or \"64Mi\": not negative, and without an exponent"
	// +kubebuilder:validation:XValidation:rule="!has(self.limits) || !has(self.requests) || ['cpu', 'memory', 'ephemeral-storage'].all(k, !(k in self.limits && k in self.requests && (type(self.limits[k]) == int || size(self.limits[k]) <= 32 && !self.limits[k].matches('[eE][-+.0-9]') && isQuantity(self.limits[k])) && (type(self.requests[k]) == int || size(self.requests[k]) <= 32 && !self.requests[k].matches('[eE][-+.0-9]') && isQuantity(self.requests[k])) && (type(self.requests[k]) == int ? quantity('0').add(self.requests[k]) : quantity(self.requests[k])).compareTo((type(self.limits[k]) == int ? quantity('0').add(self.limits[k]) : quantity(self.limits[k]))) > 0))",fieldPath=".requests",message="no request may be more than its limit",messageExpression="'%s must not be more than in limits'.format([['cpu', 'memory', 'ephemeral-storage'].filter(k, k in self.limits && k in self.requests && (type(self.limits[k]) == int || size(self.limits[k]) <= 32 && !self.limits[k].matches('[eE][-+.0-9]') && isQuantity(self.limits[k])) && (type(self.requests[k]) == int || size(self.requests[k]) <= 32 && !self.requests[k].matches('[eE][-+.0-9]') && isQuantity(self.requests[k])) && (type(self.requests[k]) == int ? quantity('0').add(self.requests[k]) : quantity(self.requests[k])).compareTo((type(self.limits[k]) == int ? quantity('0').add(self.limits[k]) : quantity(self.limits[k]))) > 0)[0]])"
	// +kubebuilder:validation:XValidation:rule="!has(self.limits) || self.limits.all(k, k == 'cpu' || k == 'memory' || k == 'ephemeral-storage' || int(self.limits[k]) >= 0)",fieldPath=".limits",message="resources other than cpu, memory and ephemeral-storage must be whole numbers, and not negative"
	// +kubebuilder:validation:XValidation:rule="!has(self.requests) || self.requests.all(k, k == 'cpu' || k == 'memory' || k == 'ephemeral-storage' || int(self.requests[k]) >= 0)",fieldPath=".requests",message="resources other than cpu, memory and ephemeral-storage must be whole numbers, and not negative"
	// +kubebuilder:validation:XValidation:rule="!has(self.claims) || size(self.claims) == 0",fieldPath=".claims",message="must be empty: an Application has no resourceClaims"
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// probes tell whether the container works.
	// +optional
	Probes *Probes `json:"probes,omitempty"`

	// imagePullSecrets are Secrets of this namespace to pull the image with.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.map(e, e.name).all(n, n != '' && size(n) <= 253 && 'abcdefghijklmnopqrstuvwxyz0123456789'.indexOf(n.charAt(0)) >= 0 && 'abcdefghijklmnopqrstuvwxyz0123456789'.indexOf(n.charAt(size(n) - 1)) >= 0 && [0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240].all(a, a >= size(n) || [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].all(b, a + b >= size(n) || '-.abcdefghijklmnopqrstuvwxyz0123456789'.indexOf(n.charAt(a + b)) >= 0)))",message="every entry must have the name of a Secret",messageExpression="'\"%s\" cannot be the name of a Secret'.format([self.map(e, e.name).filter(n, !(n != '' && size(n) <= 253 && 'abcdefghijklmnopqrstuvwxyz0123456789'.indexOf(n.charAt(0)) >= 0 && 'abcdefghijklmnopqrstuvwxyz0123456789'.indexOf(n.charAt(size(n) - 1)) >= 0 && [0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240].all(a, a >= size(n) || [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].all(b, a + b >= size(n) || '-.abcdefghijklmnopqrstuvwxyz0123456789'.indexOf(n.charAt(a + b)) >= 0))))[0]])"
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

// Probes tell whether the container works.
type Probes struct {
	// liveness restarts the container when it fails.
	// +optional
	// +kubebuilder:validation:XValidation:rule="[has(self.httpGet), has(self.tcpSocket), has(self.grpc), has(self.exec)].exists_one(h, h) && (!has(self.exec) || has(self.exec.command) && size(self.exec.command) > 0)",message="must have exactly one of httpGet, tcpSocket, grpc and exec, and exec a command"
	// +kubebuilder:validation:XValidation:rule="(!has(self.httpGet) || (type(self.httpGet.port) == int ? self.httpGet.port >= 1 && self.httpGet.port <= 65535 : self.httpGet.port == 'http')) && (!has(self.tcpSocket) || (type(self.tcpSocket.port) == int ? self.tcpSocket.port >= 1 && self.tcpSocket.port <= 65535 : self.tcpSocket.port == 'http')) && (!has(self.grpc) || self.grpc.port >= 1 && self.grpc.port <= 65535) && (!has(self.httpGet) || !has(self.httpGet.scheme) || self.httpGet.scheme in ['', 'HTTP', 'HTTPS'])",message="port must be a number from 1 to 65535, without quotes, or \"http\", which stands for spec.port; and scheme, if any, HTTP or HTTPS"
	// +kubebuilder:validation:XValidation:rule="(!has(self.initialDelaySeconds) || self.initialDelaySeconds >= 0) && (!has(self.timeoutSeconds) || self.timeoutSeconds >= 0) && (!has(self.periodSeconds) || self.periodSeconds >= 0) && (!has(self.successThreshold) || self.successThreshold >= 0) && (!has(self.failureThreshold) || self.failureThreshold >= 0) && (!has(self.successThreshold) || self.successThreshold <= 1) && (!has(self.terminationGracePeriodSeconds) || self.terminationGracePeriodSeconds >= 1)",message="no number may be negative; successThreshold can only be 1, and terminationGracePeriodSeconds must be at least 1"
	Liveness *corev1.Probe `json:"liveness,omitempty"`
	// readiness takes the Pod out of the Service while it fails.
	// +optional
	// +kubebuilder:validation:XValidation:rule="[has(self.httpGet), has(self.tcpSocket), has(self.grpc), has(self.exec)].exists_one(h, h) && (!has(self.exec) || has(self.exec.command) && size(self.exec.command) > 0)",message="must have exactly one of httpGet, tcpSocket, grpc and exec, and exec a command"
	// +kubebuilder:validation:XValidation:rule="(!has(self.httpGet) || (type(self.httpGet.port) == int ? self.httpGet.port >= 1 && self.httpGet.port <= 65535 : self.httpGet.port == 'http')) && (!has(self.tcpSocket) || (type(self.tcpSocket.port) == int ? self.tcpSocket.port >= 1 && self.tcpSocket.port <= 65535 : self.tcpSocket.port == 'http')) && (!has(self.grpc) || self.grpc.port >= 1 && self.grpc.port <= 65535) && (!has(self.httpGet) || !has(self.httpGet.scheme) || self.httpGet.scheme in ['', 'HTTP', 'HTTPS'])",message="port must be a number from 1 to 65535, without quotes, or \"http\", which stands for spec.port; and scheme, if any, HTTP or HTTPS"
	// +kubebuilder:validation:XValidation:rule="(!has(self.initialDelaySeconds) || self.initialDelaySeconds >= 0) && (!has(self.timeoutSeconds) || self.timeoutSeconds >= 0) && (!has(self.periodSeconds) || self.periodSeconds >= 0) && (!has(self.successThreshold) || self.successThreshold >= 0) && (!has(self.failureThreshold) || self.failureThreshold >= 0) && !has(self.terminationGracePeriodSeconds)",message="no number may be negative, and terminationGracePeriodSeconds goes with the other probes only"
	Readiness *corev1.Probe `json:"readiness,omitempty"`
	// startup holds the other probes back until it succeeds.
	// +optional
	// +kubebuilder:validation:XValidation:rule="[has(self.httpGet), has(self.tcpSocket), has(self.grpc), has(self.exec)].exists_one(h, h) && (!has(self.exec) || has(self.exec.command) && size(self.exec.command) > 0)",message="must have exactly one of httpGet, tcpSocket, grpc and exec, and exec a command"
	// +kubebuilder:validation:XValidation:rule="(!has(self.httpGet) || (type(self.httpGet.port) == int ? self.httpGet.port >= 1 && self.httpGet.port <= 65535 : self.httpGet.port == 'http')) && (!has(self.tcpSocket) || (type(self.tcpSocket.port) == int ? self.tcpSocket.port >= 1 && self.tcpSocket.port <= 65535 : self.tcpSocket.port == 'http')) && (!has(self.grpc) || self.grpc.port >= 1 && self.grpc.port <= 65535) && (!has(self.httpGet) || !has(self.httpGet.scheme) || self.httpGet.scheme in ['', 'HTTP', 'HTTPS'])",message="port must be a number from 1 to 65535, without quotes, or \"http\", which stands for spec.port; and scheme, if any, HTTP or HTTPS"
	// +kubebuilder:validation:XValidation:rule="(!has(self.initialDelaySeconds) || self.initialDelaySeconds >= 0) && (!has(self.timeoutSeconds) || self.timeoutSeconds >= 0) && (!has(self.periodSeconds) || self.periodSeconds >= 0) && (!has(self.successThreshold) || self.successThreshold >= 0) && (!has(self.failureThreshold) || self.failureThreshold >= 0) && (!has(self.successThreshold) || self.successThreshold <= 1) && (!has(self.terminationGracePeriodSeconds) || self.terminationGracePeriodSeconds >= 1)",message="no number may be negative; successThreshold can only be 1, and terminationGracePeriodSeconds must be at least 1"
	Startup *corev1.Probe `json:"startup,omitempty"`
}

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
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '' && size(k) <= 317 && 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'.indexOf(k.charAt(0)) >= 0 && 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'.indexOf(k.charAt(size(k) - 1)) >= 0 && [0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 272, 288, 304].all(a, a >= size(k) || [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].all(b, a + b >= size(k) || '-._/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'.indexOf(k.charAt(a + b)) >= 0)) && [0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 272, 288, 304].map(a, size([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].filter(b, a + b < size(k) && k.charAt(a + b) == '/'))).sum() <= 1)",message="every key must be like \"team\" or \"example.com/team\"",messageExpression="'the key \"%s\" must be like \"team\" or \"example.com/team\": letters, digits, \"-\", \"_\" and \".\", and a letter or digit at both ends'.format([self.filter(k, !(k != '' && size(k) <= 317 && 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'.indexOf(k.charAt(0)) >= 0 && 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'.indexOf(k.charAt(size(k) - 1)) >= 0 && [0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 272, 288, 304].all(a, a >= size(k) || [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].all(b, a + b >= size(k) || '-._/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'.indexOf(k.charAt(a + b)) >= 0)) && [0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 272, 288, 304].map(a, size([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].filter(b, a + b < size(k) && k.charAt(a + b) == '/'))).sum() <= 1))[0]])"
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
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '' && size(k) <= 317 && 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'.indexOf(k.charAt(0)) >= 0 && 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'.indexOf(k.charAt(size(k) - 1)) >= 0 && [0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 272, 288, 304].all(a, a >= size(k) || [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].all(b, a + b >= size(k) || '-._/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'.indexOf(k.charAt(a + b)) >= 0)) && [0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 272, 288, 304].map(a, size([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].filter(b, a + b < size(k) && k.charAt(a + b) == '/'))).sum() <= 1)",message="every key must be like \"team\" or \"example.com/team\"",messageExpression="'the key \"%s\" must be like \"team\" or \"example.com/team\": letters, digits, \"-\", \"_\" and \".\", and a letter or digit at both ends'.format([self.filter(k, !(k != '' && size(k) <= 317 && 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'.indexOf(k.charAt(0)) >= 0 && 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'.indexOf(k.charAt(size(k) - 1)) >= 0 && [0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 272, 288, 304].all(a, a >= size(k) || [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].all(b, a + b >= size(k) || '-._/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'.indexOf(k.charAt(a + b)) >= 0)) && [0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 272, 288, 304].map(a, size([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].filter(b, a + b < size(k) && k.charAt(a + b) == '/'))).sum() <= 1))[0]])"
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
