// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/redisnode"
)

const backupLong = `Backup saves the data of a Redis Cluster: an RDB file of each shard, and a manifest. Jobs of the operator run it.

It sends no command that changes a node, and saves replicas where it can. If the backup exists, it does nothing.
The result is one line of JSON, on stdout and in the file of --result.
The exit code is 0 if the backup exists, 1 if it does not, 2 if the command line is wrong, and 3 if S3 refuses the access.`

const restoreLong = `Restore adds the keys and the functions of a backup to a Redis Cluster. Jobs of the operator run it.

It changes no key and no function that the cluster has. So it can be run again. The cluster may have any number of masters.
The result is one line of JSON, on stdout and in the file of --result.
The exit code is 0 if all keys are restored, exist or have expired, 1 if not, 2 if the command line is wrong, and 3 if S3 refuses the
access.`

// terminationLog is the file whose text a kubelet shows as the message of a container that has ended. It shows at most 4096 bytes.
const terminationLog = "/dev/termination-log"

// refused is the exit code if S3 refuses the access: a Job does not try again.
const refused = 3

// maxRetention is how many backups can be kept.
const maxRetention = 1000

// settings are the values of the flags of both commands.
type settings struct {
	restores                         bool // whether the command is glassback restore
	cluster, id, owner               string
	choose                           bool
	retention                        int
	addresses                        []string
	user, passwordFile               string
	tlsCA, tlsServerName             string
	directory                        string
	endpoint, bucket, prefix, region string
	credentials                      string
	result                           string
	secrets                          []string // what was read from files, and must not be printed
	connection                       connection
	store                            store
}

// New returns glassback backup.
func New() *cobra.Command { return (&settings{}).command() }

// NewRestore returns glassback restore.
func NewRestore() *cobra.Command { return (&settings{restores: true}).command() }

func (o *settings) command() *cobra.Command {
	const both = " --address HOST:PORT (--directory DIR | --s3-endpoint URL ...)"
	c := &cobra.Command{
		Use: "backup --cluster NAMESPACE/NAME --id ID" + both, Short: "save the data of a RedisCluster, as the operator's Jobs do",
		Long:    backupLong,
		Args:    command.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return o.validate() },
		RunE:    command.Run(o.run),
	}
	flags := c.Flags()
	flags.SortFlags = false
	if o.restores {
		c.Use = "restore --cluster NAMESPACE/NAME --id ID|latest" + both
		c.Short, c.Long = "add the data of a backup to a RedisCluster, as the operator's Jobs do", restoreLong
		flags.StringVar(&o.cluster, "cluster", "", "name in the store of the cluster that was saved, as NAMESPACE/NAME")
		flags.StringVar(&o.id, "id", Latest, "id of the backup, or latest")
		flags.StringVar(&o.owner, "owner", "", "UID of the RedisCluster; ignored: backups of all owners can be restored")
		flags.BoolVar(&o.choose, "choose", false, "print which backup it is, and restore nothing")
	} else {
		flags.StringVar(&o.cluster, "cluster", "", "name of the cluster in the store, as NAMESPACE/NAME")
		flags.StringVar(&o.id, "id", "", "id of the backup: a time in UTC, such as 20260131T030000Z")
		flags.IntVar(&o.retention, "retention", 7, "how many backups of this owner are kept; older ones are deleted")
		flags.StringVar(&o.owner, "owner", "", "UID of the RedisCluster: no backup of another one with its name is counted or deleted")
	}
	flags.StringArrayVar(&o.addresses, "address", nil, "host:port of a node; repeatable: the first one that answers is asked")
	flags.StringVar(&o.user, "user", "", "user of the nodes to log in as (default: the default user)")
	flags.StringVar(&o.passwordFile, "password-file", "", "file with the password of that user (default: none is sent)")
	flags.StringVar(&o.tlsCA, "tls-ca", "", "file with the certificates of the CAs of the nodes; with it, connections use TLS")
	flags.StringVar(&o.tlsServerName, "tls-server-name", "", "name that the certificates of the nodes must have; needs --tls-ca")
	flags.StringVar(&o.directory, "directory", "", "directory of the store")
	flags.StringVar(&o.endpoint, "s3-endpoint", "", "URL of an S3 service, such as https://s3.example.com; instead of --directory")
	flags.StringVar(&o.bucket, "s3-bucket", "", "bucket of the store")
	flags.StringVar(&o.prefix, "s3-prefix", "", "prefix of all names in the bucket")
	flags.StringVar(&o.region, "s3-region", "", "region of the bucket (default: the service is asked)")
	flags.StringVar(&o.credentials, "s3-credentials", "",
		"directory with the files accessKeyID and secretAccessKey, and optionally "+fileAuthorities)
	flags.StringVar(&o.result, "result", "", "file for the result, or the error (default: "+terminationLog+", if it exists)")
	return c
}

// validate checks the command line. It opens no file.
func (o *settings) validate() error {
	if _, err := os.Stat(terminationLog); o.result == "" && err == nil {
		o.result = terminationLog
	}
	namespace, object, _ := strings.Cut(o.cluster, "/")
	if content.IsDNS1123Label(namespace) != nil || content.IsDNS1123Subdomain(object) != nil {
		return fmt.Errorf("--cluster must be NAMESPACE/NAME, not %q", o.cluster)
	}
	if !o.restores || o.id != Latest {
		if err := checkID(o.id); err != nil {
			return fmt.Errorf("--id: %w", err)
		}
	}
	if !o.restores && (o.retention < 1 || o.retention > maxRetention) {
		return fmt.Errorf("--retention must be 1 to %d, not %d", maxRetention, o.retention)
	}
	return errors.Join(o.checkConnection(), o.checkStore())
}

