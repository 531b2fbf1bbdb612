// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	gatewayinformers "sigs.k8s.io/gateway-api/pkg/client/informers/externalversions"

	"github.com/glassback/glassback/pkg/fakeapi"
	glassbackfake "github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
	glassbackscheme "github.com/glassback/glassback/pkg/generated/clientset/versioned/scheme"
	"github.com/glassback/glassback/pkg/generated/informers/externalversions"
	"github.com/glassback/glassback/pkg/must"
)

func TestMain(m *testing.M) {
	// client-go's own error handler sleeps by the difference of two clocks, which mixes up the bubbles of synctest.
	utilruntime.ErrorHandlers = nil
	fakeapi.Prepare() // Outside of a bubble: it takes a while.
	os.Exit(m.Run())
}

// examples holds the objects that the documents tell users to apply.
const examples = "../../../artifacts/examples"

// namespace is that of all objects.
const namespace = "default"

func named(name string) cache.ObjectName { return cache.NewObjectName(namespace, name) }

// decoder reads objects of all kinds.
var decoder = serializer.NewCodecFactory(fakeapi.Scheme).UniversalDeserializer()

// world is one scenario: a fake API server and one controller, in a bubble of synctest. Its clock begins on 2000-01-01.
type world struct {
	*server

	t        *testing.T
	kubeFrom kubeinformers.SharedInformerFactory
	ownFrom  externalversions.SharedInformerFactory
	routesOf gatewayinformers.SharedInformerFactory
	recorder record.EventRecorder
	resumed  chan struct{} // Open while a step acts.
}

// controller is what a scenario runs.
type controller interface {
	Run(ctx, drain context.Context, workers int)
}

// scenario runs what play does to a world with the controller that make returns, and adds all writes to f.
func scenario(t *testing.T, f *file, name string, make func(*world) (controller, error), play func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		w := &world{
			server: s, t: t, recorder: &record.FakeRecorder{},
			kubeFrom: kubeinformers.NewSharedInformerFactory(s.kube, 0), ownFrom: externalversions.NewSharedInformerFactory(s.own, 0),
			routesOf: gatewayinformers.NewSharedInformerFactory(s.Gateway(), 0),
		}
		c, err := make(w)
		must.Succeed(t, err)
		w.notes.scenario(name)
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		w.kubeFrom.StartWithContext(ctx)
		w.ownFrom.StartWithContext(ctx)
		w.routesOf.StartWithContext(ctx)
		w.kubeFrom.WaitForCacheSyncWithContext(ctx)
		w.ownFrom.WaitForCacheSyncWithContext(ctx)
		w.routesOf.WaitForCacheSyncWithContext(ctx)
		ended := false
		go func() {
			c.Run(ctx, ctx, 1)
			ended = true
		}()
		play(w)
		w.mu.Lock()
		w.notes.left(w.left())
		f.text.Write(w.notes.text.Bytes())
		w.mu.Unlock()
		cancel()
		w.kubeFrom.Shutdown()
		w.ownFrom.Shutdown()
		w.routesOf.Shutdown()
		synctest.Wait()
		if !ended {
			t.Error("the controller has not ended")
		}
	})
}

// step does something on behalf of a user or of another controller, and waits until the
// operator has done all that it does in the next so much time.
func (w *world) step(name string, wait time.Duration, do func()) {
	w.t.Helper()
	w.mu.Lock()
	w.notes.step(name)
	resumed := make(chan struct{})
	w.resumed = resumed
	w.mu.Unlock()
	if do != nil {
		do()
	}
	synctest.Wait()
	close(resumed)
	time.Sleep(wait)
	synctest.Wait()
}

// pause waits while a step acts and until the caches have all of what it did. A sync that sees one half of it writes
// something else than a sync that sees all.
func (w *world) pause() {
	w.mu.Lock()
	resumed := w.resumed
	w.mu.Unlock()
	if resumed != nil {
		<-resumed
	}
}

