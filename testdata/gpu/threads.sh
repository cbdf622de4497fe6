#!/bin/bash
# What threads do, of PyTorch loops on a GPU with planted causes: a slow loader, a thread that holds the GIL, too few processors.
# testdata/gpu/threads.sh [FOLDER]   needs cudatrace in PATH, PyTorch, taskset. It prints the finding of each cause, and fails where the
# report of idle times does not name the cause first.
set -e
out=${1:-$(mktemp -d)}
cat > "$out/loop.py" <<'PY'
import sys, threading, time, torch
cause, steps = sys.argv[1], int(sys.argv[2])
a = torch.randn(1024, 1024, device="cuda")
def hog():
    while True:
        sum(range(200_000))
if cause == "gil":
    threading.Thread(target=hog, daemon=True).start()
def slow_loader():
    time.sleep(0.02)
times = []
for step in range(steps):
    begun = time.perf_counter()
    if cause == "loader":
        slow_loader()
    for _ in range(20):
        a = a @ a / 1024
    if cause == "starved":
        sum(range(200_000))
    torch.cuda.synchronize()
    times.append(time.perf_counter() - begun)
times.sort()
print(f"{cause}: median step {times[len(times) // 2] * 1e3:.3f} ms")
PY
failed=0
look() { # CAUSE TEXT COMMAND...
	local cause=$1 text=$2
	shift 2
	cudatrace record -q --no-convert -o "$out/$cause" "$@" python3 "$out/loop.py" "$cause" 60
	cudatrace stats "$out/$cause.cudatrace" --report idle,findings --top 5
	cudatrace stats "$out/$cause.cudatrace" --report idle --format csv | head -6 | grep -q "$text" || { echo "$cause: no owner $text"; failed=1; }
}
look loader "slow_loader, sleeps in"
look gil "waits for the GIL"
sh -c 'while :; do :; done' & busy=$!
trap 'kill $busy' EXIT
taskset -cp 0 $busy >/dev/null
look starved "ready to run" taskset -c 0
kill $busy
trap - EXIT
exit $failed
