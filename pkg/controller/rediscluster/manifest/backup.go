// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

const (
	// ContainerJob is the container of the Pod of a Job.
	ContainerJob = "backup"
	// UserJob is the ID of the user nonroot of the operator's image, and of its group.
	UserJob = 65532

	// AnnotationTemplate is the annotation of a Job with a hash of its Pod's spec, without the addresses of the nodes.
	AnnotationTemplate = v1.GroupName + "/template-hash"

	// SuffixBackup is in the name of a Job between that of the RedisCluster and the ID of the backup.
	SuffixBackup  = "-backup-"
	suffixRestore = "-restore"
	suffixChoice  = suffixRestore + "-" + v1.LatestBackup
	// layoutID is the time layout of the ID of a backup, in UTC.
	layoutID = "20060102T150405Z"

	dirBackups     = "/backups"
	dirCredentials = "/etc/glassback-s3"
	dirAuthority   = "/etc/glassback-ca"

	// JobRetries is how often a Job retries: a try fails if slots move meanwhile.
	JobRetries = 2
	// ExitRefused is the exit code after which a Job does not retry: S3 refused the access, and would refuse it again.
	ExitRefused = 3
	// ExitUsage is the exit code of a wrong command line, and also of Go for a panic.
	ExitUsage = 2
	// backupDeadline and restoreDeadline limit the total time of a Job: all of its retries, and the time until its Pods start.
	backupDeadline  = 6 * time.Hour
	restoreDeadline = 24 * time.Hour
	// MaxAddresses limits the addresses of Pods that a Job gets, besides the name of the Service. One that answers is enough.
	MaxAddresses = 3
)

// BackupID returns the ID of the backup that is scheduled for this time.
func BackupID(at time.Time) string { return at.UTC().Format(layoutID) }

// TimeOfBackup returns the scheduled time that is in the ID of a backup. It returns false if id is not the ID of a backup.
func TimeOfBackup(id string) (time.Time, bool) {
	at, err := time.Parse(layoutID, id)
	return at, err == nil
}

// BackupName returns the name of the Job with this ID. Kubernetes puts the name of a Job into a label of its Pods. If a
// name would be too long for a label, a hash replaces the end of the cluster's name.
func BackupName(rdc *v1.RedisCluster, id string) string {
	return JobName(rdc.Name, SuffixBackup+strings.ToLower(id))
}

// RestoreName returns the name of the Job that restores a backup.
func RestoreName(rdc *v1.RedisCluster) string { return JobName(rdc.Name, suffixRestore) }

// ChoiceName returns the name of the Job that chooses the newest backup.
func ChoiceName(rdc *v1.RedisCluster) string { return JobName(rdc.Name, suffixChoice) }

// JobName returns the name of a Job with this suffix.
func JobName(cluster, suffix string) string {
	if len(cluster)+len(suffix) <= validation.LabelValueMaxLength {
		return cluster + suffix
	}
	sum := sha256.Sum256([]byte(cluster))
	hash := hex.EncodeToString(sum[:])[:8]
	return cluster[:validation.LabelValueMaxLength-len(suffix)-len(hash)-1] + "-" + hash + suffix
}

// BackupOf returns the ID of the backup that the Job with this name makes. It returns "" for the Job that restores, LatestBackup for the
// Job that chooses the newest backup, and false for any other name.
func BackupOf(rdc *v1.RedisCluster, name string) (string, bool) {
	switch name {
	case RestoreName(rdc):
		return "", true
	case ChoiceName(rdc):
		return v1.LatestBackup, true
	}
	id := strings.ToUpper(name[strings.LastIndexByte(name, '-')+1:])
	_, ok := TimeOfBackup(id)
	return id, ok && name == BackupName(rdc, id)
}

// Access is how a Job reaches the nodes.
type Access struct {
	Addresses []string
	User      string                 // "" for the default one
	Password  *v1.SecretKeyReference // nil without one
	Authority string                 // the Secret with the CA; "" without TLS
}

