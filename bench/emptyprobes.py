"""The least cost of probing calls: entry and return traps on the driver's launch and copy functions of one
process, with eBPF programs that return at once. Attaches, prints "attached", and detaches at SIGINT.

Usage: emptyprobes.py PID [SYMBOL...]      (root, Linux 6.13 or later, x86-64 or arm64)
"""
import ctypes
import os
import platform
import signal
import struct
import sys

# Functions that create GPU work; functions that the library does not have are left out.
SYMBOLS = """cuLaunchKernel cuLaunchKernel_ptsz cuLaunchKernelEx cuLaunchKernelEx_ptsz cuGraphLaunch cuGraphLaunch_ptsz
cuMemcpyHtoDAsync_v2 cuMemcpyHtoDAsync_v2_ptsz cuMemcpyDtoHAsync_v2 cuMemcpyDtoHAsync_v2_ptsz cuMemcpyAsync
cuMemcpyAsync_ptsz cuMemsetD8Async cuMemsetD32Async cuMemsetD32Async_ptsz""".split()

# The kernel's user-space ABI: linux/bpf.h, the system call tables.
BPF_CALL = {"x86_64": 321, "aarch64": 280}
PROG_LOAD, LINK_CREATE = 5, 28
PROG_TYPE_KPROBE = 2
TRACE_UPROBE_SESSION = 57
RETURN_ZERO = bytes.fromhex("b7000000000000009500000000000000")  # r0 = 0; exit

libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    fd = libc.syscall(BPF_CALL[platform.machine()], command, buffer, len(attributes))
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return fd


def address(buffer):
    return ctypes.addressof(buffer)


def load_program():
    code = ctypes.create_string_buffer(RETURN_ZERO, len(RETURN_ZERO))
    license_text = ctypes.create_string_buffer(b"GPL")
    head = struct.pack("<IIQQIIQII", PROG_TYPE_KPROBE, len(RETURN_ZERO) // 8, address(code), address(license_text),
                       0, 0, 0, 0, 0)
    # prog_name[16], prog_ifindex, expected_attach_type
    return bpf(PROG_LOAD, head + b"empty".ljust(16, b"\0") + struct.pack("<II", 0, TRACE_UPROBE_SESSION))


def attach(program, path, offsets, pid):
    name = ctypes.create_string_buffer(path.encode())
    where = (ctypes.c_uint64 * len(offsets))(*offsets)
    return bpf(LINK_CREATE, struct.pack("<IIIIQQQQIIII", program, 0, TRACE_UPROBE_SESSION, 0, address(name),
                                        address(where), 0, 0, len(offsets), 0, pid, 0))


def mapped_driver(pid):
    with open(f"/proc/{pid}/maps") as f:
        for line in f:
            path = line.split(None, 5)[-1].strip()
            if os.path.basename(path).startswith("libcuda.so"):
                return path
    raise OSError(f"process {pid} has no libcuda.so mapped")


class Elf:
    """What is needed of a 64-bit little-endian ELF file: where its dynamic functions lie in it."""

    def __init__(self, path):
        self.file = open(path, "rb")
        head = self.read(0, 64)
        if head[:6] != b"\x7fELF\x02\x01":
            raise OSError(f"{path} is no 64-bit ELF file")
        self.segments = self.table(head, 0x20, 0x36, 0x38)
        self.sections = self.table(head, 0x28, 0x3A, 0x3C)

    def read(self, offset, size):
        self.file.seek(offset)
        return self.file.read(size)

    def table(self, head, offset_at, size_at, count_at):
        (offset,), (size,), (count,) = (struct.unpack_from(f, head, at)
                                        for f, at in (("<Q", offset_at), ("<H", size_at), ("<H", count_at)))
        data = self.read(offset, size * count)
        return [data[i * size:(i + 1) * size] for i in range(count)]

    def file_offset(self, value):
        for segment in self.segments:
            kind, _, offset, virtual, _, size = struct.unpack_from("<IIQQQQ", segment)
            if kind == 1 and virtual <= value < virtual + size:
                return value - virtual + offset
        raise OSError("a symbol lies outside every segment")

    def functions(self, wanted):
        """File offsets of the wanted functions, each address once."""
        found = {}
        for section in self.sections:
            _, kind, _, _, offset, size, link = struct.unpack_from("<IIQQQQI", section)
            if kind != 11:  # SHT_DYNSYM
                continue
            _, _, _, _, names_at, names_size = struct.unpack_from("<IIQQQQ", self.sections[link])
            names, symbols = self.read(names_at, names_size), self.read(offset, size)
            for name, info, _, _, value, _ in struct.iter_unpack("<IBBHQQ", symbols):
                if info & 15 == 2 and value and names[name:names.index(b"\0", name)].decode() in wanted:
                    found[self.file_offset(value)] = True
        return list(found)


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: emptyprobes.py PID [SYMBOL...]")
    pid = int(sys.argv[1])
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    try:
        # As the process itself sees the file, which may be in another container.
        path = f"/proc/{pid}/root{mapped_driver(pid)}"
        offsets = Elf(path).functions(set(sys.argv[2:] or SYMBOLS))
        link = attach(load_program(), path, offsets, pid)
    except OSError as error:
        sys.exit(f"emptyprobes: {error}")
    print(f"attached to {len(offsets)} functions of process {pid}", file=sys.stderr, flush=True)
    try:
        signal.pause()
    finally:
        os.close(link)


if __name__ == "__main__":
    main()
