// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// every is the time between two scrapes, and between two evaluations of a rule.
const every = 30 * time.Second

var (
	syntax = parser.NewParser(parser.Options{})
	engine = promql.NewEngine(promql.EngineOpts{
		MaxSamples: 10_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: syntax,
		EnableAtModifier: true, EnableNegativeOffset: true,
	})
)

// matcher is one condition of a selector.
type matcher = labels.Matcher

// memory holds series by their labels, like a Prometheus.
type memory map[string]*series

type series struct {
	labels labels.Labels
	times  []int64
	values []float64
}

// iterator has the samples as a Prometheus stores them.
func (s *series) iterator(reuse chunkenc.Iterator) chunkenc.Iterator {
	chunk := chunkenc.NewXORChunk()
	to, err := chunk.Appender()
	if err != nil {
		panic(err) // There is no reason.
	}
	for i, at := range s.times {
		to.Append(0, at, s.values[i])
	}
	return chunk.Iterator(reuse)
}

// add adds a sample. Those of a series come in their order.
func (m memory) add(of labels.Labels, at time.Time, v float64) {
	s := m[of.String()]
	if s == nil {
		s = &series{labels: of}
		m[of.String()] = s
	}
	s.times, s.values = append(s.times, at.UnixMilli()), append(s.values, v)
}

// stale marks the series whose last sample is older, as Prometheus does with those that a scrape has no more.
func (m memory) stale(at time.Time) {
	for _, s := range m {
		if last := len(s.times) - 1; s.times[last] < at.UnixMilli() && !value.IsStaleNaN(s.values[last]) {
			m.add(s.labels, at, math.Float64frombits(value.StaleNaN))
		}
	}
}

// load adds samples in the notation of promtool's tests, a series a line: those in `up 1 0x3`
// are 1, 0, 0, 0 and 0. The first is at start, and one every so often.
func (m memory) load(t *testing.T, start time.Time, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		of, values, err := syntax.ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for i, v := range values {
			if !v.Omitted {
				m.add(of, start.Add(time.Duration(i)*every), v.Value)
			}
		}
	}
}

// ends returns the times of the first and of the last sample.
func (m memory) ends() (first, last time.Time) {
	for _, s := range m {
		from, to := time.UnixMilli(s.times[0]), time.UnixMilli(s.times[len(s.times)-1])
		if first.IsZero() || from.Before(first) {
			first = from
		}
		if to.After(last) {
			last = to
		}
	}
	return first, last
}

// selects returns the series that match.
func (m memory) selects(matchers ...*matcher) []*series {
	var found []*series
	for _, key := range slices.Sorted(maps.Keys(m)) {
		s := m[key]
		if !slices.ContainsFunc(matchers, func(by *matcher) bool { return !by.Matches(s.labels.Get(by.Name)) }) {
			found = append(found, s)
		}
	}
	return found
}

func (m memory) queryable() storage.Queryable {
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*matcher) storage.SeriesSet {
			all := &seriesSet{SeriesSet: storage.EmptySeriesSet()}
			for _, s := range m.selects(matchers...) {
				all.left = append(all.left, &storage.SeriesEntry{Lset: s.labels, SampleIteratorFn: s.iterator})
			}
			return all
		},
	}}
}

// seriesSet are series that were found, without an error.
type seriesSet struct {
	storage.SeriesSet
	current storage.Series
	left    []storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.current, s.left = s.left[0], s.left[1:]
	return true
}

func (s *seriesSet) At() storage.Series { return s.current }

// query evaluates an expression for every step from the first sample to the last, without those at which a result is no number.
func (m memory) query(t *testing.T, expr string) promql.Matrix {
	t.Helper()
	first, last := m.ends()
	query, err := engine.NewRangeQuery(t.Context(), m.queryable(), nil, expr, first, last, every)
	if err != nil {
		t.Fatalf("%v in\n%s", err, expr)
	}
	defer query.Close()
	matrix, err := query.Exec(t.Context()).Matrix()
	if err != nil {
		t.Fatalf("%v in\n%s", err, expr)
	}
	var found promql.Matrix
	for _, s := range matrix {
		points := slices.DeleteFunc(slices.Clone(s.Floats), func(p promql.FPoint) bool { return math.IsNaN(p.F) })
		if len(points) > 0 {
			found = append(found, promql.Series{Metric: s.Metric, Floats: points})
		}
	}
	slices.SortFunc(found, func(a, b promql.Series) int { return cmp.Compare(a.Metric.String(), b.Metric.String()) })
	return found
}

// selectors returns the selectors in an expression.
func selectors(t *testing.T, expr string) []*parser.VectorSelector {
	t.Helper()
	parsed, err := syntax.ParseExpr(expr)
	if err != nil {
		t.Fatalf("%v in\n%s", err, expr)
	}
	var all []*parser.VectorSelector
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			all = append(all, s)
		}
		return nil
	})
	return all
}