// BackupJob returns the Job that makes a backup.
func BackupJob(rdc *v1.RedisCluster, id, image string, a Access) *batchv1.Job {
	spec := rdc.Spec.Backup
	args := []string{
		"backup", "--cluster=" + rdc.Namespace + "/" + rdc.Name, "--id=" + id, "--retention=" + strconv.Itoa(int(*spec.Retention)),
		"--owner=" + string(rdc.UID), // If two clusters have one name and one store, neither deletes the backups of the other.
	}
	return newJob(rdc, BackupName(rdc, id), image, args, a, &spec.BackupStore, &spec.BackupJob, backupDeadline)
}

// RestoreJob returns the Job that restores the backup with this ID. For LatestBackup, it returns the Job that only chooses a backup: the
// newest one.
func RestoreJob(rdc *v1.RedisCluster, id, image string, a Access) *batchv1.Job {
	spec, name := rdc.Spec.RestoreFrom, RestoreName(rdc)
	from := cmp.Or(spec.Namespace, rdc.Namespace) + "/" + cmp.Or(spec.Name, rdc.Name)
	args := []string{"restore", "--cluster=" + from, "--id=" + id}
	if id == v1.LatestBackup {
		name, args = ChoiceName(rdc), append(args, "--choose")
	}
	job := newJob(rdc, name, image, args, a, &spec.BackupStore, &spec.BackupJob, restoreDeadline)
	if claim := spec.PersistentVolumeClaim; claim != nil {
		job.Spec.Template.Spec.Containers[0].VolumeMounts[0].ReadOnly = true
	}
	return job
}

// newJob returns a Job that runs the operator's program with args, and with flags for the nodes and the store. Its Pods do not have
// LabelRedisCluster, so that no selector takes them for Redis nodes, and they have no token of a ServiceAccount.
func newJob(rdc *v1.RedisCluster, name, image string, args []string, a Access, store *v1.BackupStore,
	settings *v1.BackupJob, deadline time.Duration,
) *batchv1.Job {
	labelled := func(own string) map[string]string {
		return map[string]string{"app.kubernetes.io/instance": rdc.Name, "app.kubernetes.io/managed-by": glassback.Name, own: rdc.Name}
	}
	pod := corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: ContainerJob, Image: image, ImagePullPolicy: cmp.Or(settings.ImagePullPolicy, corev1.PullIfNotPresent), Args: args,
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false),
				ReadOnlyRootFilesystem:   ptr.To(true),
				Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
		RestartPolicy:                corev1.RestartPolicyNever,
		AutomountServiceAccountToken: ptr.To(false),
		EnableServiceLinks:           ptr.To(false),
		SecurityContext:              podSecurity(UserJob),
	}
	if settings.Resources != nil {
		pod.Containers[0].Resources = *settings.Resources.DeepCopy()
	}
	if t := rdc.Spec.PodTemplate.DeepCopy(); t != nil {
		pod.NodeSelector, pod.Tolerations, pod.ImagePullSecrets = t.NodeSelector, t.Tolerations, t.ImagePullSecrets
		if t.SecurityContext != nil {
			pod.SecurityContext = t.SecurityContext
		}
	}
	for _, secret := range settings.ImagePullSecrets {
		if !slices.Contains(pod.ImagePullSecrets, secret) {
			pod.ImagePullSecrets = append(pod.ImagePullSecrets, secret)
		}
	}
	addStore(&pod, store)
	hashed := pod.DeepCopy() // The hash does not cover the addresses: they change without a change of the spec.
	addAccess(hashed, rdc, Access{User: a.User, Password: a.Password, Authority: a.Authority})
	addAccess(&pod, rdc, a)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: rdc.Namespace, Labels: labelled(v1.LabelRedisCluster),
			Annotations:     map[string]string{AnnotationTemplate: hashOf(hashed)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rdc, Kind)},
		},
		Spec: batchv1.JobSpec{
			BackoffLimit:         ptr.To[int32](JobRetries),
			PodReplacementPolicy: ptr.To(batchv1.Failed), // No two Pods write at the same time.
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action: batchv1.PodFailurePolicyActionFailJob,
				OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
					ContainerName: ptr.To(ContainerJob), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{ExitRefused},
				},
			}}},
			ActiveDeadlineSeconds: ptr.To(int64(deadline / time.Second)),
			Template:              corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labelled(v1.LabelJob)}, Spec: pod},
		},
	}
}

