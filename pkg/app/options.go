/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
)

// options are what the command line says.
type options struct {
	kubeconfig  string
	master      string
	namespaces  []string
	controllers []string
	workers     int
	installCRDs bool
	version     bool
	logging     *logsapi.LoggingConfiguration

	ecsEndpoint string

	lease leaseOptions

	probeAddress   string // empty for none
	metricsAddress string // empty for none
	metricsSecure  bool

	inspectAddress     string // empty for none
	inspectBreakpoints bool

	webhooks        bool
	webhookPort     int
	webhookURL      string
	webhookCertPath string // empty if the default is to be used where it is there
}

// defaultCertPath is where kubebuilder's manifests mount a certificate.
const defaultCertPath = "/tmp/k8s-webhook-server/serving-certs"

const usage = `Glassback is a Kubernetes operator with its movement in plain sight.

Usage:
  glassback [flags]            run the operator
  glassback check [flags]      check the cluster and the installation
  glassback why KIND/NAME      ask a running operator why it has synced an object
  glassback trace [KIND]       show what passes through a running operator

Each has --help. The rest is about the operator.

With neither --kubeconfig nor --master it uses the service account of the Pod
that it runs in. To try it on a cluster of yours:

  glassback --install-crds --kubeconfig ~/.kube/config

Flags:
`

// parseOptions reads the command line. It returns pflag.ErrHelp once it has
// printed the usage that was asked for.
func parseOptions(args []string, stdout io.Writer) (*options, error) {
	o := &options{logging: logsapi.NewLoggingConfiguration()}
	flags := pflag.NewFlagSet("glassback", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "file that says how to reach the cluster")
	flags.StringVar(&o.master, "master", "", "URL of the API server; overrides the one in the kubeconfig")
	flags.StringSliceVarP(&o.namespaces, "namespace", "n", nil, "namespace to work in; may be repeated (default: all)")
	flags.StringSliceVar(&o.controllers, "controllers", []string{"*"},
		"controllers to run: * for all, NAME for that one, -NAME for not that one; there are "+strings.Join(controllerNames(), ", "))
	flags.IntVar(&o.workers, "workers", 16, "how many objects each controller syncs at the same time, 1 to 1000")
	flags.BoolVar(&o.installCRDs, "install-crds", false, "apply the CustomResourceDefinitions in this binary before starting")
	flags.StringVar(&o.ecsEndpoint, "ecs-endpoint", "",
		"http://HOST:PORT or https://HOST:PORT of an ECS API, such as the simulator of make ecssim (default: Alibaba Cloud's own)")
	flags.BoolVar(&o.lease.elect, "leader-elect", false, "run controllers only while holding a Lease, so that several operators can stand by for each other")
	flags.DurationVar(&o.lease.duration, "leader-elect-lease-duration", 15*time.Second, "how long a leader that does not renew its Lease is waited for")
	flags.DurationVar(&o.lease.deadline, "leader-elect-renew-deadline", 10*time.Second, "how long the leader tries to renew its Lease before it ends")
	flags.DurationVar(&o.lease.retry, "leader-elect-retry-period", 2*time.Second, "how often the leader renews its Lease")
	flags.StringVar(&o.lease.name, "leader-elect-resource-name", "glassback", "name of the Lease")
	flags.StringVar(&o.lease.namespace, "leader-elect-resource-namespace", "", "namespace of the Lease (default: that of the Pod)")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", "0", "where /healthz and /readyz are served, such as :8081; 0 for nowhere")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", "0", "where /metrics is served, such as :8443; 0 for nowhere")
	flags.BoolVar(&o.metricsSecure, "metrics-secure", true, "serve metrics by HTTPS, and only to those who may get /metrics; false: by HTTP, to all")
	flags.StringVar(&o.inspectAddress, "inspect-bind-address", "0",
		"where the page is served that shows the gears at work, such as 127.0.0.1:8082; elsewhere than on loopback by HTTPS, and to those who may get /inspect/*; 0 for nowhere")
	flags.BoolVar(&o.inspectBreakpoints, "inspect-breakpoints", false, "let whoever sees that page hold gears by hand: for learning, on loopback only")
	flags.BoolVar(&o.webhooks, "webhooks", true, "serve webhooks that default and validate; outside of a cluster only with one of the flags below")
	flags.IntVar(&o.webhookPort, "webhook-port", 9443, "port that the webhooks listen at; with --webhook-url the port of the URL, unless set")
	flags.StringVar(&o.webhookURL, "webhook-url", "",
		"https://HOST:PORT by which the API server reaches this process; registers the webhooks there, and removes them at the end")
	flags.StringVar(&o.webhookCertPath, "webhook-cert-path", defaultCertPath,
		"directory of the webhooks' tls.crt and tls.key; if they are not there, and this is not set, the certificates are self-managed")
	flags.BoolVar(&o.version, "version", false, "print the version and exit")
	logsapi.AddFlags(o.logging, flags)
	flags.Lookup("v").Usage += fmt.Sprintf(", %d at most: more would show what Secrets hold", maxVerbosity)
	hide(flags, "vmodule", "log-flush-frequency", "log-text-split-stream", "log-text-info-buffer-size",
		"log-json-split-stream", "log-json-info-buffer-size")
	flags.Usage = func() {}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			fmt.Fprint(stdout, usage, flags.FlagUsages())
		}
		return nil, err
	}
	if rest := flags.Args(); len(rest) > 0 {
		return nil, fmt.Errorf("unexpected argument %q: there are only flags, see --help", rest[0])
	}
	if flags.Changed("namespace") && len(o.namespaces) == 0 {
		return nil, errors.New("--namespace must not be empty: leave it out for all namespaces")
	}
	if err := errors.Join(o.settleWebhooks(flags), o.settleLease(flags), o.settleServers(flags)); err != nil {
		return nil, err
	}
	return o, o.validate()
}

