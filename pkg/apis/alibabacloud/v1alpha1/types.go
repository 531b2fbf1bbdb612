// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The rules about changes depend on status.instanceID: while it is empty, fields can change. It is
// empty before the first instance, and before another one is created. The rule of adoptInstanceID
// depends on status.create too: an instance may exist. The rules use has for both values: the API
// server knows no bound for a string from ?.orValue, and rejects rules whose cost has no bound.

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

// Conditions returns the conditions of the status.
func (e *ECSInstance) Conditions() []metav1.Condition { return e.Status.Conditions }

// ECSInstanceSpec is the desired state of the instance. Fields that ECS cannot change in an
// instance can change only while there is none.
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
	// regionID is the region of the instance, such as cn-beijing.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the ID of a region, like \"cn-beijing\": lower case letters, digits and \"-\""
	RegionID string `json:"regionID"`

	// instanceType is the ECS type of the instance, such as ecs.g6.large. instanceTypeChangePolicy
	// decides when the operator applies a change.
	// +required
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="must be an instance type, like \"ecs.g6.large\": no spaces, and nothing but ASCII"
	InstanceType string `json:"instanceType"`

	// instanceTypeChangePolicy decides when the operator applies a change of instanceType, for
	// which the instance must be stopped. Never: not at all. WhenStopped: while powerState is
	// Stopped. Restart: at once, by a stop and a start.
	// +optional
	// +kubebuilder:default=WhenStopped
	// +kubebuilder:validation:Enum=Never;WhenStopped;Restart
	InstanceTypeChangePolicy TypeChangePolicy `json:"instanceTypeChangePolicy,omitempty"`

	// imageID is the image of the system disk. Required, unless adoptInstanceID is set.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="must be what ECS calls it: no spaces, and nothing but ASCII"
	ImageID string `json:"imageID,omitempty"`

	// instanceName is the name of the instance in the console. Default: the operator leaves the
	// name alone.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^\\\\p{L}[^\\\\x00-\\\\x1f\\\\x7f]+$') && !self.startsWith('http://') && !self.startsWith('https://')",message="must be 2 to 128 characters on one line that begin with a letter, and not with \"http://\" or \"https://\""
	InstanceName string `json:"instanceName,omitempty"`

	// instanceChargeType is PostPaid, by use, or PrePaid, for a period. ECS does not delete a
	// PrePaid instance before the end of its period.
	// +optional
	// +kubebuilder:default=PostPaid
	// +kubebuilder:validation:Enum=PostPaid;PrePaid
	InstanceChargeType ChargeType `json:"instanceChargeType,omitempty"`

	// period is the paid time of a PrePaid instance, in periodUnits. Required for PrePaid.
	// +optional
	Period *int32 `json:"period,omitempty"`
	// periodUnit is the unit of period: Week or Month. Default: Month.
	// +optional
	// +kubebuilder:validation:Enum=Week;Month
	PeriodUnit PeriodUnit `json:"periodUnit,omitempty"`

	// zoneID is the zone of the instance, such as cn-beijing-h. Default: ECS chooses one.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="must be what ECS calls it: no spaces, and nothing but ASCII"
	ZoneID string `json:"zoneID,omitempty"`

	// vSwitchID is the vSwitch of the instance, in a VPC. Default: the classic network, which ECS
	// refuses to most accounts.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="must be what ECS calls it: no spaces, and nothing but ASCII"
	VSwitchID string `json:"vSwitchID,omitempty"`

	// securityGroupIDs are all security groups of the instance. Default: a new instance is in the
	// default group, and the operator leaves its groups alone.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[!-~]+$')",message="must be what ECS calls it: no spaces, and nothing but ASCII"
	SecurityGroupIDs []string `json:"securityGroupIDs,omitempty"`

	// internetMaxBandwidthOut is the largest bandwidth to the internet, in Mbit/s. With more than
	// 0, the instance has a public IP. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	InternetMaxBandwidthOut *int32 `json:"internetMaxBandwidthOut,omitempty"`

	// disks are the disks of the instance. Default: a system disk with the defaults of ECS.
	// +optional
	Disks *Disks `json:"disks,omitempty"`

	// keyPairName is the SSH key pair for logins.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^\\\\x00-\\\\x20\\\\x7f]+$')",message="must be the name of a key pair: no spaces"
	KeyPairName string `json:"keyPairName,omitempty"`

	// userDataSecretRef is the Secret with the script for the first start, at most 32 KiB.
	// +optional
	UserDataSecretRef *SecretKeyReference `json:"userDataSecretRef,omitempty"`

	// tags are tags that the operator sets. It removes those that leave this field, and leaves
	// other tags of the instance alone.
	// +optional
	// +kubebuilder:validation:MaxProperties=17
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) >= 1 && size(k) <= 128 && !k.contains('http://') && !k.contains('https://'))",message="every key must have 1 to 128 characters, and neither \"http://\" nor \"https://\" in it"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k.startsWith('aliyun') || k.startsWith('acs:') || k.startsWith('glassback.dev/'))",message="no key may begin with \"aliyun\" or \"acs:\", which are ECS' own, or with \"glassback.dev/\", which is the operator's"
	Tags map[string]TagValue `json:"tags,omitempty"`

	// powerState is the desired state: Running or Stopped. The operator starts or stops the
	// instance.
	// +optional
	// +kubebuilder:default=Running
	// +kubebuilder:validation:Enum=Running;Stopped
	PowerState PowerState `json:"powerState,omitempty"`

	// deletionPolicy decides about the instance when this object is deleted. Delete: the operator
	// deletes the instance. Retain: the instance stays. Default: Delete, or Retain with
	// adoptInstanceID.
	// +optional
	// +kubebuilder:validation:Enum=Delete;Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// recreatePolicy decides what the operator does if the instance is gone. Never: it reports
	// this. Always: it creates another instance.
	// +optional
	// +kubebuilder:default=Never
	// +kubebuilder:validation:Enum=Never;Always
	RecreatePolicy RecreatePolicy `json:"recreatePolicy,omitempty"`

	// adoptInstanceID is an existing instance that the operator adopts. No instance is created. It
	// cannot be set or changed after the operator has requested or adopted one.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="must be what ECS calls it: no spaces, and nothing but ASCII"
	AdoptInstanceID string `json:"adoptInstanceID,omitempty"`

	// credentialsSecretRef is the Secret with the access key: accessKeyID, accessKeySecret, and
	// securityToken if there is one. Default: the operator's own credentials.
	// +optional
	CredentialsSecretRef *SecretReference `json:"credentialsSecretRef,omitempty"`
}

