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
	"time"

	"github.com/spf13/pflag"
)

// headerTimeout is the longest time that a client may take to send the headers of a request.
const headerTimeout = 10 * time.Second

// Main runs the registry, a component of a real node, with the flags in os.Args until ctx ends.
func Main(ctx context.Context) error {
	flags := pflag.NewFlagSet("registry", pflag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "address to serve on")
	paths := flags.StringArray("store", nil, "image store to serve; may be repeated, and the first that has an image wins")
	if err := flags.Parse(os.Args[1:]); err != nil {
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
