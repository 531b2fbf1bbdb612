// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command pause is what runs in a Pod's own container: it keeps the Pod's namespaces, and does nothing until it is told to end. Where the
// Pod's containers share their processes, it is the first of them, to which every orphan falls: it lets them go once they have ended. It
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

// reap lets go of every child that has ended: one signal may stand for several.
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
