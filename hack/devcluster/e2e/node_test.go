// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/webhook"
	"github.com/glassback/glassback/pkg/webhook/certificate"
)

const (
	// patience limits one step of a Pod, while other Pods start and end on the same machine.
	patience = 5 * time.Minute
	// page is a part of nginx' default page.
	page = "Welcome to nginx!"
)

// date matches the output of date.
var date = regexp.MustCompile(`[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d UTC 20\d\d`)

// TestNodeRunsJobs runs a Job, and reads its log.
func TestNodeRunsJobs(t *testing.T) {
	light.parallel(t)
	n := onNode(t)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "hello"}, Spec: batchv1.JobSpec{
		Template: corev1.PodTemplateSpec{Spec: shell("busybox", "date; echo hello")},
	}}
	_, err := n.kube.BatchV1().Jobs(n.ns).Create(t.Context(), job, metav1.CreateOptions{})
	n.must(t, err)
	var log string
	eventually(t, patience, func(ctx context.Context) error {
		job, err := n.kube.BatchV1().Jobs(n.ns).Get(ctx, "hello", metav1.GetOptions{})
		if err != nil || job.Status.Succeeded != 1 {
			return fmt.Errorf("Job: %+v, %w", job.Status, err)
		}
		log, err = n.logOfJob(ctx, "hello")
		return err
	})
	if !date.MatchString(log) || !strings.HasSuffix(log, "\nhello\n") {
		t.Errorf("the log of the Job is %q, want the date and hello", log)
	}
}

// TestNodeLogsAndExec reads a Pod's log with kubectl, and runs commands in it.
func TestNodeLogsAndExec(t *testing.T) {
	light.parallel(t)
	n := onNode(t)
	n.createPod(t, "sleeper", shell("busybox", "echo up; exec sleep 3600"))
	n.running(t, "sleeper")
	if out, err := n.kubectl(t, "logs", "--namespace", n.ns, "sleeper"); err != nil || out != "up\n" {
		t.Errorf("kubectl logs: %q, %v", out, err)
	}
	run := func(script string) (string, error) {
		return n.kubectl(t, "exec", "--namespace", n.ns, "sleeper", "--", "/bin/sh", "-c", script)
	}
	if out, err := run("echo $HOSTNAME"); err != nil || out != "sleeper\n" {
		t.Errorf("kubectl exec: %q, %v", out, err)
	}
	out, err := run("exit 3")
	if failed, ok := errors.AsType[*exec.ExitError](err); !ok || failed.ExitCode() != 3 {
		t.Errorf("kubectl exec of a command that exits with 3: %q, %v", out, err)
	}
}

// TestNodeServes fetches a page by the names of a Service, and from a port of the node.
func TestNodeServes(t *testing.T) {
	light.parallel(t)
	n := onNode(t)
	labels := map[string]string{"app": "web"}
	_, err := n.kube.AppsV1().Deployments(n.ns).Create(t.Context(), deployment("web", corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "nginx", Image: "nginx", Ports: []corev1.ContainerPort{{ContainerPort: 80}},
			ReadinessProbe: &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80)}},
				PeriodSeconds: 1,
			},
		}},
	}), metav1.CreateOptions{})
	n.must(t, err)
	service, err := n.kube.CoreV1().Services(n.ns).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	n.must(t, err)
	n.available(t, "web")
	n.fetch(t, "by-name", "http://web", page)
	n.fetch(t, "by-full-name", "http://web."+n.ns+".svc.cluster.local/", page)
	spec := fetching(fmt.Sprintf("http://$NODE:%d", service.Spec.Ports[0].NodePort))
	spec.HostNetwork = true
	spec.Containers[0].Env = []corev1.EnvVar{{Name: "NODE", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.hostIP"},
	}}}
	n.createPod(t, "by-node-port", spec)
	if got := n.outcome(t, "by-node-port"); !strings.Contains(got, page) {
		t.Errorf("port %d of the node has served %q", service.Spec.Ports[0].NodePort, got)
	}
}

