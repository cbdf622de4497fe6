#!/usr/bin/env bash
# Recordings of an armed PyTorch program: which NVTX ranges each has, how many launches have their Python line, and what a
# launch and a range cost without a recorder, armed, in a recording and behind it. Prints a table last.
#
# Usage: testdata/gpu/armed.sh OUTDIR   (PyTorch, bin/cudatrace; two minutes)
set -u
here=$(cd "$(dirname "$0")" && pwd) root=$(cd "$(dirname "$0")/../.." && pwd)
export PATH=$root/bin:$PATH PYTHONUNBUFFERED=1
out=$(mkdir -p "${1:?which folder for logs?}" && cd "$1" && pwd) && cd "$out" || exit 1
: >table
row() { printf '%-24s %s\n' "$@" | tee -a table; }
ask() { # the costs, of the program of a coprocess
	echo cost >&"${P[1]}"
	read -r -t 60 -u "${P[0]}" answer || answer="no answer"
}
begin() {
	coproc P { exec "$@" 2>program.err; }
	read -r -t 60 -u "${P[0]}" answer
	pid=$P_PID
}
finish() {
	exec {P[1]}>&-
	read -r -t 30 -u "${P[0]}" answer
	wait "$pid"
	row "$1" "ended with $?, $answer"
}
begin python3 "$here/armed.py"
ask && row alone "launch, range: $answer us"
finish alone
for options in "--calls none --detach" "--calls auto --detach" "--calls none"; do
	name=${options//[- ]/}
	begin cudatrace run --armed python3 "$here/armed.py"
	ask && row "$name armed" "launch, range: $answer us"
	for i in 1 2 3; do
		timeout -k 5 60 cudatrace record --no-convert $options -d 2s -o "$name-$i" -p "$pid" >"$name-$i.err" 2>&1 & recorder=$!
		[ $i = 3 ] && sleep 1 && ask && row "$name recorded" "launch, range: $answer us"
		wait $recorder || row "$name $i" "FAILED: the recorder ended with $?"
		ranges=$(cudatrace stats --with-startup --report nvtx --format csv "$name-$i.cudatrace" 2>/dev/null |
			sed -nE 's/^"?(all|forward|backward|step)( [0-9]+)?"?,.*/\1/p' | sort -u | tr '\n' ' ')
		lines=$(cudatrace stats --with-startup --report python "$name-$i.cudatrace" 2>&1 | grep -E 'have a Python frame|no GPU work' | head -1)
		row "$name $i" "ranges: $ranges; $lines; $(cudatrace info "$name-$i.cudatrace" | grep -E '^complete' | tr -s ' ')"
	done
	ask && row "$name behind them" "launch, range: $answer us"
	finish "$name"
done
echo
cat table
