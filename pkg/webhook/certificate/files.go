// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"k8s.io/klog/v2"
)

// The names of the files in a directory of Files: as cert-manager has them in a Secret.
const (
	CertFile = "tls.crt"
	KeyFile  = "tls.key"
)

// Files is a serving certificate in two files, which another program renews.
//
// It reads them at every handshake, so that it always serves the present certificate. That costs
// little: API servers keep their connections, and a handshake costs more than the read.
type Files struct {
	dir string

	mu      sync.Mutex
	certPEM []byte
	keyPEM  []byte
	pair    *tls.Certificate
	problem string // why the last attempt failed; it is logged once
}

// OpenFiles returns the certificate in dir. It returns an error unless there is one.
func OpenFiles(dir string) (*Files, error) {
	f := &Files{dir: dir}
	if err := f.reload(); err != nil {
		return nil, err
	}
	return f, nil
}

// GetCertificate is for tls.Config. If the files are unreadable, or do not match because only one
// of them is renewed yet, it returns the last certificate.
func (f *Files) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, logger := f.pair, klog.FromContext(hello.Context())
	err := f.reload()
	switch {
	case err != nil && err.Error() != f.problem:
		f.problem = err.Error()
		logger.Error(err, "Serving the last certificate that could be read", "until", f.pair.Leaf.NotAfter)
	case err == nil && f.pair != before:
		logger.Info("Serving a new certificate", "directory", f.dir, "until", f.pair.Leaf.NotAfter)
		fallthrough
	case err == nil:
		f.problem = ""
	}
	return f.pair, nil
}

var observer atomic.Pointer[func(error)]

// SetReadObserver sets the function that is called after every read of the files, with the error
// or nil. Several goroutines may call it at once.
func SetReadObserver(observe func(error)) { observer.Store(&observe) }

// reload calls read and reports its result to the observer.
func (f *Files) reload() error {
	err := f.read()
	if observe := observer.Load(); observe != nil {
		(*observe)(err)
	}
	return err
}

// read reads the files. On an error it changes nothing.
func (f *Files) read() error {
	certPEM, certErr := os.ReadFile(filepath.Join(f.dir, CertFile))
	keyPEM, keyErr := os.ReadFile(filepath.Join(f.dir, KeyFile))
	if err := cmp.Or(certErr, keyErr); err != nil { // One of them says enough.
		return fmt.Errorf("read the serving certificate: %w", err)
	}
	if bytes.Equal(certPEM, f.certPEM) && bytes.Equal(keyPEM, f.keyPEM) {
		return nil
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return fmt.Errorf("use the serving certificate in %s: %w", f.dir, err)
	}
	f.certPEM, f.keyPEM, f.pair = certPEM, keyPEM, &pair
	serving(f.pair)
	return nil
}
