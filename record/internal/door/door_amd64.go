package door

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/internal/elfsym"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// waiting are the system calls in which a thread waits, and holds no lock of libc's.
var waiting = []uint64{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_POLL, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_SELECT, unix.SYS_SCHED_YIELD,
	unix.SYS_PAUSE, unix.SYS_NANOSLEEP, unix.SYS_ACCEPT, unix.SYS_SENDTO, unix.SYS_RECVFROM, unix.SYS_SENDMSG,
	unix.SYS_RECVMSG, unix.SYS_WAIT4, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_FUTEX, unix.SYS_RESTART_SYSCALL,
	unix.SYS_IO_GETEVENTS, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_EPOLL_WAIT, unix.SYS_WAITID, unix.SYS_PSELECT6,
	unix.SYS_PPOLL, unix.SYS_EPOLL_PWAIT, unix.SYS_ACCEPT4, unix.SYS_EPOLL_PWAIT2, unix.SYS_FUTEX_WAITV,
	unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_MSGRCV, unix.SYS_RT_SIGSUSPEND, unix.SYS_RECVMMSG,
}

// Of perf events: a breakpoint on code, which sends the thread SIGTRAP (Linux 5.13 and later), and which goes at exec.
const (
	breakOnCode      = 4       // HW_BREAKPOINT_X
	bitsRemoveOnExec = 1 << 36 // of perf_event_attr
	bitsSigtrap      = 1 << 37
)

const (
	spins       = 100      // looks at a thread that is to stop, before the first pause
	stackMost   = 16 << 20 // bytes
	threadSize  = 0x900    // bytes of glibc's struct pthread, at the end of a thread's stack
	readMost    = 50 * time.Millisecond
	breakMost   = time.Millisecond // a thread that has not reached its breakpoint by then is looked at again
	trapPerf    = 6                // TRAP_PERF: si_code of a perf event's SIGTRAP
	cldTrapped  = 4                // CLD_TRAPPED: of a thread that is traced and has stopped
	releaseMost = time.Second
	endMost     = time.Second // for the end of the tracing thread
	sigIgnore   = 1           // SIG_IGN
)

// A thread is one that is traced.
type thread struct {
	tid     int
	stopped bool      // outside of CUDA
	halted  bool      // by SIGSTOP or its like, as the whole program is
	broken  bool      // a breakpoint is set
	event   int       // its descriptor
	set     time.Time // when
	inside  [2]uint64 // instruction and stack pointer at which its unwind tables have led into CUDA, or nowhere
}

// A door has the threads of one process.
type door struct {
	pid     int
	code    code
	bottom  uint64 // where the stack of the main thread began
	threads map[int]*thread
	own     map[int]bool // CUDA's and ours
	catches bool         // SIGTRAP
	stack   []uint64
	memory  procfs.Memory
	waited  time.Duration // for files and for pages of stacks
	late    chan bool     // is told of the end of what took too long; nil without
}

// Shut stops all threads of a process outside of CUDA, calls do, and has them go on. The error is do's, or ErrInside, or one
// that says why the threads cannot be stopped.
func Shut(pid int, do func() error) error { return shutBut(pid, 0, do) }

// shutBut is Shut, but leaves one thread alone.
func shutBut(pid, tid int, do func() error) error {
	defer ignoreStop()()
	return onThreadOfItsOwn(func() error { return shut(pid, tid, do) })
}

// A sigaction is the kernel's.
type sigaction struct{ handler, flags, restorer, mask uintptr }

// The doors that are shut, and the action of SIGTSTP without them. (Package os/signal cannot give its action back.)
var (
	stopping  sync.Mutex
	shutDoors int
	stopsThen sigaction
)

// ignoreStop has the recorder ignore a SIGTSTP, as Ctrl-Z sends it, until the function that it returns is called: while
// the recorder is stopped, the threads that it has stopped would be, too.
func ignoreStop() (again func()) {
	stopping.Lock()
	defer stopping.Unlock()
	if shutDoors++; shutDoors == 1 {
		setStop(&sigaction{handler: sigIgnore}, &stopsThen)
	}
	return func() {
		stopping.Lock()
		defer stopping.Unlock()
		if shutDoors--; shutDoors == 0 {
			setStop(&stopsThen, nil)
		}
	}
}

