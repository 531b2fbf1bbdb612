// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"runtime"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/must"
)

// BenchmarkReconcile compares a child that is as desired with the desired state.
func BenchmarkReconcile(b *testing.B) {
	for _, bench := range []struct {
		name string
		// next changes the next version of the child that the cache shows; nil if the cache shows the same object each time.
		next func(object *corev1.ConfigMap, version int)
	}{
		{name: "same-object"},
		{name: "new-version", next: func(object *corev1.ConfigMap, version int) { object.ResourceVersion = strconv.Itoa(version) }},
		{name: "other-content", next: func(object *corev1.ConfigMap, version int) { object.Data["theirs"] = strconv.Itoa(version) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			f := newFixture()
			apply(f.server, greeting("a", "1"))
			f.shown.CatchUp()
			object := f.Observe(f.owner, name).Object
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if bench.next != nil {
					object = object.DeepCopy()
					bench.next(object, 1000+n)
					must.Succeed(b, f.cache.Replace([]any{object}, ""))
				}
				change := f.Reconcile(f.owner, name, f.Observe(f.owner, name), false, Exactly(greeting("a", "1")))
				if change.Verb != Nothing {
					b.Fatalf("the verb is %q, want nothing to change", change.Verb)
				}
			}
		})
	}
}

// BenchmarkMemory measures the memory that Owners takes for one owner with three children.
func BenchmarkMemory(b *testing.B) {
	const owners = 5000
	kinds := []string{"Deployment", "Service", "Ingress"}
	for name, remember := range map[string]func(o *Owners, owner *metav1.ObjectMeta, kind string){
		"repairs": func(o *Owners, owner *metav1.ObjectMeta, kind string) {
			o.repairs.applied(owner, kind, checksum{}, checksumOf(greeting("a", owner.Name+kind)))
		},
		"checks": func(o *Owners, owner *metav1.ObjectMeta, kind string) {
			o.checks.replace(cache.MetaObjectToName(owner), func(*check) bool { return false }, &check{kind: kind, name: owner.Name})
		},
	} {
		b.Run(name, func(b *testing.B) {
			var held float64
			for b.Loop() {
				o := NewOwners("Greeter", "of", nil, newFixture().clock)
				before := liveHeap()
				for n := range owners {
					of := owner.DeepCopy()
					of.Name = "sample-" + strconv.Itoa(n)
					for _, kind := range kinds {
						remember(o, of, kind)
					}
				}
				held += float64(liveHeap()-before) / owners
				o.Forget(cache.MetaObjectToName(owner))
			}
			b.ReportMetric(held/float64(b.N), "heldB/owner")
		})
	}
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
