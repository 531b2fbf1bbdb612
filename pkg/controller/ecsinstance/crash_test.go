// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
)

// TestDeathAfterEveryStep: the operator dies of each of its writes and calls in turn, whose
// answer it never gets, while it makes an instance and while it deletes it.
func TestDeathAfterEveryStep(t *testing.T) {
	for n := range 30 {
		t.Run(strconv.Itoa(n+1), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				defer w.finish()
				live := func(until string, done func() bool) {
					l := w.start()
					l.die(n + 1)
					time.Sleep(time.Minute)
					l.end()
					w.start()
					w.within(15*time.Minute, until, done)
				}
				w.apply("vm", func(e *v1alpha1.ECSInstance) {
					e.Spec.Tags, e.Spec.SecurityGroupIDs = map[string]string{"team": "a"}, []string{"sg-a", "sg-b"}
				})
				live("it to be Ready", func() bool { return w.isReady("vm") })
				w.onlyInstance()
				if all := w.cloud.Instances(); len(all) > 1 {
					t.Errorf("%d instances were made", len(all))
				}
				for _, l := range w.operators {
					l.end()
				}
				w.delete("vm")
				live("it to be gone", func() bool { return w.get("vm") == nil })
				if alive := w.alive(""); len(alive) > 0 {
					t.Errorf("there still is %+v", alive)
				}
			})
		})
	}
}

// TestCacheThatIsBehind: a write of another owner that the cache does not show yet keeps the
// operator from asking for an instance that no object wants any more.
func TestCacheThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.finish()
		var late atomic.Bool
		w.api.Lag = func(string) time.Duration {
			if late.Load() {
				return 2 * time.Minute
			}
			return 0
		}
		w.start()
		w.deleteSecret("aliyun")
		w.apply("vm")
		w.waitForReason("vm", reasonSecretMissing)
		time.Sleep(time.Minute)
		late.Store(true)
		w.edit("vm", setType("ecs.g6.xlarge"))
		time.Sleep(time.Second)
		late.Store(false)
		w.secret("aliyun", testID, testSecret)
		time.Sleep(100 * time.Second)
		if w.count("find") == 0 || w.count("update status") < 2 {
			t.Errorf("it did not even try\n%s", w.describe())
		}
		if n := w.count("create"); n > 0 {
			t.Errorf("by an older version of the object, an instance was made")
		}
		w.ready("vm")
		if i := w.onlyInstance(); i.Type != "ecs.g6.xlarge" || w.count("create") != 1 {
			t.Errorf("it is %+v, after %d calls", i, w.count("create"))
		}
	})
}
