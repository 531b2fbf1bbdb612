// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
)

// metadata is the metadata that an API server adds to a typical object.
const metadata = `"uid":"0b2e1c5a-1a2e-4123-8a1e-123456789012","creationTimestamp":"2026-01-01T00:00:00Z","generation":1,` +
	`"managedFields":[{"manager":"kubectl-client-side-apply","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z",` +
	`"fieldsType":"FieldsV1",` +
	`"fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:kubectl.kubernetes.io/last-applied-configuration":{}}},` +
	`"f:spec":{".":{},"f:addr":{},"f:size":{},"f:image":{}}}}],`

const (
	benchCluster = `{"addr":"192.168.1.10:6379","size":6,"replicasPerMaster":1,"image":"redis:7","storage":{"size":"1Gi"},` +
		`"resources":{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"memory":"256Mi"}},` +
		`"config":{"maxmemory":"200mb","maxmemory-policy":"allkeys-lru"}}`
	benchApplication = `{"image":"nginx:1.27","replicas":3,"port":80,` +
		`"env":[{"name":"A","value":"b"},{"name":"C","valueFrom":{"secretKeyRef":{"name":"d","key":"e"}}}],` +
		`"resources":{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"memory":"256Mi"}},` +
		`"probes":{"readiness":{"httpGet":{"path":"/","port":"http"}}},` +
		`"service":{"enabled":true,"type":"ClusterIP"},"ingress":{"enabled":true,"className":"nginx","host":"a.example.com","path":"/"},` +
		`"pdb":{"maxUnavailable":1}}`
)

// BenchmarkReview measures one request to validate an update.
func BenchmarkReview(b *testing.B) {
	for name, spec := range map[string]string{"RedisCluster": benchCluster, "Application": benchApplication} {
		b.Run(name, func(b *testing.B) { reviews(b, "validate", name, spec) })
	}
}

// BenchmarkMutate measures one request to default an object. One object needs no change, the other needs two fields.
func BenchmarkMutate(b *testing.B) {
	b.Run("settled", func(b *testing.B) { reviews(b, "mutate", "RedisCluster", benchCluster) })
	b.Run("patch", func(b *testing.B) {
		reviews(b, "mutate", "RedisCluster",
			string(bytes.Replace([]byte(benchCluster), []byte(`"size":6,"replicasPerMaster":1`), []byte(`"size":3`), 1)))
	})
}

func reviews(b *testing.B, verb, name, spec string) {
	object := sample(b, name, spec)
	object = string(bytes.Replace([]byte(object), []byte(`"metadata":{`), []byte(`"metadata":{`+metadata), 1))
	text := body(b, ask(b, name, object, object))
	h := NewHandler(fake.NewClientset())
	path := Path(verb, kindOf(b, name).GroupVersionKind)
	if w := post(h, path, "application/json", bytes.NewReader(text)); !bytes.Contains(w.Body.Bytes(), []byte(`"allowed":true`)) {
		b.Fatalf("status %d: %s", w.Code, w.Body)
	}
	request := httptest.NewRequest(http.MethodPost, path, http.NoBody)
	request.Header.Set("Content-Type", "application/json")
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		request.Body = readCloser{bytes.NewReader(text)}
		h.ServeHTTP(discard{}, request)
	}
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

// discard is a client that ignores the answer.
type discard struct{}

func (discard) Header() http.Header            { return http.Header{} }
func (discard) Write(text []byte) (int, error) { return len(text), nil }
func (discard) WriteHeader(int)                {}
