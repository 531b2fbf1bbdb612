/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecsinstance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// observed is what one sync sees of an ECSInstance.
type observed struct {
	ecs  *v1alpha1.ECSInstance // a copy, with its defaults
	mine *session
	now  time.Time

	from  string // where the credentials come from, in words
	fleet fleetKey
	cloud Cloud
	// account is the one that the credentials are of.
	account string
	// script is the Secret with the user data, nil if there is none to be used.
	script *corev1.Secret
	// problem is why no more is known.
	problem *problem

	// id is the instance that this is about: the one that was made or adopted, or is to be
	// adopted; "" for none.
	id string
	// sight is what was last seen of it, nil for nothing yet.
	sight *sight

	// held is why nothing is asked for now, and heldFor how long that holds.
	held    *problem
	heldFor time.Duration

	// refused is whether ECS has just refused the type.
	refused bool
	// finalized is whether the finalizers were changed: the object is not as it was.
	finalized bool
}

func (o *observed) key() cache.ObjectName { return cache.MetaObjectToName(o.ecs) }

func (o *observed) deleting() bool { return o.ecs.DeletionTimestamp != nil }

// creating returns whether ECS was, or may have been, asked to make an instance of which it is
// not known what came of it.
func (o *observed) creating() bool {
	create := o.ecs.Status.Create
	return o.ecs.Status.InstanceID == "" && create != nil && create.Parameters != ""
}

// region is where the instance is, or may be: not where the spec says, if that was changed
// before the answer came.
func (o *observed) region() string {
	if create := o.ecs.Status.Create; create != nil && create.Parameters != "" {
		return create.RegionID
	}
	return o.ecs.Spec.RegionID
}

// home is the account that the instance is, or may be, in; "" if there is none.
func (o *observed) home() string {
	if o.ecs.Status.InstanceID == "" && (!o.creating() || o.rejected()) { // A Create without parameters was never called.
		return ""
	}
	return o.ecs.Status.AccountID
}

// refuses returns whether ECS has refused the type of the spec.
func (o *observed) refuses() bool {
	return o.refused || o.ecs.Status.RefusedInstanceType == o.ecs.Spec.InstanceType
}

// jittered returns about d: many that begin to wait together do not end together.
func (o *observed) jittered(d time.Duration) time.Duration {
	return jittered(d, string(o.ecs.UID), o.now)
}

// fresh returns whether the instance was seen since something was last asked of it.
func (o *observed) fresh() bool { return o.sight != nil && o.sight.at.After(o.mine.acted) }

// owned returns whether the tags of the instance say that it is this object's.
func (o *observed) owned() bool { return o.sight.instance.Tags[v1alpha1.TagUID] == string(o.ecs.UID) }

// observe looks at all that there is to see of an ECSInstance: the Secrets that it refers to,
// the account that they open, and what the fleet has seen of its instance. Only the account may
// take a call, once for each access key.
func (c *Controller) observe(ctx context.Context, ecs *v1alpha1.ECSInstance) (*observed, error) {
	o := &observed{ecs: ecs, mine: c.sessions.of(ecs), now: c.clock.Now()}
	o.mine.heed(ecs.Status.Create)
	o.id = cmp.Or(ecs.Status.InstanceID, ecs.Spec.AdoptInstanceID)
	if err := c.secrets.use(o.key(), o.secrets()...); err != nil {
		return nil, err
	}
	if err := c.authenticate(ctx, o); err != nil {
		return nil, err
	}
	if o.problem == nil {
		o.held, o.heldFor = o.mine.holding(ecs, o.fleet, o.now)
	}
	watched := ""
	if home := o.home(); o.problem == nil && o.account != "" && (home == "" || home == o.account) {
		watched = o.id
	}
	if o.mine.watched != "" && (o.mine.watched != watched || o.mine.fleet != o.fleet) {
		c.fleets.leave(o.mine.fleet, o.mine.watched, o.key())
	}
	o.mine.fleet, o.mine.watched = o.fleet, watched
	if watched != "" {
		o.sight = c.fleets.look(o.fleet, watched, o.key())
	}
	o.mine.note(o)
	return o, nil
}