// read returns the objects of a YAML file.
func (w *world) read(path string) []object {
	w.t.Helper()
	data, err := os.ReadFile(path)
	must.Succeed(w.t, err)
	var all []object
	for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
		obj, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			w.t.Fatalf("%s: %v", path, err)
		}
		all = append(all, obj.(object))
	}
	return all
}

// defaulted is an object of ours, with what the CustomResourceDefinition or a webhook sets.
type defaulted interface{ Default() }

// apply creates objects as kubectl does. Their UIDs follow from their names.
func (w *world) apply(objects ...object) {
	w.t.Helper()
	for _, obj := range objects {
		if d, ok := obj.(defaulted); ok {
			d.Default()
		}
		if secret, ok := obj.(*corev1.Secret); ok {
			secret.Data = map[string][]byte{}
			for key, value := range secret.StringData {
				secret.Data[key] = []byte(value)
			}
			secret.StringData = nil
		}
		obj.SetNamespace(namespace)
		if obj.GetUID() == "" {
			obj.SetUID(types.UID("0a1b2c3d-0000-4000-8000-" + obj.GetName()))
		}
	}
	w.Put(objects...) // All at once, so that no sync sees one half of them.
}

// change changes a stored object of that type on behalf of a user or of another controller. managedFields stay as they are.
func change[T object](w *world, name string, change func(T)) {
	fakeapi.Edit(w.Server, named(name), "", change)
}

// remove deletes objects of that type on behalf of a user.
func remove[T object](w *world, names ...string) {
	w.t.Helper()
	for _, name := range names {
		change(w, name, func(obj T) { obj.SetDeletionTimestamp(ptr.To(metav1.NewTime(time.Now()))) })
	}
}

// left returns what exists at the end: all objects that the operator may have made, without what
// an API server adds, and the status of all objects of ours.
func (w *world) left() map[string]map[string]any {
	all := map[string]map[string]any{}
	for _, obj := range w.All() {
		resource, fields := fakeapi.ResourceOf(obj), fieldsOf(obj)
		name := resource + "/" + obj.GetName()
		_, _, err := glassbackscheme.Scheme.ObjectKinds(obj)
		switch ours := err == nil; {
		case resource == "secrets":
		case ours:
			all[name] = map[string]any{"status": fields["status"]}
		default:
			all[name] = withoutServerFields(fields)
		}
	}
	return all
}

// exampleFiles returns the examples of a kind.
func exampleFiles(t *testing.T, kind string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(examples, kind+"*.yaml"))
	if err != nil || len(all) == 0 {
		t.Fatalf("there are no examples of %s: %v", kind, err)
	}
	return all
}

// title is what a scenario with an example is called.
func title(path string) string { return strings.TrimSuffix(filepath.Base(path), ".yaml") }

// object is any object of an API.
type object = fakeapi.Object

// server is the fake API server of one scenario. It notes each write of its clientsets.
type server struct {
	*fakeapi.Server

	kube *kubefake.Clientset
	own  *glassbackfake.Clientset

	mu    sync.Mutex
	notes notes
}

func newServer() *server {
	s := &server{Server: fakeapi.New()}
	s.kube, s.own = s.Kube(), s.Glassback()
	s.Before = s.write
	return s
}

