// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

// The functions below decide which users are set in the nodes. With spec.users, a Pod starts with a file of users that has only the
// operator's user, and the user default, which is off. So no client can use a new node before the operator has set its users.
//
//	spec.users  none              ▶ some                                ▶ none
//	Pods        without the user  │ replaced one by one │ all with it   │ replaced one by one │ all without it
//	all nodes   -                 │ the operator's user is set in the nodes of all Pods         │ it stays in memory
//	default     open, or with the password of authSecretRef │ as in users │ open, or with that password
//
// While both kinds of Pods exist, each node accepts what the other kind sends: a replica logs in to its master as its Pod says.

// user is a user as the nodes should have it.
type user struct {
	name  string
	rules string
	hash  string        // of the password; "" without one
	keep  time.Duration // how long an old password stays valid
}

// refusals are the rules of users that Redis refused. Another image may accept them.
type refusals map[refusedUser]refusal

type refusedUser struct {
	name  string
	image string // of the Pod
}

type refusal struct {
	rules       string // of the spec
	pod, reason string
}

// acceptedBy returns the users whose rules the image of a Pod has not refused.
func (r refusals) acceptedBy(m *member, users []user) []user {
	return slices.DeleteFunc(slices.Clone(users), func(u user) bool {
		_, refused := r[refusedUser{u.name, m.image()}]
		return refused
	})
}

// usesAccount returns whether the operator has a user of its own: the spec has users, or a Pod was created with them.
func (o *observed) usesAccount() bool {
	return len(o.Object.Spec.Users) > 0 || o.someHaveAccount()
}

// someHaveAccount returns whether a Pod was created with the operator's user.
func (o *observed) someHaveAccount() bool {
	return slices.ContainsFunc(o.Members, func(m *member) bool { return manifest.HasAccount(m.Pod) })
}

// podWithoutAccount returns a Pod without the operator's user; nil if all Pods have it.
func (o *observed) podWithoutAccount() *corev1.Pod {
	for _, m := range o.Members {
		if m.Pod != nil && !manifest.HasAccount(m.Pod) {
			return m.Pod
		}
	}
	return nil
}

// openRef returns the Secret with the password of the user default while this user is open: while some Pod does not have the operator's
// user, or while the spec has no users. It is nil if the user default then has no password.
func (o *observed) openRef() *v1.SecretKeyReference {
	if pod := o.podWithoutAccount(); pod != nil && len(o.Object.Spec.Users) > 0 {
		return manifest.PasswordRefOf(pod)
	}
	return o.Object.Spec.AuthSecretRef
}

// wantUsers sets the users that the nodes should have. password returns the password in a Secret, or a problem if there is none: then the
// user stays unchanged, and no Pod is replaced. A user that is off needs no password. The Secret of the user default must exist even while
// that user is still open.
func (o *observed) wantUsers(password func(v1.SecretKeyReference) (string, *problem)) {
	add := func(u v1.User) {
		wanted := user{name: u.Name, rules: u.Rules}
		if u.KeepOldPasswordSeconds != nil {
			wanted.keep = time.Duration(*u.KeepOldPasswordSeconds) * time.Second
		}
		if u.PasswordSecretRef != nil {
			text, missing := password(*u.PasswordSecretRef)
			switch {
			case missing == nil:
				wanted.hash = redisnode.HashPassword(text)
			case !wanted.isOff():
				o.userProblems = append(o.userProblems, *missing)
				return
			}
		}
		o.users = append(o.users, wanted)
	}
	open := len(o.Object.Spec.Users) == 0 || o.podWithoutAccount() != nil
	if open {
		rules := manifest.AlmostEverything + " nopass"
		if o.openRef() != nil {
			rules = manifest.AlmostEverything
		}
		add(v1.User{Name: v1.UserDefault, Rules: rules, PasswordSecretRef: o.openRef()})
	}
	for _, u := range o.Object.Spec.Users {
		if !open || u.Name != v1.UserDefault {
			add(u)
		} else if u.PasswordSecretRef != nil && !(user{rules: u.Rules}).isOff() {
			if _, missing := password(*u.PasswordSecretRef); missing != nil {
				o.userProblems = append(o.userProblems, *missing)
			}
		}
	}
}

// markOf returns a digest of the rules that a node should have, and of those that it reports, including the rules of the operator's user.
// It covers both, since a node writes rules in its own form. The node keeps the digest in the rules of the operator's user. So a restarted
// operator knows whether the node got the rules, and whether another client has changed them since.
func markOf(wanted []user, users map[string]redisnode.User) string {
	digest := sha256.New()
	fmt.Fprintf(digest, "%d %q\n", markVersion, marks.ReplaceAllString(users[v1.UserOperator].Rules, ""))
	for _, u := range wanted {
		fmt.Fprintf(digest, "%q %q %q\n", u.name, u.rules, users[u.name].Rules)
	}
	return hex.EncodeToString(digest.Sum(nil)[:16])
}

// markVersion is in each mark: an operator with another version sets every user once more. Since version 2, setting users ends the
// connections of users that are off.
const markVersion = 2

// marks matches the selector of manifest.MarkRule, as a node writes it.
var marks = regexp.MustCompile(` ?\(~users:[^)]*\)`)

// isOff returns whether no client can log in as the user: the last of on and off in its rules counts.
func (u user) isOff() bool {
	off := false
	for rule := range strings.SplitSeq(u.rules, " ") {
		off = rule == "off" || (off && rule != "on")
	}
	return off
}

