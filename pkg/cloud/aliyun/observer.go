/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package aliyun

import (
	"sync/atomic"
	"time"
)

// Observer is told of every request that was sent: what for, to which region (as a user has
// written it), what came of it ("" if it was carried out), and after how long. It may be
// called by many goroutines at once.
type Observer func(action, region string, class Class, took time.Duration)

var observer atomic.Pointer[Observer]

// SetObserver has observe told of all requests from now on.
func SetObserver(observe Observer) { observer.Store(&observe) }

func (r *Region) observe(action string, fail *Error, took time.Duration) {
	observe := observer.Load()
	if observe == nil {
		return
	}
	class := Class("")
	if fail != nil {
		class = fail.Class
	}
	(*observe)(action, r.name, class, took)
}
