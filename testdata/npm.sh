# The part that the install.sh of testdata/traceprocessor and testdata/sqlengines share: fetches packages of npm that the
# package.json beside the script pins. Only a package's own archive is fetched: none of its dependencies, none of its scripts are
# run. The archive must have the SHA-512 of package.json. To be read in with '.', in the folder of the script, after
# setting name, which begins each line for people.

say() { printf '%s: %s\n' "$name" "$*" >&2; }

# npm_pin PACKAGE BEGINNING: the version (beginning with a digit) or the SHA-512 of a package.
npm_pin() { sed -n 's,.*"'"$1"'": "\('"$2"'[^"]*\)".*,\1,p' package.json; }

npm_tools() {
	for tool in node npm tar; do
		command -v "$tool" >/dev/null 2>&1 || {
			say "$tool is missing; install Node.js 20 or newer (with npm) and tar"
			exit 1
		}
	done
}

# npm_fetch PACKAGE [FILE...]: unpacks a package, or only some files of it, into node_modules, unless that is done.
npm_fetch() {
	package=$1 version=$(npm_pin "$1" '[0-9]') integrity=$(npm_pin "$1" sha512-)
	target=node_modules/$package
	shift
	if [ -f "$target/.integrity" ] && [ "$(cat "$target/.integrity")" = "$integrity" ]; then
		return
	fi
	npm_tools
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
		say "$package@$version is not the archive that package.json pins (got $got, want $integrity); it was not installed"
		exit 1
	fi
	mkdir "$scratch/new"
	tar -xzf "$archive" -C "$scratch/new" --strip-components=1 "$@"
	printf '%s\n' "$integrity" >"$scratch/new/.integrity"
	rm -rf "$target"
	mkdir -p "$(dirname "$target")"
	mv "$scratch/new" "$target"
	rm -rf "$scratch"
	say "installed $package@$version"
}
