// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/trace"
)

const name = "sample-greeting"

var (
	t0       = time.Unix(1641736200, 0)
	owner    = &metav1.ObjectMeta{Name: "sample", Namespace: "default", UID: "owner", Generation: 3}
	greeter  = schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "Greeter"}
	gvk      = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	resource = corev1.Resource("configmaps")
	childKey = cache.NewObjectName(owner.Namespace, name)
)

type (
	server        = fakeapi.Server
	configuration = corev1ac.ConfigMapApplyConfiguration
)

// object returns the child, and nil if there is none.
func object(s *server) *corev1.ConfigMap { return fakeapi.Get[*corev1.ConfigMap](s, childKey) }

// edit changes the child as another client does.
func edit(s *server, change func(*corev1.ConfigMap)) {
	fakeapi.Edit(s, childKey, "other-client", change)
}

func remove(s *server) { s.Remove("configmaps", childKey) }

// apply applies the child as the operator does.
func apply(s *server, configuration *configuration) {
	if _, err := s.Kube().CoreV1().ConfigMaps(owner.Namespace).Apply(context.Background(), configuration, applyOptions); err != nil {
		panic(err)
	}
}

// words returns a request with everything that Kind decides.
func words(r fakeapi.Request) string {
	text := r.Verb + " " + r.Name
	if r.Verb != "get" {
		text += fmt.Sprintf(" uid %s version %s", cmp.Or(r.UID, "any"), cmp.Or(r.Version, "any"))
	}
	switch r.Verb {
	case "apply":
		text += fmt.Sprintf(" as %s, force %t", r.Manager, r.Force)
	case "delete":
		text += fmt.Sprintf(", %s", r.Propagation)
	}
	return text
}

// failing returns an error for the requests that begin with a prefix.
func failing(prefix string, err error) func(fakeapi.Request) error {
	return func(r fakeapi.Request) error {
		if strings.HasPrefix(words(r), prefix) {
			return err
		}
		return nil
	}
}

// fixture is a Kind, the server that its client uses, and its cache.
type fixture struct {
	*Kind[*corev1.ConfigMap, *configuration]

	server    *server
	shown     *fakeapi.Cache
	withOwned bool // whether observe reads the fields that the operator owns
	owner     *metav1.ObjectMeta
	written   *loop.Written
	clock     *clocktesting.FakePassiveClock
	trace     *trace.Recorder
}

func newFixture() *fixture {
	f := &fixture{
		server: fakeapi.New(), owner: owner.DeepCopy(), clock: clocktesting.NewFakePassiveClock(t0), trace: trace.NewRecorder(10),
	}
	f.written = loop.NewWritten("test", "Owner", f.clock, f.trace)
	f.Kind = New(NewOwners("Greeter", "of", f.written, f.clock), "ConfigMap", "configmaps", cache.NewStore(cache.MetaNamespaceKeyFunc),
		f.server.Kube().CoreV1().ConfigMaps, corev1ac.ExtractConfigMap)
	f.shown = f.server.Cache("configmaps", f.cache, fakeapi.WithOwnFields)
	return f
}

// requests returns the requests of the last reconcile.
func (f *fixture) requests() []string {
	var all []string
	for _, r := range f.server.Requests() {
		all = append(all, words(r))
	}
	return all
}

// exactly is the Desired of a copy, which Reconcile may change. There is none of nil.
func exactly(wanted *configuration) Desired[*configuration] {
	if wanted == nil {
		return nil
	}
	data, err := json.Marshal(wanted)
	if err != nil {
		panic(err)
	}
	same := &configuration{}
	if err := json.Unmarshal(data, same); err != nil {
		panic(err)
	}
	return Exactly(same)
}

// observe returns the child as the cache shows it.
func (f *fixture) observe() Observed[*corev1.ConfigMap, *configuration] {
	observed := f.Observe(f.owner, name)
	if f.withOwned {
		return f.WithOwned(f.owner, observed)
	}
	return observed
}

// reconcile carries out the change that Reconcile returns.
func (f *fixture) reconcile(t *testing.T, listed bool, want Desired[*configuration]) (Verb, Outcome, error) {
	t.Helper()
	change := f.Reconcile(f.owner, name, f.observe(), listed, want)
	if change.Kind != "ConfigMap" || change.Name != name {
		t.Errorf("the change is about %s %s, want ConfigMap %s", change.Kind, change.Name, name)
	}
	f.server.Forget()
	out, err := change.Do(t.Context())
	return change.Verb, out, err
}

// greeting is what is wanted, with the data as keys and values in turn.
func greeting(data ...string) *configuration {
	values := map[string]string{}
	for i := 0; i < len(data); i += 2 {
		values[data[i]] = data[i+1]
	}
	return corev1ac.ConfigMap(name, owner.Namespace).WithLabels(map[string]string{"of": owner.Name}).
		WithOwnerReferences(Reference(owner, greeter)).WithData(values)
}

// foreign is an object that the owner does not control, but perhaps another owner.
func foreign(controller *metav1.OwnerReference) *corev1.ConfigMap {
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: owner.Namespace, UID: "foreign", Labels: map[string]string{"of": owner.Name}},
		Data:       map[string]string{"a": "theirs"},
	}
	if controller != nil {
		object.OwnerReferences = []metav1.OwnerReference{*controller}
	}
	return object
}
