// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	klabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/dump"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/must"
)

// budget returns the spec of the PodDisruptionBudget.
func (s *stage) budget() policyv1.PodDisruptionBudgetSpec {
	s.t.Helper()
	b, err := s.kube.PolicyV1().PodDisruptionBudgets("default").Get(s.t.Context(), "demo", metav1.GetOptions{})
	must.Succeed(s.t, err)
	return b.Spec
}

// twelve are a cluster of three masters with three replicas each, of which six are to go.
func twelve() *observed {
	parts := sixOf()
	for i := range 6 {
		parts = append(parts, replica(i%3))
	}
	return cluster(parts...)
}

func TestTheBudgetCountsPodsAndNotTheSize(t *testing.T) {
	selected := func(name string, labels map[string]string) func(*stage) {
		return func(s *stage) {
			s.add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "theirs", Labels: labels}})
			s.catchUp()
		}
	}
	onlyLabelled := map[string]string{v1.LabelRedisCluster: "demo"}
	for name, test := range map[string]struct {
		seen  *observed
		given func(*stage)
		want  int32
	}{
		"all Pods":                              {seen: with(six()), want: 5},
		"Pods that are to be made":              {seen: with(six(), noPod(1, 4)), want: 5},
		"a stored size is raised to six":        {seen: with(six(), unformed, clearStatus, noPod(0, 1, 2, 3, 4, 5), sized(3)), want: 5},
		"Pods that are to go, while they exist": {seen: with(twelve(), sized(6)), want: 11},
		"Pods that are being deleted":           {seen: with(twelve(), sized(6), podIs(beingDeleted, 10, 11), silenced(1, 10, 11)), want: 11},
		"Pods that are to be made of volumes":   {seen: with(twelve(), stored, sized(6), noPod(9, 10, 11)), want: 11},
		"none for a volume that is to go":       {seen: with(twelve(), stored, sized(6), noPod(11), terminating(11)), want: 10},
		"a Pod of another that it selects": {
			seen:  with(six()),
			given: selected("other", map[string]string{v1.LabelApp: v1.AppRedis, v1.LabelRedisCluster: "demo"}),
			want:  6,
		},
		"no Pod that it does not select": {seen: with(six()), given: selected("other", onlyLabelled), want: 5},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, test.seen)
			if test.given != nil {
				test.given(s)
			}
			s.synced()
			b := s.budget()
			if b.MaxUnavailable != nil || b.MinAvailable == nil || b.MinAvailable.IntVal != test.want {
				t.Errorf("the budget is %+v, want minAvailable: %d", b, test.want)
			}
		})
	}
}

func TestTheBudgetIsRaisedBeforePodsAreMade(t *testing.T) {
	s := newStage(t, sixStored()).settle()
	refused := true
	s.kube.PrependReactor("patch", "poddisruptionbudgets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refused, nil, apierrors.NewConflict(policyv1.Resource("poddisruptionbudgets"), "demo", errors.New("it has changed"))
	})
	s.edit(func(rdc *v1.RedisCluster) { rdc.Spec.Size, rdc.Generation = ptr.To[int32](8), 2 })
	s.destroy("pods", "demo-4")
	writes, _, err := s.sync()
	// One that takes the place of another does not wait.
	if made := madeBy(writes); !slices.Equal(made, []string{"create pods demo-4"}) || !apierrors.IsConflict(err) {
		t.Errorf("writes %q, error %v while the budget cannot be raised; want the Pod that is missing", writes, err)
	}
	s.catchUp()
	refused = false
	writes, _, err = s.sync()
	if !slices.Contains(writes, "patch poddisruptionbudgets demo") || len(madeBy(writes)) > 0 || err != nil ||
		s.budget().MinAvailable.IntVal != 7 {
		t.Errorf("writes %q, error %v, budget %+v; want it raised, and no Pod", writes, err, s.budget())
	}
	s.catchUp()
	if writes, _, err = s.sync(); !slices.Equal(madeBy(writes), []string{"create pods demo-6", "create pods demo-7"}) || err != nil {
		t.Errorf("writes %q, error %v once it is raised; want the Pods", writes, err)
	}
}

