// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/glassback/glassback/hack/devcluster/sandbox"
)

// searchPath returns the search path for programs, also for components. It adds the directories of administrators' programs, which PATH may
// lack.
func searchPath() string {
	return strings.Join([]string{os.Getenv("PATH"), "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"},
		string(os.PathListSeparator))
}

// programs are the programs that a real node runs beside devcluster, each with the component that calls it.
var programs = []string{
	"containerd",
	"containerd-shim-runc-v2", // by containerd
	"runc",                    // by the shim, unless it can call crun
	"nft",                     // by kube-proxy
}

// cniDirectories are where distributions put CNI plugins.
var cniDirectories = []string{"/usr/lib/cni", "/opt/cni/bin"}

// plugins are the CNI plugins that the network of the node needs.
var plugins = []string{"ptp", "host-local", "loopback"}

// requirements are the paths of the programs.
type requirements struct {
	Containerd string // its path
	Runtime    string // the OCI runtime: "runc" or "crun"
	Plugins    string // the directory of the CNI plugins
}

// CheckRealNode returns an error that says in one line what this machine lacks for a real node with an image store, and what to do. All of
// it are packages of Debian and Ubuntu: hack/devcluster/node.sh installs them.
func CheckRealNode(images string) error {
	_, err := findRequirements(images)
	return err
}

// findRequirements returns the paths of the programs, or the error of CheckRealNode.
func findRequirements(images string) (requirements, error) {
	if runtime.GOOS != "linux" {
		return requirements{}, fmt.Errorf("the real node needs Linux, and this is %s", runtime.GOOS)
	}
	if err := sandbox.Check(); err != nil {
		return requirements{}, fmt.Errorf("the real node cannot run here: %w", err)
	}
	var found requirements
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
		return requirements{}, errors.New("the real node lacks " + strings.Join(missing, ", ") + `: "make node" gets them on Debian and Ubuntu`)
	}
	found.Runtime = chooseRuntime(versionOf(found.Containerd), versionOf(lookPath("crun")))
	return found, nil
}

// chooseRuntime returns crun if containerd can use it: crun starts a process in a third of runc's CPU time, and each probe of a Pod starts
// one. The arguments are what the programs print with --version. crun before 1.14.3 refuses the configuration that containerd 2 writes.
func chooseRuntime(containerd, crun string) string {
	containerd, crun = number.FindString(containerd), number.FindString(crun)
	if containerd == "" || crun == "" {
		return "runc"
	}
	if version.MustParseGeneric(containerd).Major() < 2 || version.MustParseGeneric(crun).AtLeast(version.MustParseGeneric("1.14.3")) {
		return "crun"
	}
	return "runc"
}

// number matches the first version in the output of a program.
var number = regexp.MustCompile(`\d+\.\d+(\.\d+)?`)

// versionOf returns what a program prints with --version, or "" if it does not run.
func versionOf(program string) string {
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		return ""
	}
	return string(out)
}

func hasAll(dir string, names []string) bool {
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// lookPath returns the path of a program, or "".
func lookPath(name string) string {
	for _, dir := range filepath.SplitList(searchPath()) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(path) {
			return path
		}
	}
	return ""
}
