// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glassback/glassback/hack/devcluster/state"
	"github.com/glassback/glassback/pkg/must"
)

func TestSpec(t *testing.T) {
	for name, test := range map[string]struct {
		config Config
		want   string
	}{
		"the zero Config is one simulated node": {
			Config{}, "simulated 1 [etcd kube-apiserver kube-controller-manager kube-scheduler kwok]",
		},
		"no node means etcd and the API server alone": {Config{Node: NodeNone}, "none 0 [etcd kube-apiserver]"},
		"components without kwok mean no node": {
			Config{Components: []string{Etcd, APIServer, ControllerManager}}, "none 0 [etcd kube-apiserver kube-controller-manager]"},
		"components are started in their own order": {
			Config{Components: []string{Kwok, APIServer, Etcd}}, "simulated 1 [etcd kube-apiserver kwok]"},
	} {
		s, err := complete(test.config)
		must.Succeed(t, err)
		if got := fmt.Sprint(s.Node, " ", s.Nodes, " ", s.Components); got != test.want {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

func TestSpecRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		config Config
		want   string
	}{
		"two real nodes":        {Config{Node: NodeReal, Nodes: 2}, "2 nodes: there is one, if it is real"},
		"half a real node":      {Config{Node: NodeReal, Components: []string{Etcd}}, "components: a real node needs all of them"},
		"a port of a real node": {Config{Node: NodeReal, APIPort: 10250}, "API port 10250: a real node has something else there"},
		"kwok on a real node": {
			Config{Node: NodeReal, Components: []string{Kwok}}, `"kwok" has nothing to do with node "real"`,
		},
		"a control plane that is missing":        {Config{ControlPlane: "/nowhere"}, "control plane: find /nowhere: "},
		"a control plane beside a newer kubelet": {Config{Node: NodeReal, ControlPlane: "/"}, "control plane /: a kubelet must not be newer"},
		"a real node without images":             {Config{Node: NodeReal, Images: "/"}, "the real node "},
		"images that nothing runs":               {Config{Images: "/"}, `images, but node "simulated" runs no containers`},
		"a component without what it stands on":  {Config{Components: []string{APIServer}}, `component "kube-apiserver" needs "etcd"`},
		"kwok without nodes": {
			Config{Node: NodeNone, Components: []string{Etcd, APIServer, Kwok}}, `"kwok" has nothing to do with node "none"`,
		},
		"simulated nodes without kwok": {
			Config{Node: NodeSimulated, Components: []string{Etcd}}, `node "simulated" needs component "kwok"`,
		},
		"nodes where there are none":         {Config{Node: NodeNone, Nodes: 2}, `2 nodes, but node "none" means none`},
		"a port that is none":                {Config{APIPort: 70000}, "API port 70000"},
		"arguments for a component it lacks": {Config{Node: NodeNone, ExtraArgs: map[string][]string{Kwok: {"--v=4"}}}, `arguments for "kwok"`},
	} {
		if _, err := complete(test.config); err == nil || !strings.Contains(err.Error(), test.want) || !IsBadConfig(err) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}

func TestDirectory(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	must.Succeed(t, err)
	must.Succeed(t, os.Symlink(root, filepath.Join(root, "link")))
	t.Chdir(root)
	for name, test := range map[string]struct {
		dir, node string
		want      string // "" for an error
	}{
		"one that is not":                   {filepath.Join(root, "a", "b"), NodeReal, filepath.Join(root, "a", "b")},
		"a relative one":                    {"a", NodeSimulated, filepath.Join(root, "a")},
		"one behind a symbolic link":        {filepath.Join(root, "link", "a", "b"), NodeReal, filepath.Join(root, "a", "b")},
		"one with a space and a comma":      {filepath.Join(root, "a, b"), NodeReal, filepath.Join(root, "a, b")},
		"one that cannot be in a list":      {filepath.Join(root, "a:b"), NodeSimulated, ""},
		"one with a quote, and a real node": {filepath.Join(root, `a"b`), NodeReal, ""},
		"one with a newline":                {filepath.Join(root, "a\nb"), NodeSimulated, ""},
	} {
		got, err := directory(state.Spec{Dir: test.dir, Node: test.node})
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, test.want)
		}
		if err != nil && (!IsBadConfig(err) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: not one line about a bad configuration: %v", name, err)
		}
	}
}

func TestFindBinary(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	must.Succeed(t, err)
	below := filepath.Join(root, "hack", "devcluster", "cluster")
	must.Succeed(t, os.MkdirAll(below, 0o700))
	t.Chdir(below)
	t.Setenv(BinaryEnv, "")
	write := func(name, text string) { must.Succeed(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600)) }
	check := func(when, want string) {
		t.Helper()
		if found, err := FindBinary(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v; want %s", when, found, err, want)
		}
	}
	check("outside of the module", "make devcluster")
	write("hack/devcluster/go.mod", "module github.com/glassback/glassback/hack/devcluster\n")
	write("go.mod", "module github.com/glassback/glassback\n\ngo 1.26\n")
	path := filepath.Join(root, "bin", "devcluster")
	check("before it is built", `bin/devcluster: run "make devcluster"`)
	must.Succeed(t, os.Mkdir(filepath.Dir(path), 0o700))
	write("bin/devcluster", "")
	if found, err := FindBinary(); err != nil || found != path {
		t.Errorf("got %s, %v, want %s", found, err, path)
	}
	t.Setenv(BinaryEnv, filepath.Join(root, "none"))
	check("a variable that leads nowhere", BinaryEnv)
}
