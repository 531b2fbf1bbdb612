#!/bin/sh
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Writes the part of redis.conf that says where a node uses TLS, and then runs the script that it is given.
# All nodes must use the same protocol among themselves. So a container that restarts uses what the
# annotation of its Pod says, and not what redis.conf said when the Pod was created.
#
# From the environment: GLASSBACK_TLS, the annotation; GLASSBACK_TLS_DIR and GLASSBACK_TLS_CONF, the
# directory of the certificate and the file to write, for tests; and what the other scripts need.
set -eu

refuse() {
	printf 'Not started: %s\n' "$1" >&2
	exit 1
}

for file in tls.crt tls.key ca.crt; do
	[ -s "${GLASSBACK_TLS_DIR:-/etc/glassback-tls}/$file" ] || refuse "the Secret of spec.tls has no $file."
done
among='tls-replication yes
tls-cluster yes'
case ${GLASSBACK_TLS:-} in
'') text= ;;
both) text=$among ;;
only) text="$among
port 0" ;;
*) refuse "the annotation has a value that is not known: $GLASSBACK_TLS." ;;
esac
printf '%s\n' "$text" >"${GLASSBACK_TLS_CONF:-/tmp/tls.conf}"

exec sh "${GLASSBACK_CONFIG:-/etc/glassback}/$1"
