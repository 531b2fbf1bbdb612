// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	typed "github.com/glassback/glassback/pkg/generated/clientset/versioned/typed/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/pipeline"
)

// shortcut is a client whose writes show in the cache at once.
type shortcut struct {
	versioned.Interface
	typed.AlibabacloudV1alpha1Interface
	typed.ECSInstanceInterface
	store  cache.Store
	writes *int
}

func (s shortcut) AlibabacloudV1alpha1() typed.AlibabacloudV1alpha1Interface { return s }

func (s shortcut) ECSInstances(string) typed.ECSInstanceInterface { return s }

func (s shortcut) UpdateStatus(_ context.Context, ecs *v1alpha1.ECSInstance, _ metav1.UpdateOptions) (*v1alpha1.ECSInstance, error) {
	*s.writes++
	stored := ecs.DeepCopy()
	stored.ResourceVersion = fmt.Sprint(100 + *s.writes)
	return stored, s.store.Update(stored)
}

// known is a fakeCloud with an account.
type known struct{ *fakeCloud }

func (known) Account(context.Context) (string, error) { return testAccount, nil }

// bench returns a controller with a settled object, and how often it has written.
func bench(b *testing.B) (*Controller, *int) {
	b.Helper()
	informer := pipeline.New(pipeline.Config{
		Resource: "ecsinstances", Object: &v1alpha1.ECSInstance{}, Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	must.Succeed(b, informer.GetIndexer().Add(settledECS()))
	writes := new(int)
	l := &fakeCloud{instances: map[string]aliyun.Instance{testInstance: *seen().instance}}
	c, err := New(Config{
		Client: shortcut{store: informer.GetStore(), writes: writes}, ECSInstances: source{informer},
		Recorder: &record.FakeRecorder{}, Clock: clock.RealClock{},
		Secret: func(string, string) cache.SharedIndexInformer {
			return pipeline.New(pipeline.Config{Resource: "secrets", Object: &corev1.Secret{}})
		},
		Open: func(*aliyun.AccessKey, string) Cloud { return known{l} },
	})
	must.Succeed(b, err)
	c.secrets.begin(b.Context())
	c.fleets.begin(b.Context())
	b.Cleanup(c.fleets.end)
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, err := c.Sync(b.Context(), key("vm")); err != nil {
			b.Fatal(err)
		}
		s := c.fleets.subscribe(beijing, testInstance, key("vm"))
		if s != nil && *writes > 0 {
			return c, writes
		}
		if time.Now().After(deadline) {
			b.Fatal("it does not settle")
		}
	}
}

// BenchmarkSettledSync is a sync of an object for which there is nothing to do.
func BenchmarkSettledSync(b *testing.B) {
	c, writes := bench(b)
	before := *writes
	b.ReportAllocs()
	for b.Loop() {
		if wait, err := c.Sync(b.Context(), key("vm")); err != nil || wait != 0 {
			b.Fatal(wait, err)
		}
	}
	if *writes != before {
		b.Fatalf("it wrote %d times", *writes-before)
	}
}

// BenchmarkDecide measures the part of it that decides and computes the status.
func BenchmarkDecide(b *testing.B) {
	o := seen()
	b.ReportAllocs()
	for b.Loop() {
		p := decide(o)
		statusOf(o, p, newOutcome(o, p))
	}
}

// tenThousand is a fleet of which a hundred are due in that many.
func tenThousand(now time.Time, due time.Duration) *fleet {
	f := &fleet{targets: map[string]*target{}, clock: fixed(now)}
	for n := range 10_000 {
		in := time.Duration(n) * time.Millisecond
		if n >= maxBatch {
			in += time.Second
		}
		f.targets[fmt.Sprintf("i-%018d", n)] = &target{due: now.Add(due + in)}
	}
	return f
}

// BenchmarkFleetNext measures how a fleet of 10,000 finds the next hundred instances to poll, which happens a hundred times in a minute.
func BenchmarkFleetNext(b *testing.B) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, due := range map[string]time.Duration{"due": -time.Minute, "waiting": time.Minute} {
		b.Run(name, func(b *testing.B) {
			f := tenThousand(now, due)
			b.ReportAllocs()
			for b.Loop() {
				if ids, _ := f.next(now.Add(-time.Hour)); (len(ids) == maxBatch) != (name == "due") {
					b.Fatalf("%d are next", len(ids))
				}
			}
		})
	}
}
