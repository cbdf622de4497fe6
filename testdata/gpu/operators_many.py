"""Calls functions of torch with tensors on the GPU until enough of them have had a result, and prints a line for each: its name
and a hash of the result. Two runs print the same, but for functions that add up in any order.

usage: operators_many.py [COUNT [DEVICE]]
"""
import hashlib
import re
import sys
import warnings

import torch

count, device = int(sys.argv[1]) if len(sys.argv) > 1 else 400, sys.argv[2] if len(sys.argv) > 2 else "cuda"
# results of chance, of memory that nobody has written, or none; and what changes the process
LEFT_OUT = re.compile(
    r"rand|normal|bernoulli|multinomial|poisson|binomial|dropout|empty|seed|resize|rrelu|^_|_$|^(set|get|is|init|import|fork|"
    r"wait|can|compile|load|save|autocast|parse|merge|unify|clear|from|frombuffer|asarray|tensor|as)(_|$)|futures|nnapi|mkldnn|"
    r"cudnn|miopen|quantize|fbgemm|native_(batch|group)|ctc_loss|histogramdd"
)
torch.manual_seed(0)
square = torch.rand(8, 8, device=device) + 0.5
whole = (square * 7).long() % 8
yes = square > 1
image, kernel = torch.rand(2, 3, 8, 8, device=device), torch.rand(4, 3, 3, 3, device=device)
ARGUMENTS = [
    (square,), (square, square), (square, square, square), (square, 1), (square, 0, whole), (square, 0, whole, square), (whole,),
    (whole, whole), (yes,), (yes, square, square), (square, yes), (square[0],), (square[0], square[0]), ([square, square],),
    (image,), (image, kernel), (image, 2), (image[0], image[0]), (image[0].contiguous(), 1, 2), (8,), ((8, 8), 1.5),
]  # fmt: skip


def flat(result):
    if isinstance(result, torch.Tensor):
        yield str((result.dtype, tuple(result.shape))).encode()
        plain = result.detach().to("cpu").resolve_conj().resolve_neg().contiguous()
        yield torch.view_as_real(plain).numpy().tobytes() if plain.is_complex() else plain.numpy().tobytes()
    elif isinstance(result, (tuple, list)):
        for part in result:
            yield from flat(part)
    elif isinstance(result, (bool, int, float, complex)):
        yield repr(result).encode()


def call(f):
    """The result of the first arguments that f takes; None if it takes none of them."""
    for arguments in ARGUMENTS:
        try:
            result = b"".join(flat(f(*[a.clone() if isinstance(a, torch.Tensor) else a for a in arguments])))
        except Exception:  # each function has its own ways to refuse
            continue
        if result:
            return result
    return None


warnings.simplefilter("ignore")
done = 0
for where in torch, torch.special, torch.linalg, torch.fft, torch.nn.functional:
    for name in sorted(dir(where)):
        f = getattr(where, name)
        if done == count or LEFT_OUT.search(name) or not callable(f) or isinstance(f, type):
            continue
        result = call(f)
        if result is not None:
            print(where.__name__ + "." + name, hashlib.sha256(result).hexdigest()[:16])
            done += 1
torch.cuda.synchronize() if device == "cuda" else None
print("operators", done)
