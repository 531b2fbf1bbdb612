// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glassback/glassback/docs/commands"
	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/pkg/must"
)

// documentRun runs the commands of the documents that are for one kind of cluster.
type documentRun struct {
	world *world
	real  bool
	clone string
	ecs   string // the URL of an ECS simulator
}

// TestEveryCommandInTheDocuments runs the commands of README.md and docs in their order, in a clone of the repository. The output must
// match the document. docs/commands.yaml says where and how each block runs, and why some blocks do not run.
//
// This test and TestNodeDocuments replace the directory of a cluster, NAMESPACE, and the ports that programs listen at on this machine.
// They do not replace port 8443, which must be free.
func TestEveryCommandInTheDocuments(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{})
	r := &documentRun{world: w, clone: clone(t), ecs: simulate(t, w, w.Kubeconfig()).url}
	r.documents(t)
}

// TestNodeDocuments does the same as TestEveryCommandInTheDocuments, with the blocks that need a real node.
func TestNodeDocuments(t *testing.T) {
	heavy.parallel(t)
	needRealNode(t)
	r := &documentRun{world: start(t, cluster.Config{Node: cluster.NodeReal}), real: true, clone: clone(t)}
	r.world.load(t, documentedImage)
	r.documents(t)
}

// documents runs the blocks of all documents, except translations: they have the blocks of their originals.
func (r *documentRun) documents(t *testing.T) {
	all, err := commands.Read(root)
	must.Succeed(t, err)
	for _, d := range all {
		blocks := slices.DeleteFunc(slices.Clone(d.Blocks), func(b *commands.Block) bool {
			return b.Skipped() || b.Place.Real != r.real
		})
		if len(blocks) > 0 && !d.Translation() {
			t.Run(d.Name, func(t *testing.T) { r.document(t, blocks) })
		}
	}
}

// document runs the blocks of a document, up to the first that fails.
func (r *documentRun) document(t *testing.T, blocks []*commands.Block) {
	t.Helper()
	terminal := newSession(t, r.world, r.clone)
	defer terminal.close()
	var place commands.Place
	for _, b := range blocks {
		if program := missing(b); program != "" {
			t.Run(b.Name, func(t *testing.T) { t.Skipf("SKIPPED, needs %s", program) })
			continue
		}
		began, s := time.Now(), terminal
		if !b.Place.Cluster {
			s = newSession(t, nil, r.clone)
		} else if b.Place != place {
			place = b.Place
			r.operate(s, place)
		}
		if err := s.block(b); err != nil {
			t.Errorf("%s: %v", b.Name, err)
			return
		}
		t.Logf("%s took %s", b.Name, time.Since(began).Round(100*time.Millisecond))
	}
}

// optional matches programs that some machines do not have. Blocks that use them do not run there.
var optional = regexp.MustCompile(`\b(curl|jq|pkill)\b`)

// missing returns the name of a program that the block needs and this machine does not have.
func missing(b *commands.Block) string {
	for _, c := range b.Commands {
		for _, program := range optional.FindAllString(c.Text, -1) {
			if _, err := exec.LookPath(program); err != nil {
				return program
			}
		}
	}
	return ""
}

// operate starts the operator, if the place needs one.
func (r *documentRun) operate(s *session, place commands.Place) {
	s.t.Helper()
	switch {
	case !place.Operator:
	case place.Real:
		s.must(s.t, s.do("make deploy KUBECONFIG="+s.Kubeconfig()+" IMG="+documentedImage))
	default:
		s.must(s.t, s.start(fmt.Sprintf("ALIBABA_CLOUD_ACCESS_KEY_ID=%s ALIBABA_CLOUD_ACCESS_KEY_SECRET=%s exec glassback --install-crds "+
			"--kubeconfig %s --ecs-endpoint %s", cloudKeyID, cloudKeySecret, s.Kubeconfig(), r.ecs)))
	}
}

// block runs a block as its entry says.
func (s *session) block(b *commands.Block) error {
	s.t.Helper()
	defer s.endGroups()
	if b.AfterCtrlC {
		s.endAll()
	}
	for _, text := range b.Before {
		if err := s.do(text); err != nil {
			return fmt.Errorf("before the block, %s: %w", text, err)
		}
	}
	values := slices.Clone(s.values)
	for placeholder, value := range b.Replace {
		values = append(values, placeholder, value)
	}
	replace := strings.NewReplacer(values...).Replace
	var script strings.Builder
	for _, c := range b.Commands {
		c.Text = replace(c.Text)
		var err error
		switch {
		case b.Background:
			script.WriteString(c.Text + "\n")
		case b.Console:
			err = s.expect(c)
		default:
			err = s.do(c.Text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.Text, err)
		}
	}
	if b.Background {
		return s.start(script.String())
	}
	return nil
}
