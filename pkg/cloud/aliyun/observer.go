// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package aliyun

import (
	"context"
	"time"
)

// Observer is called after every request, with the context of the call, the action, the region (as the user wrote it), the class of the
// error ("" for success), and the duration. Several goroutines may call it at once.
type Observer func(ctx context.Context, action, region string, class Class, took time.Duration)

func (r *Region) observe(ctx context.Context, action string, fail *Error, took time.Duration) {
	class := Class("")
	if fail != nil {
		class = fail.Class
	}
	for _, observe := range r.cloud.observers {
		observe(ctx, action, r.name, class, took)
	}
}
