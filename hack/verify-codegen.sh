#!/usr/bin/env bash
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0

# Fails if generated code or manifests differ from the output of
# hack/update-codegen.sh. It works on a copy, and does not change the checkout.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
GENERATED=(pkg/apis pkg/generated artifacts/crd)

cp -a go.mod go.sum hack pkg artifacts "$copy"
# The directories of generated files start empty, so that no file stays that is no longer generated.
rm -rf "$copy/pkg/generated"
find "$copy/artifacts/crd" -name '*.yaml' -delete
find "$copy/pkg/apis" -name 'zz_generated.*' -delete
# The copy uses the generators in the checkout's bin, so that they are built only once.
mkdir -p bin/tools "$copy/bin" && ln -s "$PWD/bin/tools" "$copy/bin/tools"
if ! "$copy/hack/update-codegen.sh" >"$copy/log" 2>&1; then
	cat "$copy/log" >&2
	echo "verify-codegen: the generators failed" >&2
	exit 1
fi
failed=
for dir in "${GENERATED[@]}"; do
	diff -Naur "$dir" "$copy/$dir" || failed=1
done
if [ -n "$failed" ]; then
	echo "verify-codegen: generated files are out of date: run 'make generate' and commit the result" >&2
	exit 1
fi
