// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// observed holds all that one sync knows of an ECSInstance. It has plain values only, and no part of an
// access key or of user data: the session holds those. Nothing changes it after observe returned it.
type observed struct {
	ecs    *v1alpha1.ECSInstance // a copy, with its defaults
	now    time.Time
	memory memory // what earlier syncs and this sync observed

	// credentials is nil for the operator's own credentials. userData is nil if no call to create may need it.
	credentials, userData *secretState
	// account is the account of the credentials, "" if it is unknown. accountProblem says why ECS did not return it, or why the
	// operator may not ask.
	account        string
	accountProblem *problem

	// id is the instance of the object, or the one to adopt; "" for none.
	id string
	// polledAt is the time of the last successful poll of the instance, and answeredAt that of its answer; both are zero for none yet.
	// instance is the result of that poll, nil for no instance; other syncs share the pointer. pollProblem says why polls fail now.
	polledAt, answeredAt time.Time
	instance             *aliyun.Instance
	pollProblem          *problem
}

// secretState says which version of a Secret the cache holds, without its data. A record stores it unchanged.
type secretState struct {
	Name            string    `json:"name"`
	Exists          bool      `json:"exists"`
	UID             types.UID `json:"uid,omitempty"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
	// MissingKey is the first key without a value that the operator needs, "" if none is missing.
	MissingKey string `json:"missingKey,omitempty"`
	// Unreadable says why the cache does not show the Secret, "" if it does.
	Unreadable string `json:"unreadable,omitempty"`
	// Remembered reports that the Secret is gone, and that the deletion uses the access key of an earlier sync.
	Remembered bool `json:"remembered,omitempty"`
}

func (o *observed) key() cache.ObjectName { return cache.MetaObjectToName(o.ecs) }

func (o *observed) deleting() bool { return o.ecs.DeletionTimestamp != nil }

// after returns o with the object and the memory of the outcome of act.
func (o *observed) after(out outcome) *observed {
	known := *o
	known.ecs, known.memory = out.ecs, out.memory
	return &known
}

// creating reports whether ECS may have been called to create an instance, with unknown result.
func (o *observed) creating() bool {
	create := o.ecs.Status.Create
	return o.ecs.Status.InstanceID == "" && create != nil && create.Parameters != ""
}

// region returns the region where the instance is, or may be. It differs from spec.regionID if the spec changed before ECS answered.
func (o *observed) region() string {
	if create := o.ecs.Status.Create; create != nil && create.Parameters != "" {
		return create.RegionID
	}
	return o.ecs.Spec.RegionID
}

// boundTo returns the account where the instance is, or may be; "" if there can be no instance.
func (o *observed) boundTo() string {
	if o.ecs.Status.InstanceID == "" && (!o.creating() || o.createRejected()) { // ECS was never called for a Create without parameters.
		return ""
	}
	return o.ecs.Status.AccountID
}

// jittered returns d with jitter, so that waits that begin together do not end together.
func (o *observed) jittered(d time.Duration) time.Duration {
	return jittered(d, string(o.ecs.UID), o.now)
}

// fresh reports whether the last poll of the instance is later than the last change of it.
func (o *observed) fresh() bool { return o.polledAt.After(o.memory.changedAt) }

// owned reports whether the instance has the tag with the UID of this object.
func (o *observed) owned() bool { return o.instance.Tags[v1alpha1.TagUID] == string(o.ecs.UID) }

// credentialsFrom names the source of the credentials, for messages.
func (o *observed) credentialsFrom() string {
	if ref := o.ecs.Spec.CredentialsSecretRef; ref != nil {
		return "Secret " + ref.Name
	}
	return "the operator"
}

// observe reads the Secrets of an ECSInstance, the account of the credentials, and the last snapshot of
// the instance. Only the account may take a call, once for each access key.
func (c *Controller) observe(ctx context.Context, ecs *v1alpha1.ECSInstance) (*observed, error) {
	s := c.sessions.open(ecs)
	o := &observed{ecs: ecs, now: c.clock.Now(), id: cmp.Or(ecs.Status.InstanceID, ecs.Spec.AdoptInstanceID), memory: s.memory}
	o.memory.forgetEarlierCalls(ecs.Status.Create)
	c.secrets.use(o.key(), o.secretNames()...)
	access, err := c.authenticate(ctx, o, s)
	if err != nil {
		return nil, err
	}
	if access != s.backoffAccess && o.accessProblem() == nil {
		o.memory.backoff = backoff{} // ECS rejected other credentials, or a call in another region.
	}
	c.watch(o, s, access)
	o.memory.record(o)
	return o, nil
}

// needsUserData reports whether the user data matters: it does until there is an instance.
func (o *observed) needsUserData() bool {
	return o.ecs.Spec.UserDataSecretRef != nil && o.id == "" && !o.deleting()
}

// secretNames returns the Secrets that matter now.
func (o *observed) secretNames() []cache.ObjectName {
	var names []cache.ObjectName
	if ref := o.ecs.Spec.CredentialsSecretRef; ref != nil {
		names = append(names, cache.NewObjectName(o.ecs.Namespace, ref.Name))
	}
	if o.needsUserData() {
		names = append(names, cache.NewObjectName(o.ecs.Namespace, o.ecs.Spec.UserDataSecretRef.Name))
	}
	return names
}

// authenticate reads the Secrets and the account of the credentials. It returns the credentials and the region for calls; it returns an
// error only if ctx ended.
func (c *Controller) authenticate(ctx context.Context, o *observed, s *session) (fleetKey, error) {
	access := fleetKey{region: o.region()}
	s.userData = nil
	if ref := o.ecs.Spec.CredentialsSecretRef; ref != nil {
		state, secret := c.readSecret(ctx, o.ecs.Namespace, ref.Name, v1alpha1.KeyAccessKeyID, v1alpha1.KeyAccessKeySecret)
		switch {
		case state.usable():
			s.key = accessKey(secret)
		case o.deleting() && !state.Exists && state.Unreadable == "":
			// The Secret was deleted before the instance, for example with its namespace.
			state.Remembered = s.key != (aliyun.AccessKey{})
		}
		o.credentials = state
		if !state.usable() {
			return access, nil
		}
		access.key = s.key
	}
	if ref := o.ecs.Spec.UserDataSecretRef; o.needsUserData() {
		state, secret := c.readSecret(ctx, o.ecs.Namespace, ref.Name)
		if state.Exists && len(secret.Data[ref.Key]) == 0 {
			state.MissingKey = ref.Key
		}
		o.userData = state
		if !state.usable() {
			return access, nil
		}
		s.userData = secret.Data[ref.Key]
	}
	if why, remedy := c.own.Refusal(o.ecs); why != "" {
		o.accountProblem = &problem{reason: reasonOwnCredentials, stalled: true, wait: waitForSpec, message: why + ": " + remedy}
		return access, nil
	}
	account, err := c.fleets.cloud(access).Account(ctx)
	if errors.Is(err, context.Canceled) {
		return access, err
	}
	if err != nil {
		o.accountProblem = problemOf(err, o.credentialsFrom())
	}
	o.account = account
	return access, nil
}

// readSecret returns the state of a Secret and the Secret itself, nil if it does not exist or cannot be read. The caller must not change
// the Secret. The state names the first of keys whose value is blank.
func (c *Controller) readSecret(ctx context.Context, namespace, name string, keys ...string) (*secretState, *corev1.Secret) {
	state := &secretState{Name: name}
	secret, err := c.secrets.get(ctx, cache.NewObjectName(namespace, name))
	if err != nil {
		state.Unreadable = err.Error()
		return state, nil
	}
	if secret == nil {
		return state, nil
	}
	state.Exists, state.UID, state.ResourceVersion = true, secret.UID, secret.ResourceVersion
	for _, key := range keys {
		if state.MissingKey == "" && trimmed(secret.Data[key]) == "" {
			state.MissingKey = key
		}
	}
	return state, secret
}

// usable reports whether the Secret, or the access key that an earlier sync read from it, has all values.
func (s *secretState) usable() bool {
	return s.Remembered || (s.Exists && s.MissingKey == "" && s.Unreadable == "")
}

// accessKey returns the access key in a Secret.
func accessKey(secret *corev1.Secret) aliyun.AccessKey {
	return aliyun.AccessKey{
		ID:            trimmed(secret.Data[v1alpha1.KeyAccessKeyID]),
		Secret:        trimmed(secret.Data[v1alpha1.KeyAccessKeySecret]),
		SecurityToken: trimmed(secret.Data[v1alpha1.KeySecurityToken]),
	}
}

// trimmed returns a value of a Secret without the newline of the file that it came from.
func trimmed(value []byte) string { return strings.TrimSpace(string(value)) }

// watch makes a fleet poll the instance if the credentials are usable and of the right account. It adds the last snapshot to o.
func (c *Controller) watch(o *observed, s *session, access fleetKey) {
	watched := ""
	if account := o.boundTo(); o.account != "" && o.accessProblem() == nil && (account == "" || account == o.account) {
		watched = o.id
	}
	if s.watched != "" && (s.watched != watched || s.access != access) {
		c.fleets.leave(s.access, s.watched, o.key())
	}
	s.access, s.watched = access, watched
	if watched == "" {
		return
	}
	if snapshot := c.fleets.subscribe(access, watched, o.key()); snapshot != nil {
		o.polledAt, o.answeredAt, o.instance = snapshot.at, snapshot.answered, snapshot.instance
		if snapshot.trouble() != "" {
			o.pollProblem = problemOf(snapshot.err, o.credentialsFrom())
		}
	}
}