// madeBy are the Pods that writes have made.
func madeBy(writes []string) []string {
	return slices.DeleteFunc(slices.Clone(writes), func(w string) bool { return !strings.HasPrefix(w, "create pods") })
}

// TestTheBudgetOfALargeScaleInIsNoFight has 18 Pods go, one by one, a few seconds apart.
func TestTheBudgetOfALargeScaleInIsNoFight(t *testing.T) {
	parts := sixOf()
	for i := range 18 {
		parts = append(parts, replica(i%3))
	}
	s := newStage(t, with(cluster(parts...), sized(6)))
	for _, ip := range slices.Collect(maps.Keys(s.views)) {
		s.errs[ip] = errors.New("connection refused") // The test is what removes Pods.
	}
	budgets, version := policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"), 0
	s.kube.PrependReactor("patch", "poddisruptionbudgets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		_, object, err := clienttesting.ObjectReaction(s.kube.Tracker())(action)
		if err != nil {
			return true, nil, err
		}
		version++ // The fake API server gives none, so that no write counts.
		object.(*policyv1.PodDisruptionBudget).ResourceVersion = strconv.Itoa(version)
		return true, object, s.kube.Tracker().Update(budgets, object, "default")
	})
	for count := 24; count >= 6; count-- {
		s.synced()
		if b := s.budget(); int(b.MinAvailable.IntVal) != count-1 {
			t.Fatalf("minAvailable is %d while there are %d Pods", b.MinAvailable.IntVal, count)
		}
		s.catchUp()
		s.synced()
		if c := s.ready(); strings.Contains(c.Message, "Something else") {
			t.Fatalf("%d Pods: %s", count, c.Message)
		}
		s.clock.Step(2 * time.Second)
		s.destroy("pods", fmt.Sprintf("demo-%d", count-1))
	}
}

// rolling is a stage on which the next sync replaces a Pod.
func rolling(t *testing.T, alters ...alter) *stage {
	t.Helper()
	s := newStage(t, with(six(), slices.Concat([]alter{stored, allOld}, alters)...))
	s.next()
	return s
}

// TestAPodThatWouldBeRejectedStays has the API server answer a dry run of creating what is to replace a Pod.
func TestAPodThatWouldBeRejectedStays(t *testing.T) {
	invalid := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "demo-0", field.ErrorList{
		field.Duplicate(field.NewPath("spec", "containers").Index(1).Child("name"), "exporter"),
	})
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusBadRequest, Message: `admission webhook "policy.example.com" denied the request: no`,
	}}
	pods := corev1.Resource("pods")
	const rejected = "demo-0 stays, since the API server rejects its new Pod: "
	for name, test := range map[string]struct {
		answer  error
		message string // of Ready; "" if the Pod is evicted
	}{
		"it is invalid": {invalid, rejected + `Pod "demo-0" is invalid: spec.containers[1].name: Duplicate value: "exporter"`},
		"a policy forbids it": {apierrors.NewForbidden(pods, "demo-0", errors.New("violates PodSecurity")),
			rejected + `pods "demo-0" is forbidden: violates PodSecurity`},
		"a webhook denies it, without a reason": {denied, rejected + `admission webhook "policy.example.com" denied the request: no`},
		"the API server cannot answer":          {apierrors.NewInternalError(errors.New("etcd is away")), "demo-0 stays, since a dry run"},
		"the name is taken":                     {apierrors.NewAlreadyExists(pods, "demo-0"), ""},
		"both Pods together exceed a quota":     {apierrors.NewForbidden(pods, "demo-0", errors.New("exceeded quota: all")), ""},
		"a webhook does not support dry runs":   {apierrors.NewBadRequest(`admission webhook "a.example.com" does not support dry run`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := rolling(t)
			asked := 0
			s.kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				dryRun := isDryRun(action.(clienttesting.CreateActionImpl))
				if dryRun {
					asked++
				}
				return dryRun, nil, test.answer
			})
			s.clock.Step(tryInterval)
			writes, _, err := s.sync()
			if evicts := slices.Contains(writes, "evict pods demo-3"); evicts != (test.message == "") || err != nil {
				t.Errorf("writes %q, error %v", writes, err)
			}
			if test.message != "" && (s.ready().Reason != reasonRejected || !strings.Contains(s.ready().Message, test.message)) {
				t.Errorf("Ready is %+v, want %q", s.ready(), test.message)
			}
			s.catchUp()
			if _, _, err := s.sync(); err != nil || asked > 1 && !apierrors.IsInternalError(test.answer) {
				t.Errorf("error %v, %d dry runs at once", err, asked)
			}
		})
	}
}

