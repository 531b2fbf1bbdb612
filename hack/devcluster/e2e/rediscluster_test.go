// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/images"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

const (
	onlyRedis   = "--controllers=rediscluster" // makes the operator run no other controller
	withStorage = "rediscluster-storage.yaml"
	seedSample  = "rediscluster.yaml"
	securePort  = 6390
)

// acting matches the operator's log line before a step.
func acting(verb string) string { return ` command="` + verb + " " }

// TestNodeRunsRedisCluster creates the sample RedisCluster, with the shipped permissions. It makes the checks of the seed's tutorial: six
// Pods are one cluster, and redis-cli in another Pod uses it by the name of the Service.
func TestNodeRunsRedisCluster(t *testing.T) {
	heavy.parallel(t)
	n := onNode(t)
	n.operate(t, onlyRedis).stop() // This operator installs the CRDs: the account has no permission for that.
	n.grantShipped(t, "manager")
	args := []string{"--kubeconfig", n.kubeconfig(t, n.token(t, n.ns, "manager")), "--namespace", n.ns, "-v=2", onlyRedis}
	follow(t, n.inside(binary(t), args...), args).waitFor("Started controller")
	c := n.known(t, artifact[redisv1.RedisCluster](t, "examples/"+seedSample))
	n.mustKubectl(t, "apply", "--namespace", n.ns, "-f", examplesDir+seedSample)
	c.ready(t, "the sample")

	const keys = 30
	n.createPod(t, "client", shell("redis:7", fmt.Sprintf(`for i in $(seq %[1]d); do redis-cli -c -h %[2]s SET k$i v$i; done
		for i in $(seq %[1]d); do redis-cli -c -h %[2]s.%[3]s.svc GET k$i; done`, keys, c.name, c.ns)))
	want := strings.Repeat("OK\n", keys)
	for i := range keys {
		want += fmt.Sprintf("v%d\n", i+1)
	}
	n.prints(t, "^"+want+"$")
}

// TestNodeRedisKeepsWrites scales and rolls a Redis Cluster while a client writes. It kills the operator in every operation, before the
// first step of each kind. The next process completes the operation. No acknowledged write is lost.
func TestNodeRedisKeepsWrites(t *testing.T) {
	heavy.parallel(t)
	n := onNode(t)
	o := n.operate(t, onlyRedis)
	c := n.redis(t, withStorage)
	survives := func(operation string, steps ...string) {
		t.Helper()
		for i := range steps {
			steps[i] = acting(steps[i])
		}
		for len(steps) > 0 {
			steps = o.killAt(patience, steps...)
			t.Logf("%s: killed the operator, remaining steps: %q", operation, steps)
			o = n.operate(t, onlyRedis)
		}
		c.ready(t, operation)
	}
	survives("formation", "create Pod", "meet", "add slots", "replicate")
	w := c.write(t)
	for _, change := range []struct {
		what, patch string
		steps       []string // the test kills the operator before each of them
	}{
		{"scale to 8", `{"spec": {"size": 8}}`, []string{"create Pod", "meet", "move slots", "replicate"}},
		{"scale to 6", `{"spec": {"size": 6}}`, []string{"move slots", "forget", "delete claim", "delete Pod"}},
		{"a podTemplate", `{"spec": {"podTemplate": {
			"labels": {"team": "shop"}, "env": [{"name": "TZ", "value": "UTC"}],
			"initContainers": [{"name": "before", "image": "busybox:1.35.0", "command": ["true"]}],
			"containers": [{"name": "beside", "image": "busybox:1.35.0", "command": ["sh", "-c", "trap exit TERM; sleep 1000 & wait"]}]
		}}}`, []string{"failover"}},
		// This image has the same content: another name is enough to replace all Pods.
		{"another image, and no podTemplate", `{"spec": {"image": "redis:7.0.15", "podTemplate": null}}`, []string{"evict Pod"}},
	} {
		before := c.uids(t)
		c.patch(t, change.patch)
		survives(change.what, change.steps...)
		w.kept(change.what)
		rdc, err := c.get(t.Context())
		c.must(t, err)
		rdc.Default()
		pods, err := c.pods(t.Context())
		c.must(t, err)
		for _, pod := range pods {
			if image := pod.Spec.Containers[0].Image; image != rdc.Spec.Image {
				t.Errorf("%s: %s has the image %s, want %s", change.what, pod.Name, image, rdc.Spec.Image)
			}
			templated := rdc.Spec.PodTemplate != nil
			if (len(pod.Spec.Containers) == 2) != templated || (pod.Labels["team"] == "shop") != templated {
				t.Errorf("%s: %s has the labels %v and %d containers", change.what, pod.Name, pod.Labels, len(pod.Spec.Containers))
			}
			if rolls := !strings.HasPrefix(change.what, "scale"); rolls && before[pod.Name] == pod.UID {
				t.Errorf("%s: %s was not replaced", change.what, pod.Name)
			}
		}
	}
	claims, err := n.kube.CoreV1().PersistentVolumeClaims(n.ns).List(t.Context(), metav1.ListOptions{})
	c.must(t, err)
	if len(claims.Items) != 6 {
		t.Errorf("%d claims exist, want 6", len(claims.Items))
	}
}

