// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import "github.com/glassback/glassback/pkg/permissions"

// To keep a CA, for its webhooks or its metrics, the operator needs NeedsSecret in its own namespace, and to publish it NeedsConfigMap:
// without that, only clients of the metrics miss it.
var (
	NeedsSecret = []permissions.Permission{
		{Resource: "secrets", Verbs: []string{"create"}},
		{Resource: "secrets", Name: SecretName, Verbs: []string{"delete", "get", "list", "update", "watch"}},
	}
	NeedsConfigMap = []permissions.Permission{
		{Resource: "configmaps", Verbs: []string{"create"}},
		{Resource: "configmaps", Name: ConfigMapName, Verbs: []string{"delete", "list", "update", "watch"}},
	}
)
