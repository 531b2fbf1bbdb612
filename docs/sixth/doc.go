/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package sixth is the worked example of docs/sixth.md: a complete controller over
// built-in kinds, which keeps the address of a Service in a ConfigMap.
//
//	owns    ConfigMap <name>-address
//	reads   Service, ConfigMap, from the caches
//	writes  ConfigMap by server-side apply, or delete; Event
//
// A Service asks for it with the label glassback.dev/address: "true". The ConfigMap
// is made for envFrom: HOST, and PORT, or PORT_<NAME> for each port that has a name.
//
// What it keeps, whatever fails and whenever it stops:
//
//   - The ConfigMap holds the address for as long as the Service asks for it, and goes
//     when it no longer does, or is gone. Keys and labels that others add are left.
//   - A ConfigMap that is not the Service's is never touched.
//   - Nothing is written when nothing has changed.
//
// There is no status.go: the status of a Service is not this controller's to write.
// What a person should know is told by events, once: see told.
package sixth
