/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package backup

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// partSize is the size of the parts in which a file is uploaded. One part is held in memory. A file has at most 10,000 parts, and so
// 160 GiB.
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
}

func openBucket(o s3Options) (*bucket, error) {
	client, err := minio.New(o.endpoint.Host, &minio.Options{
		Creds:  credentials.NewStaticV4(o.accessKeyID, o.secretAccessKey, ""),
		Secure: o.endpoint.Scheme == "https", Region: o.region,
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

func (b *bucket) String() string {
	return fmt.Sprintf("bucket %s at %s", b.name, b.client.EndpointURL())
}

func (b *bucket) put(ctx context.Context, name string, content io.Reader) error {
	size := int64(-1)
	if known, ok := content.(*bytes.Reader); ok { // Then it is one request.
		size = known.Size()
	}
	_, err := b.client.PutObject(ctx, b.name, b.prefix+name, content, size, minio.PutObjectOptions{PartSize: partSize})
	return err
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
		names = append(names, strings.TrimPrefix(object.Key, b.prefix))
	}
	return names, nil
}

// partial returns the uploads that were not completed. The service keeps their parts, and charges for them.
func (b *bucket) partial(ctx context.Context, directory string) ([]string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var names []string
	for upload := range b.client.ListIncompleteUploads(ctx, b.name, b.prefix+directory+"/", true) {
		if upload.Err != nil {
			return nil, upload.Err
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
