// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"os"
	"path/filepath"
	"reflect"
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

type ask = controller.ProvisionOptions

// asked returns the controller's options for a plain claim, with changes.
func asked(change ...func(*ask)) controller.ProvisionOptions {
	options := controller.ProvisionOptions{
		StorageClass: &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "standard"}, ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimDelete),
		},
		PVName:           "pvc-1",
		SelectedNodeName: "node",
		PVC: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
			},
		},
	}
	for _, f := range change {
		f(&options)
	}
	return options
}

func modes(modes ...corev1.PersistentVolumeAccessMode) func(*ask) {
	return func(o *ask) { o.PVC.Spec.AccessModes = modes }
}

func TestProvision(t *testing.T) {
	long := strings.Repeat("a", 253)
	for name, test := range map[string]struct {
		options controller.ProvisionOptions
		want    string // the directory
	}{
		"a claim gets a directory of its name": {asked(), "ns-data-pvc-1"},
		"everybody may write":                  {asked(modes(corev1.ReadWriteMany)), "ns-data-pvc-1"},
		"one Pod may write":                    {asked(modes(corev1.ReadWriteOncePod)), "ns-data-pvc-1"},
		"some write and some read":             {asked(modes(corev1.ReadOnlyMany, corev1.ReadWriteOnce)), "ns-data-pvc-1"},
		"a filesystem, said so": {asked(func(o *ask) {
			o.PVC.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem)
		}), "ns-data-pvc-1"},
		"a class that does not wait selects no node":   {asked(func(o *ask) { o.SelectedNodeName = "" }), "ns-data-pvc-1"},
		"a claim's name with dots":                     {asked(func(o *ask) { o.PVC.Name = "a.b..c" }), "ns-a.b..c-pvc-1"},
		"a claim's name that would be a path":          {asked(func(o *ask) { o.PVC.Name = "../../etc" }), "ns-.._.._etc-pvc-1"},
		"a namespace that would be a path":             {asked(func(o *ask) { o.PVC.Namespace = "/etc" }), "_etc-data-pvc-1"},
		"a volume's name that would be a path":         {asked(func(o *ask) { o.PVName = "/../x\x00Y" }), "ns-data-_.._x__"},
		"a claim's name that is too long for a file":   {asked(func(o *ask) { o.PVC.Name = long }), "ns-" + long[:246] + "-pvc-1"},
		"a volume's name that is as long as names are": {asked(func(o *ask) { o.PVName = long }), "n-" + long},
	} {
		t.Run(name, func(t *testing.T) {
			v := &volumes{directory: t.TempDir(), node: "node"}
			for range 2 { // the second is after a crash: the directory is there already
				volume, state, err := v.Provision(t.Context(), test.options)
				if err != nil || state != controller.ProvisioningFinished {
					t.Fatalf("state %s, error %v", state, err)
				}
				if want := filepath.Join(v.directory, test.want); volume.Spec.HostPath.Path != want {
					t.Errorf("path %s, want %s", volume.Spec.HostPath.Path, want)
				}
				if !reflect.DeepEqual(volume.Spec.AccessModes, test.options.PVC.Spec.AccessModes) {
					t.Errorf("access modes %v, want all that the claim asked for", volume.Spec.AccessModes)
				}
				checkDirectories(t, v.directory, test.want)
			}
			volume, _, err := v.Provision(t.Context(), test.options)
			must.Succeed(t, err)
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
	if !reflect.DeepEqual(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
}

func TestPersistentVolume(t *testing.T) {
	dir := t.TempDir()
	options := asked(func(o *ask) {
		o.StorageClass.ReclaimPolicy = ptr.To(corev1.PersistentVolumeReclaimRetain)
	})
	volume, _, err := (&volumes{directory: dir, node: "node"}).Provision(t.Context(), options)
	must.Succeed(t, err)
	spec := volume.Spec
	kept := spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
	if volume.Name != "pvc-1" || !kept || *spec.HostPath.Type != corev1.HostPathDirectory {
		t.Errorf("volume %+v", volume)
	}
	if got := spec.Capacity[corev1.ResourceStorage]; got.String() != "1Gi" {
		t.Errorf("capacity %s, want 1Gi", got.String())
	}
	terms := spec.NodeAffinity.Required.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchExpressions) != 1 || !reflect.DeepEqual(terms[0].MatchExpressions[0].Values, []string{"node"}) {
		t.Errorf("node affinity %+v, want node", terms)
	}
}

func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*ask)
		want   string
		state  controller.ProvisioningState
	}{
		"a block device": {
			func(o *ask) { o.PVC.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) },
			"volumeMode Block is not possible", controller.ProvisioningFinished,
		},
		"read-only": {modes(corev1.ReadOnlyMany), "access modes [ReadOnlyMany] are not possible", controller.ProvisioningFinished},
		"a copy of another claim": {
			func(o *ask) {
				o.PVC.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "other"}
			},
			"a data source is not possible", controller.ProvisioningFinished,
		},
		"whatever some populator makes": {
			func(o *ask) {
				o.PVC.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "Made", Name: "up"}
			},
			"a data source is not possible", controller.ProvisioningFinished,
		},
		"a volume with labels": {
			func(o *ask) { o.PVC.Spec.Selector = &metav1.LabelSelector{} },
			"a selector is not possible", controller.ProvisioningFinished,
		},
		"a class with parameters": {
			func(o *ask) { o.StorageClass.Parameters = map[string]string{"type": "ssd"} },
			"StorageClass standard has parameters", controller.ProvisioningFinished,
		},
		"a class with mount options": {
			func(o *ask) { o.StorageClass.MountOptions = []string{"ro"} },
			"StorageClass standard has mount options", controller.ProvisioningFinished,
		},
		"a Pod on another node": {
			func(o *ask) { o.SelectedNodeName = "other" },
			"node other has no volumes, only node has", controller.ProvisioningReschedule,
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := &volumes{directory: t.TempDir(), node: "node"}
			volume, state, err := v.Provision(t.Context(), asked(test.change))
			if err == nil || !strings.Contains(err.Error(), test.want) || state != test.state || volume != nil {
				t.Errorf("%v, state %s, error %v, want %s and %s", volume, state, err, test.state, test.want)
			}
			checkDirectories(t, v.directory)
		})
	}
}