func (o *settings) checkConnection() error {
	if len(o.addresses) == 0 {
		return errors.New("--address is missing")
	}
	for _, address := range o.addresses {
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || !isPort(port) {
			return fmt.Errorf("--address must be HOST:PORT, not %q", address)
		}
	}
	switch {
	case o.user != "" && o.passwordFile == "":
		return errors.New("--user needs --password-file")
	case (o.tlsCA == "") != (o.tlsServerName == ""):
		return errors.New("--tls-ca and --tls-server-name need each other")
	}
	return nil
}

func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}

func (o *settings) checkStore() error {
	s3 := []string{o.endpoint, o.bucket, o.credentials}
	optional := []string{o.prefix, o.region}
	given := func(value string) bool { return value != "" }
	switch {
	case o.directory != "" && !slices.ContainsFunc(append(s3, optional...), given):
		return nil
	case o.directory != "":
		return errors.New("--directory cannot be combined with flags of S3")
	case slices.Contains(s3, ""):
		return errors.New("--directory is missing, or --s3-endpoint, --s3-bucket and --s3-credentials")
	case command.Origin(o.endpoint, "https", "http") == nil:
		return fmt.Errorf("--s3-endpoint must be https://HOST[:PORT] or http://HOST[:PORT], not %q", o.endpoint)
	}
	return nil
}

// open reads the files of the flags, and opens the store.
func (o *settings) open() error {
	password, err := o.secret(o.passwordFile, endOfPassword)
	if err != nil {
		return err
	}
	o.connection = connection{addresses: o.addresses, login: redisnode.Login{User: o.user, Password: password}}
	if o.tlsCA != "" {
		authorities, err := os.ReadFile(o.tlsCA)
		if err != nil {
			return err
		}
		o.connection.login.TLS = redisnode.TLS{Name: o.tlsServerName, Authorities: string(authorities)}
	}
	if o.directory != "" {
		o.store, err = openDirectory(o.directory)
		return err
	}
	s3 := s3Options{bucket: o.bucket, prefix: o.prefix, region: o.region}
	if s3.endpoint, err = url.Parse(o.endpoint); err != nil {
		return err
	}
	if s3.accessKeyID, err = o.secret(filepath.Join(o.credentials, "accessKeyID"), endOfKey); err != nil {
		return err
	}
	if s3.secretAccessKey, err = o.secret(filepath.Join(o.credentials, "secretAccessKey"), endOfKey); err != nil {
		return err
	}
	if s3.authorities, err = os.ReadFile(filepath.Join(o.credentials, fileAuthorities)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	o.store, err = openBucket(s3)
	return err
}

// fileAuthorities has the certificates of the CAs of an S3 service.
const fileAuthorities = "ca.crt"

// The characters that do not count at the end of a secret. The operator and the nodes read passwords in the same way.
const (
	endOfPassword = "\n"
	endOfKey      = "\r\n"
)

// secret returns the text of a file, without the characters of end at its end.
func (o *settings) secret(file, end string) (string, error) {
	if file == "" {
		return "", nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(content), end)
	if text == "" {
		return "", fmt.Errorf("%s is empty", file)
	}
	o.secrets = append(o.secrets, text)
	return text, nil
}

// redact returns text without the secrets.
func (o *settings) redact(text string) string {
	for _, secret := range o.secrets {
		text = strings.ReplaceAll(text, secret, "[secret]")
	}
	return text
}

// run does the work, and prints the result or the error.
func (o *settings) run(ctx context.Context, stdout, stderr io.Writer) error {
	redis.SetLogger(&logging.VoidLogger{}) // go-redis logs every connection that fails. The returned errors contain the same.
	result, err := o.work(ctx, func(format string, args ...any) {
		fmt.Fprintln(stderr, "glassback:", command.Printable(o.redact(fmt.Sprintf(format, args...))))
	})
	if err != nil {
		return o.failure(err)
	}
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	result.Warning = o.line(result.Warning, 1000)
	if err := encoder.Encode(result); err != nil {
		return err
	}
	fmt.Fprint(stdout, line.String())
	return o.writeResult(line.String())
}

func (o *settings) work(ctx context.Context, log func(string, ...any)) (*Result, error) {
	if err := o.open(); err != nil {
		return nil, err
	}
	if o.restores {
		r := &restore{o.cluster, o.id, o.choose, o.connection, o.store, defaultPatience, log}
		return r.run(ctx)
	}
	b := &backup{o.cluster, o.id, o.owner, o.retention, o.connection, o.store, newRun(o.owner), defaultPatience, replicaWait, log}
	return b.make(ctx)
}

// failure writes an error into the file of the result, and returns what the command prints, with the exit code.
func (o *settings) failure(err error) error {
	text, code := o.line(err.Error(), 2000), command.Failed
	if isRefused(err) {
		code = refused
	}
	return command.Exit{Code: code, Cause: errors.Join(errors.New(text), o.writeResult(text+"\n"))}
}

// line returns text without secrets, in one line that has at most the given number of bytes.
func (o *settings) line(text string, most int) string {
	const more = "…"
	text = command.Printable(o.redact(strings.Join(strings.Fields(text), " ")))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most-len(more)], "") + more
	}
	return text
}

func (o *settings) writeResult(text string) error {
	if o.result == "" {
		return nil
	}
	if err := os.WriteFile(o.result, []byte(text), 0o640); err != nil {
		return fmt.Errorf("write --result: %w", err)
	}
	return nil
}
