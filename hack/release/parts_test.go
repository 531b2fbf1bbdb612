// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"sigs.k8s.io/yaml"
)

var date = time.Date(2026, 11, 23, 1, 2, 4, 0, time.UTC)

func TestLicences(t *testing.T) {
	for name, want := range map[string]bool{
		"LICENSE": true, "License.md": true, "LICENCE": true, "LICENSE-APACHE": true, "NOTICE.txt": true,
		"licenses.go": false, "README.md": false,
	} {
		if legal.MatchString(name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
	own, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	succeed(t, err)
	all, err := classify(map[string]*module{
		"b": {path: "b", files: []string{string(own)}}, "a": {path: "a", version: "v1", files: []string{"All rights reserved."}},
	})
	if err == nil || err.Error() != "a v1 has no licence that is known" ||
		len(all) != 2 || all[0].path != "a" || all[1].license != "Apache-2.0" {
		t.Fatalf("%v, error %v", all, err)
	}
	if text := string(thirdParty(append(all, &module{path: "c", files: all[1].files}))); !strings.Contains(text, "=\nb\nc\n\n") {
		t.Errorf("modules do not share a text:\n%s", text)
	}
}

func TestTheLicencesOfAPackageAreThoseAboveIt(t *testing.T) {
	root := t.TempDir()
	for file, text := range map[string]string{
		"LICENSE": "1", "a/third_party/LICENSE": "2", "a/third_party/b/NOTICE": "3", "c/LICENSE": "4", "a/x.go": "5",
	} {
		write(t, root, file, text)
	}
	m := &module{}
	for range 2 {
		if err := m.collect(filepath.Join(root, "a", "third_party", "b"), root); err != nil || !slices.Equal(m.files, []string{"3", "2", "1"}) {
			t.Errorf("%q, error %v", m.files, err)
		}
	}
}

func TestTheVersionIsThatOfTheCommit(t *testing.T) {
	for name, test := range map[string]struct{ version, commit, chart, app, err string }{
		"all agree":           {"v1.2.3", "c", "1.2.3", "v1.2.3", ""},
		"no version":          {"dev", "c", "1.2.3", "v1.2.3", "the version must be as in v1.2.3, not \"dev\""},
		"half a version":      {"v1.2", "c", "1.2.3", "v1.2.3", "the version must be"},
		"changes":             {"v1.2.3", "c-dirty", "1.2.3", "v1.2.3", "the checkout has changes"},
		"another chart":       {"v1.2.3", "c", "1.2.2", "v1.2.3", "Chart.yaml has version 1.2.2 and appVersion v1.2.3"},
		"another appVersion":  {"v1.2.3", "c", "1.2.3", "1.2.3", "Chart.yaml has version 1.2.3 and appVersion 1.2.3"},
		"an older section":    {"v1.2.2", "c", "1.2.2", "v1.2.2", "the first section of CHANGELOG.md is \"v1.2.3\""},
		"no section about it": {"v1.2.4", "c", "1.2.4", "v1.2.4", "the first section of CHANGELOG.md is \"v1.2.3\": describe v1.2.4"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "artifacts/chart/Chart.yaml", "apiVersion: v2\nname: a\nversion: "+test.chart+"\nappVersion: "+test.app+"\n")
			write(t, dir, "CHANGELOG.md", "# Changelog\n\nText.\n\n## v1.2.3\n\n- New.\n\n## v1.2.2\n\n- Old.\n")
			s := source{root: dir, version: test.version, commit: test.commit}
			err := s.checkVersion()
			if (err == nil) != (test.err == "") || (err != nil && !strings.HasPrefix(err.Error(), test.err)) {
				t.Fatalf("error %v, want %q", err, test.err)
			}
			if notes, err := s.notes(); test.err == "" && (err != nil || string(notes) != "- New.\n") {
				t.Errorf("notes %q, error %v", notes, err)
			}
		})
	}
}

func write(t *testing.T, dir, file, text string) {
	t.Helper()
	file = filepath.Join(dir, file)
	succeed(t, os.MkdirAll(filepath.Dir(file), 0o755))
	succeed(t, os.WriteFile(file, []byte(text), 0o644))
}

