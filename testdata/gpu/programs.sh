#!/usr/bin/env bash
# Programs as people write them with PyTorch (programs.py): each runs plain, recorded with --pytorch on, with torch.profiler in
# it, and with both. Exit code and output have to be equal, the operators of each launch those of torch.profiler, the operators
# of a compiled kernel those in its name. Prints a table last.
#
# Usage: testdata/gpu/programs.sh OUT [REGEX]      (needs bin/cudatrace, root, PyTorch; two GPUs for ddp; about 40 s a program)
set -u
here=$(cd "$(dirname "$0")" && pwd)
cudatrace=$here/../../bin/cudatrace
out=$(mkdir -p "${1:?which folder for logs?}" && cd "$1" && pwd) || exit 1
only=${2:-.} # a regular expression on names of programs
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
export PYTHONDONTWRITEBYTECODE=1 TORCHINDUCTOR_CACHE_DIR=$cache/inductor TRITON_CACHE_DIR=$cache/triton
gpus=$(nvidia-smi -L | wc -l)
failed=0
python3 -c '
import importlib.util, sys, torch
print("Python", sys.version.split()[0], "PyTorch", torch.__version__, torch.cuda.get_device_name())
for name in "torchvision", "transformers", "lightning", "pytorch_lightning", "diffusers":
    print(name, "is there" if importlib.util.find_spec(name) else "is not there: by hand")'
# run NAME KIND OPTION... [-- RECORDER...]: its output at NAME.KIND.out; returns its exit code
run() {
	local name=$1 kind=$2 options=() python=(python3)
	shift 2
	while [ $# != 0 ] && [ "$1" != -- ]; do options+=("$1") && shift; done
	[ $# = 0 ] || shift
	[ "$name" = ddp ] && python=(python3 -m torch.distributed.run --standalone --nproc-per-node 2)
	timeout -k 5 200 "$@" "${python[@]}" "$here/programs.py" "$name" "${options[@]}" 2>"$out/$name.$kind.err" </dev/null |
		sort >"$out/$name.$kind.out"
	return "${PIPESTATUS[0]}"
}
: >"$out/table"
for name in gpt resnet generate lightning diffusion function compile ddp; do
	[[ $name =~ $only ]] || continue
	ranks=1
	if [ $name = ddp ]; then
		ranks=2
		[ "$gpus" -ge 2 ] || { printf '%-10s needs two GPUs\n' $name >>"$out/table" && continue; }
	fi
	p=$out/$name faults=
	record=("$cudatrace" record --pytorch on --no-convert)
	run $name plain --times "$p.plain"; plain=$?
	[ $plain = 0 ] || { faults+=" plain run: exit code $plain,"; tail -3 "$p.plain.err"; }
	run $name recorded --times "$p.times" -- "${record[@]}" -o "$p"; code=$?
	run $name profiled --profile "$p.profile"; profiled=$?
	run $name both --profile "$p.both" -- "${record[@]}" -o "$p-both"; both=$?
	for kind in recorded:$code profiled:$profiled both:$both; do
		[ "${kind#*:}" = $plain ] || { faults+=" ${kind%:*}: exit code ${kind#*:},"; tail -3 "$p.${kind%:*}.err"; }
		cmp -s "$p.plain.out" "$p.${kind%:*}.out" && continue
		run $name again # a program whose results differ by themselves is no judge
		cmp -s "$p.plain.out" "$p.again.out" && faults+=" ${kind%:*}: other output," || echo "  $name: two plain runs differ"
	done
	"$cudatrace" info "$p.cudatrace" >"$p.info" 2>&1
	grep -ih 'lost\|missing\|incomplete\|not recorded\|not known' "$p.info" "$p.recorded.err" | grep -v 'nothing' | sed 's/^/  /' | head -4
	row=$(cd "$here" && python3 programs_check.py "$cudatrace" "$p.cudatrace" $name $ranks 2>&1) || faults+=" operators,"
	head -n -1 <<<"$row"
	printf '%-10s %s %s\n' $name "$(tail -n 1 <<<"$row")" "${faults:+FAILED:${faults%,}}" >>"$out/table"
	[ -z "$faults" ] || failed=1
	[ $name != compile ] || find "$cache/inductor" -name 'c*.py' -size -2M -exec cp -t "$out" {} +
	"$cudatrace" stats --report operators,modules,python --top 8 "$p.cudatrace" >"$p.stats" 2>&1
	[ $name != compile ] || sed 's/^/  /' "$p.stats"
done
echo
echo "In all: work, % with an operator, % with a Python line; compared with torch.profiler: launches, whose operators differ, whose"
echo "forward operators differ; kernels of Inductor's, without the operators of their names; ms a step plain and recorded"
printf '%-10s %7s %6s %6s %9s %6s %8s %8s %6s %8s %8s\n' program work op.% line% compared differ unlinked \
	compiled wrong plain recorded
cat "$out/table"
exit $failed
