// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/leaktest"
)

const (
	imageBackup = "glassback.test/glassback:backup"
	securePort  = 6390
	library     = "#!lua name=greetings\nredis.register_function('greet', function() return 'hello' end)"
)

// TestNodeRedisBackup makes a backup of a cluster with users into a volume, and forms a cluster of more masters, with TLS, from it. The
// operator is killed before it creates each of the two Jobs. The new cluster has every key, those that expire with their time, and the
// functions. A backup of the new cluster has them, too. Meanwhile, the first cluster makes a backup into a bucket of S3, at first with a
// wrong access key. When the new cluster has been deleted, a third one is formed from that.
func TestNodeRedisBackup(t *testing.T) {
	heavy.parallel(t)
	n := onNode(t)
	n.load(t, imageBackup)
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
	o.killAt(redisPatience, acting("create Job of backup"))
	o = n.operate(t, args...)
	last := c.backedUp(t, "")
	if want := int64(fewKeys + 2); last.Keys != want || last.Bytes == 0 {
		t.Errorf("the backup is %+v, want %d keys", last, want)
	}
	c.patch(t, `{"spec": {"backup": null}}`)
	eventually(t, patience, func(ctx context.Context) error { return c.noJobs(ctx) })
	for name, uid := range c.uids(t) {
		if before[name] != uid {
			t.Errorf("the Pod %s was replaced", name)
		}
	}

	bucket := c.refusedByS3(t)
	begun := time.Now()
	other := n.redis(t, seedSample, func(rdc *redisv1.RedisCluster) {
		rdc.Name = "restored"
		rdc.Spec.Size, rdc.Spec.ReplicasPerMaster = ptr.To[int32](4), ptr.To[int32](0)
		rdc.Spec.TLS = &redisv1.TLS{SecretRef: redisv1.SecretReference{Name: "redis-tls"}, Mode: redisv1.TLSRequired, Port: securePort}
		rdc.Spec.RestoreFrom = &redisv1.RestoreFrom{Name: c.name, Backup: last.ID, BackupStore: redisv1.BackupStore{
			PersistentVolumeClaim: &redisv1.ClaimReference{ClaimName: "backups"},
		}}
	})
	ca := other.newAuthority(t)
	ca.issue(t, 1)
	other.tls = &tls.Config{RootCAs: ca.pool, ServerName: other.name + "." + n.ns + ".svc", MinVersion: tls.VersionTLS12}
	other.port = securePort
	o.killAt(redisPatience, ` command="create Job of restore"`)
	bucket.logs = append(bucket.logs, o.log, n.operate(t, args...).log)
	other.ready(t, "restore")
	t.Logf("restored after %s", time.Since(begun).Round(time.Second))
	rdc, err := other.get(t.Context())
	n.must(t, err)
	if r := rdc.Status.Restore; r == nil || r.ID != last.ID || r.Keys != last.Keys || r.Skipped != 0 || r.Warning != "" {
		t.Errorf("status.restore is %+v, want %+v", r, last)
	}
	other.hasAll(t, c.name)
	other.patch(t, fmt.Sprintf(`{"metadata": {"annotations": {%q: "again"}}, "spec": {"backup": {
		"persistentVolumeClaim": {"claimName": "backups"}}}}`, redisv1.AnnotationBackupNow))
	if again := other.backedUp(t, ""); again.Keys != last.Keys {
		t.Errorf("the backup of the new cluster is %+v, want %d keys", again, last.Keys)
	}
	pods := other.uids(t)
	n.must(t, n.glassback.RedisV1().RedisClusters(n.ns).Delete(t.Context(), other.name, metav1.DeleteOptions{}))
	other.replaced(t, pods) // The probes of three clusters would be too much for two processors.
	bucket.saves(t, last)
}

// s3Backup is a bucket of S3 that a RedisCluster uses.
type s3Backup struct {
	*realRedis
	store   redisv1.BackupStore
	secrets leaktest.Secrets
	logs    []*logBuffer // of the operators that have known the bucket
}

