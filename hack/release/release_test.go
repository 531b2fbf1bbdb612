// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	spdx "github.com/spdx/tools-golang/json"
	"sigs.k8s.io/yaml"
)

// root is the repository.
const root = "../.."

var amd64 = platform{"linux", "amd64"}

// copyOf returns a directory with the files of the repository that git knows or would add.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-z", "--cached",
		"--others", "--exclude-standard", "--deduplicate")
	out, err := list.Output()
	if err != nil {
		t.Skipf("SKIPPED, needs a checkout by git: %v", err)
	}
	for file := range strings.SplitSeq(strings.Trim(string(out), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root, file))
		if errors.Is(err, os.ErrNotExist) {
			continue // it was deleted
		}
		succeed(t, err)
		write(t, dir, file, string(data))
	}
	return dir
}

// newRelease returns a release of a checkout.
func newRelease(t *testing.T, dir string) *release {
	t.Helper()
	var chart struct{ AppVersion string }
	text, err := os.ReadFile(filepath.Join(dir, "artifacts", "chart", "Chart.yaml"))
	succeed(t, errors.Join(err, yaml.Unmarshal(text, &chart)))
	return &release{
		source: source{root: dir, version: chart.AppVersion, commit: strings.Repeat("0a", 20), date: date},
		image:  "registry.example.com/glassback", baseURL: "https://example.com/download", platforms: []platform{amd64}, out: t.Output(),
	}
}

// newKey writes a key, and returns its file and its public half.
func newKey(t *testing.T) (string, ed25519.PublicKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	succeed(t, err)
	data, err := x509.MarshalPKCS8PrivateKey(private)
	succeed(t, err)
	file := filepath.Join(t.TempDir(), "key.pem")
	succeed(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: data}), 0o600))
	return file, public
}

// files returns the content of the files in a directory, by name.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	succeed(t, err)
	all := map[string][]byte{}
	for _, entry := range entries {
		if all[entry.Name()], err = os.ReadFile(filepath.Join(dir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestTwoReleasesOfACommitAreTheSame makes a release in two directories. The subtests look at its files.
func TestTwoReleasesOfACommitAreTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the operator: it takes minutes")
	}
	t.Setenv("GOPROXY", "off") // A release needs no network.
	key, public := newKey(t)
	var releases []*release
	var made []map[string][]byte
	dirs := []string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "somewhere", "else")}
	for _, dir := range dirs { // Both before the first release: an edit in the minute that it takes must not differ.
		publishKey(t, copyOf(t, dir), key)
	}
	for _, dir := range dirs {
		r := newRelease(t, dir)
		r.key = key
		succeed(t, r.make(t.Context(), filepath.Join(dir, "dist")))
		releases, made = append(releases, r), append(made, files(t, filepath.Join(dir, "dist")))
	}
	for name, data := range made[0] {
		if !bytes.Equal(data, made[1][name]) {
			t.Errorf("%s differs", name)
		}
	}
	if len(made[0]) != len(made[1]) {
		t.Errorf("there are %d and %d files", len(made[0]), len(made[1]))
	}
	r, dist := releases[0], made[0]
	t.Run("its files", func(t *testing.T) { testFiles(t, r, dist, public) })
	t.Run("its image", func(t *testing.T) { testImage(t, r, dist) })
	t.Run("a dry run publishes nothing", func(t *testing.T) { testDryRun(t, r, dist) })
	t.Run("it is not made twice", func(t *testing.T) {
		if err := r.make(t.Context(), filepath.Join(r.root, "dist")); err == nil || !strings.Contains(err.Error(), "remove it first") {
			t.Errorf("error %v", err)
		}
	})
}

