// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// These cannot be in the package itself: the supervisor imports it for the manifest.
package provisioner_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/hack/devcluster/provisioner"
	"github.com/glassback/glassback/pkg/must"
)

const (
	// testTimeout bounds the test on a cluster, on a slow and busy machine.
	testTimeout = 3 * time.Minute
	// simulatedNode is the name of the cluster's node.
	simulatedNode = "devcluster-1"
)

// world is a cluster with the objects that the supervisor creates, and a provisioner that runs with its own identity.
type world struct {
	kube      kubernetes.Interface
	directory string
}

func TestOnACluster(t *testing.T) {
	w := start(t)
	t.Run("cases", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *world){
			"a claim of the default class lives and dies":           testClaim,
			"a volume may be deleted before its claim":              testVolumeFirst,
			"a kept volume is kept":                                 testRetain,
			"what is refused is told in an event":                   testRefused,
			"a directory that comes in the way is waited for":       testObstacle,
			"an unused claim waits for its first user":              testWait,
			"a node without volumes is given back to the scheduler": testOtherNode,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, w)
			})
		}
	})
}

func start(t *testing.T) *world {
	t.Helper()
	binary, err := cluster.FindBinary()
	if err != nil {
		t.Skipf("SKIPPED, nothing of a real control plane was tested: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	c, err := cluster.Start(ctx, cluster.Config{Binary: binary})
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("stop cluster: %v", err)
		}
	})
	config := c.RESTConfig()
	config.QPS = -1
	w := &world{kube: kubernetes.NewForConfigOrDie(config), directory: filepath.Join(t.TempDir(), "volumes")}
	retain := ptr.To(corev1.PersistentVolumeReclaimRetain)
	objects := manifest(t)
	for _, class := range []*storagev1.StorageClass{
		objects[0].(*storagev1.StorageClass),
		{ObjectMeta: metav1.ObjectMeta{Name: "at-once"}, Provisioner: provisioner.Name},
		{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Provisioner: provisioner.Name, ReclaimPolicy: retain},
	} {
		_, err := w.kube.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{})
		must.Succeed(t, err)
	}
	_, err = w.kube.RbacV1().ClusterRoles().Create(ctx, objects[1].(*rbacv1.ClusterRole), metav1.CreateOptions{})
	must.Succeed(t, err)
	_, err = w.kube.RbacV1().ClusterRoleBindings().Create(ctx, objects[2].(*rbacv1.ClusterRoleBinding), metav1.CreateOptions{})
	must.Succeed(t, err)
	config.Impersonate.UserName = provisioner.User
	w.provision(t, ctx, kubernetes.NewForConfigOrDie(config))
	return w
}

// manifest returns the objects of provisioner.Manifest.
func manifest(t *testing.T) []runtime.Object {
	t.Helper()
	var objects []runtime.Object
	for document := range strings.SplitSeq(provisioner.Manifest, "\n---\n") {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		must.Succeed(t, err)
		objects = append(objects, object)
	}
	return objects
}

// provision runs the provisioner until the test ends, and waits until it says that it is ready.
func (w *world) provision(t *testing.T, ctx context.Context, client kubernetes.Interface) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error)
	go func() {
		ended <- provisioner.Run(ctx, provisioner.Config{Client: client, Directory: w.directory, Node: simulatedNode, Listener: listener})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("provisioner: %v", err)
		}
	})
	eventually(t, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+listener.Addr().String()+"/readyz", nil)
		must.Succeed(t, err)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(response.Body)
			return fmt.Errorf("%s: %s", response.Status, body)
		}
		return nil
	})
}

func eventually(t *testing.T, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (w *world) claim(t *testing.T, name, class string, change ...func(*corev1.PersistentVolumeClaimSpec)) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
		},
	}
	if class != "" {
		claim.Spec.StorageClassName = &class
	}
	for _, f := range change {
		f(&claim.Spec)
	}
	_, err := w.kube.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), claim, metav1.CreateOptions{})
	must.Succeed(t, err)
}

