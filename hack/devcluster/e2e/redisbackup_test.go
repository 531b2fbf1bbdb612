// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

const (
	imageBackup = "glassback.test/glassback:backup"
	securePort  = 6390
	library     = "#!lua name=greetings\nredis.register_function('greet', function() return 'hello' end)"
)

// TestNodeRedisBackup makes a backup of a cluster with users into a volume, and forms a larger cluster with TLS from it. The operator is
// killed before it creates each of the two Jobs. The new cluster has every key, those that expire with their time, and the functions. A
// backup of the new cluster has them, too.
func TestNodeRedisBackup(t *testing.T) {
	t.Parallel()
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
	last := c.backedUp(t)
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

	begun := time.Now()
	other := n.redis(t, seedSample, func(rdc *redisv1.RedisCluster) {
		rdc.Name = "restored"
		rdc.Spec.Size = ptr.To[int32](8)
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
	n.operate(t, args...)
	other.ready(t, "restore")
	t.Logf("restored after %s", time.Since(begun).Round(time.Second))
	rdc, err := other.get(t.Context())
	n.must(t, err)
	if r := rdc.Status.Restore; r == nil || r.ID != last.ID || r.Keys != last.Keys || r.Skipped != 0 || r.Warning != "" {
		t.Errorf("status.restore is %+v, want %+v", r, last)
	}
	other.hasAll(t, c.name)
	other.patch(t, `{"spec": {"backup": {"schedule": "* * * * *", "persistentVolumeClaim": {"claimName": "backups"}}}}`)
	if again := other.backedUp(t); again.Keys != last.Keys {
		t.Errorf("the backup of the new cluster is %+v, want %d keys", again, last.Keys)
	}
}

// backedUp waits for a backup, and returns it.
func (c *realRedis) backedUp(t *testing.T) *redisv1.BackupResult {
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
		if last == nil {
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
