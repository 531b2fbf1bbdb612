#!/bin/sh
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs a program that tests run: root on Debian or Ubuntu. Elsewhere, or if that fails, one line says so, and those tests are skipped:
# package.sh PROGRAM PACKAGE…
set -eu

if [ $# -lt 2 ]; then
	echo "usage: $0 PROGRAM PACKAGE…" >&2
	exit 2
fi
program=$1
shift
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "$program: there is none in PATH, and only root on Debian or Ubuntu can have it installed here: tests that need it are skipped" >&2
	exit 0
fi
echo "$program: installing $*" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# install shows what it prints only if it fails.
install() {
	DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=yes LC_ALL=C apt-get -qq -o DPkg::Lock::Timeout=120 "$@" >>"$log" 2>&1 </dev/null
}
install install -y --no-install-recommends --no-remove "$@" ||
	{ install update && install install -y --no-install-recommends --no-remove "$@"; } ||
	echo "$program: apt-get install $* failed: $(sed -n 's/^E: //p' "$log" | tail -n 1): tests that need it are skipped" >&2
