// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options reads the command line of the operator.
package options

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json

	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/controller/ecsinstance"
	"github.com/glassback/glassback/pkg/kinds"
	"github.com/glassback/glassback/pkg/pipeline"
)

// Options are the values of the operator's flags. Check has checked them.
type Options struct {
	Cluster     clients.Flags
	Namespaces  []string // sorted; one empty name for all namespaces
	Controllers []string // the names of those that run
	Workers     int
	Queue       pipeline.Queue // of all informers
	InstallCRDs bool
	Version     bool
	Logging     *logsapi.LoggingConfiguration

	ECSEndpoint       string
	ECSOwnCredentials ecsinstance.OwnCredentials

	BackupImage string // of the Jobs that make and restore backups; empty for none

	OTLPEndpoint string // empty for no spans

	Record string // the directory of recordings; empty for none

	Lease Lease

	ProbeAddress   string // empty for none
	MetricsAddress string // empty for none
	MetricsSecure  bool
	MetricsObjects int // whose conditions are shown one by one

	InspectAddress     string // empty for none
	InspectBreakpoints bool

	Webhooks        bool
	WebhookPort     int
	WebhookURL      string
	WebhookCertPath string // empty for the default, if a certificate is there
}

// Lease holds the options of leader election.
type Lease struct {
	Elect     bool
	Name      string
	Namespace string // empty for the namespace of the Pod
	Duration  time.Duration
	Deadline  time.Duration // to renew it
	Retry     time.Duration
}

// Margin returns the minimal time between the end of a leader that cannot renew its Lease and the start of the next leader.
func (l Lease) Margin() time.Duration { return l.Duration - l.Deadline - l.Retry }

// Parse returns the options in the arguments of an operator.
func Parse(args []string) (*Options, error) {
	flags := pflag.NewFlagSet("glassback", pflag.ContinueOnError)
	flags.Usage = func() {} // It is not for --help.
	o := New(flags)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	return o, errors.Join(command.NoArgs(nil, flags.Args()), o.Check(flags))
}

