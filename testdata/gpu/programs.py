"""Programs as people write them with PyTorch, for its operators (`record --pytorch on`). Each has fixed seeds and prints the
checksum of its results. With --times, a line for each step goes to a file: when it began and how long it took, ns of
CLOCK_MONOTONIC, behind a line with the PID. With --profile, torch.profiler runs around the 3 steps before the last and writes
its trace: not in a process whose launches are recorded, since it takes CUPTI's records over. Rank N of `ddp` adds .N to names.

usage: programs.py gpt|resnet|generate|lightning|diffusion|function|compile|ddp [--steps N] [--times FILE] [--profile FILE]

generate, lightning, diffusion and resnet use transformers, lightning, diffusers and torchvision where they are installed; else
the same by hand.
"""
import argparse
import math
import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import nn

PROFILED = 3


class Loop:
    """The steps of a program: begin and end are called around each, or it is iterated."""

    def __init__(self, steps, times=None, profile=None):
        self.steps, self.profile, self.step, self.profiler = steps, profile, 0, None
        self.times = open(times, "w") if times else None
        if self.times:
            print("pid", os.getpid(), file=self.times)

    def begin(self):
        torch.cuda.synchronize()
        if self.profile and self.step == self.steps - PROFILED - 1:
            activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
            self.profiler = torch.profiler.profile(activities=activities)
            self.profiler.start()
        self.began = time.monotonic_ns()

    def end(self):
        torch.cuda.synchronize()
        if self.times:
            print(self.began, time.monotonic_ns() - self.began, file=self.times, flush=True)
        self.step += 1
        if self.profiler and self.step == self.steps - 1:
            self.profiler.stop()
            self.profiler.export_chrome_trace(self.profile)
            self.profiler = None

    def __iter__(self):
        for i in range(self.steps):
            self.begin()
            yield i
            self.end()


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, cache=None, causal=True):
        b, t, w = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        if cache is not None:
            if cache:
                k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
            cache[:] = [k, v]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal and t > 1)
        return self.out(y.transpose(1, 2).reshape(b, t, w))


class Block(nn.Module):
    def __init__(self, width, heads=8):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, cache=None):
        x = x + self.attention(self.norm1(x), cache)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, width=256, layers=4, vocabulary=1000, context=128):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, caches=None, begin=0):
        x = self.tokens(tokens) + self.places(torch.arange(begin, begin + tokens.shape[1], device=tokens.device))
        for i, block in enumerate(self.blocks):
            x = block(x, caches[i] if caches else None)
        return self.head(self.norm(x))


def text(batch=4, length=64):
    return torch.randint(0, 1000, (batch, length), device="cuda")


def next_token_loss(model, tokens):
    return F.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def train(loop, model, optimizer, loss_of):
    losses = []
    for i in loop:
        optimizer.zero_grad()
        loss = loss_of(i)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    return losses + list(model.parameters())


def gpt(loop):
    model, tokens = GPT().cuda(), text()
    scaled = torch.autocast("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def loss_of(_):
        with scaled:
            return next_token_loss(model, tokens)

    return train(loop, model, optimizer, loss_of)


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shorter = None
        if stride != 1 or inputs != outputs:
            self.shorter = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.shorter is None else self.shorter(x)))


