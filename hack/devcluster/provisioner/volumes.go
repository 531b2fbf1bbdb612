// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// volumes are the directories in one directory of a node. No request and no link can make it change files outside of that directory.
type volumes struct {
	directory string // absolute and clean, as the kubelet sees it
	node      string
}

var _ controller.Provisioner = (*volumes)(nil)

// Provision makes the directory of a claim, and returns its PersistentVolume.
func (v *volumes) Provision(
	ctx context.Context, options controller.ProvisionOptions,
) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	claim := options.PVC
	if err := refusal(claim, options.StorageClass); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	if node := options.SelectedNodeName; node != "" && node != v.node {
		// Reschedule makes the scheduler choose another node.
		return nil, controller.ProvisioningReschedule, fmt.Errorf("node %s has no volumes, only %s has", node, v.node)
	}
	if err := v.make(options.PVName); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	volume := v.volume(options)
	klog.FromContext(ctx).Info("Made directory", "claim", klog.KObj(claim), "volume", volume.Name, "path", volume.Spec.HostPath.Path)
	return volume, controller.ProvisioningFinished, nil
}

// refusal returns an error if a claim requests a property that no volume of this provisioner has. Otherwise the claim would get a volume
// other than the requested one.
func refusal(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) error {
	modes := claim.Spec.AccessModes
	switch {
	case ptr.Deref(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) != corev1.PersistentVolumeFilesystem:
		return fmt.Errorf("volumeMode %s is not possible: a volume is a directory", *claim.Spec.VolumeMode)
	case !slices.ContainsFunc(modes, writable):
		return fmt.Errorf("access modes %v are not possible: a volume begins empty, and a read-only one would stay empty", modes)
	case claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil:
		return errors.New("a data source is not possible: a volume begins empty")
	case claim.Spec.Selector != nil:
		return errors.New("a selector is not possible: a new volume has no labels")
	case len(class.Parameters) > 0:
		return fmt.Errorf("StorageClass %s has parameters, but there are none", class.Name)
	case len(class.MountOptions) > 0:
		return fmt.Errorf("StorageClass %s has mount options, which a directory cannot have", class.Name)
	}
	return nil
}

// writable reports whether the mode allows writes. With one node, all such modes are equivalent; the scheduler limits a ReadWriteOncePod
// volume to one Pod at a time.
func writable(mode corev1.PersistentVolumeAccessMode) bool {
	return mode == corev1.ReadWriteOnce || mode == corev1.ReadWriteMany || mode == corev1.ReadWriteOncePod
}

// make makes a directory that every user may write to. It accepts the directory of an earlier try.
func (v *volumes) make(name string) error {
	root, err := os.OpenRoot(v.directory)
	if err != nil {
		return fmt.Errorf("open volumes: %w", err)
	}
	defer func() { _ = root.Close() }() // Closing a directory loses no data.
	if err := root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make volume: %w", err)
	}
	switch info, err := root.Lstat(name); {
	case err != nil:
		return fmt.Errorf("stat volume: %w", err)
	case !info.IsDir(): // This case also rejects a link to a directory.
		return fmt.Errorf("make volume: %s is there already, and is no directory", filepath.Join(v.directory, name))
	}
	// Containers may run as any user, and hostPath volumes have no fsGroup. The umask would limit the mode of Mkdir.
	if err := root.Chmod(name, 0o777); err != nil {
		return fmt.Errorf("open volume to everybody: %w", err)
	}
	return nil
}

func (v *volumes) volume(options controller.ProvisionOptions) *corev1.PersistentVolume {
	claim := options.PVC.Spec
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: ptr.Deref(options.StorageClass.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete),
			AccessModes:                   claim.AccessModes,
			VolumeMode:                    ptr.To(corev1.PersistentVolumeFilesystem),
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Resources.Requests[corev1.ResourceStorage]},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: filepath.Join(v.directory, options.PVName),
				Type: ptr.To(corev1.HostPathDirectory), // A missing directory is an error, not an empty volume.
			}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{v.node}},
				}}},
			}},
		},
	}
}

// Delete removes a volume's directory.
func (v *volumes) Delete(ctx context.Context, volume *corev1.PersistentVolume) error {
	if volume.Spec.HostPath == nil {
		return fmt.Errorf("delete volume: PersistentVolume %s has no hostPath", volume.Name)
	}
	path := volume.Spec.HostPath.Path
	name, err := v.nameOf(path)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(v.directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open volumes: %w", err)
	}
	defer func() { _ = root.Close() }()          // Closing a directory loses no data.
	if err := root.RemoveAll(name); err != nil { // RemoveAll removes a link, not its target
		return fmt.Errorf("delete volume: %w", err)
	}
	klog.FromContext(ctx).Info("Removed directory", "volume", volume.Name, "path", path)
	return nil
}

// nameOf returns the last element of the path of a volume. It checks the path, since users can edit PersistentVolumes.
func (v *volumes) nameOf(path string) (string, error) {
	name := filepath.Base(path)
	if filepath.Join(v.directory, name) != path {
		return "", fmt.Errorf("delete volume: %s is not directly below %s", path, v.directory)
	}
	return name, nil
}
