#!/bin/sh
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs the redis-server that tests run, where there is none: see package.sh.
#
# The package is redis-tools: it has the program itself, under another name, and no service that would be started.
set -eu

for program in redis-server redis-check-rdb; do
	! command -v "$program" >/dev/null || exit 0
done
exec "$(dirname "$0")/package.sh" redis-server redis-tools