class ResNet18(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        convolution = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.stem = nn.Sequential(convolution, nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        widths, blocks = [64, 64, 128, 256, 512], []
        for i, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
            blocks += [Residual(inputs, outputs, 2 if i else 1), Residual(outputs, outputs, 1)]
        self.layers = nn.Sequential(*blocks)
        self.fc = nn.Linear(512, classes)

    def forward(self, x):
        return self.fc(F.adaptive_avg_pool2d(self.layers(self.stem(x)), 1).flatten(1))


def resnet(loop):
    try:
        from torchvision.models import resnet18 as make
    except ImportError:
        make = ResNet18
    model = make().cuda().to(memory_format=torch.channels_last)
    pictures = torch.randn(8, 3, 96, 96, device="cuda").contiguous(memory_format=torch.channels_last)
    classes = torch.randint(0, 1000, (8,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return train(loop, model, optimizer, lambda _: F.cross_entropy(model(pictures), classes))


def generate(loop):
    prompt = text(2, 16)
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError:
        model = GPT().cuda().eval()

        @torch.no_grad()
        def answer():
            caches, tokens, out = [[] for _ in model.blocks], prompt, [prompt]
            for i in range(16):
                logits = model(tokens, caches, sum(t.shape[1] for t in out[:-1]))[:, -1]
                tokens = logits.argmax(-1, keepdim=True)
                out.append(tokens)
            return torch.cat(out, 1)
    else:
        config = LlamaConfig(vocab_size=1000, hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=8,
                             num_key_value_heads=4, pad_token_id=0, bos_token_id=1, eos_token_id=2)
        model = LlamaForCausalLM(config).cuda().eval()

        def answer():
            mask = torch.ones_like(prompt)
            return model.generate(prompt, attention_mask=mask, max_new_tokens=16, min_new_tokens=16, do_sample=False)

    return [answer() for _ in loop]


class HandTrainer:
    """What of Lightning's Trainer a program meets: hooks around the steps, loaders, logging."""

    def __init__(self, max_steps, callbacks):
        self.max_steps, self.callbacks = max_steps, callbacks

    def fit(self, module, loader):
        module.cuda().train()
        optimizer = module.configure_optimizers()
        batches = iter(loader)
        for i in range(self.max_steps):
            batch = [t.cuda(non_blocking=True) for t in next(batches)]
            for c in self.callbacks:
                c.on_train_batch_start(self, module, batch, i)

            def closure():
                loss = module.training_step(batch, i)
                optimizer.zero_grad()
                loss.backward()
                return loss

            out = optimizer.step(closure)
            for c in self.callbacks:
                c.on_train_batch_end(self, module, out, batch, i)


def lightning(loop):
    try:
        import lightning.pytorch as pl
    except ImportError:
        try:
            import pytorch_lightning as pl
        except ImportError:
            pl = None
    losses = []

    class Classifier(pl.LightningModule if pl else nn.Module):
        def __init__(self):
            super().__init__()
            inner = [nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 256), nn.ReLU()]
            self.net = nn.Sequential(nn.Linear(64, 256), *inner, nn.Linear(256, 10))

        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, index):
            x, y = batch
            loss = F.cross_entropy(self(x), y)
            losses.append(loss.detach())
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    class Steps(pl.Callback if pl else object):
        def on_train_batch_start(self, *_):
            loop.begin()

        def on_train_batch_end(self, *_):
            loop.end()

    data = torch.utils.data.TensorDataset(torch.randn(32 * loop.steps, 64), torch.randint(0, 10, (32 * loop.steps,)))
    loader = torch.utils.data.DataLoader(data, batch_size=32, num_workers=2, pin_memory=True)
    module = Classifier()
    if pl:
        trainer = pl.Trainer(max_steps=loop.steps, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
                             enable_progress_bar=False, enable_model_summary=False, callbacks=[Steps()])
    else:
        trainer = HandTrainer(loop.steps, [Steps()])
    trainer.fit(module, loader)
    return losses + list(module.parameters())


class TimeBlock(nn.Module):
    def __init__(self, inputs, outputs, width):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, inputs), nn.GroupNorm(8, outputs)
        self.conv1, self.conv2 = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(width, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, t):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))


