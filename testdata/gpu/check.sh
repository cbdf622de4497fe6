#!/usr/bin/env bash
# On a machine with a GPU, nvcc and python3 with PyTorch: records every program
# here and holds what the log says against what the program says it did.
#
# Usage: testdata/gpu/check.sh OUTDIR      (needs bin/cudatrace, root)
set -u
here=$(cd "$(dirname "$0")" && pwd)
cudatrace=$here/../../bin/cudatrace
out=$(mkdir -p "${1:?which folder for logs and traces?}" && cd "$1" && pwd) || exit 1
build=/tmp/cudatrace-gpu
rm -rf "$build" && mkdir "$build" && cp "$here"/*.cu "$here"/*.py "$build" && cd "$build" || exit 1
trap 'rm -rf "$build"' EXIT
nvcc -o streams-static streams.cu || exit 1
nvcc -cudart shared -o streams-shared streams.cu || exit 1
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:/usr/local/cuda/lib64

failed=0
check() { # NAME PROGRAM [ARG...]
	local name=$1
	shift
	"$@" >"$name.plain" 2>&1
	local plain=$?
	"$cudatrace" record -o "$out/$name" "$@" >"$out/$name.stdout" 2>"$out/$name.stderr"
	local code=$?
	"$cudatrace" info "$out/$name.cudatrace" --format json >"$out/$name.json" 2>>"$out/$name.stderr"
	cat "$out/$name.stdout" "$out/$name.stderr"
	python3 check.py "$name" "$out" "$plain" "$code" >>table || failed=1
}

check streams-static ./streams-static
check streams-shared ./streams-shared
check train python3 train.py 100

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
cat table
exit $failed
