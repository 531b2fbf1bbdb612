// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/inspect"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/redisnode"
)

// The credentials of TestNodeKeepsSecrets.
var nodeSecrets = must.Secrets{
	"a password of Redis":             "e2e-correct-horse-battery",
	"a wrong password of Redis":       "e2e-wrong-horse-of-another",
	"a password of a user of Redis":   "e2e-horse-of-a-user",
	"the operator's access key ID":    "LTAIe2eOfTheOperator",
	"the operator's access secret":    "e2e-access-secret-of-the-operator",
	"an object's access key ID":       "LTAIe2eOfAnECSInstance",
	"an object's access secret":       "e2e-access-secret-of-an-object",
	"a wrong access secret":           "e2e-access-secret-that-is-wrong",
	"a security token":                "e2e-CAIS-security-token-of-STS",
	"user data":                       "#!/bin/sh\necho e2e-hunter2-in-user-data\n",
	"a token that is no token of any": "e2e-bearer-token-that-is-invalid",
}

// TestNodeKeepsSecrets runs all controllers in a Pod, with webhooks, metrics and page, and with the highest verbosity. The API server does
// not stream lists. The test uses and replaces credentials of every kind, valid and invalid ones. The operator's log, events, objects,
// metrics, and the API of the page must not contain any of them.
func TestNodeKeepsSecrets(t *testing.T) {
	heavy.parallel(t)
	n := onNode(t)
	in := n.enter(t)
	s := nodeSecrets
	ecs := n.simulateInside(t, "--account", s["the operator's access key ID"]+":"+s["the operator's access secret"],
		"--account", s["an object's access key ID"]+":"+s["an object's access secret"]).url
	n.mayReview(t, "glassback")
	n.installShipped(t, 1, []corev1.EnvVar{
		{Name: "ALIBABA_CLOUD_ACCESS_KEY_ID", Value: s["the operator's access key ID"]},
		{Name: "ALIBABA_CLOUD_ACCESS_KEY_SECRET", Value: s["the operator's access secret"]},
	}, "-v=10", "--ecs-endpoint="+ecs, "--ecs-own-credentials-namespaces="+n.ns,
		"--metrics-bind-address=:8443", "--inspect-bind-address=:8444")
	secrets := maps.Clone(s)
	n.keysOf(t, "at first", secrets)
	log := n.followOperator(t)

	n.samples(t)
	n.cloudSecrets(t)
	n.setPassword(t, "protected", s["a password of Redis"])
	c := n.redis(t, seedSample, func(rdc *redisv1.RedisCluster) {
		rdc.Name, rdc.Spec.AuthSecretRef = "protected", &redisv1.SecretKeyReference{Name: "protected"}
	})
	c.password = s["a password of Redis"]
	c.ready(t, "formation")
	n.setPassword(t, "app", s["a password of a user of Redis"])
	n.redis(t, seedSample, small, func(rdc *redisv1.RedisCluster) {
		rdc.Name = "users"
		rdc.Spec.Users = []redisv1.User{
			{Name: "default", Rules: "off"}, {Name: "app", Rules: "~* +@all", PasswordSecretRef: &redisv1.SecretKeyReference{Name: "app"}},
		}
	})
	n.account(t, "users", secrets)
	for name, reason := range map[string]string{
		"right": "Running", "own": "Running", "wrong": "CredentialsRefused", "temporary": "CredentialsRefused",
	} {
		condition := glassback.ConditionReady
		if reason != "Running" {
			condition = glassback.ConditionDegraded
		}
		n.mustKubectl(t, "wait", "--namespace", n.ns, "ecs/"+name, "--timeout="+patience.String(),
			fmt.Sprintf("--for=jsonpath={.status.conditions[?(@.type==%q)].reason}=%s", condition, reason))
	}
	n.spoilsCA(t)
	n.keysOf(t, "then", secrets)
	texts := map[string]string{}
	n.looks(t, in, secrets, texts)
	// While no node reports an error, only a new operator reads the Secret.
	n.setPassword(t, c.name, s["a wrong password of Redis"])
	n.must(t, n.kube.CoreV1().Pods(n.ns).Delete(t.Context(), n.operatorPod(t).Name, metav1.DeleteOptions{}))
	c.wrong(t, "PasswordRefused", "authSecretRef")
	next := n.followOperator(t)
	n.setPassword(t, c.name, c.password)
	c.ready(t, "the password is right again")
	n.looks(t, in, secrets, texts)
	texts["the log"], texts["the log of the next operator"] = log.String(), next.String()
	n.reads(t, texts)

	for where, text := range texts {
		if len(text) < 100 {
			t.Errorf("%s: there is too little text to check: %q", where, text)
		}
		for _, found := range secrets.In(text) {
			t.Errorf("%s contains %s", where, found)
		}
	}
	// The log has the requests that transferred each Secret.
	for _, request := range []string{
		"/secrets/protected", "/secrets/users-glassback", "/secrets/app", "/secrets/right", "/secrets/script",
		"/secrets?fieldSelector=metadata.name%3Dglassback-webhook-ca", "/secrets/glassback-webhook-ca", "The verbosity is limited",
	} {
		if !strings.Contains(texts["the log"], request) {
			t.Errorf("the log has no %s", request)
		}
	}
}