// TestNothingChangesObserved compares what decide gets with what observe returns at the same time.
func TestNothingChangesObserved(t *testing.T) {
	var atDecide string
	all := policies
	policies = append([]policy{{"compare", func(o *observed) *plan {
		atDecide = dump.ForHash(o)
		return nil
	}}}, all...)
	defer func() { policies = all }()
	for name, s := range map[string]*stage{
		"settled":                      newStage(t, sixStored()).settle(),
		"the API server rejects a Pod": rolling(t),
		"and another one is missing":   rolling(t, noPod(4)),
		"and a replica is not linked":  rolling(t, unlinked(time.Hour, 1000, 3)),
		"and a node does not answer":   rolling(t, silenced(time.Minute, 3)),
		"and a master has a library":   rolling(t, libraries("f=1", 0)),
	} {
		t.Run(name, func(t *testing.T) {
			s.fails("create", "pods", apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "demo-0", nil))
			s.clock.Step(tryInterval)
			rdc, err := s.controller.fetch(demoKey)
			must.Succeed(t, err)
			o, err := s.controller.observeObjects(rdc)
			must.Succeed(t, errors.Join(err, s.controller.observe(t.Context(), o)))
			atEnd := dump.ForHash(o)
			if _, err := s.controller.Sync(t.Context(), demoKey); atDecide != atEnd {
				t.Errorf("error %v, difference (-observe returned, +decide got):\n%s", err, diff.Diff(strings.Fields(atEnd), strings.Fields(atDecide)))
			}
		})
	}
}

func TestAnInvalidPodIsReported(t *testing.T) {
	s := newStage(t, sixStored()).settle()
	s.destroy("pods", "demo-4")
	s.fails("create", "pods", apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "demo-4", nil))
	for range 2 {
		if _, _, err := s.sync(); err == nil {
			t.Error("no error")
		}
		s.showStatus()
		s.clock.Step(textEvery)
	}
	if s.ready().Reason != reasonRejected || !strings.Contains(s.ready().Message, `The API server rejects a Pod: Pod "demo-4" is invalid`) {
		t.Errorf("Ready is %+v", s.ready())
	}
}

