// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/glassback/glassback/pkg/must"
)

func TestCredentialsInTheURLOfTheServerAreHidden(t *testing.T) {
	for name, test := range map[string]struct{ config, want rest.Config }{
		"none":             {rest.Config{Host: "https://api:6443/a"}, rest.Config{Host: "https://api:6443/a"}},
		"an address alone": {rest.Config{Host: "api:6443"}, rest.Config{Host: "api:6443"}},
		"a user":           {rest.Config{Host: "https://me@api:6443"}, rest.Config{Host: "https://api:6443", Username: "me"}},
		"a password": {
			rest.Config{Host: "https://me:a%20b@api:6443/a"}, rest.Config{Host: "https://api:6443/a", Username: "me", Password: "a b"},
		},
		"beside a token": {rest.Config{Host: "https://me:b@api", BearerToken: "c"}, rest.Config{Host: "https://api", BearerToken: "c"}},
		"beside a token file": {
			rest.Config{Host: "https://me:b@api", BearerTokenFile: "c"}, rest.Config{Host: "https://api", BearerTokenFile: "c"},
		},
		"beside another user": {
			rest.Config{Host: "https://me:b@api", Username: "d", Password: "e"}, rest.Config{Host: "https://api", Username: "d", Password: "e"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.config
			hideCredentials(&got)
			if got.Host != test.want.Host || got.Username != test.want.Username || got.Password != test.want.Password ||
				got.BearerToken != test.want.BearerToken {
				t.Errorf("%q as %q with %q, want %q as %q with %q", got.Host, got.Username, got.Password, test.want.Host, test.want.Username,
					test.want.Password)
			}
		})
	}
}

func TestTheClusterThatIsMeant(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("HOME", t.TempDir())
	file := func(server string) string {
		name := filepath.Join(t.TempDir(), "config")
		text := `{"clusters":[{"name":"c","cluster":{"server":"` + server + `"}}],"users":[{"name":"u","user":{"username":"me","password":"p"}}],
			"contexts":[{"name":"x","context":{"cluster":"c","user":"u","namespace":"mine"}},
				{"name":"y","context":{"cluster":"c","user":"u","namespace":"yours"}}],"current-context":"x"}`
		must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	kubectl, named, none := file("https://kubectl"), file("https://named"), filepath.Join(t.TempDir(), "none")
	for name, test := range map[string]struct {
		flags                      Flags
		otherwise                  Default
		env                        string
		host, user, namespace, err string
	}{
		"the operator: its Pod's alone":         {Flags{}, Pod, kubectl, "", "", "", "this is not a Pod in a cluster"},
		"the operator: the one that is named":   {Flags{Kubeconfig: named}, Pod, kubectl, "https://named", "me", "mine", ""},
		"the operator: without kubectl's user":  {Flags{Master: "https://master"}, Pod, kubectl, "https://master", "", "default", ""},
		"check: kubectl's outside of a Pod":     {Flags{}, PodOrKubectl, kubectl, "https://kubectl", "me", "mine", ""},
		"check: without kubectl's user":         {Flags{Master: "https://master"}, PodOrKubectl, kubectl, "https://master", "", "default", ""},
		"why: kubectl's":                        {Flags{}, Kubectl, kubectl, "https://kubectl", "me", "mine", ""},
		"why: kubectl's user at another server": {Flags{Master: "https://master"}, Kubectl, kubectl, "https://master", "me", "mine", ""},
		"status: another context":               {Flags{Context: "y"}, Kubectl, kubectl, "https://kubectl", "me", "yours", ""},
		"check: another context of kubectl":     {Flags{Context: "y"}, PodOrKubectl, kubectl, "https://kubectl", "me", "yours", ""},
		"a context of a file":                   {Flags{Kubeconfig: named, Context: "y"}, Pod, kubectl, "https://named", "me", "yours", ""},
		"no such context":                       {Flags{Context: "z"}, Kubectl, kubectl, "", "", "", `context "z" does not exist`},
		"none":                                  {Flags{}, Kubectl, none, "", "", "", ErrNoCluster.Error()},
		"no such file":                          {Flags{Kubeconfig: none}, Kubectl, kubectl, "", "", "", "cannot read the kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", test.env)
			got, err := Load(test.flags, test.otherwise, "test")
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil || got.Host != test.host || got.Username != test.user || got.Namespace != test.namespace || got.InPod {
				t.Errorf("%+v, error %v", got, err)
			}
		})
	}
}

