"""Compares the GPU metrics of a recording of metrics.cu or "peer nvlink" with what that program did. Usage: metrics.py CUDATRACE LOG STDOUT"""
import json
import re
import subprocess
import sys

cudatrace, log, stdout = sys.argv[1:]
LOST = 0.01 if "counters-10000" in log else 1e-6  # share of the time: 10 kHz is near what can be decoded
printed = open(stdout).read()
lines = subprocess.run([cudatrace, "dump", log, "--format", "ndjson", "--kind", "device,metric_set,metric,sample,lost,gpu_user,process_end"],
                       check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
records = [json.loads(line) for line in lines]
sources = {r["id"]: r["source"] for r in records if r["kind"] == "metric_set"}
samples = [r for r in records if r["kind"] == "sample" and sources.get(r["set"]) != 4]
uuid = {r["id"]: r["uuid"] for r in records if r["kind"] == "metric_set" and r["source"] != 4}
phases = {name: (int(start), int(end), float(size))
          for name, start, end, size in re.findall(r"^phase (\w+) start=(\d+) end=(\d+) bytes=(\d+)", printed, re.M)}
failed = 0


def mean(metric, phase, margin=0.3e9):
    """The mean of a metric over the samples well inside a phase: counters move every 100 ms."""
    start, end, _ = phases[phase]
    inside = [s for s in samples if metric in s["values"] and s["start"] > start + margin and s["start"] + s["dur"] < end - margin]
    time = sum(s["dur"] for s in inside)
    return sum(s["values"][metric] * s["dur"] for s in inside) / time if time else float("nan")


def expect(what, got, want, part):
    """got is within a part of want."""
    global failed
    ok = abs(got - want) <= part * want
    failed += not ok
    print(f"{what:40} {got:16.4g}  want {want:12.4g} within {100 * part:.0f} %  {'ok' if ok else 'FAILED'}")


def least(what, got, want):
    global failed
    failed += not got >= want
    print(f"{what:40} {got:16.4g}  want {want:12.4g} or more  {'ok' if got >= want else 'FAILED'}")


def rate(phase):
    start, end, size = phases[phase]
    return size / (end - start) * 1e9


def whole():
    """Compares NVML's and GPM's values with what the program did."""
    peak = float(re.search(r"^dram peak=(\d+)", printed, re.M)[1])
    expect("DRAM active in a copy kernel, %", mean("gpm_dram_active", "dram"), 100 * rate("dram") / peak, 0.05)
    PACKETS = 1.08  # PCIe's packets have headers, which the counters have too: 7.2 and 8.8 % on an H200
    expect("PCIe to the GPU, bytes/s", mean("gpm_pcie_rx", "h2d"), PACKETS * rate("h2d"), 0.05)
    expect("PCIe to the host, bytes/s", mean("gpm_pcie_tx", "d2h"), PACKETS * rate("d2h"), 0.05)
    least("tensor active in a product, %", mean("gpm_tensor_active", "tensor"), 80)
    least("SM active in a product, %", mean("gpm_sm_active", "tensor"), 85)
    least("utilization in a product, %", mean("utilization", "tensor"), 90)
    least("memory used, bytes", mean("memory_used", "dram"), 2 << 30)
    least("power of a product, W over that of idle", mean("power", "tensor") - mean("power", "idle"), 50)
    least("SM clock, Hz", mean("sm_clock", "dram"), 300e6)
    for name in ("temperature", "memory_temperature", "memory_clock", "clock_reasons", "gpm_sm_occupancy", "gpm_fp16_active", "gpm_nvlink_rx"):
        print(f"{name:40} {mean(name, 'tensor'):16.4g}")


def total(metric, phase, gpu):
    """What a rate sums up to over a phase and 0.5 s on either side, of one GPU."""
    start, end, _ = phases[phase]
    from_, to = start - 0.5e9, end + 0.5e9
    of_gpu = [s for s in samples if metric in s["values"] and uuid[s["set"]] == gpu]
    inside = [(min(s["start"] + s["dur"], to) - max(s["start"], from_), s["values"][metric]) for s in of_gpu]
    return sum(dur * value for dur, value in inside if dur > 0) / 1e9 if of_gpu else float("nan")


def links():
    """Compares the traffic of NVLink on two GPUs with the bytes that the program copied between them."""
    devices = {r["id"]: r["uuid"] for r in records if r["kind"] == "device"}
    for phase, (sender, receiver) in ("nvlink_to_1", (0, 1)), ("nvlink_to_0", (1, 0)):
        sent = phases[phase][2]
        print(f"{phase}: {sent:.0f} bytes, {rate(phase):.4g} a second")
        for name, gpu in ("nvltx__bytes_data_user.sum.per_second", sender), ("nvlrx__bytes_data_user.sum.per_second", receiver):
            expect(f"{phase}, GPU {gpu}: {name} / bytes", total(name, phase, devices[gpu]) / sent, 1, 0.02)
        for name in "gpm_nvlink_tx", "gpm_nvlink_rx", "nvltx__bytes_data_user.sum.per_second", "nvlrx__bytes_data_user.sum.per_second":
            ratios = " and ".join(f"{total(name, phase, devices[gpu]) / sent:.4f} on GPU {gpu}" for gpu in (sender, receiver))
            print(f"{phase}: {name} / bytes: {ratios}")


def counters():
    """Compares PM sampling with what the program did, and its times with those of kernels."""
    global failed
    rows = [s for s in samples if sources[s["set"]] == 3]
    interval = next(r["interval"] for r in records if r["kind"] == "metric_set" and r["source"] == 3)
    names = [r["name"] for r in records if r["kind"] == "metric" and sources[r["set"]] == 3]
    print(f"{len(names)} metrics: {' '.join(names)}")
    half = ".avg.pct_of_peak_sustained_elapsed"
    compute = "gr__compute_cycles_active" + half
    expect("DRAM read in a copy kernel, bytes/s", mean("dram__bytes_read.sum.per_second", "dram"), rate("dram") / 2, 0.05)
    expect("DRAM written in a copy kernel, bytes/s", mean("dram__bytes_write.sum.per_second", "dram"), rate("dram") / 2, 0.05)
    for name, phase in ("pcie__read_bytes.sum.per_second", "h2d"), ("pcie__write_bytes.sum.per_second", "d2h"):
        expect(f"{name}, bytes/s", mean(name, phase), 1.04 * rate(phase), 0.06)  # with or without the headers of packets
    least("tensor active in a product, %", mean("sm__pipe_tensor_cycles_active_realtime" + half, "tensor"), 80)
    least("SM active in a product, %", mean("sm__cycles_active" + half, "tensor"), 85)
    least("SM clock, Hz", mean("gpc__cycles_elapsed.avg.per_second", "dram"), 300e6)
    expect("mean interval, ns", sum(s["dur"] for s in rows) / len(rows), interval, 0.001)
    expect("time of samples, ns", sum(s["dur"] for s in rows), rows[-1]["start"] + rows[-1]["dur"] - rows[0]["start"], LOST)
    least("samples before the first phase", sum(s["start"] < phases["dram"][0] for s in rows), 1)
    kernels = sorted((k["start"], k["start"] + k["dur"]) for k in kernel_records)
    edges, ends = [], []
    for (_, before), (start, end), (after, _) in zip(kernels, kernels[1:], kernels[2:]):
        if start - before < 100e6 or after - end < 100e6 or end - start < 2 * interval:
            continue
        row = next((s for s in rows if s["start"] <= start < s["start"] + s["dur"]), None)
        if row and row["start"] + row["dur"] > start + interval / 20:
            edges.append(row["start"] + row["dur"] - row["values"][compute] / 100 * row["dur"] - start)
        row = next((s for s in rows if s["start"] < end <= s["start"] + s["dur"]), None)
        if row and row["start"] < end - interval / 20:
            ends.append(row["start"] + row["values"][compute] / 100 * row["dur"] - end)
    print(f"rise of compute activity after a kernel's start, ns: {sorted(round(e) for e in edges)}")
    print(f"fall of compute activity after a kernel's end, ns: {sorted(round(e) for e in ends)}")
    expect("kernels with both edges", min(len(edges), len(ends)), 20, 0.3)
    near = 1000 if interval <= 100000 else interval / 20
    least("share of starts within the bound", sum(abs(e) <= near for e in edges) / len(edges), 0.95)
    least("share of ends within the bound", sum(abs(e) <= near for e in ends) / len(ends), 0.95)


if "dram" in phases:
    kernel_records = [json.loads(line) for line in subprocess.run([cudatrace, "dump", log, "--format", "ndjson", "--kind", "kernel"],
                      check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()]
    whole()
    if 3 in sources.values():
        counters()
else:
    links()
uuids = set(uuid.values())
lost = [r for r in records if r["kind"] == "lost"]
power = [s for s in samples if "power" in s["values"]]
print(f"{len(samples)} samples, {len(power)} of power, of {len(uuids)} GPUs; lost: {lost}; others: {[r for r in records if r['kind'] == 'gpu_user']}")
failed += len(uuids) != (1 if "dram" in phases else 2)
failed += not samples or sum(l["to"] - l["from"] for l in lost if l["cause"] == "gpu_metrics") > LOST * (samples[-1]["start"] - samples[0]["start"])
notes = subprocess.run([cudatrace, "dump", log, "--kind", "note"], check=True, stdout=subprocess.PIPE, text=True).stdout
print("\n".join(line for line in notes.splitlines() if "GPU metrics" in line or "PM sampling" in line))
print("metrics:", "ok" if not failed else f"{failed} FAILED")
sys.exit(failed != 0)
