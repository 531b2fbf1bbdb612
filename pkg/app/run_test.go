// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/pkg/check"
	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/trace"
)

func TestRunAnswersWithoutACluster(t *testing.T) {
	for name, test := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"help":       {[]string{"--help"}, 0, "Usage:\n  glassback [flags]", ""},
		"version":    {[]string{"--version"}, 0, "glassback dev (commit unknown", ""},
		"a bad flag": {[]string{"--nope"}, 2, "", "glassback: unknown flag: --nope: see glassback --help\n"},
		"no such kubecfg": {
			[]string{"--kubeconfig=/does/not/exist"}, 1, "", "glassback: cannot read the kubeconfig, give --kubeconfig a file that is there:",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { // Else a second run of the test could not configure logging.
				if err := logsapi.ResetForTest(nil); err != nil {
					t.Error(err)
				}
			})
			var stdout, stderr bytes.Buffer
			if code := command.Execute(t.Context(), New(), test.args, &stdout, &stderr); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if !strings.HasPrefix(stderr.String(), test.stderr) || strings.Count(stderr.String(), "\n") > 1 {
				t.Errorf("stderr %q, want one line that begins with %q", stderr.String(), test.stderr)
			}
			if !strings.Contains(stdout.String(), test.stdout) {
				t.Errorf("stdout %q, want %q in it", stdout.String(), test.stdout)
			}
		})
	}
}

func TestEveryStageIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: 6})
		stages := trace.NewRecorder(10)
		stop := logStages(logger, stages)
		stages.Report(trace.Event{Stage: trace.Wire, Object: trace.Object{Name: "one"}})
		time.Sleep(2 * logEvery)
		stages.Report(trace.Event{Stage: trace.Queue, Object: trace.Object{Name: "before-the-end"}})
		stop()
		if len(lines) != 2 || !strings.Contains(lines[0], `"seq"=1`) || !strings.Contains(lines[1], `"seq"=2`) {
			t.Errorf("got %q, want a line for each stage", lines)
		}
	})
}

// checked returns the self-check of an operator, and a function that sets what its account is not allowed to create.
func checked(t *testing.T, args []string, objects ...runtime.Object) (*selfCheck, func(denied string)) {
	t.Helper()
	o, err := options.Parse(args)
	must.Succeed(t, err)
	kube, denied := fake.NewClientset(objects...), atomic.Value{}
	kube.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		review.Status.Allowed = review.Spec.ResourceAttributes.Resource != denied.Load()
		return true, review, nil
	})
	sections := check.AtStart(&clients.Clients{Time: &clients.ServerTime{}, Kube: kube}, o)
	for i := range sections { // The fake has no version.
		sections[i].Checks = slices.DeleteFunc(sections[i].Checks, func(c check.Check) bool { return c.ID == "cluster/version" })
	}
	return &selfCheck{sections: sections}, func(resource string) { denied.Store(resource) }
}

func TestTheSelfCheckOfAnOperator(t *testing.T) {
	rival := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "glassback-system", Name: "glassback"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("other"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NewMicroTime(time.Now())),
		},
	}
	withMetrics := []string{"--metrics-bind-address=:8443"}
	for name, test := range map[string]struct {
		args    []string
		denied  string
		objects []runtime.Object
		ready   string // the error
		rival   check.State
	}{
		"all is well": {withMetrics, "", nil, "", check.OK},
		"a permission is missing": {
			withMetrics, "tokenreviews", nil,
			"permissions/*/tokenreviews.authentication.k8s.io: create tokenreviews.authentication.k8s.io in the cluster: " +
				"not allowed to create; needed by /metrics: ", check.OK,
		},
		"a permission is missing that it does not need": {nil, "tokenreviews", nil, "", check.OK},
		"another operator leads":                        {nil, "", []runtime.Object{rival}, "", check.Warning},
	} {
		t.Run(name, func(t *testing.T) {
			s, deny := checked(t, test.args, test.objects...)
			deny(test.denied)
			s.once(klog.NewContext(t.Context(), logr.Discard()))
			err := s.ready(t.Context())
			if (err == nil) != (test.ready == "") || err != nil && !strings.HasPrefix(err.Error(), test.ready) {
				t.Errorf("ready: %v, want %q", err, test.ready)
			}
			outcomes := s.last.Outcomes()
			i := slices.IndexFunc(outcomes, func(o check.Outcome) bool { return o.ID == "lease/rival" })
			if i < 0 || outcomes[i].State != test.rival {
				t.Errorf("got %+v, want lease/rival %s", outcomes, test.rival)
			}
		})
	}
}

