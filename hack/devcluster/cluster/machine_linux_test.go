// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glassback/glassback/hack/devcluster/state"
	"github.com/glassback/glassback/pkg/must"
)

// machine is the state of the machine that a real node could change.
type machine map[string]string

// volatile are kernel settings that change by themselves.
var volatile = regexp.MustCompile(
	`^/proc/sys/(kernel/(random/|ns_last_pid|pty/|sched_domain|perf_|tainted)|net/netfilter/nf_conntrack_count)`,
)

// look returns the present mounts, interfaces, routes, cgroups and kernel settings, and the entries of the directories that a node writes
// to.
func look(t *testing.T) machine {
	t.Helper()
	m := machine{}
	for _, file := range []string{"/proc/self/mountinfo", "/proc/net/route"} {
		data, err := os.ReadFile(file)
		must.Succeed(t, err)
		for line := range strings.Lines(string(data)) {
			m[file+": "+strings.TrimSpace(line)] = ""
		}
	}
	if name, err := os.Hostname(); err == nil {
		m["hostname"] = name
	}
	interfaces, err := net.Interfaces()
	must.Succeed(t, err)
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		must.Succeed(t, err)
		m["interface "+i.Name] = fmt.Sprint(i.Flags, addresses)
	}
	m.walk(t, "/sys/fs/cgroup", func(path string, entry fs.DirEntry) {
		if entry.IsDir() {
			m["cgroup "+path] = ""
		}
	})
	var cgroups unix.Statfs_t // With v1, a tmpfs. Another mount can hide entries of it.
	must.Succeed(t, unix.Statfs("/sys/fs/cgroup", &cgroups))
	if cgroups.Type == unix.TMPFS_MAGIC {
		m["entries of /sys/fs/cgroup"] = fmt.Sprint(cgroups.Files - cgroups.Ffree)
	}
	for _, dir := range []string{"/proc/sys/kernel", "/proc/sys/vm", "/proc/sys/net"} {
		m.walk(t, dir, func(path string, entry fs.DirEntry) {
			if data, err := os.ReadFile(path); err == nil && entry.Type().IsRegular() && !volatile.MatchString(path) {
				m[path] = string(data)
			}
		})
	}
	for _, dir := range []string{"/", "/dev/shm", "/run", "/var/lib", "/var/log", "/etc", "/opt", "/usr/lib", "/usr/libexec"} {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, entry := range entries {
			m["entry "+filepath.Join(dir, entry.Name())] = entry.Type().String()
		}
	}
	return m
}

func (m machine) walk(t *testing.T, dir string, visit func(string, fs.DirEntry)) {
	t.Helper()
	must.Succeed(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil { // An entry that was just removed does not count.
			visit(path, entry)
		}
		return nil
	}))
}

// differences lists the differences of a later look. It leaves out the cgroups of clusters other than boxes, and of other programs, which
// may change meanwhile. Without boxes, no cluster may run.
func (m machine) differences(later machine, boxes ...*state.Sandbox) []string {
	var all []string
	for key := range maps.Keys(m) {
		if now, there := later[key]; !there {
			if !strings.HasPrefix(key, "cgroup ") { // No node removes a cgroup: another process has ended.
				all = append(all, "gone: "+key)
			}
		} else if now != m[key] {
			all = append(all, fmt.Sprintf("changed: %s: %q, and it was %q", key, now, m[key]))
		}
	}
	for key := range maps.Keys(later) {
		if _, there := m[key]; !there && !occupied(key) && !m.isOfAnother(key) && (len(boxes) == 0 || !isOfOtherCluster(key, boxes)) {
			all = append(all, "new: "+key)
		}
	}
	slices.Sort(all)
	return all
}

// isOfOtherCluster returns whether key names a cgroup of a cluster that is none of boxes.
func isOfOtherCluster(key string, boxes []*state.Sandbox) bool {
	return strings.HasPrefix(key, "cgroup ") && strings.Contains(key, "/devcluster-") &&
		!slices.ContainsFunc(boxes, func(b *state.Sandbox) bool { return strings.Contains(key, "/"+b.Cgroup) })
}

// occupied returns whether key names a cgroup with processes. They are not a node's: the test finds those by the node's network.
func occupied(key string) bool {
	path, ok := strings.CutPrefix(key, "cgroup ")
	if !ok {
		return false
	}
	pids, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
	return err == nil && len(pids) > 0
}

// isOfAnother returns whether key names a cgroup below one that another program made before. A node makes its cgroup at the root of a
// hierarchy, and others below that.
func (m machine) isOfAnother(key string) bool {
	path, ok := strings.CutPrefix(key, "cgroup /sys/fs/cgroup/")
	if !ok || strings.Count(path, "/") < 2 || strings.Contains(path, "devcluster-") {
		return false
	}
	_, before := m[filepath.Dir(key)]
	return before
}

// inSandbox returns the process ids of all that are in the network of a sandbox, on the machine.
func inSandbox(t *testing.T, box *state.Sandbox) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/ns/net")
	must.Succeed(t, err)
	var pids []string
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && target == fmt.Sprintf("net:[%d]", box.Network) {
			pids = append(pids, strings.Split(file, "/")[2])
		}
	}
	return pids
}

// checkAsBefore fails the test if a real node has left anything.
func checkAsBefore(t *testing.T, before machine, boxes ...*state.Sandbox) {
	t.Helper()
	for _, difference := range before.differences(look(t), boxes...) {
		t.Error("the machine is not as it was: " + difference)
	}
	for _, box := range boxes {
		if pids := inSandbox(t, box); len(pids) > 0 {
			t.Errorf("processes of the sandbox are alive: %v", pids)
		}
	}
}