// TestNodeRedisVersions forms clusters of Redis 8 and of Valkey 8, and moves clusters of Redis 7 to them, while a client writes. Redis 7.0
// cannot read what they have written. So the way back stops at the first replica. No acknowledged write is lost.
func TestNodeRedisVersions(t *testing.T) {
	heavy.parallel(t)
	for _, image := range []string{"redis:8", "valkey:8"} {
		t.Run(image, func(t *testing.T) {
			if _, err := images.Store(filepath.Join(root, "bin", "images")).Image(image); err != nil {
				t.Skipf("SKIPPED, %s on the real node: make servers makes its image: %v", image, err)
			}
			n := onNode(t)
			n.operate(t, onlyRedis)
			n.redis(t, seedSample, small, func(rdc *redisv1.RedisCluster) {
				rdc.Name, rdc.Spec.Image = "new", image
			}).ready(t, "the formation")
			n.mustKubectl(t, "delete", "--namespace", n.ns, "rdc/new")
			c := n.redis(t, withStorage)
			c.ready(t, "the formation with Redis 7")
			w := c.write(t)
			to := func(image string) { c.patch(t, fmt.Sprintf(`{"spec": {"image": %q}}`, image)) }
			to(image)
			c.ready(t, "the move")
			w.kept("the move")
			c.runs(t, image)

			before := c.uids(t)
			to("redis:7")
			await(t, func(ctx context.Context) error { // By then, the operator could have replaced others.
				pods, err := c.pods(ctx)
				for _, pod := range pods {
					if s := pod.Status.ContainerStatuses; before[pod.Name] != pod.UID && len(s) > 0 && s[0].RestartCount > 2 {
						return nil
					}
				}
				return errors.Join(err, errors.New("the way back: no new Pod has restarted"))
			})
			c.wrong(t, "PodNotStarting", "CrashLoopBackOff")
			w.kept("the way back")
			now := c.uids(t)
			maps.DeleteFunc(now, func(name string, uid types.UID) bool { return before[name] == uid })
			if len(now) != 1 {
				t.Errorf("the way back: the Pods %v were replaced, want one", now)
			}
			to(image)
			c.ready(t, "the way forward again")
			w.kept("the way forward again")
			c.runs(t, image)
		})
	}
}

// runs checks the image of all Pods.
func (c *realRedis) runs(t *testing.T, image string) {
	t.Helper()
	pods, err := c.pods(t.Context())
	c.must(t, err)
	for _, pod := range pods {
		if got := pod.Spec.Containers[0].Image; got != image {
			t.Errorf("%s has the image %s, want %s", pod.Name, got, image)
		}
	}
}

