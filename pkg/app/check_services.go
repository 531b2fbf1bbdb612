/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/check"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/controller/ecsinstance"
	"github.com/glassback/glassback/pkg/controller/rediscluster"
	"github.com/glassback/glassback/pkg/redisnode"
)

// Bounds: of many objects, the first tell how it is.
const (
	mostKeys  = 20  // access keys with a region
	mostRedis = 20  // RedisClusters
	listLimit = 500 // objects that are looked at
	mostNodes = 8   // connections at once
)

// notRun is why nothing is asked about what a controller works with.
const notRun = "the operator does not run this controller"

// anyRegion is where an account is asked for: each region knows it.
const anyRegion = "cn-hangzhou"

// cloudKey is an access key that ECSInstances use in a region.
type cloudKey struct {
	namespace, secret string // of the Secret; empty for the operator's own
	region            string
}

// cloudChecks are followed by keyChecks.
func (c *checker) cloudChecks() []check.Check {
	checks := []check.Check{{ID: "cloud/credentials", Title: "the operator's own access key is accepted", Run: c.checkOwnKey}}
	if !c.options.pre {
		checks = append(checks, check.Check{
			ID: "cloud/instances", Title: "which access keys ECSInstances use", Needs: []string{"crds/ecsinstances." + ecsv1alpha1.GroupName}, Run: c.checkInstances,
		})
	}
	return checks
}

func (c *checker) cloud() (*aliyun.Cloud, error) {
	return aliyun.New(aliyun.Config{Endpoint: c.options.ecsEndpoint, UserAgent: "glassback/" + version})
}

// checkOwnKey is about the operator's own credentials. It need not have any.
func (c *checker) checkOwnKey(ctx context.Context) check.Result {
	if !c.runs(ecsinstance.Name) {
		return check.Skip(notRun)
	}
	if c.deployment != nil && !c.inside {
		return check.Skip("those of its Pods are not known here: " + c.inPod())
	}
	cloud, err := c.cloud()
	if err != nil {
		return check.Fail(err.Error(), "correct --ecs-endpoint, or the environment")
	}
	account, err := cloud.Open(nil, anyRegion).Account(ctx)
	if aliyun.ClassOf(err) == aliyun.NoCredentials {
		return check.Skip("there is none, which only matters to ECSInstances without spec.credentialsSecretRef")
	}
	return verdictOf(account, err)
}

// verdictOf says what came of a question to the cloud.
func verdictOf(account string, err error) check.Result {
	if err == nil {
		return check.Pass("account " + account)
	}
	remedy := "try again; else see to DNS, proxies and firewalls on the way to the cloud"
	switch aliyun.ClassOf(err) {
	case aliyun.Throttled:
		return check.Warn(err.Error(), "others use up the account's rate limit: see who")
	case aliyun.NoCredentials:
		remedy = "complete the Secret"
	case aliyun.BadCredentials:
		remedy = "renew the access key"
	case aliyun.Unauthorized:
		remedy = "grant it what docs/ecsinstance.md names, ecs:DescribeInstances first"
	case aliyun.Clock:
		remedy = "set the clock of this machine right"
	case aliyun.Rejected:
		remedy = "correct spec.regionID"
	}
	return check.Fail(err.Error(), remedy)
}

func (c *checker) checkInstances(ctx context.Context) check.Result {
	if !c.runs(ecsinstance.Name) {
		return check.Skip(notRun)
	}
	keys := map[cloudKey]bool{}
	n, cut := 0, false
	for _, ns := range c.options.namespaces {
		list, err := c.clients.glassback.AlibabacloudV1alpha1().ECSInstances(ns).List(ctx, metav1.ListOptions{Limit: listLimit})
		if err != nil {
			return unanswered(err)
		}
		for i := range list.Items {
			keys[keyOf(&list.Items[i])] = true
		}
		n += len(list.Items)
		cut = cut || list.Continue != ""
	}
	for key := range keys {
		c.keys = append(c.keys, key)
	}
	slices.SortFunc(c.keys, func(a, b cloudKey) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.secret, b.secret), strings.Compare(a.region, b.region))
	})
	found := fmt.Sprintf("%s, and %s, each in one region", count(n, "ECSInstance"), count(len(c.keys), "access key"))
	if cut || len(c.keys) > mostKeys {
		c.keys = c.keys[:min(len(c.keys), mostKeys)]
		found += fmt.Sprintf("; there are more, and %d are looked at", len(c.keys))
	}
	return check.Pass(found)
}

