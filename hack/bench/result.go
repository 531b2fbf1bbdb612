// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// metric is a column of measured numbers: its name with the unit.
type metric string

// The metrics in the order of their output. An "object" is the unit of the scenario: an Application, a change, or a request.
const (
	perSecond   metric = "objects a second"
	readyTime   metric = "time until ready, s"
	planTime    metric = "time, s"
	p50         metric = "p50, ms"
	p99         metric = "p99, ms"
	operatorCPU metric = "operator CPU an object, ms"
	serverCPU   metric = "API server CPU an object, ms"
	requests    metric = "requests an object"
	lists       metric = "lists and watches"
	writes      metric = "other requests"
	received    metric = "received an object, KB"
	sent        metric = "sent an object, KB"
	peakRSS     metric = "RSS at its peak, MB"
	settledRSS  metric = "RSS settled, MB"
)

var metrics = []metric{
	perSecond, readyTime, planTime, p50, p99, operatorCPU, serverCPU, requests, lists, writes, received, sent, peakRSS, settledRSS,
}

// sample holds the measurements of one run of one participant.
type sample map[metric]float64

// result has the samples of a scenario by participant.
type result struct {
	scenario     string
	participants []string // the ratios refer to the first one
	samples      map[string][]sample
}

// print writes a table in Markdown: the median of each metric, and its ratio to the median of the first participant.
func (r result) print(w io.Writer) {
	fmt.Fprintf(w, "\n| %s, %d rounds | %s |\n|---|%s\n", r.scenario, len(r.samples[r.participants[0]]),
		strings.Join(r.participants, " | "), strings.Repeat("---|", len(r.participants)))
	for _, m := range metrics {
		base, ok := r.median(r.participants[0], m)
		if !ok {
			continue
		}
		fmt.Fprintf(w, "| %s |", m)
		for i, p := range r.participants {
			value, ok := r.median(p, m)
			switch {
			case !ok:
				fmt.Fprint(w, " |")
			case i == 0 || base == 0:
				fmt.Fprintf(w, " %s |", short(value))
			default:
				fmt.Fprintf(w, " %s (× %.2f) |", short(value), value/base)
			}
		}
		fmt.Fprintln(w)
	}
}

// median returns the median of a metric, and whether the participant has it.
func (r result) median(participant string, m metric) (float64, bool) {
	var values []float64
	for _, s := range r.samples[participant] {
		if value, ok := s[m]; ok {
			values = append(values, value)
		}
	}
	return median(values), len(values) > 0
}

// median returns the middle of values, or the mean of the two in the middle; 0 if there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	values = slices.Sorted(slices.Values(values))
	middle := len(values) / 2
	if len(values)%2 == 1 {
		return values[middle]
	}
	return (values[middle-1] + values[middle]) / 2
}

// percentile returns the smallest value that is not smaller than p percent of the values; 0 if there are none.
func percentile(values []time.Duration, p int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	values = slices.Sorted(slices.Values(values))
	return values[max(0, (len(values)*p+99)/100-1)]
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// short returns a number with three digits, or with all digits of its integer part if these are more.
func short(value float64) string {
	switch {
	case value >= 100:
		return fmt.Sprintf("%.0f", value)
	case value >= 10:
		return fmt.Sprintf("%.1f", value)
	default:
		return fmt.Sprintf("%.2f", value)
	}
}