func setStop(to, was *sigaction) {
	_, _, _ = unix.Syscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTSTP), uintptr(unsafe.Pointer(to)),
		uintptr(unsafe.Pointer(was)), unsafe.Sizeof(to.mask), 0, 0)
}

// onThreadOfItsOwn calls a function on a thread that ends behind it, and returns when it has ended: the kernel lets go of
// what it has traced, and it can be traced again. Go does not end the first thread of a process, so that one is not taken.
func onThreadOfItsOwn(do func() error) (err error) {
	thread := make(chan int)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			err = onThreadOfItsOwn(do)
			runtime.UnlockOSThread()
			thread <- 0
			return
		}
		err = do()
		thread <- unix.Gettid() // never unlocked: the thread ends with the goroutine
	}()
	tid := <-thread
	for late := time.Now().Add(endMost); tid != 0 && unix.Tgkill(unix.Getpid(), tid, 0) == nil && time.Now().Before(late); {
		time.Sleep(20 * time.Microsecond)
	}
	return err
}

func shut(pid, tid int, do func() error) (err error) {
	d := door{pid: pid, threads: map[int]*thread{}, own: map[int]bool{tid: true}, memory: procfs.Memory{PID: pid}}
	if d.code, err = readCode(pid); err != nil {
		return err
	}
	defer d.close()
	var ok bool
	if d.bottom, ok = procfs.StackBottom(pid); !ok && d.hasEnded(uint32(pid)) {
		return os.ErrNotExist
	} else if !ok {
		return os.ErrPermission
	}
	d.catches = procfs.Catches(pid, unix.SIGTRAP)
	defer func() {
		if failed := d.release(); err == nil {
			err = failed
		}
	}()
	if err := d.stopAll(); err != nil {
		return err
	}
	return do()
}

// stopAll returns when every thread is stopped outside of CUDA, and no new one has come.
func (d *door) stopAll() error {
	began := time.Now()
	for round := 1; ; round++ {
		fresh, err := d.seize()
		if err != nil {
			return err
		}
		left, running, caught := 0, 0, 0
		var last *thread
		for _, t := range d.threads {
			if t.stopped {
				continue
			}
			if time.Since(began) > stopLongest {
				return d.isInside(t)
			}
			if err := d.try(t, d.catches && round > plainRounds); err != nil {
				return err
			}
			if _, there := d.threads[t.tid]; there && !t.stopped {
				left++
				last = t
				if t.broken {
					running++
				}
			}
			if t.stopped {
				caught++
			}
		}
		switch passed := time.Since(began); {
		case left == 0 && !fresh && caught == 0: // one stopped in this round may have started another since the list
			return nil
		case round >= leastRounds && passed > stopMost+time.Duration(len(d.threads))*stopMore:
			return d.isInside(last)
		case left == running && left > 0:
			unix.Nanosleep(&unix.Timespec{Nsec: 5000}, nil)
		}
	}
}

// isInside is ErrInside, of a thread where one is known.
func (d *door) isInside(t *thread) error {
	if t == nil {
		return ErrInside
	}
	name, _ := procfs.ThreadName(uint32(d.pid), uint32(t.tid))
	return fmt.Errorf("%w (thread %d, %s)", ErrInside, t.tid, name)
}

// seize begins to trace the threads that are not traced yet, and reports whether there were any.
func (d *door) seize() (fresh bool, err error) {
	listed := false
	for tid := range procfs.Threads(uint32(d.pid)) {
		id := int(tid)
		listed = true
		if d.threads[id] != nil || d.own[id] {
			continue
		}
		if _, err := ptrace(unix.PTRACE_SEIZE, id, 0, 0); err != nil {
			if errors.Is(err, unix.ESRCH) || d.hasEnded(tid) {
				continue
			}
			if errors.Is(err, unix.EPERM) {
				return false, errors.New("its threads may not be stopped: a debugger is attached, or the right to trace it " +
					"(CAP_SYS_PTRACE) is missing")
			}
			return false, fmt.Errorf("its threads cannot be stopped (ptrace): %w", err)
		}
		d.threads[id], fresh = &thread{tid: id}, true
	}
	if !listed {
		return false, fmt.Errorf("its threads cannot be listed: %w", os.ErrNotExist)
	}
	return fresh, nil
}

