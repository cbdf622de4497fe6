#!/usr/bin/env bash
# Several GPUs of one host: counts of one recorder and of one a rank, planted causes on one rank, a rank that never comes, collectives of every
# kind, and armed processes that are recorded twice. Prints a table last.
#
# Usage: testdata/gpu/ranks.sh OUTDIR [REGEX]      (needs bin/cudatrace, two GPUs or more, root)
set -u
here=$(cd "$(dirname "$0")" && pwd)
export PATH=$here/../../bin:$PATH PYTHONUNBUFFERED=1
out=$(mkdir -p "${1:?which folder for logs?}" && cd "$1" && pwd) || exit 1
only=${2:-.} # a regular expression on names of scenarios
gpus=$(nvidia-smi -L | wc -l)
last=$((gpus - 1))
cd "$out" || exit 1
: >table
begun=$SECONDS
row() { printf '%-12s %s\n' "$@" | tee -a table; }
wanted() { [[ $1 =~ $only ]] && echo "-- $1, after $((SECONDS - begun)) s"; }
torch() { timeout -k 5 "${limit:-100}" torchrun --standalone --nproc-per-node "$gpus" "$@"; }
# a_rank_each NAME OPTION... -- PROGRAM...: a recorder for each rank
a_rank_each() {
	local name=$1 options=()
	shift
	while [ "$1" != -- ]; do options+=("$1") && shift; done
	shift
	torch --no-python cudatrace record -q --python auto --no-convert "${options[@]}" -o "$name-%r" python3 "$@" >"$name.out" 2>"$name.err" ||
		row "$name" "FAILED: $(tail -1 "$name.err")"
}
said() { grep -ho 'all_reduce [0-9]*' "$1" | awk '{n += $2} END {print n + 0}'; }
# pid_of RANK PROGRAM: its process, not its recorder or launcher
pid_of() {
	local p
	for p in $(pgrep -f "$2"); do
		[ "$(tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | sed -n 's/^RANK=//p')" = "$1" ] || continue
		case $(readlink "/proc/$p/exe") in *python3*) echo "$p" ;; esac
	done | head -1
}

# 1. Counts of one recorder around the launcher, and of one a rank, against those that the program printed.
if wanted counts; then
	torchrun="torchrun --standalone --nproc-per-node $gpus"
	timeout -k 5 100 cudatrace record -q --python auto --no-convert -o one $torchrun "$here/ranks.py" 60 >one.out 2>one.err
	a_rank_each each -- "$here/ranks.py" 60
	count() { cudatrace stats --format json "$@" 2>count.err | python3 -c '
import json, sys
s = json.load(sys.stdin)
members = [c["members"] for c in s["collectives"]]
print(sum(k["count"] for k in s["kernels"]), "kernels,", sum(k["count"] for k in s["kernels"] if k["name"].startswith("nccl")), "of NCCL,",
      len({c["communicator"] for c in s["collectives"]}), "communicators of", sorted(set(members)), "ranks")'; }
	row counts "one recorder: $(count one.cudatrace)"
	row counts "one a rank:   $(count each-*.cudatrace); the program asked for $(said one.out) and $(said each.out) all-reduces"
	cudatrace info one.cudatrace >one.info 2>&1
	cudatrace stats --report python,collectives each-*.cudatrace >each.stats 2>each.stats.err
	row lines "$(cudatrace stats --format json each-*.cudatrace 2>/dev/null | python3 -c '
import json, sys
rows = json.load(sys.stdin)["kernel_python"]
nccl = [r for r in rows if r.get("kernel", r.get("name", "")).startswith("nccl")]
print(len(nccl), "rows of kernels of NCCL with a line:", json.dumps(nccl[:2]))' 2>&1 | tail -1)"
fi

# 2. A planted cause on the last rank: what each report says first.
for cause in straggler loader starved kernel; do
	wanted "$cause" || continue
	a_rank_each "$cause" -- "$here/ranks.py" 120 $cause "$last"
	cudatrace stats --report critical_path,findings "$cause"-*.cudatrace >"$cause.path" 2>&1
	cudatrace stats "$cause"-*.cudatrace >"$cause.stats" 2>&1
	row "$cause" "$(cudatrace stats --format json "$cause"-*.cudatrace 2>/dev/null | python3 -c '
import json, sys
s = json.load(sys.stdin)
print("last ranks:", [(c["name"][:24], c["count"], c.get("last_rank"), *(round(c.get(k) or 0, 3) for k in ("waited_for_share", "last_share"))) for c in s["collectives"]][:2],
      "path:", json.dumps(s["critical_path"][:3])[:700])' 2>&1 | tail -1)"
	row "$cause" "$(sed -n '/^findings/,$p' "$cause.path" | head -4 | tr -s ' \n' ' ')"
done

# 3. A rank that never launches its all-reduce.
if wanted never; then
	a_rank_each never -- "$here/ranks.py" 40 never "$last" &
	job=$!
	for _ in $(seq 60); do ls /tmp/never-* >/dev/null 2>&1 && break || sleep 1; done
	sleep 4
	for r in $(seq 0 "$last"); do
		{
			at=$(date +%s%N)
			cudatrace stuck -p "$(pid_of "$r" 'ranks.py 40 never')" --format json >"never-$r.json" 2>"never-$r.err"
			echo $((($(date +%s%N) - at) / 1000000)) >"never-$r.ms"
		} &
	done
	wait $(jobs -p | grep -v "^$job$")
	cudatrace stuck never-*.json >never.txt 2>&1
	row never "$(cat never-*.ms | sort -n | tail -1) ms: $(head -1 never.txt)"
	cudatrace stuck -p $(for r in $(seq 0 "$last"); do pid_of "$r" 'ranks.py 40 never'; done) >never.all 2>&1
	row never "all at once: $(head -1 never.all)"
	pkill -9 -f "ranks.py 40 never"
	wait $job
	rm -f /tmp/never-*
fi

# 4. Every kind of collective, for clocks that a test moves; and small captures of what is above, for tests.
if wanted small; then
	export LAYERS=3
	a_rank_each clocks -- "$here/collectives.py" 12 3 -1 0
	for cause in straggler starved kernel; do a_rank_each "small-$cause" -- "$here/ranks.py" 16 $cause "$last"; done
	a_rank_each small-loader --gpu-metrics -- "$here/ranks.py" 16 loader "$last"
fi

# 5. Armed, and recorded twice.
if wanted armed; then
	limit=120 torch --no-python cudatrace run --armed python3 "$here/ranks.py" 100000 >armed.out 2>armed.err &
	job=$!
	sleep 25
	for n in 1 2; do
		pids=$(for r in $(seq 0 "$last"); do pid_of "$r" 'ranks.py 100000'; done)
		timeout -k 5 60 cudatrace record -q --no-convert --duration "${DURATION:-1s}" -o "armed-$n" -p "$(echo $pids | tr ' ' ',')" >"armed-$n.out" 2>&1
		row "armed $n" "$(cudatrace info --format json "armed-$n.cudatrace" 2>&1 | grep -E '"(kernels|unmatched|complete|processes)"' | tr -d ' \n')"
		sleep 2
	done
	pkill -9 -f "ranks.py 100000"
	wait $job
fi
echo
cat table