// TestNodeRedisTLS adds TLS to a cluster with users, requires it, renews the certificate, and removes TLS, while a client writes. The
// operator is killed in the middle of both switches.
func TestNodeRedisTLS(t *testing.T) {
	heavy.parallel(t)
	n := onNode(t)
	o := n.operate(t, onlyRedis)
	c := n.redis(t, withStorage, func(rdc *redisv1.RedisCluster) {
		rdc.Spec.Users = []redisv1.User{{Name: redisv1.UserDefault, Rules: "nopass ~* &* +@all"}}
	})
	c.ready(t, "formation")
	certificate, key := signed(t, authorityTemplate("CA of "+c.name, -time.Hour, time.Hour), nil, nil)
	ca := &authority{certificate, key}
	ca.issue(t, c, 1)
	plain := c.port
	killed := func(what string) {
		t.Helper()
		o.killAt(patience, acting("switch TLS of"))
		o = n.operate(t, onlyRedis)
		c.ready(t, what)
	}
	protocols := func(clients, nodes redisv1.Protocol) {
		t.Helper()
		rdc, err := c.get(t.Context())
		c.must(t, err)
		if status := rdc.Status.TLS; status == nil || status.Clients != clients || status.Nodes != nodes {
			t.Errorf("status.tls is %+v, want %s for clients and %s among the nodes", status, clients, nodes)
		}
	}

	w := c.write(t)
	c.patch(t, fmt.Sprintf(`{"spec": {"tls": {"secretRef": {"name": "redis-tls"}, "port": %d}}}`, securePort))
	killed("TLS")
	protocols(redisv1.ProtocolBoth, redisv1.ProtocolTLS)
	w.kept("TLS")
	w.end()

	before := c.uids(t)
	c.tls, c.port = ca.client(c), securePort
	w = c.write(t)
	c.patch(t, `{"spec": {"tls": {"mode": "Required"}}}`)
	c.ready(t, "TLS alone")
	protocols(redisv1.ProtocolTLS, redisv1.ProtocolTLS)
	pods, err := c.pods(t.Context())
	c.must(t, err)
	for _, pod := range pods {
		if conn, err := c.in.dial(t.Context(), "tcp", net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(plain))); err == nil {
			t.Errorf("%s still listens on the port without TLS", pod.Name)
			_ = conn.Close() // Nothing was sent.
		}
	}
	w.kept("TLS alone")

	// The kubelet writes a changed Secret into a Pod when it next syncs the Pod. A change of the Pod makes it do that at once.
	fingerprint := ca.issue(t, c, 2)
	c.mustKubectl(t, "annotate", "pods", "--all", "--namespace", c.ns, "certificate=renewed")
	await(t, func(ctx context.Context) error {
		rdc, err := c.get(ctx)
		if err == nil && rdc.Status.TLS.Fingerprint != fingerprint {
			err = fmt.Errorf("status.tls is %+v, want the fingerprint %s", rdc.Status.TLS, fingerprint)
		}
		return err
	})
	w.kept("a renewed certificate")
	c.patch(t, `{"spec": {"tls": {"mode": "Preferred"}}}`)
	c.ready(t, "TLS and plain")
	if after := c.uids(t); !maps.Equal(before, after) {
		t.Errorf("the Pods are %v, and were %v", after, before)
	}
	w.kept("TLS and plain")
	w.end()

	c.tls, c.port = nil, plain
	w = c.write(t)
	c.patch(t, `{"spec": {"tls": null}}`)
	killed("no TLS")
	if rdc, err := c.get(t.Context()); err != nil || rdc.Status.TLS != nil {
		t.Errorf("status.tls is %+v (error %v), want none", rdc.Status.TLS, err)
	}
	w.kept("no TLS")
}