func (w *world) pod(t *testing.T, name, claim string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "busybox", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}}},
		},
	}
	_, err := w.kube.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	must.Succeed(t, err)
}

// bound waits until the claim has its volume, and returns it.
func (w *world) bound(t *testing.T, claim string) *corev1.PersistentVolume {
	t.Helper()
	var volume *corev1.PersistentVolume
	eventually(t, func(ctx context.Context) error {
		c, err := w.kube.CoreV1().PersistentVolumeClaims("default").Get(ctx, claim, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if c.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("claim %s is %s: %s", claim, c.Status.Phase, w.events(ctx, claim))
		}
		volume, err = w.kube.CoreV1().PersistentVolumes().Get(ctx, c.Spec.VolumeName, metav1.GetOptions{})
		return err
	})
	if filepath.Dir(volume.Spec.HostPath.Path) != w.directory {
		t.Errorf("volume %s is at %s, want it below %s", volume.Name, volume.Spec.HostPath.Path, w.directory)
	}
	if info, err := os.Lstat(volume.Spec.HostPath.Path); err != nil || !info.IsDir() {
		t.Errorf("directory of volume %s: %+v, error %v", volume.Name, info, err)
	}
	return volume
}

// gone waits until the volume and its directory are gone.
func (w *world) gone(t *testing.T, volume *corev1.PersistentVolume) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		if left, err := w.kube.CoreV1().PersistentVolumes().Get(ctx, volume.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("volume %s is %s, finalizers %v, error %w", volume.Name, left.Status.Phase, left.Finalizers, err)
		}
		return nil
	})
	if _, err := os.Lstat(volume.Spec.HostPath.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
}

// events returns the events of a claim.
func (w *world) events(ctx context.Context, claim string) string {
	list, err := w.kube.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + claim})
	if err != nil {
		return err.Error()
	}
	var said []string
	for _, e := range list.Items {
		said = append(said, e.Reason+": "+e.Message)
	}
	return strings.Join(said, "; ")
}

func (w *world) deleteClaim(t *testing.T, name string) {
	t.Helper()
	must.Succeed(t, w.kube.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), name, metav1.DeleteOptions{}))
}

func testClaim(t *testing.T, w *world) {
	w.claim(t, "data", "")
	w.pod(t, "data", "data")
	volume := w.bound(t, "data")
	if volume.Spec.StorageClassName != "standard" || !volume.Spec.Capacity.Storage().Equal(resource.MustParse("1Gi")) {
		t.Errorf("volume %+v", volume.Spec)
	}
	must.Succeed(t, os.WriteFile(filepath.Join(volume.Spec.HostPath.Path, "content"), []byte("kept"), 0o600))
	eventually(t, func(ctx context.Context) error {
		pod, err := w.kube.CoreV1().Pods("default").Get(ctx, "data", metav1.GetOptions{})
		if err != nil || pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("Pod is %s, error %w", pod.Status.Phase, err)
		}
		return nil
	})
	w.deleteClaim(t, "data") // which waits for the Pod
	must.Succeed(t, w.kube.CoreV1().Pods("default").Delete(t.Context(), "data", metav1.DeleteOptions{}))
	w.gone(t, volume)
}

func testVolumeFirst(t *testing.T, w *world) {
	w.claim(t, "first", "at-once")
	volume := w.bound(t, "first")
	must.Succeed(t, w.kube.CoreV1().PersistentVolumes().Delete(t.Context(), volume.Name, metav1.DeleteOptions{}))
	w.deleteClaim(t, "first")
	w.gone(t, volume)
}

