// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ApiExampleA keeps a greeting in the ConfigMap <name>-greeting.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=apiexampleas,singular=apiexamplea,shortName=aea,categories=glassback
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="glassback.dev/crd-revision=1"
// +kubebuilder:printcolumn:name="Greeting",type=string,JSONPath=`.status.greeting`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.status`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",fieldPath=".metadata",message="name must have no more than 63 characters: a label of its ConfigMap holds it"
type ApiExampleA struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ApiExampleASpec `json:"spec,omitempty"`
	// +optional
	Status ApiExampleAStatus `json:"status,omitempty"`
}

// Conditions returns the conditions of the status.
func (a *ApiExampleA) Conditions() []metav1.Condition { return a.Status.Conditions }

// ApiExampleASpec has the name in the greeting: first_name and last_name, as far as they are set.
// If both are empty, the greeting has foo. If foo is empty too, the greeting has the name of the
// object.
type ApiExampleASpec struct {
	// MaxLength is larger than the limit of the rule: after a "Too long" error, the API server
	// evaluates no rule, and adds an error about that.

	// foo is in the greeting if first_name and last_name are empty.
	// +optional
	// +kubebuilder:validation:MaxLength=1000
	// +kubebuilder:validation:XValidation:rule="size(self) <= 100 && !self.matches('[[:cntrl:]]')",message="must be one line of no more than 100 characters, without control characters"
	Foo string `json:"foo,omitempty"`

	// first_name is the given name in the greeting.
	// +optional
	// +kubebuilder:validation:MaxLength=1000
	// +kubebuilder:validation:XValidation:rule="size(self) <= 100 && !self.matches('[[:cntrl:]]')",message="must be one line of no more than 100 characters, without control characters"
	FirstName string `json:"first_name,omitempty"`

	// last_name is the family name in the greeting.
	// +optional
	// +kubebuilder:validation:MaxLength=1000
	// +kubebuilder:validation:XValidation:rule="size(self) <= 100 && !self.matches('[[:cntrl:]]')",message="must be one line of no more than 100 characters, without control characters"
	LastName string `json:"last_name,omitempty"`
}

// ApiExampleAStatus is the observed state of the greeting.
type ApiExampleAStatus struct {
	// observedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready (the ConfigMap holds the greeting), Degraded (a problem prevents this)
	// and Progressing (always False).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// status is the state in one word: Running if Ready is True, and otherwise Failed.
	// +optional
	Status State `json:"status,omitempty"`

	// greeting is the text that the ConfigMap holds.
	// +optional
	Greeting string `json:"greeting,omitempty"`
}

// State is the state of an ApiExampleA in one word.
type State string

const (
	// StateRunning means that the ConfigMap holds the greeting.
	StateRunning State = "Running"
	// StateFailed means that a problem prevents this: see the conditions.
	StateFailed State = "Failed"
)

// ApiExampleAList is a list of ApiExampleAs.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ApiExampleAList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ApiExampleA `json:"items"`
}

// LabelApiExampleA is a label of every ConfigMap of an ApiExampleA. Its value is the name of the
// ApiExampleA.
const LabelApiExampleA = GroupName + "/apiexamplea"
