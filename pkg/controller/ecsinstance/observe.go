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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/loop"
)

// Observed holds all that one sync knows of an ECSInstance, as plain values. It holds no part of an access key or of user data: the
// session has those. Nothing changes it after observe returned it. It is what a recording holds.
type Observed struct {
	Now    time.Time             `json:"now"`
	Object *v1alpha1.ECSInstance `json:"object"` // a copy, with its defaults
	Memory memory                `json:"memory"` // what earlier syncs and this sync observed

	// Credentials is nil for the operator's own credentials. UserData is nil if no call to create may need it.
	Credentials *secretState `json:"credentials,omitempty"`
	UserData    *secretState `json:"userData,omitempty"`
	// Account is the account of the credentials, "" if it is unknown. AccountProblem says why ECS did not return it, or why the
	// operator may not ask.
	Account        string   `json:"account,omitempty"`
	AccountProblem *problem `json:"accountProblem,omitempty"`

	// ID is the instance of the object, or the one to adopt; "" for none.
	ID string `json:"id,omitempty"`
	// PolledAt is the time of the last successful poll of the instance, and AnsweredAt that of its answer; both are zero for none yet.
	// Instance is the result of that poll, nil for no instance; other syncs share the pointer. PollProblem says why polls fail now.
	PolledAt    time.Time        `json:"lookedAt,omitzero"`
	AnsweredAt  time.Time        `json:"answeredAt,omitzero"`
	Instance    *aliyun.Instance `json:"instance,omitempty"`
	PollProblem *problem         `json:"lookProblem,omitempty"`
}

// secretState says which version of a Secret the cache holds, without its data.
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

func (o *Observed) key() cache.ObjectName { return cache.MetaObjectToName(o.Object) }

func (o *Observed) deleting() bool { return o.Object.DeletionTimestamp != nil }

// creating reports whether ECS may have been called to create an instance, with unknown result.
func (o *Observed) creating() bool {
	create := o.Object.Status.Create
	return o.Object.Status.InstanceID == "" && create != nil && create.Parameters != ""
}

// region returns the region where the instance is, or may be. It differs from spec.regionID if the spec changed before ECS answered.
func (o *Observed) region() string {
	if create := o.Object.Status.Create; create != nil && create.Parameters != "" {
		return create.RegionID
	}
	return o.Object.Spec.RegionID
}

// boundTo returns the account where the instance is, or may be; "" if there can be no instance.
func (o *Observed) boundTo() string {
	if o.Object.Status.InstanceID == "" && (!o.creating() || o.createRejected()) { // ECS was never called for a Create without parameters.
		return ""
	}
	return o.Object.Status.AccountID
}

// jittered returns d with jitter, so that waits that begin together do not end together.
func (o *Observed) jittered(d metav1.Duration) metav1.Duration {
	return in(jittered(d.Duration, string(o.Object.UID), o.Now))
}

// fresh reports whether the last poll of the instance is later than the last change of it.
func (o *Observed) fresh() bool { return o.PolledAt.After(o.Memory.ChangedAt) }

// owned reports whether the instance has the tag with the UID of this object.
func (o *Observed) owned() bool { return o.Instance.Tags[v1alpha1.TagUID] == string(o.Object.UID) }

// credentialsFrom names the source of the credentials, for messages.
func (o *Observed) credentialsFrom() string {
	if ref := o.Object.Spec.CredentialsSecretRef; ref != nil {
		return "Secret " + ref.Name
	}
	return "the operator"
}

// observe reads the Secrets of an ECSInstance, the account of the credentials, and the last snapshot of
// the instance. Only the account may take a call, once for each access key.
func (c *Controller) observe(ctx context.Context, ecs *v1alpha1.ECSInstance) (*Observed, error) {
	s := c.sessionOf(ecs)
	o := &Observed{Object: ecs, Now: c.clock.Now(), ID: cmp.Or(ecs.Status.InstanceID, ecs.Spec.AdoptInstanceID), Memory: s.memory}
	o.Memory.forgetEarlierCalls(ecs.Status.Create)
	c.poller.Use(o.key(), 0, o.secretsUsed()...)
	access, err := c.authenticate(ctx, o, s)
	if err != nil {
		return nil, err
	}
	if access != s.backoffAccess && o.accessProblem() == nil {
		o.Memory.Backoff = backoff{} // ECS rejected other credentials, or a call in another region.
	}
	c.watch(o, s, access)
	o.Memory.record(o)
	return o, nil
}

// needsUserData reports whether the user data matters: it does until there is an instance.
func (o *Observed) needsUserData() bool {
	return o.Object.Spec.UserDataSecretRef != nil && o.ID == "" && !o.deleting()
}

