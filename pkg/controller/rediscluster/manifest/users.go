// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"regexp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// AnnotationUser on a Pod has the name of the operator's user, with which its node starts. A Pod that was created without spec.users
// does not have it.
const AnnotationUser = v1.GroupName + "/user"

// asOperator returns a script that logs in as the operator's user. Without spec.users, the script sends the password alone.
func asOperator(rdc *v1.RedisCluster, script string) string {
	if len(rdc.Spec.Users) == 0 {
		return script
	}
	return callOfCLI.ReplaceAllString(script, `$0 --user "$$`+envUser+`"`)
}

var callOfCLI = regexp.MustCompile(`timeout [0-9]+ redis-cli`)

// readyUsers is the end of ready.sh for a node with users. The file of users of a new node has the operator's user, and the user default,
// which is off. After the operator has set all users, the node saves the file, and then gets the mark. If the file has no other user, the
// mark shows whether the users are set.
const readyUsers = `
file=${GLASSBACK_ACL:-/tmp/users.acl}
if ! grep -q '^user default on ' "$file" && [ "$(grep -c '^user ' "$file")" -le 2 ]; then
	ask ACL LIST
	case $reply in *'(~users:'*) ;; *) no 'the operator has not set the users yet.' ;; esac
fi
`

// readyOf returns ready.sh. With users, a node is ready only when the operator has set them.
func readyOf(rdc *v1.RedisCluster) string {
	if len(rdc.Spec.Users) == 0 {
		return readyScript
	}
	return asOperator(rdc, readyScript+readyUsers)
}

// AccountRef returns the Secret with the password of the operator's user.
func AccountRef(rdc *v1.RedisCluster) v1.SecretKeyReference {
	return v1.SecretKeyReference{Name: rdc.Name + "-glassback", Key: corev1.BasicAuthPasswordKey}
}

// passwordRef returns the Secret with the password that the scripts send; nil without one.
func passwordRef(rdc *v1.RedisCluster) *v1.SecretKeyReference {
	if len(rdc.Spec.Users) > 0 {
		return ptr.To(AccountRef(rdc))
	}
	return rdc.Spec.AuthSecretRef
}

// Account returns the Secret with the password of the operator's user. It is immutable: the nodes depend on it.
func Account(rdc *v1.RedisCluster, password string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: AccountRef(rdc).Name, Namespace: rdc.Namespace, Labels: labels(rdc),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rdc, Kind)},
		},
		Immutable: ptr.To(true),
		Type:      corev1.SecretTypeBasicAuth,
		Data: map[string][]byte{
			corev1.BasicAuthUsernameKey: []byte(v1.UserOperator), corev1.BasicAuthPasswordKey: []byte(password),
		},
	}
}

// HasAccount returns whether the node of a Pod starts with the operator's user.
func HasAccount(pod *corev1.Pod) bool {
	return pod != nil && pod.Annotations[AnnotationUser] != ""
}

// PasswordRefOf returns the Secret whose password the scripts of a Pod send; nil without one.
func PasswordRefOf(pod *corev1.Pod) *v1.SecretKeyReference {
	for _, volume := range pod.Spec.Volumes {
		if volume.Name == VolumeAuth && volume.Secret != nil && len(volume.Secret.Items) == 1 {
			return &v1.SecretKeyReference{Name: volume.Secret.SecretName, Key: volume.Secret.Items[0].Key}
		}
	}
	return nil
}

// LoginTo returns how the operator logs in to the node of a Pod: the user ("" for the default one), and the Secret with the password (nil
// if there is none).
func LoginTo(pod *corev1.Pod) (string, *v1.SecretKeyReference) {
	if HasAccount(pod) {
		return v1.UserOperator, PasswordRefOf(pod)
	}
	return "", PasswordRefOf(pod)
}

// everything are the rules of a user that may do all. AlmostEverything are those of the user default while it is open. The user default
// may then replicate, and make a replica take over from a Pod that ends (stop.sh). It may not read the operator's password (masterauth),
// change users, or make the node log in elsewhere.
const (
	Everything       = "~* &* +@all"
	AlmostEverything = "~* &* +@all -@admin +psync +replconf +cluster|failover"
)

// MarkRule is a selector that allows nothing.
func MarkRule(mark string) string { return "(~users:" + mark + ")" }
