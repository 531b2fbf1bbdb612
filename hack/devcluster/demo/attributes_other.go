// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "syscall"

// keptAttributes returns nil: only Linux can end a process with its parent.
func keptAttributes() *syscall.SysProcAttr { return nil }