func TestChecksumsAndTheirSignature(t *testing.T) {
	sums := checksums(map[string]string{"b": "2", "a": "1"})
	if string(sums) != "1  a\n2  b\n" {
		t.Errorf("%q", sums)
	}
	key, public := newKey(t)
	if signature, err := sign(key, sums); err != nil || !ed25519.Verify(public, sums, signature) {
		t.Errorf("the signature is wrong: %v", err)
	}
	wrong := filepath.Join(t.TempDir(), "key.pem")
	for text, want := range map[string]string{"": "is not a PEM file", "-----BEGIN X-----\nAA==\n-----END X-----\n": "has no Ed25519 key"} {
		succeed(t, os.WriteFile(wrong, []byte(text), 0o600))
		if _, err := sign(wrong, sums); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A release is signed with the key whose public half is in the checkout, unless its user asks for none.
func TestTheKeyOfAReleaseIsTheOneOfTheCheckout(t *testing.T) {
	key, _ := newKey(t)
	other, _ := newKey(t)
	dir := t.TempDir()
	publishKey(t, dir, key)
	for name, test := range map[string]struct {
		key      string
		unsigned bool
		err      string
	}{
		"its key": {key, false, ""}, "unsigned": {"", true, ""},
		"neither": {"", false, "give --key FILE"}, "both": {key, true, "give --key FILE"},
		"another key": {other, false, other + " is not the key whose public half is in glassback.pub; for a new key, commit"},
	} {
		r := &release{source: source{root: dir}, key: test.key, unsigned: test.unsigned}
		if err := r.checkKey(); (err == nil) != (test.err == "") || err != nil && !strings.HasPrefix(err.Error(), test.err) {
			t.Errorf("%s: error %v, want %q", name, err, test.err)
		}
	}
}

// publishKey writes the public half of a key as openssl does.
func publishKey(t *testing.T, dir, key string) {
	t.Helper()
	private, err := readKey(key)
	succeed(t, err)
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	succeed(t, err)
	write(t, dir, publicKeyFile, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
}

func TestCommandLine(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		err  string
	}{
		"help":               {nil, "flag: help requested"},
		"an unknown command": {[]string{"build"}, "there is no command \"build\""},
		"no date":            {[]string{"make", "--version", "v1.2.3"}, "--date: "},
		"no files":           {[]string{"publish", "--dist", "/none"}, "look for the files, run make release first"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(t.Context(), test.args, t.Output()); err == nil || !strings.HasPrefix(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
		})
	}
}

// TestAnImageOfOneProgram makes an image of the smallest program.
func TestAnImageOfOneProgram(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "main.go", "package main\n\nfunc main() {}\n")
	build := func(settings ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "program"), filepath.Join(dir, "main.go"))
		cmd.Env = append(os.Environ(), append(settings, "GOFLAGS=")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return filepath.Join(dir, "program")
	}
	output := filepath.Join(dir, "image.tar")
	args := []string{"image", "--image", "app/app:dev", "--output", output, build("CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm64")}
	succeed(t, run(t.Context(), args, io.Discard))
	tag, err := name.NewTag("app/app:dev")
	succeed(t, err)
	image, err := tarball.ImageFromPath(output, &tag)
	succeed(t, err)
	config, err := image.ConfigFile()
	if err := errors.Join(err, validate.Image(image)); err != nil || config.Architecture != "arm64" || config.Config.User != "65532:65532" ||
		!slices.Equal(config.Config.Entrypoint, []string{"/glassback"}) {
		t.Errorf("the image is %+v, error %v", config, err)
	}
	for file, want := range map[string]string{
		filepath.Join(dir, "main.go"): "is no program of Go", "/none": "read the program",
		build("CGO_ENABLED=0", "GOOS=darwin"): "was built with GOOS=darwin and CGO_ENABLED=0: build it with GOOS=linux",
	} {
		args[len(args)-1] = file
		if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", file, err, want)
		}
	}
}

func TestTheChartHasTheImageOfTheRelease(t *testing.T) {
	r := &release{source: source{root: root, date: date}, image: "registry.example.com/glassback"}
	data, err := r.chart("sha256:1234")
	succeed(t, err)
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	succeed(t, err)
	images := map[string]string{
		"glassback/values.yaml": "\n  repository: registry.example.com/glassback\n",
		"glassback/Chart.yaml":  "\n  glassback.dev/image: registry.example.com/glassback@sha256:1234\n",
	}
	for reader := tar.NewReader(unzipped); len(images) > 0; {
		header, err := reader.Next()
		if err != nil {
			t.Fatalf("the chart has no %v: %v", images, err)
		}
		text, err := io.ReadAll(reader)
		if err != nil || !strings.Contains(string(text), images[header.Name]) {
			t.Errorf("%s has another image, error %v", header.Name, err)
		}
		delete(images, header.Name)
	}
}

