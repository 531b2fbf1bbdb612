// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/metrics"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/pipeline"
	"github.com/glassback/glassback/pkg/why"
)

// bodies are what requests and responses of this test hold.
var bodies = must.Secrets{
	"data of a Secret":                "correct-horse-battery-staple-of-redis",
	"a token that was made":           "inspector-gets-this-for-an-hour",
	"a token that was shown":          "prometheus-shows-that-to-scrape",
	"the operator's own token":        "glassback-is-authorized-by-those",
	"data that the operator has sent": "own-private-key-of-the-webhooks-authority",
}

// logArgs, unlimited and atRunTime are variables of the environment of a process that is TestTheClientsThatLog. The last one has the
// verbosities that are asked for at run time, one after the other.
const (
	logArgs   = "GLASSBACK_TEST_LOG_ARGS"
	unlimited = "GLASSBACK_TEST_LOG_UNLIMITED"
	atRunTime = "GLASSBACK_TEST_LOG_AT_RUN_TIME"
)

// clientsLog runs a process whose clients send and receive all bodies, and returns what it has logged.
func clientsLog(t *testing.T, args string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheClientsThatLog$")
	cmd.Env = append(append(os.Environ(), logArgs+"="+args), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// expectNoBodies expects that a log has requests, and no bodies.
func expectNoBodies(t *testing.T, log string) {
	t.Helper()
	for _, found := range bodies.In(log) {
		t.Error(found)
	}
	if !strings.Contains(log, "/api/v1/namespaces/here/secrets/redis") || !strings.Contains(log, "<masked>") {
		t.Errorf("requests are not logged: %.5000s", log)
	}
}

// TestNoClientLogsABodyAfterAChangeOfTheVerbosity asks for every verbosity at run time.
func TestNoClientLogsABodyAfterAChangeOfTheVerbosity(t *testing.T) {
	expectNoBodies(t, clientsLog(t, "-v=0 --logging-format=json", atRunTime+"=8 10 1000 7 8"))
}

func TestNoClientLogsABody(t *testing.T) {
	for _, args := range []string{
		"-v=8", "-v=1000 --logging-format=json", "--vmodule=request=10,round_trippers=8,*=10", "-v=7", // The last one is not limited.
	} {
		t.Run(args, func(t *testing.T) {
			log := clientsLog(t, args)
			expectNoBodies(t, log)
			if told := strings.Contains(log, "The verbosity is limited"); told != (args != "-v=7") {
				t.Errorf("the log says that it is limited: %t", told)
			}
		})
	}
}

// Without the limit, the test before this one would find all of them but the operator's own token, which
// client-go masks itself. It uses 8, since client-go has a data race from 9 on.
func TestClientsLogBodiesWithoutTheLimit(t *testing.T) {
	if found := bodies.In(clientsLog(t, "-v=8", unlimited+"=1")); len(found) != len(bodies)-1 {
		t.Errorf("the log holds %q", found)
	}
}

// TestTheClientsThatLog is the process of clientsLog: it configures the log, as the operator does, and uses each client.
func TestTheClientsThatLog(t *testing.T) {
	args, is := os.LookupEnv(logArgs)
	if !is {
		return // clientsLog runs it, in a process of its own.
	}
	o, err := options.Parse(strings.Fields(args))
	if err == nil && os.Getenv(unlimited) != "" {
		err = logsapi.ValidateAndApply(o.Logging, nil)
	} else if err == nil {
		err = setUpLogging(t.Context(), o.Logging)
	}
	must.Succeed(t, err)
	defer klog.Flush()
	for level := range strings.FieldsSeq(os.Getenv(atRunTime)) {
		putVerbosity(t, level)
	}
	server := httptest.NewServer(http.HandlerFunc(answerWithBodies))
	defer server.CloseClientConnections()
	o.Cluster.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfig := `{"apiVersion":"v1","kind":"Config","current-context":"a","contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],
		"clusters":[{"name":"a","cluster":{"server":"` + server.URL + `"}}],"users":[{"name":"a","user":{}}]}`
	must.Succeed(t, os.WriteFile(o.Cluster.Kubeconfig, []byte(kubeconfig), 0o600))
	config, err := clients.Load(o.Cluster, clients.Pod, "")
	must.Succeed(t, err)
	config.BearerToken = bodies["the operator's own token"] // Of a kubeconfig, it is sent by HTTPS alone.
	c, err := clients.New(config.Config)
	must.Succeed(t, err)
	useClients(t, c)
	watchSecrets(t, c)
	command.Execute(t.Context(), why.New(), []string{"mcj/sample", "--kubeconfig", o.Cluster.Kubeconfig}, io.Discard, io.Discard)
}

// useClients reads and writes a Secret with each of the clients, and has a token reviewed.
func useClients(t *testing.T, c *clients.Clients) {
	secrets := c.Kube.CoreV1().Secrets("here")
	sent := map[string][]byte{"tls.key": []byte(bodies["data that the operator has sent"])}
	secret, err := secrets.Get(t.Context(), "redis", metav1.GetOptions{})
	_, err1 := secrets.List(t.Context(), metav1.ListOptions{})
	_, err2 := secrets.Create(t.Context(), &corev1.Secret{Data: sent}, metav1.CreateOptions{})
	_, err3 := secrets.Update(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "ca"}, Data: sent}, metav1.UpdateOptions{})
	_, err4 := secrets.Apply(t.Context(), applycorev1.Secret("ca", "here").WithData(sent), metav1.ApplyOptions{FieldManager: "test"})
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: bodies["a token that was shown"]}}
	_, err5 := c.Kube.AuthenticationV1().TokenReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err := errors.Join(err, err1, err2, err3, err4, err5); err != nil || string(secret.Data["password"]) != bodies["data of a Secret"] {
		t.Fatalf("%v, error %v", secret.Data, err)
	}
	body, err := json.Marshal(&corev1.Secret{Data: sent})
	must.Succeed(t, err)
	for name, client := range map[string]rest.Interface{
		"built-in": c.Kube.CoreV1().RESTClient(), "discovery": c.Kube.Discovery().RESTClient(),
		"definitions": c.Apiextensions.ApiextensionsV1().RESTClient(), "own": c.Glassback.BatchV1().RESTClient(),
	} {
		const path = "/api/v1/namespaces/here/secrets/redis"
		_, err1 := client.Get().AbsPath(path).Do(t.Context()).Raw()
		_, err2 := client.Post().AbsPath(path).Body(body).DoRaw(t.Context())
		if err := errors.Join(err1, err2); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// watchSecrets fills the cache of a Secret, by a LIST since the server does not stream lists.
func watchSecrets(t *testing.T, c *clients.Clients) {
	informer := newInformers(c, "here", pipeline.DeltaFIFO, &observers{metrics: metrics.New("", "", 0)}).Secret("redis").Informer()
	done := make(chan struct{})
	go func() {
		defer close(done)
		informer.RunWithContext(t.Context())
	}()
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the cache does not sync")
	}
	t.Cleanup(func() { <-done })
}

