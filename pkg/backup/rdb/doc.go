// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rdb reads RDB files, the snapshots of a redis-server from 7.0 to 7.4 (RDB versions 10 to 12). It yields each key with the payload
// that DUMP returns for it, and each function library. It does not decode values: it only follows their lengths, and copies the bytes.
//
// A Reader holds one value at a time in memory, or none if its caller asks for no payloads. It verifies the checksum of the file. A type
// or an opcode that it does not know is an error, as are the data of modules: RESTORE cannot bring them back.
package rdb
