// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	klabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/recording"
)

// job is a Job that makes a backup, or restores one. Records contain it unchanged.
type job struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// ResourceVersion is the version of the Job that was observed.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// ID is the ID of the backup that it makes; "" if it restores one, and LatestBackup if it chooses which.
	ID string `json:"id,omitempty"`
	// BackupNow is the value of AnnotationBackupNow when the backup began.
	BackupNow string `json:"backupNow,omitempty"`
	// Ended is Complete or Failed; "" while the Job runs. EndedAt is when it ended.
	Ended   batchv1.JobConditionType `json:"ended,omitempty"`
	EndedAt time.Time                `json:"endedAt,omitzero"`
	// Lingering is whether the container of the Job has ended, and others in its Pod run on, such as one that a service mesh injects.
	Lingering bool `json:"lingering,omitempty"`
	// NotStarting is why the container of a Job does not run, for longer than maxStart; "" if it runs.
	NotStarting string `json:"notStarting,omitempty"`
	// Outdated is whether the container does not run, and the spec has changed since: the change may have corrected the cause.
	Outdated bool `json:"outdated,omitempty"`
	// Deleting is whether the Job is being deleted.
	Deleting bool `json:"deleting,omitempty"`
	// Result is the result of a Job that has ended. It is read only while the status does not have it.
	Result *jobResult `json:"result,omitempty"`
}

// jobResult is what the program in a Job has reported.
type jobResult struct {
	ID      string `json:"id,omitempty"`
	Keys    int64  `json:"keys,omitempty"`
	Bytes   int64  `json:"bytes,omitempty"`
	Skipped int64  `json:"skipped,omitempty"`
	Expired int64  `json:"expired,omitempty"`
	Warning string `json:"warning,omitempty"`
	Message string `json:"message,omitempty"` // of a failure
}

// maxStart is how long the Pod of a Job may take to run before the status reports it.
const maxStart = time.Minute

// maxJobMessage is the maximum length of the message of a failed Job, in bytes.
const maxJobMessage = 1000

// observeJobs reads the Jobs that the RedisCluster controls from the cache, sorted by name. It asks the API server for the Pods of a Job
// that has ended and is not in the status: the Pods have the result. It also asks for the Pods of a Job that does not start. An error of
// these requests is in jobFailure, and the sync continues: nothing else depends on backups.
func (c *Controller) observeJobs(ctx context.Context, o *observed) error {
	rdc := o.Object
	existing, err := objectsOf[*batchv1.Job](c.jobs, rdc)
	if err != nil {
		return err
	}
	current := c.sessions.get(rdc)
	o.BackupImage, o.JobRejection = c.backupImage, current.jobRejection
	o.JobRejectedAt = recording.Wall(o.Now, current.jobRejectedAt)
	deletionFailed := false // whether a Job that could not be deleted is still there
	for _, j := range existing {
		id, ok := manifest.BackupOf(rdc, j.Name)
		if !ok || !metav1.IsControlledBy(j, rdc) {
			continue
		}
		found := &job{
			Name: j.Name, UID: j.UID, ResourceVersion: j.ResourceVersion, ID: id, BackupNow: j.Annotations[v1.AnnotationBackupNow],
			Deleting: j.DeletionTimestamp != nil,
		}
		if j.UID == current.jobFailureOf && !found.Deleting {
			deletionFailed = true
		}
		condition := endOf(j)
		if condition != nil {
			found.Ended, found.EndedAt = condition.Type, condition.LastTransitionTime.UTC()
		}
		outdated, runs := o.isOutdated(j, id), ptr.Deref(j.Status.Ready, 0) > 0
		switch {
		case condition != nil && o.needsResult(found):
			found.Result, err = c.resultOf(ctx, rdc, j, condition)
		case condition == nil && !runs && (outdated || o.Now.Sub(j.CreationTimestamp.Time) > maxStart):
			var pods []*corev1.Pod
			if pods, err = c.podsOf(ctx, rdc, j); err == nil && !found.linger(pods, o.Now) {
				found.NotStarting = whyNotStarting(pods)
				found.Outdated = outdated && found.NotStarting != ""
			}
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "Could not ask for the Pods of a Job", "job", j.Name)
			o.JobFailure = err.Error()
		}
		o.Jobs = append(o.Jobs, found)
	}
	if !deletionFailed {
		current.jobFailure, current.jobFailureOf = "", ""
	}
	o.JobFailure = cmp.Or(o.JobFailure, current.jobFailure)
	slices.SortFunc(o.Jobs, func(a, b *job) int { return cmp.Compare(a.Name, b.Name) })
	current.forgetResults(o.Jobs)
	return nil
}

// isOutdated returns whether a new Job would have another Pod spec, or another login. Addresses do not count: they change without a change
// of the spec. It returns false if this is unknown: for a Job of an earlier version of the operator, or while the nodes have several
// logins.
func (o *observed) isOutdated(j *batchv1.Job, id string) bool {
	was := j.Annotations[manifest.AnnotationTemplate]
	if ofRestore := (&job{ID: id}).restores(); ofRestore && o.Object.Spec.RestoreFrom == nil || !ofRestore && o.Object.Spec.Backup == nil {
		return false // The Job is deleted anyway.
	}
	_, same := o.access()
	return was != "" && o.BackupImage != "" && same && was != o.desiredJob(id).Annotations[manifest.AnnotationTemplate]
}

