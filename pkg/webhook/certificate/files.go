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

// The names of the two files. They are the keys of a Secret of the type kubernetes.io/tls, as cert-manager writes it.
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
	problem string // the error of the last read, or "": the same error is logged once
}

// OpenFiles reads the certificate in dir. It returns an error if a file is unreadable, or if the two do not match.
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
	if err := f.reload(); err != nil {
		if err.Error() != f.problem {
			f.problem = err.Error()
			logger.Error(err, "Serving the last certificate that could be read", "notAfter", f.pair.Leaf.NotAfter)
		}
		return f.pair, nil
	}
	f.problem = ""
	if f.pair != before {
		logger.Info("Serving a new certificate", "directory", f.dir, "notAfter", f.pair.Leaf.NotAfter)
	}
	return f.pair, nil
}

var readObserver atomic.Pointer[func(error)]

// SetReadObserver sets the function that is called after every read of the files, with the error
// or nil. Several goroutines may call that function at the same time.
func SetReadObserver(observe func(error)) { readObserver.Store(&observe) }

// reload calls read and reports its result to the observer.
func (f *Files) reload() error {
	err := f.read()
	if observe := readObserver.Load(); observe != nil {
		(*observe)(err)
	}
	return err
}

// read reads the files. On an error it changes nothing.
func (f *Files) read() error {
	certPEM, certErr := os.ReadFile(filepath.Join(f.dir, CertFile))
	keyPEM, keyErr := os.ReadFile(filepath.Join(f.dir, KeyFile))
	if err := cmp.Or(certErr, keyErr); err != nil { // One of the errors is enough.
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
