#!/bin/sh
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Writes the file of users before start.sh starts a node. The operator, the probes and the replicas
# can then log in. A new node has no other user, and the user default is off until the operator sets
# the users. A container that restarts keeps the users that it had.
#
# From the environment: GLASSBACK_USER, the name of the operator's user; GLASSBACK_AUTH, the file of
# its password; GLASSBACK_ACL, the file of users, for tests; and what start.sh needs.
set -eu

refuse() {
	printf 'Not started: %s\n' "$1" >&2
	exit 1
}

file=${GLASSBACK_ACL:-/tmp/users.acl}
[ -s "${GLASSBACK_AUTH:-}" ] || refuse "cannot read the password in ${GLASSBACK_AUTH:-GLASSBACK_AUTH}, or it is empty."
hash=$(printf '%s' "$(cat "$GLASSBACK_AUTH")" | sha256sum)

others=
[ ! -s "$file" ] || others=$(grep -v "^user $GLASSBACK_USER " "$file" || :)
case $others in
*'user default '*) ;;
*) others='user default off' ;;
esac

# The whole file replaces the old one at once: without a line for the user default, it would be open.
printf '%s\n' "user $GLASSBACK_USER on #${hash%% *} ~* &* +@all" "$others" >"$file.new"
mv "$file.new" "$file"

unset hash others
exec sh "${GLASSBACK_CONFIG:-/etc/glassback}/start.sh"
