"""A decoding loop that counts its tokens as steps: 600 launches a token, batch 1, as in overhead.md. Prints, for each
ten seconds, when they begin (CLOCK_MONOTONIC), and the mean time of a token. watch.py SECONDS FOLDER-OF-MODULE"""
import sys
import time

import torch

sys.path.insert(0, sys.argv[2])
import cudatrace  # noqa: E402

torch.manual_seed(1)
LAYERS, WIDTH = 60, 256
layers = [torch.nn.Linear(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16) for _ in range(LAYERS)]
norm = torch.nn.LayerNorm(WIDTH, device="cuda", dtype=torch.bfloat16)


@torch.no_grad()
def token(x):
    for layer in layers:
        x = norm(torch.nn.functional.gelu(layer(x)) + x) * 0.5 + x.tanh()
    return x


x = torch.randn(1, WIDTH, device="cuda", dtype=torch.bfloat16)
end = time.monotonic() + float(sys.argv[1])
mark, count = time.monotonic(), 0
print("ready", flush=True)
while time.monotonic() < end:
    cudatrace.step()
    x = token(x)
    x.sum().item()
    count += 1
    now = time.monotonic()
    if now - mark >= 10:
        print(f"{mark:.3f} {(now - mark) / count * 1e3:.4f}", flush=True)
        mark, count = now, 0
