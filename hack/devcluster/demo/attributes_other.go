// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "syscall"

// keptAttributes are none: only Linux can tie a process to the one that started it.
func keptAttributes() *syscall.SysProcAttr { return nil }
