/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RedisCluster is a Redis Cluster: masters that share all 16,384 slots, and their
// replicas, each in a Pod of its own, named <name>-<ordinal>.
//
// +genclient
// +genclient:method=GetScale,verb=get,subresource=scale,result=k8s.io/api/autoscaling/v1.Scale
// +genclient:method=UpdateScale,verb=update,subresource=scale,input=k8s.io/api/autoscaling/v1.Scale,result=k8s.io/api/autoscaling/v1.Scale
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=redisclusters,singular=rediscluster,shortName=rdc,categories=glassback
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.size,statuspath=.status.size,selectorpath=.status.selector
// +kubebuilder:metadata:annotations="glassback.dev/crd-revision=2"
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.status.size`
// +kubebuilder:printcolumn:name="Masters",type=integer,JSONPath=`.status.masters`
// +kubebuilder:printcolumn:name="Slots",type=integer,JSONPath=`.status.slotsAssigned`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.status.endpoint`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Operation",type=string,priority=1,JSONPath=`.status.operation.type`
// +kubebuilder:printcolumn:name="Image",type=string,priority=1,JSONPath=`.spec.image`
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$') || size(self.metadata.name) <= 52 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",fieldPath=".metadata",message="name must be a DNS label of no more than 52 characters that begins with a letter, like \"sessions\": its Service and its Pods are named after it"
type RedisCluster struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	// +kubebuilder:default={}
	Spec RedisClusterSpec `json:"spec"`
	// +optional
	Status RedisClusterStatus `json:"status,omitempty"`
}

// RedisClusterSpec says how large the cluster is, and what each of its nodes is. Only
// addr is needed.
//
// +kubebuilder:validation:XValidation:rule="has(self.storage) == has(oldSelf.storage)",fieldPath=".storage",message="cannot be added to a cluster or taken from it: its nodes would lose what they hold"
type RedisClusterSpec struct {
	// Why addr is not required, and has no default: the rule is to be the only one that
	// speaks of an addr that is empty, and it would refuse the default. What is left out
	// is refused by the webhook, and by the controller. Why there is a MaxLength far
	// beyond any address: a host name, however long, is to be told the same.

	// addr is "ip:port". Needed. Every node listens on the port; the IP is published with
	// it in status.endpoint, as the address by which clients from outside find the
	// cluster, and may be any.
	// +optional
	// +kubebuilder:validation:MaxLength=1000
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9.]+|[[][0-9A-Fa-f:.]+[]]):[1-9][0-9]{0,4}$') && int(self.substring(self.lastIndexOf(':') + 1)) <= 65535 && (self.startsWith('[') ? isIP(self.substring(1, self.lastIndexOf(':') - 1)) && ip(self.substring(1, self.lastIndexOf(':') - 1)).family() == 6 : isIP(self.substring(0, self.lastIndexOf(':'))))",message="invalid ip port, ip:port"
	Addr string `json:"addr,omitempty"`

	// Why size has no Minimum: what is too small is raised, by the webhook where there
	// is one, and by the controller in any case. The API server itself refuses a negative
	// number, since there is a scale subresource.

	// size is how many nodes there are, masters and replicas: at least 6, and at least
	// three masters with their replicas. What is less is raised to that.
	// +optional
	// +kubebuilder:default=6
	// +kubebuilder:validation:Maximum=500
	Size *int32 `json:"size,omitempty"`

	// replicasPerMaster is how many replicas each master has. If size is not a multiple
	// of a master with its replicas, some masters have one more.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=5
	ReplicasPerMaster *int32 `json:"replicasPerMaster,omitempty"`

	// image is what each node runs: redis-server and redis-cli, of version 7 or later.
	// +optional
	// +kubebuilder:default="redis:7"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9.-]+(:[0-9]+)?/|[[][0-9A-Fa-f:]+](:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?(@[A-Za-z][A-Za-z0-9+._-]*:[0-9A-Fa-f]+)?$')",message="must be the name of an image, like \"redis:7\" or \"ghcr.io/owner/redis:7\": without spaces, and in lower case but for the tag"
	Image string `json:"image,omitempty"`

	// storage has each node keep its data in a PersistentVolume, which outlives its
	// Pod. Without it, data outlives a container, and not the Pod.
	// +optional
	Storage *Storage `json:"storage,omitempty"`

	// resources are what each node asks for, and may not exceed, as in the container
	// of a Pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="['cpu', 'memory', 'ephemeral-storage'].all(k, !self.?requests[?k].hasValue() || !self.?limits[?k].hasValue() || [self.requests[k], self.limits[k]].exists(q, string(q).matches('[eE].*[0-9]{3}')) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)",fieldPath=".requests",message="no request for cpu, memory or ephemeral-storage may be more than its limit"
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// config are directives of redis.conf, such as "maxmemory-policy": "allkeys-lru". Those
	// that make the nodes a cluster, or that another field of spec stands for, are not
	// among them.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[a-z][a-z0-9-]{0,63}$'))",message="every key must be the name of a directive of redis.conf, like \"maxmemory-policy\": no more than 64 lower case letters, digits and \"-\""
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k.startsWith('cluster-announce-') || k in ['aclfile', 'appenddirname', 'appendfilename', 'appendonly', 'bind', 'bind-source-addr', 'cluster-allow-replica-migration', 'cluster-config-file', 'cluster-enabled', 'cluster-port', 'cluster-replica-no-failover', 'cluster-slave-no-failover', 'daemonize', 'dbfilename', 'dir', 'include', 'loadmodule', 'logfile', 'masterauth', 'masteruser', 'pidfile', 'port', 'protected-mode', 'rename-command', 'replicaof', 'requirepass', 'slaveof', 'supervised', 'syslog-enabled', 'tls-cluster', 'tls-port', 'tls-replication', 'unixsocket', 'user'])",message="cannot set directives that the operator sets, or another field of spec, like \"port\", \"dir\" or \"requirepass\""
	Config map[string]ConfigValue `json:"config,omitempty"`

	// authSecretRef is where the password is that nodes and clients need. Without it
	// they need none.
	// +optional
	AuthSecretRef *SecretKeyReference `json:"authSecretRef,omitempty"`
}