func testRetain(t *testing.T, w *world) {
	w.claim(t, "kept", "kept")
	volume := w.bound(t, "kept")
	w.deleteClaim(t, "kept")
	eventually(t, func(ctx context.Context) error {
		v, err := w.kube.CoreV1().PersistentVolumes().Get(ctx, volume.Name, metav1.GetOptions{})
		if err != nil || v.Status.Phase != corev1.VolumeReleased {
			return fmt.Errorf("volume is %s, error %w", v.Status.Phase, err)
		}
		return nil
	})
	time.Sleep(time.Second) // in which it could be deleted
	must.Succeed(t, w.kube.CoreV1().PersistentVolumes().Delete(t.Context(), volume.Name, metav1.DeleteOptions{}))
	eventually(t, func(ctx context.Context) error {
		if _, err := w.kube.CoreV1().PersistentVolumes().Get(ctx, volume.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the volume is still there: %w", err)
		}
		return nil
	})
	if _, err := os.Lstat(volume.Spec.HostPath.Path); err != nil {
		t.Errorf("the directory is gone: %v", err)
	}
}

func testRefused(t *testing.T, w *world) {
	for name, test := range map[string]struct {
		change func(*corev1.PersistentVolumeClaimSpec)
		want   string
	}{
		"block": {
			func(s *corev1.PersistentVolumeClaimSpec) { s.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) },
			"ProvisioningFailed: devcluster.glassback.dev/hostpath does not support block volume provisioning",
		},
		"read-only": {
			func(s *corev1.PersistentVolumeClaimSpec) {
				s.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
			},
			"ProvisioningFailed: access modes [ReadOnlyMany] are not possible",
		},
	} {
		w.claim(t, name, "at-once", test.change)
		eventually(t, func(ctx context.Context) error {
			if said := w.events(ctx, name); !strings.Contains(said, test.want) {
				return fmt.Errorf("events say %q, want %q", said, test.want)
			}
			return nil
		})
	}
}

// testObstacle puts a file at the path of a volume's directory for a while.
func testObstacle(t *testing.T, w *world) {
	w.claim(t, "obstacle", "")
	claim, err := w.kube.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "obstacle", metav1.GetOptions{})
	must.Succeed(t, err)
	path := filepath.Join(w.directory, "default-obstacle-pvc-"+string(claim.UID))
	must.Succeed(t, os.WriteFile(path, nil, 0o600))
	w.pod(t, "obstacle", "obstacle")
	eventually(t, func(ctx context.Context) error {
		if said := w.events(ctx, "obstacle"); !strings.Contains(said, "ProvisioningFailed: make volume: ") {
			return fmt.Errorf("events say %q", said)
		}
		return nil
	})
	must.Succeed(t, os.Remove(path))
	w.bound(t, "obstacle")
}

func testWait(t *testing.T, w *world) {
	w.claim(t, "waiting", "")
	time.Sleep(2 * time.Second) // in which it could be bound
	claim, err := w.kube.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "waiting", metav1.GetOptions{})
	must.Succeed(t, err)
	if claim.Status.Phase != corev1.ClaimPending {
		t.Errorf("claim is %s, want Pending", claim.Status.Phase)
	}
}

// testOtherNode does the work of a scheduler that chose a node without volumes.
func testOtherNode(t *testing.T, w *world) {
	const selected = "volume.kubernetes.io/selected-node"
	w.claim(t, "elsewhere", "")
	claims := w.kube.CoreV1().PersistentVolumeClaims("default")
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"other"}}}`, selected)
	_, err := claims.Patch(t.Context(), "elsewhere", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must.Succeed(t, err)
	eventually(t, func(ctx context.Context) error {
		claim, err := claims.Get(ctx, "elsewhere", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if said := w.events(ctx, "elsewhere"); claim.Annotations[selected] != "" || !strings.Contains(said, "node other has no volumes") {
			return fmt.Errorf("node %q is selected, events say %q", claim.Annotations[selected], said)
		}
		return nil
	})
	w.pod(t, "elsewhere", "elsewhere")
	w.bound(t, "elsewhere")
}
