#!/bin/sh
# Prints the version of this source: that of the first heading of CHANGELOG.md. A version that is not released yet is
# 1.2.3-dev, with the commit behind it in a clone: 1.2.3-dev+gCOMMIT. A source with changes ends with .dirty.
set -eu
cd "$(dirname "$0")/.."
heading=$(sed -n '/^## /{s/^## //p;q;}' CHANGELOG.md)
version=${heading%% *}
case $version in
[0-9]*.[0-9]*.[0-9]*) ;;
*)
	echo "packaging: the first heading of CHANGELOG.md is \"$heading\": write \"## 1.2.3 (2026-12-31)\", or \"## 1.2.3 (not released yet)\"" >&2
	exit 1
	;;
esac
case $heading in
*"(not released yet)") version=$version-dev ;;
esac
if commit=$(git describe --always --dirty=.dirty --abbrev=12 --exclude '*' 2>/dev/null); then
	case $version$commit in
	*-dev* | *.dirty) version=$version+g$commit ;;
	esac
fi
echo "$version"
