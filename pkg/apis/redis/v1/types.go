// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RedisCluster is a Redis Cluster: masters, which share all 16,384 slots, and their replicas. Each
// node runs in a Pod of its own, with the name <name>-<ordinal>.
//
// +genclient
// +genclient:method=GetScale,verb=get,subresource=scale,result=k8s.io/api/autoscaling/v1.Scale
// +genclient:method=UpdateScale,verb=update,subresource=scale,input=k8s.io/api/autoscaling/v1.Scale,result=k8s.io/api/autoscaling/v1.Scale
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=redisclusters,singular=rediscluster,shortName=rdc,categories=glassback
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.size,statuspath=.status.size,selectorpath=.status.selector
// +kubebuilder:metadata:annotations="glassback.dev/crd-revision=14"
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

// Conditions returns the conditions of the status.
func (r *RedisCluster) Conditions() []metav1.Condition { return r.Status.Conditions }

// RedisClusterSpec has the size of the cluster, and the configuration of its nodes. Only addr is
// required.
//
// +kubebuilder:validation:XValidation:rule="has(self.storage) == has(oldSelf.storage)",fieldPath=".storage",message="cannot be added to a cluster or taken from it: its nodes would lose what they hold"
// +kubebuilder:validation:XValidation:rule="!has(self.authSecretRef) || !has(self.users) || size(self.users) == 0",fieldPath=".authSecretRef",message="cannot be set together with users: give the user default a passwordSecretRef"
// +kubebuilder:validation:XValidation:rule="!has(self.tls) || !has(self.tls.port) || !has(self.addr) || !self.addr.matches(':[1-9][0-9]{0,4}$') || [int(self.addr.substring(self.addr.lastIndexOf(':') + 1))].all(p, self.tls.port != p && self.tls.port != (p > 55535 ? p - 10000 : p + 10000))",fieldPath=".tls.port",message="must be neither the port of addr nor that of the cluster bus, which is 10000 higher, or lower if that is more than 65535"
// +kubebuilder:validation:XValidation:rule="!has(self.tls) || !has(self.config) || !self.config.exists(k, k in ['tls-auth-clients', 'tls-ca-cert-dir', 'tls-ca-cert-file', 'tls-cert-file', 'tls-client-cert-file', 'tls-client-key-file', 'tls-client-key-file-pass', 'tls-key-file', 'tls-key-file-pass'])",fieldPath=".config",message="cannot set the certificates and keys of TLS together with tls: they are in its Secret"
// +kubebuilder:validation:XValidation:rule="!has(self.config) || !('cluster-preferred-endpoint-type' in self.config) || !has(self.access) || !has(self.access.external) || !has(self.access.external.hostname) || size(self.access.external.hostname) == 0",fieldPath=".config",message="cannot set cluster-preferred-endpoint-type together with access.external.hostname"
// +kubebuilder:validation:XValidation:rule="!has(self.config) || !('maxclients' in self.config) || !self.config['maxclients'].matches('^[0-9]{1,9}$') || [100, 2 * self.size + 32].all(n, int(self.config['maxclients']) >= n)",fieldPath=".config",message="maxclients must be at least 100, and at least 32 and 2 for each Pod: the connections between the nodes count, and those of the operator"
// +kubebuilder:validation:XValidation:rule="!has(self.restoreFrom) || has(oldSelf.restoreFrom)",fieldPath=".restoreFrom",message="can be set only when the cluster is created; it can be removed"
type RedisClusterSpec struct {
	// addr is neither required, nor does it have a default: for an empty addr, the message of the
	// rule must be the only error, and the rule would reject an empty default. The webhook and the
	// controller reject a missing addr. MaxLength is far longer than any address, so that a long host
	// name gets the message of the rule too.

	// addr is the address of the cluster, as "ip:port". Required. Every node listens on the port,
	// which is from 1 to 65535. The IP can be any IPv4 address, or IPv6 address in brackets: the
	// operator only publishes it, in status.endpoint.
	// +optional
	// +kubebuilder:validation:MaxLength=1000
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9.]+|[[][0-9A-Fa-f:.]+[]]):[1-9][0-9]{0,4}$') && int(self.substring(self.lastIndexOf(':') + 1)) <= 65535 && (self.startsWith('[') ? isIP(self.substring(1, self.lastIndexOf(':') - 1)) && ip(self.substring(1, self.lastIndexOf(':') - 1)).family() == 6 : isIP(self.substring(0, self.lastIndexOf(':'))))",message="invalid ip port, ip:port"
	Addr string `json:"addr,omitempty"`

	// size has no Minimum: the webhook, if there is one, and the controller raise a size that is too
	// small. With a scale subresource, the API server itself rejects a negative number.

	// size is the number of nodes, masters and replicas. The smallest size is 6, and three masters
	// with their replicas: the operator raises a smaller size to that.
	// +optional
	// +kubebuilder:default=6
	// +kubebuilder:validation:Maximum=500
	Size *int32 `json:"size,omitempty"`

	// replicasPerMaster is the number of replicas of each master. If size is not a multiple of one
	// master with its replicas, some masters have more.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=5
	ReplicasPerMaster *int32 `json:"replicasPerMaster,omitempty"`

	// image is the image of each node. It has redis-server and redis-cli, version 7 or later. A
	// change replaces the Pods one by one.
	// +optional
	// +kubebuilder:default="redis:7"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9.-]+(:[0-9]+)?/|[[][0-9A-Fa-f:]+](:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?(@[A-Za-z][A-Za-z0-9+._-]*:[0-9A-Fa-f]+)?$')",message="must be the name of an image, like \"redis:7\" or \"ghcr.io/owner/redis:7\": without spaces, and in lower case but for the tag"
	Image string `json:"image,omitempty"`

	// storage gives each node a PersistentVolume, which outlives its Pod. Without storage, the data
	// of a node is lost with its Pod. It cannot be added or removed later.
	// +optional
	Storage *Storage `json:"storage,omitempty"`

	// resources are the requests and limits of each node, as in the container of a Pod. A change
	// replaces the Pods one by one.
	// +optional
	// +kubebuilder:validation:XValidation:rule="['cpu', 'memory', 'ephemeral-storage'].all(k, !self.?requests[?k].hasValue() || !self.?limits[?k].hasValue() || [self.requests[k], self.limits[k]].exists(q, string(q).matches('[eE].*[0-9]{3}')) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)",fieldPath=".requests",message="no request for cpu, memory or ephemeral-storage may be more than its limit"
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// config are directives of redis.conf, such as "maxmemory-policy": "allkeys-lru". Directives
	// that the operator or another field of spec sets are not allowed. The operator sets a changed
	// directive in the running nodes. If Redis can set it only at its start, or if a directive is
	// removed with which a Pod was created, it replaces the Pods one by one.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[a-z][a-z0-9-]{0,63}$'))",message="every key must be the name of a directive of redis.conf, like \"maxmemory-policy\": no more than 64 lower case letters, digits and \"-\""
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k.startsWith('cluster-announce-') || k in ['aclfile', 'appenddirname', 'appendfilename', 'appendonly', 'bind', 'bind-source-addr', 'cluster-allow-replica-migration', 'cluster-config-file', 'cluster-enabled', 'cluster-port', 'cluster-replica-no-failover', 'cluster-slave-no-failover', 'daemonize', 'dbfilename', 'dir', 'include', 'loadmodule', 'logfile', 'masterauth', 'masteruser', 'pidfile', 'port', 'protected-mode', 'rename-command', 'replicaof', 'requirepass', 'slaveof', 'supervised', 'syslog-enabled', 'tls-cluster', 'tls-port', 'tls-replication', 'unixsocket', 'user'])",message="cannot set directives that the operator sets, or another field of spec, like \"port\", \"dir\" or \"requirepass\""
	// +kubebuilder:validation:XValidation:rule="!('tls-protocols' in self) || size(self['tls-protocols']) == 0 || self['tls-protocols'].matches('(?i)TLSv1[.][23]')",message="tls-protocols must have TLSv1.2 or TLSv1.3: the operator speaks no older version"
	Config map[string]ConfigValue `json:"config,omitempty"`

	// authSecretRef is the Secret with the password of nodes and clients. Default: no password. For
	// users, see users.
	// +optional
	AuthSecretRef *SecretKeyReference `json:"authSecretRef,omitempty"`

	// users are the users of Redis. Clients log in as them. With users, the operator has a user of
	// its own, and every other user that users does not have is deleted from the nodes. To add or
	// remove users altogether replaces the Pods one by one; a change of users replaces none.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.exists(u, u.name == 'default')",message="must have the user default: clients that send no name log in as it. Its rules can be \"off\""
	Users []User `json:"users,omitempty"`

	// tls makes the nodes serve TLS, to clients and to each other. Default: no TLS. To add or remove it
	// replaces the Pods one by one; a change of mode, or a renewed certificate, replaces none.
	// +optional
	TLS *TLS `json:"tls,omitempty"`

	// podTemplate is added to the Pod of each node: labels, scheduling, security, and additional
	// containers. It cannot replace what the operator sets, but for its security context (the user,
	// group and fsGroup 999, and seccompProfile RuntimeDefault) and its preference for different
	// machines and zones. A user who can create RedisClusters can create Pods with them. A change
	// replaces the Pods one by one.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.labels) || !self.labels.exists(k, k.startsWith('bytewang123-redis.wzj.kubebuilder.io/') || k in ['app', 'app.kubernetes.io/instance', 'app.kubernetes.io/managed-by', 'app.kubernetes.io/name'])",fieldPath=".labels",message="cannot set the labels that the operator sets: app, app.kubernetes.io/name, app.kubernetes.io/instance, app.kubernetes.io/managed-by, bytewang123-redis.wzj.kubebuilder.io/…"
	// +kubebuilder:validation:XValidation:rule="!has(self.annotations) || !self.annotations.exists(k, k.startsWith('bytewang123-redis.wzj.kubebuilder.io/'))",fieldPath=".annotations",message="cannot set the annotations that the operator sets: bytewang123-redis.wzj.kubebuilder.io/…"
	// +kubebuilder:validation:XValidation:rule="!has(self.containers) || !self.containers.exists(c, c.name == 'redis')",fieldPath=".containers",message="cannot have the name \"redis\": the operator makes that container"
	// +kubebuilder:validation:XValidation:rule="!has(self.initContainers) || !self.initContainers.exists(c, c.name == 'redis')",fieldPath=".initContainers",message="cannot have the name \"redis\": the operator makes that container"
	// +kubebuilder:validation:XValidation:rule="!has(self.volumes) || !self.volumes.exists(v, v.name in ['auth', 'config', 'data', 'glassback-tls', 'tmp']) || oldSelf.?volumes.optMap(v, v == self.volumes).orValue(false)",optionalOldSelf=true,fieldPath=".volumes",message="cannot have the name of a volume of the operator: auth, config, data, glassback-tls, tmp"
	PodTemplate *PodTemplate `json:"podTemplate,omitempty"`

	// networkPolicy limits who can connect to the Pods, by a NetworkPolicy with the name of the
	// cluster. Default: no NetworkPolicy. A change replaces no Pod.
	// +optional
	NetworkPolicy *NetworkPolicy `json:"networkPolicy,omitempty"`

	// backup makes backups by a schedule or on request, each by a Job. Default: no backups. A change
	// replaces no Pod.
	// +optional
	Backup *Backup `json:"backup,omitempty"`

	// restoreFrom is the backup from which a new cluster is made. It can be set only when the cluster
	// is created, and be removed afterwards.
	// +optional
	RestoreFrom *RestoreFrom `json:"restoreFrom,omitempty"`

	// access adds Services for clients: one inside of the cluster, and one for each node outside of it.
	// A change replaces no Pod.
	// +optional
	Access *Access `json:"access,omitempty"`
}

