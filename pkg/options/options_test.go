// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/kinds"
	"github.com/glassback/glassback/pkg/must"
)

func TestParseOptions(t *testing.T) {
	every := kinds.Names()
	for name, test := range map[string]struct {
		args        []string
		namespaces  []string
		controllers []string
		err         string
	}{
		"no flags: all, everywhere":     {nil, []string{""}, every, ""},
		"a namespace twice counts once": {[]string{"--namespace=b", "-n", "a", "--namespace=b"}, []string{"a", "b"}, every, ""},
		"two controllers": {
			[]string{"--controllers=mycronjob,application"}, []string{""}, []string{"application", "mycronjob"}, "",
		},
		"all controllers but one": {
			[]string{"--controllers=*,-mycronjob"}, []string{""},
			slices.DeleteFunc(kinds.Names(), func(name string) bool { return name == "mycronjob" }), "",
		},
		"no controller but one": {[]string{"--controllers=-mycronjob"}, nil, nil, "leaves no controller to run"},
		"a controller that there is none": {
			[]string{"--controllers=-x"}, nil, nil, `there is no "x"; there are ` + strings.Join(every, ", "),
		},
		"a namespace that cannot be": {[]string{"--namespace=A"}, nil, nil, `--namespace "A" is not the name of a namespace`},
		"too many workers":           {[]string{"--workers=1001"}, nil, nil, "--workers must be from 1 to 1000, not 1001"},
		"a queue that there is none": {
			[]string{"--informer-queue=FIFO"}, nil, nil, `invalid argument "FIFO" for "--informer-queue" flag: must be DeltaFIFO or RealFIFO`,
		},
		"a log format that there is none": {[]string{"--logging-format=xml"}, nil, nil, "--logging-format must be text or json"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := Parse(test.args)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want one with %q", err, test.err)
				}
				return
			}
			must.Succeed(t, err)
			if !slices.Equal(o.Namespaces, test.namespaces) || !slices.Equal(o.Controllers, test.controllers) {
				t.Errorf("namespaces %q and controllers %q, want %q and %q", o.Namespaces, o.Controllers, test.namespaces, test.controllers)
			}
		})
	}
}

func TestTheEndpointOfECS(t *testing.T) {
	const refusal = "--ecs-endpoint must be http://HOST:PORT or https://HOST:PORT, not "
	for name, test := range map[string]struct {
		value string
		good  bool
	}{
		"of this machine":            {"http://127.0.0.1:8099", true},
		"none: Alibaba Cloud's own":  {"", true},
		"without a scheme":           {"127.0.0.1:8099", false},
		"with a path":                {"http://127.0.0.1:8099/ecs", false},
		"with a name and a password": {"http://test:test@127.0.0.1:8099", false},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := Parse([]string{"--ecs-endpoint", test.value})
			switch {
			case !test.good && (err == nil || err.Error() != refusal+strconv.Quote(test.value)):
				t.Errorf("error %v, want %s%q", err, refusal, test.value)
			case test.good && (err != nil || o.ECSEndpoint != test.value):
				t.Errorf("%+v, error %v", o, err)
			}
		})
	}
}

func TestTheImageOfBackups(t *testing.T) {
	for value, good := range map[string]bool{
		"": true, "glassback/glassback:v1": true, "registry.test:5000/a@sha256:00ff": true, "A": false, "a b": false, "a:": false,
	} {
		o, err := Parse([]string{"--backup-image=" + value})
		switch {
		case !good && (err == nil || !strings.HasPrefix(err.Error(), "--backup-image must be the name of an image")):
			t.Errorf("%q: error %v", value, err)
		case good && (err != nil || o.BackupImage != value):
			t.Errorf("%q: %+v, error %v", value, o, err)
		}
	}
}

// The error does not repeat the value, which may hold a password.
func TestTheEndpointOfACollector(t *testing.T) {
	for value, good := range map[string]bool{
		"": true, "http://127.0.0.1:4318": true, "https://collector.test": true, "http://[::1]:4318": true,
		"127.0.0.1:4318": false, "grpc://127.0.0.1:4317": false, "http://127.0.0.1:4318/v1/traces": false, "http://:4318": false,
		"https://me:secret@collector.test": false, "http://a?secret": false,
	} {
		o, err := Parse([]string{"--otlp-endpoint", value})
		switch {
		case !good && (err == nil || !strings.HasPrefix(err.Error(), "--otlp-endpoint must be http://HOST:PORT or https://HOST:PORT") ||
			strings.Contains(err.Error(), "secret")):
			t.Errorf("%q: error %v", value, err)
		case good && (err != nil || o.OTLPEndpoint != value):
			t.Errorf("%q: %+v, error %v", value, o, err)
		}
	}
}

