#!/bin/sh
# stubs.sh CC ARCH FOLDER: libraries without code that carry glibc's names and the
# version that each function in glibc.list had in 2.28 or before. On arm64 glibc
# began with 2.17, and everything older bears that version.
set -eu
cc=$1 arch=$2 folder=$3

for library in libc.so.6 libdl.so.2 libpthread.so.0; do
	awk -v library="$library" -v arch="$arch" -v base="$folder/$library" '
		$1 != library { next }
		{
			version = arch == "arm64" ? "GLIBC_2.17" : $2
			symbols[version] = symbols[version] " " $3 ";"
			printf ".globl %s\n.type %s, %%function\n%s:\n", $3, $3, $3 > (base ".s")
		}
		END {
			for (version in symbols)
				printf "%s { global:%s };\n", version, symbols[version] > (base ".map")
		}' glibc.list
	$cc -shared -nostdlib -Wl,-soname,"$library" -Wl,--version-script="$folder/$library.map" \
		-o "$folder/$library" "$folder/$library.s"
done