// write notes a write, unless it is for an object that does not exist, or an apply that gets a conflict.
func (s *server) write(r fakeapi.Request) error {
	switch {
	case !r.Writes():
		return nil
	case r.Live == nil && (r.UID != "" || r.Verb != "create" && r.Verb != "apply"):
		return nil
	case r.Live != nil && r.Verb == "apply" && r.Version != "" && r.Version != r.Live.GetResourceVersion():
		return nil
	}
	n := note{verb: r.Verb, resource: r.Resource, subresource: r.Subresource, name: r.Name, manager: r.Manager, forced: r.Force}
	uid := r.UID
	switch r.Verb {
	case "create":
		n.body = fieldsOf(r.Object)
		if data, ok := n.body["data"].(map[string]any); ok && data["password"] != nil { // It is random.
			data["password"] = "…"
		}
	case "update":
		uid = "" // It is that of the object that the controller has read.
		n.body = fieldsOf(r.Object)
		if r.Subresource == "status" {
			n.body = map[string]any{"status": n.body["status"]}
		}
	case "apply", "patch":
		patch := &unstructured.Unstructured{}
		if err := json.Unmarshal(r.Patch, &patch.Object); err != nil {
			return err
		}
		patch.SetResourceVersion("")
		patch.SetUID("")
		n.body = patch.Object
		n.onlyCreates = r.Live == nil && r.Action() == "create"
	}
	if r.Live != nil {
		n.against(r.Live, r.Version, uid)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes.add(n)
	return nil
}

var update = flag.Bool("update", false, "write the golden files")

const header = `# What the operator writes: see doc.go, before you accept a change of this file.
# go test ./pkg/controller/golden -update writes it.
`

// file is a golden file: one document for each scenario.
type file struct {
	name string
	text bytes.Buffer
}

// compare compares the file with that in testdata, or writes it.
func (f *file) compare(t *testing.T) {
	t.Helper()
	path, got := filepath.Join("testdata", f.name+".yaml"), slices.Concat([]byte(header), f.text.Bytes())
	if *update {
		must.Succeed(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	must.Succeed(t, err)
	if bytes.Equal(got, want) {
		return
	}
	is, was := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	at := 0
	for at < min(len(is), len(was)) && is[at] == was[at] {
		at++
	}
	around := func(lines []string) string {
		return strings.Join(lines[min(max(0, at-5), len(lines)):min(at+10, len(lines))], "\n")
	}
	t.Errorf("%s differs from what is written now, first in line %d. See doc.go, and go test ./pkg/controller/golden -update\n"+
		"the file:\n%s\nnow:\n%s",
		path, at+1, around(was), around(is))
}

// note is one write.
type note struct {
	verb, resource, subresource, name string
	manager                           string
	forced, onlyCreates               bool
	exact                             []string // what of the live object the request names
	body                              map[string]any
	shortened                         bool // whether the file has it as the difference from another
}

// against notes which of version and uid the request names.
func (n *note) against(live object, version string, uid types.UID) {
	for _, named := range []struct{ what, want, is string }{
		{"resourceVersion", version, live.GetResourceVersion()}, {"UID", string(uid), string(live.GetUID())},
	} {
		switch named.want {
		case "":
		case named.is:
			n.exact = append(n.exact, named.what)
		default:
			n.exact = append(n.exact, "another "+named.what)
		}
	}
}

// title returns the request in one line.
func (n note) title() string {
	what := strings.TrimSuffix(n.resource+"/"+n.name, "/")
	if n.subresource != "" {
		what += "/" + n.subresource
	}
	words := []string{n.verb + " " + what}
	if n.manager != "" {
		words = append(words, "as "+n.manager)
	}
	if n.forced {
		words = append(words, "forced")
	}
	if n.onlyCreates {
		words = append(words, "only if it does not exist")
	}
	if len(n.exact) > 0 {
		words = append(words, "only for this "+strings.Join(n.exact, " and "))
	}
	return strings.Join(words, ", ")
}

// notes are the writes of one scenario, as text.
type notes struct {
	text bytes.Buffer
	all  []note
	// clean, if set, replaces what is random in a text.
	clean func(text string) string
}

func (n *notes) scenario(name string) { fmt.Fprintf(&n.text, "---\nscenario: %q\nsteps:\n", name) }

func (n *notes) step(name string) { fmt.Fprintf(&n.text, "- step: %q\n", name) }

// add writes a request down.
func (n *notes) add(made note) {
	if n.clean != nil {
		n.replace(made.body)
	}
	at, differences := n.like(made)
	made.shortened = at > 0
	n.all = append(n.all, made)
	fmt.Fprintf(&n.text, "- request: %q\n", fmt.Sprintf("%d: %s", len(n.all), made.title()))
	switch {
	case made.body == nil:
	case made.shortened:
		fmt.Fprintf(&n.text, "  like: %d\n  but:\n", at)
		n.write(differences, "    ")
	default:
		n.text.WriteString("  body:\n")
		n.write(made.body, "    ")
	}
}

// like returns the number of the earlier request of the same kind whose body differs least, and
// the fields that differ; 0 if none is similar.
func (n *notes) like(made note) (at int, differences map[string]any) {
	is := map[string]any{}
	flatten(is, "", made.body)
	for i, other := range n.all {
		if other.verb != made.verb || other.resource != made.resource || other.subresource != made.subresource || other.body == nil {
			continue
		}
		was, others := map[string]any{}, map[string]any{}
		flatten(was, "", other.body)
		for path, value := range is {
			if was[path] != value {
				others[path] = value
			}
		}
		for path := range was {
			if _, ok := is[path]; !ok {
				others[path] = "(absent)"
			}
		}
		if len(others)*3 < len(is) && (at == 0 || len(others) < len(differences)) {
			at, differences = i+1, others
		}
	}
	return at, differences
}

// flatten puts all scalars of value into all, by their paths.
func flatten(all map[string]any, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			flatten(all, path+"."+key, field)
		}
	case []any:
		for i, item := range value {
			flatten(all, fmt.Sprintf("%s[%d]", path, i), item)
		}
	default:
		all[strings.TrimPrefix(path, ".")] = value
	}
}

func (n *notes) write(value map[string]any, indent string) {
	value = runtime.DeepCopyJSON(value)
	hashScripts(value)
	text, err := yaml.Marshal(value)
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(text)) {
		n.text.WriteString(indent + line)
	}
}

