// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import "k8s.io/utils/ptr"

// DefaultIntervalSeconds is the time between two slots, in seconds, if neither
// intervalSeconds nor schedule is set.
const DefaultIntervalSeconds = 5

// Default sets the defaults of the schema, for objects without them.
//
// It does not set intervalSeconds: with a stored 5, a later manifest with a schedule
// would be invalid, because both fields would be set. Use Interval instead.
func (m *MyCronJob) Default() {
	s := &m.Spec
	if s.Suspend == nil {
		s.Suspend = ptr.To(false)
	}
	if s.ConcurrencyPolicy == "" {
		s.ConcurrencyPolicy = AllowConcurrent
	}
	if s.MissedRunPolicy == "" {
		s.MissedRunPolicy = LatestMissed
	}
	if s.SuccessfulJobsHistoryLimit == nil {
		s.SuccessfulJobsHistoryLimit = ptr.To[int32](3)
	}
	if s.FailedJobsHistoryLimit == nil {
		s.FailedJobsHistoryLimit = ptr.To[int32](1)
	}
}

// Interval returns the time between two slots, in seconds. It has no meaning if schedule
// is set.
func (s *MyCronJobSpec) Interval() int32 {
	return ptr.Deref(s.IntervalSeconds, DefaultIntervalSeconds)
}
