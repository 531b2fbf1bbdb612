#!/bin/sh
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs the packages that devcluster's real node needs, and makes its first images: node.sh STORE
#
# It installs only packages that are missing. It never replaces a containerd that exists, such as Docker's. It starts no program.
#
# If the machine cannot have a real node, it prints the reason in one line and exits with 0: devcluster then simulates the node.
set -eu

if [ $# -ne 1 ]; then
	echo "usage: $0 STORE" >&2
	exit 2
fi
case $1 in
/*) store=$1 ;;
*) store=$PWD/$1 ;;
esac
cd "$(dirname "$0")"
# nft is in /usr/sbin on Debian. su and sudo can leave that out of PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

log=
policy=
cleanup() {
	[ -z "$log" ] || rm -f "$log"
	[ -z "$policy" ] || rm -f "$policy"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# simulated REASON… prints the reason, and ends the script without a real node.
simulated() {
	echo "real node: $*" >&2
	exit 0
}

# has_plugins DIRECTORY succeeds if the directory has all CNI plugins.
has_plugins() {
	for plugin in host-local loopback ptp; do
		[ -x "$1/$plugin" ] || return 1
	done
}

# look sets $missing to the packages whose programs are missing.
look() {
	missing=
	for pair in containerd:containerd runc:runc crun:crun nft:nftables; do
		command -v "${pair%:*}" >/dev/null || missing="$missing ${pair#*:}"
	done
	has_plugins /opt/cni/bin || has_plugins /usr/lib/cni || missing="$missing containernetworking-plugins"
	missing=${missing# }
}

# apt_get ARGUMENT… runs apt-get, with its output in $log. It does not inherit the lock of this script.
apt_get() {
	DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=yes LC_ALL=C apt-get -qq -o DPkg::Lock::Timeout=120 "$@" >>"$log" 2>&1 </dev/null 9<&-
}

# update downloads apt's lists, at most once. Without a network, it fails and keeps the old lists.
updated=
update() {
	[ -z "$updated" ] || return 1
	updated=yes
	apt_get -o Acquire::Retries=1 update
}

# An installed package starts its services, unless this program forbids it. An administrator can have one. The mark is in this script's own.
program=/usr/sbin/policy-rc.d
mark="from devcluster's node.sh, for as long as it installs packages"

# install installs $missing.
install() {
	if [ ! -e "$program" ]; then
		policy=$program
		printf '#!/bin/sh\n# %s\nexit 101\n' "$mark" >"$program"
		chmod 755 "$program"
	fi
	# shellcheck disable=SC2086 # one argument a package
	set -- install -y --no-install-recommends --no-remove $missing
	code=0
	apt_get "$@" || { update && apt_get "$@"; } || code=$?
	[ -z "$policy" ] || rm -f "$policy"
	policy=
	return $code
}

look
[ "$(uname -s)" = Linux ] || simulated "it needs Linux: the simulated one is used"
[ "$(id -u)" = 0 ] ||
	simulated "it needs root${missing:+, and $missing}: the simulated one is used (sudo make demo has a real one)"
if ! command -v apt-get >/dev/null; then
	[ -z "$missing" ] || simulated "it needs $missing, which only apt-get can install here (Debian, Ubuntu): the simulated one is used"
else
	# Only one node.sh runs at a time on a machine: all of them use policy-rc.d, and those of one checkout also the images.
	exec 9</var/lib/dpkg
	if command -v flock >/dev/null && ! flock -n 9; then
		echo "real node: waiting for another make that prepares it" >&2
		flock 9
	fi
	if grep -qs "$mark" "$program"; then # left by a run that was killed
		rm -f "$program"
	fi
fi

if [ -n "$missing" ]; then
	look # another process may have installed it in the meantime
fi
if [ -n "$missing" ]; then
	log=$(mktemp)
	echo "real node: installing $missing" >&2
	if ! install; then
		simulated "apt-get install $missing failed: $(sed -n 's/^E: //p' "$log" | tail -n 1): the simulated one is used"
	fi
	look
	[ -z "$missing" ] ||
		simulated "$missing was installed, but its programs are not in PATH, /opt/cni/bin or /usr/lib/cni: the simulated one is used"
fi

# The images. Their programs are built each time. Without a change, this is quick.
command -v go >/dev/null || simulated "it needs go in PATH to make its images: the simulated one is used"
if [ -z "${HOME-}" ]; then # go needs it
	HOME=$(getent passwd "$(id -u)" | cut -d : -f 6)
	export HOME
fi
tools=$PWD/../../bin/tools
mkdir -p "$tools"
go build -buildvcs=false -o "$tools/mkimage" ./mkimage 9<&-
CGO_ENABLED=0 go build -buildvcs=false -ldflags "-s -w" -o "$tools/pause" ./pause 9<&-

make_images() { "$tools/mkimage" --store "$store" --pause "$tools/pause" 2>"$log" 9<&-; }
[ -n "$log" ] || log=$(mktemp)
if ! make_images; then
	# A mirror removes old versions of packages. With old lists, downloads fail.
	{ command -v apt-get >/dev/null && update && make_images; } ||
		simulated "its images cannot be made: $(tail -n 1 "$log"): the simulated one is used"
fi

# With sudo, the files in the checkout belong to the user who called it.
if [ -n "${SUDO_UID-}" ] && [ -n "${SUDO_GID-}" ]; then
	chown -R "$SUDO_UID:$SUDO_GID" "$store" "$tools/mkimage" "$tools/pause"
	chown "$SUDO_UID:$SUDO_GID" "$tools" "$(dirname "$tools")"
fi