// TestNodeKeepsVolumes writes to a claim of the default StorageClass as one user. Another Pod reads from it as another user.
func TestNodeKeepsVolumes(t *testing.T) {
	light.parallel(t)
	n := onNode(t)
	claims := n.kube.CoreV1().PersistentVolumeClaims(n.ns)
	_, err := claims.Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("10Mi")}},
		},
	}, metav1.CreateOptions{})
	n.must(t, err)
	for _, use := range []struct {
		pod, script, want string
		user              int64
	}{
		{"writer", "echo kept > /data/file && echo written", "written\n", 1000},
		{"reader", "cat /data/file", "kept\n", 2000},
	} {
		spec := shell("busybox", use.script)
		spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &use.user}
		spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
		n.createPod(t, use.pod, spec)
		if got := n.outcome(t, use.pod); got != use.want {
			t.Errorf("%s printed %q, want %q", use.pod, got, use.want)
		}
		n.deletePod(t, use.pod)
	}
	claim, err := claims.Get(t.Context(), "data", metav1.GetOptions{})
	n.must(t, err)
	if claim.Status.Phase != corev1.ClaimBound {
		t.Errorf("the claim is %s, want Bound", claim.Status.Phase)
	}
	volumes := n.kube.CoreV1().PersistentVolumes()
	volume, err := volumes.Get(t.Context(), claim.Spec.VolumeName, metav1.GetOptions{})
	n.must(t, err)
	n.must(t, claims.Delete(t.Context(), "data", metav1.DeleteOptions{}))
	eventually(t, patience, func(ctx context.Context) error {
		if left, err := volumes.Get(ctx, volume.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("volume %s still exists in phase %s, %w", volume.Name, left.Status.Phase, err)
		}
		return nil
	})
	if _, err := os.Lstat(volume.Spec.HostPath.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the volume's directory still exists: %v", err)
	}
}

// TestNodeRunsMyCronJobs reads the log of a Job of the seed's MyCronJob.
func TestNodeRunsMyCronJobs(t *testing.T) {
	light.parallel(t)
	n := onNode(t)
	n.operate(t, "--controllers=mycronjob")
	n.runsSeed(t)
}

// runsSeed waits until a Job of the seed's MyCronJob has run, and reads its log.
func (n *node) runsSeed(t *testing.T) {
	t.Helper()
	m := example(t, "mycronjob.yaml")
	_, err := n.glassback.BatchV1().MyCronJobs(n.ns).Create(t.Context(), m, metav1.CreateOptions{})
	n.must(t, err)
	eventually(t, patience, func(ctx context.Context) error {
		jobs, err := n.jobsOf(ctx, n.ns, m.Name)
		if err != nil {
			return err
		}
		for _, job := range slices.Backward(jobs) { // The latest Job comes first: the operator deletes it last.
			if job.Status.Succeeded == 0 {
				continue
			}
			log, err := n.logOfJob(ctx, job.Name)
			// If the operator has deleted the Job, a later one will do.
			if err != nil || !date.MatchString(log) || !strings.Contains(log, "Hello from the Kubernetes cluster\n") {
				return fmt.Errorf("the log of Job %s is %q, want the date and Hello from the Kubernetes cluster (%w)", job.Name, log, err)
			}
			return nil
		}
		return fmt.Errorf("none of %d Jobs has succeeded", len(jobs))
	})
	eventually(t, patience, func(ctx context.Context) error {
		m, err := n.get(ctx, n.ns, m.Name)
		if err != nil || m.Status.LastSuccessfulTime == nil {
			return fmt.Errorf("MyCronJob: %+v, %w", m.Status, err)
		}
		return nil
	})
	n.must(t, n.glassback.BatchV1().MyCronJobs(n.ns).Delete(t.Context(), m.Name, metav1.DeleteOptions{}))
}

