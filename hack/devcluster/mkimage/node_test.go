// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/must"
)

// TestNodeScriptSaysWhyThereIsNoRealNode runs node.sh with only those programs in PATH that its checks need: it cannot install anything.
func TestNodeScriptSaysWhyThereIsNoRealNode(t *testing.T) {
	script, err := filepath.Abs("../node.sh")
	must.Succeed(t, err)
	tests := map[string]struct {
		system, user string
		args         []string
		code         int
		want         string
	}{
		"another system": {"Darwin", "0", []string{"images"}, 0, "real node: it needs Linux: the simulated one is used\n"},
		"another user": {"Linux", "1000", []string{"images"}, 0,
			"real node: it needs root, and containerd.*: the simulated one is used \\(sudo make demo has a real one\\)\n"},
		"no apt-get": {"Linux", "0", []string{"images"}, 0,
			"real node: it needs containerd.*, which only apt-get can install here \\(Debian, Ubuntu\\): the"},
		"no store": {"Linux", "0", nil, 2, "usage: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := debian{t.TempDir()}
			d.write(t, "uname", "#!/bin/sh\necho "+test.system+"\n")
			d.write(t, "id", "#!/bin/sh\necho "+test.user+"\n")
			for _, name := range []string{"dirname", "rm", "sh"} {
				path, err := exec.LookPath(name)
				must.Succeed(t, err)
				d.write(t, name, "→"+path)
			}
			cmd := exec.CommandContext(t.Context(), script, test.args...)
			cmd.Dir, cmd.Env = d.dir, []string{"PATH=" + d.dir}
			out, err := cmd.CombinedOutput()
			code := 0
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				code = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if code != test.code || !regexp.MustCompile(test.want).Match(out) || strings.Count(string(out), "\n") != 1 {
				t.Errorf("exit %d: %s", code, out)
			}
			if _, err := os.Stat(filepath.Join(d.dir, "images")); err == nil {
				t.Error("it made something")
			}
		})
	}
}
