// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

// secretEvery is how often the operator reads the Secrets of spec.users. It does not watch them: that would need the right to read
// all Secrets.
const secretEvery = 30 * time.Second

// secretText is a password of a Secret.
type secretText struct {
	text    string    // the last one; "" if there was none
	missing bool      // whether the Secret does not exist
	foreign bool      // whether it is of another owner, is being deleted, or has another password than the nodes
	readAt  time.Time // when it was read
	// rejection is why the API server rejected the creation of the Secret the last time; "" if it did not. tried is whether that was
	// after readAt.
	rejection string
	tried     bool
	// accepted is whether at least half of the nodes accept text as the password of the operator's user.
	accepted bool
}

// readUsers reads the Secrets of the users, of the operator's own user, and of the Pods that do not have it yet. It returns a problem
// if the operator cannot log in to a node.
func (s *sessions) readUsers(ctx context.Context, o *observed) (*problem, error) {
	current, ref := s.get(o.Object), manifest.AccountRef(o.Object)
	if current.secrets == nil {
		current.secrets = map[v1.SecretKeyReference]secretText{}
	}
	own, err := s.readSecret(ctx, o.Object, ref)
	if err != nil {
		return nil, err
	}
	if o.AccountProblem = own.problem(ref, o.someHaveAccount()); own.text == "" && o.someHaveAccount() {
		return o.AccountProblem, nil
	}
	o.AccountMissing = own.missing && !own.tried
	if own.text != "" {
		o.accountHash = redisnode.HashPassword(own.text)
	}
	wanted := o.passwordRefs()
	wanted[ref] = true
	for used := range wanted {
		if _, err := s.readSecret(ctx, o.Object, used); err != nil {
			return nil, err
		}
	}
	maps.DeleteFunc(current.secrets, func(used v1.SecretKeyReference, _ secretText) bool { return !wanted[used] })
	maps.DeleteFunc(current.refusals, func(refused refusedUser, r refusal) bool {
		same := func(u v1.User) bool { return u.Name == refused.name && u.Rules == r.rules }
		runs := func(m *member) bool { return m.image() == refused.image }
		return !slices.ContainsFunc(o.Members, runs) || !slices.ContainsFunc(o.Object.Spec.Users, same)
	})
	o.refusals = maps.Clone(current.refusals)
	o.wantUsers(func(used v1.SecretKeyReference) (string, *problem) {
		read := current.secrets[used]
		switch {
		case read.missing:
			return "", &problem{reasonNoPassword,
				fmt.Sprintf("Secret %s does not exist: create it, with a password in the key %s", used.Name, used.Key)}
		case read.text == "":
			return "", &problem{reasonNoPassword, fmt.Sprintf("Secret %s has no password in %s: set it, or name another key", used.Name, used.Key)}
		}
		return read.text, nil
	})
	return nil, nil
}

// problem returns why no Pod can mount the Secret of the operator's user; nil if one can, or if the creation was not tried yet. inUse is
// whether Pods have its password.
func (own secretText) problem(ref v1.SecretKeyReference, inUse bool) *problem {
	switch {
	case own.foreign:
		return &problem{reasonConflict, fmt.Sprintf("Secret %s is of another owner, is being deleted, or has another password than the nodes: "+
			"delete or rename it. The operator then creates its own", ref.Name)}
	case own.missing && own.text == "" && inUse:
		return &problem{reasonNoAccount, fmt.Sprintf("Secret %s does not exist, and the nodes still have its password: "+
			"create it again, with the file %s/%s of a Pod in the key %s", ref.Name, manifest.DirAuth, manifest.FileAuth, ref.Key)}
	case own.missing && own.rejection != "":
		return &problem{reasonNoSecret, fmt.Sprintf("The API server rejects the Secret %s, which new Pods need: %s", ref.Name, own.rejection)}
	case !own.missing && own.text == "":
		return &problem{reasonNoAccount, fmt.Sprintf("Secret %s has no password in %s: delete it, and create it again", ref.Name, ref.Key)}
	}
	return nil
}

// passwordRefs returns the references to the passwords that the users, the user default and the Pods have.
func (o *observed) passwordRefs() map[v1.SecretKeyReference]bool {
	refs := []*v1.SecretKeyReference{o.openRef()}
	for _, m := range o.Members {
		if m.Pod != nil {
			refs = append(refs, manifest.PasswordRefOf(m.Pod))
		}
	}
	for _, u := range o.Object.Spec.Users {
		refs = append(refs, u.PasswordSecretRef)
	}
	set := map[v1.SecretKeyReference]bool{}
	for _, ref := range refs {
		if ref != nil {
			set[*ref] = true
		}
	}
	return set
}

// readSecret returns a password, which it has read at most secretEvery ago. It keeps the last one while the Secret cannot be read.
func (s *sessions) readSecret(ctx context.Context, rdc *v1.RedisCluster, ref v1.SecretKeyReference) (secretText, error) {
	current := s.get(rdc)
	last, known := current.secrets[ref]
	age := s.clock.Since(last.readAt)
	if known && age < secretEvery && (!current.refused || age < minPasswordAge) {
		return last, nil
	}
	read, err := s.readSecretNow(ctx, rdc, ref)
	if err != nil && known {
		return last, nil
	}
	return read, err
}

// readSecretNow returns a password, which it reads at once. It keeps the last one of a Secret that does not exist any more.
func (s *sessions) readSecretNow(ctx context.Context, rdc *v1.RedisCluster, ref v1.SecretKeyReference) (secretText, error) {
	current := s.get(rdc)
	last := current.secrets[ref]
	secret, err := s.kube.CoreV1().Secrets(rdc.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	read := secretText{text: last.text, readAt: s.clock.Now(), accepted: last.accepted}
	switch {
	case apierrors.IsNotFound(err):
		read.missing, read.rejection = true, last.rejection
	case err != nil:
		return secretText{}, fmt.Errorf("get Secret %s, which has a password: %w", ref.Name, err)
	default:
		text := strings.TrimRight(string(secret.Data[ref.Key]), "\n") // As the scripts do.
		owner := metav1.GetControllerOf(secret)
		others := (owner != nil && owner.UID != rdc.UID) || (last.accepted && text != last.text)
		read.foreign = ref == manifest.AccountRef(rdc) && (others || secret.DeletionTimestamp != nil)
		if ref != manifest.AccountRef(rdc) || !others { // Another password must not replace that of the nodes.
			read.text = text
		}
	}
	current.secrets[ref] = read
	return read, nil
}

// recordAccepted remembers whether at least half of the nodes accept the password of the operator's user.
func (s *session) recordAccepted(o *observed) {
	own, known := s.secrets[manifest.AccountRef(o.Object)]
	if !known {
		return
	}
	accepts, refuses := 0, 0
	for _, m := range o.Members {
		switch {
		case !manifest.HasAccount(m.Pod):
		case m.answers():
			accepts++
		case m.Refused:
			refuses++
		}
	}
	own.accepted = accepts >= refuses && (own.accepted || accepts > 0)
	s.secrets[manifest.AccountRef(o.Object)] = own
}

// loginTo returns how the operator logs in to the node of a Pod: with the password that the Pod was created with.
func (s *session) loginTo(pod *corev1.Pod) redisnode.Login {
	if s.secrets == nil {
		return redisnode.Login{Password: s.password}
	}
	user, ref := manifest.LoginTo(pod)
	if ref == nil {
		return redisnode.Login{}
	}
	return redisnode.Login{User: user, Password: s.secrets[*ref].text}
}
