#!/bin/sh
# Copyright The Glassback Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Chromium in which tests open the page, where there is none: see package.sh.
#
# Any program of the family will do. Ubuntu has no package of it, but a snap, which is nothing for a script to install. Without a font there
# would be no text to look at.
set -eu

for program in chromium chromium-browser google-chrome google-chrome-stable; do
	! command -v "$program" >/dev/null || exit 0
done
exec "$(dirname "$0")/package.sh" chromium chromium fonts-liberation
