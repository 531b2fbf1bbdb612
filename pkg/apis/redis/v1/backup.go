// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"errors"
	"strings"

	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// DefaultRetention is the default of spec.backup.retention.
	DefaultRetention = 7
	// LatestBackup as spec.restoreFrom.backup is the newest backup.
	LatestBackup = "latest"
)

// Backup is when backups are made, where they are stored, and how many of them are kept.
//
// +kubebuilder:validation:XValidation:rule="has(self.persistentVolumeClaim) != has(self.s3)",message="must have either persistentVolumeClaim or s3"
type Backup struct {
	// schedule is when backups are made, in UTC: a cron expression of the five fields minute, hour,
	// day of month, month and day of week, or one of @yearly, @annually, @monthly, @weekly, @daily,
	// @midnight and @hourly. Default: only when the annotation glassback.dev/backup-now changes.
	// +optional
	// +kubebuilder:validation:MaxLength=120
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|([*?]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?(,([*?]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?)* +([*?]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?(,([*?]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?)* +([*?]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?(,([*?]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?)* +([*?]|(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))(-(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)))?)(/[1-9][0-9]?)?(,([*?]|(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))(-(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)))?)(/[1-9][0-9]?)?)* +([*?]|([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat))(-([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat)))?)(/[1-9][0-9]?)?(,([*?]|([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat))(-([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat)))?)(/[1-9][0-9]?)?)*)$')",message="must be a cron expression of five fields (minute 0-59, hour 0-23, day of month 1-31, month 1-12 or jan-dec, day of week 0-6 or sun-sat), like \"0 3 * * *\""
	// +kubebuilder:validation:XValidation:rule="self.lowerAscii().replace('jan', '1').replace('feb', '2').replace('mar', '3').replace('apr', '4').replace('may', '5').replace('jun', '6').replace('jul', '7').replace('aug', '8').replace('sep', '9').replace('oct', '10').replace('nov', '11').replace('dec', '12').replace('sun', '0').replace('mon', '1').replace('tue', '2').replace('wed', '3').replace('thu', '4').replace('fri', '5').replace('sat', '6').replace(',', ' ').split(' ').all(r, !r.matches('^[0-9]+-[0-9]+(/[0-9]+)?$') || int(r.split('/')[0].split('-')[0]) <= int(r.split('/')[0].split('-')[1]))",message="a range must not end before it begins"
	Schedule string `json:"schedule,omitempty"`

	// retention is how many backups are kept. After each backup, older ones are deleted.
	// +optional
	// +kubebuilder:default=7
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Retention *int32 `json:"retention,omitempty"`

	BackupStore `json:",inline"`
	BackupJob   `json:",inline"`
}

// BackupStore is where backups are: in a volume, or in a bucket of S3.
type BackupStore struct {
	// persistentVolumeClaim is the claim of a volume of the same namespace.
	// +optional
	PersistentVolumeClaim *ClaimReference `json:"persistentVolumeClaim,omitempty"`

	// s3 is a bucket of Amazon S3, or of another service with the same interface.
	// +optional
	S3 *S3 `json:"s3,omitempty"`
}

// BackupJob has settings of the Jobs that make a backup or restore one. They do not affect the Pods of the nodes.
type BackupJob struct {
	// resources are the requests and limits of the container. Default: none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="['cpu', 'memory', 'ephemeral-storage'].all(k, !self.?requests[?k].hasValue() || !self.?limits[?k].hasValue() || [self.requests[k], self.limits[k]].exists(q, string(q).matches('[eE].*[0-9]{3}')) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)",fieldPath=".requests",message="no request for cpu, memory or ephemeral-storage may be more than its limit"
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// imagePullSecrets are the Secrets for pulling the image of the Job, which is that of the operator,
	// in addition to those of podTemplate.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(e, e.name != '')",message="every entry must have the name of a Secret"
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// imagePullPolicy is when a node pulls the image: Always, IfNotPresent or Never. Default:
	// IfNotPresent.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
}

// ClaimReference is a PersistentVolumeClaim of the same namespace.
type ClaimReference struct {
	// claimName is the name of the PersistentVolumeClaim.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a PersistentVolumeClaim, like \"redis-backups\": lower case letters, digits, \"-\" and \".\""
	ClaimName string `json:"claimName"`
}

// S3 is a place in a bucket.
type S3 struct {
	// endpoint is the URL of the service, without a path, like "https://s3.eu-central-1.amazonaws.com".
	// With http, keys and values cross the network in plain text.
	// +required
	// +kubebuilder:validation:MaxLength=300
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[[][0-9A-Fa-f:.]+[]])(:[1-9][0-9]{0,4})?$')",message="must be https://HOST[:PORT] or http://HOST[:PORT]"
	Endpoint string `json:"endpoint"`
	// bucket is the name of the bucket. It must exist.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9][a-z0-9.-]+[a-z0-9]$')",message="must be the name of a bucket, like \"redis-backups\": 3 to 63 lower case letters, digits, \"-\" and \".\""
	Bucket string `json:"bucket"`
	// prefix is the beginning of the names of all objects, like "production/redis". Default: none.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*)?$')",message="must be names with \"/\" between them, like \"production/redis\": letters, digits, \"-\", \"_\" and \".\""
	Prefix string `json:"prefix,omitempty"`
	// region is the region of the bucket. Default: the service finds it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9-]*$')",message="must be the name of a region, like \"eu-central-1\": letters, digits and \"-\""
	Region string `json:"region,omitempty"`
	// credentialsSecretRef is the Secret of the same namespace with the access key, in the keys
	// accessKeyID and secretAccessKey. If the certificate of the endpoint is signed by a CA of your own,
	// the Secret has this CA in the key ca.crt.
	// +required
	CredentialsSecretRef SecretReference `json:"credentialsSecretRef"`
}