func TestManifestsHaveTheImageOfTheRelease(t *testing.T) {
	r := &release{source: source{root: root, version: "v1.2.3"}, image: "registry.example.com/glassback"}
	digest := "sha256:" + strings.Repeat("a", 64)
	for file, directory := range variants {
		text, err := r.manifest(directory, digest)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		definitions := 5
		if directory == "prometheus" {
			definitions = 0
		}
		if n := strings.Count(string(text), "\nkind: CustomResourceDefinition\n"); n != definitions {
			t.Errorf("%s has %d definitions", file, n)
		}
		image := "image: registry.example.com/glassback:v1.2.3@" + digest + "\n"
		if n := strings.Count(string(text), image); (n == 1) != hasOperator(directory) {
			t.Errorf("%s has %d times %s", file, n, image)
		}
	}
}

// workflow is a workflow of GitHub.
type workflow struct {
	On          map[string]any `json:"true"` // YAML 1.1 reads on as true.
	Permissions map[string]string
	Jobs        map[string]struct {
		Permissions map[string]string
		Steps       []struct{ Run string }
	}
}

// workflows returns all workflows, and their texts, by file.
func workflows(t *testing.T) (map[string]*workflow, map[string]string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("there are the workflows %q: %v", files, err)
	}
	all, texts := map[string]*workflow{}, map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		succeed(t, err)
		w := &workflow{}
		if err := yaml.Unmarshal(text, w); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)], texts[filepath.Base(file)] = w, string(text)
	}
	return all, texts
}

// A tag can be moved to other code; a hash cannot.
func TestActionsArePinnedByTheirHash(t *testing.T) {
	pinned := regexp.MustCompile(`^uses: actions/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	_, texts := workflows(t)
	for file, text := range texts {
		for line := range strings.Lines(text) {
			line = strings.TrimLeft(strings.TrimSpace(line), "- ")
			if strings.HasPrefix(line, "uses:") && line != "uses: ./.github/workflows/ci.yml" && !pinned.MatchString(line) {
				t.Errorf("%s: %s", file, line)
			}
		}
	}
}

func TestWorkflowsMayWriteOnlyWhatTheyPublish(t *testing.T) {
	all, _ := workflows(t)
	for file, w := range all {
		if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
			t.Errorf("%s may %v", file, w.Permissions)
		}
		for name, job := range w.Jobs {
			if len(job.Permissions) > 0 && file != "release.yml" {
				t.Errorf("%s: %s may %v", file, name, job.Permissions)
			}
		}
	}
}

// The dry run of this workflow is in TestTwoReleasesOfACommitAreTheSame.
func TestATagPublishesWhatMakeReleaseMakes(t *testing.T) {
	all, _ := workflows(t)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	succeed(t, err)
	w := all["release.yml"]
	push, _ := w.On["push"].(map[string]any)
	if tags, _ := push["tags"].([]any); len(w.On) != 1 || len(tags) != 1 || tags[0] != "v*" {
		t.Errorf("it runs on %v", w.On)
	}
	var made []string
	command := regexp.MustCompile(`(?m)^ *make ([a-z-]+)(.*)$`)
	for _, step := range w.Jobs["release"].Steps {
		for _, found := range command.FindAllStringSubmatch(step.Run, -1) {
			made = append(made, strings.TrimSpace(found[1]+found[2]))
			if !strings.Contains(string(makefile), "\n"+found[1]+":") {
				t.Errorf("there is no make %s", found[1])
			}
		}
	}
	want := []string{"vulnerabilities", `release VERSION="$VERSION" IMAGE="$IMAGE" BASE_URL="$BASE_URL" KEY="$KEY"`,
		`scan VERSION="$VERSION"`, `publish VERSION="$VERSION" IMAGE="$IMAGE" DRY_RUN=1`, `publish VERSION="$VERSION" IMAGE="$IMAGE"`}
	if strings.Join(made, "\n") != strings.Join(want, "\n") {
		t.Errorf("it runs\n%s\nwant\n%s", strings.Join(made, "\n"), strings.Join(want, "\n"))
	}
}