// ConfigValue is the value of a directive of redis.conf, as it stands there. An empty one
// stands there as "".
//
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:rule="!self.matches('[\\\\x00-\\\\x1f\\\\x7f]')",message="must be one line"
type ConfigValue string

// Storage is the PersistentVolume of each node.
//
// +kubebuilder:validation:XValidation:rule="[self.size, oldSelf.size].exists(q, string(q).matches('[eE].*([.]|[0-9]{3})') || !isQuantity(string(q))) || quantity(string(self.size)).compareTo(quantity(string(oldSelf.size))) >= 0",fieldPath=".size",message="cannot be less than it was: volumes do not shrink"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",fieldPath=".storageClassName",message="cannot be changed: the volumes are of that class"
type Storage struct {
	// Why the rules of size look at exponents: the schema's pattern allows "1e1.5", which
	// no client can parse, and "1e-99999999", which takes minutes, in a rule too. One such
	// object would stop every informer.

	// size is how large each volume is. It can be raised, if the class of the volumes
	// can grow them.
	// +required
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('[eE].*([.]|[0-9]{3})')",message="the exponent of a quantity must be a whole number of no more than two digits"
	// +kubebuilder:validation:XValidation:rule="string(self).matches('[eE].*([.]|[0-9]{3})') || !isQuantity(string(self)) || quantity(string(self)).isGreaterThan(quantity('0'))",message="must be more than 0"
	Size resource.Quantity `json:"size"`

	// storageClassName is the class of the volumes: the cluster's default, if not set.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a StorageClass, like \"standard\": lower case letters, digits, \"-\" and \".\""
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// SecretKeyReference names a key of a Secret in the same namespace.
type SecretKeyReference struct {
	// name is the Secret's name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret, like \"redis-password\": lower case letters, digits, \"-\" and \".\""
	Name string `json:"name"`
	// key is the key in the Secret.
	// +optional
	// +kubebuilder:default=password
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of a Secret, like \"password\": letters, digits, \"-\", \"_\" and \".\""
	Key string `json:"key,omitempty"`
}

// RedisClusterStatus says what the cluster has become.
type RedisClusterStatus struct {
	// observedGeneration is the metadata.generation that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready (all is as the spec says), Progressing (an operation is
	// under way), Degraded (something is wrong), ClusterFormed (the nodes know each
	// other), SlotsCovered (every slot has a master that answers) and DataLoss (slots
	// have lost what they held).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// size is the number of Pods.
	// +optional
	Size int32 `json:"size"`
	// masters is the number of masters that have slots.
	// +optional
	Masters int32 `json:"masters"`
	// slotsAssigned is the number of slots, of 16,384, that have a master.
	// +optional
	SlotsAssigned int32 `json:"slotsAssigned"`

	// selector finds the Pods. It is there for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`

	// endpoint is spec.addr, once the cluster can be used.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`

	// shards are the masters with their slots and replicas.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Shards []Shard `json:"shards,omitempty"`

	// nodes are the Pods, as nodes of the cluster.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Nodes []Node `json:"nodes,omitempty"`

	// operation is what changes the cluster now, and how far it is. What it does next
	// follows from what is seen, not from what is written here.
	// +optional
	Operation *Operation `json:"operation,omitempty"`
}

// Shard is a master with its slots and replicas.
type Shard struct {
	// master is the name of the master's Pod.
	// +required
	Master string `json:"master"`
	// slots are the slots, as ranges: "0-5460,6000".
	// +optional
	Slots string `json:"slots,omitempty"`
	// replicas are the names of the replicas' Pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Replicas []string `json:"replicas,omitempty"`
}

// Role is what a node of a Redis Cluster is.
//
// +kubebuilder:validation:Enum=master;replica
type Role string

// The roles of nodes.
const (
	RoleMaster  Role = "master"
	RoleReplica Role = "replica"
)

// Node is a Pod, as a node of the cluster.
type Node struct {
	// pod is the Pod's name.
	// +required
	Pod string `json:"pod"`
	// id is the node's own, which lasts as long as its data.
	// +optional
	ID string `json:"id,omitempty"`
	// ip is the Pod's.
	// +optional
	IP string `json:"ip,omitempty"`
	// role is what the node says that it is.
	// +optional
	Role Role `json:"role,omitempty"`
	// master is, of a replica, the name of its master's Pod.
	// +optional
	Master string `json:"master,omitempty"`
	// link is how a replica's connection to its master is: "up" or "down".
	// +optional
	Link string `json:"link,omitempty"`
}

// Operation is what changes the cluster.
type Operation struct {
	// type is what is done: Form, ScaleOut, ScaleIn, Roll, Heal.
	// +required
	Type string `json:"type"`
	// step says how far it is.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Step string `json:"step,omitempty"`
	// startedAt is when it began.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
}

// Condition types of a RedisCluster beside those that every resource has.
const (
	ConditionClusterFormed = "ClusterFormed"
	ConditionSlotsCovered  = "SlotsCovered"
	ConditionDataLoss      = "DataLoss"
)

// RedisClusterList is a list of RedisClusters.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type RedisClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []RedisCluster `json:"items"`
}

// LabelRedisCluster is on every object and Pod of a RedisCluster, and holds its name.
const LabelRedisCluster = GroupName + "/rediscluster"

// LabelApp with the value AppRedis is on every Pod of every RedisCluster.
const (
	LabelApp = "app"
	AppRedis = "redis"
)
