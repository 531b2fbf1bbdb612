// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package requirements says whether this machine can run a real node, and where on it the programs are that a real node needs beside
// devcluster itself. All of them are packages of Debian and Ubuntu: hack/devcluster/node.sh installs them.
package requirements

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/glassback/glassback/hack/devcluster/sandbox"
)

// Path is where programs are looked for, and where components look: administrators' programs are not in everybody's PATH.
func Path() string {
	return strings.Join([]string{os.Getenv("PATH"), "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"},
		string(os.PathListSeparator))
}

// programs are the programs that a real node runs, each with the component that calls it.
var programs = []string{
	"containerd",
	"containerd-shim-runc-v2", // by containerd
	"runc",                    // by the shim
	"nft",                     // by kube-proxy
}

// cniDirectories are where distributions put CNI plugins.
var cniDirectories = []string{"/usr/lib/cni", "/opt/cni/bin"}

// plugins of CNI that the node's network is made of.
var plugins = []string{"ptp", "host-local", "loopback"}

// Found is where the programs are.
type Found struct {
	Containerd string // its path
	Plugins    string // the directory of the CNI plugins
}

// Find returns the paths of the programs. The error says in one line what this machine lacks for a real node, and what to do.
func Find(images string) (Found, error) {
	if runtime.GOOS != "linux" {
		return Found{}, fmt.Errorf("the real node needs Linux, and this is %s", runtime.GOOS)
	}
	if err := sandbox.Check(); err != nil {
		return Found{}, fmt.Errorf("the real node cannot run here: %w", err)
	}
	var found Found
	var missing []string
	for _, name := range programs {
		path := lookPath(name)
		if path == "" {
			missing = append(missing, name)
		}
		if name == "containerd" {
			found.Containerd = path
		}
	}
	for _, dir := range cniDirectories {
		if hasAll(dir, plugins) {
			found.Plugins = dir
			break
		}
	}
	if found.Plugins == "" {
		missing = append(missing, "the CNI plugins "+strings.Join(plugins, ", ")+" in "+strings.Join(cniDirectories, " or "))
	}
	if !hasAll(images, []string{"index.json"}) {
		missing = append(missing, "its images in "+images)
	}
	if len(missing) > 0 {
		return Found{}, errors.New("the real node lacks " + strings.Join(missing, ", ") + `: "make node" gets them on Debian and Ubuntu`)
	}
	return found, nil
}

func hasAll(dir string, names []string) bool {
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// lookPath returns the path of a program, or nothing.
func lookPath(name string) string {
	for _, dir := range filepath.SplitList(Path()) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(path) {
			return path
		}
	}
	return ""
}