// New adds the flags of the operator to flags, and returns their values. Call Check once flags are parsed.
func New(flags *pflag.FlagSet) *Options {
	o := &Options{Logging: logsapi.NewLoggingConfiguration()}
	flags.SortFlags = false
	flags.StringVar(&o.Cluster.Kubeconfig, "kubeconfig", "", "file that says how to reach the cluster")
	flags.StringVar(&o.Cluster.Master, "master", "", "URL of the API server; overrides the one in the kubeconfig")
	flags.StringSliceVarP(&o.Namespaces, "namespace", "n", nil, "namespace to work in; may be repeated (default: all)")
	flags.StringSliceVar(&o.Controllers, "controllers", []string{"*"},
		"controllers to run: * for all, NAME for that one, -NAME for not that one; there are "+strings.Join(kinds.Names(), ", "))
	flags.IntVar(&o.Workers, "workers", 16,
		"how many objects each controller syncs at the same time, 1 to 1000; of several namespaces, one has at most half of them")
	flags.Var(&o.Queue, "informer-queue",
		"queue between the API server and each cache: DeltaFIFO applies a burst object by object, RealFIFO in the order of the changes, "+
			"as client-go's own informers do")
	flags.BoolVar(&o.InstallCRDs, "install-crds", false, "apply the CustomResourceDefinitions in this binary before starting")
	flags.StringVar(&o.ECSEndpoint, "ecs-endpoint", "",
		"http://HOST:PORT or https://HOST:PORT of an ECS API, such as the simulator of make ecssim (default: Alibaba Cloud's own)")
	o.ECSOwnCredentials.AddFlags(flags)
	flags.StringVar(&o.BackupImage, "backup-image", "",
		"image of the Jobs that make and restore backups of RedisClusters: the operator's own (default: none, and no backups)")
	flags.BoolVar(&o.Lease.Elect, "leader-elect", false,
		"run controllers only while holding a Lease, so that several operators can stand by for each other")
	flags.DurationVar(&o.Lease.Duration, "leader-elect-lease-duration", 15*time.Second,
		"how long a leader that does not renew its Lease is waited for")
	flags.DurationVar(&o.Lease.Deadline, "leader-elect-renew-deadline", 10*time.Second,
		"how long the leader tries to renew its Lease before it ends")
	flags.DurationVar(&o.Lease.Retry, "leader-elect-retry-period", 2*time.Second, "how often the leader renews its Lease")
	flags.StringVar(&o.Lease.Name, "leader-elect-resource-name", command.DefaultLease, "name of the Lease")
	flags.StringVar(&o.Lease.Namespace, "leader-elect-resource-namespace", "", "namespace of the Lease (default: that of the Pod)")
	flags.StringVar(&o.ProbeAddress, "health-probe-bind-address", "0", "where /healthz and /readyz are served, such as :8081; 0 for nowhere")
	flags.StringVar(&o.MetricsAddress, "metrics-bind-address", "0", "where /metrics is served, such as :8443; 0 for nowhere")
	flags.BoolVar(&o.MetricsSecure, "metrics-secure", true,
		"serve metrics by HTTPS, and only to those who may get /metrics, and profiles to those who may get /debug/pprof/*; "+
			"false: metrics by HTTP, to all")
	flags.IntVar(&o.MetricsObjects, "metrics-objects", 0,
		"show the conditions of this many objects one by one, 10000 at most; objects that are not ready come first; 0 counts objects only")
	flags.StringVar(&o.InspectAddress, "inspect-bind-address", "0",
		"where the page is served that shows the gears at work, such as 127.0.0.1:8082; "+
			"elsewhere than on loopback by HTTPS, and to those who may get /inspect/*; 0 for nowhere")
	flags.BoolVar(&o.InspectBreakpoints, "inspect-breakpoints", false,
		"let users of that page hold stages by hand: for learning, on loopback only")
	flags.StringVar(&o.OTLPEndpoint, "otlp-endpoint", "",
		"http://HOST:PORT or https://HOST:PORT of an OpenTelemetry collector that gets a trace of each sync by OTLP over HTTP (default: none)")
	flags.StringVar(&o.Record, "record", "",
		"directory in which what each sync observes and decides, and what the page shows, is recorded, in files of 256 MiB together, "+
			"for glassback replay and glassback inspect (default: none)")
	flags.BoolVar(&o.Webhooks, "webhooks", true,
		"serve webhooks that default and validate; outside of a cluster only with one of the flags below")
	flags.IntVar(&o.WebhookPort, "webhook-port", 9443,
		"port that the webhooks listen at; with --webhook-url the port of the URL, unless set")
	flags.StringVar(&o.WebhookURL, "webhook-url", "",
		"https://HOST:PORT by which the API server reaches this process; registers the webhooks there, and removes them at the end")
	flags.StringVar(&o.WebhookCertPath, "webhook-cert-path", DefaultCertPath,
		"directory of the webhooks' tls.crt and tls.key; if they are not there, and this is not set, the certificates are self-managed")
	flags.BoolVar(&o.Version, "version", false, "print the version and exit")
	logsapi.AddFlags(o.Logging, flags)
	flags.Lookup("v").Usage += fmt.Sprintf(", %d at most: more would show what Secrets hold", MaxVerbosity)
	hide(flags, "vmodule", "log-flush-frequency", "log-text-split-stream", "log-text-info-buffer-size",
		"log-json-split-stream", "log-json-info-buffer-size")
	return o
}

// hide keeps flags for experts out of the usage.
func hide(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		if flag := flags.Lookup(name); flag != nil {
			flag.Hidden = true
		}
	}
}

// Complete has shells complete the values of the flags, which New has added to a command.
func (o *Options) Complete(c *cobra.Command) {
	command.CompleteValues(c, "controllers", kinds.Names()...)
	command.CompleteValues(c, "informer-queue", pipeline.DeltaFIFO.String(), pipeline.RealFIFO.String())
	command.Complete(c, "webhook-cert-path", command.CompleteFiles)
	o.Cluster.Complete(c)
}
