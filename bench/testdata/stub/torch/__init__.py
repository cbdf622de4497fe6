"""As much of PyTorch as bench/train.py uses, doing nothing: for tests without PyTorch."""
import contextlib
import types

__version__ = "0.stub"


class Value:
    def __getattr__(self, name):
        return lambda *args, **kwargs: self

    def __call__(self, *args, **kwargs):
        return self

    def __getitem__(self, key):
        return self

    __add__ = __mul__ = __truediv__ = __matmul__ = __getitem__

    def __setitem__(self, key, value):
        pass

    def __neg__(self):
        return self

    def chunk(self, count, dim):
        return [self] * count

    def parameters(self):
        return [self]


class Module:
    def __call__(self, *args):
        return self.forward(*args)

    def eval(self):
        return self


class Profile:
    def __init__(self, activities):
        self.activities = activities

    def start(self):
        pass

    stop = start


def value(*args, **kwargs):
    return Value()


def stream(*args):
    return contextlib.nullcontext()


zeros = ones = randn = zeros_like = arange = outer = pow = rsqrt = cat = value
bool = long = bfloat16 = None
no_grad = contextlib.nullcontext
manual_seed = value
nn = types.SimpleNamespace(
    Sequential=value, Linear=value, Embedding=value, Parameter=value, Module=Module, ModuleList=list,
    functional=types.SimpleNamespace(mse_loss=value, silu=value, scaled_dot_product_attention=value))
optim = types.SimpleNamespace(SGD=value)
cuda = types.SimpleNamespace(synchronize=value, Stream=value, current_stream=value, CUDAGraph=value, stream=stream, graph=stream)
profiler = types.SimpleNamespace(profile=Profile, ProfilerActivity=types.SimpleNamespace(CUDA="cuda"))
