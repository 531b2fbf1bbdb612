// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"

	"github.com/glassback/glassback/hack/devcluster/provisioner"
	"github.com/glassback/glassback/hack/devcluster/state"
)

// validity of every certificate: a cluster for development and tests does not live as long.
const validity = 365 * 24 * time.Hour

// files of the PKI, relative to its directory.
const (
	caCert           = "ca.crt"
	caKey            = "ca.key"
	etcdCACert       = "etcd-ca.crt"
	frontProxyCACert = "front-proxy-ca.crt"
	serviceAccount   = "service-account.key"
)

// pki writes the cluster's certificates and keys below dir.
type pki struct {
	dir string
	now time.Time
}

// pair is a certificate and its key, also PEM-encoded.
type pair struct {
	cert            *x509.Certificate
	key             *ecdsa.PrivateKey
	certPEM, keyPEM []byte
}

// generate creates everything.
func (p pki) generate(apiServer string) error {
	files, authorities := map[string][]byte{}, map[string]*pair{}
	for file, name := range map[string]string{
		caCert: "devcluster-ca", etcdCACert: "devcluster-etcd-ca", frontProxyCACert: "devcluster-front-proxy-ca",
	} {
		ca, err := p.issue(nil, x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true})
		if err != nil {
			return err
		}
		authorities[file], files[file] = ca, ca.certPEM
	}
	ca := authorities[caCert]
	// The keys of the other authorities stay in memory. kube-controller-manager signs CertificateSigningRequests with the key of ca.
	files[caKey] = ca.keyPEM
	local, localNames := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, []string{"localhost"}
	for _, c := range []struct {
		name, subject string
		signer        *pair
		ips           []net.IP
		dns           []string
	}{
		{"etcd", "etcd", authorities[etcdCACert], local, localNames},
		{"apiserver-etcd-client", "kube-apiserver", authorities[etcdCACert], nil, nil},
		{"front-proxy-client", "front-proxy-client", authorities[frontProxyCACert], nil, nil},
		{"apiserver-kubelet-client", kubeletClient, ca, nil, nil},
		{"kubelet", "kubelet", ca, nodeIPs, nil},
		{"apiserver", "kube-apiserver", ca, slices.Concat(local, serviceIPs, nodeIPs), []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + state.Domain}},
		{"component", "component", ca, local, localNames},
	} {
		issued, err := p.issue(c.signer, x509.Certificate{Subject: pkix.Name{CommonName: c.subject}, IPAddresses: c.ips, DNSNames: c.dns})
		if err != nil {
			return err
		}
		files[c.name+".crt"], files[c.name+".key"] = issued.certPEM, issued.keyPEM
	}
	var err error
	if files[serviceAccount], err = keyutil.MakeEllipticPrivateKeyPEM(); err != nil {
		return fmt.Errorf("generate service account key: %w", err)
	}
	if err := p.addKubeconfigs(files, ca, apiServer); err != nil {
		return err
	}
	for file, data := range files {
		if err := os.WriteFile(filepath.Join(p.dir, file), data, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
	}
	return nil
}

// addKubeconfigs adds one kubeconfig for each identity. Kubernetes' bootstrap RBAC policy binds the users and groups named system:…;
// bootstrap binds the others.
func (p pki) addKubeconfigs(files map[string][]byte, ca *pair, apiServer string) error {
	for file, user := range map[string]pkix.Name{
		filepath.Join("..", "kubeconfig"):    {CommonName: "devcluster-admin", Organization: []string{"system:masters"}},
		"kube-controller-manager.kubeconfig": {CommonName: "system:kube-controller-manager"},
		"kube-scheduler.kubeconfig":          {CommonName: "system:kube-scheduler"},
		"kwok.kubeconfig":                    {CommonName: kwokUser},
		"kubelet.kubeconfig":                 {CommonName: "system:node:" + nodePrefix + "1", Organization: []string{"system:nodes"}},
		"kube-proxy.kubeconfig":              {CommonName: "system:kube-proxy"},
		"coredns.kubeconfig":                 {CommonName: corednsUser},
		"provisioner.kubeconfig":             {CommonName: provisioner.User},
	} {
		issued, err := p.issue(ca, x509.Certificate{Subject: user})
		if err != nil {
			return err
		}
		config := clientcmdapi.NewConfig()
		config.Clusters["devcluster"] = &clientcmdapi.Cluster{Server: apiServer, CertificateAuthorityData: ca.certPEM}
		config.AuthInfos[user.CommonName] = &clientcmdapi.AuthInfo{ClientCertificateData: issued.certPEM, ClientKeyData: issued.keyPEM}
		config.Contexts["devcluster"] = &clientcmdapi.Context{Cluster: "devcluster", AuthInfo: user.CommonName}
		config.CurrentContext = "devcluster"
		if files[file], err = clientcmd.Write(*config); err != nil {
			return fmt.Errorf("encode %s: %w", file, err)
		}
	}
	return nil
}

// issue completes and signs a certificate, with a random serial number. With a signer, the certificate is valid for clients, and with
// IP addresses also for servers. Without a signer, it is the self-signed certificate of an authority.
func (p pki) issue(signer *pair, template x509.Certificate) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key of %s: %w", template.Subject.CommonName, err)
	}
	template.NotBefore, template.NotAfter = p.now.Add(-time.Hour), p.now.Add(validity)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	if signer == nil {
		template.KeyUsage |= x509.KeyUsageCertSign
		signer = &pair{cert: &template, key: key}
	} else {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	if len(template.IPAddresses) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, signer.cert, key.Public(), signer.key)
	if err != nil {
		return nil, fmt.Errorf("create certificate of %s: %w", template.Subject.CommonName, err)
	}
	cert, certErr := x509.ParseCertificate(der)
	keyPEM, keyErr := keyutil.MarshalPrivateKeyToPEM(key)
	return &pair{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM}, cmp.Or(certErr, keyErr)
}