// ConfigValue is the value of a directive, as in redis.conf. An empty value is written as "".
//
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:rule="!self.matches('[\\\\x00-\\\\x1f\\\\x7f]')",message="must be one line"
type ConfigValue string

// Storage is the PersistentVolume of each node.
//
// +kubebuilder:validation:XValidation:rule="[self.size, oldSelf.size].exists(q, string(q).matches('[eE].*([.]|[0-9]{3})') || !isQuantity(string(q))) || quantity(string(self.size)).compareTo(quantity(string(oldSelf.size))) >= 0",fieldPath=".size",message="cannot be less than it was: volumes do not shrink"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",fieldPath=".storageClassName",message="cannot be changed: the volumes are of that class"
type Storage struct {
	// The rules of size limit exponents: the pattern of the schema allows "1e1.5", which no client can
	// parse, and "1e-99999999", which takes minutes to parse, also in a rule. One such object would
	// stop every informer.

	// size is the size of each volume. It can be raised if the StorageClass allows volume
	// expansion. It cannot be lowered.
	// +required
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('[eE].*([.]|[0-9]{3})')",message="the exponent of a quantity must be a whole number of no more than two digits"
	// +kubebuilder:validation:XValidation:rule="string(self).matches('[eE].*([.]|[0-9]{3})') || !isQuantity(string(self)) || quantity(string(self)).isGreaterThan(quantity('0'))",message="must be more than 0"
	Size resource.Quantity `json:"size"`

	// storageClassName is the StorageClass of the volumes. Default: the default class of the
	// cluster. It cannot be changed.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a StorageClass, like \"standard\": lower case letters, digits, \"-\" and \".\""
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// SecretKeyReference names a key of a Secret in the same namespace.
type SecretKeyReference struct {
	// name is the name of the Secret.
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

// RedisClusterStatus is the observed state of the cluster.
type RedisClusterStatus struct {
	// observedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready (the cluster matches the spec), Progressing (an operation is in
	// progress), Degraded (there is a problem), ClusterFormed (the nodes know each other),
	// SlotsCovered (every slot has a master that answers), DataLoss (slots have lost their
	// data) and, with spec.backup, BackedUp (the last backup succeeded).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// size is the number of Pods.
	// +optional
	Size int32 `json:"size"`
	// masters is the number of masters with slots.
	// +optional
	Masters int32 `json:"masters"`
	// slotsAssigned is the number of slots that have a master, of 16,384.
	// +optional
	SlotsAssigned int32 `json:"slotsAssigned"`

	// selector selects the Pods. The scale subresource needs it.
	// +optional
	Selector string `json:"selector,omitempty"`

	// endpoint is spec.addr while every slot has a master that answers.
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

	// tls is the state of TLS. It is empty while no node has a certificate.
	// +optional
	TLS *TLSStatus `json:"tls,omitempty"`

	// backup is the state of the backups. It is empty without spec.backup.
	// +optional
	Backup *BackupStatus `json:"backup,omitempty"`

	// restore is the backup that is being restored, or was.
	// +optional
	Restore *RestoreStatus `json:"restore,omitempty"`

	// operation is the present operation and its step. The operator never reads its next step from
	// here.
	// +optional
	Operation *Operation `json:"operation,omitempty"`
}

// Shard is a master with its slots and replicas.
type Shard struct {
	// master is the Pod of the master.
	// +required
	Master string `json:"master"`
	// slots are the slots of the master, as ranges: "0-5460,6000".
	// +optional
	Slots string `json:"slots,omitempty"`
	// replicas are the Pods of the replicas.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Replicas []string `json:"replicas,omitempty"`
}

// Role is the role of a node in a Redis Cluster.
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
	// pod is the name of the Pod.
	// +required
	Pod string `json:"pod"`
	// id is the ID of the node. It lasts as long as the data of the node.
	// +optional
	ID string `json:"id,omitempty"`
	// ip is the IP of the Pod.
	// +optional
	IP string `json:"ip,omitempty"`
	// address is where clients outside of the cluster network reach the node, as "ip:port" or
	// "hostname:port". It is empty while the node tells clients the IP of its Pod. The port is the one for
	// TLS if the node uses TLS with the other nodes.
	// +optional
	Address string `json:"address,omitempty"`
	// role is the role of the node, as the nodes report it.
	// +optional
	Role Role `json:"role,omitempty"`
	// master is the Pod of the master, for a replica.
	// +optional
	Master string `json:"master,omitempty"`
	// link is the state of a replica's connection to its master: "up" or "down".
	// +optional
	Link string `json:"link,omitempty"`
}

// Operation is an operation on the cluster that is in progress.
type Operation struct {
	// type is the type of the operation: Form, ScaleOut, ScaleIn, Configure, Roll,
	// Heal or Restore.
	// +required
	Type string `json:"type"`
	// step is the present step, in words.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Step string `json:"step,omitempty"`
	// startedAt is the time at which the operation began.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
}

// Condition types of a RedisCluster, besides those of every resource.
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

// LabelRedisCluster is a label of every object and Pod of a RedisCluster. Its value is the name of
// the RedisCluster.
const LabelRedisCluster = GroupName + "/rediscluster"

// LabelApp with the value AppRedis is on every Pod of every RedisCluster.
const (
	LabelApp = "app"
	AppRedis = "redis"
)
