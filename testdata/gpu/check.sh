#!/usr/bin/env bash
# On a machine with a GPU, nvcc and python3 with PyTorch: records every program
# here and holds what the log says against what the program says it did.
#
# Usage: testdata/gpu/check.sh OUTDIR      (needs bin/cudatrace, root)
set -u
cd "$(dirname "$0")/../.."
out=${1:?which folder for logs and traces?}
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
mkdir -p "$out"
nvcc -o "$build/streams-static" testdata/gpu/streams.cu || exit 1
nvcc -cudart shared -o "$build/streams-shared" testdata/gpu/streams.cu || exit 1
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:/usr/local/cuda/lib64

failed=0
check() { # NAME PROGRAM [ARG...]
	local name=$1
	shift
	"$@" >"$build/$name.plain" 2>&1
	local plain=$?
	bin/cudatrace record -o "$out/$name" "$@" >"$out/$name.stdout" 2>"$out/$name.stderr"
	local code=$?
	bin/cudatrace info "$out/$name.cudatrace" --format json >"$out/$name.json" 2>>"$out/$name.stderr"
	cat "$out/$name.stdout" "$out/$name.stderr"
	python3 testdata/gpu/check.py "$name" "$out" "$plain" "$code" >>"$build/table" || failed=1
}

check streams-static "$build/streams-static"
check streams-shared "$build/streams-shared"
check train python3 testdata/gpu/train.py 100

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
cat "$build/table"
exit $failed
