#!/usr/bin/env bash
# The gate of `record -p PID --detach`: CUPTI switched on and finalized while threads launch, many times, in programs of 1, 8
# and 64 threads, kernels and graphs; the time of a launch behind it; the time until CUPTI is on beside threads that launch
# without pause; whole recordings, also of PyTorch with its own profiler and children, of NCCL (two GPUs), of JAX (where it is
# installed); the instructions of calls (same.cu). Prints a table last: deaths, hangs, wrong results, speeds.
#
# Usage: testdata/gpu/door.sh OUTDIR [SECONDS (500)] [REGEX [SECONDS-OF-ROUNDS (20)]]
# Root, nvcc, bin/cudatrace, bin/door.test or Go. Six kinds of rounds.
set -u
here=$(cd "$(dirname "$0")" && pwd) root=$(cd "$(dirname "$0")/../.." && pwd)
export PATH=$root/bin:$PATH PYTHONUNBUFFERED=1
out=$(mkdir -p "${1:?which folder for logs?}" && cd "$1" && pwd) || exit 1
most=${2:-500} only=${3:-.} long=${4:-20}
[ -x "$root/bin/door.test" ] || (cd "$root" && go test -c -o bin/door.test ./record/internal/door) || exit 1
cd "$out" || exit 1
[ -x ./finalize ] || nvcc -O2 -o finalize "$here/finalize.cu" -ldl || exit 1
: >table
faults=0
row() { printf '%-10s %s\n' "$@" | tee -a table; }
fault() { row "$1" "FAILED: $2" && faults=$((faults + 1)); }
wanted() {
	[[ $1 =~ $only ]] || return
	[ $((most - SECONDS)) -gt "$2" ] || { row "$1" "left out: no time" && return 1; }
	echo "-- $1, after $SECONDS s"
}
# test NAME LIMIT PROGRAM TEST VARIABLE=N: a test of the door, which talks to finalize
test_door() {
	FINALIZE=$3 timeout -k 5 "$2" env "$5" MOST=$(($2 - 8))s door.test -test.run "^$4\$" >"$1.log" 2>&1
	case $? in
	0) grep -v '^PASS' "$1.log" | while read -r line; do row "$1" "$line"; done ;;
	124 | 137) fault "$1" "$3: hung ($5)" ;;
	*) fault "$1" "$3: $(grep -m1 -E 'round|ended|wrong|returned|did not' "$1.log")" ;;
	esac
}
# record NAME TIMES PID OPTION...: whole recordings
record() {
	local name=$1 times=$2 pid=$3 i begun kernels all=
	shift 3
	for i in $(seq "$times"); do
		begun=$(date +%s%N)
		timeout -k 5 30 cudatrace record --no-convert --calls none -d 1s -o "$name-$i" "$@" -p "$pid" >"$name-$i.err" 2>&1 ||
			fault "$name" "recording $i ended with $?: $(tail -1 "$name-$i.err")"
		kernels=$(cudatrace info "$name-$i.cudatrace" --format json 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["kernels"])' 2>/dev/null)
		all="$all ${kernels:-no} kernels in $((($(date +%s%N) - begun) / 1000000)) ms;"
		grep -h 'CUPTI \(stays\|goes\)\|did not answer' "$name-$i.err" | sort -u | while read -r line; do row "$name" "$line"; done
	done
	row "$name" "$all"
}

# 1. Rounds. 64 threads take longest to stop.
for threads in 1 8 64; do
	for graphs in "" " graphs"; do
		name=rounds-$threads${graphs:+-g}
		wanted "$name" $((long + 5)) && test_door "$name" "$long" "./finalize $threads$graphs" TestFinalize ROUNDS=100000
	done
done

