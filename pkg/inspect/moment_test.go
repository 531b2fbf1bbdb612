// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/recording"
	"github.com/glassback/glassback/pkg/trace"
)

var cron, job = trace.Object{Kind: "MyCronJob", Namespace: "default", Name: "sample"},
	trace.Object{Kind: "Job", Namespace: "default", Name: "sample-1"}

// begin is the first moment of the recordings below.
var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds float64) time.Time { return begin.Add(time.Duration(seconds * float64(time.Second))) }

// writeRecording writes a recording of a MyCronJob whose sync makes a Job, into a new directory.
func writeRecording(t *testing.T, overview *Overview) string {
	t.Helper()
	dir := t.TempDir()
	r, err := recording.Start(t.Context(), recording.Config{Dir: dir, Version: "v1", Instance: "pod-1"})
	must.Succeed(t, err)
	if overview != nil {
		r.SetOverview(func() any { return overview })
	}
	stages, ctx := trace.NewRecorder(0, r.Stage), t.Context()
	watched := trace.Cause{Time: at(3), Verb: "Added", Object: cron, ResourceVersion: "7"}
	for _, e := range []trace.Event{
		{Time: at(0), Stage: trace.Wire, Source: "mycronjobs", Verb: "Added", Object: cron, ResourceVersion: "7"},
		{Time: at(1), Stage: trace.Queue, Source: "mycronjobs", Verb: "Added", Object: cron, ResourceVersion: "7"},
		{Time: at(2), Stage: trace.Index, Source: "mycronjobs", Verb: "Added", Object: cron, ResourceVersion: "7"},
		{Time: at(3), Stage: trace.Enqueue, Source: "mycronjob", Verb: "Added", Object: cron, For: cron, ResourceVersion: "7"},
		{Time: at(4), Stage: trace.Sync, Source: "mycronjob", Object: cron, For: cron, Causes: []trace.Cause{watched}},
		{Time: at(5), Stage: trace.Write, Source: "mycronjob", Verb: "create jobs.batch", Object: job, For: cron, ResourceVersion: "8"},
		{Time: at(6), Stage: trace.Done, Source: "mycronjob", Object: cron, For: cron, Causes: []trace.Cause{watched}, Duration: 2 * time.Second,
			After: time.Minute},
		{Time: at(7), Stage: trace.Index, Source: "mycronjobs", Verb: "Deleted", Object: cron, ResourceVersion: "9"},
	} {
		switch e.Stage {
		case trace.Sync:
			ctx = r.Begin(ctx, e)
		case trace.Write:
			r.Wrote(ctx, e)
		case trace.Done:
			r.End(ctx, e, loop.RequeueAfter)
		default:
			stages.Report(e)
		}
	}
	r.Stop()
	return dir
}

func testOverview() *Overview {
	return &Overview{
		Breakpoints: true,
		Informers: []Informer{{
			ID: "mycronjobs", Resource: "mycronjobs", Kind: "MyCronJob", Queue: "DeltaFIFO", Objects: 3, Failures: 2,
			Handlers: []Handler{{Controller: "mycronjob", Name: "mycronjob"}},
		}},
		Controllers: []Controller{{ID: "mycronjob", Name: "mycronjob", Kind: "MyCronJob", Workers: 2, Syncs: 5}},
	}
}

