#!/bin/sh
# Puts DuckDB, or ClickHouse's engine, for Node.js into node_modules beside this script. Running it again is cheap.
#
#   install.sh duckdb        24 MB
#   install.sh clickhouse    178 MB
set -eu

cd "$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)"
name=sqlengines
. ../npm.sh

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
for package in $packages; do npm_fetch "$package"; done
