// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mycronjob

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/recording"
)

// Decisions holds decide and the types of its records, so that glassback replay can decide again. decide also reads the time zone
// database, which no record contains: a replay uses the database of the program that replays.
var Decisions = recording.NewKind(kind.Kind, recordedPlan{}, restore, decide)

// recordedObserved is the form of observed in a record.
type recordedObserved struct {
	Now    time.Time      `json:"now"`
	Object *v1.MyCronJob  `json:"object"`
	Jobs   []*batchv1.Job `json:"jobs"` // without spec
	Newest slot           `json:"newest"`
}

// recordedPlan is the form of a plan in a record. It holds the names of Jobs, and slots as Unix seconds.
type recordedPlan struct {
	Invalid   string          `json:"invalid,omitempty"`
	Schedule  string          `json:"schedule,omitempty"`
	Accounted slot            `json:"accounted"`
	Missed    int64           `json:"missed,omitempty"`
	Suspended bool            `json:"suspended,omitempty"`
	Replace   []string        `json:"replace,omitempty"`
	Manual    string          `json:"manual,omitempty"`
	Run       []slot          `json:"run,omitempty"`
	Held      bool            `json:"held,omitempty"`
	Expired   []string        `json:"expired,omitempty"`
	Next      slot            `json:"next,omitempty"`
	Wait      metav1.Duration `json:"wait"`
}

// Record implements recording.Observed.
func (o *observed) Record() any {
	r := recordedObserved{Now: o.now.UTC(), Object: o.mcj, Newest: o.newest, Jobs: make([]*batchv1.Job, 0, len(o.jobs))}
	for _, job := range o.jobs {
		r.Jobs = append(r.Jobs, &batchv1.Job{ObjectMeta: job.ObjectMeta, Status: job.Status})
	}
	return r
}

// Record implements recording.Plan.
func (p plan) Record(*observed) any {
	return recordedPlan{
		p.invalid, p.table.words, p.accounted, p.missed, p.suspended, namesOf(p.replace), p.manual, p.run, p.held, namesOf(p.expired), p.next,
		metav1.Duration{Duration: p.wait},
	}
}

func namesOf(jobs []*batchv1.Job) []string {
	var names []string
	for _, job := range jobs {
		names = append(names, job.Name)
	}
	return names
}

func restore(r *recordedObserved) *observed { return &observed{r.Object, r.Jobs, r.Newest, r.Now} }
