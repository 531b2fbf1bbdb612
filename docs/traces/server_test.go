// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package traces

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/fakeapi"
)

const (
	examples   = "apiexampleas"
	configMaps = "configmaps"
)

// How long things take on this network. What one goroutine causes another one to do through the API server is so never at the same instant.
const (
	roundTrip = 2 * time.Millisecond // of a write, until it is stored, and answered
	delivery  = time.Millisecond     // from there to each watch
)

// connecting is how long it takes to open a WATCH. It differs, so that no two informers read their first objects at the same instant.
var connecting = map[string]time.Duration{examples: time.Millisecond, configMaps: 2 * time.Millisecond}

// server is a fake API server with ApiExampleAs and their ConfigMaps, behind a network that takes time and can fail.
type server struct {
	*fakeapi.Server

	mu     sync.Mutex
	lost   map[string]bool // resources of which no WATCH can be opened
	slow   time.Duration   // how much longer than roundTrip an answer to a write takes
	refuse bool            // writes
}

func newServer() *server {
	s := &server{Server: fakeapi.New(), lost: map[string]bool{}}
	s.Before, s.After = s.send, s.receive
	s.Lag = func(string) time.Duration { return delivery }
	return s
}

// send is the way of a request to the API server.
func (s *server) send(r fakeapi.Request) error {
	switch r.Verb {
	case "list":
		return errors.New("unexpected LIST: a WATCH can begin with all objects")
	case "watch":
		time.Sleep(connecting[r.Resource])
	default:
		time.Sleep(roundTrip)
	}
	if r.Unguarded() {
		return errors.New("a write of any version: " + r.String())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Writes() && s.refuse || !r.Writes() && s.lost[r.Resource] {
		return fmt.Errorf("dial tcp 10.96.0.1:443: %w", syscall.ECONNREFUSED)
	}
	return nil
}

// receive is the way of an answer.
func (s *server) receive(fakeapi.Request) error {
	s.mu.Lock()
	slow := s.slow
	s.mu.Unlock()
	time.Sleep(slow)
	return nil
}

func named(name string) cache.ObjectName { return cache.NewObjectName("default", name) }

// greet creates the ApiExampleA with that name, or changes its first_name, as kubectl does.
func (s *server) greet(name, whom string) {
	if fakeapi.Get[*v1.ApiExampleA](s.Server, named(name)) == nil {
		s.Put(&v1.ApiExampleA{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1.ApiExampleASpec{FirstName: whom},
		})
		return
	}
	fakeapi.Edit(s.Server, named(name), "kubectl", func(example *v1.ApiExampleA) { example.Spec.FirstName = whom })
}

// remove deletes an object, if there is one, as kubectl does.
func (s *server) remove(resource, name string) { s.Delete(resource, named(name)) }

// with changes how the network behaves.
func (s *server) with(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// lose breaks the WATCHes of a resource. None can be opened until find.
func (s *server) lose(resource string) {
	s.with(func() { s.lost[resource] = true })
	s.Break(resource)
}

func (s *server) find(resource string) { s.with(func() { s.lost[resource] = false }) }
