// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mycronjob

import (
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
)

// slotJob returns the Job of slot s. late is the time from the start of the slot to the creation of the Job.
func slotJob(mcj *v1.MyCronJob, s slot, late time.Duration) *batchv1.Job {
	job := jobFrom(mcj, slotName(mcj, s))
	job.Annotations[v1.AnnotationSlot] = strconv.FormatInt(int64(s), 10)
	job.Annotations[v1.AnnotationSkew] = strconv.FormatInt(late.Milliseconds(), 10)
	return job
}

func slotName(mcj *v1.MyCronJob, s slot) string { return fmt.Sprintf("%s-%d", mcj.Name, s) }

// manualJob returns the Job that a value of the run-now annotation requests. Its name is not longer than the name of a
// slot's Job. The name of the first Job contains a hash of the value. The name of a later Job contains its number: so a
// value that is set again after another one gets a new Job, and two later Jobs with the same number cannot exist at the same time.
func manualJob(mcj *v1.MyCronJob, value string) *batchv1.Job {
	name := hashName(mcj.Name, value)
	if number := runNumber(mcj) + 1; number > 1 {
		name = fmt.Sprintf("%s-run%d", mcj.Name, number)
	}
	job := jobFrom(mcj, name)
	job.Annotations[v1.AnnotationRunNow] = value
	return job
}

// hashName returns the name of the first run-now Job. Versions before status.lastRunNowNumber gave all run-now Jobs such names.
func hashName(cron, value string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(value)) // hash.Hash documents that Write never fails
	return fmt.Sprintf("%s-r%09x", cron, h.Sum64()>>28)
}

// runNumber returns the number of the latest recorded run-now Job; 0 if there is none. An older version of the operator
// wrote a status with lastRunNow but without a number. It counts as 1: that version gave every run-now Job a name with a hash, as only the
// first Job has now.
func runNumber(mcj *v1.MyCronJob) int64 {
	if mcj.Status.LastRunNowNumber == 0 && mcj.Status.LastRunNow != "" {
		return 1
	}
	return mcj.Status.LastRunNowNumber
}

func jobFrom(mcj *v1.MyCronJob, name string) *batchv1.Job {
	template := &mcj.Spec.JobTemplate
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Namespace:   mcj.Namespace,
			Labels:      map[string]string{},
			Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(mcj, kind),
			},
		},
		Spec: *template.Spec.DeepCopy(),
	}
	maps.Copy(job.Labels, template.Labels)
	maps.Copy(job.Annotations, template.Annotations)
	delete(job.Annotations, v1.AnnotationSlot)
	delete(job.Annotations, v1.AnnotationRunNow)
	job.Labels[v1.LabelMyCronJob] = mcj.Name
	// Otherwise the TTL controller could delete the Job before it is recorded: see doc.go.
	job.Spec.TTLSecondsAfterFinished = nil
	return job
}
