/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mycronjob

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	glassbackfake "github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
	"github.com/glassback/glassback/pkg/generated/informers/externalversions"
)

// server is what an API server does for this controller: it stores one MyCronJob
// and its Jobs, gives versions, refuses writes by stale ones, and keeps every
// state that it was in, so that a cache may lag.
type server struct {
	clock *clocktesting.FakeClock
	state
	history []state
	actions []string // every request, as "verb resource name"
	// before and after, if set, are called around each write; an error is the
	// answer, and a panic is a crash of the one who wrote.
	before, after func(action string) error
	created       map[string]int // how often a Job of this name was created
}

// state is what is stored, and is never changed in place.
type state struct {
	version int64
	cron    *v1.MyCronJob
	jobs    map[string]*batchv1.Job
}

func newServer(mcj *v1.MyCronJob, jobs ...*batchv1.Job) *server {
	s := &server{clock: clocktesting.NewFakeClock(t0.time()), created: map[string]int{}}
	s.jobs = map[string]*batchv1.Job{}
	for _, job := range jobs {
		s.jobs[job.Name] = job
	}
	s.change(func(now *state) { now.cron = mcj })
	return s
}

// change makes a new state from the present one.
func (s *server) change(f func(*state)) {
	next := state{version: s.version + 1, cron: s.cron, jobs: make(map[string]*batchv1.Job, len(s.jobs)+1)}
	maps.Copy(next.jobs, s.jobs)
	f(&next)
	if next.cron != nil && next.cron != s.cron {
		next.cron = next.cron.DeepCopy()
		next.cron.ResourceVersion = strconv.FormatInt(next.version, 10)
	}
	for name, job := range next.jobs {
		if job != s.jobs[name] {
			next.jobs[name] = job.DeepCopy()
			next.jobs[name].ResourceVersion = strconv.FormatInt(next.version, 10)
		}
	}
	s.state = next
	s.history = append(s.history, next)
}

// write carries out one write, between before and after.
func (s *server) write(action string, f func(*state)) error {
	if s.before != nil {
		if err := s.before(action); err != nil {
			return err
		}
	}
	s.change(f)
	if s.after != nil {
		return s.after(action)
	}
	return nil
}

// handle answers a request of a clientset.
func (s *server) handle(action clienttesting.Action) (bool, runtime.Object, error) {
	resource := action.GetResource().Resource
	if action.GetSubresource() != "" {
		resource += "/" + action.GetSubresource()
	}
	name := ""
	switch a := action.(type) {
	case clienttesting.CreateAction: // and an update: they have the same methods
		name = a.GetObject().(metav1.Object).GetName()
	case clienttesting.GetAction: // and a delete
		name = a.GetName()
	}
	request := strings.TrimRight(fmt.Sprintf("%s %s %s", action.GetVerb(), resource, name), " ")
	s.actions = append(s.actions, request)
	obj, err := s.answer(request, name, action)
	return true, obj, err
}

