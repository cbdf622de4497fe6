#!/usr/bin/env bash
# Memory of PyTorch's cache on a GPU: a training loop and one that runs out of memory are recorded with --pytorch memory, and
# held against torch.cuda.memory_stats and torch.cuda.memory._snapshot of the same runs; then what it costs a step.
# Usage: torch_memory.sh OUT. Needs root and PyTorch, about 90 s.
set -u
out=$1 failed=0
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
said() { [ "$1" = 0 ] && echo "OK" || { echo "FAILED"; failed=1; }; }

echo "== training: the log against torch.cuda.memory_stats at ten moments"
bin/cudatrace record --pytorch memory --no-convert -o "$out/train" python3 "$here/torch_memory.py" train 4 "$out/moments" \
	2>"$out/train.txt" || { failed=1; cat "$out/train.txt"; }
grep -i "not recorded" "$out/train.txt"
python3 "$here/torch_memory_check.py" train bin/cudatrace "$out/train.cudatrace" "$out/moments"
said $?

echo "== out of memory: holders against torch.cuda.memory._snapshot"
bin/cudatrace record --pytorch off,memory --no-convert -o "$out/oom" python3 "$here/torch_memory.py" oom "$out/truth" \
	2>"$out/oom.txt" || { failed=1; cat "$out/oom.txt"; }
python3 "$here/torch_memory_check.py" oom bin/cudatrace "$out/oom.cudatrace" "$out/truth"
said $?

echo "== cost: median time of a step in ms, recorded without and with memory, alternating"
for _ in 1 2 3; do
	for what in off off,memory; do
		ms=$(bin/cudatrace record --pytorch $what --no-convert -o "$out/steps-$what" python3 "$here/torch_memory.py" steps 2 \
			2>"$out/steps.txt") || { failed=1; cat "$out/steps.txt"; }
		blocks=$(bin/cudatrace dump "$out/steps-$what.cudatrace" --kind torch_memory | grep -c ^torch_memory)
		echo "$what: $ms ms a step, $blocks blocks handed out or taken back in all"
	done
done
exit $failed
