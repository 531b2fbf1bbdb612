// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics serves the metrics of this operator to Prometheus. The measured packages do not import Prometheus: each has a small
// interface or func type, which Metrics implements, and gets it with its Config.
//
//	workqueue_*, rest_client_*, leader_election_*   client-go, by component-base's adapters
//	process_*, go_*                                 component-base's registry
//	controller_runtime_reconcile_*, …_workers       package loop
//	controller_runtime_webhook_*                    package webhook
//	certwatcher_*, glassback_webhook_certificate_*  package certificate
//	glassback_mycronjob_*                           package mycronjob
//	glassback_informer_*                            package pipeline, at each scrape
//	glassback_conditions, glassback_object_…        the caches of package pipeline, at each scrape
//	glassback_cloud_*, glassback_redis_requests_*   packages aliyun and redisnode
//	glassback_redis_node_*                          package rediscluster
//	glassback_recorded_syncs_total                  package recording
//
// Metrics that operators made with kubebuilder also have keep their names here: dashboards and alerts use these names.
//
// Handler serves all metrics. Protect allows only requests that the API server authorizes.
package metrics
