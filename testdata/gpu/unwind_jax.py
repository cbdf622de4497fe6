"""JAX's ways to the driver, a fixed number of times. Usage: unwind_jax.py [STEPS]"""
import sys

import jax
import jax.numpy as jnp

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 30
assert jax.default_backend() == "gpu", "JAX finds no GPU"
step = jax.jit(lambda a, b: (jnp.tanh(a @ b / 256), jnp.sort(b, axis=0).cumsum(axis=0) % 1))
a = jax.random.uniform(jax.random.PRNGKey(0), (256, 256))
b = a
for _ in range(steps):
    a, b = step(a, b)
    a = jnp.asarray(jax.device_get(a))
print("sum", float(a.sum() + b.sum()))
