#!/bin/bash
# Records an armed program again and again: again.sh PROGRAM [ARG...]. The program must launch all the time, for a minute at
# least. Prints, for each of ten recordings, kernels, those without a call, whether the log is complete, and the program's memory.
set -eu
[ $# -gt 0 ] || { sed -n 2,3p "$0" >&2; exit 2; }
folder=$(mktemp -d)
trap 'kill $pid 2>/dev/null || true; rm -rf "$folder"' EXIT
cudatrace run --armed "$@" >"$folder/out" 2>&1 &
pid=$!
sleep 20
for n in 1 2 3 4 5 6 7 8 9 10; do
	cudatrace record -q --no-convert -p $pid -d 1s -o "$folder/$n" 2>"$folder/said" || { cat "$folder/said"; exit 1; }
	figures=$(cudatrace info --format json "$folder/$n.cudatrace" | grep -E '"(kernels|unmatched|complete)"' | tr -d ' \n')
	echo "$n: $figures $(grep VmRSS /proc/$pid/status | tr -s '\t ' ' ')"
done
kill -0 $pid && echo "the program runs on"
