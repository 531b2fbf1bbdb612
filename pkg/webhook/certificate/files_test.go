// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/glassback/glassback/pkg/must"
)

// pairOf returns a serving certificate and its key as files have them.
func pairOf(t *testing.T, name string) (certPEM, keyPEM []byte) {
	t.Helper()
	leaf, err := authorityAt(t, start).leaf([]string{name}, start, DefaultLifetimes.Leaf)
	must.Succeed(t, err)
	keyPEM, err = keyutil.MarshalPrivateKeyToPEM(leaf.PrivateKey)
	must.Succeed(t, err)
	return encode(leaf.Certificate[0]), keyPEM
}

func put(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
}

func TestFilesAreShownAsTheyAre(t *testing.T) {
	dir := t.TempDir()
	certPEM, keyPEM := pairOf(t, "first")
	put(t, dir, CertFile, certPEM)
	put(t, dir, KeyFile, keyPEM)
	f, err := OpenFiles(dir)
	must.Succeed(t, err)
	var log bytes.Buffer
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))
	hello := helloOf(t, klog.NewContext(t.Context(), logger))
	shows := func(want string) {
		t.Helper()
		got, err := f.GetCertificate(hello)
		if err != nil || got.Leaf.DNSNames[0] != want {
			t.Fatalf("shows %v (%v), want %s", got.Leaf.DNSNames, err, want)
		}
	}
	shows("first")

	certPEM, keyPEM = pairOf(t, "second")
	put(t, dir, CertFile, certPEM) // and not yet the key
	shows("first")
	shows("first")
	if n := strings.Count(log.String(), "Serving the last certificate that could be read"); n != 1 {
		t.Errorf("that the files do not belong together was logged %d times, want once:\n%s", n, &log)
	}
	put(t, dir, KeyFile, keyPEM)
	shows("second")

	must.Succeed(t, os.Remove(filepath.Join(dir, CertFile)))
	shows("second")
	put(t, dir, CertFile, []byte("garbage"))
	shows("second")
	certPEM, keyPEM = pairOf(t, "third")
	put(t, dir, CertFile, certPEM)
	put(t, dir, KeyFile, keyPEM)
	shows("third")
	if strings.Contains(log.String(), "PRIVATE") {
		t.Error("the log shows the key")
	}
}

// helloOf returns the beginning of a handshake in a context: there is no other way to one than a handshake.
func helloOf(t *testing.T, ctx context.Context) *tls.ClientHelloInfo {
	t.Helper()
	var hello *tls.ClientHelloInfo
	client, server := pipe(t)
	done := make(chan error, 1)
	go func() {
		done <- tls.Client(client, &tls.Config{ServerName: "x", MinVersion: tls.VersionTLS12}).Handshake()
	}()
	enough := errors.New("enough")
	err := tls.Server(server, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		hello = h
		return nil, enough
	}}).HandshakeContext(ctx)
	<-done
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	return hello
}

func TestFilesThatAreNotThereAreRefusedAtTheStart(t *testing.T) {
	certPEM, keyPEM := pairOf(t, "x")
	_, otherKey := pairOf(t, "y")
	for name, test := range map[string]struct {
		files map[string][]byte
		is    error
		says  string
	}{
		"an empty directory":                {nil, fs.ErrNotExist, CertFile},
		"no key":                            {map[string][]byte{CertFile: certPEM}, fs.ErrNotExist, KeyFile},
		"no certificate":                    {map[string][]byte{KeyFile: keyPEM}, fs.ErrNotExist, CertFile},
		"files that do not belong together": {map[string][]byte{CertFile: certPEM, KeyFile: otherKey}, nil, "does not match"},
		"garbage":                           {map[string][]byte{CertFile: []byte("x"), KeyFile: []byte("y")}, nil, "failed to find any PEM data"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, data := range test.files {
				put(t, dir, name, data)
			}
			_, err := OpenFiles(dir)
			if err == nil || test.is != nil && !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %q", err, test.says)
			}
		})
	}
}