// mayReview allows an account to review tokens and accesses. It also creates the ServiceAccount scraper with access to metrics and page.
func (n *node) mayReview(t *testing.T, account string) {
	t.Helper()
	name := n.ns + "-scraper"
	for _, args := range [][]string{
		{"create", "serviceaccount", "scraper", "--namespace", n.ns},
		{"create", "clusterrole", name, "--verb=get", "--non-resource-url=/metrics", "--non-resource-url=/inspect/*"},
		{"create", "clusterrolebinding", name, "--clusterrole=" + name, "--serviceaccount=" + n.ns + ":scraper"},
		{"create", "clusterrolebinding", name + "-asks", "--clusterrole=system:auth-delegator", "--serviceaccount=" + n.ns + ":" + account},
	} {
		n.mustKubectl(t, args...)
	}
}

// account waits until a RedisCluster with users is Ready, and adds the password of the operator's user.
func (n *node) account(t *testing.T, name string, secrets must.Secrets) {
	t.Helper()
	n.mustKubectl(t, "wait", "--namespace", n.ns, "rdc/"+name, "--for=condition=Ready", "--timeout="+patience.String())
	secret, err := n.kube.CoreV1().Secrets(n.ns).Get(t.Context(), name+"-glassback", metav1.GetOptions{})
	n.must(t, err)
	password := string(secret.Data["password"])
	secrets["the password of the operator's user"] = password
	secrets["its hash"] = redisnode.HashPassword(password)
	secrets["the hash of a user's password"] = redisnode.HashPassword(secrets["a password of a user of Redis"])
}

// keysOf adds the private keys in the Secret of the webhooks' CA to the secrets.
func (n *node) keysOf(t *testing.T, when string, secrets must.Secrets) {
	t.Helper()
	found := 0
	for name, value := range n.trusted(t).Data {
		if strings.Contains(string(value), "PRIVATE KEY") {
			secrets["the key "+name+" of the CA "+when] = string(value)
			found++
		}
	}
	if found == 0 {
		t.Error("the Secret of the CA has no key")
	}
}

// spoilsCA damages the Secret of the CA so that the operator must replace it, and waits until it has.
func (n *node) spoilsCA(t *testing.T) {
	t.Helper()
	before := n.trusted(t)
	spoilt := before.DeepCopy()
	spoilt.Immutable = ptr.To(true)
	for key := range spoilt.Data {
		spoilt.Data[key] = []byte("garbage")
	}
	_, err := n.kube.CoreV1().Secrets(n.ns).Update(t.Context(), spoilt, metav1.UpdateOptions{})
	n.must(t, err)
	await(t, func(ctx context.Context) error {
		now, err := n.kube.CoreV1().Secrets(n.ns).Get(ctx, before.Name, metav1.GetOptions{})
		if err == nil && now.UID == before.UID {
			err = errors.New("the Secret is not replaced")
		}
		return err
	})
}

// samples creates an object of each kind that needs no credentials.
func (n *node) samples(t *testing.T) {
	t.Helper()
	await(t, func(context.Context) error { // The API server uses new webhooks only after a moment.
		for _, kind := range []string{"apiexamplea", "application", "mycronjob"} {
			if out, err := n.kubectl(t, "apply", "--namespace", n.ns, "-f", examplesDir+kind+".yaml"); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
		}
		return nil
	})
	n.patch(t, n.ns, "mycronjob-sample", `{"spec": {"suspend": true}}`) // Its Pods keep a quarter of a processor busy.
}

// cloudSecrets creates Secrets with access keys, and ECSInstances that use them. One ECSInstance uses the operator's own key. The others
// use a correct key, a wrong key, and a key with a security token that no account has.
func (n *node) cloudSecrets(t *testing.T) {
	t.Helper()
	s := nodeSecrets
	id, secret := s["an object's access key ID"], s["an object's access secret"]
	for name, data := range map[string]map[string]string{
		"script":    {"userData": s["user data"]},
		"right":     {v1alpha1.KeyAccessKeyID: id, v1alpha1.KeyAccessKeySecret: secret},
		"wrong":     {v1alpha1.KeyAccessKeyID: id, v1alpha1.KeyAccessKeySecret: s["a wrong access secret"]},
		"temporary": {v1alpha1.KeyAccessKeyID: id, v1alpha1.KeyAccessKeySecret: secret, v1alpha1.KeySecurityToken: s["a security token"]},
	} {
		n.setSecret(t, name, data)
	}
	for _, name := range []string{"own", "right", "wrong", "temporary"} {
		ecs := artifact[v1alpha1.ECSInstance](t, "examples/ecsinstance.yaml")
		ecs.Name, ecs.Spec.UserDataSecretRef = name, &v1alpha1.SecretKeyReference{Name: "script"}
		if name != "own" {
			ecs.Spec.CredentialsSecretRef = &v1alpha1.SecretReference{Name: name}
		}
		_, err := n.glassback.AlibabacloudV1alpha1().ECSInstances(n.ns).Create(t.Context(), ecs, metav1.CreateOptions{})
		n.must(t, err)
	}
}

