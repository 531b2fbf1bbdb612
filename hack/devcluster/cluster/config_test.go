package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
			if err != nil {
				t.Fatal(err)
			}
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
		"an unknown kind of node":                {Config{Node: "fake"}, `unknown kind of node "fake": simulated, real or none`},
		"two real nodes":                         {Config{Node: NodeReal, Nodes: 2}, "2 nodes: there is one, if it is real"},
		"half a real node":                       {Config{Node: NodeReal, Components: []string{Etcd}}, "components: a real node needs all of them"},
		"kwok on a real node":                    {Config{Node: NodeReal, Components: []string{Kwok}}, `"kwok" has nothing to do with node "real"`},
		"a real node without images":             {Config{Node: NodeReal, Images: "/"}, "the real node "},
		"images that nothing runs":               {Config{Images: "/"}, `images, but node "simulated" runs no containers`},
		"an unknown component":                   {Config{Components: []string{Etcd, "dns"}}, `unknown component "dns": etcd, `},
		"a component without what it stands on":  {Config{Components: []string{APIServer}}, `component "kube-apiserver" needs "etcd"`},
		"kwok without nodes":                     {Config{Node: NodeNone, Components: []string{Etcd, APIServer, Kwok}}, `"kwok" has nothing to do with node "none"`},
		"simulated nodes without kwok":           {Config{Node: NodeSimulated, Components: []string{Etcd}}, `node "simulated" needs component "kwok"`},
		"nodes where there are none":             {Config{Node: NodeNone, Nodes: 2}, `2 nodes, but node "none" means none`},
		"less than no nodes":                     {Config{Nodes: -1}, "-1 nodes"},
		"a port that is none":                    {Config{APIPort: 70000}, "API port 70000"},
		"arguments for a component it lacks":     {Config{Node: NodeNone, ExtraArgs: map[string][]string{Kwok: {"--v=4"}}}, `arguments for "kwok"`},
		"arguments for a component nobody knows": {Config{ExtraArgs: map[string][]string{"kubelet": {"--v=4"}}}, `arguments for "kubelet"`},
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

func TestFindBinary(t *testing.T) {
	root := t.TempDir()
	below := filepath.Join(root, "hack", "devcluster", "cluster")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
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
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, path, "")
	found, err := FindBinary()
	if err != nil {
		t.Fatal(err)
	}
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
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, a, b string) bool {
	t.Helper()
	infoA, err := os.Stat(a)
	if err != nil {
		t.Fatal(err)
	}
	infoB, err := os.Stat(b)
	if err != nil {
		t.Fatal(err)
	}
	return os.SameFile(infoA, infoB)
}
