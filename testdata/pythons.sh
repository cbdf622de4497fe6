#!/bin/sh
# Brings interpreters that the machine lacks into FOLDER, from Debian's unstable release, with a libc of their own, so that
# tests of Python lines run with them (root, debootstrap, patchelf; 900 MB):
#
#   testdata/pythons.sh FOLDER
#   PYENV_ROOT=FOLDER go test ./record/internal/pyframes ./record/internal/threads ./cmd/cudatrace -run 'Python|Walk|Find|Line|Headers'
set -eu

folder=$(mkdir -p "$1" && cd "$1" && pwd)
versions='3.13 3.14 3.15'
root=$folder/root
wanted=
for v in $versions; do
	wanted=$wanted,python$v,libpython$v-dev
done
test -d "$root" || debootstrap --variant=minbase --include="${wanted#,}" sid "$root" >"$folder/debootstrap.log"
for v in $versions; do
	at=$folder/versions/$v.0
	mkdir -p "$at/bin" "$at/include/x86_64-linux-gnu"
	cp "$root/usr/bin/python$v" "$at/bin"
	patchelf --set-interpreter "$root/lib64/ld-linux-x86-64.so.2" --force-rpath --set-rpath "$root/usr/lib/x86_64-linux-gnu" "$at/bin/python$v"
	ln -sfn "python$v" "$at/bin/python3"
	ln -sfn "$root/usr/lib" "$at/lib"
	for include in "python$v" "x86_64-linux-gnu/python$v"; do
		ln -sfn "$root/usr/include/$include" "$at/include/$include"
	done
	"$at/bin/python3" --version
done
