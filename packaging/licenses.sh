#!/bin/sh
# Prints the licenses of what is linked into a program: of Go and of each module, as the program itself lists them.
# usage: licenses.sh PROGRAM
set -eu
go=${GO:-go}

section() { # TITLE FOLDER
	found=
	for file in "$2"/LICENSE* "$2"/NOTICE* "$2"/COPYING*; do
		test -f "$file" || continue
		found=yes
		printf '%s (%s)\n\n' "$1" "$(basename "$file")"
		cat "$file"
		printf '\n--------------------------------------------------------------------------------\n\n'
	done
	test -n "$found" || {
		echo "packaging: $1 has no license in $2" >&2
		exit 1
	}
}

printf 'cudatrace contains the following software.\n\n'
section "Go $("$go" env GOVERSION)" "$("$go" env GOROOT)"
"$go" version -m "$1" | awk '$1 == "dep" { print $2, $3 }' | while read -r module version; do
	section "$module $version" "$("$go" list -m -f '{{.Dir}}' "$module")"
done
