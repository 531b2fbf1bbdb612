// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// partSize is the size of the parts in which a file is uploaded. One part is held in memory. A file has at most 10,000 parts, which is 156
// GiB.
const partSize = 16 << 20

// bucket is a store in a bucket of S3, or of a service with the same API.
type bucket struct {
	client       *minio.Client
	name, prefix string // prefix is "" or ends with a slash
}

// s3Options are where a bucket is, and the credentials for it.
type s3Options struct {
	endpoint                     *url.URL // https or http, host and port
	bucket, prefix, region       string
	accessKeyID, secretAccessKey string
	authorities                  []byte // the certificates of the CAs of the endpoint, as PEM; nil for those of the system
}

func openBucket(o s3Options) (*bucket, error) {
	secure := o.endpoint.Scheme == "https"
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, err
	}
	if o.authorities != nil && secure {
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(o.authorities) {
			return nil, fmt.Errorf("%s of the credentials has no certificate, as PEM", fileAuthorities)
		}
	}
	client, err := minio.New(o.endpoint.Host, &minio.Options{
		Creds:  credentials.NewStaticV4(o.accessKeyID, o.secretAccessKey, ""),
		Secure: secure, Region: o.region, Transport: transport,
	})
	if err != nil {
		return nil, err
	}
	b := &bucket{client: client, name: o.bucket}
	if prefix := strings.Trim(o.prefix, "/"); prefix != "" {
		b.prefix = prefix + "/"
	}
	return b, nil
}

// isRefused returns whether err is an answer of S3 that a retry does not change. minio-go has already retried the other errors.
func isRefused(err error) bool {
	answer, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && slices.Contains([]string{minio.AccessDenied, minio.InvalidAccessKeyID, minio.SignatureDoesNotMatch, minio.NoSuchBucket},
		answer.Code)
}

func (b *bucket) String() string {
	return fmt.Sprintf("bucket %s at %s", b.name, b.client.EndpointURL())
}

func (b *bucket) put(ctx context.Context, name string, content io.Reader) error {
	_, err := b.client.PutObject(ctx, b.name, b.prefix+name, content, -1, minio.PutObjectOptions{PartSize: partSize})
	return err
}

// create writes the file with a conditional request, if it does not exist. Some services ignore or refuse the condition. There, create may
// replace a file that another process creates at the same moment.
func (b *bucket) create(ctx context.Context, name string, content []byte) error {
	if _, err := b.size(ctx, name); !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(err, fs.ErrExist)
	}
	put := func(o minio.PutObjectOptions) error {
		_, err := b.client.PutObject(ctx, b.name, b.prefix+name, bytes.NewReader(content), int64(len(content)), o)
		return err
	}
	absent := minio.PutObjectOptions{}
	absent.SetMatchETagExcept("*")
	err := put(absent)
	switch minio.ToErrorResponse(err).StatusCode {
	case http.StatusPreconditionFailed, http.StatusConflict:
		return fmt.Errorf("%s: %w: %w", name, fs.ErrExist, err)
	case http.StatusNotImplemented:
		return put(minio.PutObjectOptions{})
	}
	return err
}

func (b *bucket) size(ctx context.Context, name string) (int64, error) {
	object, err := b.client.StatObject(ctx, b.name, b.prefix+name, minio.StatObjectOptions{})
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return 0, fmt.Errorf("%s: %w: %w", name, fs.ErrNotExist, err)
	}
	return object.Size, err
}

func (b *bucket) open(ctx context.Context, name string) (io.ReadCloser, error) {
	core := minio.Core{Client: b.client}
	content, _, _, err := core.GetObject(ctx, b.name, b.prefix+name, minio.GetObjectOptions{})
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return nil, fmt.Errorf("%s: %w: %w", name, fs.ErrNotExist, err)
	}
	return content, err
}

func (b *bucket) list(ctx context.Context, directory string) ([]string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // This ends the goroutine of the list.
	var names []string
	for object := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix + directory + "/", Recursive: true}) {
		if object.Err != nil {
			return nil, object.Err
		}
		if len(names) == maxFiles {
			return nil, errFiles
		}
		names = append(names, strings.TrimPrefix(object.Key, b.prefix))
	}
	return names, nil
}

// maxFiles is how many files a directory of a bucket may have: ten times what 1000 backups of 100 masters have.
const maxFiles = 1_000_000

var errFiles = fmt.Errorf("there are more than %d files", maxFiles)

// partial returns the uploads that were not completed. The service keeps their parts, and charges for them.
func (b *bucket) partial(ctx context.Context, directory string) ([]string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var names []string
	for upload := range b.client.ListIncompleteUploads(ctx, b.name, b.prefix+directory+"/", true) {
		if minio.ToErrorResponse(upload.Err).Code == minio.NoSuchUpload { // Some services answer this if there is no upload.
			break
		}
		if upload.Err != nil {
			return nil, upload.Err
		}
		if len(names) == maxFiles {
			return nil, errFiles
		}
		names = append(names, strings.TrimPrefix(upload.Key, b.prefix)+unfinished)
	}
	slices.Sort(names)
	return slices.Compact(names), nil // There can be several uploads of one file.
}

func (b *bucket) remove(ctx context.Context, name string) error {
	key := b.prefix + name
	if upload, isUpload := strings.CutSuffix(key, unfinished); isUpload {
		return b.client.RemoveIncompleteUpload(ctx, b.name, upload)
	}
	return b.client.RemoveObject(ctx, b.name, key, minio.RemoveObjectOptions{})
}
