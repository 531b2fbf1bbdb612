// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// Name is what a StorageClass has in its field provisioner to have its volumes from here.
	Name = "devcluster.glassback.dev/hostpath"
	// User is the provisioner's identity, and the name of its ClusterRole.
	User = "devcluster:provisioner"
)

// StorageClass returns the cluster's default StorageClass. Its volumes wait for the first Pod that uses them, as those of most clusters do.
func StorageClass() *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "standard",
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner:          Name,
		ReclaimPolicy:        ptr.To(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode:    ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		AllowVolumeExpansion: ptr.To(false),
	}
}

// Role returns what the provisioner does, and nothing more.
func Role() *rbacv1.ClusterRole {
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: User},
		Rules: []rbacv1.PolicyRule{
			rule("", "persistentvolumes", "create", "delete", "list", "patch", "watch"), // patch: the finalizer
			rule("", "persistentvolumeclaims", "list", "update", "watch"),               // update: back to the scheduler
			rule(storagev1.GroupName, "storageclasses", "list", "watch"),
			rule("", "events", "create", "patch"),
		},
	}
}

// Binding returns what gives the Role to the User.
func Binding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: User},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: User},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: User}},
	}
}