// TagValue is the value of a tag.
//
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:XValidation:rule="!self.contains('http://') && !self.contains('https://')",message="must have neither \"http://\" nor \"https://\" in it"
type TagValue = string

// TypeChangePolicy decides when the operator applies a change of instanceType.
type TypeChangePolicy string

// The values of instanceTypeChangePolicy.
const (
	TypeChangeNever       TypeChangePolicy = "Never"
	TypeChangeWhenStopped TypeChangePolicy = "WhenStopped"
	TypeChangeRestart     TypeChangePolicy = "Restart"
)

// ChargeType is the billing method of an instance.
type ChargeType string

// The values of instanceChargeType.
const (
	PostPaid ChargeType = "PostPaid"
	PrePaid  ChargeType = "PrePaid"
)

// PeriodUnit is the unit of period.
type PeriodUnit string

// The values of periodUnit.
const (
	Week  PeriodUnit = "Week"
	Month PeriodUnit = "Month"
)

// PowerState is the desired power state of an instance.
type PowerState string

// The values of powerState.
const (
	PowerRunning PowerState = "Running"
	PowerStopped PowerState = "Stopped"
)

// DeletionPolicy decides about the instance when its object is deleted.
type DeletionPolicy string

// The values of deletionPolicy.
const (
	DeletionDelete DeletionPolicy = "Delete"
	DeletionRetain DeletionPolicy = "Retain"
)

// RecreatePolicy decides what the operator does if the instance is gone.
type RecreatePolicy string

// The values of recreatePolicy.
const (
	RecreateNever  RecreatePolicy = "Never"
	RecreateAlways RecreatePolicy = "Always"
)

// Disks are the disks of an instance.
type Disks struct {
	// system is the system disk, from which the instance starts.
	// +optional
	System *SystemDisk `json:"system,omitempty"`
	// data are the data disks.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Data []DataDisk `json:"data,omitempty"`
}

// SystemDisk is the disk from which an instance starts. Fields that are not set have the defaults
// of ECS.
//
// +kubebuilder:validation:XValidation:rule="!has(self.performanceLevel) || has(self.category) && self.category == 'cloud_essd'",fieldPath=".performanceLevel",reason=FieldValueForbidden,message="can only be set with category: cloud_essd"
type SystemDisk struct {
	// category is the category of the disk, such as cloud_essd.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="must be what ECS calls it: no spaces, and nothing but ASCII"
	Category string `json:"category,omitempty"`
	// performanceLevel is the performance level of a cloud_essd: PL0 to PL3.
	// +optional
	// +kubebuilder:validation:Enum=PL0;PL1;PL2;PL3
	PerformanceLevel string `json:"performanceLevel,omitempty"`
	// sizeGiB is the size of the disk, in GiB.
	// +optional
	// +kubebuilder:validation:Minimum=20
	// +kubebuilder:validation:Maximum=2048
	SizeGiB *int32 `json:"sizeGiB,omitempty"`
}

