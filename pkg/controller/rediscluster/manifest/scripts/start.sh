#!/bin/sh
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Starts a node: the first and only process of its container. It is run by whatever sh an
# image has, so that it is POSIX, and needs no more than cat, grep, sed and tr.
#
# From the environment: POD_IP, the Pod's; GLASSBACK_AUTH, the file of the password, not
# set if there is none; GLASSBACK_HOSTNAME, the hostname of this node for clients, not set if
# there is none; GLASSBACK_CONFIG, where redis.conf is, for tests.
set -eu

# The container's status shows the line that a script ended with.
refuse() {
	printf 'Not started: %s\n' "$1" >&2
	exit 1
}

unset password quoted auth # Were they in the environment, redis-server would inherit them.
file=${GLASSBACK_CONFIG:-/etc/glassback}/redis.conf
[ -r "$file" ] || refuse "there is no $file."
[ -n "${POD_IP:-}" ] || refuse 'POD_IP is not set: nobody could be told where this node is.'
conf=$(cat "$file")

# A node has a place, which is in nodes.conf, and data. Whether they are there together is
# the difference between a node that is new and one that has lost something. Redis does not
# ask: without its data, a master is empty, and its replicas empty themselves to be like it.
# Without its place it is somebody else, who claims the slots of the keys that it finds.
#
# A node that is killed while it starts for the first time is none of these. Redis makes
# nodes.conf first, empty, then writes itself into it, and then makes the manifest of the
# data. Only then does it listen. So a node without a manifest has never met another one, nor
# had a slot: its nodes.conf is empty, or has only itself, which can begin again.
dir=$(sed -n '/^dir /h;${g;s/^dir //p;}' "$file")
nodes=$dir/nodes.conf
manifest=$dir/appendonlydir/appendonly.aof.manifest
remedy='Restore it, or delete the claim (if there is one) and the Pod, for a new and empty node in its place.'
if [ ! -s "$nodes" ]; then
	[ ! -s "$manifest" ] ||
		refuse "there is data in $dir, but nodes.conf, which says whose it is, is missing or empty. $remedy"
elif ! grep -q '[ ,]myself[, ]' "$nodes" || ! grep -q '^vars currentEpoch [0-9]' "$nodes"; then
	refuse "$nodes is damaged: it does not say which node this is, or it has no end. $remedy"
elif [ ! -s "$manifest" ] && grep -v '^vars ' "$nodes" | grep -v '^$' |
	grep -qv '^[0-9a-f]* [^ ]* myself,master - [0-9]* [0-9]* [0-9]* [a-z]*$'; then
	refuse "$nodes says that this node is part of a cluster, but its data ($dir/appendonlydir) is gone. Its replicas would lose theirs too. $remedy"
fi

# The password is neither in an argument nor in the environment of any process, nor on a
# disk: printf is a builtin, and redis-server reads all of its configuration from a pipe.
auth=
if [ -n "${GLASSBACK_AUTH:-}" ]; then
	[ -r "$GLASSBACK_AUTH" ] || refuse "cannot read the password in $GLASSBACK_AUTH."
	# A shell would drop a NUL without a word. Newlines at the end it is to drop.
	password=$(LC_ALL=C tr '\000' '\001' <"$GLASSBACK_AUTH")
	[ -n "$password" ] || refuse 'the password of the Secret is empty: this node would be open to everybody.'
	[ "$password" = "$(printf '%s' "$password" | LC_ALL=C tr -d '\001-\037\177')" ] ||
		refuse 'the password of the Secret has a control character in it, like a tab or the end of a line: no client could be sure to send the same.'
	quoted=$(printf '%s' "$password" | LC_ALL=C sed 's/[\\"]/\\&/g')
	auth="requirepass \"$quoted\"
masterauth \"$quoted\""
fi

# With a hostname from its start, a node is never without it: the others would tell clients
# "?" for it. Redis before 7.0 would not start with the directive.
hostname=
case ${GLASSBACK_HOSTNAME:-}/$(redis-server --version) in
/* | *' v='[0-6].*) ;;
*) hostname="cluster-announce-hostname $GLASSBACK_HOSTNAME" ;;
esac

# What is last counts. exec, so that it is redis-server that is told to end. A shell does
# not look into what it has put into a here-document.
exec redis-server - <<EOF
$conf
cluster-announce-ip $POD_IP
$hostname
$auth
EOF