// serveRecording returns a server of the recording in dir.
func serveRecording(t *testing.T, dir string) *httptest.Server {
	t.Helper()
	files, err := recording.Files([]string{dir})
	must.Succeed(t, err)
	handler, _, err := newRecorded(files, map[string][]string{"MyCronJob": {"mcj"}}, nil)
	must.Succeed(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

// askAt returns the answer for a moment; it is empty for none.
func askAt[T any](t *testing.T, server *httptest.Server, path string, moment time.Time) T {
	t.Helper()
	query := url.Values{}
	if !moment.IsZero() {
		query.Set("at", moment.Format(time.RFC3339Nano))
	}
	response, err := http.Get(server.URL + "/inspect/api/" + path + "&" + query.Encode())
	must.Succeed(t, err)
	defer response.Body.Close()
	var answer T
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("%s: %s, %v", path, response.Status, err)
	}
	return answer
}

// Each answer is about its moment, whether the one before was about an earlier or a later one.
func TestARecordingAnswersForEachOfItsMoments(t *testing.T) {
	server := serveRecording(t, writeRecording(t, testOverview()))
	for _, test := range []struct {
		seconds   float64
		life      string // the stages
		index     int
		workqueue string
		gears     string // arrived, queued, applied; added, waiting, processing, syncs, timers
	}{
		{7, "wire queue index enqueue sync write done index", 0, "sample comes at 1m6s after 0 failures", "1 0 2; 1 0 0 6 1"},
		{2.5, "wire queue index", 1, "", "1 0 1; 0 0 0 5 0"},
		{3.5, "wire queue index enqueue", 1, "sample waits since 3s", "1 0 1; 1 1 0 5 0"},
		{5.5, "wire queue index enqueue sync write", 1, "sample is synced since 4s, because Added", "1 0 1; 1 0 1 5 0"},
		{0.5, "wire", 0, "", "1 0 0; 0 0 0 5 0"},
		{1.5, "wire queue", 0, "", "1 1 0; 0 0 0 5 0"},
		{6, "wire queue index enqueue sync write done", 1, "sample comes at 1m6s after 0 failures", "1 0 1; 1 0 0 6 1"},
	} {
		t.Run(fmt.Sprint(test.seconds), func(t *testing.T) {
			moment := at(test.seconds)
			life := askAt[Life](t, server, "life?kind=mcj&namespace=default&name=sample", moment)
			var stages []string
			for n, e := range life.Events {
				stages = append(stages, e.Stage)
				if e.Seq != uint64(n+1) {
					t.Errorf("event %d is number %d", n, e.Seq)
				}
			}
			if got := strings.Join(stages, " "); got != test.life || life.Exists != (test.index > 0) {
				t.Errorf("the life is %q, it exists: %t", got, life.Exists)
			}
			index := askAt[Index](t, server, "index?informer=mycronjobs", moment)
			if index.Objects != test.index || len(index.Groups[0].Objects) != test.index {
				t.Errorf("the index is %+v", index)
			}
			found := askAt[Found](t, server, "find?q=sample", moment)
			if len(found.Objects) != test.index {
				t.Errorf("found %+v", found)
			}
			workqueue := askAt[Workqueue](t, server, "workqueue?controller=mycronjob", moment)
			if got := describe(&workqueue, begin); got != test.workqueue {
				t.Errorf("the workqueue is %q", got)
			}
			o := askAt[Overview](t, server, "overview?", moment)
			if !o.Time.Equal(moment) || o.Breakpoints || o.Recording == nil || !o.Recording.From.Equal(begin) || o.Instance != "pod-1" ||
				o.Informers[0].Objects != 3+test.index {
				t.Errorf("the overview is %+v", o)
			}
			i, c := o.Informers[0], o.Controllers[0]
			if got := fmt.Sprintf("%d %d %d; %d %d %d %d %d", i.Arrived, i.Queued, i.Applied, c.Added, c.Waiting, c.Processing, c.Syncs,
				c.Timers); got != test.gears {
				t.Errorf("the gears are at %q, want %q", got, test.gears)
			}
		})
	}
	if passed := askAt[Queue](t, server, "queue?informer=mycronjobs", at(1)).Passed; len(passed) != 1 {
		t.Errorf("passed %+v", passed)
	}
	// Without a moment, and after the end, it is the end; before the start, it is the start.
	end := askAt[Overview](t, server, "overview?", time.Time{})
	if !end.Time.Equal(end.Recording.To) || !askAt[Overview](t, server, "overview?", end.Time.Add(time.Hour)).Time.Equal(end.Time) ||
		!askAt[Overview](t, server, "overview?", begin.Add(-time.Hour)).Time.Equal(begin) {
		t.Errorf("the end is %+v", end)
	}
}

func TestAStreamOfARecordingPlaysIt(t *testing.T) {
	server := serveRecording(t, writeRecording(t, testOverview()))
	response, err := http.Get(server.URL + "/inspect/api/stream?at=" + at(1.5).Format(time.RFC3339Nano))
	must.Succeed(t, err)
	defer response.Body.Close()
	events, overviews := read(t, response.Body, 1)
	if len(events) != 1 || !strings.HasPrefix(events[0], "index ") || overviews == 0 {
		t.Errorf("the stream begins with %d overviews, and %q", overviews, events)
	}
}

func TestARefusedRequest(t *testing.T) {
	server := serveRecording(t, writeRecording(t, testOverview()))
	for path, want := range map[string]string{
		"overview?at=yesterday": `"yesterday" is no time: say it like 20`, "stream?at=yesterday": `"yesterday" is no time`,
		"life?kind=mcj&name=b": "there is no MyCronJob b",
	} {
		response, err := http.Get(server.URL + "/inspect/api/" + path)
		must.Succeed(t, err)
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		var problem Problem
		if err := json.Unmarshal(body, &problem); err != nil || !strings.Contains(problem.Error, want) {
			t.Errorf("%s: %s, want %s", path, body, want)
		}
	}
	response, err := http.Post(server.URL+"/inspect/api/hold", "application/json", strings.NewReader(`{"gear":"sync"}`))
	must.Succeed(t, err)
	response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("hold: %s", response.Status)
	}
}

func TestFilesThatThePageCannotShow(t *testing.T) {
	first, second := writeRecording(t, testOverview()), writeRecording(t, testOverview())
	for name, test := range map[string]struct {
		dirs []string
		want string
	}{
		"without overviews": {[]string{writeRecording(t, nil)}, "the recording has no states of the informers"},
		"of two operators":  {[]string{first, second}, "two operators recorded at the same time, pod-1 from " + first + "/glassback-"},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := recording.Files(test.dirs)
			must.Succeed(t, err)
			if _, _, err := newRecorded(files, nil, nil); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}
