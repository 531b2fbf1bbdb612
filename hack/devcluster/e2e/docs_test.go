/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glassback/glassback/hack/devcluster/cluster"
)

// newcomer follows the documents, from the first line to the last, as far as they are about one
// kind of cluster.
type newcomer struct {
	world *world
	real  bool
	clone string
	ecs   string // the URL of an ECS simulator
}

// TestEveryCommandInTheDocuments runs the commands of README.md and docs in their order, with a
// clone of the repository and a cluster. The output has to look like that in the document. Only a
// comment in the document, with a reason, can leave a command out.
//
// What is another one than in the documents: the directory of a cluster, NAMESPACE, and ports that
// programs listen at on this machine, but for 8443, which must be free.
func TestEveryCommandInTheDocuments(t *testing.T) {
	all := documents(t)
	if t.Failed() {
		return
	}
	plain := start(t, cluster.Config{}) // Pods "run" there.
	ecs := simulate(t, plain, plain.Kubeconfig()).url
	t.Run("on a cluster", func(t *testing.T) {
		t.Parallel()
		n := &newcomer{world: plain, clone: clone(t), ecs: ecs}
		n.followAll(t, all)
	})
	t.Run("on a real node", func(t *testing.T) {
		if os.Getenv(nodeEnv) == cluster.NodeSimulated {
			t.Skipf("SKIPPED, needs a real node: %s=%s asks for none", nodeEnv, cluster.NodeSimulated)
		}
		if err := cluster.RealNodeMissing(); err != nil {
			t.Skipf("SKIPPED, needs a real node: %v", err)
		}
		t.Parallel()
		n := &newcomer{world: start(t, cluster.Config{Node: cluster.NodeReal}), real: true, clone: clone(t)}
		n.world.load(t, documentedImage)
		n.followAll(t, all)
	})
}

// TestNoCommandInTheDocumentsIsLeftOut without a reason that holds.
func TestNoCommandInTheDocumentsIsLeftOut(t *testing.T) { excused(t, documents(t)) }

// followAll does what the documents say.
func (n *newcomer) followAll(t *testing.T, all []document) {
	for _, d := range all {
		blocks := slices.DeleteFunc(slices.Clone(d.blocks), func(b *block) bool {
			return b.not != "" || n.real != (places[b.place].real || b.says("--node real"))
		})
		if len(blocks) > 0 {
			t.Run(d.name, func(t *testing.T) { n.follow(t, blocks) })
		}
	}
}

// follow does what a document says, up to what does not work.
func (n *newcomer) follow(t *testing.T, blocks []*block) {
	t.Helper()
	terminal := newSession(t, n.world, n.clone)
	defer terminal.close()
	place := ""
	for _, b := range blocks {
		if missing := b.missing(); missing != "" {
			t.Run(b.name, func(t *testing.T) { t.Skipf("SKIPPED, needs %s", missing) })
			continue
		}
		began, s := time.Now(), terminal
		if b.place == onNothing {
			s = newSession(t, nil, n.clone)
		} else if b.place != place {
			place = b.place
			n.operate(s, place)
		}
		if err := s.block(b); err != nil {
			t.Errorf("%s: %v", b.name, err)
			return
		}
		t.Logf("%s took %s", b.name, time.Since(began).Round(100*time.Millisecond))
	}
}

// operate sees to it that there is an operator, where there has to be one.
func (n *newcomer) operate(s *session, place string) {
	s.t.Helper()
	switch place {
	case withInstalled:
		s.must(s.t, s.do("make deploy KUBECONFIG="+s.Kubeconfig()+" IMG="+documentedImage))
	case withOperator:
		s.must(s.t, s.start(fmt.Sprintf("ALIBABA_CLOUD_ACCESS_KEY_ID=%s ALIBABA_CLOUD_ACCESS_KEY_SECRET=%s exec glassback --install-crds "+
			"--kubeconfig %s --ecs-endpoint %s",
			cloudKeyID, cloudKeySecret, s.Kubeconfig(), n.ecs)))
	}
}

// block does what a block says.
func (s *session) block(b *block) error {
	s.t.Helper()
	defer s.endGroups()
	if b.ended {
		s.endAll()
	}
	for _, text := range b.first {
		if err := s.do(text); err != nil {
			return fmt.Errorf("first, %s: %w", text, err)
		}
	}
	words := strings.NewReplacer(append(slices.Clone(s.own), b.with...)...)
	if b.background {
		var script strings.Builder
		for _, c := range b.commands {
			script.WriteString(words.Replace(c.text) + "\n")
		}
		return s.start(script.String())
	}
	for _, c := range b.commands {
		c.text = words.Replace(c.text)
		var err error
		if b.console {
			err = s.see(c)
		} else {
			err = s.do(c.text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.text, err)
		}
	}
	return nil
}

// says reports whether one of the commands has this in it.
func (b *block) says(text string) bool {
	for _, c := range b.commands {
		if strings.Contains(c.text, text) {
			return true
		}
	}
	return false
}

// missing is a program that the block needs and this machine does not have.
func (b *block) missing() string {
	for _, program := range b.needs {
		if _, err := exec.LookPath(program); err != nil {
			return program
		}
	}
	return ""
}
