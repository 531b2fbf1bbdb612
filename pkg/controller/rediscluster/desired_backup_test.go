// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	klabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

func inBucket(changes ...func(*v1.S3)) v1.BackupStore {
	s3 := &v1.S3{Endpoint: "https://s3.example.com", Bucket: "redis-backups", CredentialsSecretRef: v1.SecretReference{Name: "s3"}}
	for _, change := range changes {
		change(s3)
	}
	return v1.BackupStore{S3: s3}
}

// TestTheCommandLinesOfJobs compares the arguments of Jobs with testdata/jobs.txt. Package backup tests that its programs accept them.
func TestTheCommandLinesOfJobs(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5}
	settled := have(map[string][]string{"glassback": {accountPassword}, "default": nil}, all...)
	users := []alter{people(aUser("default", "off", "")), reading, settled}
	store := func(store v1.BackupStore) alter {
		return func(o *observed) { o.rdc.Spec.Backup.BackupStore = store }
	}
	var got strings.Builder
	fmt.Fprintf(&got, "# exit codes: %d is wrong usage, and %d ends a Job\n", exitUsage, exitRefused)
	for _, scene := range []struct {
		name string
		seen *observed
		id   string
	}{
		{"a claim", with(six(), due), dueID},
		{"users and TLS", with(six(), append(users, specTLS(v1.TLSPreferred), secured("both", true, all...), due)...), dueID},
		{"S3", with(six(), due, store(inBucket())), dueID},
		{"S3, with all fields", with(six(), due, silenced(1, 0, 1, 2), store(inBucket(func(s *v1.S3) {
			s.Endpoint, s.Prefix, s.Region = "http://[fd00::1]:9000", "production/redis", "eu-central-1"
		}))), dueID},
		{"a password", with(six(), due, func(o *observed) {
			o.rdc.Spec.AuthSecretRef = &v1.SecretKeyReference{Name: "auth", Key: "my.password"}
			for i, m := range o.members {
				m.pod.Spec = pod(o.rdc, i).Spec
			}
		}), dueID},
		{"the choice of the latest", with(six(), restoring), ""},
		{"the restore of the chosen one", with(six(), restoring, chosen), ""},
		{"a restore of one of another namespace", with(six(), restoring, func(o *observed) {
			o.rdc.Spec.RestoreFrom.Namespace, o.rdc.Spec.RestoreFrom.Backup, o.rdc.Spec.RestoreFrom.BackupStore = "shop", dueID, inBucket()
		}), ""},
	} {
		if _, same := scene.seen.access(); !same {
			t.Fatalf("%s: the Pods differ", scene.name)
		}
		j := scene.seen.desiredJob(scene.id)
		got.WriteString("# " + scene.name + "\n" + strings.Join(j.Spec.Template.Spec.Containers[0].Args, " ") + "\n")
		checkJob(t, scene.name, scene.seen, j)
	}
	want, err := os.ReadFile("testdata/jobs.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("the command lines are\n%s\nwant\n%s", got.String(), want)
	}
}

// checkJob checks what is the same for all Jobs: what they mount is what their arguments name, no node's label, and no right.
func checkJob(t *testing.T, name string, o *observed, j *batchv1.Job) {
	t.Helper()
	spec, c := &j.Spec.Template.Spec, &j.Spec.Template.Spec.Containers[0]
	ofPods := j.Spec.Template.Labels
	if klabels.SelectorFromSet(selector(o.rdc)).Matches(klabels.Set(ofPods)) || ofPods[v1.LabelRedisCluster] != "" ||
		ofPods[v1.LabelJob] != "demo" || j.Labels[v1.LabelRedisCluster] != "demo" || !metav1.IsControlledBy(j, o.rdc) {
		t.Errorf("%s: the labels are %v, and %v of its Pods", name, j.Labels, ofPods)
	}
	security := spec.SecurityContext
	if *spec.AutomountServiceAccountToken || spec.ServiceAccountName != "" || !*security.RunAsNonRoot || *security.RunAsUser != userJob ||
		*security.FSGroup != userJob || !*c.SecurityContext.ReadOnlyRootFilesystem || *c.SecurityContext.AllowPrivilegeEscalation ||
		!slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) || security.SeccompProfile == nil {
		t.Errorf("%s: the security contexts are %+v and %+v", name, security, c.SecurityContext)
	}
	if spec.RestartPolicy != corev1.RestartPolicyNever || *j.Spec.BackoffLimit != jobRetries || *j.Spec.ActiveDeadlineSeconds < 3600 {
		t.Errorf("%s: the spec is %+v", name, j.Spec)
	}
	rules := j.Spec.PodFailurePolicy.Rules
	if r := rules[0]; len(rules) != 1 || r.Action != batchv1.PodFailurePolicyActionFailJob || *r.OnExitCodes.ContainerName != c.Name ||
		!slices.Equal(r.OnExitCodes.Values, []int32{exitRefused}) {
		t.Errorf("%s: the rules are %+v", name, rules)
	}
	files := map[string]bool{}
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 {
			t.Errorf("%s: there is no volume %s", name, m.Name)
			continue
		}
		files[m.MountPath] = true
		if secret := spec.Volumes[i].Secret; secret != nil {
			if *secret.DefaultMode != 0o440 || !m.ReadOnly {
				t.Errorf("%s: the Secret %s is mounted with the mode %o", name, secret.SecretName, *secret.DefaultMode)
			}
			for _, item := range secret.Items {
				files[m.MountPath+"/"+item.Path] = true
			}
		}
	}
	for _, arg := range c.Args {
		flag, value, _ := strings.Cut(arg, "=")
		if slices.Contains([]string{"--directory", "--s3-credentials", "--password-file", "--tls-ca"}, flag) && !files[value] {
			t.Errorf("%s: nothing is mounted at %s: %v", name, value, files)
		}
	}
}

// A Job takes from podTemplate what its Pods need to run where the nodes run.
func TestTheJobsOfAPodTemplate(t *testing.T) {
	rdc := defaulted(six().rdc, backedUpHourly, func(rdc *v1.RedisCluster) {
		rdc.Spec.PodTemplate = &v1.PodTemplate{
			NodeSelector: map[string]string{"disk": "fast"}, Tolerations: []corev1.Toleration{{Key: "redis"}},
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}, SecurityContext: &corev1.PodSecurityContext{},
			ServiceAccountName: "powerful", Labels: map[string]string{"team": "shop"},
		}
		rdc.Spec.Backup.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}}
		rdc.Spec.Backup.Retention = ptr.To[int32](3)
	})
	spec := backupJob(rdc, dueID, testImage, access{}).Spec.Template.Spec
	if spec.NodeSelector["disk"] != "fast" || len(spec.Tolerations) != 1 || len(spec.ImagePullSecrets) != 1 ||
		spec.SecurityContext.RunAsUser != nil || spec.ServiceAccountName != "" || spec.Containers[0].Image != testImage ||
		!spec.Containers[0].Resources.Limits.Memory().Equal(resource.MustParse("1Gi")) ||
		!slices.Contains(spec.Containers[0].Args, "--retention=3") {
		t.Errorf("the spec is %+v", spec)
	}
}
