"""CuPy, JAX or both runtimes of PyTorch and CuPy in one process. Usage: arrays.py cupy|jax|both"""
import sys


def use_cupy():
    import cupy

    a = cupy.random.rand(512, 512, dtype=cupy.float32)
    for _ in range(50):
        a = cupy.tanh(a @ a / 512)
    print("cupy", float(a.sum()) == float(a.sum()))


def use_jax():
    import jax
    import jax.numpy as jnp

    f = jax.jit(lambda a: jnp.tanh(a @ a / 512))
    a = jax.random.uniform(jax.random.PRNGKey(0), (512, 512))
    for _ in range(50):
        a = f(a)
    print("jax", a.block_until_ready().shape)


def use_torch():
    import torch

    a = torch.rand(512, 512, device="cuda")
    for _ in range(50):
        a = torch.tanh(a @ a / 512)
    print("torch", a.sum().isfinite().item())


for name in {"cupy": ["cupy"], "jax": ["jax"], "both": ["torch", "cupy"]}[sys.argv[1]]:
    {"cupy": use_cupy, "jax": use_jax, "torch": use_torch}[name]()
