// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import "testing"

func TestAQueueIsAFlag(t *testing.T) {
	var queue Queue
	for _, name := range []string{"RealFIFO", "DeltaFIFO"} {
		if err := queue.Set(name); err != nil || queue.String() != name || queue.Type() != "queue" {
			t.Errorf("%s: the flag has the value %s and the type %s, error %v", name, queue, queue.Type(), err)
		}
	}
	if err := queue.Set("FIFO"); err == nil || err.Error() != "must be DeltaFIFO or RealFIFO" || queue != DeltaFIFO {
		t.Errorf("after an unknown name, the value is %s, error %v", queue, err)
	}
	if got := Queue(7).String(); got != "Queue(7)" {
		t.Errorf("the text of an unknown queue is %s", got)
	}
}