// TestAnErrorOfTheKubeconfigIsNamedOnce: clientcmd returns the same error for the configuration and for the namespace.
func TestAnErrorOfTheKubeconfigIsNamedOnce(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken")
	must.Succeed(t, os.WriteFile(broken, []byte("not a kubeconfig"), 0o600))
	for problem, flags := range map[string]Flags{
		"error loading config file":  {Kubeconfig: broken},
		`context "z" does not exist`: {Kubeconfig: os.DevNull, Context: "z"},
	} {
		if _, err := Load(flags, Pod, ""); err == nil || strings.Count(err.Error(), problem) != 1 {
			t.Errorf("error %v, want %q once", err, problem)
		}
	}
}

func TestTheOperatorAsksForNoCompression(t *testing.T) {
	for _, command := range []string{"", "check"} {
		config, err := Load(Flags{Master: "https://master"}, Pod, command)
		must.Succeed(t, err)
		if config.DisableCompression != (command == "") {
			t.Errorf("%q asks for compression: %t", command, !config.DisableCompression)
		}
	}
}

func TestAReadOnlyConnectionSendsNoWrite(t *testing.T) {
	var sent []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Method)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind": "ConfigMapList", "apiVersion": "v1", "items": []}`))
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL, QPS: -1}
	config.Wrap(ReadOnly)
	c, err := New(config)
	must.Succeed(t, err)
	ctx, maps := t.Context(), c.Kube.CoreV1().ConfigMaps("default")
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	dryRun := []string{metav1.DryRunAll}
	_, created := maps.Create(ctx, object, metav1.CreateOptions{})
	_, updated := maps.Update(ctx, object, metav1.UpdateOptions{})
	_, patched := maps.Patch(ctx, "a", types.MergePatchType, []byte("{}"), metav1.PatchOptions{DryRun: dryRun})
	for verb, err := range map[string]error{
		"create": created, "update": updated, "patch": patched, "delete": maps.Delete(ctx, "a", metav1.DeleteOptions{}),
		"deletecollection": maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
	} {
		if err == nil || !strings.Contains(err.Error(), "/configmaps") || !strings.Contains(err.Error(), "this client only reads") {
			t.Errorf("%s: error %v", verb, err)
		}
	}
	if len(sent) > 0 {
		t.Errorf("the API server got %q", sent)
	}
	if _, err := maps.List(ctx, metav1.ListOptions{}); err != nil || len(sent) != 1 || sent[0] != http.MethodGet {
		t.Errorf("a list: error %v, requests %q", err, sent)
	}
}

func TestServerTimeIsThatOfTheAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		header func(now time.Time) string
		err    error
		want   time.Duration // ahead of this machine
	}{
		"the same time":                     {func(now time.Time) string { return now.Format(http.TimeFormat) }, nil, 0},
		"a slow answer is no other time":    {func(now time.Time) string { return now.Add(-4 * time.Second).Format(http.TimeFormat) }, nil, 0},
		"no answer leaves what was learned": {nil, errors.New("connection refused"), 42 * time.Hour},
		"no date leaves what was learned":   {func(time.Time) string { return "" }, nil, 42 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // where no time passes meanwhile
				s := &ServerTime{}
				s.ahead.Store(int64(42 * time.Hour))
				answer := s.listen(roundTripper(func(*http.Request) (*http.Response, error) {
					if test.err != nil {
						return nil, test.err
					}
					return &http.Response{Header: http.Header{"Date": {test.header(time.Now().UTC())}}, Body: http.NoBody}, nil
				}))
				response, err := answer.RoundTrip(&http.Request{})
				if !errors.Is(err, test.err) || (response == nil) != (test.err != nil) {
					t.Errorf("got %v and %v, want the transport's own answer", response, err)
				}
				if response != nil {
					response.Body.Close()
				}
				if got := time.Until(s.Now()); got != test.want {
					t.Errorf("ahead by %s, want %s", got, test.want)
				}
			})
		})
	}
}
