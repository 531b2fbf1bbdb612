#!/bin/sh
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs the redis-server that tests run, where there is none: root on Debian or Ubuntu. Elsewhere one line says so, and those tests are
# skipped.
#
# The package is redis-tools: it has the program itself, under another name, and no service that would be started.
set -eu

for program in redis-server redis-check-rdb; do
	! command -v "$program" >/dev/null || exit 0
done
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "redis-server: there is none in PATH, and only root on Debian or Ubuntu can have it installed here: tests that need it are skipped" >&2
	exit 0
fi
echo "redis-server: installing redis-tools" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# install shows what it prints only if it fails.
install() {
	DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=yes LC_ALL=C apt-get -qq -o DPkg::Lock::Timeout=120 "$@" >>"$log" 2>&1 </dev/null
}
install install -y --no-install-recommends --no-remove redis-tools ||
	{ install update && install install -y --no-install-recommends --no-remove redis-tools; } ||
	echo "redis-server: apt-get install redis-tools failed: $(sed -n 's/^E: //p' "$log" | tail -n 1): tests that need it are skipped" >&2
