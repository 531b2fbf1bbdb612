#!/usr/bin/env bash
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0

# Generates pkg/generated and the zz_generated files with k8s.io/code-generator,
# and artifacts/crd with controller-gen from the markers in the code.
# hack/tools/go.mod has the versions of both.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROOT=$PWD
MODULE=github.com/glassback/glassback
# The generators are in this checkout's bin, so that no other checkout replaces them.
export GOBIN="$ROOT/bin/tools"
mkdir -p "$GOBIN"

CODEGEN=$(cd hack/tools && go list -m -f '{{.Dir}}' k8s.io/code-generator)
if [ -z "$CODEGEN" ]; then
	(cd hack/tools && go mod download k8s.io/code-generator)
	CODEGEN=$(cd hack/tools && go list -m -f '{{.Dir}}' k8s.io/code-generator)
fi
# shellcheck source=/dev/null
source "$CODEGEN/kube_codegen.sh"

kube::codegen::gen_helpers --boilerplate hack/boilerplate.go.txt pkg/apis
kube::codegen::gen_client \
	--with-watch --with-applyconfig \
	--output-dir pkg/generated --output-pkg "$MODULE/pkg/generated" \
	--boilerplate hack/boilerplate.go.txt \
	pkg/apis

(cd hack/tools && go build -o "$GOBIN/" sigs.k8s.io/controller-tools/cmd/controller-gen ./trimcrd)
# generateEmbeddedObjectMeta: without it the API server prunes the labels and
# annotations of the Job template.
"$GOBIN/controller-gen" crd:generateEmbeddedObjectMeta=true paths=./pkg/apis/... output:crd:dir=artifacts/crd
"$GOBIN/trimcrd" artifacts/crd/batch.wzj.kubebuilder.io_mycronjobs.yaml spec.jobTemplate
"$GOBIN/trimcrd" artifacts/crd/app.aiops.org_applications.yaml \
	spec.env.valueFrom spec.envFrom spec.resources spec.imagePullSecrets \
	spec.probes.liveness spec.probes.readiness spec.probes.startup spec.securityContext spec.volumeMounts \
	spec.podTemplate.affinity spec.podTemplate.tolerations spec.podTemplate.topologySpreadConstraints spec.podTemplate.imagePullSecrets \
	spec.podTemplate.securityContext spec.podTemplate.containers spec.podTemplate.initContainers spec.podTemplate.volumes
"$GOBIN/trimcrd" artifacts/crd/bytewang123-redis.wzj.kubebuilder.io_redisclusters.yaml spec.resources spec.backup.resources spec.restoreFrom.resources \
	spec.podTemplate.affinity spec.podTemplate.tolerations spec.podTemplate.topologySpreadConstraints spec.podTemplate.imagePullSecrets \
	spec.podTemplate.securityContext spec.podTemplate.containers spec.podTemplate.initContainers spec.podTemplate.volumes spec.podTemplate.env \
	spec.networkPolicy.from spec.networkPolicy.ingress
