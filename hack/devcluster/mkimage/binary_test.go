// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/glassback/glassback/hack/devcluster/images"
	"github.com/glassback/glassback/pkg/must"
)

func TestBinaryCanBeLoaded(t *testing.T) {
	program, output := buildPause(t), filepath.Join(t.TempDir(), "app.tar")
	must.Succeed(t, execute(t, "binary", "--name", "app/app:dev", "--entrypoint", "/bin/app", "--output", output, program))
	store := images.Store(t.TempDir())
	names, err := store.Load(t.Context(), output)
	if err != nil || !slices.Equal(names, []string{"docker.io/app/app:dev"}) {
		t.Fatalf("got %v, %v", names, err)
	}
	image, err := store.Image("app/app:dev")
	must.Succeed(t, err)
	config, err := image.ConfigFile()
	if err != nil || !slices.Equal(config.Config.Entrypoint, []string{"/bin/app"}) || config.Config.User != "65532:65532" {
		t.Errorf("got %+v, %v", config, err)
	}
	files := filesOf(t, image)
	want, err := os.ReadFile(program)
	if err != nil || files["bin/app"] != string(want) {
		t.Errorf("the program has %d bytes, %v", len(files["bin/app"]), err)
	}
	if files["tmp"] != "1777" || files["home/nonroot"] != "700 65532" || !strings.Contains(files["etc/passwd"], "nonroot:x:65532:65532:") {
		t.Errorf("got %q, %q, %q", files["tmp"], files["home/nonroot"], files["etc/passwd"])
	}
	if trusted, err := os.ReadFile("/" + certificates); err == nil && files[certificates] != string(trusted) {
		t.Error("it does not trust what this machine does")
	}
}

func TestBadInputIsOneLine(t *testing.T) {
	dir := t.TempDir()
	output := filepath.Join(dir, "app.tar")
	text, dynamic := filepath.Join(dir, "text"), filepath.Join(dir, "dynamic")
	for file, content := range map[string]string{text: "#!/bin/sh\n", dynamic: program(t)} {
		must.Succeed(t, os.WriteFile(file, []byte(content), 0o700))
	}
	tests := map[string]struct {
		args []string
		want string
	}{
		"an unknown command":          {[]string{"debian"}, `unknown command "debian"`},
		"an unknown flag":             {[]string{"base", "--dir", "x"}, "unknown flag: --dir: see mkimage base --help"},
		"no store":                    {[]string{"base"}, "--store and --pause are required"},
		"an argument":                 {[]string{"base", "nginx"}, `unexpected argument "nginx"`},
		"no pause":                    {[]string{"base", "--store", dir + "/s", "--pause", dir + "/none"}, "read pause program: open "},
		"a pause that is no program":  {[]string{"base", "--store", dir + "/s", "--pause", text}, text + " is no Linux program: build it"},
		"a pause that needs a libc":   {[]string{"base", "--store", dir + "/s", "--pause", dynamic}, "build it with CGO_ENABLED=0"},
		"no program":                  {[]string{"binary", "--name", "a", "--output", output}, "it takes FILE, and got 0 arguments"},
		"no name":                     {[]string{"binary", "--output", output, text}, "--name and --output are required"},
		"a bad name":                  {[]string{"binary", "--name", "A b", "--output", output, text}, `image name "A b": want`},
		"a program that is not there": {[]string{"binary", "--name", "a", "--output", output, dir + "/none"}, "read program: open "},
		"a script": {[]string{"binary", "--name", "a", "--output", output, text},
			text + " is no Linux program: build it with CGO_ENABLED=0 GOOS=linux"},
		"a program that needs a libc": {[]string{"binary", "--name", "a", "--output", output, dynamic},
			"is linked dynamically (it needs /lib64/ld-linux-x86-64.so.2, libc.so.6), and the image has nothing but it: build it with"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := execute(t, test.args...)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// execute runs mkimage, which prints nothing.
func execute(t *testing.T, args ...string) error {
	t.Helper()
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	if out.Len() > 0 {
		t.Errorf("printed: %s", &out)
	}
	return err
}