// settleWebhooks checks the flags of the webhooks, and what they mean together.
func (o *options) settleWebhooks(flags *pflag.FlagSet) error {
	for _, name := range []string{"webhook-port", "webhook-url", "webhook-cert-path"} {
		if !o.webhooks && flags.Changed(name) {
			return fmt.Errorf("--webhooks=false leaves nothing to do for --%s: leave one of them out", name)
		}
	}
	if !flags.Changed("webhook-cert-path") {
		o.webhookCertPath = ""
	} else if o.webhookCertPath == "" {
		return errors.New("--webhook-cert-path must not be empty: leave it out for self-managed certificates")
	}
	if flags.Changed("webhook-url") {
		if flags.Changed("webhook-cert-path") {
			return errors.New("--webhook-url comes with certificates of its own: leave out --webhook-cert-path")
		}
		u, err := url.Parse(o.webhookURL)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || *u != (url.URL{Scheme: u.Scheme, Host: u.Host}) {
			return fmt.Errorf("--webhook-url must be https://HOST:PORT, not %q", o.webhookURL)
		}
		port, err := strconv.Atoi(u.Port())
		if err != nil || port < 1 || port > 65535 {
			return fmt.Errorf("--webhook-url must be https://HOST:PORT, with a port from 1 to 65535, not %q", o.webhookURL)
		}
		if !flags.Changed("webhook-port") {
			o.webhookPort = port
		}
	}
	if o.webhookPort < 1 || o.webhookPort > 65535 {
		return fmt.Errorf("--webhook-port must be from 1 to 65535, not %d", o.webhookPort)
	}
	return nil
}

// settleLease checks the flags of leader election.
func (o *options) settleLease(flags *pflag.FlagSet) error {
	for _, name := range []string{"lease-duration", "renew-deadline", "retry-period", "resource-name", "resource-namespace"} {
		if !o.lease.elect && flags.Changed("leader-elect-"+name) {
			return fmt.Errorf("--leader-elect-%s does nothing without --leader-elect", name)
		}
	}
	l := &o.lease
	switch problems := content.IsDNS1123Subdomain(l.name); {
	case len(problems) > 0:
		return fmt.Errorf("--leader-elect-resource-name %q is not the name of a Lease: %s", l.name, problems[0])
	case l.namespace != "" && len(content.IsDNS1123Label(l.namespace)) > 0:
		return fmt.Errorf("--leader-elect-resource-namespace %q is not the name of a namespace: %s", l.namespace, content.IsDNS1123Label(l.namespace)[0])
	case l.duration < time.Second || l.duration != l.duration.Truncate(time.Second):
		return fmt.Errorf("--leader-elect-lease-duration must be whole seconds, not %s", l.duration)
	case l.margin() <= 0:
		return fmt.Errorf("--leader-elect-lease-duration (%s) must be longer than --leader-elect-renew-deadline (%s) and --leader-elect-retry-period (%s) together: a leader that cannot renew its Lease ends before another one follows it",
			l.duration, l.deadline, l.retry)
	case l.retry < 100*time.Millisecond || float64(l.deadline) <= leaderelection.JitterFactor*float64(l.retry):
		return fmt.Errorf("--leader-elect-retry-period must be from 100ms to less than %s, 1/%v of --leader-elect-renew-deadline, not %s",
			time.Duration(float64(l.deadline)/leaderelection.JitterFactor).Round(time.Millisecond), leaderelection.JitterFactor, l.retry)
	}
	return nil
}

