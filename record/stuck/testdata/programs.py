"""Programs that hang in a known way, and healthy ones: python3 programs.py NAME. Each prints a line when it is about to hang, and
ends with its parent."""
import ctypes, os, re, select, signal, socket, subprocess, sys, threading, time

libc = ctypes.CDLL(None)
libc.prctl(1, signal.SIGKILL)
holding = ctypes.PyDLL(None)  # its functions keep the GIL


def ready(*words):
    print("ready", *words, flush=True)


def child(*command, **options):
    return subprocess.Popen(command, preexec_fn=lambda: libc.prctl(1, signal.SIGKILL), **options)


def start(function, *args):
    thread = threading.Thread(target=function, args=args, daemon=True)
    thread.start()
    return thread


def forever_read():
    os.read(os.pipe()[0], 1)


# Programs that hang.

def mutex_order():
    a, b = ctypes.create_string_buffer(40), ctypes.create_string_buffer(40)
    both = threading.Barrier(2)

    def take(first, second):
        libc.pthread_mutex_lock(first)
        both.wait()
        libc.pthread_mutex_lock(second)
    start(take, b, a)
    ready()
    take(a, b)


def mutex_held():
    m = ctypes.create_string_buffer(40)
    taken = threading.Event()

    def hold():
        libc.pthread_mutex_lock(m)
        taken.set()
        forever_read()
    start(hold)
    taken.wait()
    ready()
    libc.pthread_mutex_lock(m)


def lock_order():
    a, b = threading.Lock(), threading.Lock()
    both = threading.Barrier(2)

    def take(first, second):
        with first:
            both.wait()
            with second:
                pass
    start(take, b, a)
    ready()
    take(a, b)


def lock_held():
    lock, taken = threading.Lock(), threading.Event()

    def hold():
        with lock:
            taken.set()
            forever_read()
    start(hold)
    taken.wait()
    ready()
    lock.acquire()


def lock_twice():
    lock = threading.Lock()
    lock.acquire()
    ready()
    lock.acquire()


def joined():
    lock = threading.Lock()
    lock.acquire()
    thread = start(lock.acquire)
    ready()
    thread.join()


def gil_sleep():
    def hold():
        ready()
        holding.sleep(1000)
    start(hold)
    while True:
        time.sleep(0.01)


def gil_spin():
    def hold():
        ready()
        re.match(r"(a+)+$", "a" * 64 + "b")
    start(hold)
    while True:
        time.sleep(0.01)


def full_pipe():
    sleeper = child("sleep", "1000", stdin=subprocess.PIPE)
    ready(sleeper.pid)
    os.write(sleeper.stdin.fileno(), bytes(1 << 20))


def own_full_pipe():
    r, w = os.pipe()
    ready()
    os.write(w, bytes(1 << 20))


def full_output():
    writer = child("dd", "if=/dev/zero", "bs=1M", "count=1", "status=none", stdout=subprocess.PIPE)
    ready()
    writer.wait()


def nobody_writes():
    ready()
    forever_read()


def worker():
    """A worker that hands something over through a pipe, as multiprocessing has them."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        libc.prctl(1, signal.SIGKILL)
        time.sleep(1000)
    return pid, r


def dead_worker():
    pid, r = worker()
    os.kill(pid, signal.SIGKILL)
    start(threading.Event().wait)
    ready()
    os.read(r, 1)


def failed_worker():
    r, w = os.pipe()
    if os.fork() == 0:
        os._exit(3)
    start(threading.Event().wait)
    ready()
    os.read(r, 1)


def stopped():
    ready()
    os.kill(os.getpid(), signal.SIGSTOP)


def stopped_worker():
    pid, r = worker()
    os.kill(pid, signal.SIGSTOP)
    ready()
    os.waitpid(pid, 0)


def socket_worker(does):
    """A worker at the other end of a socket; its parent has that end no more."""
    here, there = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        libc.prctl(1, signal.SIGKILL)
        here.close()
        does(there)
        os._exit(3)
    there.close()
    return pid, here


def stopped_peer():
    pid, here = socket_worker(lambda there: time.sleep(1000))
    os.kill(pid, signal.SIGSTOP)
    ready()
    here.recv(1)


def sleeping_peer():
    pid, here = socket_worker(lambda there: time.sleep(1000))
    ready()
    here.recv(1)


def peer_that_does_not_read():
    pid, here = socket_worker(lambda there: time.sleep(1000))
    ready()
    here.sendall(bytes(1 << 24))


def peers_that_wait():
    pid, here = socket_worker(lambda there: there.recv(1))
    ready()
    here.recv(1)


def peer_of_two_threads():
    """The worker's main thread waits for a request, while another thread of it will send."""
    def does(there):
        def send():
            time.sleep(1000)
            there.send(b"x")
        threading.Thread(target=send).start()
        there.recv(1)
    pid, here = socket_worker(does)
    ready()
    here.recv(1)