// TestNodeRunsApplications creates the seed's Application, and fetches its page.
func TestNodeRunsApplications(t *testing.T) {
	light.parallel(t)
	n := onNode(t)
	n.operate(t, "--controllers=application")
	data, err := os.ReadFile("../../../artifacts/examples/application.yaml")
	n.must(t, err)
	app := &appv1.Application{}
	n.must(t, yaml.UnmarshalStrict(data, app))
	_, err = n.glassback.AppV1().Applications(n.ns).Create(t.Context(), app, metav1.CreateOptions{})
	n.must(t, err)
	n.ready(t, n.ns, app.Name)
	n.wantKinds(t, 10*time.Second, n.ns, app.Name, "Deployment", "Ingress", "Service")
	if d := n.deployment(t, n.ns, app.Name); d.Status.AvailableReplicas != 1 {
		t.Errorf("the Application is Ready with %d available Pods, want 1", d.Status.AvailableReplicas)
	}
	n.fetch(t, "client", "http://"+app.Name+":8080", page)
}

// TestNodeRestartsAHungContainer runs a container that is alive for a while, and then hangs.
func TestNodeRestartsAHungContainer(t *testing.T) {
	light.parallel(t)
	n := onNode(t)
	spec := shell("busybox", "echo begun; touch /tmp/alive; sleep 2; rm /tmp/alive; exec sleep 3600")
	spec.RestartPolicy = corev1.RestartPolicyAlways
	spec.Containers[0].LivenessProbe = &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"cat", "/tmp/alive"}}},
		InitialDelaySeconds: 1, PeriodSeconds: 1, FailureThreshold: 2,
	}
	n.createPod(t, "hanging", spec)
	eventually(t, patience, func(ctx context.Context) error {
		pod, err := n.kube.CoreV1().Pods(n.ns).Get(ctx, "hanging", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range pod.Status.ContainerStatuses {
			if c.RestartCount > 0 && c.LastTerminationState.Terminated != nil {
				return nil
			}
		}
		return fmt.Errorf("Pod: %+v", pod.Status.ContainerStatuses)
	})
	log, err := n.kube.CoreV1().Pods(n.ns).GetLogs("hanging", &corev1.PodLogOptions{Previous: true}).DoRaw(t.Context())
	if err != nil || string(log) != "begun\n" {
		t.Errorf("log of the container that was killed: %q, %v", log, err)
	}
	eventually(t, patience, func(ctx context.Context) error { // The kubelet sends events in the background.
		events, err := n.kube.CoreV1().Events(n.ns).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=hanging,reason=Unhealthy"})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if strings.Contains(event.Message, "Liveness probe failed") {
				return nil
			}
		}
		return fmt.Errorf("no event says that the probe failed: %+v", events.Items)
	})
}

// TestNodeRunsTheOperator runs two replicas of the operator in Pods with its own image. They have no kubeconfig, the shipped permissions,
// and webhooks behind the shipped Service.
func TestNodeRunsTheOperator(t *testing.T) {
	heavy.parallel(t)
	n := onNode(t)
	n.installShipped(t, 2, nil, "-v=2")
	n.runsSeed(t)
	n.trusted(t)
	n.called(t, n.ns)
	testAddr(t, n.world, n.ns)
	testSize(t, n.world, n.ns)
	n.neverRestarted(t)
	n.rollsOut(t)
	n.losesCA(t)
	n.spoilsCA(t)
	n.neverRestarted(t)
}

