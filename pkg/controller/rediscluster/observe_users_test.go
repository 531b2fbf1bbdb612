// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

// TestAForeignSecret has another owner's Secret have the name of the operator's. No Pod mounts it, and its password is never used, not even
// after it is gone.
func TestAForeignSecret(t *testing.T) {
	s := newStage(t, with(six(), clearStatus, noPod(0, 1, 2, 3, 4, 5)))
	theirs := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: "demo-glassback", Namespace: "default",
			OwnerReferences: []metav1.OwnerReference{{UID: "theirs", Name: "theirs", Kind: "Certificate", Controller: ptr.To(true)}},
		},
		Data: map[string][]byte{"password": []byte("theirs")},
	}
	s.add(theirs)
	s.edit(withUsers(aUser("default", openRules, "")))
	syncs := func() (writes []string) {
		for range 3 {
			some, _, err := s.sync()
			if err != nil {
				t.Fatal(err)
			}
			writes = append(writes, some...)
			s.catchUp()
			s.clock.Step(time.Second)
		}
		return writes
	}
	if writes := syncs(); slices.ContainsFunc(writes, func(w string) bool { return strings.HasPrefix(w, "create pods") }) {
		t.Errorf("it does %q, want no Pod", writes)
	}
	if c := meta.FindStatusCondition(s.rdc().Status.Conditions, glassback.ConditionDegraded); c.Reason != reasonConflict {
		t.Errorf("Degraded is %s: %s", c.Reason, c.Message)
	}
	s.destroy("secrets", "demo-glassback")
	s.clock.Step(secretEvery)
	writes := syncs()
	if i, j := slices.Index(writes, "create secrets demo-glassback"), slices.Index(writes, "create pods demo-0"); i < 0 || j < i {
		t.Errorf("it does %q, want the Secret, and then the Pods", writes)
	}
	own, err := s.kube.CoreV1().Secrets("default").Get(t.Context(), "demo-glassback", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if password := own.StringData["password"] + string(own.Data["password"]); password == "theirs" || len(password) < 20 {
		t.Errorf("the operator's Secret has the password %q", password)
	}

	// Another owner's Secret takes the place of the operator's, less than secretEvery before a Pod is created.
	s.destroy("secrets", "demo-glassback")
	s.add(theirs)
	s.destroy("pods", "demo-0")
	s.destroy("pods", "demo-1")
	createsPod := func(write string) bool { return strings.HasPrefix(write, "create pods") }
	if writes, _, err := s.sync(); err == nil || slices.ContainsFunc(writes, createsPod) {
		t.Errorf("it does %q (error %v), want no Pod", writes, err)
	}
	if writes := syncs(); slices.ContainsFunc(writes, createsPod) {
		t.Errorf("it does %q, want no Pod", writes)
	}
	if c := meta.FindStatusCondition(s.rdc().Status.Conditions, glassback.ConditionDegraded); c.Reason != reasonConflict {
		t.Errorf("Degraded is %s: %s", c.Reason, c.Message)
	}
}

// TestASecretThatChangesStopsARoll has another Secret take the place of the operator's, less than secretEvery before a Pod is evicted.
// Nodes that refuse the known password make the operator use that of the Secret.
func TestASecretThatChangesStopsARoll(t *testing.T) {
	theirs := metav1.OwnerReference{UID: "theirs", Controller: ptr.To(true)}
	account := func(password string, owners ...metav1.OwnerReference) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "demo-glassback", Namespace: "default", OwnerReferences: owners},
			Data: map[string][]byte{"password": []byte(password)}}
	}
	for sentence, test := range map[string]struct {
		now    *corev1.Secret
		evicts bool
		reason string
	}{
		"the same password":     {account(accountPassword), true, ""},
		"another password":      {account("another"), false, reasonConflict},
		"another owner's":       {account(accountPassword, theirs), false, reasonConflict},
		"no password, no owner": {account(""), false, reasonConflict},
	} {
		t.Run(sentence, func(t *testing.T) {
			o := read(with(six(), people(aUser("default", openRules, ""))))
			have(map[string][]string{"glassback": {accountPassword}, "default": nil}, 0)(o)
			s := newStage(t, o)
			s.users, s.password = o.members[0].users, accountPassword
			s.add(account(accountPassword))
			s.settle()
			s.destroy("secrets", "demo-glassback")
			s.add(test.now)
			s.edit(func(rdc *v1.RedisCluster) { rdc.Spec.Image = "redis:another" })
			var all []string
			for range 5 {
				writes, _, _ := s.sync()
				all = append(all, writes...)
				s.catchUp()
			}
			if slices.Contains(all, "evict pods demo-3") != test.evicts {
				t.Errorf("it does %q", all)
			}
			if c := meta.FindStatusCondition(s.rdc().Status.Conditions, glassback.ConditionDegraded); c.Reason != test.reason && test.reason != "" {
				t.Errorf("Degraded is %s: %s", c.Reason, c.Message)
			}
			if test.evicts {
				return
			}
			known := s.controller.sessions.get(s.rdc()).secrets[accountRef(s.rdc())]
			if known.text != accountPassword || !known.accepted {
				t.Errorf("the operator logs in with %q (accepted: %t)", known.text, known.accepted)
			}
			for i, want := range []string{accountPassword, accountPassword, accountPassword, "another"} {
				s.errs[ipOf(i)] = redisnode.ErrPassword
				for range 2 {
					s.clock.Step(secretEvery)
					_, _, _ = s.sync()
					s.catchUp()
				}
				known = s.controller.sessions.get(s.rdc()).secrets[accountRef(s.rdc())]
				if known.accepted != (want == accountPassword) || (sentence == "another password" && known.text != want) {
					t.Errorf("after %d nodes refused it, the operator logs in with %q (accepted: %t)", i+1, known.text, known.accepted)
				}
			}
		})
	}
}

