#!/usr/bin/env bash
# Measures what tracing costs in one command: on a machine with a GPU, nvcc and python3 (with PyTorch for the PyTorch loops),
# or with --sim on the simulated CUDA stack. Needs bin/cudatrace (or --cudatrace PATH) and root; finds nsys without help.
# Options: bench/run.sh --help. Results go to $OUT, or build/bench.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
build=$root/build/bench
export PYTHONDONTWRITEBYTECODE=1
BENCH_COMMAND=bench/run.sh
for word; do
	[[ $word == *[[:space:]]* ]] && word="'$word'"
	BENCH_COMMAND+=" $word"
done
export BENCH_COMMAND
sim=
for word; do
	case $word in
	--sim) sim=1 ;;
	-h | --help | --list) exec python3 "$here/bench.py" "$@" ;;
	esac
done
mkdir -p "$build"
rm -f "$build/kernels.so" "$build/loops" # a file that cannot be built is reported as missing, not taken from an older run
${CC:-gcc} -O2 -Wall -Wextra -Werror -shared -fPIC -pthread -o "$build/kernels.so" "$here/kernels.c" -ldl ||
	echo "run.sh: kernels.c does not compile; the floor is left out" >&2
if [ -n "$sim" ]; then
	[ -e "$root/build/sim/lib/libcudart.so.13" ] || make -s -C "$root/testdata/sim"
	${CC:-gcc} -x c -std=gnu11 -O2 -Wall -Wextra -Werror -pthread -DBENCH_SIM -I"$root/testdata/sim/prog" \
		-o "$build/loops-sim" "$here/loops.cu" -x none "$root/build/sim/lib/libcudart.so.13" -Wl,-rpath,"$root/build/sim/lib" -ldl
else
	command -v nvcc >/dev/null || { echo "run.sh: no nvcc in PATH; --sim measures on the simulated CUDA stack" >&2; exit 1; }
	nvcc -O2 -arch=native -o "$build/loops" "$here/loops.cu" -ldl || nvcc -O2 -o "$build/loops" "$here/loops.cu" -ldl ||
		echo "run.sh: loops.cu does not compile; its workloads will fail" >&2
fi
exec python3 "$here/bench.py" --build "$build" "$@"