// hasEnded reports whether a thread has, also one that is still listed: the kernel refuses to trace it.
func (d *door) hasEnded(tid uint32) bool {
	s, ok := procfs.StatOfThread(uint32(d.pid), tid)
	return !ok || s.State == 'Z' || s.State == 'X'
}

// try stops a thread, or notices that it has reached its breakpoint, and has it go on if it is inside.
func (d *door) try(t *thread, breakpoints bool) error {
	if t.broken && time.Since(t.set) < breakMost {
		hit, err := d.reached(t)
		if !hit || err != nil {
			return err
		}
	} else if there, err := d.stop(t); !there || err != nil {
		return err
	}
	t.unbreak()
	v, outside, err := d.view(t)
	if err != nil {
		return d.lost(t, err)
	}
	if v.began == cuda && d.isOwn(t.tid) {
		delete(d.threads, t.tid)
		d.own[t.tid] = true
		_, err := ptrace(unix.PTRACE_DETACH, t.tid, 0, 0)
		return ignoreGone(err)
	}
	if t.stopped = outside; outside {
		return nil
	}
	if breakpoints && v.returns != 0 {
		if err := t.setBreak(v.returns); err != nil {
			return d.lost(t, err)
		}
	}
	return d.goOn(t, 0)
}

// isOwn reports whether a stopped thread that began in CUDA's code or ours, by its stack, is one of CUDA's or ours: by its
// name (CUPTI's have the name of our thread that started it), or by the function that it was started with, since some of
// libcuda's have the program's name.
func (d *door) isOwn(tid int) bool {
	if name, _ := procfs.ThreadName(uint32(d.pid), uint32(tid)); strings.HasPrefix(name, "cuda") {
		return true
	}
	var regs unix.PtraceRegs
	return tid != d.pid && unix.PtraceGetRegs(tid, &regs) == nil &&
		d.code.startsInCUDA(d.read(regs.Fs_base, regs.Fs_base+threadSize))
}

// lost forgets a thread that has ended; another error is returned.
func (d *door) lost(t *thread, err error) error {
	if !errors.Is(err, unix.ESRCH) {
		return err
	}
	d.forget(t)
	return nil
}

func (d *door) forget(t *thread) {
	t.unbreak()
	delete(d.threads, t.tid)
}

func ignoreGone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

func (d *door) goOn(t *thread, signal unix.Signal) error {
	request := unix.PTRACE_CONT
	if t.halted && signal == 0 {
		request = unix.PTRACE_LISTEN // it stays halted
	}
	t.halted = false
	if _, err := ptrace(request, t.tid, 0, uintptr(signal)); err != nil {
		return d.lost(t, err)
	}
	return nil
}

// stop stops a thread; there is false if it has ended, or does not stop in time. The error is ErrInside if that is for a call
// of the kernel's that nothing interrupts, such as vfork: all others wait for it. A thread that reaches its breakpoint at that
// moment has a signal waiting, which would kill it: it is taken first.
func (d *door) stop(t *thread) (there bool, err error) {
	if _, err := ptrace(unix.PTRACE_INTERRUPT, t.tid, 0, 0); err != nil {
		return false, d.lost(t, err)
	}
	for late, looks := time.Now().Add(stopMost), 0; ; looks++ {
		status, changed, err := d.wait(t)
		switch {
		case err != nil:
			return false, d.lost(t, err)
		case !changed:
			if looks >= spins {
				unix.Nanosleep(&unix.Timespec{Nsec: 5000}, nil) // it may need this processor
			}
			if time.Now().Before(late) {
				continue
			}
			if s, ok := procfs.StatOfThread(uint32(d.pid), uint32(t.tid)); ok && s.State == 'D' {
				return false, ErrInside
			}
			return false, nil
		case !status.Stopped(): // it has ended
			d.forget(t)
			return false, nil
		case isInterrupt(status) && !(t.broken && trapWaits(t.tid)):
			t.halted = status.StopSignal() != unix.SIGTRAP
			return true, nil
		case isInterrupt(status):
			err = d.goOn(t, 0)
		case t.broken && status.StopSignal() == unix.SIGTRAP && isBreak(t.tid):
			// the interrupt is still to come, and ends the next run at once
			err = d.goOn(t, 0)
		default:
			err = d.goOn(t, status.StopSignal())
		}
		if err != nil || d.threads[t.tid] == nil {
			return false, err
		}
	}
}

