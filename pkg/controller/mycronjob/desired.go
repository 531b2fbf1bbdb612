/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

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

// slotJob returns the Job of slot s, which is made so much after its time.
func slotJob(mcj *v1.MyCronJob, s slot, late time.Duration) *batchv1.Job {
	job := jobFrom(mcj, slotName(mcj, s))
	job.Annotations[v1.AnnotationSlot] = strconv.FormatInt(int64(s), 10)
	job.Annotations[v1.AnnotationSkew] = strconv.FormatInt(late.Milliseconds(), 10)
	return job
}

func slotName(mcj *v1.MyCronJob, s slot) string { return fmt.Sprintf("%s-%d", mcj.Name, s) }

// manualJob returns the Job that a value of the run-now annotation asks for. The
// same value gives the same name, which has no more characters than a slot's.
func manualJob(mcj *v1.MyCronJob, value string) *batchv1.Job {
	h := fnv.New64a()
	_, _ = h.Write([]byte(value)) // never fails, says hash.Hash
	job := jobFrom(mcj, fmt.Sprintf("%s-r%09x", mcj.Name, h.Sum64()>>28))
	job.Annotations[v1.AnnotationRunNow] = value
	return job
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
				*metav1.NewControllerRef(mcj, v1.SchemeGroupVersion.WithKind("MyCronJob")),
			},
		},
		Spec: *template.Spec.DeepCopy(),
	}
	maps.Copy(job.Labels, template.Labels)
	maps.Copy(job.Annotations, template.Annotations)
	delete(job.Annotations, v1.AnnotationSlot)
	delete(job.Annotations, v1.AnnotationRunNow)
	job.Labels[v1.LabelMyCronJob] = mcj.Name
	// See doc.go: a Job must not vanish before its slot is recorded.
	job.Spec.TTLSecondsAfterFinished = nil
	return job
}
