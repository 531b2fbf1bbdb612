#!/bin/sh
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs axe-core in bin/tools/axe: tests run it in the page to check its accessibility. hack/axe/package-lock.json pins it by its hash.
# Without npm or a registry, one line says so, and that test is skipped.
set -eu

cd "$(dirname "$0")/.."
to=bin/tools/axe

if [ -f $to/node_modules/axe-core/axe.min.js ] && cmp -s hack/axe/package-lock.json $to/package-lock.json; then
	exit 0
fi
if ! command -v npm >/dev/null; then
	echo "axe-core: npm is not in PATH: the test that needs it is skipped" >&2
	exit 0
fi
mkdir -p $to
cp hack/axe/package.json hack/axe/package-lock.json $to
if ! problem=$(npm ci --prefix $to --ignore-scripts --no-audit --no-fund --fetch-retries 0 --loglevel error 2>&1); then
	rm -rf $to
	echo "axe-core: npm ci failed: $(echo "$problem" | sed -n '1s/^npm error //p'): the test that needs it is skipped" >&2
fi
