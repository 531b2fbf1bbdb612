// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"encoding/json"
	"net/netip"
)

// Config is the configuration of a sandbox and the command that runs in it.
type Config struct {
	// Cgroup is the name of the sandbox's cgroup: see NewCgroup.
	Cgroup string `json:"cgroup"`
	// Addresses are the addresses of the sandbox in its own network, such as 10.0.0.1/24.
	Addresses []netip.Prefix `json:"addresses"`
	// Visible are paths that stay visible inside although their directory is hidden.
	Visible []string `json:"visible"`
	// Binds are the mounts inside, at paths that other programs use outside.
	Binds []Bind `json:"binds"`
	// Settings are the contents of files that cover files of the machine below /proc/sys, by their paths there.
	Settings map[string]string `json:"settings"`
	// Command is the path of a program and its arguments, and Input is its standard input. Its file descriptors from 3 on are the files
	// that Start gets, then /proc of the machine, and then a lifeline (package lifeline).
	Command []string        `json:"command"`
	Input   json.RawMessage `json:"input"`
}

// Bind is a directory that is seen inside at another path. Both are made if they are missing: the source outside, the target inside only.
type Bind struct {
	Source string `json:"source"`
	Target string `json:"target"`
}

// failed is the exit code of an Init that could not make the sandbox; its standard error says why.
const failed = 70
