#!/usr/bin/env bash
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs make targets one after another, and prints how long each took: steps.sh [-k] NAME TARGET…
#
# It stops at the first target that fails. With -k it goes on, and ends with a table of all targets and the tests that each has skipped.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
go_on=
if [ "${1:-}" = -k ]; then
	go_on=yes
	shift
fi
if [ $# -lt 2 ]; then
	echo "usage: $0 [-k] NAME TARGET…" >&2
	exit 2
fi
name=$1
shift

duration() { printf '%dm%02ds' $(($1 / 60)) $(($1 % 60)); }

skipped=bin/skipped.txt # what "make test" empties, and the tests of each target add to
table=
failed=0
begin=$SECONDS
for step in "$@"; do
	echo "──── $name: $step"
	start=$SECONDS
	code=0
	[ -z "$go_on" ] || rm -f "$skipped"
	"${MAKE:-make}" --no-print-directory "$step" || code=$?
	took=$(duration $((SECONDS - start)))
	result=passed
	if [ "$code" -ne 0 ]; then
		result=FAILED
		failed=$code
		echo "──── $name: $step FAILED after $took (make $step runs it alone)" >&2
		[ -n "$go_on" ] || exit "$code"
	else
		echo "──── $name: $step passed in $took"
	fi
	if [ -n "$go_on" ]; then
		table+=$(printf '%-14s %8s  %s' "$step" "$took" "$result")$'\n'
		[ ! -s "$skipped" ] || table+=$(sed 's/^/    skipped: /' "$skipped")$'\n'
	fi
done
[ -z "$go_on" ] || printf '\n%s' "$table"
[ "$failed" -eq 0 ] || exit "$failed"
echo "──── $name: all passed in $(duration $((SECONDS - begin)))"
