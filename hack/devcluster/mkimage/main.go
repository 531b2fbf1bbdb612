// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/glassback/glassback/hack/devcluster/images"
)

func main() {
	store := flag.String("store", "", "directory of the images")
	pause := flag.String("pause", "", "the program of hack/devcluster/pause, built with CGO_ENABLED=0")
	add := flag.String("add", "", `one more image, such as "valkey:8", instead of those of a new node`)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	b := base{store: images.Store(*store), pause: *pause, out: os.Stdout}
	var err error
	if *add != "" {
		err = b.add(ctx, *add)
	} else {
		err = b.make(ctx)
	}
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "mkimage: %v\n", err)
		os.Exit(1)
	}
}