// RestoreFrom is the backup from which a new cluster is made.
//
// +kubebuilder:validation:XValidation:rule="has(self.persistentVolumeClaim) != has(self.s3)",message="must have either persistentVolumeClaim or s3"
// +kubebuilder:validation:XValidation:rule="has(self.__namespace__) == has(oldSelf.__namespace__) && (!has(self.__namespace__) || self.__namespace__ == oldSelf.__namespace__) && has(self.name) == has(oldSelf.name) && (!has(self.name) || self.name == oldSelf.name) && has(self.backup) == has(oldSelf.backup) && (!has(self.backup) || self.backup == oldSelf.backup) && has(self.persistentVolumeClaim) == has(oldSelf.persistentVolumeClaim) && (!has(self.persistentVolumeClaim) || self.persistentVolumeClaim.claimName == oldSelf.persistentVolumeClaim.claimName) && has(self.s3) == has(oldSelf.s3) && (!has(self.s3) || self.s3.endpoint == oldSelf.s3.endpoint && self.s3.bucket == oldSelf.s3.bucket && has(self.s3.prefix) == has(oldSelf.s3.prefix) && (!has(self.s3.prefix) || self.s3.prefix == oldSelf.s3.prefix) && has(self.s3.region) == has(oldSelf.s3.region) && (!has(self.s3.region) || self.s3.region == oldSelf.s3.region))",message="cannot be changed, except for credentialsSecretRef, resources, imagePullSecrets and imagePullPolicy; it can be removed"
type RestoreFrom struct {
	// namespace is the namespace of the RedisCluster that made the backup. Default: the namespace of
	// this one. The claim or the Secret is always of the namespace of this one.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$')",message="must be the name of a namespace, like \"shop\": lower case letters, digits and \"-\""
	Namespace string `json:"namespace,omitempty"`
	// name is the name of the RedisCluster that made the backup. Default: the name of this one.
	// +optional
	// +kubebuilder:validation:MaxLength=52
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z]([-a-z0-9]*[a-z0-9])?)?$')",message="must be the name of a RedisCluster, like \"sessions\": lower case letters, digits and \"-\""
	Name string `json:"name,omitempty"`
	// backup is the ID of the backup, like "20260301T030000Z", or latest.
	// +optional
	// +kubebuilder:default=latest
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^(latest|[0-9]{8}T[0-9]{6}Z)$')",message="must be the ID of a backup, like \"20260301T030000Z\", or latest"
	Backup string `json:"backup,omitempty"`

	BackupStore `json:",inline"`
	BackupJob   `json:",inline"`
}

