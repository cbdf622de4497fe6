"""Steps and ranges of a program for its recording."""
import ctypes
import functools
import os
import threading
import time
from types import TracebackType
from typing import Any, Callable, List, Optional, Type, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

# The library that CUDA loads when a recorder has started this program, or 'run --armed'. There it lies beside a page, and
# steps are in memory, where the recorder and 'cudatrace watch' read them.
_path = os.environ.get("NVTX_INJECTION64_PATH", "")
_wanted = os.path.basename(_path) == "libcudatrace.so"
_start: Optional[Callable[[bytes], int]] = None
_end: Callable[[int], None]
_taken: Any = None  # a number: whether a recorder takes ranges; None where that is always so

_next_step = 0
_open_step = 0

_library = os.environ.get("CUDA_INJECTION64_PATH", "")
_armed = os.path.basename(_library) == "libcudatrace.so" and os.path.exists(os.path.join(os.path.dirname(_library), "armed"))
_counted: Any = None
_KEPT = 4094  # the latest steps: record/steps.go


def _count(number: int) -> None:
    """Notes a step where another process can read it, whether one does or not: in memory with a name that
    /proc/PID/maps shows. It has the beginning of the latest step, the number of steps, the thread, _KEPT, and for each of
    the latest steps its beginning and its number."""
    global _armed, _counted
    if _counted is None:
        _armed = False  # it stays so if the memory is not to be had
        try:
            libc = ctypes.CDLL(None)
            libc.mmap.restype = ctypes.c_void_p
            libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
            file = os.memfd_create("cudatrace-steps")
            try:
                os.ftruncate(file, 65536)
                at = libc.mmap(None, 65536, 3, 1, file, 0)  # to read and write, shared
            finally:
                os.close(file)
        except (OSError, AttributeError):
            return
        if at is None or at == ctypes.c_void_p(-1).value:
            return
        _armed, _counted = True, (ctypes.c_uint64 * (4 + 2 * _KEPT)).from_address(at)
        _counted[2], _counted[3] = threading.get_native_id(), _KEPT
    now, count = time.monotonic_ns(), _counted[1]
    at = 4 + count % _KEPT * 2
    _counted[at], _counted[at + 1] = now, number
    _counted[0], _counted[1] = now, count + 1


def _forget() -> None:
    """The memory is that of the parent process."""
    global _armed, _counted
    _armed, _counted = _armed or _counted is not None, None


if _armed:
    os.register_at_fork(after_in_child=_forget)


def _found() -> bool:
    """Reports whether the library is loaded, as it is once CUDA has started. Loads nothing."""
    global _start, _end, _wanted, _taken
    if _start is None and _wanted:
        try:
            # Holds the GIL: to give it up would let another thread in for milliseconds.
            library = ctypes.PyDLL(_path, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        except OSError:
            return False
        try:
            start, _end = library.cudatrace_range_start, library.cudatrace_range_end
            _taken = ctypes.c_uint32.in_dll(library, "cudatrace_range_taken") if _armed else None
        except (AttributeError, ValueError):  # an earlier version's, or another library of that name
            _wanted = False
            return False
        start.argtypes, start.restype = [ctypes.c_char_p], ctypes.c_uint64
        _end.argtypes, _end.restype = [ctypes.c_uint64], None
        _start = start
    return _start is not None


def step(n: Optional[int] = None) -> None:
    """Begins step n of the program's loop, and ends the one before: call it first in each turn, on one thread.

    Without n steps are counted, from 0 or on from the last n. A step is an NVTX range "step 7". The one that is open at
    the end of the program is no step: call it once more behind the loop. Does nothing in a program that is not recorded,
    and before CUDA has started; one that 'cudatrace run --armed' started keeps its latest steps for a recorder that comes.
    """
    global _next_step, _open_step
    if n is not None:
        n = int(n)  # what is no number fails in a program that is not recorded, too
    if not (_armed or _wanted):
        return
    number = _next_step if n is None else n
    _next_step = number + 1
    if _armed:
        _count(number)
    elif _start is not None or _found():
        if _open_step:
            _end(_open_step)
        _open_step = _start(b"step %d" % number)  # type: ignore[misc]


class range:
    """An NVTX range: `with range("forward"):`, or `@range("forward")` before a function, one that is no coroutine.

    Does nothing in a program that is not recorded, and before CUDA has started.
    """

    __slots__ = ("name", "_name", "_ids")

    def __init__(self, name: str) -> None:
        self.name = str(name)
        self._name = self.name.encode(errors="replace")
        self._ids: List[int] = []

    def __enter__(self) -> "range":
        if _wanted:
            taken = (_start is not None or _found()) and (_taken is None or _taken.value)
            self._ids.append(_start(self._name) if taken else 0)  # type: ignore[misc]
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if self._ids:
            number = self._ids.pop()
            if number:
                _end(number)

    def __call__(self, function: _Function) -> _Function:
        @functools.wraps(function)
        def ranged(*args: Any, **named: Any) -> Any:
            with range(self.name):
                return function(*args, **named)
        return ranged  # type: ignore[return-value]
