#!/usr/bin/env bash
# PyTorch's operators on a GPU: training and decoding are recorded with --pytorch on, and each launch's operators are held
# against torch.profiler's trace of the same loop. Usage: operators.sh OUT. Needs PyTorch, about 60 s.
set -u
out=$1 failed=0
here=$(cd "$(dirname "$0")" && pwd)
for mode in train decode; do
	mkdir -p "$out"; log=$out/$mode.cudatrace
	bin/cudatrace record --pytorch on --no-convert -o "$log" python3 "$here/operators.py" $mode 2 \
		>"$out/$mode.steps" 2>"$out/$mode.txt" || failed=1
	python3 "$here/operators.py" $mode 0.5 --profile "$out/$mode.json" >>"$out/$mode.txt" 2>&1 || failed=1
	printf '%s: ' $mode
	python3 "$here/operators_check.py" bin/cudatrace "$log" "$out/$mode.steps" "$out/$mode.json" || failed=1
done
exit $failed
