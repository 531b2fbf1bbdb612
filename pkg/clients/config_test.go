// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
