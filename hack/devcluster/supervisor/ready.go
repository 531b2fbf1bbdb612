// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/glassback/glassback/hack/devcluster/state"
)

const (
	probeEvery   = 25 * time.Millisecond
	probeTimeout = 5 * time.Second
	logTailLines = 12
)

// prober asks components whether they are ready.
type prober struct {
	client *http.Client
	ports  map[string]int
}

// newProber returns a prober that trusts the cluster's authorities and shows etcd the API server's client certificate.
func newProber(dir state.Dir, ports map[string]int) (*prober, error) {
	roots := x509.NewCertPool()
	for _, file := range []string{caCert, etcdCACert} {
		data, err := os.ReadFile(dir.Path("pki", file))
		if err != nil {
			return nil, fmt.Errorf("read certificate authority: %w", err)
		}
		roots.AppendCertsFromPEM(data)
	}
	cert, err := tls.LoadX509KeyPair(dir.Path("pki", "apiserver-etcd-client.crt"), dir.Path("pki", "apiserver-etcd-client.key"))
	if err != nil {
		return nil, fmt.Errorf("load etcd client certificate: %w", err)
	}
	config := &tls.Config{RootCAs: roots, GetClientCertificate: func(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if request.SupportsCertificate(&cert) != nil {
			return &tls.Certificate{}, nil // the others would refuse a certificate of etcd's authority
		}
		return &cert, nil
	}}
	transport := &http.Transport{
		TLSClientConfig:   config,
		DialContext:       (&net.Dialer{Timeout: probeTimeout}).DialContext,
		DisableKeepAlives: true, // a connection that outlived its killed component would report it as ready
	}
	return &prober{client: &http.Client{Transport: transport, Timeout: probeTimeout}, ports: ports}, nil
}

// readyPath is the scheme and the path of the readiness request. Components of a node serve HTTP, those of the control plane HTTPS.
var readyPath = map[string]string{
	state.Etcd:              "https:/readyz",
	state.APIServer:         "https:/readyz",
	state.ControllerManager: "https:/healthz",
	state.Scheduler:         "https:/readyz",
	state.Kwok:              "http:/healthz",
	state.Registry:          "http:/v2/",
	state.Kubelet:           "http:/healthz",
	state.KubeProxy:         "http:/livez", // /healthz fails while the node is not ready
	state.CoreDNS:           "http:/ready",
}

// ready asks the component once. It returns nil if the component is ready.
func (p *prober) ready(ctx context.Context, component string) error {
	switch component {
	case state.Containerd:
		return runtimeReady(ctx)
	case state.Provisioner: // It serves nothing. Claims wait for it.
		return nil
	}
	scheme, path, _ := strings.Cut(readyPath[component], ":")
	url := scheme + "://" + loopback(p.ports[component]) + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 2048))
		return fmt.Errorf("%s: %s: %s", url, response.Status, bytes.TrimSpace(body))
	}
	return nil
}

// waitReady waits until the component is ready or has ended. The component was started.
func (p *prober) waitReady(ctx context.Context, proc *process) error {
	r := proc.current()
	var last error
	for {
		if last = p.ready(ctx, proc.name); last == nil && r.alive() {
			return nil
		}
		select {
		case <-r.done:
			return fmt.Errorf("%s died: %s; its last lines:\n%s", proc.name, r.ended, tail(proc.dir.Log(proc.name)))
		case <-ctx.Done():
			return fmt.Errorf("wait for %s to be ready: %w (last answer: %v)", proc.name, context.Cause(ctx), last)
		case <-time.After(probeEvery):
		}
	}
}

// tail returns the last lines of a log, or the error of reading it.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-logTailLines):], "\n")
}
