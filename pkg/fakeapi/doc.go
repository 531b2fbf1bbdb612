// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fakeapi is a fake API server for unit tests, and no other code imports it. The tests of controllers use it, so that they
// rely on the same behaviour:
//
//   - Each change has a resourceVersion, and each object a UID. A write that names another version or UID gets a conflict.
//   - An update of a custom resource must name a version. Other writes may hit any version: see Request.Unguarded.
//   - An apply merges fields with the code of the real API server, and keeps managedFields.
//   - An update of the status changes the status alone. A change of the spec raises the generation.
//   - A delete leaves an object with a finalizer until the finalizer is removed.
//   - LIST and WATCH are consistent: a client can resume a watch from any resourceVersion, unless Compact removed it.
//   - A write that changes nothing makes no version and no event.
//
// A test injects faults with Server.Before and Server.After: an error before a write is a rejected request, an error after it is a
// lost answer, and a panic is a crash of the operator. Server.Lag delays watch events. A Cache shows any earlier state.
//
// The server does not validate objects, and it does not set defaults: see Server.Admit. It has one version of each API.
// Tests that start nothing call Sync and fill caches with Cache; other tests run informers on the clientsets or on a Source.
//
// Two packages have fake servers of their own:
//
//   - rediscluster: a test plays the kubelet of Pods that are real redis-servers, and looks at single writes. It needs UIDs, claims that
//     stay while a Pod uses them, and evictions. Reactors of client-go's fake clientset do that: see evict_test.go there. The golden
//     tests run the same controller on this server.
//   - pipeline: a test plays the other end of a WATCH. It sends bookmarks between events and the error 410 within a stream, and lets
//     single clients fail. Watches of this server show its history and nothing else.
package fakeapi
