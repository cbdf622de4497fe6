#!/bin/bash
# The budget of 'cudatrace watch', held by a decoding loop on the GPU. The loop runs for some seconds without a recorder
# and then for as long beside 'watch', TURNS times without and with --detach. The table, which comes last, has the time of
# a token before, in the tens of seconds without a window (what stays of CUPTI), and in the mean (all that recording costs
# beside it: x is this over the mean of those without), and what 'watch' itself says. Root, PyTorch, bin/cudatrace.
# watch.sh OUT [SECONDS (480)] [BUDGET (1%)] [TURNS (3)] [MODES ("stays detach")]: for each mode TURNS x 1.125 x SECONDS, an hour
set -eu
seconds=${2:-480} budget=${3:-1%} turns=${4:-3} modes=${5:-stays detach}
here=$(cd "$(dirname "$0")" && pwd) root=$(cd "$(dirname "$0")/../.." && pwd)
alone=$((seconds / 8))

run() { # OUT MODE
	local out=$1 pid options=()
	[ "$2" = --stays ] || options=("$2")
	mkdir -p "$out"
	"$root/bin/cudatrace" run --armed python3 "$here/watch.py" $((alone + seconds)) "$root/packaging/python" >"$out/tokens" &
	pid=$!
	until grep -q ready "$out/tokens"; do sleep 0.2; kill -0 $pid; done
	sleep $alone
	python3 -c "import time; print(time.monotonic(), time.time())" >"$out/began"
	timeout -s INT $((seconds - 15)) "$root/bin/cudatrace" watch -p $pid -o "$out/windows" --every 30s --for 1s \
		--budget "$budget" "${options[@]}" --convert pprof --prometheus "$out/watch.prom" 2>"$out/said" || true
	wait $pid
	cat "$out/said"
	grep -E '^cudatrace_(watch|step)_' "$out/watch.prom" # with NVML's, threads' states, and the steps of a window
}

for turn in $(seq "$turns"); do
	for mode in $modes; do
		run "$1/$turn-$mode" "--$mode"
	done
done
python3 - "$1" <<'END'
import datetime, glob, re, statistics, sys
print(f"{'':12}{'before':>9}{'no window':>11}{'mean':>9}   {'stays':>8}{'windows':>9}   {'number':>6}  watch says")
for out in sorted(glob.glob(sys.argv[1] + "/*-*/")):
    began, utc = map(float, open(out + "began").read().split())
    rows = [tuple(map(float, l.split())) for l in open(out + "tokens") if l[0].isdigit()]
    stamps = re.findall(r"(\d{8}T\d{6})Z: its? cost", open(out + "said").read())
    windows = [datetime.datetime.strptime(s + "+0000", "%Y%m%dT%H%M%S%z").timestamp() - utc + began for s in stamps]
    before = statistics.mean(ms for at, ms in rows if at + 10 <= began)
    after = [(at, ms) for at, ms in rows if at >= began]
    quiet = statistics.mean(ms for at, ms in after if not any(at - 5 < w < at + 11 for w in windows))  # start, 1 s, stop
    mean = statistics.mean(ms for _, ms in after)
    prom = open(out + "watch.prom").read()
    told = [re.search(r"(?m)^cudatrace_watch_%s\S* (\S+)" % f, prom) for f in ("windows_total", "cost_ratio", "cost_error_ratio")]
    number, cost, error = [float(t.group(1)) if t else float("nan") for t in told]
    print(f"{out.split('/')[-2]:12}{before:9.3f}{quiet:11.3f}{mean:9.3f}   x {quiet / before:6.3f}  x {mean / quiet:6.4f}   "
          f"{number:6.0f}  {100 * cost:.2f} % +- {100 * error:.2f} %")
END
