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
	"time"

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
	dir     string
	observe func(expiry time.Time, err error) // see OpenFiles

	mu      sync.Mutex
	certPEM []byte
	keyPEM  []byte
	pair    *tls.Certificate
	problem string // the error of the last read, or "": the same error is logged once
}

// OpenFiles reads the certificate in dir. It returns an error if a file is unreadable, or if the two do not match. Unless observe is nil,
// it is called after each read, with the expiry of a new certificate, or the error. Several goroutines may call it at once.
func OpenFiles(dir string, observe func(expiry time.Time, err error)) (*Files, error) {
	f := &Files{dir: dir, observe: observe}
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

// reload calls read, and reports its result.
func (f *Files) reload() error {
	before := f.pair
	err := f.read()
	if f.observe != nil {
		var expiry time.Time
		if f.pair != before {
			expiry = f.pair.Leaf.NotAfter
		}
		f.observe(expiry, err)
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
	return nil
}