// authority is a CA that writes the Secret of a RedisCluster, as cert-manager does.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// issue writes a new certificate into the Secret of a RedisCluster, and returns its fingerprint.
func (a *authority) issue(t *testing.T, c *realRedis, serial int64) string {
	t.Helper()
	leaf, key := signed(t, &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: []string{c.name + "." + c.ns + ".svc"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.certificate, a.key)
	c.setSecret(t, "redis-tls", map[string]string{
		"ca.crt": string(certificatePEM(a.certificate)), "tls.crt": string(certificatePEM(leaf)), "tls.key": string(keyPEM(t, key)),
	})
	return redisnode.Fingerprint(leaf.Raw)
}

// client returns the configuration of a client that trusts the CA.
func (a *authority) client(c *realRedis) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return &tls.Config{RootCAs: pool, ServerName: c.name + "." + c.ns + ".svc", MinVersion: tls.VersionTLS12}
}

func (n *node) setPassword(t *testing.T, secret, password string) {
	t.Helper()
	n.setSecret(t, secret, map[string]string{"password": password})
}

func (n *node) setSecret(t *testing.T, name string, data map[string]string) {
	t.Helper()
	secrets := n.kube.CoreV1().Secrets(n.ns)
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
	_, err := secrets.Create(t.Context(), s, metav1.CreateOptions{})
	if err != nil {
		_, err = secrets.Update(t.Context(), s, metav1.UpdateOptions{})
	}
	n.must(t, err)
}

const (
	imageBackup = "glassback.test/glassback:backup"
	library     = "#!lua name=greetings\nredis.register_function('greet', function() return 'hello' end)"
)

// TestNodeRedisBackup makes a backup of a cluster with users into a volume, and forms a cluster of more masters, with TLS, from it. The
// operator is killed before it creates each of the two Jobs. The new cluster has every key, those that expire with their time, and the
// functions. Then it makes a backup into a bucket of S3, at first with a wrong access key, which the status hides. The namespace enforces
// the Pod Security Standard "restricted".
func TestNodeRedisBackup(t *testing.T) {
	heavy.parallel(t)
	n := onNode(t)
	n.load(t, imageBackup)
	n.mustKubectl(t, "label", "namespace", n.ns, enforceRestricted)
	args := []string{onlyRedis, "--backup-image=" + imageBackup}
	o := n.operate(t, args...)
	_, err := n.kube.CoreV1().PersistentVolumeClaims(n.ns).Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "backups"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	n.must(t, err)
	c := n.redis(t, seedSample, func(rdc *redisv1.RedisCluster) {
		rdc.Spec.Users = []redisv1.User{{Name: redisv1.UserDefault, Rules: "nopass ~* &* +@all -@admin"}}
		rdc.Spec.NetworkPolicy = &redisv1.NetworkPolicy{}
	})
	c.ready(t, "formation")
	c.fill(t)
	client := c.client()
	defer client.Close()
	c.must(t, client.Set(t.Context(), "expiring", "soon", time.Hour).Err())
	c.must(t, client.HSet(t.Context(), "hash", "a", 1, "b", 2).Err())
	c.must(t, client.ForEachMaster(t.Context(), func(ctx context.Context, master *redis.Client) error {
		return master.FunctionLoad(ctx, library).Err()
	}))

	before := c.uids(t)
	c.patch(t, `{"spec": {"backup": {"schedule": "* * * * *", "persistentVolumeClaim": {"claimName": "backups"}}}}`)
	o.killAt(patience, acting("create Job of backup"))
	o = n.operate(t, args...)
	last := c.backedUp(t)
	if want := int64(fewKeys + 2); last.Keys != want || last.Bytes == 0 {
		t.Errorf("the backup is %+v, want %d keys", last, want)
	}
	c.patch(t, `{"spec": {"backup": null}}`)
	if after := c.uids(t); !maps.Equal(before, after) {
		t.Errorf("the Pods are %v, and were %v", after, before)
	}

	other := n.redis(t, seedSample, func(rdc *redisv1.RedisCluster) {
		rdc.Name = "restored"
		rdc.Spec.Size, rdc.Spec.ReplicasPerMaster = ptr.To[int32](4), ptr.To[int32](0)
		rdc.Spec.TLS = &redisv1.TLS{SecretRef: redisv1.SecretReference{Name: "redis-tls"}, Mode: redisv1.TLSRequired, Port: securePort}
		rdc.Spec.RestoreFrom = &redisv1.RestoreFrom{Name: c.name, Backup: last.ID, BackupStore: redisv1.BackupStore{
			PersistentVolumeClaim: &redisv1.ClaimReference{ClaimName: "backups"},
		}}
	})
	certificate, key := signed(t, authorityTemplate("CA of "+other.name, -time.Hour, time.Hour), nil, nil)
	ca := &authority{certificate, key}
	ca.issue(t, other, 1)
	other.tls, other.port = ca.client(other), securePort
	o.killAt(patience, ` command="create Job of restore"`)
	n.operate(t, args...)
	other.ready(t, "restore")
	rdc, err := other.get(t.Context())
	n.must(t, err)
	if r := rdc.Status.Restore; r == nil || r.ID != last.ID || r.Keys != last.Keys || r.Skipped != 0 || r.Warning != "" {
		t.Errorf("status.restore is %+v, want %+v", r, last)
	}
	other.restored(t, c.name)
	other.savesInS3(t, last.Keys)
}

