#!/usr/bin/env bash
# Several GPUs of one host: counts of one recorder and of one a rank, planted causes on one rank, a rank that never comes, and armed processes
# that are recorded twice. Prints a table last.
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
row() { printf '%-14s %-5s %s\n' "$@" | tee -a table; }
wanted() { [[ $1 =~ $only ]]; }
torch() { torchrun --nproc-per-node "$gpus" "$@"; }
said() { grep -ho 'all_reduce [0-9]*' "$1" | awk '{n += $2} END {print n + 0}'; }

# 1. Counts of one recorder around the launcher, and of one a rank, against those that the program printed.
if wanted counts; then
	cudatrace record -q --python auto --no-convert -o one torchrun --nproc-per-node "$gpus" "$here/ranks.py" 60 >one.out 2>one.err
	torch --no-python cudatrace record -q --python auto --no-convert -o 'each-%r' python3 "$here/ranks.py" 60 >each.out 2>each.err
	count() { cudatrace stats --format json "$@" 2>/dev/null | python3 -c '
import json, sys
s = json.load(sys.stdin)
print(sum(c["count"] for c in s.get("collectives", [])))'; }
	a=$(count one.cudatrace) b=$(count each-*.cudatrace)
	row counts "$([ "$a" = "$b" ] && echo ok || echo BAD)" "collectives: one recorder $a, one a rank $b; the program says $(said one.out) of $gpus ranks"
	cudatrace stats --report python --format json each-*.cudatrace >python.json 2>python.err
	row lines "" "$(grep -o 'average_gradients' python.json | wc -l) rows of average_gradients in the report python"
fi

# 2. A planted cause on the last rank: what each report says first.
for cause in straggler loader starved kernel; do
	wanted "$cause" || continue
	torch --no-python cudatrace record -q --python auto --no-convert -o "$cause-%r" python3 "$here/ranks.py" 120 "$cause" "$last" >"$cause.out" 2>"$cause.err"
	cudatrace stats --report critical_path "$cause"-*.cudatrace >"$cause.path" 2>&1
	cudatrace stats "$cause"-*.cudatrace >"$cause.stats" 2>&1
	cudatrace stats --report collectives --format json "$cause"-*.cudatrace >"$cause.json" 2>/dev/null
	row "$cause" "" "$(grep -m1 -i 'rank' "$cause.path" || head -1 "$cause.path")"
done
if wanted straggler; then
	row straggler "" "$(python3 - straggler.json "$last" <<'PY'
import json, sys
rows = json.load(open(sys.argv[1])).get("collectives", [])
print("; ".join(str({k: r[k] for k in r if "last" in k}) for r in rows[:3]))
PY
)"
fi

# 3. A rank that never launches its all-reduce.
if wanted never; then
	torch --no-python cudatrace record -q --python auto --no-convert -o 'never-%r' python3 "$here/ranks.py" 40 never "$last" >never.out 2>never.err &
	job=$!
	sleep 30
	for r in $(seq 0 "$last"); do
		pid=$(pgrep -f "ranks.py 40 never" | while read -r p; do
			[ "$(tr '\0' '\n' </proc/"$p"/environ 2>/dev/null | sed -n 's/^RANK=//p')" = "$r" ] &&
				[ "$(readlink /proc/"$p"/exe | grep -c python)" = 1 ] && ! grep -q cudatrace "/proc/$p/comm" && echo "$p"
		done | tail -1)
		cudatrace stuck -p "$pid" --format json >"never-$r.json" 2>"never-$r.err" &
	done
	begun=$(date +%s%N)
	wait $(jobs -p | grep -v "^$job$")
	cudatrace stuck never-*.json >never.txt 2>&1
	row never "" "$((($(date +%s%N) - begun) / 1000000)) ms: $(head -1 never.txt)"
	pkill -9 -f "ranks.py 40 never"
	wait $job
fi

# 5. Armed, and recorded twice.
if wanted armed; then
	torch --no-python cudatrace run --armed python3 "$here/ranks.py" 3000 >armed.out 2>armed.err &
	job=$!
	sleep 25
	for n in 1 2; do
		pids=$(pgrep -f "^[^ ]*python3 .*ranks.py 3000" | tr '\n' ',' | sed 's/,$//')
		cudatrace record -q --no-convert --duration 2s -o "armed-$n" -p "$pids" >"armed-$n.out" 2>&1
		row "armed $n" "" "$(cudatrace info "armed-$n.cudatrace" | grep -iE '^(calls|kernels|gpu work)' | tr -s ' ' | tr '\n' ';')"
	done
	pkill -9 -f "ranks.py 3000"
	wait $job
fi
echo
cat table