func testFiles(t *testing.T, r *release, dist map[string][]byte, public ed25519.PublicKey) {
	if !ed25519.Verify(public, dist[checksumsFile], dist[signatureFile]) {
		t.Error("the signature is wrong")
	}
	archive := r.name(amd64) + ".tar.gz"
	for _, want := range []string{archive, r.name(amd64) + ".spdx.json", r.imageFile(), "install.yaml", "install-namespaced.yaml", "crds.yaml",
		"prometheus.yaml", stateMetricsFile, "glassback-" + strings.TrimPrefix(r.version, "v") + ".tgz", "krew.yaml",
		examplesFile, thirdPartyFile, notesFile, publicKeyFile,
		"provenance.intoto.json"} {
		if dist[want] == nil {
			t.Errorf("there is no %s", want)
		}
	}
	var krew struct {
		Spec struct {
			Platforms []struct{ URI, SHA256 string }
		}
	}
	if err := yaml.Unmarshal(dist["krew.yaml"], &krew); err != nil || len(krew.Spec.Platforms) != 1 ||
		krew.Spec.Platforms[0].SHA256 != sha256Of(dist[archive]) ||
		krew.Spec.Platforms[0].URI != "https://example.com/download/"+r.version+"/"+archive {
		t.Errorf("the manifest of the plugin: %v\n%s", err, dist["krew.yaml"])
	}
	var provenance struct {
		Subject []struct {
			Name   string
			Digest map[string]string
		}
	}
	if err := json.Unmarshal(dist["provenance.intoto.json"], &provenance); err != nil || len(provenance.Subject) != len(dist)-2 {
		t.Errorf("the provenance has %d subjects, error %v", len(provenance.Subject), err)
	}
	for _, s := range provenance.Subject[1:] {
		if s.Digest["sha256"] != sha256Of(dist[s.Name]) {
			t.Errorf("the provenance has another sum of %s", s.Name)
		}
	}
	for _, name := range []string{r.name(amd64) + ".spdx.json", "glassback-" + r.version + "-image.spdx.json"} {
		document, err := spdx.Read(bytes.NewReader(dist[name]))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(document.Packages) < 20 || len(document.Relationships) < len(document.Packages) {
			t.Errorf("%s has %d packages, and %d relationships", name, len(document.Packages), len(document.Relationships))
		}
		for _, p := range document.Packages {
			if p.PackageLicenseDeclared == "NOASSERTION" {
				t.Errorf("%s: %s has no licence", name, p.PackageName)
			}
		}
	}
	if names := tarNames(t, dist["glassback-"+strings.TrimPrefix(r.version, "v")+".tgz"]); !slices.Contains(names, "glassback/Chart.yaml") ||
		!slices.Contains(names, "glassback/templates/manager/deployment.yaml") {
		t.Errorf("the chart has %q", names)
	}
	if names := tarNames(t, dist[examplesFile]); len(names) < 15 || !slices.Contains(names, "artifacts/examples/rediscluster.yaml") {
		t.Errorf("the examples are %q", names)
	}
	names := tarNames(t, dist[archive])
	if want := []string{"glassback", "LICENSE", thirdPartyFile}; !slices.Equal(names, want) {
		t.Errorf("the archive has %q, want %q", names, want)
	}
}

// tarNames returns the names of the files in a compressed tar file.
func tarNames(t *testing.T, data []byte) (names []string) {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	succeed(t, err)
	for reader := tar.NewReader(unzipped); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		succeed(t, err)
		names = append(names, header.Name)
	}
}

// testImage publishes the release to a registry of its own.
func testImage(t *testing.T, r *release, dist map[string][]byte) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	image := strings.TrimPrefix(server.URL, "http://") + "/glassback"
	var uploaded []string
	p := &publication{source: r.source, image: image, dist: filepath.Join(r.root, "dist"), out: t.Output(),
		gh: func(_ context.Context, args ...string) error { uploaded = args; return nil }}
	succeed(t, p.run(t.Context()))
	for name := range dist {
		if !slices.Contains(uploaded, filepath.Join(p.dist, name)) {
			t.Errorf("%s is not uploaded", name)
		}
	}
	tag, err := name.NewTag(image + ":" + r.version)
	succeed(t, err)
	index, err := remote.Index(tag)
	succeed(t, err)
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	digest, err := index.Digest()
	if err != nil || !strings.Contains(string(dist["install.yaml"]), digest.String()) {
		t.Errorf("install.yaml has another image than %s: %v", digest, err)
	}
	only, err := remote.Image(tag, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "amd64"}))
	succeed(t, err)
	config, err := only.ConfigFile()
	succeed(t, err)
	if c := config.Config; c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/glassback"}) || !config.Created.Equal(r.date) {
		t.Errorf("the image has the user %s, runs %q, and is of %s", c.User, c.Entrypoint, config.Created)
	}
	modes := map[string]int64{}
	for reader := tar.NewReader(mutate.Extract(only)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		succeed(t, err)
		if modes[header.Name] = header.Mode; header.Name == "etc/ssl/certs/ca-certificates.crt" && header.Size < 100<<10 {
			t.Errorf("the image trusts few certificates: %d bytes", header.Size)
		}
	}
	if modes["glassback"] != 0o755 || len(modes) > 20 {
		t.Errorf("the image has the files %v", modes)
	}
}

// testDryRun runs the last step of the tag workflow without publishing.
func testDryRun(t *testing.T, r *release, dist map[string][]byte) {
	var out strings.Builder
	args := []string{"publish", "--version", r.version, "--dist", filepath.Join(r.root, "dist"),
		"--image", "registry.invalid/glassback", "--dry-run"}
	succeed(t, run(t.Context(), args, &out))
	var uploads []string
	for line := range strings.Lines(out.String()) {
		if name, is := strings.CutPrefix(strings.TrimSpace(line), "dry run: upload "); is {
			uploads = append(uploads, name)
		}
	}
	if !strings.HasPrefix(out.String(), "dry run: push registry.invalid/glassback:"+r.version+"@sha256:") || len(uploads) != len(dist) {
		t.Errorf("%d uploads of %d files:\n%s", len(uploads), len(dist), out.String())
	}
	damaged := filepath.Join(t.TempDir(), "dist")
	succeed(t, os.CopyFS(damaged, os.DirFS(filepath.Join(r.root, "dist"))))
	succeed(t, os.WriteFile(filepath.Join(damaged, "extra"), nil, 0o600))
	args[4] = damaged
	if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), "extra") {
		t.Errorf("a file that is not in %s is published: %v", checksumsFile, err)
	}
}

// succeed fails the test, and ends it, if there is an error.
func succeed(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}
