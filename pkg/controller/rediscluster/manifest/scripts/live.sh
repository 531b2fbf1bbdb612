#!/bin/sh
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Succeeds if redis-server answers at all. That it is loading, has lost its master, cannot
# write to its disk, is busy with a script or wants a password are answers too: a restart
# would make none of that better. So it needs no password itself.
#
# From the environment: POD_IP and PORT.
set -u
exec 2>/dev/null # What redis-cli and the shell say of it is not worth a line.

# Before the probe's own limit, after which redis-cli would be left behind: what ends the
# probe does not end its children.
. "${0%/*}/timeout.sh"

reply=$(timeout 4 redis-cli -h "$POD_IP" -p "$PORT" PING)
[ -n "$reply" ] && exit
echo "redis-server does not answer: there is no reply to PING on port $PORT within 4 s."
exit 1
