// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "syscall"

// endWithParent returns nil: only Linux can end a process with its parent.
func endWithParent() *syscall.SysProcAttr { return nil }
