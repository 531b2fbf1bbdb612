// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"strconv"
	"testing"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/recording"
)

// BenchmarkSync measures a sync that writes nothing.
func BenchmarkSync(b *testing.B) {
	version := func(child object, n int) { child.SetResourceVersion(strconv.Itoa(100_000 + n)) }
	content := func(child object, n int) { child.SetAnnotations(map[string]string{"example.com/n": strconv.Itoa(n)}) }
	for _, bench := range []struct {
		name string
		app  []func(*v1.Application)
		// next changes the next version of the Deployment that the cache shows; nil if the cache shows the same object each time.
		next func(child object, n int)
	}{
		{"three-children/same-objects", nil, nil},
		{"three-children/new-version-of-the-Deployment", nil, version},
		{"three-children/new-annotation-of-the-Deployment", nil, content},
		{"five-children/same-objects", []func(*v1.Application){full}, nil},
		{"five-children/new-version-of-the-Deployment", []func(*v1.Application){full}, version},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := newServer(application(bench.app...)).settle(b)
			o := s.connect()
			deployment := fakeapi.WithOwnFields(s.child("deployments"))
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if bench.next != nil {
					deployment = deployment.DeepCopyObject().(object)
					bench.next(deployment, n)
					must.Succeed(b, o.stores["deployments"].Update(deployment))
				}
				if _, err := o.Sync(b.Context(), key); err != nil || len(s.Requests()) > 0 {
					b.Fatalf("requests %q, error %v; want none", s.requests(0), err)
				}
			}
		})
	}
}

// discard is a sink that encodes what it gets, as a Recorder does.
type discard struct{ bytes int }

func (*discard) Wants() bool { return true }

func (d *discard) Decided(observed, plan any) {
	d.bytes += len(recording.Encode(observed)) + len(recording.Encode(plan))
}

// BenchmarkRecord measures what --record adds to a sync that writes nothing.
func BenchmarkRecord(b *testing.B) {
	for name, options := range map[string][]func(*v1.Application){"three-children": nil, "five-children": {full}} {
		b.Run(name, func(b *testing.B) {
			o := newServer(application(options...)).settle(b).connect()
			sink := &discard{}
			ctx := recording.WithSink(b.Context(), sink)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := o.Sync(ctx, key); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(sink.bytes)/float64(b.N), "B/record")
		})
	}
}
