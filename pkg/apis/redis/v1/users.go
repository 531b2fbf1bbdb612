// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
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

	maxUsers           = 64
	maxUserName        = 64
	maxRules           = 1024
	maxKeepOldPassword = 2592000
)

const ruleOfUser = `[(]?([~&][^ ()]+|%(R|W|RW|WR)~[^ ()]+|[+-]@?[a-zA-Z0-9_|.-]+|on|off|nopass|all(keys|channels|commands)|nocommands|` +
	`reset(keys|channels)|(sanitize|skip-sanitize)-payload)[)]?`

var (
	userName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
	userRules = regexp.MustCompile(`^` + ruleOfUser + `( ` + ruleOfUser + `)*$`)
	selectors = regexp.MustCompile(`^[^()]*([(][^()]*[)][^()]*)*$`) // Parentheses are balanced and not nested.
)

// HasUser returns whether users contains this name.
func (s *RedisClusterSpec) HasUser(name string) bool {
	return slices.ContainsFunc(s.Users, func(u User) bool { return u.Name == name })
}

func (s *RedisClusterSpec) validateUsers(path *field.Path) field.ErrorList {
	users := path.Child("users")
	if len(s.Users) > maxUsers {
		return field.ErrorList{field.TooMany(users, len(s.Users), maxUsers)}
	}
	var errs field.ErrorList
	if len(s.Users) > 0 && s.AuthSecretRef != nil {
		errs = append(errs, field.Forbidden(path.Child("authSecretRef"),
			"cannot be set together with users: give the user default a passwordSecretRef"))
	}
	if len(s.Users) > 0 && !s.HasUser(UserDefault) {
		errs = append(errs, field.Invalid(users, len(s.Users),
			`must have the user default: clients that send no name log in as it. Its rules can be "off"`))
	}
	seen := map[string]bool{}
	for i := range s.Users {
		u := &s.Users[i]
		errs = append(errs, u.validate(users.Index(i))...)
		if seen[u.Name] {
			errs = append(errs, field.Duplicate(users.Index(i), u.Name))
		}
		seen[u.Name] = true
	}
	return errs
}

func (u *User) validate(path *field.Path) field.ErrorList {
	errs := glassback.ValidateText(path.Child("name"), u.Name, maxUserName,
		func(name string) bool { return userName.MatchString(name) && name != UserOperator },
		`must be the name of a user, like "app": letters, digits, "-", "_" and "."; not glassback, which is the operator's own`)
	errs = append(errs, glassback.ValidateText(path.Child("rules"), u.Rules, maxRules,
		func(rules string) bool {
			return userRules.MatchString(rules) && selectors.MatchString(rules) && !control.MatchString(rules)
		},
		`must be rules of ACL SETUSER with one space between them, like "~app:* +@all -@dangerous": no passwords, no reset`)...)
	words := strings.Split(u.Rules, " ")
	ok := slices.Contains(words, "nopass") || slices.Contains(words, "off")
	if u.PasswordSecretRef != nil {
		errs = append(errs, u.PasswordSecretRef.validate(path.Child("passwordSecretRef"))...)
		ok = !slices.Contains(words, "nopass")
	}
	if !ok {
		errs = append(errs, field.Forbidden(path.Child("rules"),
			"must have nopass or off if there is no passwordSecretRef; nopass is not possible with one"))
	}
	return append(errs, glassback.ValidateRange(path.Child("keepOldPasswordSeconds"), u.KeepOldPasswordSeconds, 0, maxKeepOldPassword)...)
}

func (u *User) setDefaults() {
	set(&u.KeepOldPasswordSeconds, ptr.To[int32](DefaultKeepOldPassword))
	if u.PasswordSecretRef != nil {
		set(&u.PasswordSecretRef.Key, DefaultAuthKey)
	}
}
