// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/options"
)

// setUpLogging configures the log of the process. Call it once, before any part of the process logs.
//
// It limits the verbosity to options.MaxVerbosity. From 8 on client-go logs the bodies of requests and responses (logBody in its
// rest/request.go): the data of Secrets, and the tokens in TokenReviews and TokenRequests.
//
// The limit is on the configuration of the log, and not on a client, a transport or a context. A rest.Request logs bodies itself: no
// transport sees those records. It uses the logger in the caller's context, and a caller may forget to limit that logger. But every logger
// of the process derives from the one that setUpLogging configures, and asks it for the verbosity. So the limit also holds for future
// clients and calls. The linter (.golangci.yml, forbidigo) forbids other ways to make a logger or to change the verbosity.
// TestNoClientLogsABody checks every client, and fails if client-go logs bodies below 8.
func setUpLogging(ctx context.Context, config *logsapi.LoggingConfiguration) error {
	limited := config.Verbosity > options.MaxVerbosity
	config.Verbosity = min(config.Verbosity, options.MaxVerbosity)
	for i := range config.VModule {
		limited = limited || config.VModule[i].Verbosity > options.MaxVerbosity
		config.VModule[i].Verbosity = min(config.VModule[i].Verbosity, options.MaxVerbosity)
	}
	if err := logsapi.ValidateAndApply(config, nil); err != nil {
		return err
	}
	if limited {
		klog.FromContext(ctx).Info("The verbosity is limited, since client-go logs the data of Secrets above it", "limit", options.MaxVerbosity)
	}
	return nil
}

// setVerbosity changes the verbosity of the log until the process ends. The body of the request is the new verbosity, as for the
// same endpoint of Kubernetes components. setVerbosity rejects a verbosity above options.MaxVerbosity. It does not change --vmodule.
func setVerbosity(w http.ResponseWriter, r *http.Request) {
	body := make([]byte, len("7\n")+1)
	n, _ := io.ReadFull(r.Body, body) // No error means that the body is too long.
	text := strings.TrimSpace(string(body[:n]))
	level, err := strconv.ParseUint(text, 10, 8)
	if err != nil || n == len(body) || level > options.MaxVerbosity {
		http.Error(w, fmt.Sprintf("the verbosity must be a number from 0 to %d: above it, client-go logs the data of Secrets",
			options.MaxVerbosity), http.StatusBadRequest)
		return
	}
	if _, err := logs.GlogSetter(text); err != nil { //nolint:forbidigo // This file configures the log.
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	klog.FromContext(r.Context()).Info("Changed the verbosity of the log", "verbosity", level)
	fmt.Fprintf(w, "the verbosity is %d, until the operator restarts\n", level)
}
