/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// wireVerbosity is the verbosity from which on client-go logs what goes over the wire.
const wireVerbosity = 8

// discreet returns a logger without that: for whoever reads and writes Secrets.
func discreet(logger klog.Logger) klog.Logger {
	if logger.GetSink() == nil {
		return logger // It logs nothing at all.
	}
	return logger.WithSink(discreetSink{logger.GetSink()})
}

type discreetSink struct{ logr.LogSink }

func (s discreetSink) Enabled(level int) bool {
	return level < wireVerbosity && s.LogSink.Enabled(level)
}

func (s discreetSink) WithValues(keysAndValues ...any) logr.LogSink {
	return discreetSink{s.LogSink.WithValues(keysAndValues...)}
}

func (s discreetSink) WithName(name string) logr.LogSink {
	return discreetSink{s.LogSink.WithName(name)}
}

// WithCallDepth has messages name the line that logs, and not this file.
func (s discreetSink) WithCallDepth(depth int) logr.LogSink {
	if sink, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		return discreetSink{sink.WithCallDepth(depth)}
	}
	return s
}
