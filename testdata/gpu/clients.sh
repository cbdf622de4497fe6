#!/usr/bin/env bash
# Other CUPTI clients beside recordings of armed programs: what CUPTI itself answers (clients.c), and PyTorch's profiler before,
# behind and in the middle of a recording, also without the subscription that it holds (KINETO_USE_DAEMON). A table comes last:
# kernels in the log, seconds that the recording took, what it said; kernels that torch.profiler saw.
#
# Usage: testdata/gpu/clients.sh OUTDIR      (gcc, PyTorch, bin/cudatrace; 2 minutes, half of it with SETTINGS=A=b)
set -u
here=$(cd "$(dirname "$0")" && pwd) root=$(cd "$(dirname "$0")/../.." && pwd)
export PATH=$root/bin:$PATH PYTHONUNBUFFERED=1
out=$(mkdir -p "${1:?which folder for logs?}" && cd "$1" && pwd) && cd "$out" || exit 1
cupti=$(python3 -c 'import torch; torch.cuda.init(); print(next(l.split()[-1] for l in open("/proc/self/maps") if "libcupti.so" in l))' 2>/dev/null)
: >table
row() { printf '%-52s %s\n' "$@" | tee -a table; }
ask() { echo "$@" >&"${P[1]}" && read -t 60 -r answer <&"${P[0]}" || answer="no answer: $(tail -1 program.err)"; }
# start VARIABLE=VALUE: the armed program
start() {
	coproc P { exec env "$1" cudatrace run --armed python3 "$here/clients.py" 2>program.err; }
	pid=$P_PID
	read -t 90 -r answer <&"${P[0]}" || row "$1" "the program did not start: $(tail -1 program.err)"
}
end() { exec {P[1]}>&- && { wait "$pid" || row "FAILED: the program" "ended with $?"; }; }
# record WHAT OPTION...
record() {
	local what=$1 from
	shift
	from=$(date +%s%N)
	timeout -k 5 40 cudatrace record --no-convert --calls none --detach -o log "$@" -p "$pid" >record.err 2>&1 || row "FAILED: $what" "ended with $?"
	row "$what" "$(cudatrace info log.cudatrace --format json | python3 -c 'import json, sys; print(json.load(sys.stdin)["kernels"])') kernels, $((($(date +%s%N) - from) / 1000000)) ms: $(grep -ohE 'taken over|holds it|CUPTI stays' record.err | sort -u | tr '\n' ' ')"
}

gcc -O1 -o clients "$here/clients.c" -ldl && timeout 60 ./clients "$cupti" >clients.out 2>&1
code=$?
for setting in ${SETTINGS:-A=b KINETO_USE_DAEMON=1}; do
	start $setting
	record "$setting: idle for 3 s" -d 3s
	record "$setting: idle, off for 3 s" --delay 3s -d 1s
	echo launch 400000 >&"${P[1]}"
	record "$setting: launches" -d 1s
	read -t 60 -r answer <&"${P[0]}"
	ask profile 100 1 && row "  torch.profiler behind it, of 100" "$answer"
	echo launch 400000 >&"${P[1]}"
	record "$setting: launches, behind a profile" -d 1s
	read -t 60 -r answer <&"${P[0]}"
	ask profile 100 1 && row "  torch.profiler behind it, of 100" "$answer"
	echo profile 100 6 >&"${P[1]}"
	sleep 2
	record "$setting: in the middle of a profile" -d 1s
	read -t 60 -r answer <&"${P[0]}" && row "  that profile, of 100" "$answer"
	end
	start $setting
	record "$setting: a profile begins in it" -d 6s &
	recorder=$!
	sleep 2
	ask profile 100 2 && row "  that profile, of 100" "$answer"
	wait $recorder
	end
done
echo
cat clients.out
[ $code = 0 ] || echo "clients ended with $code"
echo
cat table