func keyOf(ecs *ecsv1alpha1.ECSInstance) cloudKey {
	if ref := ecs.Spec.CredentialsSecretRef; ref != nil {
		return cloudKey{ecs.Namespace, ref.Name, ecs.Spec.RegionID}
	}
	return cloudKey{region: ecs.Spec.RegionID}
}

// keyChecks are one for each access key and region.
func (c *checker) keyChecks() []check.Check {
	var checks []check.Check
	for _, key := range c.keys {
		id, title := "cloud/own/"+key.region, "the operator's own access key may ask for instances in "+key.region
		if key.secret != "" {
			id = fmt.Sprintf("cloud/%s/%s/%s", key.namespace, key.secret, key.region)
			title = fmt.Sprintf("the access key of Secret %s/%s may ask for instances in %s", key.namespace, key.secret, key.region)
		}
		checks = append(checks, check.Check{ID: id, Title: title, Run: func(ctx context.Context) check.Result { return c.checkKey(ctx, key) }})
	}
	return checks
}

func (c *checker) checkKey(ctx context.Context, key cloudKey) check.Result {
	cloud, err := c.cloud()
	if err != nil {
		return check.Fail(err.Error(), "correct --ecs-endpoint, or the environment")
	}
	if key.secret == "" {
		if c.deployment != nil && !c.inside {
			return check.Skip("those of its Pods are not known here: " + c.inPod())
		}
		account, err := cloud.Open(nil, key.region).Check(ctx)
		if aliyun.ClassOf(err) == aliyun.NoCredentials {
			return check.Fail("there is none, and ECSInstances without spec.credentialsSecretRef",
				"give the operator ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET, or a RAM role (RRSA), or set spec.credentialsSecretRef")
		}
		return verdictOf(account, err)
	}
	secret, err := c.clients.kube.CoreV1().Secrets(key.namespace).Get(ctx, key.secret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return check.Fail("there is no such Secret", fmt.Sprintf("create it, with %s and %s, or correct spec.credentialsSecretRef",
			ecsv1alpha1.KeyAccessKeyID, ecsv1alpha1.KeyAccessKeySecret))
	}
	if err != nil {
		return unanswered(err)
	}
	return verdictOf(cloud.Open(&aliyun.AccessKey{
		ID:            string(secret.Data[ecsv1alpha1.KeyAccessKeyID]),
		Secret:        string(secret.Data[ecsv1alpha1.KeyAccessKeySecret]),
		SecurityToken: string(secret.Data[ecsv1alpha1.KeySecurityToken]),
	}, key.region).Check(ctx))
}

// redisNodes are the Pods of a RedisCluster.
type redisNodes struct {
	cluster *redisv1.RedisCluster
	port    int
}

// redisChecks are followed by nodeChecks.
func (c *checker) redisChecks() []check.Check {
	return []check.Check{{
		ID: "redis/clusters", Title: "which RedisClusters there are", Needs: []string{"crds/redisclusters." + redisv1.GroupName}, Run: c.checkRedisClusters,
	}}
}

func (c *checker) checkRedisClusters(ctx context.Context) check.Result {
	if !c.runs(rediscluster.Name) {
		return check.Skip(notRun)
	}
	n := 0
	for _, ns := range c.options.namespaces {
		list, err := c.clients.glassback.RedisV1().RedisClusters(ns).List(ctx, metav1.ListOptions{Limit: listLimit})
		if err != nil {
			return unanswered(err)
		}
		n += len(list.Items)
		for i := range list.Items {
			if address, err := netip.ParseAddrPort(list.Items[i].Spec.Addr); err == nil && len(c.redis) < mostRedis {
				c.redis = append(c.redis, redisNodes{&list.Items[i], int(address.Port())})
			}
		}
	}
	found := count(n, "RedisCluster")
	if len(c.redis) < n {
		found += fmt.Sprintf(", of which %d are looked at", len(c.redis))
	}
	return check.Pass(found)
}

