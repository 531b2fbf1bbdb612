#!/usr/bin/env bash
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0

# Prints the manifests of a directory of artifacts, with an image:
#
#   render.sh [--without-crds] KUBECTL DIRECTORY NAME[:TAG][@DIGEST]
#
# kustomize reads the name of the image from a kustomization. This script makes a temporary
# one in bin, and edits no file in artifacts.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
patches=
if [ "${1:-}" = --without-crds ]; then
	# shellcheck disable=SC2016
	patches='{target: {kind: CustomResourceDefinition}, patch: "{$patch: delete, kind: CustomResourceDefinition, metadata: {name: all}}"}'
	shift
fi
if [ $# -ne 3 ]; then
	echo "usage: $0 [--without-crds] KUBECTL DIRECTORY NAME[:TAG][@DIGEST]" >&2
	exit 2
fi
kubectl=$1 directory=$2 image=$3
if [ ! -f "artifacts/$directory/kustomization.yaml" ]; then
	echo "there is no artifacts/$directory/kustomization.yaml" >&2
	exit 1
fi

name=${image%%@*} tag='' digest=''
[ "$name" = "$image" ] || digest=${image#*@}
# A colon before the last slash belongs to the port of a registry.
if [[ ${name##*/} == *:* ]]; then
	tag=${name##*:} name=${name%:*}
elif [ -z "$digest" ]; then
	tag=latest
fi

# The operator's flag --backup-image has the name, too.
replacements=''
if [[ $("$kubectl" kustomize "artifacts/$directory") == *'kind: Deployment'* ]]; then
	replacements='{source: {kind: Deployment, name: glassback-manager, fieldPath: "spec.template.spec.containers.[name=manager].image"},
  targets: [{select: {kind: Deployment, name: glassback-manager}, options: {delimiter: "=", index: 1},
    fieldPaths: ["spec.template.spec.containers.[name=manager].args.0"]}]}'
fi

mkdir -p bin
overlay=$(mktemp -d bin/render.XXXXXX)
trap 'rm -rf "$overlay"' EXIT
cat >"$overlay/kustomization.yaml" <<EOF
resources: ["../../artifacts/$directory"]
images: [{name: glassback/glassback, newName: "$name", newTag: "$tag", digest: "$digest"}]
patches: [$patches]
replacements: [$replacements]
EOF
"$kubectl" kustomize "$overlay"