def many_workers():
    """Workers that have the writing ends of the pipes of all before them, so that each waits for many others."""
    for i in range(40):
        r, w = os.pipe()
        if os.fork() == 0:
            libc.prctl(1, signal.SIGKILL)
            os.read(r, 1)
            os._exit(3)
    threading.Thread(target=lambda: (time.sleep(1000), os.write(w, b"x"))).start()
    ready()
    os.read(r, 1)


def dead_peer():
    here, there = socket.socketpair()
    if os.fork() == 0:
        os._exit(0)
    os.wait()
    ready()
    here.recv(1)


def pool_of_stopped():
    pid, r = worker()
    os.kill(pid, signal.SIGSTOP)
    ready()
    os.wait()


def fifo():
    path = sys.argv[2] + "/fifo"
    os.mkfifo(path)
    ready()
    open(path)


def circle():
    """Each of three threads waits for the mutex of the next."""
    mutexes = [ctypes.create_string_buffer(40) for _ in range(3)]
    all = threading.Barrier(3)

    def take(i):
        libc.pthread_mutex_lock(mutexes[i])
        all.wait()
        libc.pthread_mutex_lock(mutexes[(i + 1) % 3])
    start(take, 1)
    start(take, 2)
    ready()
    take(0)


# Healthy programs.

def computes():
    ready()
    n = 0
    while True:
        n += 1


def computes_in_c():
    data = bytes(1 << 20)
    import hashlib
    ready()
    while True:
        hashlib.sha256(data).digest()


def sleeps():
    ready()
    time.sleep(1000)


def polls():
    ready()
    while True:
        time.sleep(0.05)


def two_compute():
    start(computes)
    computes()


def idle_pool():
    from concurrent.futures import ThreadPoolExecutor
    pool = ThreadPoolExecutor(8)
    list(pool.map(lambda _: time.sleep(0.01), range(16)))
    ready()
    time.sleep(1000)


def busy_pool():
    from concurrent.futures import ThreadPoolExecutor
    pool = ThreadPoolExecutor(4)
    ready()
    while True:
        list(pool.map(lambda _: sum(range(1000)), range(16)))


def event():
    event = threading.Event()
    start(polls)
    event.wait()


def queue():
    import queue
    q = queue.Queue()
    ready()
    q.get()


def server():
    s = socket.create_server(("127.0.0.1", 0))
    ready()
    s.accept()


def loop():
    import asyncio

    async def main():
        await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
        ready()
        await asyncio.sleep(1000)
    asyncio.run(main())


def reads_input():
    ready()
    sys.stdin.read()


def waits_for_sleeper():
    sleeper = child("sleep", "1000")
    ready()
    sleeper.wait()


def waits_for_one():
    """By a descriptor, of two; the other one waits for this process, which would give it input from another thread."""
    reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    sleeper = child("sleep", "1000")
    ready()
    os.waitid(os.P_PIDFD, os.pidfd_open(sleeper.pid), os.WEXITED)
    reader.stdin.close()


def waits_for_busy():
    busy = child(sys.executable, __file__, "computes")
    busy.wait()


def pipeline():
    """The first one of two is nearly always blocked: the pipe is full."""
    writer = child("cat", "/dev/zero", stdout=subprocess.PIPE)
    ready()
    while True:
        os.read(writer.stdout.fileno(), 100)
        time.sleep(0.001)


def lock_that_moves():
    lock = threading.Lock()

    def take():
        while True:
            with lock:
                time.sleep(0.002)
    start(take)
    start(take)
    ready()
    take()


def ended_worker():
    """A worker that ended as it should, which nobody has waited for, and a server that waits for its clients."""
    if os.fork() == 0:
        os._exit(0)
    server()


def failed_worker_of_server():
    if os.fork() == 0:
        os._exit(1)
    poll = select.poll()
    s = socket.create_server(("127.0.0.1", 0))
    poll.register(s)
    ready()
    time.sleep(1000)


def joins_sleeper():
    thread = start(time.sleep, 1000)
    ready()
    thread.join()


def signals():
    ready()
    signal.sigwait({signal.SIGUSR1})


def steps():
    """A training loop of 30 ms a step, with a thread that looks after it."""
    def watch():
        while True:
            time.sleep(0.1)
    start(watch)
    ready()
    while True:
        sum(range(200000))
        time.sleep(0.01)


# Programs whose memory is hard to read.

def frame_circle():
    """The frame before this one is this one."""
    offset = {11: 48, 12: 8, 13: 8}[sys.version_info[1]]
    frame = ctypes.c_uint64.from_address(id(sys._getframe()) + 24).value
    ctypes.c_uint64.from_address(frame + offset).value = frame
    ready()
    while True:
        time.sleep(1000)


def recursion():
    def deeper(n):
        return n and deeper(n - 1)

    def recurse():
        while True:
            deeper(200)
    for _ in range(3):
        start(recurse)
    ready()
    recurse()


def short_lives():
    """Threads that begin and end all the time."""
    ready()
    while True:
        start(time.sleep, 0).join()


def crowd():
    threading.stack_size(1 << 16)
    event = threading.Event()
    for _ in range(int(sys.argv[2])):
        start(event.wait)
    ready()
    event.wait()


globals()[sys.argv[1]]()
