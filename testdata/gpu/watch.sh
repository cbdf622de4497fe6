#!/bin/bash
# The budget of 'cudatrace watch', held by a decoding loop on the GPU. The loop runs for some seconds without a recorder
# and then for as long beside 'watch'; the last lines compare the times of a token: of the first windows' effect that stays
# (CUPTI), and of all that recording costs beside it. Root, PyTorch, bin/cudatrace.
# watch.sh OUT [SECONDS (480)] [BUDGET (1%)]; DETACH=1 to have CUPTI taken out behind each window
set -eu
out=$1 seconds=${2:-480} budget=${3:-1%}
here=$(cd "$(dirname "$0")" && pwd) root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$out"
alone=$((seconds / 4))
"$root/bin/cudatrace" run --armed python3 "$here/watch.py" $((alone + seconds)) "$root/packaging/python" >"$out/tokens" &
pid=$!
until grep -q ready "$out/tokens"; do sleep 0.2; kill -0 $pid; done
sleep $alone
python3 -c "import time; print(time.monotonic())" >"$out/began"
timeout -s INT $((seconds - 15)) "$root/bin/cudatrace" watch -p $pid -o "$out/windows" --every 30s --for 1s --budget "$budget" ${DETACH:+--detach} \
	--convert pprof --prometheus "$out/watch.prom" 2>"$out/said" || true
wait $pid
cat "$out/said"
grep '^cudatrace_watch' "$out/watch.prom"
python3 - "$out" <<'END'
import sys, statistics
out = sys.argv[1]
began = float(open(out + "/began").read().split()[0])
rows = [tuple(map(float, l.split())) for l in open(out + "/tokens") if l[0].isdigit()]
before = [ms for at, ms in rows if at + 10 <= began]
after = [ms for at, ms in rows if at >= began]
quiet = statistics.median(after)  # most tens of seconds have no window
print(f"{'':28}ms a token")
print(f"{'before watch':28}{statistics.mean(before):.3f}")
print(f"{'beside it, no window (median)':28}{quiet:.3f}  x {quiet / statistics.mean(before):.3f} (what stays of CUPTI)")
print(f"{'beside it, mean':28}{statistics.mean(after):.3f}  x {statistics.mean(after) / quiet:.4f} (the windows)")
END