// refusedByS3 begins a backup into a bucket. The Secret has a wrong access key.
func (c *realRedis) refusedByS3(t *testing.T) *s3Backup {
	t.Helper()
	b := &s3Backup{realRedis: c, secrets: leaktest.Secrets{
		"the access key ID": "AKIAE2EOFTHEBACKUPS0", "the access key": "e2e-secret-access-key-of-backups",
		"a wrong key": "e2e-wrong-key-of-another-bucket",
	}}
	b.store.S3 = &redisv1.S3{
		Endpoint: c.serveS3(t, "redis", b.secrets["the access key ID"], b.secrets["the access key"]), Bucket: "redis", Prefix: "e2e/backups",
		CredentialsSecretRef: redisv1.SecretReference{Name: "s3"},
	}
	b.setKey(t, "a wrong key")
	spec, err := json.Marshal(redisv1.Backup{BackupStore: b.store})
	c.must(t, err)
	c.patch(t, fmt.Sprintf(`{"metadata": {"annotations": {%q: "refused"}}, "spec": {"backup": %s}}`, redisv1.AnnotationBackupNow, spec))
	return b
}

func (b *s3Backup) setKey(t *testing.T, which string) {
	t.Helper()
	b.setSecret(t, b.store.S3.CredentialsSecretRef.Name, map[string]string{
		"accessKeyID": b.secrets["the access key ID"], "secretAccessKey": b.secrets[which],
	})
}

// saves waits until the status has the refusal. With the correct access key, it makes a backup, and a new cluster from that. No text that
// users read may have a key.
func (b *s3Backup) saves(t *testing.T, before *redisv1.BackupResult) {
	t.Helper()
	eventually(t, redisPatience, func(ctx context.Context) error {
		rdc, err := b.get(ctx)
		if err != nil {
			return err
		}
		is := meta.FindStatusCondition(rdc.Status.Conditions, redisv1.ConditionBackedUp)
		if is == nil || is.Reason != "Failed" || !strings.Contains(is.Message, "The signature for the key [secret] does not match") {
			return fmt.Errorf("BackedUp does not report the refusal: %+v", is)
		}
		t.Logf("BackedUp is %s: %s", is.Status, is.Message)
		return nil
	})
	b.leaks(t, "after the refusal")
	jobs, err := b.kube.BatchV1().Jobs(b.ns).List(t.Context(), metav1.ListOptions{})
	b.must(t, err)
	if !slices.ContainsFunc(jobs.Items, func(job batchv1.Job) bool {
		return job.Status.Failed == 1 && slices.ContainsFunc(job.Status.Conditions, func(is batchv1.JobCondition) bool {
			return is.Type == batchv1.JobFailed && is.Reason == batchv1.JobReasonPodFailurePolicy
		})
	}) {
		t.Errorf("no Job has failed at its first try, although S3 would refuse the key again: %+v", jobs.Items)
	}

	begun := time.Now()
	b.setKey(t, "the access key")
	b.patch(t, fmt.Sprintf(`{"metadata": {"annotations": {%q: "corrected"}}}`, redisv1.AnnotationBackupNow))
	last := b.backedUp(t, before.ID)
	if last.Keys != before.Keys {
		t.Errorf("the backup in S3 is %+v, want %d keys", last, before.Keys)
	}
	from := b.redis(t, seedSample, small, func(rdc *redisv1.RedisCluster) {
		rdc.Name = "from-s3"
		rdc.Spec.RestoreFrom = &redisv1.RestoreFrom{Name: b.name, Backup: redisv1.LatestBackup, BackupStore: b.store}
	})
	from.ready(t, "restore from S3")
	rdc, err := from.get(t.Context())
	b.must(t, err)
	if r := rdc.Status.Restore; r == nil || r.ID != last.ID || r.Keys != last.Keys || r.Skipped != 0 || r.Warning != "" {
		t.Errorf("status.restore is %+v, want %+v", r, last)
	}
	from.hasAll(t, b.name)
	t.Logf("saved and restored with S3 after %s", time.Since(begun).Round(time.Second))
	b.leaks(t, "at the end")
}

