// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package aliyun

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Observer is called after every request, with the context of the call, the action, the region (as the user wrote it), the class of the
// error ("" for success), and the duration. Several goroutines may call it at once.
type Observer func(ctx context.Context, action, region string, class Class, took time.Duration)

var observers struct {
	sync.RWMutex
	all []Observer
}

// AddObserver adds an Observer of all requests from now on.
func AddObserver(observe Observer) {
	observers.Lock()
	defer observers.Unlock()
	observers.all = append(slices.Clip(observers.all), observe)
}

func (r *Region) observe(ctx context.Context, action string, fail *Error, took time.Duration) {
	class := Class("")
	if fail != nil {
		class = fail.Class
	}
	observers.RLock()
	all := observers.all
	observers.RUnlock()
	for _, observe := range all {
		observe(ctx, action, r.name, class, took)
	}
}
