import torch
x = torch.zeros(1 << 22, device='cuda')
def f(x):
    torch.add(x[:4096], 1.0)  # grid
    torch.add(x[:8192], 1.0)  # grid
    torch.add(x[:12288], 1.0)  # grid
    torch.add(x[:16384], 1.0)  # grid
    torch.add(x[:20480], 1.0)  # grid
    torch.add(x[:24576], 1.0)  # grid
    torch.add(x[:28672], 1.0)  # grid
    torch.add(x[:32768], 1.0)  # grid
    torch.add(x[:36864], 1.0)  # grid
    torch.add(x[:40960], 1.0)  # grid
    torch.add(x[:45056], 1.0)  # grid
    torch.add(x[:49152], 1.0)  # grid
    torch.add(x[:53248], 1.0)  # grid
    torch.add(x[:57344], 1.0)  # grid
    torch.add(x[:61440], 1.0)  # grid
    torch.add(x[:65536], 1.0)  # grid
    torch.add(x[:69632], 1.0)  # grid
    torch.add(x[:73728], 1.0)  # grid
    torch.add(x[:77824], 1.0)  # grid
    torch.add(x[:81920], 1.0)  # grid
    torch.add(x[:86016], 1.0)  # grid
    torch.add(x[:90112], 1.0)  # grid
    torch.add(x[:94208], 1.0)  # grid
    torch.add(x[:98304], 1.0)  # grid
    torch.add(x[:102400], 1.0)  # grid
    torch.add(x[:106496], 1.0)  # grid
    torch.add(x[:110592], 1.0)  # grid
    torch.add(x[:114688], 1.0)  # grid
    torch.add(x[:118784], 1.0)  # grid
    torch.add(x[:122880], 1.0)  # grid
    torch.add(x[:126976], 1.0)  # grid
    torch.add(x[:131072], 1.0)  # grid
    torch.add(x[:135168], 1.0)  # grid
    torch.add(x[:139264], 1.0)  # grid
    torch.add(x[:143360], 1.0)  # grid
    torch.add(x[:147456], 1.0)  # grid
    torch.add(x[:151552], 1.0)  # grid
    torch.add(x[:155648], 1.0)  # grid
    torch.add(x[:159744], 1.0)  # grid
    torch.add(x[:163840], 1.0)  # grid
def run(n):
    s = torch.cuda.Stream(); s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s): f(x)
    torch.cuda.current_stream().wait_stream(s)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        f(x)
    for _ in range(n):
        g.replay()
run(1000)
torch.cuda.synchronize(); print('ok')
# Each line of f launches a grid of its own: line N one of 4*(N-3) blocks.
