// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"encoding/json"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/glassback/glassback/pkg/fakeapi"
	glassbackfake "github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
)

// object is any object of an API.
type object = fakeapi.Object

// server is the fake API server of one scenario. It notes each write of its clientsets.
type server struct {
	*fakeapi.Server

	kube *kubefake.Clientset
	own  *glassbackfake.Clientset

	mu    sync.Mutex
	notes notes
}

func newServer() *server {
	s := &server{Server: fakeapi.New()}
	s.kube, s.own = s.Kube(), s.Glassback()
	s.Before = s.write
	return s
}

// write notes a write, unless it is for an object that does not exist, or an apply that gets a conflict.
func (s *server) write(r fakeapi.Request) error {
	switch {
	case !r.Writes():
		return nil
	case r.Live == nil && (r.UID != "" || r.Verb != "create" && r.Verb != "apply"):
		return nil
	case r.Live != nil && r.Verb == "apply" && r.Version != "" && r.Version != r.Live.GetResourceVersion():
		return nil
	}
	n := note{verb: r.Verb, resource: r.Resource, subresource: r.Subresource, name: r.Name, manager: r.Manager, forced: r.Force}
	uid := r.UID
	switch r.Verb {
	case "create":
		n.body = fieldsOf(r.Object)
		if data, ok := n.body["data"].(map[string]any); ok && data["password"] != nil { // It is random.
			data["password"] = "…"
		}
	case "update":
		uid = "" // It is that of the object that the controller has read.
		n.body = fieldsOf(r.Object)
		if r.Subresource == "status" {
			n.body = map[string]any{"status": n.body["status"]}
		}
	case "apply", "patch":
		patch := &unstructured.Unstructured{}
		if err := json.Unmarshal(r.Patch, &patch.Object); err != nil {
			return err
		}
		patch.SetResourceVersion("")
		patch.SetUID("")
		n.body = patch.Object
		n.onlyCreates = r.Live == nil && r.Action() == "create"
	}
	if r.Live != nil {
		n.against(r.Live, r.Version, uid)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes.add(n)
	return nil
}