// sameWrites compares without order: those of two clients are not in any.
func sameWrites(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// TestARollWaitsForTheBudget has a drain evict the master of a replica right before the
// operator replaces that: the operator's cache does not show it yet.
func TestARollWaitsForTheBudget(t *testing.T) {
	s := rolling(t)
	master := s.pod("demo-0")
	must.Succeed(t, s.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "default", "demo-0"))
	for i, want := range []time.Duration{brief, poll, poll} {
		writes, after, err := s.sync()
		writes = slices.DeleteFunc(writes, func(w string) bool { return w == statusWrite })
		if !slices.Equal(writes, []string{"evict pods demo-3"}) || after != want || err != nil {
			t.Errorf("sync %d: writes %q, after %s, error %v; want an attempt alone, and to look again after %s", i, writes, after, err, want)
		}
		s.pod("demo-3") // It is there.
		s.showStatus()
		s.clock.Step(textEvery)
	}
	const words = "The PodDisruptionBudget does not allow the eviction now: The disruption budget demo needs 5 healthy pods"
	if step := s.rdc().Status.Operation.Step; !strings.Contains(step, words) || s.ready().Reason != reasonRolling {
		t.Errorf("step %q, Ready is %+v", step, s.ready())
	}
	if events := s.takeEvents(); slices.ContainsFunc(events, func(e string) bool { return strings.Contains(e, "PodDeleted") }) {
		t.Errorf("events %q", events)
	}
	s.clock.Step(stalledAfter + time.Second)
	if _, _, err := s.sync(); err != nil || s.ready().Reason != reasonStalled || !strings.Contains(s.ready().Message, "needs 5 healthy pods") {
		t.Errorf("error %v, Ready is %+v after long", err, s.ready())
	}
	// It is there again.
	s.add(master)
	s.catchUp()
	if writes, _, err := s.sync(); !slices.Contains(writes, "evict pods demo-3") || err != nil {
		t.Errorf("writes %q, error %v", writes, err)
	}
	if events := s.takeEvents(); !slices.ContainsFunc(events, func(e string) bool {
		return strings.HasSuffix(e, "Deleted Pod demo-3: Replacing demo-3: 6 Pods are not up to date")
	}) {
		t.Errorf("events %q: want the reason without what has held it up", events)
	}
	s.catchUp()
	s.clock.Step(textEvery)
	if _, _, err := s.sync(); err != nil || strings.Contains(s.rdc().Status.Operation.Step, "Budget") {
		t.Errorf("error %v, step %q after the eviction", err, s.rdc().Status.Operation.Step)
	}
}

// showStatus has the cache of RedisClusters, and no other, show what is there.
func (s *stage) showStatus() {
	s.t.Helper()
	must.Succeed(s.t, s.informers[v1.SchemeGroupVersion.WithResource("redisclusters")].GetStore().Update(s.rdc()))
}

// TestSpareStaysWholeWhileTheBudgetHoldsIt has nothing of a replica be gone, or forgotten,
// before its Pod may go.
func TestSpareStaysWholeWhileTheBudgetHoldsIt(t *testing.T) {
	s := newStage(t, with(sixAnd(replica(0), replica(1), replica(2)), stored, replicas(1)))
	s.next()
	drained := s.pod("demo-0")
	must.Succeed(t, s.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "default", "demo-0"))
	writes, after, err := s.sync()
	if want := []string{statusWrite, "evict pods demo-6"}; !sameWrites(writes, want) || after != brief || err != nil {
		t.Errorf("writes %q, after %s, error %v while another Pod is gone; want %q", writes, after, err, want)
	}
	s.add(drained)
	s.showStatus()
	writes, _, err = s.sync()
	want := []string{"evict pods demo-6", "delete persistentvolumeclaims data-demo-6"}
	for _, i := range []int{0, 1, 2, 3, 4, 5, 7, 8} {
		want = append(want, ipOf(i)+" forget id-6")
	}
	if writes = slices.DeleteFunc(writes, func(w string) bool { return w == statusWrite }); !slices.Equal(writes, want) || err != nil {
		t.Errorf("writes %q, error %v once it is back; want %q", writes, err, want)
	}
}

