# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0
#
# timeout SECONDS COMMAND … runs a command, and ends it after so many seconds. All processes that it starts have ended when it returns. The
# program timeout of busybox leaves a process behind at each call, and redis-server, as process 1, does not wait for it.
timeout() {
	limit=$1
	shift
	"$@" &
	command=$!
	(
		trap 'kill $!; wait; exit' TERM
		sleep "$limit" &
		wait $! && kill "$command"
	) >/dev/null 2>&1 &
	timer=$!
	wait "$command"
	code=$?
	{ kill "$timer"; wait "$timer"; } 2>/dev/null
	return "$code"
}
