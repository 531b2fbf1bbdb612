#!/bin/sh
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds devcluster: build.sh OUTPUT
# Builds the control plane of another Kubernetes, for the environment variable DEVCLUSTER_CONTROL_PLANE: build.sh OUTPUT VERSION
#
# The first build compiles Kubernetes, which takes minutes. It prints this, and its progress. Later builds take seconds; without a change,
# about two.
#
# The build has no -trimpath, and CGO_ENABLED is as the Makefile sets it. Both are part of the keys of Go's build cache. With other values
# here than for "go vet ./...", Kubernetes would be compiled once more.
set -eu

if [ $# -ne 1 ] && [ $# -ne 2 ]; then
	echo "usage: $0 OUTPUT [VERSION]" >&2
	exit 2
fi
case $1 in
/*) output=$1 ;;
*) output=$PWD/$1 ;;
esac
cd "$(dirname "$0")"
command -v go >/dev/null || { echo "devcluster: go is not in PATH: install Go 1.26 or later" >&2; exit 1; }

# generate makes a module that has only the control plane of a version, and enters it. The versions of its dependencies are those that this
# version of Kubernetes was released with.
generate() {
	module=$output.src
	mkdir -p "$module"
	cp controlplane.go.txt "$module/main.go"
	released=$(go list -m -f '{{.GoMod}}' "k8s.io/kubernetes@v$1")
	{
		echo "module controlplane"
		grep -E '^(go|godebug) ' "$released"
		echo "require k8s.io/kubernetes v$1"
		sed -n 's|^\t\(k8s.io/[a-z-]*\) => ./staging/.*|replace \1 => \1 v0.'"${1#1.}"'|p' "$released"
	} >"$module/go.mod"
	cd "$module"
	export GOFLAGS="${GOFLAGS:-} -mod=mod"
}
if [ $# -eq 2 ]; then
	generate "$2"
fi

log=$(mktemp)
build=
packages=
cleanup() {
	if [ -n "$build" ]; then
		kill "$build" 2>/dev/null || true
		wait "$build" 2>/dev/null || true
	fi
	rm -f "$log" "$packages"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# tty is set if standard error is a terminal, where the progress can be rewritten in place.
tty=
[ -t 2 ] && tty=yes

# progress prints its argument: on a terminal always and in place, elsewhere every 15 seconds.
last=0
progress() {
	if [ -n "$tty" ]; then
		printf '\r\033[K%s' "$1" >&2
		return
	fi
	now=$(date +%s)
	[ $((now - last)) -ge 15 ] || return 0
	last=$now
	echo "$1" >&2
}

announce() {
	[ -z "$announced" ] || return 0
	announced=yes
	echo "devcluster: building; the first build compiles Kubernetes, which takes several minutes; later builds are faster" >&2
	last=$(date +%s)
}
announced=

# still_building announces the build if it has printed nothing for 5 seconds: it compiles few packages, or only links.
began=$(date +%s)
still_building() {
	[ $(($(date +%s) - began)) -lt 5 ] || announce
}

# follow COMMAND… runs the command, with its standard error in $log, and calls $show until the command ends.
follow() {
	: >"$log"
	"$@" 2>"$log" &
	build=$!
	while kill -0 "$build" 2>/dev/null; do
		$show
		still_building
		sleep 0.2
	done
	code=0
	wait "$build" || code=$?
	build=
	[ -z "$tty" ] || [ -z "$announced" ] || printf '\r\033[K' >&2
	if [ $code -ne 0 ]; then
		# Print the log without the progress: downloads of modules, and names of packages.
		grep -v -e '^go: downloading ' -e '^[a-z0-9][A-Za-z0-9_./~-]*$' "$log" >&2 || true
		echo "devcluster: the build failed" >&2
		exit 1
	fi
}

show_downloads() {
	n=$(grep -c '^go: downloading ' "$log" || true)
	[ "$n" -gt 0 ] || return 0
	announce
	progress "devcluster: downloading modules: $n"
}

show_packages() {
	n=$(grep -c '^[a-z0-9][A-Za-z0-9_./~-]*$' "$log" || true)
	[ "$n" -gt 50 ] || return 0
	announce
	left=
	seconds=$(($(date +%s) - compiling))
	# Later packages import more, and take longer: half of the packages take a third of the time. The first ones say little.
	[ "$n" -lt $((total / 4)) ] ||
		left=", about $(awk "BEGIN { printf \"%.0f\", $seconds * (($total / $n) ^ 1.5 - 1) / 60 + 0.5 }") min left"
	progress "devcluster: compiled $n of at most $total packages$left"
}

count_packages() { go list -deps . >"$packages"; }

packages=$(mktemp)
show=show_downloads
follow count_packages
total=$(grep -c . "$packages")
rm -f "$packages"

# Kubernetes' programs report the version in these variables. Without the flags, it is v0.0.0.
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
major=${version#v}
major=${major%%.*}
minor=${version#v*.}
minor=${minor%%.*}
stamps=
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	stamps="$stamps -X $package.gitVersion=$version -X $package.gitMajor=$major -X $package.gitMinor=$minor -X $package.gitTreeState=clean"
done

mkdir -p "$(dirname "$output")"
show=show_packages
compiling=$(date +%s)
follow go build -v -buildvcs=false -ldflags "-s -w$stamps" -o "$output" .
[ -z "$announced" ] || echo "devcluster: built $output" >&2
