// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/controller/ecsinstance"
	"github.com/glassback/glassback/pkg/version"
)

// Limits. A check looks at the first objects, up to the limit.
const (
	maxKeys   = 20  // access keys with a region
	maxRedis  = 20  // RedisClusters
	listLimit = 500 // objects that are looked at
	maxNodes  = 8   // connections at once
)

// notRun is the reason to skip the checks of a controller that does not run.
const notRun = "the operator does not run this controller"

// anyRegion is the region of requests for an account: each region knows all accounts.
const anyRegion = "cn-hangzhou"

// cloudKey is an access key that ECSInstances use in a region.
type cloudKey struct {
	namespace, secret string // of the Secret; empty for the operator's own
	region            string
}

func (c *checker) cloud() (*aliyun.Cloud, error) {
	return aliyun.New(aliyun.Config{
		Endpoint: c.options.ECSEndpoint, UserAgent: "glassback/" + version.Version(), Metadata: c.options.ECSOwnCredentials.Metadata(),
	})
}

// checkOwnKey checks the operator's own credentials, which it uses only for the namespaces of a flag.
func (c *checker) checkOwnKey(ctx context.Context) Result {
	if !c.runs(ecsinstance.Name) {
		return skip(notRun)
	}
	if len(c.options.ECSOwnCredentials.Namespaces) == 0 {
		return skip("no namespace may use them: --" + ecsinstance.NamespacesFlag)
	}
	if c.deployment != nil && !c.inside {
		return skip("those of its Pods are not known here: " + c.inPod())
	}
	cloud, err := c.cloud()
	if err != nil {
		return fail(err.Error(), "correct --ecs-endpoint, or the environment")
	}
	account, err := cloud.Open(nil, anyRegion).Account(ctx)
	if aliyun.ClassOf(err) == aliyun.NoCredentials {
		return skip("there is none, which only matters to ECSInstances without spec.credentialsSecretRef")
	}
	return verdictOf(account, err)
}

// verdictOf returns the Result of a request to the cloud.
func verdictOf(account string, err error) Result {
	if err == nil {
		return pass("account " + account)
	}
	remedy := "try again; else see to DNS, proxies and firewalls on the way to the cloud"
	switch aliyun.ClassOf(err) {
	case aliyun.Throttled:
		return warn(err.Error(), "others use up the account's rate limit: see who")
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
	return fail(err.Error(), remedy)
}

func (c *checker) checkInstances(ctx context.Context) Result {
	if !c.runs(ecsinstance.Name) {
		return skip(notRun)
	}
	keys := map[cloudKey]bool{}
	n, cut := 0, false
	var refused *Result
	for _, ns := range c.options.Namespaces {
		list, err := c.clients.Glassback.AlibabacloudV1alpha1().ECSInstances(ns).List(ctx, metav1.ListOptions{Limit: listLimit})
		if err != nil {
			return unanswered(err)
		}
		for i := range list.Items {
			if why, remedy := c.options.ECSOwnCredentials.Refusal(&list.Items[i]); why != "" {
				refused = ptr.To(fail(fmt.Sprintf("%s/%s: %s", list.Items[i].Namespace, list.Items[i].Name, why), remedy))
				continue
			}
			keys[keyOf(&list.Items[i])] = true
		}
		n += len(list.Items)
		cut = cut || list.Continue != ""
	}
	c.keys = slices.SortedFunc(maps.Keys(keys), func(a, b cloudKey) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.secret, b.secret), strings.Compare(a.region, b.region))
	})
	found := fmt.Sprintf("%s, and %s, each in one region", count(n, "ECSInstance"), count(len(c.keys), "access key"))
	if cut || len(c.keys) > maxKeys {
		c.keys = c.keys[:min(len(c.keys), maxKeys)]
		found += fmt.Sprintf("; there are more, and %d are looked at", len(c.keys))
	}
	if refused != nil {
		return *refused
	}
	return pass(found)
}

func keyOf(ecs *ecsv1alpha1.ECSInstance) cloudKey {
	if ref := ecs.Spec.CredentialsSecretRef; ref != nil {
		return cloudKey{ecs.Namespace, ref.Name, ecs.Spec.RegionID}
	}
	return cloudKey{region: ecs.Spec.RegionID}
}

// keyChecks returns one check for each access key and region.
func (c *checker) keyChecks() []Check {
	var checks []Check
	for _, key := range c.keys {
		id, title := "cloud/own/"+key.region, "the operator's own access key may ask for instances in "+key.region
		if key.secret != "" {
			id = fmt.Sprintf("cloud/%s/%s/%s", key.namespace, key.secret, key.region)
			title = fmt.Sprintf("the access key of Secret %s/%s may ask for instances in %s", key.namespace, key.secret, key.region)
		}
		checks = append(checks, Check{ID: id, Title: title, Run: func(ctx context.Context) Result { return c.checkKey(ctx, key) }})
	}
	return checks
}

func (c *checker) checkKey(ctx context.Context, key cloudKey) Result {
	cloud, err := c.cloud()
	if err != nil {
		return fail(err.Error(), "correct --ecs-endpoint, or the environment")
	}
	if key.secret == "" {
		if c.deployment != nil && !c.inside {
			return skip("those of its Pods are not known here: " + c.inPod())
		}
		account, err := cloud.Open(nil, key.region).Check(ctx)
		if aliyun.ClassOf(err) == aliyun.NoCredentials {
			return fail("there is none, and ECSInstances without spec.credentialsSecretRef",
				"give the operator ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET, "+
					"or a RAM role (RRSA), or set spec.credentialsSecretRef")
		}
		return verdictOf(account, err)
	}
	secret, err := c.clients.Kube.CoreV1().Secrets(key.namespace).Get(ctx, key.secret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fail("there is no such Secret", fmt.Sprintf("create it, with %s and %s, or correct spec.credentialsSecretRef",
			ecsv1alpha1.KeyAccessKeyID, ecsv1alpha1.KeyAccessKeySecret))
	}
	if err != nil {
		return unanswered(err)
	}
	accessKey := ecsinstance.AccessKey(secret)
	return verdictOf(cloud.Open(&accessKey, key.region).Check(ctx))
}
