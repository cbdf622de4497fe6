#!/bin/sh
# Installs, as Debian's packages, what `make release` and the tests of what people install need: rpm makes and reads .rpm
# files, qemu-user runs programs of arm64, groff reads manual pages, zsh and fish complete command lines. Commands
# that are in PATH already are not installed. Arguments name more: COMMAND:PACKAGE.
set -eu

say() { printf 'packaging: %s\n' "$*" >&2; }

packages=
for pair in rpmbuild:rpm qemu-aarch64:qemu-user groff:groff-base zsh:zsh fish:fish "$@"; do
	command -v "${pair%:*}" >/dev/null 2>&1 || packages="$packages ${pair#*:}"
done
test -n "$packages" || exit 0
command -v apt-get >/dev/null 2>&1 || {
	say "there is no apt-get here; install$packages"
	exit 1
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
	# shellcheck disable=SC2086 # several packages
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages
}
# The lists of packages may be missing or old.
install >"$log" 2>&1 || { apt-get update -qq && install; } >"$log" 2>&1 || {
	say "apt-get could not install$packages ($(grep '^E:' "$log" | head -n 1)); check that this is root, apt's sources and the network"
	exit 1
}
say "installed$packages"
