#!/bin/bash
# What stays in an armed program of many recordings, without --detach and with it: a decoding loop on the GPU is recorded
# ROUNDS times for 0.3 s. The table, which comes last, has its anonymous memory in MB, its mappings, file descriptors and
# threads, and the copies of the library, before any recording and behind some; the last line of each mode the time of a
# token without a window in the first and the last third. Root, PyTorch, bin/cudatrace.
# flat.sh OUT [ROUNDS (150)] [MODES ("stays detach")]: for each mode about ROUNDS x 1 s
set -eu
out=$1 rounds=${2:-150} modes=${3:-stays detach}
here=$(cd "$(dirname "$0")" && pwd) root=$(cd "$(dirname "$0")/../.." && pwd)

sizes() { # PID ROUND
	local memory maps files threads copies
	memory=$(awk '/^RssAnon/ {print $2 / 1024}' "/proc/$1/status")
	threads=$(awk '/^Threads/ {print $2}' "/proc/$1/status")
	maps=$(wc -l <"/proc/$1/maps") files=$(find "/proc/$1/fd" -mindepth 1 | wc -l)
	copies=$(grep -c 'r-xp.*/recording-' "/proc/$1/maps" || true)
	printf '%8d %10.1f %9d %7d %8d %7d\n' "$2" "$memory" "$maps" "$files" "$threads" "$copies" >>"$3/sizes"
}

for mode in $modes; do
	mkdir -p "$out/$mode"
	options=()
	[ "$mode" = stays ] || options=("--$mode")
	"$root/bin/cudatrace" run --armed python3 "$here/watch.py" $((rounds * 2 + 60)) "$root/packaging/python" >"$out/$mode/tokens" &
	pid=$!
	until grep -q ready "$out/$mode/tokens"; do sleep 0.2; kill -0 $pid; done
	sleep 10
	sizes $pid 0 "$out/$mode"
	for round in $(seq "$rounds"); do
		"$root/bin/cudatrace" record -p $pid --calls none -d 300ms --no-convert "${options[@]}" -o "$out/$mode/run" \
			2>"$out/$mode/said" || { echo "$mode, round $round:"; cat "$out/$mode/said"; }
		grep -E ' lost|CUPTI stays|only its calls' "$out/$mode/said" | grep -v 'nothing lost' | sed "s/^/$mode, round $round: /" || true
		case $round in
		1 | 2 | 5 | 10 | 25 | *[05]0) sizes $pid "$round" "$out/$mode" ;;
		esac
	done
	kill -0 $pid # it lives
	kill -TERM $pid
	wait $pid || true
done
for mode in $modes; do
	printf '%s\n%8s %10s %9s %7s %8s %7s\n' "$mode" rounds memory mappings files threads copies
	cat "$out/$mode/sizes"
	awk '/^[0-9]/ {t[++n] = $2} END {k = int(n / 3); for (i = 1; i <= k; i++) {a += t[i]; b += t[n + 1 - i]}
		if (k) printf "  ms a token: %.3f in the first third, %.3f in the last\n", a / k, b / k}' "$out/$mode/tokens"
done