// nodeChecks are one for each RedisCluster.
func (c *checker) nodeChecks() []check.Check {
	var checks []check.Check
	for _, nodes := range c.redis {
		name := nodes.cluster.Namespace + "/" + nodes.cluster.Name
		checks = append(checks, check.Check{
			ID: "redis/" + name, Title: "the nodes of RedisCluster " + name + " answer",
			Run: func(ctx context.Context) check.Result { return c.checkNodes(ctx, nodes) },
		})
	}
	return checks
}

func (c *checker) checkNodes(ctx context.Context, nodes redisNodes) check.Result {
	rdc := nodes.cluster
	pods, err := c.clients.kube.CoreV1().Pods(rdc.Namespace).List(ctx, metav1.ListOptions{LabelSelector: redisv1.LabelRedisCluster + "=" + rdc.Name})
	if err != nil {
		return unanswered(err)
	}
	password, result := c.password(ctx, rdc)
	if result != nil {
		return *result
	}
	var answers []nodeAnswer
	for i := range pods.Items {
		if pods.Items[i].Status.PodIP != "" && pods.Items[i].DeletionTimestamp == nil {
			answers = append(answers, nodeAnswer{pod: pods.Items[i].Name, address: pods.Items[i].Status.PodIP})
		}
	}
	var asking sync.WaitGroup
	turns := make(chan struct{}, mostNodes)
	for i := range answers {
		asking.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			node := redisnode.Dial(answers[i].address, nodes.port, password)
			defer node.Close()
			answers[i].view, answers[i].err = node.View(ctx)
		})
	}
	asking.Wait()
	return answered(answers, len(pods.Items), c.inside)
}

// password returns that of a RedisCluster. Outside of the cluster it is not used: the address of a
// Pod may be that of somebody else there.
func (c *checker) password(ctx context.Context, rdc *redisv1.RedisCluster) (string, *check.Result) {
	ref := rdc.Spec.AuthSecretRef
	if ref == nil || !c.inside {
		return "", nil
	}
	secret, err := c.clients.kube.CoreV1().Secrets(rdc.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		result := unanswered(err)
		return "", &result
	}
	var data map[string][]byte
	if secret != nil {
		data = secret.Data
	}
	password := strings.TrimRight(string(data[ref.Key]), "\n")
	if password == "" {
		result := check.Fail(fmt.Sprintf("the Secret %s has no password in %s", ref.Name, ref.Key), "set it, or correct spec.authSecretRef")
		return "", &result
	}
	return password, nil
}

// nodeAnswer is what a node has said.
type nodeAnswer struct {
	pod, address string
	view         *redisnode.View
	err          error
}

// answered says what it means that the nodes of a RedisCluster with so many Pods have
// answered so, to somebody inside of the cluster or outside.
func answered(answers []nodeAnswer, pods int, inside bool) check.Result {
	if len(answers) == 0 {
		return check.Skip(fmt.Sprintf("none of its %s has an address", count(pods, "Pod")))
	}
	var silent []nodeAnswer
	locked, unwell := 0, 0
	for _, a := range answers {
		switch {
		case errors.Is(a.err, redisnode.ErrPassword):
			locked++
		case a.err != nil:
			silent = append(silent, a)
		case !a.view.StateOK:
			unwell++
		}
	}
	state := fmt.Sprintf("%d of %d answer", len(answers)-len(silent), pods)
	switch {
	case len(silent) == len(answers) && !inside:
		return check.Skip("the addresses of Pods cannot be reached from here, outside of the cluster")
	case locked > 0 && inside:
		return check.Fail(fmt.Sprintf("%d of %d refuse the password", locked, pods), "correct the Secret of spec.authSecretRef")
	case len(silent) == len(answers):
		return check.Fail(state+": "+silent[0].pod+": "+silent[0].err.Error(), "see that its Pods run, and that no NetworkPolicy keeps the operator from them")
	case len(silent) > 0:
		return check.Warn(state+": "+silent[0].pod+": "+silent[0].err.Error(), "see that Pod; the conditions of the RedisCluster say what the operator does about it")
	case unwell > 0:
		return check.Warn(fmt.Sprintf("%s, and %d take no requests (cluster_state)", state, unwell), "see the conditions of the RedisCluster")
	case locked > 0:
		return check.Pass(state + "; their password is not sent from outside of the cluster")
	}
	return check.Pass(state)
}
