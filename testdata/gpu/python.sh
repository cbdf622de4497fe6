#!/usr/bin/env bash
# Compares the Python lines in logs with what the interpreter (sys.settrace) says of the same runs, and measures what they cost, on a
# machine with a GPU, PyTorch and gcc. JAX, CuPy and Triton where they are there. torch.profiler is no judge: even without CUDA's
# activity it takes CUPTI over, and then launches have no records.
#
# Usage: testdata/gpu/python.sh [OUTDIR] [REGEX]      (needs build/cudatrace or bin/cudatrace, root)
set -u
here=$(cd "$(dirname "$0")" && pwd)
CUDATRACE=$here/../../build/cudatrace
[ -x "$CUDATRACE" ] || CUDATRACE=$here/../../bin/cudatrace
export CUDATRACE
out=$(mkdir -p "${1:-/tmp/cudatrace-python}" && cd "${1:-/tmp/cudatrace-python}" && pwd) || exit 1
only=${2:-.} # a regular expression on names
python=${PYTHON:-python3}
script=$here/python.py
export PYTHONDONTWRITEBYTECODE=1 TORCHINDUCTOR_CACHE_DIR=$out/inductor TRITON_CACHE_DIR=$out/triton
table=$out/table
: >"$table"
failed=0
row() { printf '%-28s %s\n' "$1" "$2" >>"$table"; }
# record NAME OPTION... -- COMMAND...: records a program; what cudatrace says of Python stands in the table
record() {
	local name=$1 options=(--python auto)
	shift
	while [ "$1" != -- ]; do options+=("$1") && shift; done
	shift
	timeout 400 "$CUDATRACE" record --no-convert -q "${options[@]}" -o "$out/$name" "$@" >"$out/$name.txt" 2>&1
	local code=$?
	grep -i 'python\|lost\|missing' "$out/$name.txt" | grep '^cudatrace' | head -3 >>"$table"
	[ $code = 0 ] || { failed=1 && row "$name" "FAILED, exit code $code: $(tail -n 1 "$out/$name.txt")"; }
	return $code
}
check() { # NAME PROGRAM OPTION...
	local name=$1 program=$2
	shift 2
	[[ $name =~ $only ]] || return
	record "$name" "$@" -- "$python" "$script" lines "$program" "$out/$name.truth" || return
	"$python" "$script" compare "$out/$name.cudatrace" "$out/$name.truth" >"$out/$name.result" 2>"$out/$name.odd" || failed=1
	cat "$out/$name.odd"
	row "$name" "$(tail -n 1 "$out/$name.result")"
}
row version "$("$CUDATRACE" version 2>/dev/null | head -1), $("$python" -c 'import sys, torch; print("Python", sys.version.split()[0], "PyTorch", torch.__version__, torch.cuda.get_device_name())' 2>&1 | tail -1)"
check lines-eager eager
check lines-eager-cupti eager --calls cupti
check lines-compiled compiled
check lines-train train
for framework in jax cupy triton; do
	[[ $framework =~ $only ]] || continue
	if ! "$python" -c "import $framework" 2>/dev/null; then
		row "$framework" "not here"
	elif record "$framework" -- "$python" "$script" one "$framework"; then
		row "$framework" "$("$python" "$script" share "$out/$framework.cudatrace")"
	fi
done
# Cost: frames switched within one process, and recordings with and without them in turns.
costs() { # NAME COMMAND [switched]
	local name=$1 what=$2 i
	[[ $name =~ $only ]] || return
	record "$name-switched" --calls none -- "$python" "$script" "$what" --switch &&
		grep -E '^(depth|step)' "$out/$name-switched.txt" | while read -r l; do row "$name, walk on - off" "$l"; done
	for i in 1 2 3; do
		for python_mode in off auto; do
			record "$name-$python_mode-$i" --calls none --python $python_mode -- "$python" "$script" "$what" &&
				grep -E '^(depth|step)' "$out/$name-$python_mode-$i.txt" | while read -r l; do row "$name, --python $python_mode, $i" "$l"; done
		done
	done
}
costs cost cost
costs step step
# Bytes of a log with and without frames.
if [[ size =~ $only ]]; then
	for python_mode in off auto; do
		record size-$python_mode --python $python_mode -- "$python" "$here/train.py" 100 &&
			row "size, --python $python_mode" "$(stat -c %s "$out/size-$python_mode.cudatrace") bytes, $("$CUDATRACE" info --format json "$out/size-$python_mode.cudatrace" | "$python" -c 'import json, sys; i = json.load(sys.stdin); print(i["kernels"], "kernels", i["api_records"] if "api_records" in i else "")')"
	done
fi
echo
cat "$table"
exit $failed