// backedUp waits for the first backup, and returns it.
func (c *realRedis) backedUp(t *testing.T) *redisv1.BackupResult {
	t.Helper()
	var last *redisv1.BackupResult
	await(t, func(ctx context.Context) error {
		rdc, err := c.get(ctx)
		if err != nil {
			return err
		}
		if b := rdc.Status.Backup; b == nil || b.Last == nil {
			return fmt.Errorf("there is no backup: %+v", meta.FindStatusCondition(rdc.Status.Conditions, redisv1.ConditionBackedUp))
		}
		last = rdc.Status.Backup.Last
		return nil
	})
	return last
}

// restored checks that a RedisCluster has the keys and functions of the one from which the backup was made.
func (c *realRedis) restored(t *testing.T, from string) {
	t.Helper()
	client := c.client()
	defer client.Close()
	for i := range fewKeys {
		var got string
		await(t, func(ctx context.Context) (err error) {
			if got, err = client.Get(ctx, keyName(i)).Result(); errors.Is(err, redis.Nil) {
				err = nil
			}
			return err
		})
		if got != from+"-"+keyName(i) {
			t.Fatalf("%s is %q", keyName(i), got)
		}
	}
	if hash, err := client.HGetAll(t.Context(), "hash").Result(); err != nil || len(hash) != 2 || hash["b"] != "2" {
		t.Errorf("the hash is %v, error %v", hash, err)
	}
	if ttl, err := client.TTL(t.Context(), "expiring").Result(); err != nil || ttl <= 0 || ttl > time.Hour {
		t.Errorf("the key expires in %s, error %v", ttl, err)
	}
	if err := client.ForEachMaster(t.Context(), func(ctx context.Context, master *redis.Client) error {
		libraries, err := master.FunctionList(ctx, redis.FunctionListQuery{WithCode: true}).Result()
		if err == nil && (len(libraries) != 1 || strings.TrimSpace(libraries[0].Code) != library) {
			err = fmt.Errorf("the libraries are %+v", libraries)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// savesInS3 makes a backup into a bucket of S3. At first, the Secret has a wrong access key. The status reports that S3 refuses it, and
// hides the ID of the key, which is in the answer of S3.
func (c *realRedis) savesInS3(t *testing.T, keys int64) {
	t.Helper()
	const keyID, key = "AKIAE2EOFTHEBACKUPS0", "e2e-secret-access-key-of-backups"
	backup, err := json.Marshal(redisv1.Backup{BackupStore: redisv1.BackupStore{S3: &redisv1.S3{
		Endpoint: c.serveS3(t, "redis", keyID, key), Bucket: "redis", Prefix: "e2e/backups",
		CredentialsSecretRef: redisv1.SecretReference{Name: "s3"},
	}}})
	c.must(t, err)
	now := func(access, when string) {
		c.setSecret(t, "s3", map[string]string{"accessKeyID": keyID, "secretAccessKey": access})
		c.patch(t, fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}, "spec": {"backup": %s}}`, redisv1.AnnotationBackupNow, when, backup))
	}
	now("e2e-wrong-key-of-another-bucket", "refused")
	await(t, func(ctx context.Context) error {
		rdc, err := c.get(ctx)
		if err != nil {
			return err
		}
		is := meta.FindStatusCondition(rdc.Status.Conditions, redisv1.ConditionBackedUp)
		if is == nil || is.Reason != "Failed" || !strings.Contains(is.Message, "The signature for the key [secret] does not match") {
			return fmt.Errorf("BackedUp does not report the refusal: %+v", is)
		}
		return nil
	})
	now(key, "corrected")
	if last := c.backedUp(t); last.Keys != keys {
		t.Errorf("the backup in S3 is %+v, want %d keys", last, keys)
	}
}

// TestEvictionAnswers checks the API server's answers to evictions. The fake API server in evict_test.go of pkg/controller/rediscluster
// gives the same answers.
func TestEvictionAnswers(t *testing.T) {
	light.parallel(t)
	n := onNode(t)
	here, pods := "--namespace="+n.ns, n.kube.CoreV1().Pods(n.ns)
	uids := map[string]types.UID{}
	for _, name := range []string{"a", "b"} { // No kubelet runs them, and they are ready.
		n.mustKubectl(t, "run", name, here, "--image=busybox", "--labels=app=evicted",
			`--overrides={"apiVersion": "v1", "spec": {"schedulerName": "none"}}`)
		n.mustKubectl(t, "patch", "pod", name, here, "--subresource=status", "--type=merge", "-p",
			`{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`)
		pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
		n.must(t, err)
		uids[name] = pod.UID
	}
	budget := func(name, available string) { // returns once the controller has seen both Pods
		n.mustKubectl(t, "create", "poddisruptionbudget", name, here, "--selector=app=evicted", "--min-available="+available)
		n.mustKubectl(t, "wait", "pdb/"+name, here, "--for=jsonpath={.status.currentHealthy}=2", "--timeout="+patience.String())
	}
	evict := func(pod string, uid types.UID) error { // as the RedisCluster controller does
		return n.kube.CoreV1().RESTClient().Post().MaxRetries(0).Namespace(n.ns).Resource("pods").Name(pod).SubResource("eviction").
			Body(&policyv1.Eviction{
				ObjectMeta:    metav1.ObjectMeta{Namespace: n.ns, Name: pod},
				DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
			}).Do(t.Context()).Error()
	}
	exists := func(what string) {
		t.Helper()
		if pod, err := pods.Get(t.Context(), "a", metav1.GetOptions{}); err != nil || pod.DeletionTimestamp != nil {
			t.Fatalf("%s: the Pod is gone: %v", what, err)
		}
	}

	if err := evict("a", "another"); !apierrors.IsConflict(err) {
		t.Errorf("eviction with another UID: error %v, want a conflict", err)
	}
	exists("a Pod with another UID")

	budget("two", "2")
	err := evict("a", uids["a"])
	cause, ok := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause)
	if _, delay := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || !ok || delay ||
		!strings.Contains(cause.Message, "needs 2 healthy pods and has 2 currently") {
		t.Errorf("eviction that the budget does not allow: error %v, %+v", err, cause)
	}
	exists("the budget does not allow it")

	budget("one", "1")
	var status apierrors.APIStatus
	if err := evict("a", uids["a"]); !errors.As(err, &status) || status.Status().Code != http.StatusInternalServerError ||
		!strings.Contains(status.Status().Message, "more than one PodDisruptionBudget") {
		t.Errorf("eviction with two budgets: error %v, want code 500", err)
	}
	exists("two budgets")

	n.mustKubectl(t, "delete", "pdb/two", here)
	n.must(t, evict("a", uids["a"]))
	if _, err := pods.Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("eviction that the budget allows: the Pod still exists, error %v", err)
	}
	if err := evict("b", uids["b"]); !apierrors.IsTooManyRequests(err) {
		t.Errorf("eviction after the budget is used: error %v", err)
	}
}
