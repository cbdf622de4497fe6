#!/bin/sh
# Puts DuckDB, or ClickHouse's engine, for Node.js into node_modules beside this script.
#
#   install.sh duckdb        24 MB
#   install.sh clickhouse    178 MB
#
# Only the packages' own archives are fetched: none of their dependencies, none of their scripts are run. Each
# archive must have the SHA-512 that package.json pins. Running it again is cheap.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
cd "$here"

say() { printf 'sqlengines: %s\n' "$*" >&2; }

case ${1-} in
duckdb) packages='@duckdb/node-api @duckdb/node-bindings @duckdb/node-bindings-linux-x64' ;;
clickhouse) packages=@chdb/lib-linux-x64-gnu ;;
*)
	say 'usage: install.sh duckdb|clickhouse'
	exit 2
	;;
esac
if [ "$(uname -s) $(uname -m)" != 'Linux x86_64' ]; then
	say "no archive for this machine is pinned; the tests that need $1 are skipped"
	exit 0
fi

pin() { sed -n 's,.*"'"$1"'": "\('"$2"'[^"]*\)".*,\1,p' package.json; }

for tool in node npm tar; do
	command -v "$tool" >/dev/null 2>&1 || {
		say "$tool is missing; install Node.js 20 or newer (with npm) and tar"
		exit 1
	}
done

mkdir -p node_modules
scratch=$(mktemp -d node_modules/.install.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

fetch() {
	package=$1 version=$(pin "$1" '[0-9]') integrity=$(pin "$1" sha512-)
	target=node_modules/$package
	if [ -f "$target/.integrity" ] && [ "$(cat "$target/.integrity")" = "$integrity" ]; then
		return
	fi
	npm pack --loglevel=error --ignore-scripts --pack-destination "$scratch" "$package@$version" >"$scratch/name" 2>"$scratch/log" || {
		code=$(sed -n 's/^npm error code //p' "$scratch/log" | head -n 1)
		say "npm could not fetch $package@$version (${code:-$(head -n 1 "$scratch/log")}); check npm's registry and the network"
		exit 1
	}
	archive=$scratch/$(tail -n 1 "$scratch/name")
	got=$(node -p "'sha512-' + require('crypto').createHash('sha512').update(require('fs').readFileSync(process.argv[1])).digest('base64')" "$archive")
	if [ "$got" != "$integrity" ]; then
		say "$package@$version is not the archive that package.json pins (got $got, want $integrity); it was not installed"
		exit 1
	fi
	rm -rf "$scratch/new"
	mkdir "$scratch/new"
	tar -xzf "$archive" -C "$scratch/new" --strip-components=1
	rm "$archive"
	printf '%s\n' "$integrity" >"$scratch/new/.integrity"
	rm -rf "$target"
	mkdir -p "$(dirname "$target")"
	mv "$scratch/new" "$target"
	say "installed $package@$version"
}

for package in $packages; do fetch "$package"; done
