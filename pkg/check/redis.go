// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/controller/rediscluster"
	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"
	"github.com/glassback/glassback/pkg/redisnode"
)

func (c *checker) checkRedisClusters(ctx context.Context) Result {
	if !c.runs(rediscluster.Name) {
		return skip(notRun)
	}
	n := 0
	for _, ns := range c.options.Namespaces {
		list, err := c.clients.Glassback.RedisV1().RedisClusters(ns).List(ctx, metav1.ListOptions{Limit: listLimit})
		if err != nil {
			return unanswered(err)
		}
		n += len(list.Items)
		for i := range list.Items {
			if _, _, ok := list.Items[i].Spec.Ports(); ok && len(c.redis) < maxRedis {
				c.redis = append(c.redis, &list.Items[i])
			}
		}
	}
	found := count(n, "RedisCluster")
	if len(c.redis) < n {
		found += fmt.Sprintf(", of which %d are looked at", len(c.redis))
	}
	return pass(found)
}

// nodeChecks returns one check for each RedisCluster.
func (c *checker) nodeChecks() []Check {
	var checks []Check
	for _, rdc := range c.redis {
		name := rdc.Namespace + "/" + rdc.Name
		checks = append(checks, Check{
			ID: "redis/" + name, Title: "the nodes of RedisCluster " + name + " answer",
			Run: func(ctx context.Context) Result { return c.checkNodes(ctx, rdc) },
		})
		if rdc.Spec.Backup != nil {
			checks = append(checks, Check{
				ID: "redis/" + name + "/backups", Title: "RedisCluster " + name + " has a good backup",
				Run: func(context.Context) Result { return checkBackups(rdc) },
			})
		}
	}
	return checks
}

// checkBackups reports what the condition BackedUp says.
func checkBackups(rdc *redisv1.RedisCluster) Result {
	condition := meta.FindStatusCondition(rdc.Status.Conditions, redisv1.ConditionBackedUp)
	switch {
	case condition == nil:
		return skip("the operator has not reported any yet")
	case condition.Status == metav1.ConditionTrue:
		return pass(condition.Message)
	case condition.Reason == rediscluster.ReasonNoBackupYet:
		return skip(condition.Message)
	}
	return fail(condition.Message, "see docs/runbook.md, GlassbackRedisBackupFailed")
}

func (c *checker) checkNodes(ctx context.Context, rdc *redisv1.RedisCluster) Result {
	ofCluster := metav1.ListOptions{LabelSelector: redisv1.LabelRedisCluster + "=" + rdc.Name}
	pods, err := c.clients.Kube.CoreV1().Pods(rdc.Namespace).List(ctx, ofCluster)
	if err != nil {
		return unanswered(err)
	}
	secret, certificates, err := c.tlsSecret(ctx, rdc)
	switch {
	case err != nil:
		return unanswered(err)
	case certificates != "":
		return fail(certificates, "correct the Secret, or the Certificate of cert-manager that writes it; see spec.tls")
	}
	var answers []nodeAnswer
	outside := redisnode.Login{}
	passwords := map[redisv1.SecretKeyReference]string{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.PodIP == "" || pod.DeletionTimestamp != nil {
			continue
		}
		user, ref := manifest.LoginTo(pod)
		login := redisnode.Login{User: user}
		port, trust := rediscluster.ConnectionTo(rdc, pod, secret)
		login.TLS = trust
		if status := rdc.Status.TLS; status != nil && status.Nodes == redisv1.ProtocolTLS { // The addresses have the port for TLS.
			outside.TLS = trust
		}
		if ref != nil && c.inside { // Outside of the cluster, the address of a Pod may belong to another machine.
			if _, known := passwords[*ref]; !known {
				password, result := c.password(ctx, rdc, *ref)
				if result != nil {
					return *result
				}
				passwords[*ref] = password
			}
			login.Password = passwords[*ref]
		}
		answers = append(answers, nodeAnswer{pod: pod.Name, address: pod.Status.PodIP, port: port, login: login})
	}
	// The context is not ctx: ParallelizeUntil would stop when ctx ends, and leave answers without a view and without an error.
	workqueue.ParallelizeUntil(context.Background(), maxNodes, len(answers), func(i int) {
		node := redisnode.Dial(answers[i].address, answers[i].port, answers[i].login)
		defer node.Close()
		answers[i].view, answers[i].err = node.View(ctx)
	})
	return reached(rdc, answered(answers, len(pods.Items), c.inside), func(host string, port int) error {
		login := outside
		if login.TLS.Name != "" && net.ParseIP(host) == nil {
			login.TLS.Name, login.TLS.Pin = host, "" // Clients that connect by a hostname do the same.
		}
		node := redisnode.Dial(host, port, login)
		defer node.Close()
		_, err := node.View(ctx)
		return err
	})
}