func (s *server) answer(request, name string, action clienttesting.Action) (runtime.Object, error) {
	job, cron := s.jobs[name], s.cron
	gr := action.GetResource().GroupResource()
	switch verb := action.GetVerb() + " " + action.GetResource().Resource; verb {
	case "get mycronjobs":
		if cron == nil {
			return nil, apierrors.NewNotFound(gr, name)
		}
		return cron.DeepCopy(), nil
	case "get jobs":
		if job == nil {
			return nil, apierrors.NewNotFound(gr, name)
		}
		return job.DeepCopy(), nil
	case "list jobs":
		list := &batchv1.JobList{}
		for _, name := range slices.Sorted(maps.Keys(s.jobs)) {
			if s.jobs[name].Labels[v1.LabelMyCronJob] != "" {
				list.Items = append(list.Items, *s.jobs[name].DeepCopy())
			}
		}
		return list, nil
	case "create jobs":
		if job != nil {
			return nil, apierrors.NewAlreadyExists(gr, name)
		}
		made := action.(clienttesting.CreateAction).GetObject().(*batchv1.Job).DeepCopy()
		err := s.write(request, func(now *state) {
			s.created[name]++
			made.UID = types.UID(fmt.Sprintf("%s#%d", name, s.created[name]))
			made.CreationTimestamp = metav1.NewTime(s.clock.Now().Truncate(time.Second))
			now.jobs[name] = made
		})
		return s.jobs[name].DeepCopy(), err
	case "delete jobs":
		if job == nil {
			return nil, apierrors.NewNotFound(gr, name)
		}
		options := action.(clienttesting.DeleteActionImpl).DeleteOptions
		if options.Preconditions == nil || *options.Preconditions.UID != job.UID {
			return nil, apierrors.NewConflict(gr, name, fmt.Errorf("the UID is another"))
		}
		return nil, s.write(request, func(now *state) { delete(now.jobs, name) })
	case "update mycronjobs":
		updated := action.(clienttesting.UpdateAction).GetObject().(*v1.MyCronJob)
		if cron == nil {
			return nil, apierrors.NewNotFound(gr, name)
		}
		if updated.ResourceVersion != cron.ResourceVersion {
			return nil, apierrors.NewConflict(gr, name, fmt.Errorf("the version is another"))
		}
		err := s.write(request, func(now *state) {
			now.cron = cron.DeepCopy()
			now.cron.Status = updated.Status
		})
		return s.cron.DeepCopy(), err
	default:
		panic("the controller made a request that the test does not know: " + verb)
	}
}

// client is one running operator: its controller and its caches.
type client struct {
	*Controller
	server        *server
	crons, jobs   cache.Indexer
	atCron, atJob int // which of the server's states each cache shows
	events        *record.FakeRecorder
}

// connect starts an operator whose caches show the present.
func (s *server) connect() *client {
	kube, glassback := &kubefake.Clientset{}, &glassbackfake.Clientset{}
	kube.AddReactor("*", "*", s.handle)
	glassback.AddReactor("*", "*", s.handle)
	config := Config{
		Kube: kube, Client: glassback, Recorder: record.NewFakeRecorder(10_000), Clock: s.clock,
		MyCronJobs: externalversions.NewSharedInformerFactory(glassback, 0).Batch().V1().MyCronJobs(),
		Jobs:       kubeinformers.NewSharedInformerFactory(kube, 0).Batch().V1().Jobs(),
	}
	if err := config.Jobs.Informer().AddIndexers(cache.Indexers{controllerIndex: indexByController}); err != nil {
		panic(err)
	}
	c := &client{
		Controller: newController(config), server: s, events: config.Recorder.(*record.FakeRecorder),
		crons: config.MyCronJobs.Informer().GetIndexer(), jobs: config.Jobs.Informer().GetIndexer(),
	}
	c.catchUp()
	return c
}

// catchUp brings both caches to the present.
func (c *client) catchUp() {
	c.seeCron(len(c.server.history) - 1)
	c.seeJobs(len(c.server.history) - 1)
}

func (c *client) seeCron(at int) {
	c.atCron = at
	then := c.server.history[at]
	var objects []any
	if then.cron != nil {
		objects = append(objects, then.cron)
	}
	mustReplace(c.crons, objects, then.version)
}

func (c *client) seeJobs(at int) {
	c.atJob = at
	then := c.server.history[at]
	var objects []any
	for _, job := range then.jobs {
		if job.Labels[v1.LabelMyCronJob] != "" {
			objects = append(objects, job)
		}
	}
	mustReplace(c.jobs, objects, then.version)
}

func mustReplace(store cache.Store, objects []any, version int64) {
	if err := store.Replace(objects, strconv.FormatInt(version, 10)); err != nil {
		panic(err)
	}
}

// sync runs Sync once and returns the requests that it made.
func (c *client) sync(t testing.TB) ([]string, time.Duration, error) {
	t.Helper()
	made := len(c.server.actions)
	after, err := c.Sync(t.Context(), cache.NewObjectName("default", "sample"))
	return c.server.actions[made:], after, err
}
