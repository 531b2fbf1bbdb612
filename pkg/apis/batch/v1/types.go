/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MyCronJob makes a Job from a template every few seconds, or by a cron
// schedule.
//
// Every point in time at which a Job is due is a slot. The Job of a slot is
// named <name>-<unix second of the slot>: there is at most one Job a slot,
// and every slot has run, or is counted in status.missedTotal.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=mycronjobs,singular=mycronjob,shortName=mcj,categories=glassback
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="glassback.dev/crd-revision=3"
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

// MyCronJobSpec says which Jobs to make, and when.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.intervalSeconds) && has(self.schedule))",fieldPath=".schedule",message="intervalSeconds and schedule exclude each other: set one of them, or neither for a Job every 5 seconds"
// +kubebuilder:validation:XValidation:rule="!has(self.timeZone) || has(self.schedule)",fieldPath=".timeZone",message="goes with schedule: slots of intervalSeconds do not depend on it"
// +kubebuilder:validation:XValidation:rule="!has(self.jitterSeconds) || has(self.schedule) || self.jitterSeconds < (has(self.intervalSeconds) ? self.intervalSeconds : 5)",fieldPath=".jitterSeconds",message="must be less than the interval between two Jobs (intervalSeconds, or 5 if that is not set)"
// +kubebuilder:validation:XValidation:rule="!(has(self.concurrencyPolicy) && self.concurrencyPolicy == 'Replace' && has(self.missedRunPolicy) && self.missedRunPolicy == 'All')",fieldPath=".missedRunPolicy",message="All does not go with concurrencyPolicy Replace: every Job that is caught up would replace the one before it"
type MyCronJobSpec struct {
	// jobTemplate is what each Job is made from; its labels and annotations are
	// kept. A ttlSecondsAfterFinished in it is honoured by the MyCronJob itself,
	// so that no Job vanishes before its slot is recorded: the Job does not carry
	// it.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.spec) && has(self.spec.template.spec) && has(self.spec.template.spec.restartPolicy) && self.spec.template.spec.restartPolicy in ['OnFailure', 'Never']",fieldPath=".spec.template.spec.restartPolicy",message="must be OnFailure or Never: a Job takes no other"
	// +kubebuilder:validation:XValidation:rule="has(self.spec) && has(self.spec.template.spec) && size(self.spec.template.spec.containers) > 0",fieldPath=".spec.template.spec.containers",reason=FieldValueRequired,message="a Job needs at least one container"
	JobTemplate batchv1.JobTemplateSpec `json:"jobTemplate"`

	// intervalSeconds is the time from one slot to the next, in seconds. Slots
	// are the multiples of it since the Unix epoch. 5, if neither it nor schedule
	// is set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	IntervalSeconds *int32 `json:"intervalSeconds,omitempty"`

	// schedule is a cron expression of five fields (minute, hour, day of month,
	// month, day of week) or six (second first), or one of @yearly, @annually,
	// @monthly, @weekly, @daily, @midnight and @hourly.
	// +optional
	// +kubebuilder:validation:MaxLength=120
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('@every')",message="@every is not supported: set intervalSeconds instead"
	// +kubebuilder:validation:XValidation:rule="!self.contains('TZ=')",message="set timeZone instead of TZ= or CRON_TZ="
	// +kubebuilder:validation:XValidation:rule="self.startsWith('@every') || self.contains('TZ=') || self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|(([*?]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?(,([*?]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?)* +)?([*?]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?(,([*?]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?)* +([*?]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?(,([*?]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?)* +([*?]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?(,([*?]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?)* +([*?]|(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))(-(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)))?)(/[1-9][0-9]?)?(,([*?]|(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))(-(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)))?)(/[1-9][0-9]?)?)* +([*?]|([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat))(-([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat)))?)(/[1-9][0-9]?)?(,([*?]|([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat))(-([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat)))?)(/[1-9][0-9]?)?)*)$')",message="must be a cron expression of five fields (minute 0-59, hour 0-23, day of month 1-31, month 1-12 or jan-dec, day of week 0-6 or sun-sat) or six (second 0-59 first), like \"*/10 * * * *\""
	// +kubebuilder:validation:XValidation:rule="self.lowerAscii().replace('jan', '1').replace('feb', '2').replace('mar', '3').replace('apr', '4').replace('may', '5').replace('jun', '6').replace('jul', '7').replace('aug', '8').replace('sep', '9').replace('oct', '10').replace('nov', '11').replace('dec', '12').replace('sun', '0').replace('mon', '1').replace('tue', '2').replace('wed', '3').replace('thu', '4').replace('fri', '5').replace('sat', '6').replace(',', ' ').split(' ').all(r, !r.matches('^[0-9]+-[0-9]+(/[0-9]+)?$') || int(r.split('/')[0].split('-')[0]) <= int(r.split('/')[0].split('-')[1]))",message="a range must not end before it begins"
	Schedule *string `json:"schedule,omitempty"`

	// timeZone is the IANA name of the time zone in which schedule is read, such
	// as Europe/Berlin. UTC, if not set. Where clocks change, a time of day that
	// they skip has no slot, and one that they show twice has two.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_+/-]*$') && !(self.lowerAscii() in ['local', 'localtime']) && timestamp('2026-01-01T00:00:00Z').getHours(self) >= 0",message="must be the name of an IANA time zone, like \"Europe/Berlin\""
	TimeZone *string `json:"timeZone,omitempty"`

	// suspend stops making Jobs. Slots that pass meanwhile neither run nor count
	// as missed. Jobs that are running go on.
	// +optional
	// +kubebuilder:default=false
	Suspend *bool `json:"suspend,omitempty"`

	// startingDeadlineSeconds is how late a Job may start, in seconds after its
	// slot. A slot that could not be run by then is missed. Not set: no limit,
	// but that of missedRunPolicy.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`

	// concurrencyPolicy says what happens when a slot comes while an earlier Job
	// is still running.
	// +optional
	// +kubebuilder:default=Allow
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`

	// missedRunPolicy says what happens to slots that could not be run in time,
	// because the operator or the API server was down, or an earlier Job was in
	// the way under concurrencyPolicy Forbid.
	// +optional
	// +kubebuilder:default=Latest
	MissedRunPolicy MissedRunPolicy `json:"missedRunPolicy,omitempty"`

	// successfulJobsHistoryLimit is how many successful Jobs are kept. A Job is
	// kept for at least 10 seconds after it was made.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`

	// failedJobsHistoryLimit is how many failed Jobs are kept. A Job is kept for
	// at least 10 seconds after it was made.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`

	// jitterSeconds spreads the load of many MyCronJobs: each starts its Jobs by
	// up to so many seconds after their slots. How many is fixed for each object,
	// so that its Jobs stay evenly apart. Names and times of slots do not change.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	JitterSeconds *int32 `json:"jitterSeconds,omitempty"`
}