// reached adds to the result which addresses outside of the cluster answer, if a RedisCluster has such addresses. It sends no password: a
// node that rejects the request answers, too.
func reached(rdc *redisv1.RedisCluster, result Result, ask func(host string, port int) error) Result {
	if rdc.Spec.External() == nil || result.State == Failed {
		return result
	}
	nodes := rdc.Status.Nodes
	errs := make([]error, len(nodes))
	workqueue.ParallelizeUntil(context.Background(), maxNodes, len(nodes), func(i int) {
		host, port, _ := net.SplitHostPort(nodes[i].Address)
		number, err := strconv.Atoi(port)
		if err != nil {
			errs[i] = errors.New("the node has no address outside of the cluster")
			return
		}
		if err := ask(host, number); !errors.Is(err, redisnode.ErrPassword) {
			errs[i] = err
		}
	})
	found := strings.TrimPrefix(result.Reason+"; ", "; ")
	for i, err := range errs {
		if err != nil {
			return warn(fmt.Sprintf("%sfrom outside, not all answer: %s: %v", found, nodes[i].Pod, err),
				"see the conditions of the RedisCluster, its Services, and the firewall between here and their addresses")
		}
	}
	if result.State == OK || result.State == Skipped {
		return pass(fmt.Sprintf("%sfrom outside, %s", found, count(len(nodes), "node")+" answer"))
	}
	return result
}

// tlsSecret returns the Secret of spec.tls, and why the nodes cannot use it; nil and "" without spec.tls.
func (c *checker) tlsSecret(ctx context.Context, rdc *redisv1.RedisCluster) (*corev1.Secret, string, error) {
	if rdc.Spec.TLS == nil {
		return nil, "", nil
	}
	secret, err := c.clients.Kube.CoreV1().Secrets(rdc.Namespace).Get(ctx, rdc.Spec.TLS.SecretRef.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		secret, err = nil, nil
	}
	if err != nil {
		return nil, "", err
	}
	return secret, rediscluster.CheckCertificate(rdc, secret, time.Now()), nil
}

// password returns the password in a Secret of a RedisCluster, or the result if there is none.
func (c *checker) password(ctx context.Context, rdc *redisv1.RedisCluster, ref redisv1.SecretKeyReference) (string, *Result) {
	secret, err := c.clients.Kube.CoreV1().Secrets(rdc.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
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
		result := fail(fmt.Sprintf("the Secret %s has no password in %s", ref.Name, ref.Key),
			"set it, or correct spec.authSecretRef; with spec.users, see the conditions of the RedisCluster")
		return "", &result
	}
	return password, nil
}

// nodeAnswer is the answer of a node, or its error.
type nodeAnswer struct {
	pod, address string
	port         int
	login        redisnode.Login
	view         *redisnode.View
	err          error
}

// answered returns the result for the answers of a RedisCluster's nodes. pods is the number of its Pods. inside says that this process is
// in the cluster.
func answered(answers []nodeAnswer, pods int, inside bool) Result {
	if len(answers) == 0 {
		return skip(fmt.Sprintf("none of its %s has an address", count(pods, "Pod")))
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
		return skip("the addresses of Pods cannot be reached from here, outside of the cluster")
	case locked > 0 && inside:
		return fail(fmt.Sprintf("%d of %d refuse the password", locked, pods),
			"correct the Secret of spec.authSecretRef; with spec.users, see the conditions of the RedisCluster")
	case len(silent) == len(answers):
		return fail(state+": "+silent[0].pod+": "+silent[0].err.Error(),
			"see that its Pods run, and that no NetworkPolicy keeps the operator from them")
	case len(silent) > 0:
		return warn(state+": "+silent[0].pod+": "+silent[0].err.Error(),
			"see that Pod; the conditions of the RedisCluster say what the operator does about it")
	case unwell > 0:
		return warn(fmt.Sprintf("%s, and %d take no requests (cluster_state)", state, unwell), "see the conditions of the RedisCluster")
	case locked > 0:
		return pass(state + "; their password is not sent from outside of the cluster")
	}
	return pass(state)
}
