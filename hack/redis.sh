#!/bin/sh
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs the redis-server that tests run, unless the machine has one: redis.sh
# Makes bin/SERVER with the programs of another one, from packages of Debian 13: redis.sh redis8|valkey8
#
# The package is redis-tools. It has the same program under the name redis-check-rdb, and no service that would start.
set -eu

if [ $# -eq 0 ]; then
	for program in redis-server redis-check-rdb; do
		! command -v "$program" >/dev/null || exit 0
	done
	exec "$(dirname "$0")/package.sh" redis-server redis-tools
fi
case $1 in
redis8) name=redis ;;
valkey8) name=valkey ;;
*)
	echo "usage: $0 [redis8|valkey8]" >&2
	exit 2
	;;
esac
mkdir -p "$(dirname "$0")/../bin"
cd "$(dirname "$0")/../bin"
bin=$PWD/$1
[ ! -e "$bin/done" ] || exit 0
keys=/usr/share/keyrings/debian-archive-keyring.gpg
if ! command -v apt-get >/dev/null || [ ! -e "$keys" ]; then
	echo "$1: it comes from Debian 13, and needs apt-get and the package debian-archive-keyring: install it" >&2
	exit 1
fi
rm -rf "$bin"
mkdir -p "$bin/lists/partial" "$bin/archives/partial" "$bin/root"

# apt-get keeps its locks beside the status of packages, which is empty: so the packages come with all that they need, and run with their own C
# library.
: >"$bin/status"
cat >"$bin/apt.conf" <<END
Dir::Etc::SourceList "$bin/sources.list";
Dir::Etc::SourceParts "-";
Dir::State "$bin";
Dir::State::Lists "$bin/lists";
Dir::State::Status "$bin/status";
Dir::Cache "$bin";
Dir::Cache::Archives "$bin/archives";
APT::Sandbox::User "";
END
echo "deb [signed-by=$keys] http://deb.debian.org/debian trixie main" >"$bin/sources.list"
echo "$1: downloading $name-server and its libraries from Debian 13" >&2
apt_get() { APT_CONFIG="$bin/apt.conf" LC_ALL=C apt-get -qq -o Acquire::Retries=2 "$@" >/dev/null; }
apt_get update
apt_get install -y --no-install-recommends --download-only "$name-tools"
for archive in "$bin"/archives/*.deb; do
	dpkg-deb --extract "$archive" "$bin/root"
done
rm -rf "$bin/archives"

loader=$(echo "$bin"/root/usr/lib*/ld-linux-*.so.*)
libraries=$(dirname "$(find "$bin/root/usr/lib" -name libc.so.6)")
for program in server cli; do
	file=$bin/root/usr/bin/$name-$program
	[ $program = cli ] || file=$bin/root/usr/bin/$name-check-rdb
	printf '#!/bin/sh\nexec "%s" --argv0 "${0##*/}" --library-path "%s" "%s" "$@"\n' "$loader" "$libraries" "$file" >"$bin/redis-$program"
	chmod +x "$bin/redis-$program"
done
"$bin/redis-server" --version >&2
: >"$bin/done"