# 2. The time of a launch behind 20 rounds.
for program in "1" "1 graphs" "8" "64"; do
	name=speed-${program// /-}
	wanted "$name" 100 && test_door "$name" 95 "./finalize $program" TestSpeed "PAIRS=${PAIRS:-300}"
done

# 3. The time from the wish to record to the first record, with threads let alone (5 s at most, then the door helps), and with the door.
for threads in 8 64; do
	wanted "enable-$threads" 45 && test_door "enable-$threads" 60 "./finalize $threads" TestEnable TIMES=3
done

# 4. Whole recordings beside threads that launch without pause: without the door, in a process of its own, and with it.
# CUPTI stays where they launch graphs.
for program in "8" "64" "8 graphs"; do
	for option in "" --detach; do
		name=record-${program// /-}$option
		wanted "$name" 40 || continue
		rm -f "$name.in" && mkfifo "$name.in" || exit 1
		cudatrace run --armed ./finalize $program <"$name.in" >"$name.out" 2>"$name.log" &
		pid=$!
		exec 9>"$name.in"
		sleep 4
		record "$name" $((${#option} > 0 ? 3 : 1)) $pid $option
		printf q >&9
		exec 9>&-
		for i in $(seq 50); do kill -0 $pid 2>/dev/null || break; sleep 0.1; done
		if kill -9 $pid 2>/dev/null; then fault "$name" "the program hung"; fi
		wait $pid
		code=$?
		[ "$(cat "$name.out")$code" = 00 ] || fault "$name" "the program ended with $code, wrong: $(cat "$name.out")"
	done
done

# 5. PyTorch: equal results, children meanwhile, the time of a token behind recordings; its own profiler behind recordings,
# and before them.
if wanted torch 70; then
	coproc TORCH { exec cudatrace run --armed python3 "$here/door.py" 2>torch.log; }
	pid=$TORCH_PID
	ask() { echo "$@" >&"${TORCH[1]}" && read -t 40 -r answer <&"${TORCH[0]}" || { fault torch "no answer to $*: $(tail -1 torch.log)" && answer=; }; }
	read -t 60 -r answer <&"${TORCH[0]}"
	ask check && sum=$answer
	ask speed 100
	echo run 9 >&"${TORCH[1]}"
	record torch 3 "$pid" --detach
	read -t 30 -r answer <&"${TORCH[0]}" && row torch "$answer"
	ask speed 100 && row torch "a token took $answer"
	ask profile && row torch "kernels that torch.profiler sees in 20 tokens: $answer"
	echo run 4 >&"${TORCH[1]}"
	record torch-profiled 1 "$pid" --detach
	read -t 30 -r answer <&"${TORCH[0]}" && row torch "$answer"
	ask profile && row torch "and behind the next recording: $answer"
	ask check
	[ "$answer" = "$sum" ] || fault torch "another result: $answer, before $sum"
	exec {TORCH[1]}>&-
	wait $pid || fault torch "it ended with $?"
fi

# 6. NCCL on two GPUs: all collectives are made, both ranks end.
if [ "$(nvidia-smi -L 2>/dev/null | wc -l)" -gt 1 ] && wanted nccl 50; then
	timeout -k 5 90 torchrun --standalone --nproc-per-node 2 --no-python cudatrace run --armed python3 "$here/collectives.py" 4000 0 -1 0 >nccl.out 2>nccl.err &
	pid=$!
	sleep 15
	mapfile -t ranks < <(pgrep -f "python3 $here/collectives.py" | while read -r p; do case $(readlink "/proc/$p/exe") in *python3*) grep -qz '^LOCAL_RANK=' "/proc/$p/environ" && echo "$p" ;; esac; done)
	record nccl 3 "${ranks[0]}" -p "${ranks[1]}" --detach
	wait $pid || fault nccl "it ended with $?: $(tail -1 nccl.err)"
	row nccl "$(grep -o 'rank . steps 4000' nccl.out | wc -l) of 2 ranks made all steps"
fi

# 7. JAX: equal results. CUPTI stays, but for the second, which launches no graphs.
for flags in "" "--xla_gpu_enable_command_buffer="; do
	name=jax${flags:+-kernels}
	python3 -c 'import jax' 2>/dev/null && wanted "$name" 100 || continue
	export XLA_FLAGS=$flags
	python3 "$here/unwind_jax.py" 45000 >"$name.alone" 2>/dev/null &
	alone=$!
	cudatrace run --armed python3 "$here/unwind_jax.py" 45000 >"$name.out" 2>"$name.err" &
	pid=$!
	sleep 6
	PID=$pid door.test -test.run '^TestInsides$' >"$name.insides" 2>&1 # what the threads wait for that stay inside
	grep '^thread' "$name.insides" | while read -r line; do row "$name" "$line"; done
	record "$name" 15 $pid --detach
	(sleep 60 && kill -9 $pid 2>/dev/null) &
	wait $pid || fault "$name" "it ended with $?"
	wait $alone
	cmp -s "$name.alone" "$name.out" || fault "$name" "another result: $(cat "$name.out"), alone $(cat "$name.alone")"
done
unset XLA_FLAGS

# 8. Calls, instruction by instruction, in a program alone and in an armed one: before recordings, behind two with --detach, and behind one without.
if wanted same 60; then
	[ -x ./same ] || nvcc -O2 -o same "$here/same.cu" || exit 1
	row same "alone"
	echo | ./same | grep instructions | while read -r answer; do row same "  $answer"; done
	coproc SAME { exec cudatrace run --armed ./same 2>same.log; }
	pid=$SAME_PID
	calls() { # WHEN
		row same "$1"
		echo >&"${SAME[1]}"
		while read -t 60 -r answer <&"${SAME[0]}"; do
			[ -n "$answer" ] || return 0
			row same "  $answer"
		done
		fault same "no answer: $(tail -1 same.log)"
		return 1
	}
	read -t 60 -r answer <&"${SAME[0]}"
	calls "armed" && record same 2 "$pid" --detach &&
		calls "behind two recordings with --detach" && record same 1 "$pid" &&
		calls "behind one without" && exec {SAME[1]}>&-
	wait $pid || fault same "it ended with $?"
fi

echo
cat table
echo "$faults deaths, hangs or wrong results, $SECONDS s"
exit $((faults > 0))