// installShipped runs replicas of the operator in Pods, for the test's namespace only, and waits until they serve webhooks.
func (n *node) installShipped(t *testing.T, replicas int32, env []corev1.EnvVar, args ...string) {
	t.Helper()
	archive := filepath.Join(filepath.Dir(binary(t)), "glassback.tar")
	if _, err := os.Stat(archive); err != nil {
		t.Fatalf("find bin/glassback.tar, run make image first: %v", err)
	}
	images, err := n.Load(t.Context(), archive)
	if err != nil || len(images) == 0 {
		t.Fatalf("load %s: %v, %v", archive, images, err)
	}
	n.operate(t).stop() // This operator installs the CRDs: the Pods have no permission for that.
	n.grantShipped(t, "glassback")
	service := n.registerShipped(t)
	d := deployment("glassback", corev1.PodSpec{
		ServiceAccountName: "glassback",
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: "glassback", Image: images[0], ImagePullPolicy: corev1.PullIfNotPresent, Env: env,
			Args: append([]string{"--namespace", n.ns}, args...), // Other tests have operators for their own namespaces.
			ReadinessProbe: &corev1.Probe{ // The Service leads only to ready Pods.
				ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(9443)}},
				PeriodSeconds: 1,
			},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	})
	d.Spec.Replicas = &replicas
	maps.Copy(d.Spec.Template.Labels, service.Spec.Selector)
	_, err = n.kube.AppsV1().Deployments(n.ns).Create(t.Context(), d, metav1.CreateOptions{})
	n.must(t, err)
	n.available(t, "glassback")
}

// neverRestarted fails the test if a container of the operator was restarted.
func (n *node) neverRestarted(t *testing.T) {
	t.Helper()
	pods, err := n.kube.CoreV1().Pods(n.ns).List(t.Context(), metav1.ListOptions{LabelSelector: "app=glassback"})
	n.must(t, err)
	for _, pod := range pods.Items {
		for _, c := range pod.Status.ContainerStatuses {
			if c.RestartCount > 0 {
				t.Errorf("the operator was restarted: %+v", c.LastTerminationState)
			}
		}
	}
}

// grantShipped creates a ServiceAccount with the shipped roles. The ClusterRole and its binding belong to no namespace: they are deleted
// when the test ends.
func (n *node) grantShipped(t *testing.T, account string) {
	t.Helper()
	_, err := n.kube.CoreV1().ServiceAccounts(n.ns).Create(t.Context(), serviceAccount(account), metav1.CreateOptions{})
	n.must(t, err)
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: n.ns}}
	rbac := n.kube.RbacV1()
	own := artifact[rbacv1.Role](t, "rbac/webhook_role.yaml")
	own.Namespace = ""
	_, err = rbac.Roles(n.ns).Create(t.Context(), own, metav1.CreateOptions{})
	n.must(t, err)
	_, err = rbac.RoleBindings(n.ns).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: own.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: own.Name},
		Subjects:   subjects,
	}, metav1.CreateOptions{})
	n.must(t, err)
	role := n.shippedRole(t)
	role.Name += "-" + n.ns // Other tests use other names.
	_, err = rbac.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	n.must(t, err)
	_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   subjects,
	}, metav1.CreateOptions{})
	n.must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		bindingErr := rbac.ClusterRoleBindings().Delete(ctx, role.Name, metav1.DeleteOptions{})
		roleErr := rbac.ClusterRoles().Delete(ctx, role.Name, metav1.DeleteOptions{})
		if err := errors.Join(bindingErr, roleErr); err != nil {
			t.Error(err)
		}
	})
}

// registerShipped creates the shipped Service and webhook configurations, and returns the Service. The configurations belong to no
// namespace and need their fixed name. They apply to the test's namespace only, and are deleted when the test ends.
func (n *node) registerShipped(t *testing.T) *corev1.Service {
	t.Helper()
	service := artifact[corev1.Service](t, "webhook/service.yaml")
	service.Namespace = ""
	service, err := n.kube.CoreV1().Services(n.ns).Create(t.Context(), service, metav1.CreateOptions{})
	n.must(t, err)
	c := configurations{
		artifact[admissionregistrationv1.MutatingWebhookConfiguration](t, "webhook/mutating.yaml"),
		artifact[admissionregistrationv1.ValidatingWebhookConfiguration](t, "webhook/validating.yaml"),
	}
	here := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: n.ns}}
	for i := range c.mutating.Webhooks {
		w := &c.mutating.Webhooks[i]
		w.ClientConfig.Service.Namespace, w.NamespaceSelector = n.ns, here
	}
	for i := range c.validating.Webhooks {
		w := &c.validating.Webhooks[i]
		w.ClientConfig.Service.Namespace, w.NamespaceSelector = n.ns, here
	}
	t.Cleanup(func() { n.unregister(t, webhook.ConfigurationName) })
	n.must(t, n.register(t.Context(), c))
	return service
}