class UNet(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
        self.inner = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList([TimeBlock(width, width, 4 * width), TimeBlock(width, 2 * width, 4 * width)])
        self.middle, self.attention = TimeBlock(2 * width, 2 * width, 4 * width), Attention(2 * width, 4)
        self.up = nn.ModuleList([TimeBlock(4 * width, width, 4 * width), TimeBlock(2 * width, width, 4 * width)])
        self.outer = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, t):
        steps = torch.exp(-math.log(10000) * torch.arange(self.width // 2, device=x.device) / (self.width // 2)) * t
        t = self.time(torch.cat([steps.sin(), steps.cos()])[None])
        x, kept = self.inner(x), []
        for block in self.down:
            x = block(x, t)
            kept.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.middle(x, t)
        b, c, h, w = x.shape
        x = x + self.attention(x.flatten(2).transpose(1, 2), causal=False).transpose(1, 2).reshape(b, c, h, w)
        for block in self.up:
            x = block(torch.cat([F.interpolate(x, scale_factor=2.0), kept.pop()], 1), t)
        return self.outer(x)


def diffusion(loop):
    x = torch.randn(2, 3, 32, 32, device="cuda")
    try:
        from diffusers import DDIMScheduler, UNet2DModel
    except ImportError:
        model = UNet().cuda().eval()
        alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000, device="cuda"), 0)

        def denoise(x, i):
            t = torch.tensor(999 - 999 * i // loop.steps, device="cuda")
            noise, a, b = model(x, t), alphas[t], alphas[torch.clamp(t - 999 // loop.steps, min=0)]
            return b.sqrt() * (x - (1 - a).sqrt() * noise) / a.sqrt() + (1 - b).sqrt() * noise
    else:
        model = UNet2DModel(sample_size=32, block_out_channels=(64, 128), layers_per_block=1, norm_num_groups=8,
                            down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))
        model = model.cuda().eval()
        scheduler = DDIMScheduler()
        scheduler.set_timesteps(loop.steps, device="cuda")

        def denoise(x, i):
            t = scheduler.timesteps[i]
            return scheduler.step(model(x, t).sample, t, x).prev_sample

    with torch.inference_mode():
        for i in loop:
            x = denoise(x, i)
    return [x]


class Squeeze(torch.autograd.Function):
    """A function of one's own that keeps its result alone, with calls of PyTorch in both directions."""

    @staticmethod
    def forward(ctx, x, slope):
        y = torch.tanh(x * slope)
        ctx.save_for_backward(y, slope)
        return y

    @staticmethod
    def backward(ctx, grad):
        y, slope = ctx.saved_tensors
        inner = grad * (1 - y * y)
        return inner * slope, (inner * torch.atanh(y.clamp(-0.999, 0.999)) / slope).sum()


class Squeezed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear, self.slope = nn.Linear(width, width), nn.Parameter(torch.ones(()))

    def forward(self, x):
        return Squeeze.apply(self.linear(x), self.slope)


def function(loop):
    model = nn.Sequential(*(Squeezed(128) for _ in range(4))).cuda()
    x = torch.randn(64, 128, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return train(loop, model, optimizer, lambda _: torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False).square().mean())


def compile(loop):
    model, tokens = GPT().cuda(), text()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    compiled = torch.compile(model)
    losses = train(loop, model, optimizer, lambda _: next_token_loss(compiled, tokens))
    with torch.no_grad():  # without a node of autograd around it
        return losses + [compiled(tokens)]


def ddp(loop):
    model = nn.parallel.DistributedDataParallel(GPT().cuda(), device_ids=[torch.cuda.current_device()])
    torch.manual_seed(int(os.environ["RANK"]))
    tokens = text()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    results = train(loop, model, optimizer, lambda _: next_token_loss(model, tokens))
    torch.distributed.barrier()
    return results


def checksum(tensors):
    """A number of all bits of all results, in exact integers."""
    total = 0
    for t in tensors:
        bits = t.detach().float().contiguous().view(-1).view(torch.int32).long()
        total = total * 31 + (bits * (torch.arange(len(bits), device=bits.device) % 65521 + 1)).sum().item()
    return f"{total % 2**64:016x}"


def main():
    parser = argparse.ArgumentParser()
    programs = [gpt, resnet, generate, lightning, diffusion, function, compile, ddp]
    parser.add_argument("program", choices=[p.__name__ for p in programs])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--times")
    parser.add_argument("--profile")
    args = parser.parse_args()
    suffix = ""
    if args.program == "ddp":
        suffix = "." + os.environ["RANK"]
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark = False
    loop = Loop(args.steps, args.times and args.times + suffix, args.profile and args.profile + suffix)
    results = dict((p.__name__, p) for p in programs)[args.program](loop)
    torch.cuda.synchronize()
    print(args.program, suffix, len(results), "results", checksum(results), flush=True)
    if args.program == "ddp":
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
