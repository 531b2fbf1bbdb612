#!/usr/bin/env bash
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs make targets one after another, prints how long each took, and stops at
# the first that fails: steps.sh NAME TARGET…
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ $# -lt 2 ]; then
	echo "usage: $0 NAME TARGET…" >&2
	exit 2
fi
name=$1
shift

duration() { printf '%dm%02ds' $(($1 / 60)) $(($1 % 60)); }

begin=$SECONDS
for step in "$@"; do
	echo "──── $name: $step"
	start=$SECONDS
	code=0
	"${MAKE:-make}" --no-print-directory "$step" || code=$?
	took=$(duration $((SECONDS - start)))
	if [ "$code" -ne 0 ]; then
		echo "──── $name: $step FAILED after $took (make $step runs it alone)" >&2
		exit "$code"
	fi
	echo "──── $name: $step passed in $took"
done
echo "──── $name: all passed in $(duration $((SECONDS - begin)))"
