// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

// headerTimeout is the longest time that a client may take to send the headers of a request.
const headerTimeout = 10 * time.Second

// Main runs the registry, a component of a real node, with the flags in os.Args until it gets SIGINT or SIGTERM, and returns the process's
// exit code.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "registry: %v\n", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, args []string) error {
	flags := pflag.NewFlagSet("registry", pflag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "address to serve on")
	paths := flags.StringArray("store", nil, "image store to serve; may be repeated, and the first that has an image wins")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var stores []Store
	for _, path := range *paths {
		stores = append(stores, Store(path))
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: Handler(stores...), ReadHeaderTimeout: headerTimeout}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