// operatorPod returns the Pod of the operator that is not being deleted.
func (n *node) operatorPod(t *testing.T) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	await(t, func(ctx context.Context) error {
		pods, err := n.kube.CoreV1().Pods(n.ns).List(ctx, metav1.ListOptions{LabelSelector: "app=glassback"})
		if err != nil {
			return err
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; pod.DeletionTimestamp == nil && pod.Status.PodIP != "" {
				found = pod
				return nil
			}
		}
		return fmt.Errorf("none of %d Pods of the operator runs", len(pods.Items))
	})
	return found
}

// followOperator keeps the whole log of the operator's Pod until the test ends. The kubelet keeps only the end.
func (n *node) followOperator(t *testing.T) *logBuffer {
	t.Helper()
	stream, err := n.kube.CoreV1().Pods(n.ns).GetLogs(n.operatorPod(t).Name, &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	n.must(t, err)
	log, done := &logBuffer{}, make(chan struct{})
	go func() {
		defer close(done)
		defer stream.Close()
		_, _ = io.Copy(log, stream) // The stream ends with the Pod or with the test.
	}()
	t.Cleanup(func() { <-done })
	return log
}

// looks reads the metrics and the whole API of the page with the scraper's token. It also tries a wrong token, which must get nothing.
func (n *node) looks(t *testing.T, in *network, secrets must.Secrets, texts map[string]string) {
	t.Helper()
	token := (&installation{world: n.world}).token(t, n.ns, "scraper")
	secrets["the scraper's token "+fmt.Sprint(len(texts))] = token
	ip := n.operatorPod(t).Status.PodIP
	client := &http.Client{Timeout: patience, Transport: &http.Transport{
		DialContext: in.dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // The certificate has the name of a Service.
	}}
	defer client.CloseIdleConnections()
	get := func(token, port, path string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+net.JoinHostPort(ip, port)+path, nil)
		n.must(t, err)
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := client.Do(request)
		n.must(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		n.must(t, err)
		return response.StatusCode, string(body)
	}
	wrong := nodeSecrets["a token that is no token of any"]
	for port, path := range map[string]string{"8443": "/metrics", "8444": "/inspect/api/overview"} {
		if code, body := get(wrong, port, path); code != http.StatusUnauthorized {
			t.Errorf("an invalid token gets the code %d: %s", code, body)
		}
	}
	_, texts["/metrics"] = get(token, "8443", "/metrics")
	_, overview := get(token, "8444", "/inspect/api/overview")
	texts["the page"] += overview
	var all inspect.Overview
	n.must(t, json.Unmarshal([]byte(overview), &all))
	for _, informer := range all.Informers {
		for _, what := range []string{"queue", "index"} {
			_, body := get(token, "8444", "/inspect/api/"+what+"?informer="+url.QueryEscape(informer.ID))
			texts["the page"] += body
		}
	}
	for _, object := range []string{
		"aea/apiexamplea-sample", "app/application-sample", "mcj/mycronjob-sample", "rdc/protected", "ecs/own", "ecs/right", "ecs/wrong",
		"ecs/temporary", "secret/glassback-webhook-ca",
	} {
		kind, name, _ := strings.Cut(object, "/")
		code, body := get(token, "8444", "/inspect/api/life?"+url.Values{"kind": {kind}, "namespace": {n.ns}, "name": {name}}.Encode())
		if code != http.StatusOK {
			t.Errorf("the life of %s: %d %s", object, code, body)
		}
		texts["the trace of "+object] += body
	}
}

// reads adds the objects that the operator has written to the texts: events, its own objects, and their children.
func (n *node) reads(t *testing.T, texts map[string]string) {
	t.Helper()
	for _, kinds := range []string{
		"events", "aea,app,mcj,rdc,ecs", "configmaps,services,poddisruptionbudgets,persistentvolumeclaims,jobs,ingresses,networkpolicies",
		// The operator's own Pods and Deployment are left out: they contain its access key.
		"pods --selector=app!=glassback", "deployments --field-selector=metadata.name!=glassback",
		"mutatingwebhookconfigurations,validatingwebhookconfigurations",
	} {
		texts[kinds] = n.mustKubectl(t, append(strings.Fields("get "+kinds), "--namespace", n.ns, "-o", "json")...)
	}
}
