// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command pause runs in the sandbox container of a Pod. It holds the Pod's namespaces until it gets a signal to end. If the containers of
// the Pod share a process namespace, pause is process 1 of it: the kernel gives it every orphan, and pause reaps those that have ended. It
// follows https://github.com/kubernetes/kubernetes/blob/v1.37.0/build/pause/linux/pause.c.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap waits for every child that has ended: one signal may stand for several children.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}