// reached reports whether a thread is stopped at its breakpoint.
func (d *door) reached(t *thread) (hit bool, err error) {
	status, changed, err := d.wait(t)
	switch {
	case err != nil:
		return false, d.lost(t, err)
	case !changed:
		return false, nil
	case !status.Stopped():
		d.forget(t)
		return false, nil
	case isInterrupt(status) && trapWaits(t.tid):
		return false, d.goOn(t, 0)
	case isInterrupt(status):
		t.halted = status.StopSignal() != unix.SIGTRAP
		return true, nil
	case status.StopSignal() == unix.SIGTRAP && isBreak(t.tid):
		return true, nil
	}
	return false, d.goOn(t, status.StopSignal())
}

// siginfo is the kernel's siginfo_t: number, errno, code, padding; of waitid then PID, UID, status.
type siginfo [32]int32

// wait reports whether a thread has stopped or ended. A stop is only looked at: the kernel would forget the signal that
// brings it, and the program would lose it if the recorder were killed before the thread goes on.
func (d *door) wait(t *thread) (status unix.WaitStatus, changed bool, err error) {
	var info siginfo
	_, _, errno := unix.Syscall6(unix.SYS_WAITID, unix.P_PID, uintptr(t.tid), uintptr(unsafe.Pointer(&info)),
		unix.WEXITED|unix.WSTOPPED|unix.WALL|unix.WNOHANG|unix.WNOWAIT, 0, 0)
	switch {
	case errno == unix.ECHILD:
		return 0, false, unix.ESRCH
	case errno != 0:
		return 0, false, errno
	case info[4] != int32(t.tid):
		return 0, false, nil
	case info[2] == cldTrapped:
		return unix.WaitStatus(info[6]<<8 | 0x7f), true, nil
	}
	_, err = unix.Wait4(t.tid, &status, unix.WALL|unix.WNOHANG, nil)
	if errors.Is(err, unix.ECHILD) {
		err = unix.ESRCH
	}
	return status, true, err
}

// isInterrupt reports whether a status is that of PTRACE_INTERRUPT, or of a program that is stopped anyway.
func isInterrupt(s unix.WaitStatus) bool { return s.Stopped() && s>>16 == unix.PTRACE_EVENT_STOP }

// isBreak reports whether the signal that a thread is stopped with is a breakpoint's, and not one of the program's own.
func isBreak(tid int) bool {
	var info siginfo
	_, err := ptrace(unix.PTRACE_GETSIGINFO, tid, 0, uintptr(unsafe.Pointer(&info)))
	return err == nil && info[2] == trapPerf
}

// trapWaits reports whether the signal of a breakpoint is on its way to a thread.
func trapWaits(tid int) bool {
	args := struct {
		offset       uint64
		flags, count uint32
	}{count: 1}
	var info [16]siginfo
	args.count = uint32(len(info))
	n, err := ptrace(unix.PTRACE_PEEKSIGINFO, tid, uintptr(unsafe.Pointer(&args)), uintptr(unsafe.Pointer(&info)))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(info[:n], func(i siginfo) bool { return i[0] == int32(unix.SIGTRAP) && i[2] == trapPerf })
}

// view looks at a stopped thread.
func (d *door) view(t *thread) (v view, outside bool, err error) {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(t.tid, &regs); err != nil {
		return v, false, err
	}
	end := regs.Fs_base
	if t.tid == d.pid {
		end = d.bottom
	}
	if end <= regs.Rsp || end-regs.Rsp > stackMost || regs.Rsp%8 != 0 {
		return v, false, nil // a stack of its own
	}
	words := d.read(regs.Rsp, end)
	if words == nil {
		return v, false, nil
	}
	v = d.code.look(regs.Rip, words)
	at, known := d.code.find(regs.Rip)
	waits := at == locks && slices.Contains(waiting, regs.Orig_rax)
	busy := !known || at == locks && !waits
	// A thread that waits may do so for long: what calls left behind that have returned would keep it inside.
	if at := [2]uint64{regs.Rip, regs.Rsp}; v.inside && waits && t.inside != at {
		r := elfsym.Registers{elfsym.RBX: regs.Rbx, elfsym.RBP: regs.Rbp, elfsym.RSP: regs.Rsp, elfsym.R12: regs.R12,
			elfsym.R13: regs.R13, elfsym.R14: regs.R14, elfsym.R15: regs.R15, elfsym.RIP: regs.Rip}
		v.inside = !d.elsewhere(func() bool { return d.code.isOutside(d.pid, r, words) })
		if v.inside {
			t.inside = at
		}
	}
	return v, !v.inside && !busy, nil
}

