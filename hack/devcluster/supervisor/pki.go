package supervisor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/glassback/glassback/hack/devcluster/provisioner"
)

// validity of every certificate: a cluster for development and tests does not live as long.
const validity = 365 * 24 * time.Hour

// authority is a certificate authority of the cluster. Its key stays in memory, but for the cluster's own CA, which
// kube-controller-manager needs to sign CertificateSigningRequests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// keyPair is a certificate and its key, PEM-encoded.
type keyPair struct{ cert, key []byte }

// pki writes the cluster's certificates and keys below dir.
type pki struct {
	dir string
	now time.Time
}

// files of the PKI, relative to its directory.
const (
	caCert           = "ca.crt"
	caKey            = "ca.key"
	etcdCACert       = "etcd-ca.crt"
	frontProxyCACert = "front-proxy-ca.crt"
	serviceAccount   = "service-account" // + .key, and .crt for the public half
)

// generate creates everything. serviceIP is the ClusterIP of the Service "kubernetes".
func (p pki) generate(serviceIP net.IP, apiServer string) error {
	ca, err := p.authority("devcluster-ca", caCert)
	if err != nil {
		return err
	}
	etcdCA, err := p.authority("devcluster-etcd-ca", etcdCACert)
	if err != nil {
		return err
	}
	frontProxyCA, err := p.authority("devcluster-front-proxy-ca", frontProxyCACert)
	if err != nil {
		return err
	}
	key, err := encodeKey(ca.key)
	if err != nil {
		return err
	}
	if err := p.write(caKey, key); err != nil {
		return err
	}
	local := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	certs := []struct {
		name    string
		signer  *authority
		subject pkix.Name
		ips     []net.IP
		dns     []string
	}{
		{"etcd", etcdCA, pkix.Name{CommonName: "etcd"}, local, []string{"localhost"}},
		{"apiserver-etcd-client", etcdCA, pkix.Name{CommonName: "kube-apiserver"}, nil, nil},
		{"front-proxy-client", frontProxyCA, pkix.Name{CommonName: "front-proxy-client"}, nil, nil},
		{"apiserver-kubelet-client", ca, pkix.Name{CommonName: kubeletClient}, nil, nil},
		{"kubelet", ca, pkix.Name{CommonName: "kubelet"}, []net.IP{net.ParseIP(realNodeIP)}, nil},
		{"apiserver", ca, pkix.Name{CommonName: "kube-apiserver"}, append(local, serviceIP, net.ParseIP(realNodeIP)), []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}},
		{"component", ca, pkix.Name{CommonName: "component"}, local, []string{"localhost"}},
	}
	for _, c := range certs {
		pair, err := p.issue(c.signer, c.subject, c.ips, c.dns)
		if err != nil {
			return err
		}
		if err := p.writePair(c.name, pair); err != nil {
			return err
		}
	}
	if err := p.serviceAccountKey(); err != nil {
		return err
	}
	return p.kubeconfigs(ca, apiServer)
}

// kubeconfigs writes one kubeconfig for each identity. The groups and names are those that Kubernetes' bootstrap RBAC policy knows; the
// others are bound by bootstrap.
func (p pki) kubeconfigs(ca *authority, apiServer string) error {
	identities := []struct {
		file    string
		subject pkix.Name
	}{
		{filepath.Join("..", "kubeconfig"), pkix.Name{CommonName: "devcluster-admin", Organization: []string{"system:masters"}}},
		{"kube-controller-manager.kubeconfig", pkix.Name{CommonName: "system:kube-controller-manager"}},
		{"kube-scheduler.kubeconfig", pkix.Name{CommonName: "system:kube-scheduler"}},
		{"kwok.kubeconfig", pkix.Name{CommonName: kwokUser}},
		{"kubelet.kubeconfig", pkix.Name{CommonName: "system:node:" + nodePrefix + "1", Organization: []string{"system:nodes"}}},
		{"kube-proxy.kubeconfig", pkix.Name{CommonName: "system:kube-proxy"}},
		{"coredns.kubeconfig", pkix.Name{CommonName: corednsUser}},
		{"provisioner.kubeconfig", pkix.Name{CommonName: provisioner.User}},
	}
	for _, id := range identities {
		pair, err := p.issue(ca, id.subject, nil, nil)
		if err != nil {
			return err
		}
		config := clientcmdapi.NewConfig()
		config.Clusters["devcluster"] = &clientcmdapi.Cluster{Server: apiServer, CertificateAuthorityData: ca.pem}
		config.AuthInfos[id.subject.CommonName] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.cert, ClientKeyData: pair.key}
		config.Contexts["devcluster"] = &clientcmdapi.Context{Cluster: "devcluster", AuthInfo: id.subject.CommonName}
		config.CurrentContext = "devcluster"
		data, err := clientcmd.Write(*config)
		if err != nil {
			return fmt.Errorf("encode %s: %w", id.file, err)
		}
		if err := p.write(id.file, data); err != nil {
			return err
		}
	}
	return nil
}

func (p pki) authority(name, file string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key of %s: %w", name, err)
	}
	template := p.template(pkix.Name{CommonName: name})
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create certificate of %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse certificate of %s: %w", name, err)
	}
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return &authority{cert: cert, key: key, pem: encoded}, p.write(file, encoded)
}

// issue signs a certificate that is good both for serving and as a client.
func (p pki) issue(signer *authority, subject pkix.Name, ips []net.IP, dns []string) (*keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key of %s: %w", subject.CommonName, err)
	}
	template := p.template(subject)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(ips) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	template.IPAddresses, template.DNSNames = ips, dns
	der, err := x509.CreateCertificate(rand.Reader, template, signer.cert, key.Public(), signer.key)
	if err != nil {
		return nil, fmt.Errorf("create certificate of %s: %w", subject.CommonName, err)
	}
	encodedKey, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return &keyPair{cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key: encodedKey}, nil
}

func (p pki) template(subject pkix.Name) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // crypto/rand.Reader never fails
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    p.now.Add(-time.Hour),
		NotAfter:     p.now.Add(validity),
	}
}

func (p pki) serviceAccountKey() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generate service account key: %w", err)
	}
	private, err := encodeKey(key)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode service account key: %w", err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	return p.writePair(serviceAccount, &keyPair{cert: public, key: private})
}

func (p pki) writePair(name string, pair *keyPair) error {
	if err := p.write(name+".key", pair.key); err != nil {
		return err
	}
	return p.write(name+".crt", pair.cert)
}

func (p pki) write(file string, data []byte) error {
	if err := os.WriteFile(filepath.Join(p.dir, file), data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
