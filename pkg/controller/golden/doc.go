// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package golden holds tests only: they compare what the operator writes with the files in
// testdata, which were first written at commit 0908c11.
//
// An upgrade of the operator changes nothing for objects that use no new field: the names and bodies of their children, their revisions,
// the tokens and parameters of ECS calls, and the status. Each test runs one controller against a fake API server. It calls only New and
// Run of the controller's package, so a restructuring of the controllers changes no golden file.
//
// A file has one YAML document for each scenario. For each step of a scenario it lists all writes in their order: verb, resource, name,
// field manager and body. "like" refers to an earlier request of the scenario, by its number, and "but" lists the fields that differ.
// "left" lists the objects that exist at the end, and the status of the objects of Glassback's kinds.
//
// The fake API server sets no defaults, and the files leave out managedFields. hack/devcluster/e2e/golden_test.go checks both: it
// compares the children of the same examples on a real API server.
//
// # When a golden file changes
//
// A change of a file is a change for every object that is stored in a cluster. Before you accept it:
//
//  1. Run go test ./pkg/controller/golden -update, and read the diff.
//  2. A new name of a child leaves the old child behind. Another body of a Pod, or another
//     revision, replaces every Pod of every cluster on upgrade. Another token or "parameters"
//     of an ECSInstance may make a second instance. Do none of these without a migration.
//     A change of a script or of redis.conf reaches new Pods only, unless you raise podRevision
//     of package rediscluster.
//  3. A new field of a status, or a new label that nothing selects, is harmless, if the
//     issue asks for it.
//  4. A new example, or a new field in a full.yaml, adds lines for that object, and changes no others.
//  5. Say in the commit message which lines change and why. A restructuring changes none.
package golden