// elsewhere calls a function on a thread that traces nothing, and returns what it does: it may read a file of a network
// mount, which may be long in coming, or for ever. The threads that are stopped wait for readMost in all; then the
// answer is false, and others count as inside.
func (d *door) elsewhere(do func() bool) bool {
	if d.late != nil {
		return false
	}
	answer, began := make(chan bool, 1), time.Now()
	go func() { answer <- do() }()
	select {
	case is := <-answer:
		d.waited += time.Since(began)
		return is
	case <-time.After(readMost - d.waited):
		d.late, d.stack = answer, nil // it still reads this one
		return false
	}
}

// close closes the files, now or when nothing reads them any more.
func (d *door) close() {
	if d.late == nil {
		d.code.close()
		return
	}
	go func() {
		<-d.late
		d.code.close()
	}()
}

// read reads a stack, nil if not all of it is one piece of memory. A page that is in swap, in a file, or with who fills
// pages in (userfaultfd) may be long in coming.
func (d *door) read(from, to uint64) []uint64 {
	n := int(to-from) / 8
	d.stack = slices.Grow(d.stack[:0], n)[:n]
	if n == 0 {
		return d.stack
	}
	words := d.stack
	fill := func() bool {
		local := []unix.Iovec{{Base: (*byte)(unsafe.Pointer(&words[0])), Len: uint64(8 * n)}}
		remote := []unix.RemoteIovec{{Base: uintptr(from), Len: 8 * n}}
		got, err := unix.ProcessVMReadv(d.pid, local, remote, 0)
		return err == nil && got == 8*n
	}
	if d.memory.Present(from, to) && fill() || d.elsewhere(fill) {
		return words
	}
	return nil
}

// setBreak sets a breakpoint, if that can be: by a perf event, which goes with its descriptor. One set by ptrace would stay
// when the recorder dies, or when a thread does not stop any more, and the program would die of its SIGTRAP.
func (t *thread) setBreak(address uint64) error {
	var blocked uint64
	if _, err := ptrace(unix.PTRACE_GETSIGMASK, t.tid, 8, uintptr(unsafe.Pointer(&blocked))); err != nil {
		return err
	}
	if blocked&(1<<(unix.SIGTRAP-1)) != 0 {
		return nil // the signal would wait until the program takes it
	}
	event := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_BREAKPOINT, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Sample: 1,
		Bits:    unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv | bitsRemoveOnExec | bitsSigtrap,
		Bp_type: breakOnCode, Ext1: address, Ext2: 8,
	}
	fd, err := unix.PerfEventOpen(&event, t.tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil // an older kernel, or no right: it goes without
	}
	t.broken, t.event, t.set = true, fd, time.Now()
	return nil
}

func (t *thread) unbreak() {
	if t.broken {
		unix.Close(t.event)
	}
	t.broken = false
}

// release has all threads go on. One that it cannot stop loses its breakpoint, and goes on when the tracing thread ends.
func (d *door) release() (err error) {
	defer func() {
		for _, t := range d.threads {
			t.unbreak()
		}
	}()
	for _, t := range d.threads {
		if t.stopped {
			err = errors.Join(err, d.detach(t))
		}
	}
	for late := time.Now().Add(releaseMost); err == nil && len(d.threads) > 0; {
		for _, t := range d.threads {
			there, failed := d.stop(t)
			if there {
				failed = d.detach(t)
			}
			if errors.Is(failed, ErrInside) {
				d.forget(t) // for long: the kernel lets go of it when this thread ends
			} else {
				err = errors.Join(err, failed)
			}
		}
		if time.Now().After(late) {
			return errors.New("a thread of the program could not be let go: it does not stop")
		}
	}
	return err
}

func (d *door) detach(t *thread) error {
	d.forget(t)
	_, err := ptrace(unix.PTRACE_DETACH, t.tid, 0, 0)
	return ignoreGone(err)
}

func ptrace(request, tid int, address, data uintptr) (int, error) {
	n, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), address, data, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
