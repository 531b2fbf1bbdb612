/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Why a rule about changes goes by status.instanceID: before there is an instance, all can be
// changed, and when there is to be another one, again. Why it asks with has whether both are
// there: a string of ?.orValue has no bound that the API server would know, and it refuses
// rules whose cost has none.

// ECSInstance is one virtual machine of Alibaba Cloud's Elastic Compute Service.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ecsinstances,singular=ecsinstance,shortName=ecs,categories=glassback
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="glassback.dev/crd-revision=1"
// +kubebuilder:printcolumn:name="ID",type=string,JSONPath=`.status.instanceID`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.status.instanceType`
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.spec.regionID`
// +kubebuilder:printcolumn:name="IP",type=string,JSONPath=`.status.ip`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Name",type=string,priority=1,JSONPath=`.spec.instanceName`
// +kubebuilder:printcolumn:name="Zone",type=string,priority=1,JSONPath=`.status.zoneID`
// +kubebuilder:printcolumn:name="Image",type=string,priority=1,JSONPath=`.spec.imageID`
// +kubebuilder:validation:XValidation:rule="!oldSelf.?status.?instanceID.hasValue() || self.spec.regionID == oldSelf.spec.regionID",fieldPath=".spec.regionID",reason=FieldValueForbidden,message="cannot be changed while there is an instance: make another ECSInstance, or delete this one first"
// +kubebuilder:validation:XValidation:rule="!oldSelf.?status.?instanceID.hasValue() || has(self.spec.imageID) == has(oldSelf.spec.imageID) && (!has(self.spec.imageID) || self.spec.imageID == oldSelf.spec.imageID)",fieldPath=".spec.imageID",reason=FieldValueForbidden,message="cannot be changed while there is an instance: make another ECSInstance, or delete this one first"
// +kubebuilder:validation:XValidation:rule="!oldSelf.?status.?instanceID.hasValue() || has(self.spec.instanceChargeType) == has(oldSelf.spec.instanceChargeType) && (!has(self.spec.instanceChargeType) || self.spec.instanceChargeType == oldSelf.spec.instanceChargeType)",fieldPath=".spec.instanceChargeType",reason=FieldValueForbidden,message="cannot be changed while there is an instance: make another ECSInstance, or delete this one first"
// +kubebuilder:validation:XValidation:rule="!oldSelf.?status.?instanceID.hasValue() || has(self.spec.period) == has(oldSelf.spec.period) && (!has(self.spec.period) || self.spec.period == oldSelf.spec.period)",fieldPath=".spec.period",reason=FieldValueForbidden,message="cannot be changed while there is an instance: make another ECSInstance, or delete this one first"
// +kubebuilder:validation:XValidation:rule="!oldSelf.?status.?instanceID.hasValue() || (has(self.spec.periodUnit) ? self.spec.periodUnit : 'Month') == (has(oldSelf.spec.periodUnit) ? oldSelf.spec.periodUnit : 'Month')",fieldPath=".spec.periodUnit",reason=FieldValueForbidden,message="cannot be changed while there is an instance: make another ECSInstance, or delete this one first"
// +kubebuilder:validation:XValidation:rule="!oldSelf.?status.?instanceID.hasValue() || has(self.spec.zoneID) == has(oldSelf.spec.zoneID) && (!has(self.spec.zoneID) || self.spec.zoneID == oldSelf.spec.zoneID)",fieldPath=".spec.zoneID",reason=FieldValueForbidden,message="cannot be changed while there is an instance: make another ECSInstance, or delete this one first"
// +kubebuilder:validation:XValidation:rule="!oldSelf.?status.?instanceID.hasValue() || has(self.spec.vSwitchID) == has(oldSelf.spec.vSwitchID) && (!has(self.spec.vSwitchID) || self.spec.vSwitchID == oldSelf.spec.vSwitchID)",fieldPath=".spec.vSwitchID",reason=FieldValueForbidden,message="cannot be changed while there is an instance: make another ECSInstance, or delete this one first"
// +kubebuilder:validation:XValidation:rule="!oldSelf.?status.?instanceID.hasValue() || self.spec.?internetMaxBandwidthOut.orValue(0) == oldSelf.spec.?internetMaxBandwidthOut.orValue(0)",fieldPath=".spec.internetMaxBandwidthOut",reason=FieldValueForbidden,message="cannot be changed while there is an instance: make another ECSInstance, or delete this one first"
// +kubebuilder:validation:XValidation:rule="!oldSelf.?status.?instanceID.hasValue() || has(self.spec.disks) == has(oldSelf.spec.disks) && (!has(self.spec.disks) || self.spec.disks == oldSelf.spec.disks)",fieldPath=".spec.disks",reason=FieldValueForbidden,message="cannot be changed while there is an instance: make another ECSInstance, or delete this one first"
// +kubebuilder:validation:XValidation:rule="!oldSelf.?status.?instanceID.hasValue() || has(self.spec.keyPairName) == has(oldSelf.spec.keyPairName) && (!has(self.spec.keyPairName) || self.spec.keyPairName == oldSelf.spec.keyPairName)",fieldPath=".spec.keyPairName",reason=FieldValueForbidden,message="cannot be changed while there is an instance: make another ECSInstance, or delete this one first"
// +kubebuilder:validation:XValidation:rule="!oldSelf.?status.?instanceID.hasValue() || has(self.spec.userDataSecretRef) == has(oldSelf.spec.userDataSecretRef) && (!has(self.spec.userDataSecretRef) || self.spec.userDataSecretRef == oldSelf.spec.userDataSecretRef)",fieldPath=".spec.userDataSecretRef",reason=FieldValueForbidden,message="cannot be changed while there is an instance: make another ECSInstance, or delete this one first"
// +kubebuilder:validation:XValidation:rule="!oldSelf.?status.?instanceID.hasValue() && !oldSelf.?status.?create.hasValue() || has(self.spec.adoptInstanceID) == has(oldSelf.spec.adoptInstanceID) && (!has(self.spec.adoptInstanceID) || self.spec.adoptInstanceID == oldSelf.spec.adoptInstanceID)",fieldPath=".spec.adoptInstanceID",reason=FieldValueForbidden,message="cannot be changed while there is an instance: make another ECSInstance, or delete this one first"
type ECSInstance struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec ECSInstanceSpec `json:"spec"`
	// +optional
	Status ECSInstanceStatus `json:"status,omitempty"`
}

// ECSInstanceSpec says what the instance is. What cannot be changed of an instance can be
// changed here for as long as there is none.
//
// +kubebuilder:validation:XValidation:rule="has(self.imageID) || has(self.adoptInstanceID)",fieldPath=".imageID",reason=FieldValueRequired,message="say what the system disk is made from, like \"aliyun_3_x64_20G_alibase_20240528.vhd\""
// +kubebuilder:validation:XValidation:rule="has(self.adoptInstanceID) || self.?instanceChargeType.orValue('PostPaid') == 'PrePaid' || !has(self.period)",fieldPath=".period",reason=FieldValueForbidden,message="can only be set with instanceChargeType: PrePaid"
// +kubebuilder:validation:XValidation:rule="has(self.adoptInstanceID) || self.?instanceChargeType.orValue('PostPaid') == 'PrePaid' || !has(self.periodUnit)",fieldPath=".periodUnit",reason=FieldValueForbidden,message="can only be set with instanceChargeType: PrePaid"
// +kubebuilder:validation:XValidation:rule="has(self.adoptInstanceID) || self.?instanceChargeType.orValue('PostPaid') != 'PrePaid' || has(self.period)",fieldPath=".period",reason=FieldValueRequired,message="say for how long a PrePaid instance is paid for"
// +kubebuilder:validation:XValidation:rule="has(self.adoptInstanceID) || self.?instanceChargeType.orValue('PostPaid') != 'PrePaid' || !has(self.period) || self.period in (self.?periodUnit.orValue('Month') == 'Week' ? [1, 2, 3, 4] : [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 24, 36, 48, 60])",fieldPath=".period",message="must be 1 to 4 weeks, or 1 to 9, 12, 24, 36, 48 or 60 months"
// +kubebuilder:validation:XValidation:rule="!has(self.adoptInstanceID) || !has(self.period)",fieldPath=".period",reason=FieldValueForbidden,message="cannot be set with adoptInstanceID: it only matters when an instance is made"
// +kubebuilder:validation:XValidation:rule="!has(self.adoptInstanceID) || !has(self.periodUnit)",fieldPath=".periodUnit",reason=FieldValueForbidden,message="cannot be set with adoptInstanceID: it only matters when an instance is made"
// +kubebuilder:validation:XValidation:rule="!has(self.adoptInstanceID) || !has(self.internetMaxBandwidthOut)",fieldPath=".internetMaxBandwidthOut",reason=FieldValueForbidden,message="cannot be set with adoptInstanceID: it only matters when an instance is made"
// +kubebuilder:validation:XValidation:rule="!has(self.adoptInstanceID) || !has(self.disks)",fieldPath=".disks",reason=FieldValueForbidden,message="cannot be set with adoptInstanceID: it only matters when an instance is made"
// +kubebuilder:validation:XValidation:rule="!has(self.adoptInstanceID) || !has(self.userDataSecretRef)",fieldPath=".userDataSecretRef",reason=FieldValueForbidden,message="cannot be set with adoptInstanceID: it only matters when an instance is made"
// +kubebuilder:validation:XValidation:rule="!has(self.adoptInstanceID) || self.?recreatePolicy.orValue('Never') != 'Always'",fieldPath=".recreatePolicy",reason=FieldValueForbidden,message="cannot be Always with adoptInstanceID: nothing is made then"
type ECSInstanceSpec struct {
	// regionID is where the instance is, such as cn-beijing.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the ID of a region, like \"cn-beijing\": lower case letters, digits and \"-\""
	RegionID string `json:"regionID"`

	// instanceType is how large it is, such as ecs.g6.large. instanceTypeChangePolicy says
	// when a change is carried out.
	// +required
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="must be an instance type, like \"ecs.g6.large\": no spaces, and nothing but ASCII"
	InstanceType string `json:"instanceType"`

	// instanceTypeChangePolicy says when a change of instanceType is carried out, which needs
	// the instance to be stopped: Never; WhenStopped, that is while powerState is Stopped; or
	// Restart, that is at once, by stopping and starting it.
	// +optional
	// +kubebuilder:default=WhenStopped
	// +kubebuilder:validation:Enum=Never;WhenStopped;Restart
	InstanceTypeChangePolicy TypeChangePolicy `json:"instanceTypeChangePolicy,omitempty"`

	// imageID is what its system disk is made from. Needed, unless adoptInstanceID is set.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="must be what ECS calls it: no spaces, and nothing but ASCII"
	ImageID string `json:"imageID,omitempty"`

	// instanceName is what it is called in the console. If not set, it is left alone.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^\\\\p{L}[^\\\\x00-\\\\x1f\\\\x7f]+$') && !self.startsWith('http://') && !self.startsWith('https://')",message="must be 2 to 128 characters on one line that begin with a letter, and not with \"http://\" or \"https://\""
	InstanceName string `json:"instanceName,omitempty"`

	// instanceChargeType is PostPaid, by use, or PrePaid, for a period. ECS does not let an
	// instance be deleted before a period that is paid for has ended.
	// +optional
	// +kubebuilder:default=PostPaid
	// +kubebuilder:validation:Enum=PostPaid;PrePaid
	InstanceChargeType ChargeType `json:"instanceChargeType,omitempty"`

	// period is for how many periodUnits a PrePaid instance is paid for.
	// +optional
	Period *int32 `json:"period,omitempty"`
	// periodUnit is what period counts: Week or Month.
	// +optional
	// +kubebuilder:validation:Enum=Week;Month
	PeriodUnit PeriodUnit `json:"periodUnit,omitempty"`

	// zoneID is the zone, such as cn-beijing-h. If not set, ECS chooses one.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="must be what ECS calls it: no spaces, and nothing but ASCII"
	ZoneID string `json:"zoneID,omitempty"`

	// vSwitchID is the switch of a VPC that it is connected to. If not set, it is in the
	// classic network, which accounts that are not old do not have.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="must be what ECS calls it: no spaces, and nothing but ASCII"
	VSwitchID string `json:"vSwitchID,omitempty"`

	// securityGroupIDs are all security groups that it is in. If not set, it is made in the
	// default one, and they are left alone.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[!-~]+$')",message="must be what ECS calls it: no spaces, and nothing but ASCII"
	SecurityGroupIDs []string `json:"securityGroupIDs,omitempty"`

	// internetMaxBandwidthOut is how fast it sends to the internet at most, in Mbit/s. If it
	// is more than 0, the instance has a public IP.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	InternetMaxBandwidthOut *int32 `json:"internetMaxBandwidthOut,omitempty"`

	// disks are what it stores on. If not set, there is a system disk as large as the image.
	// +optional
	Disks *Disks `json:"disks,omitempty"`

	// keyPairName is the SSH key pair that one can log in with.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^\\\\x00-\\\\x20\\\\x7f]+$')",message="must be the name of a key pair: no spaces"
	KeyPairName string `json:"keyPairName,omitempty"`

	// userDataSecretRef is where the script is that it runs when it is first started: at most
	// 32 KiB.
	// +optional
	UserDataSecretRef *SecretKeyReference `json:"userDataSecretRef,omitempty"`

	// tags are tags of the instance. Others that it has are left alone.
	// +optional
	// +kubebuilder:validation:MaxProperties=17
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) >= 1 && size(k) <= 128 && !k.contains('http://') && !k.contains('https://'))",message="every key must have 1 to 128 characters, and neither \"http://\" nor \"https://\" in it"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k.startsWith('aliyun') || k.startsWith('acs:') || k.startsWith('glassback.dev/'))",message="no key may begin with \"aliyun\" or \"acs:\", which are ECS' own, or with \"glassback.dev/\", which is the operator's"
	Tags map[string]TagValue `json:"tags,omitempty"`

	// powerState is Running or Stopped.
	// +optional
	// +kubebuilder:default=Running
	// +kubebuilder:validation:Enum=Running;Stopped
	PowerState PowerState `json:"powerState,omitempty"`

	// deletionPolicy says what becomes of the instance when this object is deleted: Delete or
	// Retain. If not set, it is Retain with adoptInstanceID, and otherwise Delete.
	// +optional
	// +kubebuilder:validation:Enum=Delete;Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// recreatePolicy says what is done if the instance is gone though this object is not:
	// Never, it is told of; or Always, another one is made.
	// +optional
	// +kubebuilder:default=Never
	// +kubebuilder:validation:Enum=Never;Always
	RecreatePolicy RecreatePolicy `json:"recreatePolicy,omitempty"`

	// adoptInstanceID is an instance that is there already, which is taken over. Nothing is
	// made then. It cannot be set or changed once an instance was asked for.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="must be what ECS calls it: no spaces, and nothing but ASCII"
	AdoptInstanceID string `json:"adoptInstanceID,omitempty"`

	// credentialsSecretRef is the Secret whose accessKeyID and accessKeySecret, and
	// securityToken if there is one, are used. If not set, those that the operator itself has
	// are.
	// +optional
	CredentialsSecretRef *SecretReference `json:"credentialsSecretRef,omitempty"`
}

// TagValue is the value of a tag.
//
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:XValidation:rule="!self.contains('http://') && !self.contains('https://')",message="must have neither \"http://\" nor \"https://\" in it"
type TagValue = string

// TypeChangePolicy says when a change of instanceType is carried out.
type TypeChangePolicy string

// The values of instanceTypeChangePolicy.
const (
	TypeChangeNever       TypeChangePolicy = "Never"
	TypeChangeWhenStopped TypeChangePolicy = "WhenStopped"
	TypeChangeRestart     TypeChangePolicy = "Restart"
)

// ChargeType is how an instance is paid for.
type ChargeType string

// The values of instanceChargeType.
const (
	PostPaid ChargeType = "PostPaid"
	PrePaid  ChargeType = "PrePaid"
)

// PeriodUnit is what period counts.
type PeriodUnit string

// The values of periodUnit.
const (
	Week  PeriodUnit = "Week"
	Month PeriodUnit = "Month"
)

// PowerState is whether an instance runs.
type PowerState string

// The values of powerState.
const (
	PowerRunning PowerState = "Running"
	PowerStopped PowerState = "Stopped"
)

// DeletionPolicy says what becomes of an instance whose object is deleted.
type DeletionPolicy string

// The values of deletionPolicy.
const (
	DeletionDelete DeletionPolicy = "Delete"
	DeletionRetain DeletionPolicy = "Retain"
)

// RecreatePolicy says what is done about an instance that is gone.
type RecreatePolicy string

// The values of recreatePolicy.
const (
	RecreateNever  RecreatePolicy = "Never"
	RecreateAlways RecreatePolicy = "Always"
)

// Disks are the disks of an instance.
type Disks struct {
	// system is the disk that it starts from.
	// +optional
	System *SystemDisk `json:"system,omitempty"`
	// data are those besides.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Data []DataDisk `json:"data,omitempty"`
}

// SystemDisk is the disk that an instance starts from. What is not set is ECS's default.
//
// +kubebuilder:validation:XValidation:rule="!has(self.performanceLevel) || has(self.category) && self.category == 'cloud_essd'",fieldPath=".performanceLevel",reason=FieldValueForbidden,message="can only be set with category: cloud_essd"
type SystemDisk struct {
	// category is its kind, such as cloud_essd.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="must be what ECS calls it: no spaces, and nothing but ASCII"
	Category string `json:"category,omitempty"`
	// performanceLevel is that of a cloud_essd: PL0 to PL3.
	// +optional
	// +kubebuilder:validation:Enum=PL0;PL1;PL2;PL3
	PerformanceLevel string `json:"performanceLevel,omitempty"`
	// sizeGiB is how large it is.
	// +optional
	// +kubebuilder:validation:Minimum=20
	// +kubebuilder:validation:Maximum=2048
	SizeGiB *int32 `json:"sizeGiB,omitempty"`
}

// DataDisk is another disk of an instance. What is not set is ECS's default.
//
// +kubebuilder:validation:XValidation:rule="!has(self.performanceLevel) || has(self.category) && self.category == 'cloud_essd'",fieldPath=".performanceLevel",reason=FieldValueForbidden,message="can only be set with category: cloud_essd"
// +kubebuilder:validation:XValidation:rule="has(self.sizeGiB) || has(self.snapshotID)",fieldPath=".sizeGiB",reason=FieldValueRequired,message="say how large the disk is, or which snapshotID it is made from"
type DataDisk struct {
	// category is its kind, such as cloud_essd.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="must be what ECS calls it: no spaces, and nothing but ASCII"
	Category string `json:"category,omitempty"`
	// performanceLevel is that of a cloud_essd: PL0 to PL3.
	// +optional
	// +kubebuilder:validation:Enum=PL0;PL1;PL2;PL3
	PerformanceLevel string `json:"performanceLevel,omitempty"`
	// sizeGiB is how large it is. Needed, unless snapshotID is set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	SizeGiB *int32 `json:"sizeGiB,omitempty"`
	// snapshotID is what it is made from.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="must be what ECS calls it: no spaces, and nothing but ASCII"
	SnapshotID string `json:"snapshotID,omitempty"`
	// encrypted is whether ECS encrypts it.
	// +optional
	// +kubebuilder:default=false
	Encrypted bool `json:"encrypted,omitempty"`
	// keepOnRelease is whether it outlives the instance.
	// +optional
	// +kubebuilder:default=false
	KeepOnRelease bool `json:"keepOnRelease,omitempty"`
}

// SecretReference names a Secret in the same namespace.
type SecretReference struct {
	// name is the Secret's name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret, like \"ecs-credentials\": lower case letters, digits, \"-\" and \".\""
	Name string `json:"name"`
}

// SecretKeyReference names a key of a Secret in the same namespace.
type SecretKeyReference struct {
	// name is the Secret's name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret, like \"ecs-credentials\": lower case letters, digits, \"-\" and \".\""
	Name string `json:"name"`
	// key is the key in the Secret.
	// +optional
	// +kubebuilder:default=userData
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of a Secret, like \"userData\": letters, digits, \"-\", \"_\" and \".\""
	Key string `json:"key,omitempty"`
}

// The keys of a Secret of credentials.
const (
	KeyAccessKeyID     = "accessKeyID"
	KeyAccessKeySecret = "accessKeySecret"
	KeySecurityToken   = "securityToken" // optional
)

// ECSInstanceStatus says what the instance has become.
type ECSInstanceStatus struct {
	// observedGeneration is the metadata.generation that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready (the instance is as the spec says), Progressing (it is on the way
	// there), Degraded (something is wrong) and Stalled (it will not go on before somebody
	// mends that).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// create is the attempt to make the instance that is under way, or the last one. It is
	// written before ECS is asked.
	// +optional
	Create *Create `json:"create,omitempty"`

	// accountID is the account of Alibaba Cloud that the instance is, or may have been made, in.
	// Nothing is done with credentials of another one. It is empty while ECS has made none.
	// +optional
	AccountID string `json:"accountID,omitempty"`
	// instanceID is what ECS calls the instance.
	// +optional
	InstanceID string `json:"instanceID,omitempty"`
	// adopted is whether the instance was there before this object.
	// +optional
	Adopted bool `json:"adopted,omitempty"`
	// state is that of ECS: Pending, Starting, Running, Stopping or Stopped. It is Gone when
	// there is no such instance any more.
	// +optional
	State string `json:"state,omitempty"`
	// instanceType is how large the instance is.
	// +optional
	InstanceType string `json:"instanceType,omitempty"`
	// refusedInstanceType is the instanceType that ECS has refused to change it to. The instance
	// is not stopped for another try before spec.instanceType changes.
	// +optional
	RefusedInstanceType string `json:"refusedInstanceType,omitempty"`
	// zoneID is the zone that it is in.
	// +optional
	ZoneID string `json:"zoneID,omitempty"`
	// ip is where it is reached: publicly, if it can be.
	// +optional
	IP string `json:"ip,omitempty"`
	// privateIPs are its addresses in its network.
	// +optional
	// +listType=atomic
	PrivateIPs []string `json:"privateIPs,omitempty"`
	// publicIPs are its addresses in the internet.
	// +optional
	// +listType=atomic
	PublicIPs []string `json:"publicIPs,omitempty"`
	// creationTime is when ECS made it.
	// +optional
	CreationTime *metav1.Time `json:"creationTime,omitempty"`
	// tagKeys are the keys of spec.tags that were brought to the instance: those that leave
	// spec.tags are taken off it.
	// +optional
	// +listType=set
	TagKeys []string `json:"tagKeys,omitempty"`
}

// Create is an attempt to make an instance.
type Create struct {
	// attempt counts them, from 1.
	Attempt int64 `json:"attempt"`
	// token is the client token: ECS makes no second instance for it.
	Token string `json:"token"`
	// regionID is where it is made.
	RegionID string `json:"regionID"`
	// parameters is a digest of what ECS was asked for, without secrets.
	Parameters string `json:"parameters"`
	// requestedTime is when ECS was asked last.
	RequestedTime metav1.Time `json:"requestedTime"`
}

// ConditionStalled is True while waiting is useless: a user has to correct something first.
const ConditionStalled = "Stalled"

// Finalizer keeps an ECSInstance until its instance is gone, or released.
const Finalizer = "alibabacloud.zhouzhengxi.com/instance"

// Tags of every instance that belongs to an ECSInstance.
const (
	// TagUID holds the UID of the ECSInstance: it says whose the instance is.
	TagUID = "glassback.dev/uid"
	// TagObject holds its namespace and name, for people.
	TagObject = "glassback.dev/object"
	// TagPrefix is that of all tags that are the operator's.
	TagPrefix = "glassback.dev/"
)

// ECSInstanceList is a list of ECSInstances.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ECSInstanceList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// +required
	Items []ECSInstance `json:"items"`
}