// secretsUsed returns the Secrets that matter now.
func (o *Observed) secretsUsed() []loop.Source {
	var used []loop.Source
	if ref := o.Object.Spec.CredentialsSecretRef; ref != nil {
		used = append(used, secretNamed(o.Object.Namespace, ref.Name))
	}
	if o.needsUserData() {
		used = append(used, secretNamed(o.Object.Namespace, o.Object.Spec.UserDataSecretRef.Name))
	}
	return used
}

func secretNamed(namespace, name string) loop.Source {
	return loop.Source{Kind: "Secret", ObjectName: cache.NewObjectName(namespace, name)}
}

// authenticate reads the Secrets and the account of the credentials. It returns the credentials and the region for calls; it returns an
// error only if ctx ended.
func (c *Controller) authenticate(ctx context.Context, o *Observed, s *session) (fleetKey, error) {
	access := fleetKey{region: o.region()}
	s.userData = nil
	if ref := o.Object.Spec.CredentialsSecretRef; ref != nil {
		state, secret := c.readSecret(ctx, o.Object.Namespace, ref.Name, v1alpha1.KeyAccessKeyID, v1alpha1.KeyAccessKeySecret)
		switch {
		case state.usable():
			s.key = AccessKey(secret)
		case o.deleting() && !state.Exists && state.Unreadable == "":
			// The Secret was deleted before the instance, for example with its namespace.
			state.Remembered = s.key != (aliyun.AccessKey{})
		}
		o.Credentials = state
		if !state.usable() {
			return access, nil
		}
		access.key = s.key
	}
	if ref := o.Object.Spec.UserDataSecretRef; o.needsUserData() {
		state, secret := c.readSecret(ctx, o.Object.Namespace, ref.Name)
		if state.Exists && len(secret.Data[ref.Key]) == 0 {
			state.MissingKey = ref.Key
		}
		o.UserData = state
		if !state.usable() {
			return access, nil
		}
		s.userData = secret.Data[ref.Key]
	}
	if why, remedy := c.refuse(o.Object); why != "" {
		o.AccountProblem = &problem{Reason: reasonOwnCredentials, Stalled: true, Wait: waitForSpec, Message: why + ": " + remedy}
		return access, nil
	}
	account, err := c.fleets.cloud(access).Account(ctx)
	if errors.Is(err, context.Canceled) {
		return access, err
	}
	if err != nil {
		o.AccountProblem = problemOf(err, o.credentialsFrom())
	}
	o.Account = account
	return access, nil
}

// secretTimeout limits the request for a Secret. A sync reads its Secrets from the API server, and keeps none of them.
const secretTimeout = 5 * time.Second

// readSecret returns the state of a Secret and the Secret itself, nil if it does not exist or cannot be read. The caller must not change
// the Secret. The state names the first of keys whose value is blank.
func (c *Controller) readSecret(ctx context.Context, namespace, name string, keys ...string) (*secretState, *corev1.Secret) {
	state := &secretState{Name: name}
	reading, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	secret, err := c.secrets.Secrets(namespace).Get(reading, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		c.poller.Saw(secretNamed(namespace, name), loop.Version{})
		return state, nil
	case err != nil:
		state.Unreadable = err.Error()
		return state, nil
	}
	c.poller.Saw(secretNamed(namespace, name), loop.VersionOf(secret))
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

// AccessKey returns the access key in a Secret, whose parts are "" if they are missing.
func AccessKey(secret *corev1.Secret) aliyun.AccessKey {
	return aliyun.AccessKey{
		ID:            trimmed(secret.Data[v1alpha1.KeyAccessKeyID]),
		Secret:        trimmed(secret.Data[v1alpha1.KeyAccessKeySecret]),
		SecurityToken: trimmed(secret.Data[v1alpha1.KeySecurityToken]),
	}
}

// trimmed returns a value of a Secret without the newline of the file that it came from.
func trimmed(value []byte) string { return strings.TrimSpace(string(value)) }

// watch makes a fleet poll the instance if the credentials are usable and of the right account. It adds the last snapshot to o.
func (c *Controller) watch(o *Observed, s *session, access fleetKey) {
	watched := ""
	if account := o.boundTo(); o.Account != "" && o.accessProblem() == nil && (account == "" || account == o.Account) {
		watched = o.ID
	}
	if s.watched != "" && (s.watched != watched || s.access != access) {
		c.fleets.leave(s.access, s.watched, o.key())
	}
	s.access, s.watched = access, watched
	if watched == "" {
		return
	}
	if snapshot := c.fleets.subscribe(access, watched, o.key()); snapshot != nil {
		o.PolledAt, o.AnsweredAt, o.Instance = snapshot.at, snapshot.answered, snapshot.instance
		if snapshot.trouble() != "" {
			o.PollProblem = problemOf(snapshot.err, o.credentialsFrom())
		}
	}
}