// hashes returns the hashes of passwords that a user of a node should have, sorted: old ones stay until all nodes have the new one
// for long enough. A node on which the user has no password gets those of the other nodes, too.
func (o *observed) hashes(users map[string]redisnode.User, u user) []string {
	if u.hash == "" {
		return nil
	}
	all := []string{u.hash}
	has := users[u.name].Hashes
	switch {
	case o.retired[u.name]:
	case len(has) > 0:
		all = append(all, has...)
	default:
		for _, m := range o.Members {
			all = append(all, m.users[u.name].Hashes...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// isEverywhere returns whether every node has the password of the spec.
func (o *observed) isEverywhere(u user) bool {
	return u.hash != "" && !slices.ContainsFunc(o.Members, func(m *member) bool {
		return m.Pod != nil && !slices.Contains(m.users[u.name].Hashes, u.hash)
	})
}

// hasOldPasswords returns whether any node accepts several passwords of the user.
func (o *observed) hasOldPasswords(u user) bool {
	return slices.ContainsFunc(o.Members, func(m *member) bool { return len(m.users[u.name].Hashes) > 1 })
}

// markUsers sets which users are to be set in each node, or deleted from it, and which user new nodes would not have.
func (o *observed) markUsers() {
	for _, m := range o.Members {
		m.PendingUsers = o.pendingUsersOf(m)
	}
	o.MissingUser = o.findMissingUser()
}

func (o *observed) pendingUsersOf(m *member) []string {
	if m.users == nil || !m.answers() || o.accountHash == "" {
		return nil
	}
	if !manifest.HasAccount(m.Pod) {
		if o.whyNoPods() != "" && !o.someHaveAccount() {
			return nil // The password may not be in a Secret yet, and would be lost with this process.
		}
		if slices.Equal(m.users[v1.UserOperator].Hashes, []string{o.accountHash}) {
			return nil
		}
		return []string{v1.UserOperator}
	}
	pending := map[string]bool{}
	own, wanted := m.users[v1.UserOperator], o.refusals.acceptedBy(m, o.users)
	same := slices.Equal(own.Hashes, []string{o.accountHash}) &&
		strings.Contains(own.Rules, strings.TrimSuffix(manifest.MarkRule(markOf(wanted, m.users)), ")")+" ")
	for _, u := range wanted {
		has, exists := m.users[u.name]
		if !exists || !same || !slices.Equal(has.Hashes, o.hashes(m.users, u)) {
			pending[u.name] = true
		}
	}
	for name := range m.users {
		if len(o.Object.Spec.Users) > 0 && name != v1.UserOperator && !o.Object.Spec.HasUser(name) {
			pending[name] = true
		}
	}
	return slices.Sorted(maps.Keys(pending))
}

// userCommands returns the commands that set users in running nodes. They wait for nothing: a new Pod that replicates a node logs in
// as the operator's user.
func userCommands(o *observed) []command {
	var commands []command
	for _, m := range o.Members {
		if len(m.PendingUsers) > 0 {
			commands = append(commands, command{verb: setUsers, on: m, names: m.PendingUsers})
		}
	}
	return commands
}

// accountCommands returns the command that creates the Secret with the password of the operator's user.
func accountCommands(o *observed) []command {
	if !o.AccountMissing {
		return nil
	}
	return []command{{verb: createAccount}}
}

// whyNoPods returns why the operator cannot create a Pod that mounts the Secret of the operator's user; "" if it can. While it cannot, it
// replaces no Pod.
func (o *observed) whyNoPods() string {
	switch {
	case len(o.Object.Spec.Users) == 0:
		return ""
	case o.AccountProblem != nil:
		return o.AccountProblem.Message
	case o.AccountMissing:
		return "Secret " + manifest.AccountRef(o.Object).Name + " is being created"
	}
	return ""
}

// waitForAccount waits while no Pod can be created. All policies before it do what needs no new Pod.
func waitForAccount(o *observed) *plan {
	if why := o.whyNoPods(); why != "" {
		return wait(poll, "Waiting for the password of the operator's user, before a Pod is created: %s", why)
	}
	return nil
}

// waitForUsers waits until all nodes that answer have their users. Until then, no node gets slots, and rollPods replaces no Pod.
func waitForUsers(o *observed) *plan {
	if pending := userCommands(o); len(pending) > 0 {
		return wait(brief, "%s", settingStep("users", pending))
	}
	return nil
}

// findMissingUser returns why new nodes would not have a user of the spec, or the user default, although the others may have it; "" if
// they would.
func (o *observed) findMissingUser() string {
	for _, p := range o.userProblems {
		return p.Message
	}
	for _, u := range o.Object.Spec.Users {
		if r, refused := o.refusals[refusedUser{u.Name, o.Object.Spec.Image}]; refused {
			return fmt.Sprintf("%s rejected the rules of the user %s", r.pod, u.Name)
		}
	}
	return ""
}

// userProblems returns a problem for each user that a node does not have as in spec.users.
func userProblems(o *observed) []problem {
	all := slices.Clone(o.userProblems)
	byName := func(a, b refusedUser) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.image, b.image)) }
	for _, u := range slices.SortedFunc(maps.Keys(o.refusals), byName) {
		r := o.refusals[u]
		all = append(all, problem{reasonUser, fmt.Sprintf("Redis in %s rejected the rules of the user %s: %s. "+
			"The nodes with its image keep the user as it was. Correct spec.users", r.pod, u.name, r.reason)})
	}
	return all
}