func TestFlagsOfAnOperatorInACluster(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		err  string
	}{
		"as the manifests have them": {[]string{"--leader-elect", "--health-probe-bind-address=:8081", "--metrics-bind-address=:8443"}, ""},
		"a lease that is short": {
			[]string{"--leader-elect", "--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms"},
			"",
		},
		"a duration without election": {
			[]string{"--leader-elect-lease-duration=3s"}, "--leader-elect-lease-duration does nothing without --leader-elect",
		},
		"a retry that is none": {
			[]string{"--leader-elect", "--leader-elect-retry-period=0s"}, "--leader-elect-retry-period must be at least 100ms",
		},
		"a lease of half a second": {
			[]string{"--leader-elect", "--leader-elect-lease-duration=1500ms"}, "--leader-elect-lease-duration must be whole seconds, not 1.5s",
		},
		"a deadline as long as the lease": {
			[]string{"--leader-elect", "--leader-elect-renew-deadline=15s"}, "--leader-elect-lease-duration (15s) " +
				"must be longer than --leader-elect-renew-deadline (15s) and --leader-elect-retry-period (2s) together",
		},
		"a retry as long as the deadline": {
			[]string{"--leader-elect", "--leader-elect-lease-duration=60s", "--leader-elect-retry-period=9s"},
			"--leader-elect-retry-period must be at least 100ms, and less than 8.333s",
		},
		"a Lease that cannot be": {
			[]string{"--leader-elect", "--leader-elect-resource-name=A"}, `--leader-elect-resource-name "A" is not the name of a Lease`,
		},
		"a port alone": {[]string{"--metrics-bind-address=8443"}, `--metrics-bind-address must be HOST:PORT, :PORT, or 0 for none, not "8443"`},
		"metrics where the probes are": {
			[]string{"--health-probe-bind-address=:8081", "--metrics-bind-address=:8081"}, "must differ: both are :8081",
		},
		"metrics that are served nowhere": {[]string{"--metrics-secure=false"}, "--metrics-secure does nothing without --metrics-bind-address"},
		"metrics of objects nowhere":      {[]string{"--metrics-objects=1"}, "--metrics-objects does nothing without --metrics-bind-address"},
		"metrics of too many objects": {
			[]string{"--metrics-bind-address=:8443", "--metrics-objects=10001"}, "--metrics-objects must be from 0 to 10000, not 10001",
		},
		"the page, with breakpoints": {[]string{"--inspect-bind-address=127.0.0.1:8082", "--inspect-breakpoints"}, ""},
		"the page for all":           {[]string{"--inspect-bind-address=:8444"}, ""},
		"breakpoints for all": {
			[]string{"--inspect-bind-address=:8444", "--inspect-breakpoints"}, "it needs an --inspect-bind-address on loopback",
		},
		"the page where the metrics are": {
			[]string{"--metrics-bind-address=:8443", "--inspect-bind-address=:8443"},
			"--inspect-bind-address must differ from those of probes and metrics",
		},
		"no metrics, and no probes, by a 0": {[]string{"--metrics-bind-address=0", "--health-probe-bind-address=0"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(test.args)
			if (test.err == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, want one with %q", err, test.err)
			}
		})
	}
}

func TestWebhookFlags(t *testing.T) {
	const out = "--kubeconfig=x"
	for name, test := range map[string]struct {
		args    []string
		mode    WebhookMode
		address string
		err     string
	}{
		"in a cluster, self-managed":    {nil, WebhooksFromService, ":9443", ""},
		"out of a cluster, unreachable": {[]string{out}, WebhooksOff, "", ""},
		"switched off":                  {[]string{"--webhooks=false"}, WebhooksOff, "", ""},
		"switched off, with metrics": {
			[]string{"--webhooks=false", "--metrics-bind-address=:8443"}, WebhooksOnlyCertificate, "", "",
		},
		"files":                       {[]string{"--webhook-cert-path=/certs"}, WebhooksFromFiles, ":9443", ""},
		"a URL of this machine alone": {[]string{out, "--webhook-url=https://127.0.0.1:1234"}, WebhooksFromURL, "127.0.0.1:1234", ""},
		"a URL that others reach too": {[]string{out, "--webhook-url=https://laptop.example.com:1234"}, WebhooksFromURL, ":1234", ""},
		"a URL that a proxy leads here": {
			[]string{out, "--webhook-url=https://10.0.0.7:443", "--webhook-port=9443"}, WebhooksFromURL, ":9443", "",
		},
		"a URL that is not HTTPS": {
			[]string{out, "--webhook-url=http://127.0.0.1:1234"}, "", "", "--webhook-url must be https://HOST:PORT, not \"http://127.0.0.1:1234\"",
		},
		"a URL without a port": {[]string{out, "--webhook-url=https://127.0.0.1"}, "", "", "with a port from 1 to 65535"},
		"a URL and files": {
			[]string{out, "--webhook-url=https://127.0.0.1:1", "--webhook-cert-path=/certs"}, "", "", "leave out --webhook-cert-path",
		},
		"a directory that is empty": {[]string{"--webhook-cert-path="}, "", "", "--webhook-cert-path must not be empty"},
		"a port that cannot be":     {[]string{"--webhook-port=0"}, "", "", "--webhook-port must be from 1 to 65535, not 0"},
		"switched off with a URL": {
			[]string{"--webhooks=false", "--webhook-url=https://127.0.0.1:1"}, "", "", "--webhook-url has no effect with --webhooks=false",
		},
		"switched off with a port": {
			[]string{"--webhooks=false", "--webhook-port=1"}, "", "", "--webhook-port has no effect with --webhooks=false",
		},
		"switched off with files": {
			[]string{"--webhooks=false", "--webhook-cert-path=/x"}, "", "", "--webhook-cert-path has no effect with --webhooks=false",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := Parse(test.args)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "\n") {
					t.Fatalf("error %v, want one line with %q", err, test.err)
				}
				return
			}
			must.Succeed(t, err)
			if mode := o.WebhookMode(); mode != test.mode {
				t.Errorf("mode %s, want %s", mode, test.mode)
			}
			if address := o.WebhookAddress(); test.mode.Serves() && address != test.address {
				t.Errorf("listens at %s, want %s", address, test.address)
			}
		})
	}
}
