// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"github.com/glassback/glassback/pkg/must"
)

// asked returns the controller's options for a plain claim, with a change.
func asked(change func(*controller.ProvisionOptions)) controller.ProvisionOptions {
	options := controller.ProvisionOptions{
		StorageClass: &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "standard"}, ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimRetain),
		},
		PVName:           "pvc-1",
		SelectedNodeName: "node",
		PVC: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany, corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
			},
		},
	}
	change(&options)
	return options
}

func nothing(*controller.ProvisionOptions) {}

func TestProvision(t *testing.T) {
	for name, change := range map[string]func(*controller.ProvisionOptions){
		"a class that waits for a Pod":               nothing,
		"a class that does not wait selects no node": func(o *controller.ProvisionOptions) { o.SelectedNodeName = "" },
	} {
		t.Run(name, func(t *testing.T) {
			v := &volumes{directory: t.TempDir(), node: "node"}
			var volume *corev1.PersistentVolume
			for range 2 { // the second is after a crash: the directory is there already
				var state controller.ProvisioningState
				var err error
				volume, state, err = v.Provision(t.Context(), asked(change))
				if err != nil || state != controller.ProvisioningFinished {
					t.Fatalf("state %s, error %v", state, err)
				}
				if want := filepath.Join(v.directory, "pvc-1"); volume.Spec.HostPath.Path != want {
					t.Errorf("path %s, want %s", volume.Spec.HostPath.Path, want)
				}
				checkDirectories(t, v.directory, "pvc-1")
			}
			spec := volume.Spec
			affinity := spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values
			if spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain || len(spec.AccessModes) != 2 ||
				*spec.HostPath.Type != corev1.HostPathDirectory || spec.Capacity.Storage().String() != "1Gi" ||
				!slices.Equal(affinity, []string{"node"}) {
				t.Errorf("volume %+v", volume)
			}
			for range 2 {
				must.Succeed(t, v.Delete(t.Context(), volume))
				checkDirectories(t, v.directory)
			}
		})
	}
}

