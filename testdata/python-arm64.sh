#!/bin/sh
# Brings Debian's Python for arm64, of the machine's release, with its libc into FOLDER, for tests in an emulator. The machine's own
# packages stay as they are. 14 MB are fetched; what is there already stays.
set -eu

folder=$1
say() { printf 'python-arm64: %s\n' "$*" >&2; }
! test -e "$folder/usr/bin/python3" || exit 0
for tool in apt-get dpkg-deb qemu-aarch64; do
	command -v "$tool" >/dev/null || { say "there is no $tool here"; exit 1; }
done
rm -rf "$folder"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial"
folder=$(cd "$folder" && pwd)
touch "$folder/apt/status"
cat >"$folder/apt/conf" <<EOF
APT::Architecture "arm64"; APT::Architectures { "arm64"; }; APT::Sandbox::User "root"; Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Dir::State "$folder/apt"; Dir::State::status "$folder/apt/status"; Dir::Cache "$folder/apt";
EOF
export APT_CONFIG="$folder/apt/conf" DEBIAN_FRONTEND=noninteractive
cd "$folder/apt"
apt-get update -qq >log 2>&1 &&
	python=$(apt-cache depends python3-minimal | sed -n 's/.*Depends: \(python3\.[0-9]*\)-minimal$/\1/p') &&
	apt-get download -qq libc6 libgcc-s1 libffi8 zlib1g libexpat1 "$python-minimal" "lib$python-minimal" "lib$python-stdlib" >>log 2>&1 || {
	say "apt-get could not bring it: $(grep '^E:' log | head -n 1)"
	exit 1
}
for package in *.deb; do
	dpkg-deb -x "$package" "$folder"
done
cd "$folder"
rm -r apt
test -e lib || ln -s usr/lib lib
# The tests start Python often: what they import is compiled once.
env -u PYTHONDONTWRITEBYTECODE qemu-aarch64 -L "$folder" "usr/bin/$python" -c 'import asyncio, ctypes, json, mmap, random, runpy, threading'
ln -s "$python" usr/bin/python3
say "brought $python"