// secrets are the Secrets that matter now: user data only matters until there is an instance.
func (o *observed) secrets() []cache.ObjectName {
	var names []cache.ObjectName
	if ref := o.ecs.Spec.CredentialsSecretRef; ref != nil {
		names = append(names, cache.NewObjectName(o.ecs.Namespace, ref.Name))
	}
	if ref := o.ecs.Spec.UserDataSecretRef; ref != nil && o.id == "" && !o.deleting() {
		names = append(names, cache.NewObjectName(o.ecs.Namespace, ref.Name))
	}
	return names
}

// authenticate finds the credentials, and whose they are.
func (c *Controller) authenticate(ctx context.Context, o *observed) error {
	o.from = "the operator"
	o.fleet.region = o.region()
	if ref := o.ecs.Spec.CredentialsSecretRef; ref != nil {
		o.from = "Secret " + ref.Name
		var secret *corev1.Secret
		if secret, o.problem = c.secrets.get(ctx, cache.NewObjectName(o.ecs.Namespace, ref.Name)); o.problem != nil {
			return nil
		}
		if o.fleet.key, o.problem = accessKey(secret, ref.Name); o.problem != nil {
			if !o.deleting() || secret != nil || o.mine.key == (aliyun.AccessKey{}) {
				return nil
			}
			// It went with its namespace, say, before the instance could.
			o.fleet.key, o.problem = o.mine.key, nil
		}
		o.mine.key = o.fleet.key
	}
	if ref := o.ecs.Spec.UserDataSecretRef; ref != nil && o.id == "" && !o.deleting() {
		var secret *corev1.Secret
		if secret, o.problem = c.secrets.get(ctx, cache.NewObjectName(o.ecs.Namespace, ref.Name)); o.problem != nil {
			return nil
		}
		if secret == nil || len(secret.Data[ref.Key]) == 0 {
			o.problem = &problem{reason: reasonSecretMissing, stalled: true, wait: waitForSecret,
				message: fmt.Sprintf("There is no %s in Secret %s, for the user data: create it, or correct userDataSecretRef", ref.Key, ref.Name)}
			return nil
		}
		o.script = secret
	}
	o.cloud = c.fleets.cloud(o.fleet)
	account, err := o.cloud.Account(ctx)
	if errors.Is(err, context.Canceled) {
		return err
	}
	if err != nil {
		o.problem = problemOf(err, o.from)
	}
	o.account = account
	return nil
}

// accessKey reads a Secret of credentials.
func accessKey(secret *corev1.Secret, name string) (aliyun.AccessKey, *problem) {
	missing := func(what string) *problem {
		return &problem{reason: reasonSecretMissing, message: what, wait: waitForSecret, stalled: true}
	}
	if secret == nil {
		return aliyun.AccessKey{}, missing(fmt.Sprintf("There is no Secret %s: create it, with %s and %s, or correct credentialsSecretRef, "+
			"or remove that for the operator's own credentials",
			name, v1alpha1.KeyAccessKeyID, v1alpha1.KeyAccessKeySecret))
	}
	for _, key := range []string{v1alpha1.KeyAccessKeyID, v1alpha1.KeyAccessKeySecret} {
		if len(trimmed(secret.Data[key])) == 0 {
			return aliyun.AccessKey{}, missing(fmt.Sprintf("Secret %s has no %s: add it", name, key))
		}
	}
	return aliyun.AccessKey{
		ID:            trimmed(secret.Data[v1alpha1.KeyAccessKeyID]),
		Secret:        trimmed(secret.Data[v1alpha1.KeyAccessKeySecret]),
		SecurityToken: trimmed(secret.Data[v1alpha1.KeySecurityToken]),
	}, nil
}

// trimmed is a value of a Secret without the newline of the file that it was made from.
func trimmed(value []byte) string { return strings.TrimSpace(string(value)) }