// BackupStatus is the state of the backups.
type BackupStatus struct {
	// schedule is the schedule of the backups. When it changes, only its times after that count.
	// +optional
	Schedule string `json:"schedule,omitempty"`
	// scheduledSince is when the operator noticed the schedule.
	// +optional
	ScheduledSince *metav1.Time `json:"scheduledSince,omitempty"`
	// lastScheduleTime is the time of the schedule for which the last backup began. At first, it is
	// when the operator noticed the schedule.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// lastBackupNow is the latest value of the annotation glassback.dev/backup-now for which a backup
	// began.
	// +optional
	LastBackupNow string `json:"lastBackupNow,omitempty"`
	// running is the ID of the backup that is being made.
	// +optional
	Running string `json:"running,omitempty"`
	// lastSuccessfulTime is when the last good backup ended.
	// +optional
	LastSuccessfulTime *metav1.Time `json:"lastSuccessfulTime,omitempty"`
	// last is the last good backup.
	// +optional
	Last *BackupResult `json:"last,omitempty"`
	// lastFailure is the last backup that failed.
	// +optional
	LastFailure *BackupFailure `json:"lastFailure,omitempty"`
}

// BackupResult is a backup that succeeded.
type BackupResult struct {
	// id is the ID of the backup: its time of the schedule, in UTC, or when the operator began it for
	// glassback.dev/backup-now.
	// +required
	ID string `json:"id"`
	// keys is the number of keys in it.
	// +optional
	Keys int64 `json:"keys"`
	// bytes is the size of its files.
	// +optional
	Bytes int64 `json:"bytes"`
	// warning is what is wrong although the backup is good.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Warning string `json:"warning,omitempty"`
}

// BackupFailure is a backup that failed.
type BackupFailure struct {
	// id is the ID of the backup.
	// +required
	ID string `json:"id"`
	// time is when it failed.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// message is the cause.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// RestoreStatus is the backup that is being restored, or was.
type RestoreStatus struct {
	// startedAt is when the restore began. The cluster had no keys until then.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// id is the ID of the backup: of the latest one, once it is chosen, and of any other one after the
	// restore has ended.
	// +optional
	ID string `json:"id,omitempty"`
	// keys is the number of keys in the backup.
	// +optional
	Keys int64 `json:"keys"`
	// skipped is how many of them the cluster had already. They stay as they are.
	// +optional
	Skipped int64 `json:"skipped,omitempty"`
	// expired is how many of them had expired.
	// +optional
	Expired int64 `json:"expired,omitempty"`
	// warning is what is wrong although all keys are restored.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Warning string `json:"warning,omitempty"`
	// completedAt is when the restore ended. It is empty until every key of the backup is in the
	// cluster.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
}

// ConditionBackedUp is True if the last backup succeeded. A RedisCluster without spec.backup does not have it.
const ConditionBackedUp = "BackedUp"

// AnnotationBackupNow on a RedisCluster requests one backup for each change of its value, also without a schedule. A value that equals
// status.backup.lastBackupNow requests none.
const AnnotationBackupNow = "glassback.dev/backup-now"

// LabelJob is a label of the Pods that make a backup or restore one. Its value is the name of the RedisCluster. These Pods do not have
// LabelRedisCluster: they are no nodes.
const LabelJob = GroupName + "/job"

// ParseBackupSchedule returns the times of spec.backup.schedule.
func ParseBackupSchedule(expression string) (cron.Schedule, error) {
	if strings.Contains(expression, "=") {
		return nil, errors.New("must be a cron expression without a time zone") // The parser panics at "TZ=".
	}
	return cron.ParseStandard(expression)
}

func (s *RedisClusterSpec) setBackupDefaults() {
	if s.Backup != nil {
		set(&s.Backup.Retention, ptr.To[int32](DefaultRetention))
	}
	if s.RestoreFrom != nil {
		set(&s.RestoreFrom.Backup, LatestBackup)
	}
}
