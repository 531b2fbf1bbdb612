/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// demoTLS returns the Secret of spec.tls.
func demoTLS(t *testing.T, data map[string][]byte) *corev1.Secret {
	t.Helper()
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "redis-tls", Namespace: "default"}, Data: data}
}

// A Secret that does not exist, or that the nodes cannot use, replaces no Pod, and no ConfigMap of a new revision is made.
func TestACertificateThatIsNotValidReplacesNoPod(t *testing.T) {
	s := playing(t, see(six())).settle()
	s.clock.SetTime(time.Now())
	s.edit(withTLSMode(v1.TLSPreferred))
	syncs := func() (writes []string) {
		for range 3 {
			some, _, err := s.sync()
			if err != nil {
				t.Fatal(err)
			}
			writes = append(writes, some...)
			s.catchUp()
		}
		return slices.DeleteFunc(writes, func(w string) bool { return strings.HasPrefix(w, "update redisclusters ") })
	}
	expect := func(reason string) {
		t.Helper()
		if writes := syncs(); len(writes) > 0 {
			t.Errorf("it does %q, want nothing", writes)
		}
		if c := meta.FindStatusCondition(s.rdc().Status.Conditions, glassback.ConditionDegraded); c.Reason != reason {
			t.Errorf("Degraded is %s: %s; want %s", c.Reason, c.Message, reason)
		}
	}
	expect(reasonNoCertificate)
	s.add(demoTLS(t, newAuthority(t).issue(t))) // Its name is of another cluster.
	s.clock.Step(secretEvery)
	expect(reasonCertificate)
}

// Before the first node switches, no replica can be elected any more.
func TestASwitchKeepsReplicasFromBeingElected(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5}
	s := playing(t, see(six(), specTLS(v1.TLSPreferred), secured("both", false, all...)))
	s.clock.SetTime(time.Now())
	for range 3 {
		if _, _, err := s.sync(); err != nil {
			t.Fatal(err)
		}
		s.catchUp()
	}
	first := slices.IndexFunc(s.commands, func(c string) bool { return strings.Contains(c, "switch TLS") })
	if first < 0 {
		t.Fatalf("nodes got %q, and none switched", s.commands)
	}
	for _, i := range all {
		if at := slices.Index(s.commands, ipOf(i)+" config set cluster-replica-no-failover yes"); at < 0 || at > first {
			t.Errorf("nodes got %q", s.commands)
			return
		}
	}
}