// TestARejectedSecret has the API server reject the Secret of the operator's user. The operator reports that, tries again after some time,
// and creates the Pods after the Secret. An error that is no answer leads to an error of the sync, which is tried again at once.
func TestARejectedSecret(t *testing.T) {
	s := newStage(t, with(six(), clearStatus, noPod(0, 1, 2, 3, 4, 5)))
	secrets := schema.GroupResource{Resource: "secrets"}
	var answer func(password string) error
	s.kube.PrependReactor("create", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		password := action.(clienttesting.CreateAction).GetObject().(*corev1.Secret).Data["password"]
		if answer == nil {
			return false, nil, nil
		}
		return true, nil, answer(string(password))
	})
	s.edit(withUsers(aUser("default", openRules, "")))
	step := func(want []string, fails bool) {
		t.Helper()
		writes, _, err := s.sync()
		s.catchUp()
		var got []string
		for _, w := range writes {
			if strings.HasPrefix(w, "create secrets") || strings.HasPrefix(w, "create pods") {
				got = append(got, w)
			}
		}
		if !slices.Equal(got, want) || (err != nil) != fails {
			t.Errorf("it does %q (error %v), want %q", got, err, want)
		}
		s.clock.Step(2 * textEvery)
	}
	create := []string{"create secrets demo-glassback"}
	step(nil, false) // The other children come first.
	answer = func(password string) error {
		return apierrors.NewInternalError(fmt.Errorf("a webhook quotes %s, %v and %s", password, []byte(password),
			base64.StdEncoding.EncodeToString([]byte(password))))
	}
	step(create, true)
	if _, _, err := s.sync(); err == nil || !strings.Contains(err.Error(), "quotes …, […] and …") {
		t.Errorf("error %v", err)
	}
	for message, reject := range map[string]func(password string) error{
		"exceeded quota": func(string) error {
			return apierrors.NewForbidden(secrets, "demo-glassback", errors.New("exceeded quota: few"))
		},
		"a policy": func(string) error { return apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "a policy", nil) },
		"with …": func(password string) error {
			return apierrors.NewBadRequest("a webhook denied an object with " + password)
		},
	} {
		answer = reject
		step(create, false)
		step(nil, false)
		if c := meta.FindStatusCondition(s.rdc().Status.Conditions, glassback.ConditionDegraded); c.Reason != reasonNoSecret ||
			!strings.Contains(c.Message, message) {
			t.Errorf("Degraded is %s: %s, want the reason %s and %q", c.Reason, c.Message, reasonNoSecret, message)
		}
		s.clock.Step(secretEvery)
	}
	answer = nil
	step(create, false)
	step([]string{
		"create pods demo-0", "create pods demo-1", "create pods demo-2", "create pods demo-3", "create pods demo-4", "create pods demo-5",
	}, false)
	step(nil, false)
	if c := meta.FindStatusCondition(s.rdc().Status.Conditions, glassback.ConditionDegraded); strings.Contains(c.Message, "Secret") {
		t.Errorf("Degraded is %s: %s", c.Reason, c.Message)
	}
}
