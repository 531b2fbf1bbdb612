// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// fields is an object of a JSON or YAML document. Its keys are written in alphabetical order.
type fields map[string]any

// sha256Of returns the SHA-256 sum of data in hexadecimal digits.
func sha256Of(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// indented returns a document as JSON.
func indented(document fields) ([]byte, error) {
	text, err := json.MarshalIndent(document, "", "  ")
	return append(text, '\n'), err
}

// provenance returns an in-toto statement about all files of a release, by their SHA-256 sums, and about its image. Its predicate is
// https://slsa.dev/spec/v1.1/provenance.
func (r *release) provenance(digest string) ([]byte, error) {
	subjects := []fields{{"name": r.image, "digest": fields{"sha256": strings.TrimPrefix(digest, "sha256:")}}}
	for _, name := range slices.Sorted(maps.Keys(r.sums)) {
		subjects = append(subjects, fields{"name": name, "digest": fields{"sha256": r.sums[name]}})
	}
	return indented(fields{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": fields{
			"buildDefinition": fields{
				"buildType":          home + "/blob/" + r.version + "/docs/release.md",
				"externalParameters": fields{"version": r.version, "image": r.image, "baseURL": r.baseURL},
				"resolvedDependencies": []fields{
					{"uri": "git+" + home + "@refs/tags/" + r.version, "digest": fields{"gitCommit": r.commit}},
					{"uri": "pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go")},
				},
			},
			"runDetails": fields{"builder": fields{"id": home + "/hack/release"}},
		},
	})
}

// checksums returns the file that sha256sum --check reads.
func checksums(sums map[string]string) []byte {
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&out, "%s  %s\n", sums[name], name)
	}
	return out.Bytes()
}

// readKey returns the private key in a PEM file.
func readKey(file string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s is not a PEM file", file)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s has no Ed25519 key (%v): make one with openssl genpkey -algorithm ed25519", file, err)
	}
	return key, nil
}

// checkKey returns an error unless the release is to be unsigned, or its key is the one whose public half is in the checkout.
func (r *release) checkKey() error {
	if (r.key == "") != r.unsigned {
		return errors.New("give --key FILE, which signs the release, or --unsigned (with make: KEY=FILE or UNSIGNED=1)")
	}
	if r.unsigned {
		return nil
	}
	key, err := readKey(r.key)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode the public half of the key: %w", err)
	}
	published, err := os.ReadFile(filepath.Join(r.root, publicKeyFile))
	if err != nil {
		return fmt.Errorf("read the public key of releases: %w", err)
	}
	if !bytes.Equal(published, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})) {
		return fmt.Errorf("%[1]s is not the key whose public half is in %[2]s; for a new key, commit the file that "+
			"openssl pkey -in %[1]s -pubout -out %[2]s writes", r.key, publicKeyFile)
	}
	return nil
}

// sign returns the Ed25519 signature of data with the private key in a PEM file.
func sign(file string, data []byte) ([]byte, error) {
	key, err := readKey(file)
	if err != nil {
		return nil, err
	}
	return key.Sign(nil, data, crypto.Hash(0))
}
