"""A small PyTorch training loop: many short kernels, as real training has.

Usage: train.py [STEPS]. Prints the loss and the steps.
"""
import sys

import torch

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 50
torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(50))).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=False)
x = torch.randn(32, 64).cuda()
y = torch.randn(32, 64).cuda()
for step in range(steps):
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
torch.cuda.synchronize()
print(f"steps={steps} loss={loss.item():.4f}")