// leaks checks that no key is in the operators' logs, the logs of the Jobs' Pods, events and objects.
func (b *s3Backup) leaks(t *testing.T, when string) {
	t.Helper()
	texts := map[string]string{}
	b.reads(t, texts)
	for i, log := range b.logs {
		texts[fmt.Sprintf("the log of operator %d", i)] = log.String()
	}
	out, err := b.kubectl(t, "logs", "--namespace", b.ns, "--selector="+redisv1.LabelJob, "--tail=-1", "--ignore-errors")
	b.must(t, err)
	texts["the logs of the Jobs"] = out
	for where, text := range texts {
		for _, found := range b.secrets.In(text) {
			t.Errorf("%s: %s contains %s", when, where, found)
		}
	}
	for _, where := range []string{"pods", kindsOfOperator, "the logs of the Jobs"} { // These have the refusal.
		if !strings.Contains(texts[where], "[secret]") {
			t.Errorf("%s: %s contains no hidden key", when, where)
		}
	}
}

// backedUp waits for a backup that is not the one before, and returns it.
func (c *realRedis) backedUp(t *testing.T, before string) *redisv1.BackupResult {
	t.Helper()
	var last *redisv1.BackupResult
	eventually(t, redisPatience, func(ctx context.Context) error {
		rdc, err := c.get(ctx)
		if err != nil {
			return err
		}
		if b := rdc.Status.Backup; b != nil {
			last = b.Last
		}
		if last == nil || last.ID == before {
			return fmt.Errorf("there is no backup: %+v", meta.FindStatusCondition(rdc.Status.Conditions, redisv1.ConditionBackedUp))
		}
		return nil
	})
	t.Logf("made the backup %s with %d keys", last.ID, last.Keys)
	return last
}

// noJobs returns an error while a Job of a backup, or a Pod of one, exists.
func (c *realRedis) noJobs(ctx context.Context) error {
	jobs, err := c.kube.BatchV1().Jobs(c.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	pods, err := c.kube.CoreV1().Pods(c.ns).List(ctx, metav1.ListOptions{LabelSelector: redisv1.LabelJob})
	if err == nil && len(jobs.Items)+len(pods.Items) > 0 {
		err = fmt.Errorf("there are %d Jobs and %d Pods of Jobs", len(jobs.Items), len(pods.Items))
	}
	return err
}

// hasAll checks the keys and functions of the cluster from which the backup was made.
func (c *realRedis) hasAll(t *testing.T, from string) {
	t.Helper()
	client := c.client()
	defer client.Close()
	for i := range fewKeys {
		if got, err := client.Get(t.Context(), keyName(i)).Result(); err != nil || got != from+"-"+keyName(i) {
			t.Fatalf("%s is %q, error %v", keyName(i), got, err)
		}
	}
	if hash, err := client.HGetAll(t.Context(), "hash").Result(); err != nil || len(hash) != 2 || hash["b"] != "2" {
		t.Errorf("the hash is %v, error %v", hash, err)
	}
	if ttl, err := client.TTL(t.Context(), "expiring").Result(); err != nil || ttl <= 0 || ttl > time.Hour {
		t.Errorf("the key expires in %s, error %v", ttl, err)
	}
	err := client.ForEachMaster(t.Context(), func(ctx context.Context, master *redis.Client) error {
		libraries, err := master.FunctionList(ctx, redis.FunctionListQuery{WithCode: true}).Result()
		if err == nil && (len(libraries) != 1 || strings.TrimSpace(libraries[0].Code) != library) {
			err = fmt.Errorf("the libraries are %+v", libraries)
		}
		size, sizeErr := master.DBSize(ctx).Result()
		if err == nil && sizeErr == nil && size == 0 {
			sizeErr = errors.New("a master has no keys")
		}
		return errors.Join(err, sizeErr)
	})
	if err != nil {
		t.Error(err)
	}
}