// TestTheSelfCheckRunsUntilAllIsWell grants a permission after a minute. The checks run every half a minute until then, and no more after.
func TestTheSelfCheckRunsUntilAllIsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, deny := checked(t, []string{"--metrics-bind-address=:8443"})
		var runs atomic.Int32
		s.sections = append(s.sections, check.Section{Checks: []check.Check{{ID: "count", Run: func(context.Context) check.Result {
			runs.Add(1)
			return check.Result{State: check.OK}
		}}}})
		ctx := klog.NewContext(t.Context(), logr.Discard())
		deny("tokenreviews")
		s.once(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.run(ctx)
		}()
		time.Sleep(2*recheckInterval + time.Second)
		synctest.Wait()
		if s.ready(ctx) == nil || runs.Load() != 3 {
			t.Errorf("it is ready without a permission, or has run %d times", runs.Load())
		}
		deny("")
		<-ended
		if err := s.ready(ctx); err != nil || runs.Load() != 4 {
			t.Errorf("once all is well, it says %v, and has run %d times", err, runs.Load())
		}
	})
}

// TestTheManager is about the Deployment that is shipped.
func TestTheManager(t *testing.T) {
	deployment := &appsv1.Deployment{}
	readManifest(t, "manager/deployment.yaml", deployment)
	container := deployment.Spec.Template.Spec.Containers[0]
	o, err := options.Parse(container.Args)
	must.Succeed(t, err)
	if !o.Lease.Elect || !o.Webhooks || !o.MetricsSecure {
		t.Error("two replicas without leader election, no webhooks, or metrics without authentication")
	}
	for name, address := range map[string]string{
		"webhook": net.JoinHostPort("", strconv.Itoa(o.WebhookPort)), "metrics": o.MetricsAddress, "probes": o.ProbeAddress,
	} {
		found := false
		for _, port := range container.Ports {
			found = found || port.Name == name && address == net.JoinHostPort("", strconv.Itoa(int(port.ContainerPort)))
		}
		if !found {
			t.Errorf("%s are served at %s, and the container's ports are %v", name, address, container.Ports)
		}
	}
	names := map[string]string{"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_UID": "metadata.uid"}
	for _, env := range container.Env {
		if env.ValueFrom != nil && env.ValueFrom.FieldRef != nil && env.ValueFrom.FieldRef.FieldPath == names[env.Name] {
			delete(names, env.Name)
		}
	}
	if len(names) > 0 {
		t.Errorf("its environment has no %v", names)
	}
	// The kubelet kills what has not ended after the grace period: a sync in the middle, or a webhook that is being called.
	const shutdown = 10 * time.Second // of package webhook
	grace := time.Duration(*deployment.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	if longest := drainPatience + releasePatience + lingerInCluster + shutdown; grace < longest+longest/4 {
		t.Errorf("the grace period is %s, and the operator may take %s", grace, longest)
	}
}

// What the Makefile stamps, the Dockerfile stamps too, and it stamps what there is.
func TestTheDockerfileStampsTheVersion(t *testing.T) {
	for file, lines := range map[string][]string{
		"Dockerfile": {"-X $APP.%[1]s=$%[2]s", "ARG %[2]s="}, "Makefile": {"-X $(APP).%[1]s=$(%[2]s)", "--build-arg %[2]s="},
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", file))
		must.Succeed(t, err)
		for _, name := range []string{"version", "commit", "date"} {
			for _, line := range lines {
				if want := fmt.Sprintf(line, name, strings.ToUpper(name)); !strings.Contains(string(text), want) {
					t.Errorf("the %s has no %q", file, want)
				}
			}
		}
	}
}

func readManifest(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "artifacts", name))
	must.Succeed(t, err)
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		t.Fatalf("parse %s: %v", name, err)
	}
}