// replace cleans all texts of value.
func (n *notes) replace(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if text, ok := field.(string); ok {
				value[key] = n.clean(text)
			}
			n.replace(field)
		}
	case []any:
		for i, item := range value {
			if text, ok := item.(string); ok {
				value[i] = n.clean(text)
			}
			n.replace(item)
		}
	}
}

// hashScripts puts hashes in place of scripts. A new script alone replaces no Pod.
func hashScripts(fields map[string]any) {
	for key, value := range fields {
		switch value := value.(type) {
		case map[string]any:
			hashScripts(value)
		case string:
			if strings.HasPrefix(value, "#!") {
				fields[key] = fmt.Sprintf("(script, SHA-256 %x)", sha256.Sum256([]byte(value)))
			}
		}
	}
}

// left lists the objects that exist at the end: each as the request that made it so, or in full.
func (n *notes) left(objects map[string]map[string]any) {
	n.text.WriteString("left:\n")
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		if n.clean != nil {
			n.replace(objects[name])
		}
		if at := n.made(name, objects[name]); at > 0 {
			fmt.Fprintf(&n.text, "  %s: as of request %d\n", name, at)
			continue
		}
		fmt.Fprintf(&n.text, "  %s:\n", name)
		n.write(objects[name], "    ")
	}
}

// made returns the number of the last request whose body is that of the object; 0 if there is none.
func (n *notes) made(name string, body map[string]any) int {
	is := map[string]any{}
	flatten(is, "", body)
	for i, note := range slices.Backward(n.all) {
		was := map[string]any{}
		if note.subresource == "status" {
			flatten(was, "", note.body)
		} else {
			flatten(was, "", withoutServerFields(note.body))
		}
		// Of a status that changed in several requests, the end has all fields.
		if note.resource+"/"+note.name == name && maps.Equal(was, is) && !(note.subresource == "status" && note.shortened) {
			return i + 1
		}
	}
	return 0
}

// withoutServerFields returns a copy of body without what an API server adds.
func withoutServerFields(body map[string]any) map[string]any {
	if body == nil {
		return nil
	}
	body = runtime.DeepCopyJSON(body)
	for _, field := range []string{"apiVersion", "kind", "status"} {
		delete(body, field)
	}
	if metadata, ok := body["metadata"].(map[string]any); ok {
		for _, field := range []string{"creationTimestamp", "generation", "managedFields", "namespace", "resourceVersion", "uid"} {
			delete(metadata, field)
		}
	}
	return body
}

// fieldsOf returns the fields of obj as a request carries them.
func fieldsOf(obj runtime.Object) map[string]any {
	data, err := json.Marshal(obj)
	if err != nil {
		panic(err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(data, &fields); err != nil {
		panic(err)
	}
	return fields
}