func TestProvisionTouchesNothingElse(t *testing.T) {
	const name = "ns-data-pvc-1"
	for what, prepare := range map[string]func(t *testing.T, path, outside string){
		"a link to a directory outside": func(t *testing.T, path, outside string) { must.Succeed(t, os.Symlink(outside, path)) },
		"a link to one beside it": func(t *testing.T, path, _ string) {
			must.Succeed(t, os.Mkdir(path+"-beside", 0o700))
			must.Succeed(t, os.Symlink(name+"-beside", path))
		},
		"a link to nothing": func(t *testing.T, path, _ string) { must.Succeed(t, os.Symlink("nothing", path)) },
		"a file":            func(t *testing.T, path, _ string) { must.Succeed(t, os.WriteFile(path, nil, 0o600)) },
	} {
		t.Run(what, func(t *testing.T) {
			outside := t.TempDir()
			must.Succeed(t, os.Chmod(outside, 0o700))
			v := &volumes{directory: t.TempDir(), node: "node"}
			prepare(t, filepath.Join(v.directory, name), outside)
			if _, _, err := v.Provision(t.Context(), asked()); err == nil || !strings.Contains(err.Error(), "is no directory") {
				t.Errorf("error %v, want that it is no directory", err)
			}
			for _, dir := range []string{outside, filepath.Join(v.directory, name+"-beside")} {
				if info, err := os.Lstat(dir); err == nil && info.Mode().Perm() != 0o700 {
					t.Errorf("%s now has mode %s", dir, info.Mode())
				}
			}
		})
	}
	v := &volumes{directory: filepath.Join(t.TempDir(), "none"), node: "node"}
	if _, _, err := v.Provision(t.Context(), asked()); err == nil {
		t.Error("no error without the directory of all volumes")
	}
}

