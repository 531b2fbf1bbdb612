// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/must"
)

// object returns a MyCronJob of generation 2. With ready, its status has a condition Ready that is about the generation observed.
func object(name, ready, reason string, observed int64) *unstructured.Unstructured {
	status := map[string]any{}
	if ready != "" {
		status["conditions"] = []any{
			map[string]any{"type": "Ready", "status": ready, "reason": reason, "message": "m", "observedGeneration": observed},
		}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1.SchemeGroupVersion.String(), "kind": "MyCronJob",
		"metadata": map[string]any{"namespace": "default", "name": name, "generation": int64(2)}, "status": status,
	}}
}

func TestPending(t *testing.T) {
	paused, succeeded := object("a", "", "", 0), object(sampleCronJob, "True", "Scheduled", 2)
	paused.SetAnnotations(map[string]string{glassback.AnnotationPaused: "true"})
	must.Succeed(t, unstructured.SetNestedField(succeeded.Object, "2026-01-01T00:00:00Z", "status", "lastSuccessfulTime"))
	for name, test := range map[string]struct {
		object *unstructured.Unstructured
		want   string
	}{
		"it has no status":                   {object("a", "", "", 0), "no condition Ready"},
		"it is Ready":                        {object("a", "True", "Scheduled", 2), ""},
		"it was Ready before it was changed": {object("a", "True", "Scheduled", 1), "Scheduled m"},
		"it is suspended":                    {object("a", "False", "Suspended", 2), ""},
		"it is not Ready":                    {object("a", "False", "JobRejected", 2), "JobRejected m"},
		"it is paused":                       {paused, ""},
		"the sample has no Job yet":          {object(sampleCronJob, "True", "Scheduled", 2), "no Job has completed"},
		"a Job of the sample has completed":  {succeeded, ""},
	} {
		e := &example{kind: kinds[2], name: test.object.GetName(), object: test.object}
		if got := e.pending(); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
		e.gone = true
		if got := e.pending(); got != "Deleted" {
			t.Errorf("%s, and is deleted: got %q", name, got)
		}
	}
}

// TestTheTableIsThatOfTheAPIServer looks at a fake API server, which answers as one does for a CustomResourceDefinition.
func TestTheTableIsThatOfTheAPIServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasPrefix(r.URL.Path, "/apis/batch.wzj.kubebuilder.io/v1/namespaces/default/mycronjobs/"):
			http.Error(w, r.URL.Path, http.StatusInternalServerError)
		case strings.HasSuffix(r.URL.Path, "/gone"):
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
		default:
			raw, _ := object("cron", "True", "Scheduled", 2).MarshalJSON()
			fmt.Fprintf(w, `{"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": [{"name": "Name"}, {"name": "Active"},
				{"name": "Reason"}, {"name": "Missing"}, {"name": "Age"}, {"name": "Next", "priority": 1}],
				"rows": [{"cells": ["cron", 16384, "Scheduled", null, "5s", "x"], "object": %s}]}`, raw)
		}
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	must.Succeed(t, err)
	f := &follower{api: &api{kube: client}, examples: []*example{
		{kind: kinds[2], name: "cron", object: &unstructured.Unstructured{}, applied: time.Now()},
		{kind: kinds[2], name: "gone", object: &unstructured.Unstructured{}, applied: time.Now()},
	}}
	f.look(t.Context())
	want := []string{"MYCRONJOB  AFTER  ACTIVE  REASON     MISSING", "cron       0 s    16384   Scheduled  -", "gone       0 s    Deleted"}
	if got := table(f); f.trouble != "" || !slices.Equal(got, want) {
		t.Errorf("%s\n%s\nwant\n%s", f.trouble, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestStopEndsAChild runs a shell as the child. The keeper is this test binary: see TestMain.
func TestStopEndsAChild(t *testing.T) {
	t.Setenv(keeperEnv, "yes")
	const script = `trap 'echo drained; exit 0' TERM; echo started $WHAT; while :; do sleep 0.1; done`
	env := append(os.Environ(), "WHAT=this")
	op, err := start("the operator", filepath.Join(t.TempDir(), "log"), env, exec.Command("/bin/sh", "-c", script))
	must.Succeed(t, err)
	for !strings.Contains(op.lastLines(5), "started this") {
		time.Sleep(10 * time.Millisecond)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := op.wait(over); !errors.Is(err, context.Canceled) {
		t.Errorf("wait returned %v while the child runs", err)
	}
	op.stop()
	if log := op.lastLines(5); !strings.Contains(log, "drained") {
		t.Errorf("the child was not drained; its log:\n%s", log)
	}
}

const keeperEnv = "GLASSBACK_DEMO_TEST_KEEPER"

func TestMain(m *testing.M) {
	if os.Getenv(keeperEnv) != "" && len(os.Args) > 1 && os.Args[1] == keepCommand {
		os.Exit(keep(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func TestTheOperatorGetsOnlyTheSimulatorsCredentials(t *testing.T) {
	env := []string{"PATH=/bin", "ALIBABA_CLOUD_ACCESS_KEY_ID=mine", "ALIBABA_CLOUD_SECURITY_TOKEN=mine"}
	want := []string{"PATH=/bin", "ALIBABA_CLOUD_ACCESS_KEY_ID=test", "ALIBABA_CLOUD_ACCESS_KEY_SECRET=test"}
	if got := withSimulatorKey(env); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