// artifact reads a file of artifacts with one object.
func artifact[T any](t *testing.T, file string) *T {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../../artifacts", file))
	must.Succeed(t, err)
	object := new(T)
	must.Succeed(t, yaml.UnmarshalStrict(data, object))
	return object
}

// trusted waits until every webhook has the caBundle of the Secret, and returns the Secret.
func (n *node) trusted(t *testing.T) *corev1.Secret {
	t.Helper()
	var secret *corev1.Secret
	eventually(t, patience, func(ctx context.Context) (err error) {
		if secret, err = n.kube.CoreV1().Secrets(n.ns).Get(ctx, certificate.SecretName, metav1.GetOptions{}); err != nil {
			return err
		}
		c, err := n.getConfigurations(ctx, webhook.ConfigurationName)
		if err != nil {
			return err
		}
		for _, bundle := range c.bundles() {
			if len(bundle) == 0 || !bytes.Equal(bundle, secret.Data["ca.crt"]) {
				return fmt.Errorf("a caBundle is\n%sbut the Secret has\n%s", bundle, secret.Data["ca.crt"])
			}
		}
		return nil
	})
	return secret
}

// rollsOut replaces the operator's Pods one after the other during requests. No request may fail.
func (n *node) rollsOut(t *testing.T) {
	t.Helper()
	answers := n.ask(t, n.ns, 2)
	begun := time.Now()
	if out, err := n.kubectl(t, "rollout", "restart", "deployment/glassback", "--namespace", n.ns); err != nil {
		t.Fatal(out)
	}
	if out, err := n.kubectl(t, "rollout", "status", "deployment/glassback", "--namespace", n.ns, "--timeout", patience.String()); err != nil {
		t.Fatal(out)
	}
	eventually(t, patience, func(ctx context.Context) error {
		pods, err := n.kube.CoreV1().Pods(n.ns).List(ctx, metav1.ListOptions{LabelSelector: "app=glassback"})
		if err != nil || len(pods.Items) != 2 {
			return fmt.Errorf("the operator has %d Pods, %w", len(pods.Items), err)
		}
		return nil
	})
	got := answers.end()
	t.Logf("%d requests during a rollout of %s: %v", got.asked, time.Since(begun).Round(time.Millisecond), got.sizes)
	got.check(t)
	if got.sizes[3] > 0 || got.sizes[6] == 0 {
		t.Errorf("sizes of 3 are stored as %v, want 6", got.sizes)
	}
}

// losesCA deletes the Secret of the CA during requests.
func (n *node) losesCA(t *testing.T) {
	t.Helper()
	before := n.trusted(t)
	answers := n.ask(t, n.ns, 2)
	n.must(t, n.kube.CoreV1().Secrets(n.ns).Delete(t.Context(), before.Name, metav1.DeleteOptions{}))
	after := n.trusted(t)
	answers.more(t, 200)
	got := answers.end()
	t.Logf("%d requests after the CA was lost: %v", got.asked, got.sizes)
	got.check(t)
	if after.UID == before.UID || bytes.Equal(after.Data["tls.crt"], before.Data["tls.crt"]) {
		t.Error("the Secret has the old CA")
	}
	if !bytes.Contains(after.Data["ca.crt"], before.Data["tls.crt"]) {
		t.Error("the caBundle lacks the old CA, but the old CA has signed all present leaves")
	}
}

