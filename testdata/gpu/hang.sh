#!/bin/bash
# What cudatrace stuck says of programs that hang on a real GPU, and of one that goes on: hang.sh [OUTDIR [LOOKS]]. It looks LOOKS times
# (20) at each process, and prints how often each first line came. The programs that hang do so at the same time. Needs cudatrace in PATH,
# PyTorch, root.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=$(mkdir -p "${1:-/tmp/hang}" && cd "${1:-/tmp/hang}" && pwd) || exit 1
looks=${2:-20}
look() { # NAME CASE OPTION...
	local name=$1 case=$2 recorder pid begun took
	shift 2
	rm -f "$out/$name".*
	cudatrace record -q --no-convert --python auto "$@" -o "$out/$name" python3 "$here/hang.py" "$case" >"$out/$name.out" 2>"$out/$name.err" &
	recorder=$!
	for _ in $(seq 300); do grep -q ready "$out/$name.out" 2>/dev/null && break || sleep 0.1; done
	sleep 4
	pid=$(pgrep -P $recorder -f "hang.py $case" | head -1)
	begun=$(date +%s%N)
	for _ in $(seq "$looks"); do timeout 20 cudatrace stuck -p "$pid" >"$out/$name.last" 2>&1; head -1 "$out/$name.last" >>"$out/$name.stuck"; done
	took=$((($(date +%s%N) - begun) / 1000000 / looks))
	{ [ "$case" = moving ] && kill "$pid"; } || kill -9 "$pid"
	wait $recorder
	cudatrace info "$out/$name.cudatrace" >"$out/$name.info" 2>&1
	{
		echo "== $name: $took ms a look"
		sed -E 's/process [0-9]+/process N/g; s/thread [0-9]+/thread T/g; s/since [0-9.]+ m?s/since S/g; s/[0-9.]+ (m?s|s) ago/S ago/g' "$out/$name.stuck" | sort | uniq -c
	} >"$out/$name.table"
}
for case in item spin yield block; do look $case $case & done
look item-cupti item --calls cupti &
wait
look moving moving
look moving-cupti moving --calls cupti
cat "$out"/*.table
