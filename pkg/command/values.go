// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// These are the defaults of artifacts and the chart: the operator's namespace, and the name of its Lease.
const (
	DefaultNamespace = "glassback-system"
	DefaultLease     = "glassback"
)

// NamespaceFile holds the namespace of a Pod.
const NamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// OwnNamespace returns the namespace of the Pod that this process runs in, or "" outside of a Pod.
func OwnNamespace() string {
	if namespace := os.Getenv("POD_NAMESPACE"); namespace != "" {
		return namespace
	}
	text, err := os.ReadFile(NamespaceFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// Loopback reports whether only this machine reaches an address.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

// CheckNamespace returns an error unless the value of a flag is the name of a namespace.
func CheckNamespace(flag, value string) error {
	if problems := content.IsDNS1123Label(value); len(problems) > 0 {
		return fmt.Errorf("--%s %q is not the name of a namespace: %s", flag, value, problems[0])
	}
	return nil
}

// CheckBackupImage returns an error unless the value of --backup-image is the name of an image, or empty.
func CheckBackupImage(value string) error {
	if value != "" && !redisv1.IsImage(value) {
		return fmt.Errorf("--backup-image must be the name of an image, such as glassback/glassback:v1, not %q", value)
	}
	return nil
}

// CheckLease returns an error unless the value of --leader-elect-resource-name is the name of a Lease.
func CheckLease(value string) error {
	if problems := content.IsDNS1123Subdomain(value); len(problems) > 0 {
		return fmt.Errorf("--leader-elect-resource-name %q is not the name of a Lease: %s", value, problems[0])
	}
	return nil
}

// Origin parses SCHEME://HOST:PORT. It returns nil if value has a scheme that is not in schemes, has no host, or has any other part.
func Origin(value string, schemes ...string) *url.URL {
	u, err := url.Parse(value)
	if err != nil || !slices.Contains(schemes, u.Scheme) || u.Hostname() == "" || *u != (url.URL{Scheme: u.Scheme, Host: u.Host}) {
		return nil
	}
	return u
}