// shell is a Pod that runs a shell script once. Its grace period is short: the script is process 1 of its container, which ignores SIGTERM.
func shell(image, script string) corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: ptr.To[int64](1),
		Containers:                    []corev1.Container{{Name: "shell", Image: image, Command: []string{"/bin/sh", "-c", script}}},
	}
}

// fetching is a Pod that fetches a page. It retries for a while, since a Service leads to a Pod only some time after the Pod is ready.
func fetching(url string) corev1.PodSpec {
	// The script does not use wget -T, which crashes in Debian's busybox.
	return shell("busybox", fmt.Sprintf(`for i in $(seq 30); do wget -q -O- "%s" && exit; sleep 1; done; exit 1`, url))
}

func deployment(name string, spec corev1.PodSpec) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
	}}
}

func (n *node) createPod(t *testing.T, name string, spec corev1.PodSpec) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	_, err := n.kube.CoreV1().Pods(n.ns).Create(t.Context(), pod, metav1.CreateOptions{})
	n.must(t, err)
}

// deletePod deletes a Pod, and waits until the Pod no longer exists.
func (n *node) deletePod(t *testing.T, name string) {
	t.Helper()
	n.must(t, n.kube.CoreV1().Pods(n.ns).Delete(t.Context(), name, metav1.DeleteOptions{}))
	eventually(t, patience, func(ctx context.Context) error {
		if _, err := n.kube.CoreV1().Pods(n.ns).Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("Pod %s still exists: %w", name, err)
		}
		return nil
	})
}

// running waits until a Pod's containers run.
func (n *node) running(t *testing.T, name string) {
	t.Helper()
	eventually(t, patience, func(ctx context.Context) error {
		pod, err := n.kube.CoreV1().Pods(n.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil || pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("Pod %s: %+v, %w", name, pod.Status, err)
		}
		return nil
	})
}

// outcome waits until a Pod has succeeded, and returns its log.
func (n *node) outcome(t *testing.T, name string) string {
	t.Helper()
	var phase corev1.PodPhase
	eventually(t, patience, func(ctx context.Context) error {
		pod, err := n.kube.CoreV1().Pods(n.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if phase = pod.Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			return fmt.Errorf("Pod %s: %+v", name, pod.Status)
		}
		return nil
	})
	log, err := n.logOf(t.Context(), name)
	if err != nil || phase != corev1.PodSucceeded {
		t.Fatalf("Pod %s has the phase %s: log %q, error %v", name, phase, log, err)
	}
	return log
}

// fetch fetches a page from a new Pod.
func (n *node) fetch(t *testing.T, pod, url, want string) {
	t.Helper()
	n.createPod(t, pod, fetching(url))
	if got := n.outcome(t, pod); !strings.Contains(got, want) {
		t.Errorf("%s served %q, want %s", url, got, want)
	}
}

// available waits until all Pods of a Deployment are available.
func (n *node) available(t *testing.T, name string) {
	t.Helper()
	eventually(t, patience, func(ctx context.Context) error {
		d, err := n.kube.AppsV1().Deployments(n.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil || d.Status.AvailableReplicas != *d.Spec.Replicas {
			return fmt.Errorf("Deployment %s: %+v, %w", name, d.Status, err)
		}
		return nil
	})
}

func (n *node) logOf(ctx context.Context, pod string) (string, error) {
	data, err := n.kube.CoreV1().Pods(n.ns).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(ctx)
	return string(data), err
}

// logOfJob returns the log of a Job's Pod.
func (n *node) logOfJob(ctx context.Context, job string) (string, error) {
	pods, err := n.kube.CoreV1().Pods(n.ns).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job})
	if err != nil || len(pods.Items) == 0 {
		return "", errors.Join(err, fmt.Errorf("Job %s has %d Pods", job, len(pods.Items)))
	}
	return n.logOf(ctx, pods.Items[0].Name)
}
