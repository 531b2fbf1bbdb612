// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/glassback/glassback/hack/devcluster/state"
	"github.com/glassback/glassback/pkg/must"
)

func TestSpec(t *testing.T) {
	all := []string{Etcd, APIServer, ControllerManager, Scheduler, Kwok}
	tests := map[string]struct {
		config     Config
		node       string
		nodes      int
		components []string
	}{
		"the zero Config is one simulated node": {
			Config{}, NodeSimulated, 1, all},
		"no node means etcd and the API server alone": {
			Config{Node: NodeNone}, NodeNone, 0, []string{Etcd, APIServer}},
		"components without kwok mean no node": {
			Config{Components: []string{Etcd, APIServer, ControllerManager}}, NodeNone, 0, []string{Etcd, APIServer, ControllerManager}},
		"components are started in their own order": {
			Config{Components: []string{Kwok, APIServer, Etcd}}, NodeSimulated, 1, []string{Etcd, APIServer, Kwok}},
		"etcd can be alone": {
			Config{Components: []string{Etcd}}, NodeNone, 0, []string{Etcd}},
		"several nodes": {
			Config{Nodes: 3}, NodeSimulated, 3, all},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := test.config.spec()
			must.Succeed(t, err)
			if s.Node != test.node || s.Nodes != test.nodes || !slices.Equal(s.Components, test.components) {
				t.Errorf("got node %s, %d nodes, %v", s.Node, s.Nodes, s.Components)
			}
		})
	}
}

func TestSpecRefuses(t *testing.T) {
	tests := map[string]struct {
		config Config
		want   string
	}{
		"an unknown kind of node": {Config{Node: "fake"}, `unknown kind of node "fake": simulated, real or none`},
		"two real nodes":          {Config{Node: NodeReal, Nodes: 2}, "2 nodes: there is one, if it is real"},
		"half a real node":        {Config{Node: NodeReal, Components: []string{Etcd}}, "components: a real node needs all of them"},
		"a port of a real node":   {Config{Node: NodeReal, APIPort: 10250}, "API port 10250: a real node has something else there"},
		"kwok on a real node": {
			Config{Node: NodeReal, Components: []string{Kwok}}, `"kwok" has nothing to do with node "real"`,
		},
		"a real node without images":            {Config{Node: NodeReal, Images: "/"}, "the real node "},
		"images that nothing runs":              {Config{Images: "/"}, `images, but node "simulated" runs no containers`},
		"an unknown component":                  {Config{Components: []string{Etcd, "dns"}}, `unknown component "dns": etcd, `},
		"a component without what it stands on": {Config{Components: []string{APIServer}}, `component "kube-apiserver" needs "etcd"`},
		"kwok without nodes": {
			Config{Node: NodeNone, Components: []string{Etcd, APIServer, Kwok}}, `"kwok" has nothing to do with node "none"`,
		},
		"simulated nodes without kwok": {
			Config{Node: NodeSimulated, Components: []string{Etcd}}, `node "simulated" needs component "kwok"`,
		},
		"nodes where there are none":         {Config{Node: NodeNone, Nodes: 2}, `2 nodes, but node "none" means none`},
		"less than no nodes":                 {Config{Nodes: -1}, "-1 nodes"},
		"a port that is none":                {Config{APIPort: 70000}, "API port 70000"},
		"arguments for a component it lacks": {Config{Node: NodeNone, ExtraArgs: map[string][]string{Kwok: {"--v=4"}}}, `arguments for "kwok"`},
		"arguments for an unknown component": {Config{ExtraArgs: map[string][]string{"kubelet": {"--v=4"}}}, `arguments for "kubelet"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := test.config.spec()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %s", err, test.want)
			}
			if !IsBadConfig(err) {
				t.Error("not a bad configuration")
			}
		})
	}
}

func TestDirectory(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	must.Succeed(t, err)
	must.Succeed(t, os.Symlink(root, filepath.Join(root, "link")))
	t.Chdir(root)
	tests := map[string]struct {
		dir, node string
		want      string // "" for an error
	}{
		"one that is there":                  {root, NodeReal, root},
		"one that is not":                    {filepath.Join(root, "a", "b"), NodeReal, filepath.Join(root, "a", "b")},
		"a relative one":                     {"a", NodeSimulated, filepath.Join(root, "a")},
		"one behind a symbolic link":         {filepath.Join(root, "link", "a", "b"), NodeReal, filepath.Join(root, "a", "b")},
		"one with a space and a comma":       {filepath.Join(root, "a, b"), NodeReal, filepath.Join(root, "a, b")},
		"one that cannot be in a list":       {filepath.Join(root, "a:b"), NodeSimulated, ""},
		"one with a quote":                   {filepath.Join(root, `a"b`), NodeSimulated, filepath.Join(root, `a"b`)},
		"one with a quote, and a real node":  {filepath.Join(root, `a"b`), NodeReal, ""},
		"one with a dollar, and a real node": {filepath.Join(root, "a$b"), NodeReal, ""},
		"one with a newline":                 {filepath.Join(root, "a\nb"), NodeSimulated, ""},
		"one that no text can say":           {filepath.Join(root, "a\xff"), NodeSimulated, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := directory(state.Spec{Dir: test.dir, Node: test.node})
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
			if err != nil && (!IsBadConfig(err) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("not one line about a bad configuration: %v", err)
			}
		})
	}
}

func TestFindBinary(t *testing.T) {
	root := t.TempDir()
	below := filepath.Join(root, "hack", "devcluster", "cluster")
	must.Succeed(t, os.MkdirAll(below, 0o700))
	t.Chdir(below)
	t.Setenv(BinaryEnv, "")
	if _, err := FindBinary(); err == nil || !strings.Contains(err.Error(), "make devcluster") {
		t.Errorf("outside of the module: %v", err)
	}
	write(t, filepath.Join(root, "hack", "devcluster", "go.mod"), "module github.com/glassback/glassback/hack/devcluster\n")
	write(t, filepath.Join(root, "go.mod"), "module github.com/glassback/glassback\n\ngo 1.26\n")
	path := filepath.Join(root, "bin", "devcluster")
	if _, err := FindBinary(); err == nil || !strings.HasSuffix(err.Error(), `bin/devcluster: run "make devcluster"`) {
		t.Errorf("before it is built: %v", err)
	}
	must.Succeed(t, os.Mkdir(filepath.Dir(path), 0o700))
	write(t, path, "")
	found, err := FindBinary()
	must.Succeed(t, err)
	if want, err := filepath.EvalSymlinks(path); err != nil || !same(t, found, want) {
		t.Errorf("got %s, want %s", found, want)
	}
	t.Setenv(BinaryEnv, filepath.Join(root, "none"))
	if _, err := FindBinary(); err == nil || !strings.Contains(err.Error(), BinaryEnv) {
		t.Errorf("a variable that leads nowhere: %v", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
}

func same(t *testing.T, a, b string) bool {
	t.Helper()
	infoA, err := os.Stat(a)
	must.Succeed(t, err)
	infoB, err := os.Stat(b)
	must.Succeed(t, err)
	return os.SameFile(infoA, infoB)
}
