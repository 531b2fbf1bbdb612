// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/cert"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
)

// admission sends requests to the validating webhook of Applications, as an API server does: by HTTP/1.1 over TLS on connections that
// stay open, one request after the other on each.
func admission(ctx context.Context, b *bench, participant string, s size) (got sample, err error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, "certificate")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600)); err != nil {
		return nil, err
	}
	args := []string{"--webhook-port", strconv.Itoa(port), "--webhook-cert-path", dir}
	host := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if participant == full {
		args = []string{"--webhook-url", "https://" + host}
	}
	p, err := b.launch(ctx, participant, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	c, err := newCaller("https://" + host + "/validate-app-aiops-org-v1-application")
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if err = c.call(ctx); err == nil {
			break
		}
		if time.Now().After(deadline) {
			return nil, err
		}
	}
	if err := b.waitUntilIdle(ctx, p.cmd.Process.Pid); err != nil {
		return nil, err
	}
	before, err1 := usageOf(p.cmd.Process.Pid)
	latencies, err2 := c.flood(ctx, time.Duration(s.seconds)*time.Second)
	after, err3 := usageOf(p.cmd.Process.Pid)
	return sample{
		perSecond: float64(len(latencies)) / float64(s.seconds), p50: millis(percentile(latencies, 50)), p99: millis(percentile(latencies, 99)),
		operatorCPU: millis(after.cpu-before.cpu) / float64(max(1, len(latencies))), peakRSS: after.peak / 1e6,
	}, errors.Join(err1, err2, err3)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// caller sends one request again and again.
type caller struct {
	client http.Client
	url    string
	body   []byte
}

func newCaller(url string) (*caller, error) {
	app := &v1.Application{ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: "default"}, Spec: v1.ApplicationSpec{Image: "nginx:1.27"}}
	app.APIVersion, app.Kind = v1.SchemeGroupVersion.String(), "Application"
	app.Default()
	object, err1 := json.Marshal(app)
	kind := v1.SchemeGroupVersion.WithKind("Application")
	review := admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		UID: "0b2e1c5a-1a2e-4123-8a1e-123456789012", Operation: admissionv1.Create, Name: "app", Namespace: "default",
		Kind:     metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind},
		Resource: metav1.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: "applications"},
		Object:   runtime.RawExtension{Raw: object},
	}}
	review.APIVersion, review.Kind = admissionv1.SchemeGroupVersion.String(), "AdmissionReview"
	body, err2 := json.Marshal(review)
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, // The certificates of the participants are self-signed.
		MaxIdleConnsPerHost: writers,
	}
	return &caller{client: http.Client{Transport: transport, Timeout: 10 * time.Second}, url: url, body: body}, errors.Join(err1, err2)
}

// call returns an error unless the webhook admits the object.
func (c *caller) call(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(c.body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && !bytes.Contains(text, []byte(`"allowed":true`)) {
		err = fmt.Errorf("the webhook answered %s: %s", response.Status, text)
	}
	return err
}

// flood sends requests for the given duration, and returns the latency of each.
func (c *caller) flood(ctx context.Context, duration time.Duration) ([]time.Duration, error) {
	var mu sync.Mutex
	var latencies []time.Duration
	end := time.Now().Add(duration)
	err := each(ctx, writers, func(ctx context.Context, _ int) error {
		var own []time.Duration
		for time.Now().Before(end) {
			began := time.Now()
			if err := c.call(ctx); err != nil {
				return err
			}
			own = append(own, time.Since(began))
		}
		mu.Lock()
		defer mu.Unlock()
		latencies = append(latencies, own...)
		return nil
	})
	return latencies, err
}
