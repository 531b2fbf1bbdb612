// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// server is an API server for the ConfigMaps of the namespace default. It answers a WATCH that begins with all objects,
// and no other request.
type server struct {
	mu       sync.Mutex
	version  int
	objects  map[string]int // the number of entries, by name
	watches  []chan event
	requests []string
}

// event is one line of a WATCH.
type event struct {
	Type   watch.EventType   `json:"type"`
	Object *corev1.ConfigMap `json:"object"`
}

// put creates or updates a ConfigMap.
func (s *server) put(name string, entries int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	verb := watch.Added
	if _, exists := s.objects[name]; exists {
		verb = watch.Modified
	}
	s.objects[name] = entries
	s.version++
	s.send(event{verb, s.configMap(name)})
}

// remove deletes a ConfigMap.
func (s *server) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	last := s.configMap(name)
	delete(s.objects, name)
	s.send(event{watch.Deleted, last})
}

// made returns the requests so far.
func (s *server) made() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// send sends an event to each WATCH. The caller holds s.mu.
func (s *server) send(e event) {
	for _, w := range s.watches {
		w <- e
	}
}

// configMap returns a ConfigMap at the present version. The caller holds s.mu.
func (s *server) configMap(name string) *corev1.ConfigMap {
	configMap := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: strconv.Itoa(s.version)},
		Data:       map[string]string{},
	}
	for i := range s.objects[name] {
		configMap.Data[fmt.Sprintf("entry-%d", i)] = "value"
	}
	return configMap
}

// open returns the events of a new WATCH: an addition for each object, a bookmark that ends them, and then each change.
func (s *server) open() <-chan event {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := make(chan event, 100) // enough for the test
	for name := range s.objects {
		events <- event{watch.Added, s.configMap(name)}
	}
	mark := s.configMap("")
	mark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	events <- event{watch.Bookmark, mark}
	s.watches = append(s.watches, events)
	return events
}

// ServeHTTP answers a request, and records it.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	initial := query.Get("watch") == "true" && query.Get("sendInitialEvents") == "true"
	request := r.Method + " " + r.URL.String()
	if initial && r.URL.Path == "/api/v1/namespaces/default/configmaps" {
		request = "WATCH that begins with all objects"
	}
	s.mu.Lock()
	s.requests = append(s.requests, request)
	s.mu.Unlock()
	if !initial {
		http.Error(w, "this server has only a WATCH that begins with all objects", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	events := s.open()
	for {
		select {
		case <-r.Context().Done():
			return
		case e := <-events:
			if json.NewEncoder(w).Encode(e) != nil || http.NewResponseController(w).Flush() != nil {
				return // The client has closed the connection.
			}
		}
	}
}
