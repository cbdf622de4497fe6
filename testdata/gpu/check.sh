#!/usr/bin/env bash
# Records every program here, on a machine with a GPU, nvcc and python3 with PyTorch,
# and compares each log with the counts that the program printed.
#
# Usage: testdata/gpu/check.sh OUTDIR [REGEX]      (needs bin/cudatrace, root)
set -u
here=$(cd "$(dirname "$0")" && pwd)
cudatrace=$here/../../bin/cudatrace
out=$(mkdir -p "${1:?which folder for logs and traces?}" && cd "$1" && pwd) || exit 1
build=$(mktemp -d)
cp "$here"/*.cu "$here"/*.c "$here"/*.py "$build" && cd "$build" || exit 1
trap 'rm -rf "$build"' EXIT
nvcc -o streams-static streams.cu && nvcc -cudart shared -o streams-shared streams.cu &&
	nvcc -o kinds kinds.cu && nvcc -o occupancy occupancy.cu && gcc -o driver driver.c -ldl || exit 1
cp streams-static streams-stripped && strip streams-stripped
cat >script.sh <<'END'
./streams-static -n 5 >/dev/null
./kinds child 50
END
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:/usr/local/cuda/lib64

failed=0
flags=()
only=${2:-.} # a regular expression on names
check() { # NAME PROGRAM [ARG...]
	local name=$1
	shift
	[[ $name =~ $only ]] || return
	local plain=0 # every program here ends with 0
	"$cudatrace" record "${flags[@]}" -o "$out/$name" "$@" >"$out/$name.stdout" 2>"$out/$name.stderr"
	local code=$?
	"$cudatrace" info "$out/$name.cudatrace" --format json >"$out/$name.json" 2>>"$out/$name.stderr"
	tail -n 3 "$out/$name.stdout"
	cat "$out/$name.stderr"
	python3 check.py "$name" "$out" "$plain" "$code" >>table || failed=1
}

check streams-static ./streams-static
check streams-shared ./streams-shared
check streams-stripped ./streams-stripped
check driver ./driver 1000
check threads ./kinds threads 1000
check forkexec ./kinds forkexec 500
check forkafter ./kinds forkafter 500
check replaced ./kinds replaced 200 4
check graphs ./kinds graphs 200
check script sh script.sh
check workers python3 workers.py
check train python3 train.py 100
check train-graph python3 train.py 100 graph
check train-compile python3 train.py 30 compile
check train-nvtx python3 train.py 20 nvtx
PYTHONPATH=$here/../../packaging/python check train-marks python3 train.py 20 marks
check train-loader python3 train.py 100 loader
check cupy python3 arrays.py cupy
check jax python3 arrays.py jax
check torch-cupy python3 arrays.py both
if [ "$(nvidia-smi -L | wc -l)" -ge 2 ]; then
	nvcc -o peer peer.cu && check peer ./peer
	if [[ nvlink =~ $only ]]; then # the counters of NVLink: need the right to profile
		flags=(--gpu-metrics)
		check nvlink ./peer nvlink && python3 metrics.py "$cudatrace" "$out/nvlink.cudatrace" "$out/nvlink.stdout" || failed=1
		flags=()
	fi
fi
check occupancy ./occupancy
if [[ occupancy =~ $only ]]; then
	"$cudatrace" convert "$out/occupancy.cudatrace" --format chrome -o "$out/occupancy.pt.trace.json.gz" &&
		python3 occupancy.py "$out/occupancy.pt.trace.json.gz" "$out/occupancy.stdout" || failed=1
fi
if [[ captured =~ $only ]]; then # each node's work has its captured call
	nvcc -o captured graphs.cu || exit 1
	for shape in twelve copies update child cond threads many remake fifty python; do
		run=(./captured $shape)
		[ $shape = python ] && run=(python3 lines.py)
		flags=()
		[ $shape = child ] && flags=(--calls uprobe) # which capture a child graph is, only the launches' arguments prove
		"$cudatrace" record --python auto --no-convert "${flags[@]}" -o "$out/captured-$shape" "${run[@]}" >/dev/null 2>"$out/captured-$shape.stderr" &&
			"$cudatrace" info "$out/captured-$shape.cudatrace" --format json | python3 -c '
import json, sys
g = json.load(sys.stdin)["graph_nodes"]
ok = g["named"] > 0 and g["captured_before"] + g["unseen"] + g["unsure"] == 0
print(f"captured {sys.argv[1]:8} {g}", "ok" if ok else "WRONG")
sys.exit(not ok)' $shape >>table || failed=1
	done
fi
if [[ oddities =~ $only ]]; then # legal oddities and refused calls: the same lines and exit code in each mode
	nvcc -std=c++17 -o oddities oddities.cu -lcuda && ./oddities >"$out/oddities.plain" || exit 1
	grep died "$out/oddities.plain" && failed=1 # by itself
	for mode in "" "--calls cupti" "--calls cupti --memory none" "--api all" "--gpu-metrics=1000" "--last 10s" "--gpu none"; do
		read -ra flags <<<"$mode"
		"$cudatrace" record -q --no-convert "${flags[@]}" -o "$out/oddities" ./oddities >"$out/oddities.stdout" 2>"$out/oddities.stderr"
		code=$?
		lines=$(diff "$out/oddities.plain" "$out/oddities.stdout" | grep -c '^[<>]')
		printf '%-16s exit code %d, %d of %d lines differ with %s\n' oddities "$code" "$lines" "$(wc -l <"$out/oddities.plain")" "${mode:-the default}" >>table
		[ "$code" = 0 ] && [ "$lines" = 0 ] || failed=1
	done
	flags=()
fi
if [[ allocations =~ $only ]]; then # all sources of memory have what the program says that it allocated
	nvcc -o allocations allocations.cu && nvcc -cudart shared -o allocations-shared allocations.cu || exit 1
	for program in "allocations" "allocations-shared arrays" "allocations mixed"; do
		read -ra run <<<"$program"
		for source in uprobe calls; do # with calls, CUPTI's callbacks tell
			log=$out/${program// /-}-$source
			flags=(--calls cupti)
			[ $source = uprobe ] && flags=(--calls uprobe)
			"$cudatrace" record -q --no-convert "${flags[@]}" -o "$log" ./"${run[@]}" >"$log.stdout" 2>"$log.stderr" || failed=1
			cat "$log.stderr"
			python3 allocations.py "$cudatrace" "$log.cudatrace" "$log.stdout" "$source" >>table || failed=1
		done
	done
	flags=()
fi
if [[ conditional =~ $only ]]; then # which work in the bodies of conditional nodes has its call
	nvcc -o conditional conditional.cu || exit 1
	for calls in "" cupti-; do
		flags=(${calls:+--calls cupti})
		for shape in behind beside beside-queued bare bare-queued bare-between bare-two if; do
			name=conditional-$calls$shape
			check "$name" ./conditional "$shape" &&
				"$cudatrace" convert "$out/$name.cudatrace" --format chrome -o "$out/$name.pt.trace.json.gz" &&
				python3 conditional.py "$out/$name.pt.trace.json.gz" "$out/$name.stdout" || failed=1
		done
	done
	flags=()
fi
if [[ metrics =~ $only ]]; then
	nvcc -O2 -std=c++17 -o metrics metrics.cu -lcublas && check metrics ./metrics &&
		python3 metrics.py "$cudatrace" "$out/metrics.cudatrace" "$out/metrics.stdout" || failed=1
fi
if [[ counters =~ $only ]]; then # PM sampling: needs the right to profile
	nvcc -O2 -std=c++17 -o metrics metrics.cu -lcublas || exit 1
	"$cudatrace" probes --gpu-metrics >"$out/counters.list" && head -n 20 "$out/counters.list" || failed=1
	for hz in 1000 10000; do
		flags=("--gpu-metrics=$hz")
		check "counters-$hz" ./metrics 2 &&
			python3 metrics.py "$cudatrace" "$out/counters-$hz.cudatrace" "$out/counters-$hz.stdout" || failed=1
		grep "PM sampling" "$out/counters-$hz.stderr" && failed=1
	done
	"$cudatrace" record -q --no-convert --gpu-metrics -o "$out/counters-first" ./metrics 2 >/dev/null &
	sleep 4
	"$cudatrace" record -q --no-convert --gpu-metrics -o "$out/counters-second" ./metrics 1 >/dev/null 2>"$out/counters-second.stderr"
	grep "another process uses the GPU's counters" "$out/counters-second.stderr" || failed=1
	wait
	flags=(--gpu-metrics)
	check counters-profiler python3 train.py 20 profiler
	cmp <(grep profiled "$out/counters-profiler.stdout") <(python3 train.py 20 profiler | grep profiled) || failed=1
	python3 samplers.py killed "$cudatrace" "$out" ./metrics 1 || failed=1
	python3 samplers.py share "$cudatrace" "$out" ./metrics 6 || failed=1
fi
if [[ calls =~ $only ]]; then # how many driver calls a call of the runtime makes, and how each mode counts it
	nvcc -cudart shared -o calls calls.cu -ldl || exit 1
	for name in calls "calls-cupti --calls cupti" "calls-records --calls cupti --api all" "calls-all --api all"; do
		read -ra flags <<<"${name#* }" && [[ $name == *" "* ]] || flags=()
		name=${name%% *}
		"$cudatrace" record --no-convert "${flags[@]}" -o "$out/$name" ./calls >"$out/$name.stdout" &&
			"$cudatrace" info "$out/$name.cudatrace" --format json >"$out/$name.json" || failed=1
	done
	python3 calls.py "$cudatrace" "$out" || failed=1
fi
if [[ refused =~ $only ]]; then # what is seen of a launch with too many threads: the same each time
	nvcc -o refused refused.cu || exit 1
	for mode in first tenth; do
		for n in 1 2 3 4 5; do
			"$cudatrace" record -q --no-convert -o "$out/refused-$mode-$n" ./refused $mode >/dev/null || failed=1
			"$cudatrace" info "$out/refused-$mode-$n.cudatrace" --format json |
				python3 -c 'import json, sys; i = json.load(sys.stdin); print(i["functions"], i["errors"], i["complete"])'
		done | sort -u >"$out/refused-$mode"
		cat "$out/refused-$mode"
		[ "$(wc -l <"$out/refused-$mode")" -eq 1 ] || failed=1
	done
fi
flags=(--calls cupti)
check train-cupti python3 train.py 50
check streams-cupti ./streams-static
flags=(--api all)
check streams-all ./streams-shared
flags=(--gpu none)
check driver-probes ./driver 1000
flags=(--capture-range cudaProfilerApi)
check range ./kinds range 200
flags=(--capture-range cudaProfilerApi --calls cupti)
check range-cupti ./kinds range 200
flags=(--capture-range nvtx:step@)
check nvtx-range ./kinds nvtx 200
flags=(--capture-range nvtx:step@ --calls cupti)
check nvtx-range-cupti ./kinds nvtx 200
flags=()
check train-profiler python3 train.py 20 profiler

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
cat table
exit $failed