// settleServers checks the addresses of probes, metrics and the page: "0", as in the flags of others, is
// none.
func (o *options) settleServers(flags *pflag.FlagSet) error {
	for name, address := range map[string]*string{
		"health-probe-bind-address": &o.probeAddress, "metrics-bind-address": &o.metricsAddress, "inspect-bind-address": &o.inspectAddress,
	} {
		if *address == "0" || *address == "" {
			*address = ""
			continue
		}
		_, port, err := net.SplitHostPort(*address)
		if n, portErr := strconv.Atoi(port); err != nil || portErr != nil || n < 1 || n > 65535 {
			return fmt.Errorf("--%s must be HOST:PORT, :PORT, or 0 for none, not %q", name, *address)
		}
	}
	switch {
	case o.metricsAddress == "" && flags.Changed("metrics-secure"):
		return errors.New("--metrics-secure does nothing without --metrics-bind-address")
	case o.metricsAddress != "" && o.metricsAddress == o.probeAddress:
		return fmt.Errorf("--metrics-bind-address and --health-probe-bind-address must differ: both are %s", o.metricsAddress)
	case o.inspectAddress != "" && (o.inspectAddress == o.metricsAddress || o.inspectAddress == o.probeAddress):
		return fmt.Errorf("--inspect-bind-address must differ from those of probes and metrics: it is %s, too", o.inspectAddress)
	case o.inspectBreakpoints && !loopback(o.inspectAddress):
		return errors.New("--inspect-breakpoints lets people hold the operator up: it needs an --inspect-bind-address on loopback, such as 127.0.0.1:8082")
	}
	return nil
}

// hide keeps flags for experts out of the usage.
func hide(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		if flag := flags.Lookup(name); flag != nil {
			flag.Hidden = true
		}
	}
}

func (o *options) validate() error {
	if o.workers < 1 || o.workers > 1000 {
		return fmt.Errorf("--workers must be from 1 to 1000, not %d", o.workers)
	}
	for _, ns := range o.namespaces {
		if problems := content.IsDNS1123Label(ns); len(problems) > 0 {
			return fmt.Errorf("--namespace %q is not the name of a namespace: %s", ns, problems[0])
		}
	}
	slices.Sort(o.namespaces)
	o.namespaces = slices.Compact(o.namespaces)
	if len(o.namespaces) == 0 {
		o.namespaces = []string{metav1.NamespaceAll}
	}
	if u, err := url.Parse(o.ecsEndpoint); o.ecsEndpoint != "" &&
		(err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || *u != (url.URL{Scheme: u.Scheme, Host: u.Host})) {
		return fmt.Errorf("--ecs-endpoint must be http://HOST:PORT or https://HOST:PORT, not %q", o.ecsEndpoint)
	}
	enabled, err := enabledControllers(o.controllers)
	if err != nil {
		return err
	}
	o.controllers = enabled
	if o.logging.Format != "text" && o.logging.Format != "json" {
		return fmt.Errorf("--logging-format must be text or json, not %q", o.logging.Format)
	}
	return nil
}

// inCluster reports whether the operator is a Pod of the cluster that it works on.
func (o *options) inCluster() bool { return o.kubeconfig == "" && o.master == "" }

// enabledControllers returns the names of the controllers that the values of
// --controllers select. A name given alone excludes all others.
func enabledControllers(values []string) ([]string, error) {
	on := map[string]bool{}
	all := slices.Contains(values, "*")
	for _, name := range controllerNames() {
		on[name] = all
	}
	for _, value := range values {
		name, off := strings.CutPrefix(value, "-")
		if value == "*" {
			continue
		}
		if _, known := on[name]; !known {
			return nil, fmt.Errorf("--controllers: there is no %q; there are %s", name, strings.Join(controllerNames(), ", "))
		}
		on[name] = !off
	}
	var enabled []string
	for _, name := range controllerNames() {
		if on[name] {
			enabled = append(enabled, name)
		}
	}
	if len(enabled) == 0 {
		return nil, fmt.Errorf("--controllers=%s leaves no controller to run; use * for all", strings.Join(values, ","))
	}
	return enabled, nil
}
