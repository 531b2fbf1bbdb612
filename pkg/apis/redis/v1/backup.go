// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

const (
	// DefaultRetention is the default of spec.backup.retention.
	DefaultRetention = 7
	// LatestBackup as spec.restoreFrom.backup is the newest backup.
	LatestBackup = "latest"

	maxRetention = 1000
	maxSchedule  = 120
	maxNamespace = 63
	maxEndpoint  = 300
	maxBucket    = 63
	maxPrefix    = 512
	maxRegion    = 64
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

// backupSchedule matches the expressions of five fields, as the schema does.
var backupSchedule = func() *regexp.Regexp {
	list := func(value string) string {
		item := `([*?]|` + value + `(-` + value + `)?)(/[1-9][0-9]?)?`
		return item + `(,` + item + `)*`
	}
	return regexp.MustCompile(`^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|` + strings.Join([]string{
		list(`[0-5]?[0-9]`), list(`([01]?[0-9]|2[0-3])`), list(`(0?[1-9]|[12][0-9]|3[01])`),
		list(`(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))`), list(`([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat))`),
	}, ` +`) + `)$`)
}()

var (
	s3Endpoint    = regexp.MustCompile(`^https?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[[][0-9A-Fa-f:.]+[]])(:[1-9][0-9]{0,4})?$`)
	s3Bucket      = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]+[a-z0-9]$`)
	s3Prefix      = regexp.MustCompile(`^([A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*)?$`)
	s3Region      = regexp.MustCompile(`^[A-Za-z0-9-]*$`)
	namespaceName = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`)
	clusterName   = regexp.MustCompile(`^([a-z]([-a-z0-9]*[a-z0-9])?)?$`)
	backupID      = regexp.MustCompile(`^(latest|[0-9]{8}T[0-9]{6}Z)$`)
)

// ParseBackupSchedule returns the times of spec.backup.schedule.
func ParseBackupSchedule(expression string) (cron.Schedule, error) {
	if !backupSchedule.MatchString(expression) {
		return nil, errors.New("must be a cron expression of five fields (minute 0-59, hour 0-23, day of month 1-31, " +
			`month 1-12 or jan-dec, day of week 0-6 or sun-sat), like "0 3 * * *"`)
	}
	return cron.ParseStandard(expression)
}

func (b *Backup) validate(path *field.Path) field.ErrorList {
	if b == nil {
		return nil
	}
	var errs field.ErrorList
	if b.Schedule != "" {
		errs = validateSchedule(path.Child("schedule"), b.Schedule)
	}
	errs = append(errs, glassback.ValidateRange(path.Child("retention"), b.Retention, 1, maxRetention)...)
	errs = append(errs, b.BackupStore.validate(path)...)
	return append(errs, b.BackupJob.validate(path)...)
}

func (j *BackupJob) validate(path *field.Path) field.ErrorList {
	errs := glassback.ValidateResources(path.Child("resources"), j.Resources)
	errs = append(errs, validateNames(path.Child("imagePullSecrets"), pullSecretNames(j.ImagePullSecrets), maxPullSecrets, nil)...)
	policies := []string{string(corev1.PullAlways), string(corev1.PullIfNotPresent), string(corev1.PullNever)}
	if j.ImagePullPolicy != "" && !slices.Contains(policies, string(j.ImagePullPolicy)) {
		errs = append(errs, field.NotSupported(path.Child("imagePullPolicy"), j.ImagePullPolicy, policies))
	}
	return errs
}

func validateSchedule(path *field.Path, expression string) field.ErrorList {
	if len(expression) > maxSchedule {
		return field.ErrorList{field.TooLong(path, expression, maxSchedule)}
	}
	schedule, err := ParseBackupSchedule(expression)
	if err != nil {
		return field.ErrorList{field.Invalid(path, expression, err.Error())}
	}
	if schedule.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return field.ErrorList{field.Invalid(path, expression, "never comes: none of its months has such a day")}
	}
	return nil
}

func (s *BackupStore) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if (s.PersistentVolumeClaim != nil) == (s.S3 != nil) {
		errs = append(errs, field.Invalid(path, "", "must have either persistentVolumeClaim or s3"))
	}
	if claim := s.PersistentVolumeClaim; claim != nil {
		errs = append(errs, glassback.ValidateObjectName(path.Child("persistentVolumeClaim", "claimName"), claim.ClaimName,
			"a PersistentVolumeClaim", "redis-backups")...)
	}
	if s.S3 == nil {
		return errs
	}
	path = path.Child("s3")
	for _, text := range []struct {
		name, value string
		maxLength   int
		pattern     *regexp.Regexp
		must        string
	}{
		{"endpoint", s.S3.Endpoint, maxEndpoint, s3Endpoint, "must be https://HOST[:PORT] or http://HOST[:PORT]"},
		{"bucket", s.S3.Bucket, maxBucket, s3Bucket,
			`must be the name of a bucket, like "redis-backups": 3 to 63 lower case letters, digits, "-" and "."`},
		{"prefix", s.S3.Prefix, maxPrefix, s3Prefix,
			`must be names with "/" between them, like "production/redis": letters, digits, "-", "_" and "."`},
		{"region", s.S3.Region, maxRegion, s3Region, `must be the name of a region, like "eu-central-1": letters, digits and "-"`},
	} {
		errs = append(errs, glassback.ValidateText(path.Child(text.name), text.value, text.maxLength, text.pattern.MatchString, text.must)...)
	}
	return append(errs, glassback.ValidateObjectName(path.Child("credentialsSecretRef", "name"), s.S3.CredentialsSecretRef.Name,
		"a Secret", "redis-tls")...)
}

func (r *RestoreFrom) validate(path *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	errs := glassback.ValidateText(path.Child("namespace"), r.Namespace, maxNamespace, namespaceName.MatchString,
		`must be the name of a namespace, like "shop": lower case letters, digits and "-"`)
	errs = append(errs, glassback.ValidateText(path.Child("name"), r.Name, maxName, clusterName.MatchString,
		`must be the name of a RedisCluster, like "sessions": lower case letters, digits and "-"`)...)
	errs = append(errs, glassback.ValidateText(path.Child("backup"), r.Backup, len("20260301T030000Z"), backupID.MatchString,
		`must be the ID of a backup, like "20260301T030000Z", or latest`)...)
	errs = append(errs, r.BackupStore.validate(path)...)
	return append(errs, r.BackupJob.validate(path)...)
}

// validateRestoreChange allows a change of the Job and of its Secret, and of nothing that would lead to another restore.
func validateRestoreChange(path *field.Path, now, old *RestoreFrom) field.ErrorList {
	switch {
	case now == nil:
		return nil
	case old == nil:
		return field.ErrorList{field.Forbidden(path, "can be set only when the cluster is created; it can be removed")}
	}
	same := now.DeepCopy()
	same.BackupJob = old.BackupJob
	if same.S3 != nil && old.S3 != nil {
		same.S3.CredentialsSecretRef = old.S3.CredentialsSecretRef
	}
	if equality.Semantic.DeepEqual(same, old) {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, "cannot be changed, except for credentialsSecretRef, resources, imagePullSecrets and "+
		"imagePullPolicy; it can be removed")}
}

func (s *RedisClusterSpec) setBackupDefaults() {
	if s.Backup != nil {
		set(&s.Backup.Retention, ptr.To[int32](DefaultRetention))
	}
	if s.RestoreFrom != nil {
		set(&s.RestoreFrom.Backup, LatestBackup)
	}
}
