// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/glassback/glassback/pkg/must"
)

func TestAReadOnlyConnectionSendsNoWrite(t *testing.T) {
	var sent []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Method)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind": "ConfigMapList", "apiVersion": "v1", "items": []}`))
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL, QPS: -1}
	config.Wrap(ReadOnly)
	c, err := New(config)
	must.Succeed(t, err)
	ctx, maps := t.Context(), c.Kube.CoreV1().ConfigMaps("default")
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	dryRun := []string{metav1.DryRunAll}
	_, created := maps.Create(ctx, object, metav1.CreateOptions{})
	_, updated := maps.Update(ctx, object, metav1.UpdateOptions{})
	_, patched := maps.Patch(ctx, "a", types.MergePatchType, []byte("{}"), metav1.PatchOptions{DryRun: dryRun})
	for verb, err := range map[string]error{
		"create": created, "update": updated, "patch": patched, "delete": maps.Delete(ctx, "a", metav1.DeleteOptions{}),
		"deletecollection": maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
	} {
		if err == nil || !strings.Contains(err.Error(), "/configmaps") || !strings.Contains(err.Error(), "this client only reads") {
			t.Errorf("%s: error %v", verb, err)
		}
	}
	if len(sent) > 0 {
		t.Errorf("the API server got %q", sent)
	}
	if _, err := maps.List(ctx, metav1.ListOptions{}); err != nil || len(sent) != 1 || sent[0] != http.MethodGet {
		t.Errorf("a list: error %v, requests %q", err, sent)
	}
}