func TestDelete(t *testing.T) {
	const notBelow = "is not directly below"
	for name, test := range map[string]struct {
		path func(dir, outside string) string
		want string // the error; empty: none
	}{
		"a volume with content":                   {func(dir, _ string) string { return filepath.Join(dir, "full") }, ""},
		"a volume that is gone":                   {func(dir, _ string) string { return filepath.Join(dir, "gone") }, ""},
		"a link to outside goes, not its target":  {func(dir, _ string) string { return filepath.Join(dir, "link") }, ""},
		"a path to outside":                       {func(_, outside string) string { return filepath.Join(outside, "precious") }, notBelow},
		"a path with .. to outside":               {func(dir, outside string) string { return dir + "/../" + filepath.Base(outside) }, notBelow},
		"a path to the directory above":           {func(dir, _ string) string { return dir + "/.." }, notBelow},
		"a path to the directory of all volumes":  {func(dir, _ string) string { return dir }, notBelow},
		"the same with a dot":                     {func(dir, _ string) string { return dir + "/." }, notBelow},
		"the same with a slash":                   {func(dir, _ string) string { return dir + "/" }, notBelow},
		"a path to something in a volume":         {func(dir, _ string) string { return dir + "/full/sub" }, notBelow},
		"a path through a link":                   {func(dir, _ string) string { return dir + "/link/precious" }, notBelow},
		"a path to a directory that begins alike": {func(dir, _ string) string { return dir + "2" }, notBelow},
		"a relative path":                         {func(string, string) string { return "full" }, notBelow},
		"no path":                                 {func(string, string) string { return "" }, notBelow},
		"the root":                                {func(string, string) string { return "/" }, notBelow},
	} {
		t.Run(name, func(t *testing.T) {
			outside, v := t.TempDir(), &volumes{directory: t.TempDir(), node: "node"}
			precious := filepath.Join(outside, "precious")
			must.Succeed(t, os.WriteFile(precious, nil, 0o600))
			must.Succeed(t, os.MkdirAll(filepath.Join(v.directory, "full", "sub"), 0o700))
			must.Succeed(t, os.Symlink(outside, filepath.Join(v.directory, "full", "sub", "link")))
			must.Succeed(t, os.Symlink(outside, filepath.Join(v.directory, "link")))
			path := test.path(v.directory, outside)
			volume := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: path},
			}}}
			err := v.Delete(t.Context(), volume)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if _, err := os.Lstat(path); test.want == "" && !os.IsNotExist(err) {
				t.Errorf("%s is still there: %v", path, err)
			}
			for _, kept := range []string{precious, v.directory, filepath.Join(v.directory, "full", "sub")} {
				if _, err := os.Lstat(kept); err != nil && (test.want != "" || path != filepath.Join(v.directory, "full")) {
					t.Errorf("it is gone: %v", err)
				}
			}
			if _, err := os.Lstat(precious); err != nil {
				t.Errorf("it is gone: %v", err)
			}
		})
	}
}

func TestDeleteWithout(t *testing.T) {
	v := &volumes{directory: filepath.Join(t.TempDir(), "none"), node: "node"}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}}
	if err := v.Delete(t.Context(), volume); err == nil || !strings.Contains(err.Error(), "PersistentVolume pvc-1 has no hostPath") {
		t.Errorf("a volume of another kind: error %v", err)
	}
	volume.Spec.HostPath = &corev1.HostPathVolumeSource{Path: filepath.Join(v.directory, "x")}
	if err := v.Delete(t.Context(), volume); err != nil {
		t.Errorf("the directory of all volumes is gone: error %v", err)
	}
}
