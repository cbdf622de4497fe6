#!/bin/bash
# Functions of NCCL and cuDNN on the timeline, of a program that uses both: one process, one GPU or several.
# testdata/gpu/probes.sh [FOLDER]   needs cudatrace in PATH with the rights for probes, and PyTorch. It prints what it saw, and fails
# if a function is missing, if its time does not hold its launches, or if the program's output differs.
set -e
out=${1:-$(mktemp -d)}
cat > "$out/probed.py" <<'PY'
import os, torch, torch.distributed as dist
os.environ.setdefault("MASTER_ADDR", "127.0.0.1"); os.environ.setdefault("MASTER_PORT", "29511")
dist.init_process_group("nccl", rank=0, world_size=1)
torch.manual_seed(0)
torch.backends.cudnn.deterministic = True
conv = torch.nn.Conv2d(16, 32, 3).cuda()
x = torch.randn(8, 16, 64, 64, device="cuda")
for step in range(20):
    loss = conv(x).square().mean()
    loss.backward()
    for p in conv.parameters():
        dist.all_reduce(p.grad)
    torch.cuda.synchronize()
print(f"loss {loss.item():.6f}")
dist.destroy_process_group()
PY
want=$(python3 "$out/probed.py" 2>/dev/null)
got=$(cudatrace record -q -o "$out/probed" --probe 'libnccl:ncclAllReduce/5' --probe 'libnccl:ncclGroup*' --probe 'libcudnn*:cudnnBackendExecute/3' \
	python3 "$out/probed.py" 2>"$out/said")
cat "$out/said"
[ "$got" = "$want" ] || { echo "the program printed: $got, not: $want"; exit 1; }
cudatrace stats "$out/probed.cudatrace" --report library_functions
for name in ncclAllReduce cudnnBackendExecute; do
	cudatrace stats "$out/probed.cudatrace" --report library_functions --format csv | grep -q "^$name," || { echo "no $name"; exit 1; }
done
cudatrace info "$out/probed.cudatrace" | grep -E '^(complete|lost|note)'