// answerWithBodies is the API server.
func answerWithBodies(w http.ResponseWriter, r *http.Request) {
	secret := corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "redis", ResourceVersion: "1"},
		Data:       map[string][]byte{"password": []byte(bodies["data of a Secret"])},
	}
	var object runtime.Object = &secret
	code := http.StatusOK
	query, last := r.URL.Query(), r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	switch {
	case query.Get("watch") != "" && query.Get("sendInitialEvents") == "":
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	case query.Get("watch") != "":
		status := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Secret").GroupKind(), "", nil).Status()
		object, code = &status, http.StatusUnprocessableEntity
	case last == "token":
		object = &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: bodies["a token that was made"]}}
	case last == "tokenreviews":
		object = &authenticationv1.TokenReview{
			Status: authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "scraper"}},
		}
	case last == "glassback-inspect":
		object = &corev1.Service{
			Spec: corev1.ServiceSpec{Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{TargetPort: intstr.FromInt32(8444)}}},
		}
	case last == "pods":
		ready := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		object = &corev1.PodList{
			Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "glassback-system", Name: "manager"}, Status: ready}},
		}
	case last == "glassback":
		object = &coordinationv1.Lease{}
	case last == "secrets" && r.Method == http.MethodGet:
		object = &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Secret{secret}}
	}
	kinds, _, err := clientgoscheme.Scheme.ObjectKinds(object)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	object.GetObjectKind().SetGroupVersionKind(kinds[0])
	if strings.Contains(r.Header.Get("Accept"), runtime.ContentTypeProtobuf) {
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		w.WriteHeader(code)
		_ = protobuf.NewSerializer(clientgoscheme.Scheme, clientgoscheme.Scheme).Encode(object, w)
		return
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}
