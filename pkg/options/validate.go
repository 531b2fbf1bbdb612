// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/kinds"
	"github.com/glassback/glassback/pkg/webhook/certificate"
)

// MaxVerbosity is the highest verbosity of the log that takes effect: see pkg/app/logging.go.
const MaxVerbosity = 7

// DefaultCertPath is the directory where kubebuilder's manifests mount a certificate.
const DefaultCertPath = "/tmp/k8s-webhook-server/serving-certs"

// WebhookMode says where the certificate of the webhooks comes from, and what registers them with the API server.
type WebhookMode string

// The modes.
const (
	WebhooksOff             WebhookMode = "off"
	WebhooksOnlyCertificate WebhookMode = "certificate" // none, but a CA in a Secret, for metrics or a page that clients reach by a Service
	WebhooksFromFiles       WebhookMode = "files"       // certificate in --webhook-cert-path; registered by manifest
	WebhooksFromService     WebhookMode = "service"     // CA in a Secret; registered by manifest, with a caBundle that the operator writes
	WebhooksFromURL         WebhookMode = "url"         // CA in memory; registered by this process
)

// Serves reports whether there are webhooks.
func (m WebhookMode) Serves() bool { return m != WebhooksOff && m != WebhooksOnlyCertificate }

// WebhookMode returns the mode that the options ask for.
func (o *Options) WebhookMode() WebhookMode {
	switch {
	case !o.Webhooks && o.InCluster() && len(o.MetricsWants()) > 0:
		return WebhooksOnlyCertificate
	case !o.Webhooks:
		return WebhooksOff
	case o.WebhookURL != "":
		return WebhooksFromURL
	case o.WebhookCertPath != "", exists(filepath.Join(DefaultCertPath, certificate.CertFile)):
		return WebhooksFromFiles
	case o.InCluster():
		return WebhooksFromService
	default:
		return WebhooksOff // The API server has no way to call them.
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// WebhookAddress returns the address on which the webhooks listen. It is on loopback if the host of their URL is.
func (o *Options) WebhookAddress() string {
	host := ""
	if u, err := url.Parse(o.WebhookURL); err == nil {
		if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip.IsLoopback() {
			host = u.Hostname()
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(o.WebhookPort))
}

// InCluster reports whether the operator works on the cluster of its own Pod: no flag names another cluster.
func (o *Options) InCluster() bool { return !o.Cluster.Given() }

// Check returns an error unless the flags are right, alone and together. It brings the options into the form that Options describes.
func (o *Options) Check(flags *pflag.FlagSet) error {
	if err := errors.Join(o.checkWebhooks(flags), o.checkLease(flags), o.checkServers(flags)); err != nil {
		return err
	}
	return errors.Join(o.checkProcess(), o.Validate())
}

// checkWebhooks checks the flags of the webhooks, alone and together.
func (o *Options) checkWebhooks(flags *pflag.FlagSet) error {
	for _, name := range []string{"webhook-port", "webhook-url", "webhook-cert-path"} {
		if !o.Webhooks && flags.Changed(name) {
			return fmt.Errorf("--%s has no effect with --webhooks=false: remove one of the two flags", name)
		}
	}
	if !flags.Changed("webhook-cert-path") {
		o.WebhookCertPath = ""
	} else if o.WebhookCertPath == "" {
		return errors.New("--webhook-cert-path must not be empty: leave it out for self-managed certificates")
	}
	if flags.Changed("webhook-url") {
		if flags.Changed("webhook-cert-path") {
			return errors.New("--webhook-url comes with certificates of its own: leave out --webhook-cert-path")
		}
		u := command.Origin(o.WebhookURL, "https")
		if u == nil {
			return fmt.Errorf("--webhook-url must be https://HOST:PORT, not %q", o.WebhookURL)
		}
		port, err := strconv.Atoi(u.Port())
		if err != nil || port < 1 || port > 65535 {
			return fmt.Errorf("--webhook-url must be https://HOST:PORT, with a port from 1 to 65535, not %q", o.WebhookURL)
		}
		if !flags.Changed("webhook-port") {
			o.WebhookPort = port
		}
	}
	if o.WebhookPort < 1 || o.WebhookPort > 65535 {
		return fmt.Errorf("--webhook-port must be from 1 to 65535, not %d", o.WebhookPort)
	}
	return nil
}

// checkLease checks the flags of leader election.
func (o *Options) checkLease(flags *pflag.FlagSet) error {
	for _, name := range []string{"lease-duration", "renew-deadline", "retry-period", "resource-name", "resource-namespace"} {
		if !o.Lease.Elect && flags.Changed("leader-elect-"+name) {
			return fmt.Errorf("--leader-elect-%s does nothing without --leader-elect", name)
		}
	}
	l := &o.Lease
	if err := command.CheckLease(l.Name); err != nil {
		return err
	}
	if l.Namespace != "" {
		if err := command.CheckNamespace("leader-elect-resource-namespace", l.Namespace); err != nil {
			return err
		}
	}
	switch {
	case l.Duration < time.Second || l.Duration != l.Duration.Truncate(time.Second):
		return fmt.Errorf("--leader-elect-lease-duration must be whole seconds, not %s", l.Duration)
	case l.Margin() <= 0:
		return fmt.Errorf("--leader-elect-lease-duration (%s) must be longer than --leader-elect-renew-deadline (%s) and "+
			"--leader-elect-retry-period (%s) together: a leader that cannot renew its Lease must end before another replica takes the Lease",
			l.Duration, l.Deadline, l.Retry)
	case l.Retry < 100*time.Millisecond || float64(l.Deadline) <= leaderelection.JitterFactor*float64(l.Retry):
		return fmt.Errorf("--leader-elect-retry-period must be at least 100ms, and less than %s (--leader-elect-renew-deadline / %v), not %s",
			time.Duration(float64(l.Deadline)/leaderelection.JitterFactor).Round(time.Millisecond), leaderelection.JitterFactor, l.Retry)
	}
	return nil
}

// checkServers checks the flags of probes, metrics and the page. The address "0" means none, as in controller-runtime.
func (o *Options) checkServers(flags *pflag.FlagSet) error {
	for name, address := range map[string]*string{
		"health-probe-bind-address": &o.ProbeAddress, "metrics-bind-address": &o.MetricsAddress, "inspect-bind-address": &o.InspectAddress,
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
	case o.MetricsAddress == "" && flags.Changed("metrics-secure"):
		return errors.New("--metrics-secure does nothing without --metrics-bind-address")
	case o.MetricsAddress == "" && flags.Changed("metrics-objects"):
		return errors.New("--metrics-objects does nothing without --metrics-bind-address")
	case o.MetricsObjects < 0 || o.MetricsObjects > 10_000:
		return fmt.Errorf("--metrics-objects must be from 0 to 10000, not %d", o.MetricsObjects)
	case o.MetricsAddress != "" && o.MetricsAddress == o.ProbeAddress:
		return fmt.Errorf("--metrics-bind-address and --health-probe-bind-address must differ: both are %s", o.MetricsAddress)
	case o.InspectAddress != "" && (o.InspectAddress == o.MetricsAddress || o.InspectAddress == o.ProbeAddress):
		return fmt.Errorf("--inspect-bind-address must differ from those of probes and metrics: it is %s, too", o.InspectAddress)
	case o.InspectBreakpoints && !command.Loopback(o.InspectAddress):
		return errors.New("--inspect-breakpoints lets users of the page stop the operator: " +
			"it needs an --inspect-bind-address on loopback, such as 127.0.0.1:8082")
	}
	return nil
}

// checkProcess checks --workers, --logging-format and --otlp-endpoint.
func (o *Options) checkProcess() error {
	if o.Workers < 1 || o.Workers > 1000 {
		return fmt.Errorf("--workers must be from 1 to 1000, not %d", o.Workers)
	}
	if o.Logging.Format != "text" && o.Logging.Format != "json" {
		return fmt.Errorf("--logging-format must be text or json, not %q", o.Logging.Format)
	}
	if o.OTLPEndpoint != "" && command.Origin(o.OTLPEndpoint, "http", "https") == nil {
		return errors.New("--otlp-endpoint must be http://HOST:PORT or https://HOST:PORT, such as http://localhost:4318: " +
			"it has no credentials; set these as headers, with OTEL_EXPORTER_OTLP_HEADERS in the environment")
	}
	return nil
}

// Validate checks the namespaces, the controllers, the options of ECS and the backup image. It brings namespaces and controllers into
// the form that Options describes.
func (o *Options) Validate() error {
	for _, ns := range o.Namespaces {
		if err := command.CheckNamespace("namespace", ns); err != nil {
			return err
		}
	}
	slices.Sort(o.Namespaces)
	o.Namespaces = slices.Compact(o.Namespaces)
	if len(o.Namespaces) == 0 {
		o.Namespaces = []string{metav1.NamespaceAll}
	}
	if o.ECSEndpoint != "" && command.Origin(o.ECSEndpoint, "http", "https") == nil {
		return fmt.Errorf("--ecs-endpoint must be http://HOST:PORT or https://HOST:PORT, not %q", o.ECSEndpoint)
	}
	if err := errors.Join(command.CheckBackupImage(o.BackupImage), o.ECSOwnCredentials.Validate()); err != nil {
		return err
	}
	enabled, err := enabledControllers(o.Controllers)
	o.Controllers = enabled
	return err
}

// enabledControllers returns the names of the controllers that the values of --controllers select. Without *, only named controllers run.
func enabledControllers(values []string) ([]string, error) {
	on := map[string]bool{}
	all := slices.Contains(values, "*")
	for _, name := range kinds.Names() {
		on[name] = all
	}
	for _, value := range values {
		name, off := strings.CutPrefix(value, "-")
		if value == "*" {
			continue
		}
		if _, known := on[name]; !known {
			return nil, fmt.Errorf("--controllers: there is no %q; there are %s", name, strings.Join(kinds.Names(), ", "))
		}
		on[name] = !off
	}
	var enabled []string
	for _, name := range kinds.Names() {
		if on[name] {
			enabled = append(enabled, name)
		}
	}
	if len(enabled) == 0 {
		return nil, fmt.Errorf("--controllers=%s leaves no controller to run; use * for all", strings.Join(values, ","))
	}
	return enabled, nil
}
