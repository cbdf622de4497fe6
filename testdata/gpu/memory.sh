#!/usr/bin/env bash
# Figures of memory by CUPTI's callbacks, which need no rights, on a GPU: against what programs say that they allocate and
# against those of probes; that the programs end as by themselves, and that their own profilers still get CUPTI; the cost.
# Usage: testdata/gpu/memory.sh OUT [TURNS [SAMPLES]]    from the repository's root; needs bin/cudatrace, root, nvcc; PyTorch
# for some. About 230 s with 20 turns of the mixed program, which CUPTI's own records of memory kill. SAMPLES is a folder with
# the programs of NVIDIA's cuda-samples, built; a program takes up to a minute, five times.
set -u
out=$(mkdir -p "${1:?which folder?}" && cd "$1" && pwd) || exit 1
turns=${2:-20} samples=${3:-} failed=0
cudatrace=$PWD/bin/cudatrace here=$(cd "$(dirname "$0")" && pwd)
build=$(mktemp -d) && cp "$here"/*.cu "$here"/*.py "$build" && cd "$build" || exit 1
trap 'rm -rf "$build"' EXIT
: >"$out/table"
row() { printf '%-34s %s\n' "$@" >>"$out/table"; }
options() { # of a mode
	case $1 in
	default) ;;
	uprobe) echo --calls uprobe ;;
	*) echo --calls cupti --memory "$1" ;; # calls: the callbacks; none: without them
	esac
}

cat >cost.cu <<'END'
#include <cstdio>
#include <ctime>
__global__ void nothing() {}
static double now() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
int main()
{
	void *p;
	cudaStream_t s;
	cudaStreamCreate(&s);
	double pairs[9], ordered[9], launches[9];
	for (int turn = 0; turn < 9; turn++) {
		double t = now();
		for (int i = 0; i < 300; i++)
			cudaMalloc(&p, 4 << 20), cudaFree(p);
		pairs[turn] = (now() - t) / 300, t = now();
		for (int i = 0; i < 2000; i++)
			cudaMallocAsync(&p, 4096, s), cudaFreeAsync(p, s);
		ordered[turn] = (now() - t) / 2000;
		cudaStreamSynchronize(s), t = now();
		for (int i = 0; i < 5000; i++)
			nothing<<<1, 1, 0, s>>>();
		launches[turn] = (now() - t) / 5000;
		cudaStreamSynchronize(s);
	}
	double *lists[] = {pairs, ordered, launches};
	for (double *l : lists)
		for (int i = 0; i < 9; i++)
			for (int j = i + 1; j < 9; j++)
				if (l[j] < l[i]) { double x = l[i]; l[i] = l[j]; l[j] = x; }
	printf("cudaMalloc+cudaFree %.0f ns, in stream order %.0f ns, launch %.0f ns\n", pairs[4], ordered[4], launches[4]);
}
END
nvcc -o allocations allocations.cu && nvcc -cudart shared -o allocations-shared allocations.cu &&
	nvcc -std=c++17 -o oddities oddities.cu -lcuda && nvcc -O2 -o cost cost.cu || exit 1
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:/usr/local/cuda/lib64

echo "== what programs say that they allocate, $turns times"
for program in "allocations mixed" "allocations-shared arrays mixed" "allocations vmm devices ipc"; do
	read -ra run <<<"$program"
	for mode in calls uprobe; do
		ended=0 right=0 times=1
		[ "$mode $program" = "calls allocations mixed" ] && times=$turns
		for ((i = 0; i < times; i++)); do
			log=$out/${program// /-}-$mode
			read -ra flags <<<"$(options $mode)"
			"$cudatrace" record -q --no-convert "${flags[@]}" -o "$log" ./"${run[@]}" >"$log.stdout" 2>"$log.stderr" &&
				ended=$((ended + 1))
			python3 allocations.py "$cudatrace" "$log.cudatrace" "$log.stdout" "$mode" >"$log.txt" 2>&1 && right=$((right + 1)) ||
				{ cat "$log.stderr" "$log.txt"; failed=1; }
		done
		[ $ended = "$times" ] || failed=1
		row "$program, $mode" "$ended of $times ended with 0, $right of $times equal to the truth"
	done
done

echo "== legal oddities and refused calls: lines and exit code"
./oddities >"$out/oddities.plain"
for mode in calls none uprobe; do
	for ((i = 0, codes = 0, lines = 0; i < 2; i++)); do
		read -ra flags <<<"$(options "$mode")"
		"$cudatrace" record -q --no-convert "${flags[@]}" -o "$out/oddities-$mode" ./oddities >"$out/oddities.stdout" 2>"$out/oddities.stderr" ||
			codes=$((codes + 1))
		lines=$((lines + $(diff "$out/oddities.plain" "$out/oddities.stdout" | grep -c '^[<>]')))
	done
	row "oddities, $mode" "$codes of 2 exit codes other, $lines of 2 × $(wc -l <"$out/oddities.plain") lines differ"
	[ $codes = 0 ] && [ $lines = 0 ] || failed=1
done
for mode in uprobe calls; do
	"$cudatrace" stats "$out/oddities-$mode.cudatrace" --report memory --format csv >"$out/oddities-$mode.csv"
done
echo "memory of oddities, uprobe then calls:"
cat "$out/oddities-uprobe.csv" "$out/oddities-calls.csv"

echo "== a call by its two records: the callback's times against those of CUPTI's record"
"$cudatrace" dump "$out/allocations-mixed-calls.cudatrace" --kind call | grep cuMemAlloc_v2 | sed -n 1,3p
"$cudatrace" dump "$out/allocations-mixed-calls.cudatrace" --kind api | grep cuMemAlloc_v2 | sed -n 1,3p
"$cudatrace" stats "$out/allocations-mixed-calls.cudatrace" --report calls,memory_holders | head -40

echo "== a profiler in the program gets CUPTI's subscription: by dlsym, and PyTorch's"
cat >subscriber.py <<'END'
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
path = [l.split()[-1] for l in open("/proc/self/maps") if "libcupti.so" in l]
cupti = ctypes.CDLL(path[0] if path else "libcupti.so")
F = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)
def allocate(mib):
    p = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(mib << 20)) == 0
context = ctypes.c_void_p()
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
f, s = F(lambda *a: None), ctypes.c_void_p()
allocate(1)
codes = []
for turn in range(3):  # known, unknown, known
    if sys.argv[1] == "2" and hasattr(cupti, "cuptiSubscribe_v2"):  # since CUPTI 13.1
        codes.append(cupti.cuptiSubscribe_v2(ctypes.byref(s), f, None, (ctypes.c_size_t * 5)(32)))
    else:
        codes.append(cupti.cuptiSubscribe(ctypes.byref(s), f, None))
    allocate(16)
    codes.append(cupti.cuptiUnsubscribe(s))
    time.sleep(3)  # the subscription is taken again within a second
    allocate(1)
if sys.argv[1] == "end":
    codes.append(cupti.cuptiFinalize())
    allocate(16)
print("codes", *codes)
END
for version in 1 2 end; do # 2: cuptiSubscribe_v2; end: cuptiFinalize at last
	read -ra flags <<<"$(options calls)"
	said=$("$cudatrace" record --no-convert "${flags[@]}" -o "$out/subscriber$version" python3 subscriber.py $version 2>"$out/subscriber$version.txt")
	code=$? peak=$("$cudatrace" info "$out/subscriber$version.cudatrace" --format json | python3 -c '
import json, sys
i = json.load(sys.stdin)
print(i["peak_device_bytes"] >> 20, "MiB,", i["lost"]["memory_calls"], "times unknown")')
	row "cuptiSubscribe by dlsym, $version" "exit code $code, $said (0 is success); $peak"
	want="4 MiB, $([ $version = end ] && echo 4 || echo 3) times unknown"
	[[ $code = 0 && ! $said =~ [1-9] && $peak = "$want" ]] || failed=1
done
if python3 -c 'import torch' 2>/dev/null; then
	cat >profiled.py <<'END'
import torch
from torch.profiler import ProfilerActivity, profile
x = torch.ones(1000, device="cuda")
keep = [torch.ones(1 << 20, device="cuda") for _ in range(64)]
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
    for _ in range(150):
        x = x + 1
    torch.cuda.synchronize()
print("kernels", sum(e.device_type == torch.autograd.DeviceType.CUDA and "elementwise" in e.name for e in p.events()))
END
	plain=$(python3 profiled.py 2>/dev/null)
	row "torch.profiler, not recorded" "$plain"
	for mode in calls none; do
		read -ra flags <<<"$(options $mode)"
		said=$("$cudatrace" record --no-convert "${flags[@]}" -o "$out/profiled-$mode" python3 profiled.py 2>"$out/profiled-$mode.txt")
		row "torch.profiler, $mode" "$said; memory: $("$cudatrace" info "$out/profiled-$mode.cudatrace" | grep -i 'peak memory' | tr -s ' ')"
		[ "$said" = "$plain" ] || failed=1
	done
	for conf in "" expandable_segments:True; do
		for mode in default uprobe calls; do
			read -ra flags <<<"$(options $mode)"
			PYTORCH_CUDA_ALLOC_CONF=$conf "$cudatrace" record --no-convert "${flags[@]}" -o "$out/torch-$mode$conf" python3 torch_memory.py train 1 \
				"$out/moments" >/dev/null 2>"$out/torch-$mode$conf.txt" || { failed=1; tail -5 "$out/torch-$mode$conf.txt"; }
			"$cudatrace" stats "$out/torch-$mode$conf.cudatrace" --report memory --format csv >"$out/torch-$mode$conf.csv"
			row "torch ${conf:-usual segments}, $mode" "$(sed -n 2p "$out/torch-$mode$conf.csv")"
			holders=$("$cudatrace" stats "$out/torch-$mode$conf.cudatrace" --report memory_holders)
			head -12 <<<"$holders"
			lines=$(grep -o '[0-9.]* % of [0-9]* allocations have a Python frame' <<<"$holders")
			row "torch ${conf:-usual segments}, $mode" "${lines:-no allocation has a Python frame}"
			[ "$(cut -d. -f1 <<<"${lines:-0}")" -ge 90 ] || failed=1
		done
	done
fi

if python3 -c 'import torch' 2>/dev/null; then
	echo "== 400 operators: output and exit code"
	for run in plain again calls; do
		record=()
		[ $run = calls ] && record=("$cudatrace" record -q --no-convert --calls cupti --memory calls -o "$out/operators")
		"${record[@]}" python3 operators_many.py 400 >"$out/operators.$run" 2>"$out/operators.$run.txt"
		echo $? >>"$out/operators.$run"
	done
	unsteady=$(diff "$out/operators.plain" "$out/operators.again" | grep '^<' | cut -d' ' -f2)
	other=$(diff "$out/operators.plain" "$out/operators.calls" | grep '^<' | cut -d' ' -f2 | grep -vxF "${unsteady:-none}")
	row "400 operators, calls" "$(tail -n 2 "$out/operators.calls" | tr '\n' ' ')is count and exit code; other output: ${other:-none}; by itself: ${unsteady:-none}"
	[ -z "$other" ] && [ "$(tail -n 1 "$out/operators.plain")" = 0 ] || failed=1
fi
if [ -n "$samples" ]; then
	echo "== NVIDIA's samples: output, exit code, and peak memory, by probes and by callbacks"
	"$here/foreign.sh" "$samples" "$out/samples" >"$out/samples.txt" || failed=1
	grep FAILED "$out/samples.txt"
	row "samples" "$(wc -l <"$out/samples.txt") programs, $(grep -c FAILED "$out/samples.txt") failed"
else
	row "samples" "skipped: no folder of them was named"
fi

echo "== cost of a call, medians of 9"
row "cost, not recorded" "$(./cost)"
for mode in uprobe none calls none calls; do
	read -ra flags <<<"$(options $mode)"
	row "cost, $mode" "$("$cudatrace" record -q --no-convert "${flags[@]}" -o "$out/cost-$mode" ./cost)"
done
echo
cat "$out/table"
[ $failed = 0 ] && echo "all right" || echo "SOMETHING IS WRONG"
exit $failed
