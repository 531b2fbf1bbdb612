// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// The names of the image: in artifacts, and in a release unless its user sets another one.
const (
	manifestImage = "glassback/glassback"
	defaultImage  = "ghcr.io/glassback/glassback"
)

// variants are the kustomizations in artifacts, by the file that a release has of each.
var variants = map[string]string{
	"install.yaml": "default", "install-certmanager.yaml": "default-certmanager", "install-inspect.yaml": "default-inspect",
	"install-namespaced.yaml": "namespaced", "crds.yaml": "crd", "prometheus.yaml": "prometheus",
}

// hasOperator reports whether a kustomization in artifacts installs the operator.
func hasOperator(directory string) bool { return directory != "crd" && directory != "prometheus" }

// stateMetricsFile is the configuration of kube-state-metrics.
const stateMetricsFile = "kube-state-metrics.yaml"

// stateMetrics returns the configuration of kube-state-metrics.
func (s source) stateMetrics() ([]byte, error) {
	return os.ReadFile(filepath.Join(s.root, "artifacts", "prometheus", "kube_state_metrics.yaml"))
}

// backupImage sets the operator's first argument, --backup-image, to the name of the operator's image.
var backupImage = func() types.Replacement {
	var operator types.Selector
	operator.Kind, operator.Name = "Deployment", "glassback-manager"
	container := "spec.template.spec.containers.[name=manager]."
	return types.Replacement{
		Source: &types.SourceSelector{ResId: operator.ResId, FieldPath: container + "image"},
		Targets: []*types.TargetSelector{{
			Select: &operator, FieldPaths: []string{container + "args.0"}, Options: &types.FieldOptions{Delimiter: "=", Index: 1},
		}},
	}
}()

// manifest returns the manifests of a directory of artifacts, with the image of the release at its digest.
func (r *release) manifest(directory, digest string) ([]byte, error) {
	// kustomize reads a kustomization from a file. A temporary one avoids changes to artifacts.
	overlay, err := os.MkdirTemp(filepath.Join(r.root, "artifacts"), ".release-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(overlay) }() // It is ignored by git.
	kustomization := types.Kustomization{
		Resources: []string{"../" + directory},
		Images:    []types.Image{{Name: manifestImage, NewName: r.image, NewTag: r.version, Digest: digest}},
	}
	if hasOperator(directory) {
		kustomization.Replacements = []types.ReplacementField{{Replacement: backupImage}}
	}
	text, err := yaml.Marshal(kustomization)
	if err == nil {
		err = os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), text, 0o600)
	}
	if err != nil {
		return nil, err
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), overlay)
	if err != nil {
		return nil, err
	}
	manifests, err := built.AsYaml()
	for _, image := range []string{"image: ", "--backup-image="} {
		image += r.image + ":" + r.version + "@" + digest + "\n"
		if err == nil && hasOperator(directory) && !strings.Contains(string(manifests), image) {
			err = errors.New("it has no " + image)
		}
	}
	return manifests, err
}

// chart returns the package of the chart. It differs from that of "helm package" only in the dates. The chart names the release's image, at
// its digest.
func (r *release) chart(digest string) ([]byte, error) {
	var entries []entry
	dir := filepath.Join(r.root, "artifacts", "chart")
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		switch path {
		case filepath.Join(dir, "values.yaml"):
			data = bytes.Replace(data, []byte("repository: "+manifestImage+"\n"), []byte("repository: "+r.image+"\n"), 1)
		case filepath.Join(dir, "Chart.yaml"): // the images that Artifact Hub shows
			data = bytes.Replace(data, []byte("image: "+defaultImage+":"), []byte("image: "+r.image+":"), 1)
			// Not a value: "helm upgrade --reuse-values" would keep it.
			data = bytes.Replace(data, []byte("\nannotations:\n"), []byte("\nannotations:\n  glassback.dev/image: "+r.image+"@"+digest+"\n"), 1)
		}
		entries = append(entries, entry{name: "glassback" + filepath.ToSlash(strings.TrimPrefix(path, dir)), mode: 0o644, data: data})
		return err
	})
	if err != nil {
		return nil, err
	}
	return tarGz(r.date, entries)
}

// examples returns an archive of the examples. In it, they have the path that the documents name.
func (r *release) examples() ([]byte, error) {
	files, err := fs.Glob(os.DirFS(r.root), "artifacts/examples/*.yaml")
	if err == nil && len(files) == 0 {
		err = errors.New("there are no examples")
	}
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(r.root, filepath.FromSlash(file)))
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{name: file, mode: 0o644, data: data})
	}
	return tarGz(r.date, entries)
}

// krew returns the manifest of the kubectl plugin: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest
func (r *release) krew(archives map[platform]string) ([]byte, error) {
	var list []fields
	for _, p := range r.platforms {
		list = append(list, fields{
			"selector": fields{"matchLabels": fields{"os": p.os, "arch": p.arch}},
			"uri":      r.baseURL + "/" + r.version + "/" + archives[p],
			"sha256":   r.sums[archives[p]],
			"files": []fields{
				{"from": p.exe("glassback"), "to": p.exe("kubectl-glassback")}, {"from": "LICENSE", "to": "."}, {"from": thirdPartyFile, "to": "."},
			},
			"bin": p.exe("kubectl-glassback"),
		})
	}
	return yaml.Marshal(fields{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2", "kind": "Plugin", "metadata": fields{"name": "glassback"},
		"spec": fields{
			"version": r.version, "homepage": home, "platforms": list,
			"shortDescription": "Explain what the operator Glassback does",
			"description": "Shows the state of Glassback's objects, the cause of each sync, and the stages that an object passes.\n" +
				"It also checks whether Glassback can work in a cluster.\n",
		},
	})
}

// checkVersion returns an error unless the commit names the version: in the chart, and in the first section of CHANGELOG.md.
func (s source) checkVersion() error {
	if !semver.IsValid(s.version) || semver.Canonical(s.version) != s.version {
		return fmt.Errorf("the version must be as in v1.2.3, not %q", s.version)
	}
	if strings.HasSuffix(s.commit, "-dirty") {
		return errors.New("the checkout has changes: commit them, because a release is made from a commit")
	}
	var chart struct{ Version, AppVersion string }
	text, err := os.ReadFile(filepath.Join(s.root, "artifacts", "chart", "Chart.yaml"))
	if err := errors.Join(err, yaml.Unmarshal(text, &chart)); err != nil {
		return fmt.Errorf("read Chart.yaml: %w", err)
	}
	if chart.AppVersion != s.version || "v"+chart.Version != s.version {
		return fmt.Errorf("Chart.yaml has version %s and appVersion %s: change both for %s", chart.Version, chart.AppVersion, s.version)
	}
	_, err = s.notes()
	return err
}

// notes returns the section of CHANGELOG.md about the version, which has to be the first one.
func (s source) notes() ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(s.root, "CHANGELOG.md"))
	if err != nil {
		return nil, fmt.Errorf("read the release notes: %w", err)
	}
	_, rest, _ := strings.Cut(string(text), "\n## ")
	section, _, _ := strings.Cut(rest, "\n## ")
	version, notes, _ := strings.Cut(section, "\n")
	if version != s.version {
		return nil, fmt.Errorf("the first section of CHANGELOG.md is %q: describe %s there", version, s.version)
	}
	return []byte(strings.TrimSpace(notes) + "\n"), nil
}
