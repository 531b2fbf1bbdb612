// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/pkg/must"
)

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
