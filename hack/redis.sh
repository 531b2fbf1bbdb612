#!/bin/sh
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs the redis-server that tests run, unless the machine has one: see package.sh.
#
# The package is redis-tools. It has the same program under the name redis-check-rdb, and no service that would start.
set -eu

for program in redis-server redis-check-rdb; do
	! command -v "$program" >/dev/null || exit 0
done
exec "$(dirname "$0")/package.sh" redis-server redis-tools
