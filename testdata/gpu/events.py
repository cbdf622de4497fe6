"""A PyTorch training step whose batch is copied on a stream of its own, with an event in each direction; prints the median of its steps.

Usage: python3 events.py [STEPS]
"""
import statistics
import sys
import time

import torch

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 300
net = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(50))).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, foreach=False)
host = torch.randn(32, 64).pin_memory()
main, side = torch.cuda.current_stream(), torch.cuda.Stream()
times = []
for _ in range(steps):
    begun = time.perf_counter()
    with torch.cuda.stream(side):
        side.wait_stream(main)
        x = host.to("cuda", non_blocking=True)
    main.wait_stream(side)
    x.record_stream(main)
    optimizer.zero_grad(set_to_none=True)
    torch.nn.functional.mse_loss(net(x), x).backward()
    optimizer.step()
    torch.cuda.synchronize()
    times.append(time.perf_counter() - begun)
print(f"median step {statistics.median(times[20:]) * 1e3:.3f} ms")
