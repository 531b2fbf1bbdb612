#!/bin/sh
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Succeeds if clients are served here: this node answers to the password of the Secret, and
# is in a cluster that has all of its slots, and if it is a replica, it follows its master.
#
# From the environment: POD_IP, PORT and GLASSBACK_AUTH, as for start.sh.
set -u
exec 2>/dev/null

# One line, which the Pod's events show.
no() {
	printf 'Not ready: %s\n' "$1"
	exit 1
}

# As in live.sh.
. "${0%/*}/timeout.sh"

if [ -n "${GLASSBACK_AUTH:-}" ]; then
	REDISCLI_AUTH=$(cat "$GLASSBACK_AUTH") || no "cannot read the password in $GLASSBACK_AUTH."
	export REDISCLI_AUTH
fi

# ask has redis-cli send one command. One that reads several from its input first has
# redis-server send all of its documentation, 170 kB. What timeout ended has no reply, only
# what a shell may have said of it.
ask() {
	reply=$(timeout 4 redis-cli -h "$POD_IP" -p "$PORT" "$@" 2>&1)
	case $? in 124 | 143) reply='nothing within 4 s' ;; esac
}
first() { printf '%s\n' "$reply" | sed -n 1p | tr -d '\r'; }

ask PING
[ "$reply" = PONG ] || no "PING is answered: $(first)"

ask CLUSTER INFO
case $reply in
*cluster_state:ok*) ;;
*) no "CLUSTER INFO is answered: $(first)" ;;
esac

ask INFO replication
case $reply in
*role:master*) ;;
*role:slave*master_link_status:up*) ;;
*role:slave*) no "this replica has no connection to its master: master_link_status:down" ;;
*) no "INFO replication is answered: $(first)" ;;
esac
