// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/trace"
)

// TestChangesOfSecretsAreUrgent changes a Secret that an ECSInstance uses. It exists before the watch begins.
func TestChangesOfSecretsAreUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := cachetesting.NewFakeControllerSource()
		defer source.Shutdown()
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "keys"}}
		source.Add(secret.DeepCopy())
		var mu sync.Mutex
		var causes []string
		s := &secrets{
			watches: map[cache.ObjectName]*secretWatch{}, used: map[cache.ObjectName][]cache.ObjectName{},
			informer: func(string, string) cache.SharedIndexInformer {
				return cache.NewSharedIndexInformer(source, &corev1.Secret{}, 0, cache.Indexers{})
			},
			add: func(user cache.ObjectName, cause trace.Cause) {
				mu.Lock()
				defer mu.Unlock()
				causes = append(causes, fmt.Sprintf("%s %s, urgent: %t", user.Name, cause.Verb, cause.Urgent))
			},
		}
		s.begin(t.Context())
		must.Succeed(t, s.use(key("vm"), cache.MetaObjectToName(secret)))
		for _, change := range []func(){
			func() {},
			func() { source.Modify(secret.DeepCopy()) },
			func() { source.Delete(secret.DeepCopy()) },
			func() { source.Add(secret.DeepCopy()) },
		} {
			change()
			time.Sleep(time.Minute)
		}
		must.Succeed(t, s.use(key("vm")))
		mu.Lock()
		defer mu.Unlock()
		want := []string{"vm Added, urgent: false", "vm Updated, urgent: true", "vm Deleted, urgent: true", "vm Added, urgent: true"}
		if !slices.Equal(causes, want) {
			t.Errorf("%q, want %q", causes, want)
		}
	})
}