// DataDisk is a data disk of an instance. Fields that are not set have the defaults of ECS.
//
// +kubebuilder:validation:XValidation:rule="!has(self.performanceLevel) || has(self.category) && self.category == 'cloud_essd'",fieldPath=".performanceLevel",reason=FieldValueForbidden,message="can only be set with category: cloud_essd"
// +kubebuilder:validation:XValidation:rule="has(self.sizeGiB) || has(self.snapshotID)",fieldPath=".sizeGiB",reason=FieldValueRequired,message="say how large the disk is, or which snapshotID it is made from"
type DataDisk struct {
	// category is the category of the disk, such as cloud_essd.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="must be what ECS calls it: no spaces, and nothing but ASCII"
	Category string `json:"category,omitempty"`
	// performanceLevel is the performance level of a cloud_essd: PL0 to PL3.
	// +optional
	// +kubebuilder:validation:Enum=PL0;PL1;PL2;PL3
	PerformanceLevel string `json:"performanceLevel,omitempty"`
	// sizeGiB is the size of the disk, in GiB. Required, unless snapshotID is set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	SizeGiB *int32 `json:"sizeGiB,omitempty"`
	// snapshotID is the snapshot from which ECS creates the disk.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="must be what ECS calls it: no spaces, and nothing but ASCII"
	SnapshotID string `json:"snapshotID,omitempty"`
	// encrypted is true if ECS encrypts the disk.
	// +optional
	// +kubebuilder:default=false
	Encrypted bool `json:"encrypted,omitempty"`
	// keepOnRelease is true if the disk stays when the instance is deleted.
	// +optional
	// +kubebuilder:default=false
	KeepOnRelease bool `json:"keepOnRelease,omitempty"`
}

// SecretReference names a Secret in the same namespace.
type SecretReference struct {
	// name is the name of the Secret.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret, like \"ecs-credentials\": lower case letters, digits, \"-\" and \".\""
	Name string `json:"name"`
}

// SecretKeyReference names a key of a Secret in the same namespace.
type SecretKeyReference struct {
	// name is the name of the Secret.
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

// ECSInstanceStatus is the observed state of the instance.
type ECSInstanceStatus struct {
	// observedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready (the instance is in the power state of the spec), Progressing (an action
	// is in progress), Degraded (there is a problem) and Stalled (the operator waits for a
	// correction by a user).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// create is the present or the last attempt to create the instance. The operator writes it
	// before it calls ECS.
	// +optional
	Create *Create `json:"create,omitempty"`

	// accountID is the Alibaba Cloud account in which the instance exists, or may exist. The
	// operator does not use credentials of another account. It is empty after ECS has rejected the
	// creation.
	// +optional
	AccountID string `json:"accountID,omitempty"`
	// instanceID is the ID of the instance in ECS.
	// +optional
	InstanceID string `json:"instanceID,omitempty"`
	// adopted is true if the operator has adopted an existing instance.
	// +optional
	Adopted bool `json:"adopted,omitempty"`
	// state is the state in ECS: Pending, Starting, Running, Stopping or Stopped. It is Gone if the
	// instance does not exist any more.
	// +optional
	State string `json:"state,omitempty"`
	// instanceType is the observed type of the instance.
	// +optional
	InstanceType string `json:"instanceType,omitempty"`
	// refusedInstanceType is the value of spec.instanceType that ECS has rejected. The operator
	// does not try it again while powerState is Running.
	// +optional
	RefusedInstanceType string `json:"refusedInstanceType,omitempty"`
	// zoneID is the zone of the instance.
	// +optional
	ZoneID string `json:"zoneID,omitempty"`
	// ip is the public address, or else the private one.
	// +optional
	IP string `json:"ip,omitempty"`
	// privateIPs are the private addresses of the instance.
	// +optional
	// +listType=atomic
	PrivateIPs []string `json:"privateIPs,omitempty"`
	// publicIPs are the public addresses of the instance.
	// +optional
	// +listType=atomic
	PublicIPs []string `json:"publicIPs,omitempty"`
	// creationTime is the time at which ECS created the instance.
	// +optional
	CreationTime *metav1.Time `json:"creationTime,omitempty"`
	// tagKeys are the keys of tags that the operator set. It removes those that leave spec.tags.
	// +optional
	// +listType=set
	TagKeys []string `json:"tagKeys,omitempty"`
}

// Create is an attempt to make an instance.
type Create struct {
	// attempt is the number of the attempt, from 1.
	Attempt int64 `json:"attempt"`
	// token is the client token. ECS creates at most one instance for a token.
	Token string `json:"token"`
	// regionID is the region of the attempt.
	RegionID string `json:"regionID"`
	// parameters is a digest of the request to ECS, without secrets.
	Parameters string `json:"parameters"`
	// requestedTime is the time of the last request to ECS.
	RequestedTime metav1.Time `json:"requestedTime"`
}

// ConditionStalled is True while the operator waits for a correction by a user.
const ConditionStalled = "Stalled"

// Finalizer keeps an ECSInstance until its instance is deleted or released.
const Finalizer = "alibabacloud.zhouzhengxi.com/instance"

// Tags of every instance that belongs to an ECSInstance.
const (
	// TagUID has the UID of the ECSInstance that the instance belongs to.
	TagUID = "glassback.dev/uid"
	// TagObject has the namespace and the name of the ECSInstance, for users of the console.
	TagObject = "glassback.dev/object"
	// TagPrefix begins the keys of all tags that belong to the operator.
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
