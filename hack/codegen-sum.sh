#!/usr/bin/env bash
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0

# Prints a hash of all that "make generate" reads and writes, by which "make check" sees in a moment whether it has to run again.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
files=$(find pkg/apis pkg/generated artifacts/crd hack/tools/go.mod hack/tools/go.sum hack/tools/trimcrd hack/update-codegen.sh \
	hack/boilerplate.go.txt go.mod -type f ! -name '*_test.go' ! -name revisions.txt | LC_ALL=C sort)
{ echo "$files" && git hash-object --stdin-paths <<<"$files"; } | git hash-object --stdin