func TestEvictionsThatFail(t *testing.T) {
	answers := func(err error) func(*stage) {
		return func(s *stage) { s.fails("create", "pods/eviction", err) }
	}
	unprocessed := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
	unprocessed.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget demo is still being processed by the server.",
	}}
	addBudget := func(s *stage, name string, spec policyv1.PodDisruptionBudgetSpec) {
		s.add(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: spec})
	}
	for name, test := range map[string]struct {
		given   func(*stage)
		after   time.Duration
		err     string
		reason  string // of Ready, with the next sync
		message string // of it; a part
	}{
		"the budget's controller is behind: it says when to ask again": {
			given: answers(unprocessed), after: 10 * time.Second, reason: reasonRolling,
			message: "The disruption budget demo is still being processed by the server.",
		},
		"the Pod has two budgets": {
			given: func(s *stage) {
				addBudget(s, "by-hand", policyv1.PodDisruptionBudgetSpec{
					MinAvailable: ptr.To(intstr.FromInt32(1)),
					Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelApp: v1.AppRedis}},
				})
				addBudget(s, "of-others", policyv1.PodDisruptionBudgetSpec{
					Selector: &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelApp: "another"}},
				})
			},
			after: brief, err: "evict Pod demo-3: Pod demo-3 cannot be evicted", reason: reasonBudgets,
			message: "Pod demo-3 cannot be evicted, since 2 PodDisruptionBudgets select it. Delete by-hand, or change what it selects",
		},
		"the API server cannot answer": {
			given: answers(apierrors.NewInternalError(errors.New("etcd is away"))), after: brief, err: "etcd is away", reason: reasonRolling,
		},
		"the Pod is another one by now": {
			given: func(s *stage) { s.setPod("demo-3", func(p *corev1.Pod) { p.UID = "another" }) },
			after: brief, err: "UID", reason: reasonRolling,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := rolling(t)
			test.given(s)
			_, after, err := s.sync()
			if after != test.after {
				t.Errorf("after %s, want %s", after, test.after)
			}
			if (err == nil) != (test.err == "") || (err != nil && !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, want one with %q", err, test.err)
			}
			s.showStatus()
			s.clock.Step(textEvery)
			if _, _, err := s.sync(); (err == nil) != (test.err == "") {
				t.Errorf("error %v with the next sync", err)
			}
			if s.ready().Reason != test.reason || !strings.Contains(s.ready().Message, test.message) {
				t.Errorf("Ready is %+v, want %s and %q", s.ready(), test.reason, test.message)
			}
			s.pod("demo-3") // It is there.
		})
	}
}

// TestAnEvictionThatDidNotComplete was allowed by the budget, and then its client ended. The budget refuses the next one for two minutes.
func TestAnEvictionThatDidNotComplete(t *testing.T) {
	for sentence, test := range map[string]struct {
		pod     string
		ago     time.Duration
		foreign bool
		want    bool
	}{
		"of the Pod":                        {"demo-3", time.Second, false, true},
		"of another Pod":                    {"demo-4", time.Second, false, false},
		"of an earlier Pod of that name":    {"demo-3", time.Minute, false, false},
		"long ago":                          {"demo-3", maxAllowed, false, false},
		"by a budget that is not its owner": {"demo-3", time.Second, true, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := rolling(t, podIs(func(p *corev1.Pod) {
				p.CreationTimestamp = metav1.NewTime(seenAt.Add(-30 * time.Second))
				if test.ago == maxAllowed {
					p.CreationTimestamp = metav1.NewTime(seenAt.Add(-time.Hour))
				}
			}, 3))
			budgets := s.kube.PolicyV1().PodDisruptionBudgets("default")
			b, err := budgets.Get(t.Context(), "demo", metav1.GetOptions{})
			must.Succeed(t, err)
			b.Status.DisruptedPods = map[string]metav1.Time{test.pod: metav1.NewTime(s.clock.Now().Add(-test.ago))}
			if test.foreign {
				b.OwnerReferences = nil
			}
			if _, err := budgets.Update(t.Context(), b, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			refusal := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
			refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause}}
			s.fails("create", "pods/eviction", refusal)
			if writes, _, err := s.sync(); slices.Contains(writes, "delete pods demo-3") != test.want || err != nil {
				t.Errorf("writes %q, error %v; want the Pod deleted: %t", writes, err, test.want)
			}
		})
	}
}

