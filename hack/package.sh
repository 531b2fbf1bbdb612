#!/bin/sh
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs packages with a program that tests run: package.sh PROGRAM PACKAGE…
#
# It needs root on Debian or Ubuntu. Elsewhere, or if the installation fails, it prints one line, and the tests that need the program are
# skipped.
set -eu

if [ $# -lt 2 ]; then
	echo "usage: $0 PROGRAM PACKAGE…" >&2
	exit 2
fi
program=$1
shift
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "$program: it is not in PATH, and this script can install it only as root on Debian or Ubuntu: tests that need it are skipped" >&2
	exit 0
fi
echo "$program: installing $*" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# install writes the output of apt-get into $log.
install() {
	DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=yes LC_ALL=C apt-get -qq -o DPkg::Lock::Timeout=120 "$@" >>"$log" 2>&1 </dev/null
}
install install -y --no-install-recommends --no-remove "$@" ||
	{ install update && install install -y --no-install-recommends --no-remove "$@"; } ||
	echo "$program: apt-get install $* failed: $(sed -n 's/^E: //p' "$log" | tail -n 1): tests that need it are skipped" >&2
