#!/bin/sh
# Installs Chromium, in which tests open traces: Debian's package chromium. Where a Chromium is in PATH
# already, nothing is done.
set -eu

say() { printf 'chromium: %s\n' "$*" >&2; }

for name in chromium chromium-browser google-chrome; do
	if command -v "$name" >/dev/null 2>&1; then
		exit 0
	fi
done
command -v apt-get >/dev/null 2>&1 || {
	say "there is no apt-get here; put a chromium or google-chrome into PATH"
	exit 1
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } >"$log" 2>&1 || {
	say "apt-get could not install it ($(grep '^E:' "$log" | head -n 1)); check that this is root, apt's sources and the network"
	exit 1
}
say "installed $(chromium --version 2>/dev/null | head -n 1)"
