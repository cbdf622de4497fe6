"""Launches while the interpreter's memory is damaged: python3 poke.py LIBRARY. Prints how many launches there were. The
library (poke.c) puts the memory right before Python goes on."""
import ctypes
import mmap
import random
import sys

poke = ctypes.CDLL(sys.argv[1]).poke  # releases the GIL
poke.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]
state_of = ctypes.PyDLL(None).PyGILState_GetThisThreadState
state_of.restype = ctypes.c_void_p
cuda = ctypes.CDLL("libcudart.so.13")
memory = ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(memory), 4096)

# Offsets as in package pyframes.
minor = sys.version_info[1]
FRAME, CFRAME, CHUNK, CODE, PREVIOUS, INSTRUCTION, CODES = {
    9: (24, None, None, 32, 24, 104, (40, 104, 112, 120)), 10: (24, None, None, 32, 24, 96, (40, 104, 112, 120)),
    11: (56, 8, 296, 32, 48, 56, (72, 112, 128, 136)), 12: (56, 0, 232, 0, 8, 56, (68, 112, 128, 136, 92)),
    13: (72, None, 232, 0, 8, 56, (68, 112, 128, 136, 92)), 14: (72, None, 232, 0, 8, 56, (68, 112, 128, 136, 92)),
    15: (72, None, 256, 0, 8, 56, (68, 112, 128, 136, 92))}[minor]


def word(at):
    return ctypes.c_uint64.from_address(at).value


gone = mmap.mmap(-1, 16384)
edge = ctypes.addressof(ctypes.c_char.from_buffer(gone)) + 16384  # nothing may be mapped behind it
libc = ctypes.CDLL(None, use_errno=True)
hole = 0
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
hole = libc.mmap(None, 65536, 0, 0x22, -1, 0)  # mapped, and cannot be read
bait = ctypes.create_string_buffer(b"\x41" * 4096)
random.seed(minor)
launches = 0


def damage():
    state = state_of()
    frame_at = state + FRAME
    frame = word(frame_at)
    if CFRAME is not None:
        frame_at = frame + CFRAME
        frame = word(frame_at)
    caller = word(frame + PREVIOUS)
    code = word(frame + CODE) & ~3
    places = [frame_at, frame + PREVIOUS, frame + CODE, frame + INSTRUCTION & ~7, caller + PREVIOUS, caller + CODE, code + 8]
    places += [code + offset & ~7 for offset in CODES]
    if CFRAME is not None:
        places.append(state + FRAME)
    if CHUNK is not None:
        chunk = word(state + CHUNK)
        places += [state + CHUNK, chunk, chunk + 8]
    values = [0, 1, 8, 4096, 2 ** 64 - 1, 2 ** 64 - 8, 2 ** 63, 0x7fffffffffff, frame, caller, code, state, edge, edge - 8, edge - 64, hole, hole + 65528,
              ctypes.addressof(bait), ctypes.addressof(bait) + 8, id(bait), id(damage), id(damage.__code__), id("text"), 1 << 40, 0xdeadbeefdeadbee8]
    return places, values + [random.getrandbits(64) for _ in range(8)] + [frame + 8 * random.randrange(-64, 64) for _ in range(8)]


def strike(i, j):
    global launches
    places, values = damage()
    poke(places[i], values[j], memory)
    launches += 1


places, values = damage()
for i in range(len(places)):
    for j in range(len(values)):
        strike(i, j)
for _ in range(10):
    poke(None, 0, memory)
    launches += 1
print(launches)
