// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// TLS is how a connection verifies the certificate of a node. With the zero value, it does not use TLS.
type TLS struct {
	// Name is the DNS name that the certificate must have.
	Name string
	// Authorities are the certificates of the CAs, as PEM.
	Authorities string
	// Pin is the fingerprint of a certificate that is accepted in any case; "" if there is none.
	Pin string
}

// TLSState is what a node reports of TLS to a connection that uses it.
type TLSState struct {
	// Certificate is the fingerprint of the certificate that the node served to this connection.
	Certificate string
	// Known says that the node has answered CONFIG GET. All fields below are false otherwise.
	Known bool
	// Cluster and Replication say that the cluster bus and replication use TLS.
	Cluster, Replication bool
	// Plain says that the node listens on its port without TLS, too.
	Plain bool
	// NoFailover says that the node, as a replica, takes over from its master only by a command.
	NoFailover bool
	// AnnouncedPort and AnnouncedTLSPort are the ports for clients that the node was told to announce; 0 if it announces those on which it
	// listens.
	AnnouncedPort    int `json:",omitempty"`
	AnnouncedTLSPort int `json:",omitempty"`
}

// ErrCertificate is the class of the errors of a node whose certificate is not trusted.
var ErrCertificate = errors.New("the certificate of the node is not trusted")

// tlsDirectives are the directives that TLSState is made of.
var tlsDirectives = []any{"CONFIG", "GET", "tls-cluster", "tls-replication", "port", "cluster-replica-no-failover",
	"cluster-announce-port", "cluster-announce-tls-port"}

// Fingerprint returns the SHA-256 of a certificate in DER, as hex digits.
func Fingerprint(certificate []byte) string {
	sum := sha256.Sum256(certificate)
	return hex.EncodeToString(sum[:])
}

// handshake makes a TLS connection of conn.
func (t TLS) handshake(ctx context.Context, conn net.Conn, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	secure := tls.Client(conn, &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: t.Name,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies it: the standard way has no pin.
		VerifyConnection:   func(state tls.ConnectionState) error { return t.verify(state.PeerCertificates) },
	})
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("TLS handshake: %w", err), conn.Close())
	}
	return secure, nil
}

// maxExpired is for how long verify accepts a certificate after it has expired: otherwise the operator could not make a node load the
// renewed one. It is limited, since the key of an old certificate may have leaked.
const maxExpired = 30 * 24 * time.Hour

// verify returns an ErrCertificate unless the first certificate is the pinned one, or is signed by the authorities and has the name.
func (t TLS) verify(chain []*x509.Certificate) error {
	if Fingerprint(chain[0].Raw) == t.Pin {
		return nil
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(t.Authorities))
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	now := time.Now()
	if end := chain[0].NotAfter; now.After(end) && now.Sub(end) < maxExpired {
		now = end
	}
	_, err := chain[0].Verify(x509.VerifyOptions{DNSName: t.Name, Roots: roots, Intermediates: intermediates, CurrentTime: now})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	return nil
}

// tlsState returns the TLSState by the answer to tlsDirectives; nil for a connection without TLS.
func (n *Node) tlsState(cmd *redis.Cmd) *TLSState {
	if cmd == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	state := &TLSState{Certificate: n.certificate}
	values, err := parseDirectives(cmd.Val())
	if cmd.Err() != nil || err != nil {
		return state
	}
	state.Known = true
	state.Cluster, state.Replication = values["tls-cluster"] == "yes", values["tls-replication"] == "yes"
	state.Plain, state.NoFailover = values["port"] != "0", values["cluster-replica-no-failover"] == "yes"
	state.AnnouncedPort, _ = strconv.Atoi(values["cluster-announce-port"])
	state.AnnouncedTLSPort, _ = strconv.Atoi(values["cluster-announce-tls-port"])
	return state
}

// SwitchTLS sets whether replication and the cluster bus use TLS, and the port without TLS (0 for none), until the node stops.
// announcedBus is the bus port that the node announces; 0 for busPort. Redis updates the announced ports only when a cluster-announce
// directive changes: so SwitchTLS changes the announced bus port and changes it back. All commands are one transaction: the first alone
// would look like a complete switch, also if the connection breaks after it.
func (n *Node) SwitchTLS(ctx context.Context, on bool, port, busPort, announcedBus int) error {
	other := busPort
	if announcedBus != 0 {
		other = 0
	}
	value := "no"
	if on {
		value = "yes"
	}
	return n.request(ctx, "CONFIG SET", func(client *redis.Client) error {
		return exec(ctx, client.TxPipeline(), func(p redis.Pipeliner) {
			p.Do(ctx, "CONFIG", "SET", "tls-replication", value, "tls-cluster", value, "port", port)
			p.Do(ctx, "CONFIG", "SET", "cluster-announce-bus-port", other)
			p.Do(ctx, "CONFIG", "SET", "cluster-announce-bus-port", announcedBus)
		}, redis.Cmder.Err)
	})
}

// ReloadCertificate makes the node read its certificate, its key and its CAs again, and closes the connection: the next one shows which
// certificate the node serves then. If the node cannot use the files, the error is a RefusedDirectiveError.
func (n *Node) ReloadCertificate(ctx context.Context) error {
	const file = "tls-cert-file"
	values, err := n.Directives(ctx, []string{file})
	if err != nil {
		return err
	}
	if err := n.SetDirective(ctx, file, values[file]); err != nil {
		return err
	}
	n.mu.Lock()
	client := n.client
	n.mu.Unlock()
	n.hangUp(client)
	return nil
}
