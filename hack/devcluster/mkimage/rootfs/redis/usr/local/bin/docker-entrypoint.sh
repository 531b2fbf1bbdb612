#!/bin/sh
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0
#
# As in Docker's image: arguments that name no program are redis-server's.
case ${1-} in
-* | *.conf) set -- redis-server "$@" ;;
esac
exec "$@"
