// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sixth is the worked example of docs/sixth.md: a complete controller for a built-in kind. It keeps the address of
// a Service in a ConfigMap.
//
//	owns    ConfigMap <name>-address
//	reads   Service, ConfigMap, from the caches
//	writes  ConfigMap by server-side apply, or delete; Event
//
// A Service requests it with the label glassback.dev/address: "true". The ConfigMap is for envFrom: it has the keys HOST,
// and PORT, or PORT_<NAME> for each port that has a name.
//
// Its promises hold after every failure and every crash:
//
//   - The ConfigMap holds the address while the Service requests it. It is deleted when the Service no longer requests it,
//     or is deleted. Keys and labels of other clients stay.
//   - A ConfigMap that the Service does not control is never changed.
//   - A sync that finds nothing to change writes nothing.
//
// There is no status.go: another controller writes the status of Services. Problems are reported as events instead.
package sixth