// endOf returns the condition that says how a Job ended; nil while it runs.
func endOf(j *batchv1.Job) *batchv1.JobCondition {
	for i := range j.Status.Conditions {
		c := &j.Status.Conditions[i]
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// restores returns whether the Job belongs to a restore.
func (j *job) restores() bool { return j.ID == "" || j.ID == v1.LatestBackup }

// needsResult returns whether the status does not have the result of a Job.
func (o *observed) needsResult(j *job) bool {
	if j.restores() {
		return o.toBeRestored()
	}
	return o.Object.Status.Backup != nil && o.Object.Status.Backup.Running == j.ID
}

// resultOf returns the result of a Job that has ended: what its container wrote as its termination message. Without a Pod, the condition of
// the Job has the cause of a failure, and the numbers of a success are unknown. The session remembers the result.
func (c *Controller) resultOf(ctx context.Context, rdc *v1.RedisCluster, j *batchv1.Job, end *batchv1.JobCondition) (*jobResult, error) {
	current := c.sessions.get(rdc)
	if known := current.results[j.UID]; known != nil {
		return known, nil
	}
	pods, err := c.podsOf(ctx, rdc, j)
	if err != nil {
		return nil, err
	}
	result := &jobResult{}
	if end.Type == batchv1.JobFailed {
		result.Message = strings.TrimSuffix(end.Reason+": "+end.Message, ": ")
	}
	for _, p := range pods {
		result.read(p, end.Type)
	}
	current.results[j.UID] = result
	return result, nil
}

// podsOf asks the API server for the Pods of a Job, and returns them in the order of their creation.
func (c *Controller) podsOf(ctx context.Context, rdc *v1.RedisCluster, j *batchv1.Job) ([]*corev1.Pod, error) {
	list, err := c.kube.CoreV1().Pods(j.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: klabels.SelectorFromSet(klabels.Set{v1.LabelJob: rdc.Name}).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list Pods of Job %s: %w", j.Name, err)
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], j) {
			pods = append(pods, &list.Items[i])
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return pods, nil
}

// whyNotStarting returns why the container of a Job with these Pods does not run; "" if it runs in any of them, or has ended there, even if
// injected containers wait.
func whyNotStarting(pods []*corev1.Pod) string {
	switch {
	case len(pods) == 0:
		return "there is no Pod: see the events of the Job"
	case slices.ContainsFunc(pods, hasRun):
		return ""
	}
	return waitingFor(pods[len(pods)-1])
}

// maxLingering is how long other containers may run after that of a Job has ended. Then the Job counts as ended.
const maxLingering = 30 * time.Second

// linger sets the end and the result of a Job whose container has ended in one of its Pods, while other containers of that Pod run on. It
// returns false if there is no such Pod.
func (j *job) linger(pods []*corev1.Pod, now time.Time) bool {
	for _, p := range pods {
		end := stateOfJob(p).Terminated
		if end == nil || now.Sub(end.FinishedAt.Time) <= maxLingering || p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil {
			continue
		}
		j.Lingering, j.Ended, j.EndedAt, j.Result = true, batchv1.JobComplete, end.FinishedAt.UTC(), &jobResult{}
		if end.ExitCode != 0 {
			j.Ended, j.Result.Message = batchv1.JobFailed, fmt.Sprintf("exit code %d", end.ExitCode)
		}
		j.Result.read(p, j.Ended)
		return true
	}
	return false
}

// stateOfJob returns the state of the container of a Job in a Pod; empty if the Pod reports none.
func stateOfJob(p *corev1.Pod) corev1.ContainerState {
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == manifest.ContainerJob {
			return s.State
		}
	}
	return corev1.ContainerState{}
}

// hasRun returns whether the container of a Job runs in a Pod, or has ended. A Pod that failed does not count: the next one may not start.
func hasRun(p *corev1.Pod) bool {
	state := stateOfJob(p)
	return p.Status.Phase != corev1.PodFailed && (state.Running != nil || state.Terminated != nil)
}

// read reads the termination message of a Pod, if the Pod ended as its Job did.
func (r *jobResult) read(p *corev1.Pod, ended batchv1.JobConditionType) {
	end := stateOfJob(p).Terminated
	if end == nil || (end.ExitCode == 0) != (ended == batchv1.JobComplete) {
		return
	}
	message := strings.TrimSpace(end.Message)
	switch {
	case ended == batchv1.JobComplete:
		// A message that is not JSON has no numbers: the exit code counts.
		_ = json.Unmarshal([]byte(message[strings.LastIndexByte(message, '\n')+1:]), r)
		r.Message, r.Warning = "", shortened(r.Warning)
	case end.ExitCode == manifest.ExitUsage && strings.HasPrefix(message, glassback.Name+": "):
		r.Message = shortened(fmt.Sprintf("The image %s does not know the command line of the operator: set --backup-image to the image of "+
			"the operator's version. Its answer is: %s", p.Spec.Containers[0].Image, message))
	case message != "":
		r.Message = shortened(message)
	case end.Reason != "":
		r.Message = fmt.Sprintf("%s, exit code %d", end.Reason, end.ExitCode) // Such as OOMKilled.
	}
}

// shortened returns a text in one line of at most maxJobMessage bytes.
func shortened(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if len(text) > maxJobMessage {
		text = strings.ToValidUTF8(text[:maxJobMessage], "") + "…"
	}
	return text
}

// forgetResults drops the results of Jobs that are gone.
func (s *session) forgetResults(jobs []*job) {
	for uid := range s.results {
		if !slices.ContainsFunc(jobs, func(j *job) bool { return j.UID == uid }) {
			delete(s.results, uid)
		}
	}
}
