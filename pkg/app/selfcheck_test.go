// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/check"
	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/options"
)

// checked returns the self-check of an operator, and a function that sets what its account is not allowed to create.
func checked(t *testing.T, args []string, objects ...runtime.Object) (*selfCheck, func(denied string)) {
	t.Helper()
	o, err := options.Parse(args, &strings.Builder{})
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