// hashOf returns a hash of a Pod's spec.
func hashOf(pod *corev1.PodSpec) string {
	text, _ := json.Marshal(pod) // It cannot fail: the type has no interfaces, and quantities are valid.
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:16]
}

// addStore adds the volume of the backups to a Pod, or the access key of S3.
func addStore(pod *corev1.PodSpec, store *v1.BackupStore) {
	args := &pod.Containers[0].Args
	if claim := store.PersistentVolumeClaim; claim != nil {
		mount(pod, "backups", dirBackups, false, corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.ClaimName},
		})
		*args = append(*args, "--directory="+dirBackups)
		return
	}
	secret := corev1.LocalObjectReference{Name: store.S3.CredentialsSecretRef.Name}
	mount(pod, "s3", dirCredentials, true, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: ptr.To[int32](0o440),
		Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: secret, Items: keysOf("accessKeyID", "secretAccessKey")}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: secret, Items: keysOf(v1.CertificateAuthorityKey), Optional: ptr.To(true)}},
		},
	}})
	*args = append(*args, "--s3-endpoint="+store.S3.Endpoint, "--s3-bucket="+store.S3.Bucket)
	if store.S3.Prefix != "" {
		*args = append(*args, "--s3-prefix="+store.S3.Prefix)
	}
	if store.S3.Region != "" {
		*args = append(*args, "--s3-region="+store.S3.Region)
	}
	*args = append(*args, "--s3-credentials="+dirCredentials)
}

// addAccess adds the addresses of the nodes to a Pod, and the files by which it logs in.
func addAccess(pod *corev1.PodSpec, rdc *v1.RedisCluster, a Access) {
	args := &pod.Containers[0].Args
	for _, address := range a.Addresses {
		*args = append(*args, "--address="+address)
	}
	if a.User != "" {
		*args = append(*args, "--user="+a.User)
	}
	if a.Password != nil {
		mountSecret(pod, VolumeAuth, DirAuth, a.Password.Name, a.Password.Key)
		*args = append(*args, "--password-file="+DirAuth+"/"+a.Password.Key)
	}
	if a.Authority != "" {
		mountSecret(pod, VolumeTLS, dirAuthority, a.Authority, v1.CertificateAuthorityKey)
		*args = append(*args, "--tls-ca="+dirAuthority+"/"+v1.CertificateAuthorityKey, "--tls-server-name="+ServerName(rdc))
	}
}

// mountSecret mounts keys of a Secret as files in a directory. The group of the files is fsGroup.
func mountSecret(pod *corev1.PodSpec, volume, directory, secret string, keys ...string) {
	mount(pod, volume, directory, true, corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: ptr.To[int32](0o440), Items: keysOf(keys...)},
	})
}

// keysOf returns the items of a volume with these keys of a Secret as files.
func keysOf(keys ...string) []corev1.KeyToPath {
	var items []corev1.KeyToPath
	for _, key := range keys {
		items = append(items, corev1.KeyToPath{Key: key, Path: key})
	}
	return items
}

func mount(pod *corev1.PodSpec, volume, directory string, readOnly bool, source corev1.VolumeSource) {
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: volume, VolumeSource: source})
	c := &pod.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: directory, ReadOnly: readOnly})
}
