// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backup implements two commands: glassback backup saves the data of a Redis Cluster, and glassback restore adds saved data to a
// cluster. Jobs of the operator run them. They know addresses of nodes, and nothing of Kubernetes.
//
// A backup is a directory, or a prefix of a bucket of S3:
//
//	NAMESPACE/NAME/ID/shard-<first slot>-<run>.rdb    one for each master: its snapshot
//	NAMESPACE/NAME/ID/manifest.json                   see Manifest
//
// The ID is a time in UTC, such as 20260131T030000Z. The manifest is written last, and atomically: a backup exists if and only if its
// manifest does. These are the promises:
//
//   - Backup sends no command that changes a node. It saves a replica where it can, and one shard after the other.
//   - A backup has all keys of all slots. Each file is the snapshot of one moment, but not the same moment as those of the other files.
//     Backup fails if a slot has no owner, is being moved, or gets another owner meanwhile. It fails if a file has a key of another shard.
//   - The files of a backup were read to the end, with their checksums, while they were saved. The data of modules are an error.
//   - Backup may be killed and run again with the same ID, even while the first run still writes: each run has its own names of files. It
//     changes no backup that exists. The manifest is created only if it does not exist, and all files are there with their sizes.
//   - Backup deletes only files of its own cluster whose names are those of a backup, and the manifest before the other files. It counts
//     and deletes only backups of its own owner, the UID of the RedisCluster. A run that fails deletes its files, and those
//     of a run that was killed are deleted a day later.
//   - Restore sends nothing before it has verified each file. It changes no key and no function that the cluster has.
//   - Restore may be killed and run again. It succeeds only if each key is there, existed before, or has expired, and if
//     no key was evicted. What a client deletes or consumes meanwhile may come back: keep clients out until it has succeeded.
//   - No password and no key of S3 is in an output.
//
// The largest key bounds the memory of a backup, and the largest value that of a restore.
package backup
