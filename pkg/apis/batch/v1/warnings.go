/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1

// Warnings returns what is legal but unwise about a valid MyCronJob with defaults, each
// beginning with the field; nil for nothing. kubectl shows them.
//
// Jobs that pile up are none of it: concurrencyPolicy Allow is the default, and says so.
// Nor is a short ttlSecondsAfterFinished, which waits until the slot is recorded.
func (m *MyCronJob) Warnings() []string {
	var warnings []string
	if m.Spec.MissedRunPolicy == AllMissed && m.Spec.StartingDeadlineSeconds == nil {
		warnings = append(warnings, "spec.missedRunPolicy: All without startingDeadlineSeconds runs up to 100 slots after an outage, however old")
	}
	return warnings
}
