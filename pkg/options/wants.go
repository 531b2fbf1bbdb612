// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/kinds"
	"github.com/glassback/glassback/pkg/permissions"
	"github.com/glassback/glassback/pkg/webhook"
	"github.com/glassback/glassback/pkg/webhook/certificate"
)

// Wants returns the permissions that an operator with these options needs. mode is the mode of its webhooks, and namespace is where it is
// installed. lease is the Lease of its leader election, and has no name without leader election.
func (o *Options) Wants(mode WebhookMode, namespace string, lease types.NamespacedName) []permissions.Wanted {
	var all []permissions.Wanted
	for _, ns := range o.Namespaces {
		for _, name := range o.Controllers {
			all = append(all, permissions.WantedBy(name, ns, kinds.Named(name).Needs)...)
		}
		all = append(all, permissions.WantedBy("all controllers", ns, permissions.Events)...)
		if mode.Serves() {
			all = append(all, permissions.WantedBy("the webhooks", ns, webhook.NeedsHandler)...)
		}
	}
	switch mode {
	case WebhooksOnlyCertificate:
		all = append(all, permissions.WantedBy("the metrics", namespace, slices.Concat(certificate.NeedsSecret, certificate.NeedsConfigMap))...)
	case WebhooksFromService:
		all = append(all, permissions.WantedBy("the webhooks", namespace, slices.Concat(certificate.NeedsSecret, certificate.NeedsConfigMap))...)
		all = append(all, permissions.WantedBy("the webhooks", metav1.NamespaceAll, webhook.NeedsInjection)...)
	case WebhooksFromURL:
		all = append(all, permissions.WantedBy("--webhook-url", metav1.NamespaceAll, webhook.NeedsRegistration)...)
	}
	all = append(all, o.MetricsWants()...)
	if lease.Name != "" {
		all = append(all, permissions.WantedBy("leader election", lease.Namespace, permissions.Lease(lease.Name))...)
	}
	return permissions.Merge(all)
}

// MetricsWants returns the permissions that an operator with these options needs to answer the callers of its metrics and its page.
func (o *Options) MetricsWants() []permissions.Wanted {
	var all []permissions.Wanted
	if o.MetricsAddress != "" && o.MetricsSecure {
		all = append(all, permissions.WantedBy("/metrics", metav1.NamespaceAll, permissions.Metrics)...)
	}
	if o.InspectAddress != "" && !command.Loopback(o.InspectAddress) {
		all = append(all, permissions.WantedBy("/inspect", metav1.NamespaceAll, permissions.Metrics)...)
	}
	return permissions.Merge(all)
}
