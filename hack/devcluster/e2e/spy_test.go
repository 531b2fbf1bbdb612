// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/glassback/glassback/pkg/must"
)

// spy is a proxy between one operator and the API server. It counts the operator's requests.
type spy struct {
	kubeconfig string

	mu     sync.Mutex
	counts map[string]int
	after  func(request string) error
}

// spy returns a spy for the account of a kubeconfig.
func (w *world) spy(t testing.TB, account string) *spy {
	t.Helper()
	return w.spyAt(t, account, nil)
}

// spyAt returns a spy that serves at the listener or, if that is nil, at a port of this machine.
func (w *world) spyAt(t testing.TB, account string, listener net.Listener) *spy {
	t.Helper()
	config, err := clientcmd.LoadFromFile(account)
	must.Succeed(t, err)
	target, err := url.Parse(w.config.Host)
	must.Succeed(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.config.CAData)
	s := &spy{counts: map[string]int{}}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true},
		FlushInterval: -1, // watches
		ModifyResponse: func(r *http.Response) error {
			return s.count(r.Request)
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewUnstartedServer(proxy)
	if listener != nil {
		server.Listener.Close()
		server.Listener = listener
	}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.CloseClientConnections)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for _, c := range config.Clusters {
		*c = clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: ca}
	}
	s.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	must.Succeed(t, clientcmd.WriteToFile(*config, s.kubeconfig))
	return s
}

// count counts a request that the API server has answered, such as
// "PATCH deployments", "PUT applications/status", "LIST services" or
// "WATCH services".
func (s *spy) count(r *http.Request) error {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) > 2 && parts[0] == "apis" {
		parts = parts[3:]
	} else if len(parts) > 1 && parts[0] == "api" {
		parts = parts[2:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	verb, resource := r.Method, ""
	switch len(parts) {
	case 1:
		resource = parts[0]
		if verb == http.MethodGet {
			verb = "LIST"
		}
	case 2:
		resource = parts[0]
	case 3:
		resource = parts[0] + "/" + parts[2]
	}
	if r.URL.Query().Get("watch") != "" {
		verb = "WATCH"
	}
	request := verb + " " + resource
	s.mu.Lock()
	s.counts[request]++
	after := s.after
	s.mu.Unlock()
	if after != nil {
		return after(request)
	}
	return nil
}

// requests returns the requests since the last call of forget, without watches.
func (s *spy) requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := maps.Clone(s.counts)
	maps.DeleteFunc(counts, func(request string, _ int) bool { return strings.HasPrefix(request, "WATCH ") })
	return counts
}

func (s *spy) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.counts)
}

var errLost = errors.New("the answer is lost")

// loseAnswer drops the answer to the operator's write number n, counted from 1. It calls dead after the API server has carried out the
// write.
func (s *spy) loseAnswer(n int, dead func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after = func(request string) error {
		verb, resource, _ := strings.Cut(request, " ")
		if verb == "GET" || verb == "LIST" || verb == "WATCH" || resource == "selfsubjectaccessreviews" {
			return nil
		}
		s.mu.Lock()
		n--
		now := n == 0
		s.mu.Unlock()
		if now {
			dead()
		}
		if n <= 0 {
			return errLost
		}
		return nil
	}
}