// ConcurrencyPolicy says what happens when a slot comes while an earlier Job
// is still running.
//
// +kubebuilder:validation:Enum=Allow;Forbid;Replace
type ConcurrencyPolicy string

const (
	// AllowConcurrent lets Jobs run beside each other.
	AllowConcurrent ConcurrencyPolicy = "Allow"
	// ForbidConcurrent lets a slot wait until no Job runs; meanwhile the slots
	// that missedRunPolicy gives up are counted as missed.
	ForbidConcurrent ConcurrencyPolicy = "Forbid"
	// ReplaceConcurrent deletes the running Jobs and starts the new one.
	ReplaceConcurrent ConcurrencyPolicy = "Replace"
)

// MissedRunPolicy says what happens to slots that could not be run in time.
//
// +kubebuilder:validation:Enum=Latest;Skip;All
type MissedRunPolicy string

const (
	// LatestMissed runs the latest of the missed slots, late, and gives up the
	// others.
	LatestMissed MissedRunPolicy = "Latest"
	// SkipMissed gives up every slot but the latest, and that too if it is more than
	// 2 seconds late.
	SkipMissed MissedRunPolicy = "Skip"
	// AllMissed runs all missed slots in their order, but at most the latest 100.
	AllMissed MissedRunPolicy = "All"
)

// MyCronJobStatus says what became of the slots until now.
type MyCronJobStatus struct {
	// observedGeneration is the metadata.generation that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready (Jobs are being made), Progressing (slots wait to be
	// caught up) and Degraded (the last Job failed, or could not be made).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// schedule is what the slots follow, in words: "every 5s", or the cron
	// expression and its time zone. When it changes, counting starts anew.
	// +optional
	Schedule string `json:"schedule,omitempty"`

	// active is the number of Jobs that have not finished.
	// +optional
	Active int32 `json:"active"`

	// lastScheduleTime is the latest slot that a Job was made for.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`

	// lastSuccessfulTime is when a Job last completed successfully.
	// +optional
	LastSuccessfulTime *metav1.Time `json:"lastSuccessfulTime,omitempty"`

	// nextScheduleTime is the next slot.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`

	// accountedTime is the watermark: every slot up to and including it has run,
	// or is counted in missedTotal.
	// +optional
	AccountedTime *metav1.Time `json:"accountedTime,omitempty"`

	// missedTotal counts the slots that passed without a Job since the object was
	// made.
	// +optional
	MissedTotal int64 `json:"missedTotal"`

	// skewMillis is how late the latest Job was made, in milliseconds after its
	// slot and jitter.
	// +optional
	SkewMillis *int64 `json:"skewMillis,omitempty"`

	// suspended tells that the suspension has been seen: from accountedTime on, slots
	// are not counted.
	// +optional
	Suspended bool `json:"suspended,omitempty"`

	// lastRunNow is the latest value of the annotation glassback.dev/run-now that
	// a Job was made for.
	// +optional
	LastRunNow string `json:"lastRunNow,omitempty"`

	// lastRunNowNumber is the number of that Job among all that the annotation has
	// asked for: 1 for the first. The name of the next Job follows from it.
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
	// LabelMyCronJob is on every Job, and holds the name of its MyCronJob.
	LabelMyCronJob = GroupName + "/mycronjob"
	// AnnotationSlot is on the Job of a slot, and holds the slot's Unix second.
	AnnotationSlot = GroupName + "/slot"
	// AnnotationSkew is on the Job of a slot, and holds how late the Job was
	// made, in milliseconds after its slot and jitter.
	AnnotationSkew = GroupName + "/skew-millis"
	// AnnotationRunNow on a MyCronJob makes one Job at once for every change of its
	// value, by the rules of concurrencyPolicy, even while suspended. A value that
	// equals status.lastRunNow makes none. On a Job it holds the value that the Job
	// was made for.
	AnnotationRunNow = "glassback.dev/run-now"
)
