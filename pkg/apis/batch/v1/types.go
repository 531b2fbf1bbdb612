// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MyCronJob creates a Job from a template every few seconds, or by a cron schedule.
//
// A slot is a second at which a Job is due. The Job of a slot has the name <name>-<Unix second of
// the slot>, so that a slot has at most one Job. Every slot has a Job, or is counted in
// status.missedTotal.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=mycronjobs,singular=mycronjob,shortName=mcj,categories=glassback
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="glassback.dev/crd-revision=5"
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.status.schedule`
// +kubebuilder:printcolumn:name="Suspend",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Active",type=integer,JSONPath=`.status.active`
// +kubebuilder:printcolumn:name="Last Schedule",type=date,JSONPath=`.status.lastScheduleTime`
// +kubebuilder:printcolumn:name="Last Success",type=date,JSONPath=`.status.lastSuccessfulTime`
// +kubebuilder:printcolumn:name="Missed",type=integer,JSONPath=`.status.missedTotal`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Next",type=string,priority=1,JSONPath=`.status.nextScheduleTime`
// +kubebuilder:printcolumn:name="Skew ms",type=integer,priority=1,JSONPath=`.status.skewMillis`
// +kubebuilder:printcolumn:name="Images",type=string,priority=1,JSONPath=`.spec.jobTemplate.spec.template.spec.containers[*].image`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 52",fieldPath=".metadata",message="name must have no more than 52 characters: its Jobs are named <name>-<unix second>, which must fit into 63"
type MyCronJob struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec MyCronJobSpec `json:"spec"`
	// +optional
	Status MyCronJobStatus `json:"status,omitempty"`
}

// Conditions returns the conditions of the status.
func (m *MyCronJob) Conditions() []metav1.Condition { return m.Status.Conditions }

// MyCronJobSpec has the template of the Jobs, and the times at which they are due.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.intervalSeconds) && has(self.schedule))",fieldPath=".schedule",message="intervalSeconds and schedule exclude each other: set one of them, or neither for a Job every 5 seconds"
// +kubebuilder:validation:XValidation:rule="!has(self.timeZone) || has(self.schedule)",fieldPath=".timeZone",message="goes with schedule: slots of intervalSeconds do not depend on it"
// +kubebuilder:validation:XValidation:rule="!has(self.jitterSeconds) || has(self.schedule) || self.jitterSeconds < (has(self.intervalSeconds) ? self.intervalSeconds : 5)",fieldPath=".jitterSeconds",message="must be less than the interval between two Jobs (intervalSeconds, or 5 if that is not set)"
// +kubebuilder:validation:XValidation:rule="!has(self.maxActive) || !has(self.concurrencyPolicy) || self.concurrencyPolicy == 'Allow'",fieldPath=".maxActive",message="goes with concurrencyPolicy Allow: under Forbid and Replace, one Job runs at a time"
// +kubebuilder:validation:XValidation:rule="!(has(self.concurrencyPolicy) && self.concurrencyPolicy == 'Replace' && has(self.missedRunPolicy) && self.missedRunPolicy == 'All')",fieldPath=".missedRunPolicy",message="All does not go with concurrencyPolicy Replace: every Job that is caught up would replace the one before it"
type MyCronJobSpec struct {
	// jobTemplate is the template of each Job, with its labels and annotations. The Jobs do not
	// have its ttlSecondsAfterFinished: the operator itself deletes them after that time, so that
	// no Job disappears before its slot is recorded.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.spec) && has(self.spec.template.spec) && has(self.spec.template.spec.restartPolicy) && self.spec.template.spec.restartPolicy in ['OnFailure', 'Never']",fieldPath=".spec.template.spec.restartPolicy",message="must be OnFailure or Never: a Job takes no other"
	// +kubebuilder:validation:XValidation:rule="has(self.spec) && has(self.spec.template.spec) && size(self.spec.template.spec.containers) > 0",fieldPath=".spec.template.spec.containers",reason=FieldValueRequired,message="a Job needs at least one container"
	JobTemplate batchv1.JobTemplateSpec `json:"jobTemplate"`

	// intervalSeconds is the time between two slots, in seconds. The slots are its multiples since
	// the Unix epoch. Default: 5, if schedule is not set either.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	IntervalSeconds *int32 `json:"intervalSeconds,omitempty"`

	// schedule is a cron expression of five fields, or of six with the second first. The five
	// fields are minute, hour, day of month, month and day of week. One of @yearly, @annually,
	// @monthly, @weekly, @daily, @midnight and @hourly is valid too.
	// +optional
	// +kubebuilder:validation:MaxLength=120
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('@every')",message="@every is not supported: set intervalSeconds instead"
	// +kubebuilder:validation:XValidation:rule="!self.contains('TZ=')",message="set timeZone instead of TZ= or CRON_TZ="
	// +kubebuilder:validation:XValidation:rule="self.startsWith('@every') || self.contains('TZ=') || self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|(([*?]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?(,([*?]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?)* +)?([*?]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?(,([*?]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?)* +([*?]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?(,([*?]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?)* +([*?]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?(,([*?]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?)* +([*?]|(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))(-(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)))?)(/[1-9][0-9]?)?(,([*?]|(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))(-(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)))?)(/[1-9][0-9]?)?)* +([*?]|([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat))(-([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat)))?)(/[1-9][0-9]?)?(,([*?]|([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat))(-([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat)))?)(/[1-9][0-9]?)?)*)$')",message="must be a cron expression of five fields (minute 0-59, hour 0-23, day of month 1-31, month 1-12 or jan-dec, day of week 0-6 or sun-sat) or six (second 0-59 first), like \"*/10 * * * *\""
	// +kubebuilder:validation:XValidation:rule="self.lowerAscii().replace('jan', '1').replace('feb', '2').replace('mar', '3').replace('apr', '4').replace('may', '5').replace('jun', '6').replace('jul', '7').replace('aug', '8').replace('sep', '9').replace('oct', '10').replace('nov', '11').replace('dec', '12').replace('sun', '0').replace('mon', '1').replace('tue', '2').replace('wed', '3').replace('thu', '4').replace('fri', '5').replace('sat', '6').replace(',', ' ').split(' ').all(r, !r.matches('^[0-9]+-[0-9]+(/[0-9]+)?$') || int(r.split('/')[0].split('-')[0]) <= int(r.split('/')[0].split('-')[1]))",message="a range must not end before it begins"
	Schedule *string `json:"schedule,omitempty"`

	// timeZone is the IANA time zone of schedule, such as Europe/Berlin. Default: UTC. When clocks
	// go forward, the skipped times have no slot. When clocks go back, the repeated times have two
	// slots.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_+/-]*$') && !(self.lowerAscii() in ['local', 'localtime']) && timestamp('2026-01-01T00:00:00Z').getHours(self) >= 0",message="must be the name of an IANA time zone, like \"Europe/Berlin\""
	TimeZone *string `json:"timeZone,omitempty"`

	// suspend stops the creation of Jobs. Running Jobs continue. Slots during a suspension neither
	// run nor count as missed.
	// +optional
	// +kubebuilder:default=false
	Suspend *bool `json:"suspend,omitempty"`

	// startingDeadlineSeconds is the longest delay of a Job, in seconds after its slot and jitter.
	// A slot without a Job counts as missed after this time. Default: only missedRunPolicy limits
	// the delay.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`

	// concurrencyPolicy applies if a slot is due while an earlier Job still runs. Allow: the
	// operator creates the Job at once. Forbid: it waits until no Job runs. Replace: it deletes the
	// running Jobs, and creates the Job.
	// +optional
	// +kubebuilder:default=Allow
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`

	// maxActive limits how many Jobs run at the same time under Allow. A slot that is due then waits
	// until a Job has finished, as under Forbid. Default: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxActive *int32 `json:"maxActive,omitempty"`

	// missedRunPolicy applies to slots that have no Job in time, for example after an outage or
	// under Forbid. Latest: the latest of them runs. Skip: the latest runs if it is at most 2
	// seconds late. All: all of them run, but at most the latest 100. The others count as missed.
	// +optional
	// +kubebuilder:default=Latest
	MissedRunPolicy MissedRunPolicy `json:"missedRunPolicy,omitempty"`

	// successfulJobsHistoryLimit is the number of successful Jobs to keep. Every Job is kept for at
	// least 10 seconds after its creation.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`

	// failedJobsHistoryLimit is the number of failed Jobs to keep. Every Job is kept for at least
	// 10 seconds after its creation.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`

	// jitterSeconds limits a delay of the Jobs, which spreads the load of many MyCronJobs. The
	// delay is shorter than this many seconds, and the same for all Jobs of a MyCronJob. The slots,
	// and the names of the Jobs, do not change.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	JitterSeconds *int32 `json:"jitterSeconds,omitempty"`
}

