#!/usr/bin/env bash
# Runs each program of a folder plain and recorded, with probes and with CUPTI alone: exit code and output have to be the
# same, the counts of kernels, copies and memsets and the peak of memory equal between the two logs, all work matched, both
# logs complete.
#
# Usage: testdata/gpu/foreign.sh FOLDER [OUTDIR] [SECONDS]      (needs bin/cudatrace, root)
#
# A program of which neither mode makes a log is listed with "no CUDA". A program runs without arguments, in its folder, for at most SECONDS (60). Output that differs between two plain runs
# is compared without its numbers, or not at all if that differs too.
set -u
cudatrace=$(cd "$(dirname "$0")/../.." && pwd)/bin/cudatrace
folder=$(cd "${1:?which folder of programs?}" && pwd) || exit 2
out=${2:-$(mktemp -d)}
limit=${3:-60}
mkdir -p "$out" && out=$(cd "$out" && pwd) && cd "$folder" || exit 2
failed=0
numberless() { sed -E 's/[0-9]+([.][0-9]+)?(e[-+]?[0-9]+)?/N/g' "$1"; }
# same A B C: whether the recorded output C is that of the plain runs A and B.
same() {
	cmp -s "$1" "$2" && { cmp -s "$1" "$3"; return; }
	cmp -s <(numberless "$1") <(numberless "$2") || return 0
	cmp -s <(numberless "$1") <(numberless "$3")
}
figures() {
	python3 - "$1" <<'END'
import json, sys
i = json.load(open(sys.argv[1]))
work = i["kernels"] + i["copies"] + i["sets"]
print(i["kernels"], i["copies"], i["sets"], i["peak_device_bytes"], "" if i["matched"] == work else f"matched={i['matched']}/{work}",
      "" if i["complete"] else "incomplete: " + "; ".join(i["reasons"]))
END
}
for program in *; do
	[ -f "$program" ] && [ -x "$program" ] || continue
	faults=()
	for turn in 1 2; do
		timeout "$limit" "./$program" >"$out/$program.plain$turn" 2>&1 </dev/null
		plain=$?
	done
	for mode in probes cupti; do
		flags=()
		[ $mode = cupti ] && flags=(--calls cupti)
		timeout $((3 * limit)) "$cudatrace" record -q --no-convert "${flags[@]}" -o "$out/$program.$mode" "./$program" >"$out/$program.$mode.out" 2>&1 </dev/null
		code=$?
		grep -v '^cudatrace: ' "$out/$program.$mode.out" >"$out/$program.$mode.own"
		[ $code = $plain ] || faults+=("$mode: exit code $code, not $plain")
		same "$out/$program.plain1" "$out/$program.plain2" "$out/$program.$mode.own" || faults+=("$mode: other output")
		[ -e "$out/$program.$mode.cudatrace" ] || { counts[${#mode}]="no CUDA"; continue; }
		"$cudatrace" info "$out/$program.$mode.cudatrace" --format json >"$out/$program.$mode.json" 2>/dev/null
		read -r kernels copies sets peak rest < <(figures "$out/$program.$mode.json" 2>/dev/null) || faults+=("$mode: no log")
		[ -z "${rest:-}" ] || faults+=("$mode: $rest")
		counts[${#mode}]="${kernels:-} ${copies:-} ${sets:-} ${peak:-}"
	done
	[ "${counts[6]}" = "${counts[5]}" ] || faults+=("kernels, copies, sets, peak: ${counts[6]} with probes, ${counts[5]} with CUPTI")
	printf '%-40s exit %3d  %s  %s\n' "$program" "$plain" "${counts[6]}" "$([ ${#faults[@]} = 0 ] && echo ok || { printf 'FAILED'; printf '; %s' "${faults[@]}"; })"
	[ ${#faults[@]} = 0 ] || failed=1
done
exit $failed
