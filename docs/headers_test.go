// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestEverySourceHasALicenceHeader reads the first 8 lines of each Go file and shell script that git knows or would add.
func TestEverySourceHasALicenceHeader(t *testing.T) {
	list := exec.CommandContext(t.Context(), "git", "-C", "..", "ls-files", "-z", "--cached", "--others", "--exclude-standard",
		"--deduplicate", "*.go", "*.sh")
	out, err := list.Output()
	if err != nil {
		t.Skipf("SKIPPED, needs a checkout by git: %v", err)
	}
	files := strings.Split(strings.Trim(string(out), "\x00"), "\x00")
	if len(files) < 100 {
		t.Fatalf("git lists only %d files", len(files))
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join("..", file))
		if os.IsNotExist(err) {
			continue // deleted, but not in a commit yet
		} else if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitN(string(text), "\n", 9)
		if len(lines) == 9 {
			lines = lines[:8]
		}
		header := strings.Join(lines, "\n")
		if !strings.Contains(header, "Copyright The Glassback Authors.") || !strings.Contains(header, "SPDX-License-Identifier: Apache-2.0") {
			t.Errorf("%s does not begin with the licence header", file)
		}
	}
}
