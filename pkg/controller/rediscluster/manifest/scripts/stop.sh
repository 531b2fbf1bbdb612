#!/bin/sh
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Hands the slots of a master over to a replica before redis-server is asked to end. Without it, nobody serves
# these slots until the other nodes have noticed. It succeeds in any case: the Pod ends anyway.
#
# From the environment: POD_IP, PORT and GLASSBACK_AUTH, as for start.sh.
set -u
exec 2>/dev/null

# It may leave processes behind: the container ends.
command -v timeout >/dev/null || timeout() { shift && "$@"; }

if [ -n "${GLASSBACK_AUTH:-}" ]; then
	REDISCLI_AUTH=$(cat "$GLASSBACK_AUTH") || exit 0
	export REDISCLI_AUTH
fi

ask() { timeout 2 redis-cli "$@"; }

me=$(ask -h "$POD_IP" -p "$PORT" CLUSTER MYID)
[ -n "$me" ] || exit 0

# A line of CLUSTER NODES is ID IP:PORT@BUSPORT FLAGS MASTER-ID …. A replica that failed has more flags than "slave". Nodes that have
# just lost their connection connect again within a second. All of it takes less than the 60 s in which the container must end.
failovers=0
for attempt in 1 2; do
	replicas=$(ask -h "$POD_IP" -p "$PORT" CLUSTER NODES |
		sed -n "s/^[0-9a-f]* \\([^ @]*\\):\\([0-9]*\\)@[^ ]* slave $me .*/\\1,\\2/p")
	[ -n "$replicas" ] || exit 0
	for replica in $replicas; do
		case $(ask -h "${replica%,*}" -p "${replica#*,}" INFO replication) in
		*"master_host:$POD_IP"[!0-9a-f.:]*master_link_status:up*) ;;
		*) continue ;; # It copies the data of another master, or none.
		esac
		# Redis gives a failover up after 5 s, and this node then accepts writes. A replica that is ready just then can still take
		# over, without these writes. So this node accepts none until it has handed over, or ends.
		ask -h "$POD_IP" -p "$PORT" CLIENT PAUSE 60000 WRITE >/dev/null
		[ "$(ask -h "${replica%,*}" -p "${replica#*,}" CLUSTER FAILOVER)" = OK ] || continue
		if timeout 6 redis-cli -h "$POD_IP" -p "$PORT" -r 60 -i 0.1 INFO replication | grep -q '^role:slave'; then
			ask -h "$POD_IP" -p "$PORT" CLIENT UNPAUSE >/dev/null
			exit 0
		fi
		failovers=$((failovers + 1))
		[ "$failovers" -lt 2 ] || exit 0
	done
	sleep 1
done
exit 0
