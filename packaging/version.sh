#!/bin/sh
# Prints the version of this source: that of the tag v1.2.3; behind a tag 1.2.3+4.gCOMMIT; without one 0.0.0+gCOMMIT.
set -eu
cd "$(dirname "$0")/.."
if tag=$(git describe --tags --match 'v[0-9]*' --dirty=.dirty 2>/dev/null); then
	echo "${tag#v}" | sed 's/-\([0-9]*\)-g\([0-9a-f]*\)/+\1.g\2/; /+/!s/\.dirty$/+dirty/'
elif commit=$(git describe --always --dirty=.dirty --abbrev=12 --exclude '*' 2>/dev/null); then
	echo "0.0.0+g$commit"
else
	echo "packaging: this source is no clone: name its version, as in: make release VERSION=1.2.3" >&2
	exit 1
fi
