// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

// The commands for users.
var (
	createAccount = &verb{text: "create Secret", do: executor.createAccount, writes: func(o *observed, _ command) write {
		return write{verb: "create", kind: "Secret", name: manifest.AccountRef(o.Object).Name} // Its password is generated when it is created.
	}}
	// on gets the named users of spec.users, or loses them.
	setUsers = &verb{text: "set users of", do: executor.setUsers}
)

// createAccount creates the Secret of the operator's user: with the password that the nodes have, if the operator knows it. If the API
// server rejects the Secret, createAccount returns no error: only what needs a new Pod waits, and the operator retries after secretEvery.
func (e executor) createAccount(ctx context.Context, _ command) error {
	current, ref := e.session, manifest.AccountRef(e.o.Object)
	own := current.secrets[ref]
	own.text, own.readAt = cmp.Or(own.text, rand.Text()), time.Time{} // The next sync reads the Secret, even if the response is lost.
	current.secrets[ref] = own
	secrets := e.kube.CoreV1().Secrets(e.o.Object.Namespace)
	_, err := secrets.Create(ctx, manifest.Account(e.o.Object, own.text), metav1.CreateOptions{FieldManager: glassback.Name})
	if err == nil {
		return nil
	}
	reason := withoutPassword(err.Error(), own.text)
	if !isRejected(err) && !isQuota(err) {
		return errors.New(reason) // Not err: a webhook may quote the Secret in any error.
	}
	own.readAt, own.tried, own.rejection = e.clock.Now(), true, reason
	current.secrets[ref] = own
	klog.FromContext(ctx).Info("The API server rejects the Secret of the operator's user", "secret", ref.Name, "reason", own.rejection)
	return nil
}

// withoutPassword returns a text without a password, in each form in which Go or JSON writes a Secret.
func withoutPassword(text, password string) string {
	numbers := strings.Trim(fmt.Sprint([]byte(password)), "[]")
	return strings.NewReplacer(password, "…", base64.StdEncoding.EncodeToString([]byte(password)), "…", numbers, "…").Replace(text)
}

// checkAccount reads the Secret of the operator's user again, right before the operator creates a Pod or Job that mounts the Secret, or
// deletes a Pod to replace it. It returns an error if the Secret no longer has the password that this sync observed: the next sync decides
// again. Without spec.users, it does nothing.
func (e executor) checkAccount(ctx context.Context) error {
	if len(e.o.Object.Spec.Users) == 0 {
		return nil
	}
	ref := manifest.AccountRef(e.o.Object)
	read, err := e.sessions.readSecretNow(ctx, e.o.Object, ref)
	if err == nil && (read.missing || read.foreign || redisnode.HashPassword(read.text) != e.o.accountHash) {
		return fmt.Errorf("the Secret %s has changed in the meantime", ref.Name)
	}
	return err
}

// setUsers sets users in a node, and deletes those that spec.users does not have. It ends the connections of users that are off; Redis
// itself ends those of deleted users. No link between nodes ends, since replicas log in as the operator's user. setUsers first resets that
// user, which removes the mark (see markOf), and sets the mark last. After a crash in between, a later sync sets and saves all users again.
// If the Pod has no file of users, the node has the operator's user only until its container restarts.
func (e executor) setUsers(ctx context.Context, c command) error {
	m, names := c.on, c.names
	node, current := e.node(m), e.session
	own := append([]string{"reset", "on", "#" + e.o.accountHash}, strings.Fields(manifest.Everything)...)
	if err := node.SetUser(ctx, v1.UserOperator, own); err != nil || !manifest.HasAccount(m.Pod) {
		return err
	}
	var gone []string
	for _, name := range names {
		i := slices.IndexFunc(e.o.users, func(u user) bool { return u.name == name })
		if i < 0 {
			gone = append(gone, name)
			continue
		}
		if _, refused := current.refusals[refusedUser{name, m.image()}]; refused {
			continue // Another node has refused the rules a moment ago.
		}
		u := e.o.users[i]
		rules := append([]string{"reset", "on"}, strings.Split(u.rules, " ")...)
		for _, hash := range e.o.hashes(m.users, u) {
			rules = append(rules, "#"+hash)
		}
		err := node.SetUser(ctx, name, rules)
		if refused, ok := errors.AsType[*redisnode.RefusedRulesError](err); ok {
			current.refusals[refusedUser{name, m.image()}] = refusal{u.rules, m.Name, refused.Reason}
		} else if err != nil {
			return err
		} else if u.isOff() {
			if err := node.EndConnections(ctx, name); err != nil {
				return err
			}
		}
	}
	if err := node.DeleteUsers(ctx, gone); err != nil {
		return err
	}
	users, err := node.Users(ctx)
	if err != nil {
		return err
	}
	if err := node.SaveUsers(ctx); err != nil {
		return err
	}
	return node.SetUser(ctx, v1.UserOperator, []string{manifest.MarkRule(markOf(current.refusals.acceptedBy(m, e.o.users), users))})
}
