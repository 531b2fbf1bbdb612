#!/bin/sh
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs Chromium, in which tests open the page, unless the machine has one: see package.sh.
#
# Each of these programs suffices. On Ubuntu, Chromium is a snap, which this script does not install. Without a font, the page would show no
# text.
set -eu

for program in chromium chromium-browser google-chrome google-chrome-stable; do
	! command -v "$program" >/dev/null || exit 0
done
exec "$(dirname "$0")/package.sh" chromium chromium fonts-liberation
