#!/usr/bin/env bash
# Compares the callers in logs with those that full unwinding finds (unwind.c, unwind.py),
# on a machine with a GPU, nvcc, gcc and python3; PyTorch and JAX where they are there.
#
# Usage: testdata/gpu/unwind.sh OUTDIR [REGEX]      (needs bin/cudatrace, root)
set -u
here=$(cd "$(dirname "$0")" && pwd)
cudatrace=$here/../../bin/cudatrace
out=$(mkdir -p "${1:?which folder for logs?}" && cd "$1" && pwd) || exit 1
only=${2:-.} # a regular expression on names
build=$(mktemp -d)
cp "$here"/*.cu "$here"/*.c "$here"/*.py "$build" && cd "$build" || exit 1
trap 'rm -rf "$build"' EXIT
gcc -O2 -shared -fPIC -o libunwind-callers.so unwind.c -ldl -lpthread || exit 1
(nvcc -o streams-static streams.cu & nvcc -cudart shared -o streams-shared streams.cu & nvcc -o kinds kinds.cu & wait) || exit 1
gcc -o driver driver.c -ldl && cp streams-static streams-stripped && strip streams-stripped || exit 1
UNWIND_CUPTI=$(PYTHONPATH=$here/../../bench python3 -c 'import machine; print(machine.find_cupti())')
export UNWIND_CUPTI UNWIND_LIBRARY=$build/libunwind-callers.so
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:/usr/local/cuda/lib64:/usr/local/cuda/extras/CUPTI/lib64
export TRITON_CACHE_DIR=$build/triton TORCHINDUCTOR_CACHE_DIR=$build/inductor # all runs use the same code

failed=0
check() { # NAME UNWIND_PY_ARG...
	local name=$1
	shift
	[[ $name =~ $only ]] || return
	timeout 150 python3 unwind.py "$cudatrace" "$out" "$@" 2>&1 | tee "$out/$name.txt" | tail -n 20 >>table
	[ "${PIPESTATUS[0]}" = 0 ] || { failed=1 && echo "$name FAILED" >>table; }
}
touch table
check streams-static ./streams-static -n 50
check streams-shared ./streams-shared -n 50
check streams-stripped --symbols streams-static ./streams-stripped -n 50
check graphs ./kinds graphs 50
check threads ./kinds threads 500
check driver ./driver 500
for framework in torch jax; do
	if ! python3 -c "import $framework" 2>/dev/null; then
		echo "unwind_$framework: no $framework here, skipped" >>table
	elif [[ unwind_$framework =~ $only ]]; then
		timeout 60 python3 unwind_$framework.py >/dev/null 2>"$out/unwind_$framework.warm.txt" # fills the caches
		check unwind_$framework python3 unwind_$framework.py
	fi
done
echo
cat table
exit $failed
