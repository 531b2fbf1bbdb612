/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// With any verbosity, nobody finds in the log what a Secret holds. The same request without
// discretion shows that the test would see it.
func TestADiscreetLoggerShowsNoSecret(t *testing.T) {
	config := &rest.Config{Host: "http://api", QPS: -1, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
			Body: io.NopCloser(strings.NewReader(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"ca"},"data":{"tls.key":"c2VjcmV0"}}`)),
		}, nil
	})}
	client := kubernetes.NewForConfigOrDie(config)
	get := func(wrap func(klog.Logger) klog.Logger) string {
		var log bytes.Buffer
		logger := wrap(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log), textlogger.Verbosity(10)))).WithName("a").WithValues("b", "c")
		logger.V(wireVerbosity - 1).Info("Less than that is logged")
		if _, err := client.CoreV1().Secrets("x").Get(klog.NewContext(t.Context(), logger), "ca", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		return log.String()
	}
	const secret = "c2VjcmV0"
	if log := get(func(l klog.Logger) klog.Logger { return l }); !strings.Contains(log, secret) {
		t.Errorf("without discretion the log should show it:\n%s", log)
	}
	log := get(discreet)
	if strings.Contains(log, secret) {
		t.Errorf("the log shows it:\n%s", log)
	}
	if !strings.Contains(log, "Less than that is logged") || !strings.Contains(log, "discreet_test.go:") {
		t.Errorf("the log has not the rest, or not where it comes from:\n%s", log)
	}
}