// TestAPodThatIsNotReadyIsDeleted as long as it is the one that was seen, and is not ready.
func TestAPodThatIsNotReadyIsDeleted(t *testing.T) {
	s := rolling(t, podIs(both(unready, func(p *corev1.Pod) { p.ResourceVersion = "7" }), 3))
	var exactly *metav1.Preconditions
	s.kube.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		exactly = action.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions
		return false, nil, nil
	})
	if writes := s.synced(); !slices.Contains(writes, "delete pods demo-3") {
		t.Fatalf("writes %q", writes)
	}
	if exactly == nil || *exactly.UID != "uid-demo-3" || *exactly.ResourceVersion != "7" {
		t.Errorf("preconditions %s", fmt.Sprint(exactly))
	}
}

// newEvicting returns a client of kube that evicts Pods as their PodDisruptionBudgets allow, and creates nothing in a dry run. It answers
// as the real API server does, which TestEvictionAnswers of hack/devcluster/e2e shows. The objects are those of client-go's fake clientset,
// and not of pkg/fakeapi: only tests of this package need budgets that refuse, and their kubelet writes Pods without a request.
func newEvicting(kube *kubefake.Clientset) kubernetes.Interface {
	kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create := action.(clienttesting.CreateActionImpl)
		return isDryRun(create), create.Object, nil
	})
	kube.PrependReactor("create", "pods/eviction", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, evictFrom(kube.Tracker(), action.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction))
	})
	return fakeapi.Evicting(kube)
}

// evictFrom deletes a Pod if its budget allows that. It counts the Pods as they are, without
// the delay of a controller.
func evictFrom(objects clienttesting.ObjectTracker, eviction *policyv1.Eviction) error {
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	found, err := objects.Get(pods, eviction.Namespace, eviction.Name)
	if err != nil {
		return err
	}
	pod := found.(*corev1.Pod)
	if p := pod.Status.Phase; p != corev1.PodFailed && p != corev1.PodSucceeded && p != corev1.PodPending && pod.DeletionTimestamp == nil {
		if err := allowed(objects, pod); err != nil {
			return err
		}
	}
	if p := eviction.DeleteOptions.Preconditions; p != nil && *p.UID != pod.UID {
		return apierrors.NewConflict(pods.GroupResource(), pod.Name, errors.New("the UID in the precondition does not match"))
	}
	return objects.Delete(pods, pod.Namespace, pod.Name)
}

// allowed returns why no budget allows to evict a Pod; nil if it is allowed.
func allowed(objects clienttesting.ObjectTracker, pod *corev1.Pod) error {
	budgets, err := objects.List(policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"),
		policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), pod.Namespace)
	if err != nil {
		return err
	}
	var theirs []policyv1.PodDisruptionBudget
	for _, b := range budgets.(*policyv1.PodDisruptionBudgetList).Items {
		if selects, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && selects.Matches(klabels.Set(pod.Labels)) {
			theirs = append(theirs, b)
		}
	}
	switch len(theirs) {
	case 0:
		return nil
	case 1:
	default:
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}}
	}
	list, err := objects.List(corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod"), pod.Namespace)
	if err != nil {
		return err
	}
	selects, err := metav1.LabelSelectorAsSelector(theirs[0].Spec.Selector)
	healthy, needed := 0, theirs[0].Spec.MinAvailable.IntValue()
	for _, p := range list.(*corev1.PodList).Items {
		if selects.Matches(klabels.Set(p.Labels)) && p.DeletionTimestamp == nil && isReady(&p) {
			healthy++
		}
	}
	if err != nil || healthy > needed || (healthy == needed && !isReady(pod)) {
		return err
	}
	refusal := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause,
		Message: fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", theirs[0].Name, needed, healthy)}}
	return refusal
}

func isDryRun(create clienttesting.CreateActionImpl) bool {
	return len(create.CreateOptions.DryRun) > 0
}
