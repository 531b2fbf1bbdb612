// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mycronjob

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/generated/informers/externalversions"
	"github.com/glassback/glassback/pkg/recording/recordtest"
)

var key = cache.NewObjectName("default", "sample")

// jobKey returns the key of a Job.
func jobKey(name string) cache.ObjectName { return cache.NewObjectName(key.Namespace, name) }

// server is a fake API server with one MyCronJob and its Jobs.
type server struct {
	*fakeapi.Server

	clock *clocktesting.FakeClock
}

// newServer returns a server with these objects. The MyCronJob may be nil.
func newServer(mcj *v1.MyCronJob, jobs ...*batchv1.Job) *server {
	s := &server{fakeapi.New(), clocktesting.NewFakeClock(t0.time())}
	s.Clock = s.clock
	for _, job := range jobs {
		s.Put(job)
	}
	if mcj != nil {
		s.Put(mcj)
	}
	return s
}

// cron returns the MyCronJob, and nil if there is none.
func (s *server) cron() *v1.MyCronJob { return fakeapi.Get[*v1.MyCronJob](s.Server, key) }

// jobs returns all Jobs, in the order of their names.
func (s *server) jobs() []*batchv1.Job { return fakeapi.List[*batchv1.Job](s.Server) }

// job returns a Job, and nil if there is none.
func (s *server) job(name string) *batchv1.Job {
	return fakeapi.Get[*batchv1.Job](s.Server, jobKey(name))
}

// edit changes the MyCronJob as another client does.
func (s *server) edit(change func(*v1.MyCronJob)) {
	fakeapi.Edit(s.Server, key, "other-client", change)
}

// editJob changes a Job as another client does.
func (s *server) editJob(name string, change func(*batchv1.Job)) {
	fakeapi.Edit(s.Server, jobKey(name), "other-client", change)
}

// created returns how often operators have created a Job, by its name.
func (s *server) created() map[string]int {
	times := map[string]int{}
	for _, event := range s.Events() {
		if event.Resource == "jobs" && event.Was == nil && event.Request != nil {
			times[event.Now.GetName()]++
		}
	}
	return times
}

// client is one operator. It does not run: a test brings its caches up to date, and calls Sync.
type client struct {
	*Controller

	server      *server
	crons, jobs *fakeapi.Cache
	events      *record.FakeRecorder
}

// connect starts an operator whose caches show the current state.
func (s *server) connect() *client {
	kube, glassback := s.Kube(), s.Glassback()
	config := Config{
		Kube: kube, Client: glassback, Recorder: record.NewFakeRecorder(10_000), Clock: s.clock,
		MyCronJobs: externalversions.NewSharedInformerFactory(glassback, 0).Batch().V1().MyCronJobs(),
		Jobs:       kubeinformers.NewSharedInformerFactory(kube, 0).Batch().V1().Jobs(),
	}
	if err := config.Jobs.Informer().AddIndexers(cache.Indexers{controllerIndex: indexByController}); err != nil {
		panic(err)
	}
	labelled := func(obj fakeapi.Object) fakeapi.Object {
		if obj.GetLabels()[v1.LabelMyCronJob] == "" {
			return nil
		}
		return obj
	}
	return &client{
		Controller: newController(config), server: s, events: config.Recorder.(*record.FakeRecorder),
		crons: s.Cache("mycronjobs", config.MyCronJobs.Informer().GetStore(), nil),
		jobs:  s.Cache("jobs", config.Jobs.Informer().GetStore(), labelled),
	}
}

// catchUp makes both caches show the current state.
func (c *client) catchUp() {
	c.crons.CatchUp()
	c.jobs.CatchUp()
}

// sync runs Sync once and returns the requests that it made.
func (c *client) sync(t testing.TB) ([]string, time.Duration, error) {
	t.Helper()
	made := len(c.server.Requests())
	after, err := c.Sync(recordtest.Context(t.Context(), t, Decisions), key)
	return fakeapi.Strings(c.server.Requests()[made:]), after, err
}