// ConcurrencyPolicy decides about a slot that is due while an earlier Job still runs.
//
// +kubebuilder:validation:Enum=Allow;Forbid;Replace
type ConcurrencyPolicy string

const (
	// AllowConcurrent lets Jobs run at the same time.
	AllowConcurrent ConcurrencyPolicy = "Allow"
	// ForbidConcurrent lets slots wait until no Job runs. The slots that missedRunPolicy gives up
	// count as missed.
	ForbidConcurrent ConcurrencyPolicy = "Forbid"
	// ReplaceConcurrent deletes the running Jobs, and creates the new one.
	ReplaceConcurrent ConcurrencyPolicy = "Replace"
)

// MissedRunPolicy decides about slots that have no Job in time.
//
// +kubebuilder:validation:Enum=Latest;Skip;All
type MissedRunPolicy string

const (
	// LatestMissed runs the latest of these slots late, and gives up the others.
	LatestMissed MissedRunPolicy = "Latest"
	// SkipMissed is like LatestMissed, but gives up the latest slot too if it is more than 2
	// seconds late.
	SkipMissed MissedRunPolicy = "Skip"
	// AllMissed runs all of these slots in their order, but at most the latest 100.
	AllMissed MissedRunPolicy = "All"
)

// MyCronJobStatus is the observed state of the slots and the Jobs.
type MyCronJobStatus struct {
	// observedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready (the operator creates Jobs by the schedule), Progressing (slots wait for
	// a running Job) and Degraded (the last Job failed, or the operator could not create it).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// schedule is the schedule of the slots: "every 5s", or the cron expression and its time zone.
	// When it changes, the count of slots starts again.
	// +optional
	Schedule string `json:"schedule,omitempty"`

	// active is the number of Jobs that have not finished.
	// +optional
	Active int32 `json:"active"`

	// lastScheduleTime is the time of the latest slot with a Job.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`

	// lastSuccessfulTime is the latest time at which a Job completed successfully.
	// +optional
	LastSuccessfulTime *metav1.Time `json:"lastSuccessfulTime,omitempty"`

	// nextScheduleTime is the time of the next slot.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`

	// accountedTime is the time up to which the operator has accounted for every slot. Such a slot
	// has a Job, is counted in missedTotal, or was suspended.
	// +optional
	AccountedTime *metav1.Time `json:"accountedTime,omitempty"`

	// missedTotal is the number of missed slots since the creation of this object.
	// +optional
	MissedTotal int64 `json:"missedTotal"`

	// skewMillis is the delay of the latest Job, in milliseconds after its slot and jitter.
	// +optional
	SkewMillis *int64 `json:"skewMillis,omitempty"`

	// suspended is true once the operator has observed the suspension. Slots after accountedTime do
	// not count as missed then.
	// +optional
	Suspended bool `json:"suspended,omitempty"`

	// lastRunNow is the latest value of the annotation glassback.dev/run-now that the operator has
	// handled.
	// +optional
	LastRunNow string `json:"lastRunNow,omitempty"`

	// lastRunNowNumber is the number of the latest Job for that annotation, from 1. The name of the
	// next Job follows from it.
	// +optional
	LastRunNowNumber int64 `json:"lastRunNowNumber,omitempty"`
}

// MyCronJobList is a list of MyCronJobs.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type MyCronJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MyCronJob `json:"items"`
}

const (
	// LabelMyCronJob is a label of every Job. Its value is the name of the MyCronJob.
	LabelMyCronJob = GroupName + "/mycronjob"
	// AnnotationSlot is an annotation of the Job of a slot. Its value is the Unix second of the
	// slot.
	AnnotationSlot = GroupName + "/slot"
	// AnnotationSkew is an annotation of the Job of a slot. Its value is the delay of the creation,
	// in milliseconds after the slot and its jitter.
	AnnotationSkew = GroupName + "/skew-millis"
	// AnnotationRunNow on a MyCronJob requests one Job for each change of its value, also while the
	// MyCronJob is suspended. concurrencyPolicy applies. A value that equals status.lastRunNow
	// requests no Job. On a Job, its value is the one that requested the Job.
	AnnotationRunNow = "glassback.dev/run-now"
)
