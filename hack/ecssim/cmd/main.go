// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command ecssim serves a simulated ECS of Alibaba Cloud, to try the operator without an account: see hack/ecssim. A browser shows its
// instances.
package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/glassback/glassback/hack/ecssim"
)

// Exit codes.
const (
	exitOK     = 0 // Ctrl-C or SIGTERM
	exitFailed = 1
	exitUsage  = 2
)

const (
	// headerTimeout is the longest time that a client may take to send the headers of a request.
	headerTimeout = 10 * time.Second
	// shutdownTimeout is the time that running calls have to finish at the end.
	shutdownTimeout = 2 * time.Second
	// firstAccount is the number of the first --account. The others count on from it.
	firstAccount = 1234567890123456
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

type options struct {
	address  string
	accounts []string
	speed    float64
	certFile string
	keyFile  string
}

// run serves until ctx ends, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := pflag.NewFlagSet("ecssim", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.address, "bind-address", "127.0.0.1:8099", "HOST:PORT to serve at; port 0 is for any that is free")
	flags.StringArrayVar(&o.accounts, "account", []string{"test:test"},
		"ID:SECRET of an access key; may be given several times, each is an account")
	flags.Float64Var(&o.speed, "speed", 1, "how many times as fast as ECS instances start, stop and go")
	flags.StringVar(&o.certFile, "tls-cert-file", "", "PEM file with the certificate, to serve HTTPS")
	flags.StringVar(&o.keyFile, "tls-private-key-file", "", "PEM file with the certificate's key")
	err := flags.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(stdout, "ecssim serves an ECS of Alibaba Cloud in which instances are numbers.\n\n%s", flags.FlagUsages())
		return exitOK
	}
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("there are only flags, and %q is none", flags.Arg(0))
	}
	var accounts []ecssim.Account
	if err == nil {
		accounts, err = o.check()
	}
	if err != nil {
		fmt.Fprintf(stderr, "ecssim: %v: see ecssim --help\n", err)
		return exitUsage
	}
	if err := o.serve(ctx, accounts, stdout); err != nil {
		fmt.Fprintf(stderr, "ecssim: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// check returns the accounts, or the first error in the flags.
func (o *options) check() ([]ecssim.Account, error) {
	if _, _, err := net.SplitHostPort(o.address); err != nil {
		return nil, fmt.Errorf("--bind-address must be HOST:PORT, such as 127.0.0.1:8099, not %q", o.address)
	}
	if !(o.speed > 0) || math.IsInf(o.speed, 0) {
		return nil, fmt.Errorf("--speed must be a number above 0, not %v", o.speed)
	}
	if (o.certFile == "") != (o.keyFile == "") {
		return nil, errors.New("--tls-cert-file and --tls-private-key-file need each other")
	}
	var accounts []ecssim.Account
	known := map[string]bool{}
	for i, text := range o.accounts {
		id, secret, _ := strings.Cut(text, ":")
		if id == "" || secret == "" {
			return nil, fmt.Errorf("--account must be ID:SECRET of an access key, and number %d is not", i+1) // It may be a secret.
		}
		if known[id] {
			return nil, fmt.Errorf("--account has the access key ID %q twice", id)
		}
		known[id] = true
		accounts = append(accounts, ecssim.Account{ID: strconv.Itoa(firstAccount + i), AccessKeyID: id, AccessKeySecret: secret})
	}
	return accounts, nil
}

// serve serves until ctx ends.
func (o *options) serve(ctx context.Context, accounts []ecssim.Account, stdout io.Writer) error {
	config, err := o.tls()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.address)
	if err != nil {
		return fmt.Errorf("%w: give another --bind-address, such as 127.0.0.1:0", err)
	}
	scheme := "http"
	if config != nil {
		scheme, listener = "https", tls.NewListener(listener, config)
	}
	fmt.Fprintln(stdout, invitation(scheme, listener.Addr(), accounts))

	serving, stop := context.WithCancel(ctx)
	defer stop()
	server := &http.Server{
		Handler:           handler(accounts, o.speed, stdout),
		ReadHeaderTimeout: headerTimeout,
		BaseContext:       func(net.Listener) context.Context { return serving },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if server.Shutdown(last) != nil {
		server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// tls returns the configuration of HTTPS, or nil for HTTP.
func (o *options) tls() (*tls.Config, error) {
	if o.certFile == "" {
		return nil, nil
	}
	certificate, err := tls.LoadX509KeyPair(o.certFile, o.keyFile)
	if err != nil {
		return nil, fmt.Errorf("read --tls-cert-file and --tls-private-key-file: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}, nil
}

// invitation returns the instructions to start the operator with this server. It contains no secret except that of the default key.
func invitation(scheme string, address net.Addr, accounts []ecssim.Account) string {
	host, port, _ := net.SplitHostPort(address.String())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	url := scheme + "://" + net.JoinHostPort(host, port)
	secret := "SECRET"
	if accounts[0].AccessKeySecret == "test" {
		secret = "test"
	}
	return fmt.Sprintf("ECS is at %s: ALIBABA_CLOUD_ACCESS_KEY_ID=%s ALIBABA_CLOUD_ACCESS_KEY_SECRET=%s glassback --ecs-endpoint %s "+
		"--ecs-own-credentials-namespaces default", url, accounts[0].AccessKeyID, secret, url)
}

// handler serves the API, and the page to browsers.
func handler(accounts []ecssim.Account, speed float64, stdout io.Writer) http.Handler {
	var (
		server *ecssim.Server
		line   sync.Mutex
	)
	server = ecssim.New(ecssim.Config{
		Accounts: accounts, Speed: speed, Seed: uint64(time.Now().UnixNano()),
		OnCall: func(call ecssim.Call) {
			server.Forget()
			line.Lock()
			defer line.Unlock()
			fmt.Fprintln(stdout, lineOf(call))
		},
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && !r.URL.Query().Has("Action") {
			servePage(w, r, server.Instances())
			return
		}
		server.ServeHTTP(w, r)
	})
}

// lineOf returns the line that is printed for a call. It quotes values of the client that
// would break the line. It omits the message, which may contain the string that was signed.
func lineOf(call ecssim.Call) string {
	return strings.Join([]string{
		call.At.Format(time.TimeOnly), plain(call.Action), plain(call.RegionID), plain(call.InstanceID), plain(cmp.Or(call.Code, "OK")),
	}, " ")
}

// maxField is the number of printed characters of a value from a client.
const maxField = 64

func plain(field string) string {
	if field == "" {
		return "-"
	}
	if len(field) > maxField {
		field = field[:maxField]
	}
	for _, c := range []byte(field) {
		if c <= ' ' || c == '"' || c > '~' {
			return strconv.QuoteToASCII(field)
		}
	}
	return field
}
