// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"slices"

	"k8s.io/utils/ptr"
)

// User is a user of Redis, as in an access control list (ACL).
//
// +kubebuilder:validation:XValidation:rule="has(self.passwordSecretRef) ? !self.rules.matches('(^| )nopass( |$)') : self.rules.matches('(^| )(nopass|off)( |$)')",fieldPath=".rules",message="must have nopass or off if there is no passwordSecretRef; nopass is not possible with one"
type User struct {
	// name is the name of the user. The user default is every client that sends a password
	// alone, or none. The name glassback is the operator's own.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][A-Za-z0-9_.-]*$') && self != 'glassback'",message="must be the name of a user, like \"app\": letters, digits, \"-\", \"_\" and \".\"; not glassback, which is the operator's own"
	Name string `json:"name"`

	// rules are the rules of the user, as for ACL SETUSER, with one space between them, such as
	// "~app:* &app:* +@all -@dangerous". The user begins without any permission, and is on. With
	// off, no client can log in as the user. With nopass, every password is accepted.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[(]?([~&][^ ()]+|%(R|W|RW|WR)~[^ ()]+|[+-]@?[a-zA-Z0-9_|.-]+|on|off|nopass|all(keys|channels|commands)|nocommands|reset(keys|channels)|(sanitize|skip-sanitize)-payload)[)]?( [(]?([~&][^ ()]+|%(R|W|RW|WR)~[^ ()]+|[+-]@?[a-zA-Z0-9_|.-]+|on|off|nopass|all(keys|channels|commands)|nocommands|reset(keys|channels)|(sanitize|skip-sanitize)-payload)[)]?)*$') && !self.matches('[\\\\x00-\\\\x1f\\\\x7f]') && self.matches('^[^()]*([(][^()]*[)][^()]*)*$')",message="must be rules of ACL SETUSER with one space between them, like \"~app:* +@all -@dangerous\": no passwords, no reset"
	Rules string `json:"rules"`

	// passwordSecretRef is the Secret with the password of the user. After a change of the
	// Secret, the nodes accept both passwords for keepOldPasswordSeconds.
	// +optional
	PasswordSecretRef *SecretKeyReference `json:"passwordSecretRef,omitempty"`

	// keepOldPasswordSeconds is how long the nodes accept the old password after all of them
	// have a new one.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	KeepOldPasswordSeconds *int32 `json:"keepOldPasswordSeconds,omitempty"`
}

const (
	// UserOperator is the user of the operator, the probes and the replicas.
	UserOperator = "glassback"
	// UserDefault is the user of clients that send no name.
	UserDefault = "default"

	// DefaultKeepOldPassword is the default of keepOldPasswordSeconds.
	DefaultKeepOldPassword = 600
)

// HasUser returns whether users contains this name.
func (s *RedisClusterSpec) HasUser(name string) bool {
	return slices.ContainsFunc(s.Users, func(u User) bool { return u.Name == name })
}

func (u *User) setDefaults() {
	set(&u.KeepOldPasswordSeconds, ptr.To[int32](DefaultKeepOldPassword))
	if u.PasswordSecretRef != nil {
		set(&u.PasswordSecretRef.Key, DefaultAuthKey)
	}
}