// checkDirectories checks that there are these directories alone, and open to everybody.
func checkDirectories(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.Succeed(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
		if info, err := e.Info(); err != nil || info.Mode() != os.ModeDir|0o777 {
			t.Errorf("%s has mode %s, error %v", e.Name(), info.Mode(), err)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
}

func TestRefusals(t *testing.T) {
	for want, change := range map[string]func(*controller.ProvisionOptions){
		"volumeMode Block is not possible": func(o *controller.ProvisionOptions) {
			o.PVC.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
		},
		"access modes [ReadOnlyMany] are not possible": func(o *controller.ProvisionOptions) {
			o.PVC.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
		},
		"a data source is not possible": func(o *controller.ProvisionOptions) {
			o.PVC.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "Made", Name: "up"}
		},
		"a selector is not possible": func(o *controller.ProvisionOptions) { o.PVC.Spec.Selector = &metav1.LabelSelector{} },
		"StorageClass standard has parameters": func(o *controller.ProvisionOptions) {
			o.StorageClass.Parameters = map[string]string{"type": "ssd"}
		},
		"StorageClass standard has mount options":  func(o *controller.ProvisionOptions) { o.StorageClass.MountOptions = []string{"ro"} },
		"node other has no volumes, only node has": func(o *controller.ProvisionOptions) { o.SelectedNodeName = "other" },
	} {
		t.Run(want, func(t *testing.T) {
			v := &volumes{directory: t.TempDir(), node: "node"}
			options, wantState := asked(change), controller.ProvisioningFinished
			if options.SelectedNodeName == "other" { // the scheduler can choose again
				wantState = controller.ProvisioningReschedule
			}
			volume, state, err := v.Provision(t.Context(), options)
			if err == nil || !strings.Contains(err.Error(), want) || state != wantState || volume != nil {
				t.Errorf("%v, state %s, error %v", volume, state, err)
			}
			checkDirectories(t, v.directory)
		})
	}
}

func TestProvisionTouchesNothingElse(t *testing.T) {
	const name = "pvc-1"
	for what, prepare := range map[string]func(path, outside string) error{
		"a link to a directory outside": func(path, outside string) error { return os.Symlink(outside, path) },
		"a link to nothing":             func(path, _ string) error { return os.Symlink("nothing", path) },
		"a file":                        func(path, _ string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		t.Run(what, func(t *testing.T) {
			outside := t.TempDir()
			must.Succeed(t, os.Chmod(outside, 0o700))
			v := &volumes{directory: t.TempDir(), node: "node"}
			must.Succeed(t, prepare(filepath.Join(v.directory, name), outside))
			if _, _, err := v.Provision(t.Context(), asked(nothing)); err == nil || !strings.Contains(err.Error(), "is no directory") {
				t.Errorf("error %v, want that it is no directory", err)
			}
			if info, err := os.Lstat(outside); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("the directory outside now has mode %s, error %v", info.Mode(), err)
			}
		})
	}
	v := &volumes{directory: filepath.Join(t.TempDir(), "none"), node: "node"}
	if _, _, err := v.Provision(t.Context(), asked(nothing)); err == nil {
		t.Error("no error without the directory of all volumes")
	}
}

func TestDelete(t *testing.T) {
	for name, test := range map[string]struct {
		path   func(dir, outside string) string
		refuse bool
	}{
		"a volume with content":                   {func(dir, _ string) string { return filepath.Join(dir, "full") }, false},
		"a volume that is gone":                   {func(dir, _ string) string { return filepath.Join(dir, "gone") }, false},
		"a link to outside goes, not its target":  {func(dir, _ string) string { return filepath.Join(dir, "link") }, false},
		"a path to outside":                       {func(_, outside string) string { return filepath.Join(outside, "precious") }, true},
		"a path with .. to outside":               {func(dir, outside string) string { return dir + "/../" + filepath.Base(outside) }, true},
		"a path to the directory of all volumes":  {func(dir, _ string) string { return dir }, true},
		"the same with a slash":                   {func(dir, _ string) string { return dir + "/" }, true},
		"a path to something in a volume":         {func(dir, _ string) string { return dir + "/full/sub" }, true},
		"a path through a link":                   {func(dir, _ string) string { return dir + "/link/precious" }, true},
		"a path to a directory that begins alike": {func(dir, _ string) string { return dir + "2" }, true},
		"a relative path":                         {func(string, string) string { return "full" }, true},
		"no path":                                 {func(string, string) string { return "" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			outside, v := t.TempDir(), &volumes{directory: t.TempDir(), node: "node"}
			precious, full := filepath.Join(outside, "precious"), filepath.Join(v.directory, "full")
			must.Succeed(t, os.WriteFile(precious, nil, 0o600))
			must.Succeed(t, os.MkdirAll(filepath.Join(full, "sub"), 0o700))
			must.Succeed(t, os.Symlink(outside, filepath.Join(full, "sub", "link")))
			must.Succeed(t, os.Symlink(outside, filepath.Join(v.directory, "link")))
			path := test.path(v.directory, outside)
			volume := &corev1.PersistentVolume{}
			volume.Spec.HostPath = &corev1.HostPathVolumeSource{Path: path}
			err := v.Delete(t.Context(), volume)
			if refused := err != nil && strings.Contains(err.Error(), "is not directly below"); refused != test.refuse || !refused && err != nil {
				t.Errorf("error %v", err)
			}
			if _, err := os.Lstat(path); !test.refuse && !os.IsNotExist(err) {
				t.Errorf("%s is still there: %v", path, err)
			}
			kept := []string{precious, v.directory}
			if path != full {
				kept = append(kept, filepath.Join(full, "sub"))
			}
			for _, kept := range kept {
				if _, err := os.Lstat(kept); err != nil {
					t.Errorf("it is gone: %v", err)
				}
			}
		})
	}
	v := &volumes{directory: filepath.Join(t.TempDir(), "none"), node: "node"}
	volume := &corev1.PersistentVolume{}
	if err := v.Delete(t.Context(), volume); err == nil || !strings.Contains(err.Error(), "has no hostPath") {
		t.Errorf("a volume of another kind: error %v", err)
	}
	volume.Spec.HostPath = &corev1.HostPathVolumeSource{Path: filepath.Join(v.directory, "x")}
	if err := v.Delete(t.Context(), volume); err != nil {
		t.Errorf("the directory of all volumes is gone: error %v", err)
	}
}
