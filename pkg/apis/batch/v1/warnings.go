// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Warnings returns what is valid but unwise in a valid MyCronJob with defaults, or nil.
// Each warning begins with the field. kubectl prints them.
//
// There is no warning about Jobs at the same time: concurrencyPolicy Allow is the default.
// There is none about a short ttlSecondsAfterFinished: the operator deletes a Job only after
// its slot is recorded.
func (m *MyCronJob) Warnings() []string {
	var warnings []string
	if m.Spec.MissedRunPolicy == AllMissed && m.Spec.StartingDeadlineSeconds == nil {
		warnings = append(warnings, "spec.missedRunPolicy: All without startingDeadlineSeconds runs up to 100 slots after an outage, however old")
	}
	return warnings
}
