// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package lifeline

import "syscall"

// Attributes returns no attributes: only Linux can end a process with its parent.
func Attributes(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
