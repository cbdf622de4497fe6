package threads

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/internal/blocked"
	"github.com/cudatrace/cudatrace/record/internal/pyframes"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Rates of samples, in Hz.
const (
	RateDefault = 99
	rateLeast   = 1
	rateMost    = 1000
)

// CheckRate returns why there can be no samples of a rate.
func CheckRate(rate int) error {
	if rate < rateLeast || rate > rateMost {
		return fmt.Errorf("must be from %d to %d a second, or off, not %d", rateLeast, rateMost, rate)
	}
	return nil
}

// Bounds of a recording.
const (
	samplesMost = 10000 // a second, of all threads
	threadsMost = 256
	filesLeft   = 64 // of those that this process may open, for everything else
	looksMost   = 16 // looks at threads in a tick

	tick    = 10 * time.Millisecond
	longest = time.Second     // of a record of a state
	reports = time.Second     // between counts of losses
	lookFor = 2 * time.Second // between looks for a Python interpreter
)

// Options are the options of a recorder.
type Options struct {
	Log    *tracelog.Writer
	Rate   int  // of samples, in Hz
	Python bool // read Python frames
	// Stack returns the ID of a Python frame with its callers. ok is false without room for it.
	Stack func(parent uint32, f tracelog.PythonFrame) (id uint32, ok bool)
	// Note takes what the log should say of what is not recorded, Remark what a person should see, too.
	Note, Remark func(text string)
}

// A Recorder records threads.
type Recorder struct {
	Options
	natives *natives
	paused  atomic.Bool
	last    atomic.Uint64 // thread of AddLocal
	wake    int           // eventfd
	epoll   int
	done    chan struct{}

	mu      sync.Mutex
	todo    []func() // for the goroutine
	asked   map[threadKey]bool
	refused bool
	ended   bool

	// What follows belongs to the goroutine.
	processes map[uint32]*sampledProcess
	threads   map[threadKey]*thread
	byEvent   map[int32]*thread
	most      int
	access    access
	looks     int
	turn      int
	reported  uint64
	without   map[string]int // threads that are not recorded, by the reason

	kernel       *kernelReader // nil: Python frames are read from outside
	mayUseKernel bool
	kernelAsked  bool
	attachFailed bool
	samples      uint64 // of threads of processes with a Python interpreter
	unread       uint64 // of these, without Python frames of their moment

	switchRate float64       // switches a second from which a thread rests
	resters    int           // threads that rested
	rested     time.Duration // of all of them
	unreason   bool          // it was said that reasons of blocks cannot be read
	stack      []pyframes.Frame
	addresses  []uint64
}

type threadKey struct{ pid, tid uint32 }

// A sampledProcess is a process whose threads are sampled.
type sampledProcess struct {
	*blocked.WatchedProcess                   // without a walker no Python frames are read
	looked                  time.Time         // for an interpreter
	code                    uint64            // KiB of code at that look
	entries                 map[uint64]uint32 // flags of samples, by the address at which the thread goes on
	space                   *space
}

// Start returns a recorder without threads. It records nothing where the kernel lacks what that needs.
func Start(o Options) *Recorder {
	r := &Recorder{Options: o, natives: newNatives(o.Log), done: make(chan struct{}), asked: map[threadKey]bool{},
		processes: map[uint32]*sampledProcess{}, threads: map[threadKey]*thread{}, byEvent: map[int32]*thread{},
		without: map[string]int{}, access: access{kernel: true}, mayUseKernel: true, switchRate: switchesASecond}
	r.most = min(samplesMost/o.Rate, threadsMost)
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		r.most = min(r.most, int((max(limit.Cur, filesLeft)-filesLeft)/3))
	}
	if r.most <= 0 {
		r.ended = true
		close(r.done)
		o.Note(notRecorded + "this process may open too few files")
		return r
	}
	var err1, err2 error
	r.wake, err1 = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	r.epoll, err2 = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err := errors.Join(err1, err2); err != nil {
		r.close()
		r.ended = true
		close(r.done)
		o.Remark(notRecorded + err.Error())
		return r
	}
	r.watch(r.wake)
	go r.run()
	return r
}

const notRecorded = "what threads do outside of CUDA calls is not recorded: "

// Pause stops writing records, or goes on.
func (r *Recorder) Pause(paused bool) { r.paused.Store(paused) }

// Begin begins to record the first thread of a process that uses CUDA. in is its Python interpreter; nil if it is not
// known.
func (r *Recorder) Begin(pid uint32, in *pyframes.Interpreter) {
	p := &sampledProcess{WatchedProcess: blocked.NewProcess(pid), looked: time.Now(), space: newSpace(pid)}
	p.code, _ = procfs.CodeSize(int(pid)) // 0 of a process that has just ended
	if in == nil && r.Python {
		in, _ = pyframes.Find(int(pid)) // without one there are no Python frames
	}
	if in != nil && r.Python {
		p.Walker = pyframes.NewWalker(int(pid), in)
	}
	r.do(func() {
		if old := r.processes[pid]; old != nil { // it runs another program now
			for key, t := range r.threads {
				if key.pid == pid {
					t.process = p
					r.attach(t)
				}
			}
		}
		r.processes[pid] = p
		r.add(threadKey{pid, pid})
	})
}

// Add begins to record a thread that has made a CUDA call. A thread that is recorded stays so.
func (r *Recorder) Add(pid, tid uint32) { r.ask(threadKey{pid, tid}, r.add) }

// AddLocal does the same for a thread by its ID in the process's own PID namespace.
func (r *Recorder) AddLocal(pid, tid uint32) {
	if key := uint64(pid)<<32 | uint64(tid); r.last.Swap(key) == key {
		return
	}
	r.ask(threadKey{pid, tid}, func(key threadKey) {
		if p := r.processes[pid]; p != nil {
			if key.tid = p.Host(tid); key.tid != 0 {
				r.add(key)
			}
		}
	})
}

// ask has the goroutine add a thread, once.
func (r *Recorder) ask(key threadKey, add func(threadKey)) {
	r.mu.Lock()
	known := r.asked[key]
	if !known && len(r.asked) < 1<<16 {
		r.asked[key] = true
	}
	r.mu.Unlock()
	if !known {
		r.do(func() { add(key) })
	}
}

// do has the goroutine call a function.
func (r *Recorder) do(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.refused {
		return
	}
	r.todo = append(r.todo, f)
	r.wakeUp()
}

// End writes the last records, and says what is missing. A second call does nothing.
func (r *Recorder) End() {
	r.mu.Lock()
	if !r.ended {
		r.ended = true
		r.wakeUp()
	}
	r.mu.Unlock()
	<-r.done
}

func (r *Recorder) wakeUp() {
	_, _ = unix.Write(r.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // full: it wakes up anyway
}

func (r *Recorder) close() {
	_ = unix.Close(r.wake)
	_ = unix.Close(r.epoll)
	if r.kernel != nil {
		r.kernel.close()
	}
}

// wait waits for events, until a time unless it is zero. No events are no error. It waits in the kernel itself: the
// runtime's poller would poll the epoll, and that takes a perf event's sign away before anybody has seen it.
func (r *Recorder) wait(events []unix.EpollEvent, until time.Time) (n int, err error) {
	timeout := -1
	if !until.IsZero() {
		timeout = int(max(0, (time.Until(until)+time.Millisecond-1)/time.Millisecond))
	}
	if n, err = unix.EpollWait(r.epoll, events, timeout); errors.Is(err, unix.EINTR) {
		err = nil
	}
	return max(n, 0), err
}

func (r *Recorder) watch(fd int) {
	// without it the tick looks at the event
	_ = unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// run is the goroutine.
func (r *Recorder) run() {
	defer close(r.done)
	defer r.close()
	defer r.natives.finish()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var events [32]unix.EpollEvent
	next := time.Now().Add(tick)
	for {
		var until time.Time
		if len(r.threads) > 0 {
			until = next
		}
		n, err := r.wait(events[:], until)
		if err != nil {
			r.Remark(notRecorded + err.Error())
			return
		}
		for i := range n {
			if t := r.byEvent[events[i].Fd]; t != nil {
				r.ready(t, events[i].Events)
			}
		}
		if r.commands() {
			r.finish()
			return
		}
		if !time.Now().Before(next) {
			r.tick()
			next = time.Now().Add(tick)
		}
	}
}

// commands does what others want done. It reports whether the recorder is to end.
func (r *Recorder) commands() (end bool) {
	var b [8]byte
	_, _ = unix.Read(r.wake, b[:]) // nothing to read: there may be something to do all the same
	for {
		r.mu.Lock()
		todo := r.todo
		r.todo = nil
		if len(todo) == 0 {
			end = r.ended
			r.mu.Unlock()
			return end
		}
		r.mu.Unlock()
		for _, f := range todo {
			f()
		}
	}
}

// ready reads the event of a thread that has a sample, or has ended.
func (r *Recorder) ready(t *thread, events uint32) {
	r.drain(t)
	if events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		r.remove(t)
	}
}

// tick looks at all threads.
func (r *Recorder) tick() {
	r.looks = looksMost
	all := make([]*thread, 0, len(r.threads))
	for _, t := range r.threads {
		all = append(all, t)
	}
	for i := range all {
		t := all[(i+r.turn)%len(all)]
		now := host.Monotonic()
		r.drain(t)
		r.look(t)
		r.cut(t, now)
		r.restOrResume(t, now)
	}
	r.turn++
	if now := host.Monotonic(); now-r.reported > uint64(reports) {
		r.reported = now
		for _, t := range all {
			t.report(r.Log)
		}
		r.lookForPython()
	}
}

// add opens the event of a thread.
func (r *Recorder) add(key threadKey) {
	if r.threads[key] != nil || r.refused {
		return
	}
	p := r.processes[key.pid]
	if p == nil {
		p = &sampledProcess{WatchedProcess: blocked.NewProcess(key.pid), space: newSpace(key.pid)}
		r.processes[key.pid] = p
	}
	if len(r.threads) >= r.most {
		r.without["more threads than are recorded at the same time"]++
		return
	}
	opened := host.Monotonic()
	e, err := r.open(int(key.tid))
	switch {
	case errors.Is(err, unix.ESRCH): // it has just ended
		return
	case err != nil && len(r.threads) == 0 && len(r.without) == 0:
		r.refuse(err)
		return
	case err != nil:
		r.without[err.Error()]++
		return
	}
	t := newThread(p, key.tid, e, opened)
	t.switches = r.switchRate / 2
	if local := procfs.NamespaceTID(key.pid, key.tid); local != 0 {
		t.local = local
		name, _ := procfs.ThreadName(key.pid, key.tid) // none if it has just ended
		r.Log.Add(&tracelog.Thread{PID: key.pid, TID: key.tid, Name: name, NamespaceTID: local})
	}
	r.threads[key], r.byEvent[int32(e.fd)] = t, t
	r.watch(e.fd)
	r.attach(t)
}

// open opens the event of a thread, without the kernel's part where that is not allowed.
func (r *Recorder) open(tid int) (*perfEvent, error) {
	period := uint64(time.Second) / uint64(r.Rate)
	e, err := openEvent(tid, period, r.access, r.kernel == nil)
	if err != nil && r.access.kernel && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)) {
		if e, err = openEvent(tid, period, access{}, r.kernel == nil); err == nil {
			r.access.kernel = false
		}
	}
	return e, err
}

// refuse says why no thread is recorded.
func (r *Recorder) refuse(err error) {
	r.mu.Lock()
	r.refused = true
	r.mu.Unlock()
	why := "the kernel refuses perf events: " + errno.Words(err)
	if paranoid, failed := procfs.Read("/proc/sys/kernel/perf_event_paranoid", procfs.MaxFacts); failed == nil &&
		(errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)) {
		why += fmt.Sprintf(" (kernel.perf_event_paranoid is %s; 2 allows them for one's own processes, CAP_PERFMON for all)",
			strings.TrimSpace(string(paranoid)))
	}
	r.Remark(notRecorded + why)
}

// sayUnread says which part of the samples of Python programs has no Python frames of its moment.
func (r *Recorder) sayUnread() {
	if r.unread == 0 {
		return
	}
	text := fmt.Sprintf("line not seen: %s of %s of Python programs (%.1f %%) had no Python frames that could be read "+
		"at their moment",
		figures.Group(r.unread), figures.Count(int(r.samples), "sample", "samples"), 100*float64(r.unread)/float64(r.samples))
	if r.kernel == nil {
		text += "; with CAP_BPF and CAP_PERFMON, or as root, the kernel reads them there"
	}
	const many = 100 // samples: of fewer, chance makes a tenth
	if r.samples >= many && 10*r.unread > r.samples {
		r.Remark(text)
	} else {
		r.Note(text)
	}
}

// remove closes the event of a thread.
func (r *Recorder) remove(t *thread) {
	t.report(r.Log)
	if t.resting != 0 {
		t.rested += host.Monotonic() - t.resting
	}
	if t.rested > 0 {
		r.resters++
		r.rested += time.Duration(t.rested)
	}
	if r.kernel != nil {
		r.kernel.release(t)
	}
	key := threadKey{t.process.PID, t.tid}
	delete(r.threads, key)
	if t.resting == 0 {
		delete(r.byEvent, int32(t.event.fd))
		t.event.close()
	}
	r.mu.Lock()
	delete(r.asked, key) // the ID may come to be another thread's
	delete(r.asked, threadKey{key.pid, t.local})
	r.mu.Unlock()
}

// finish writes what is left.
func (r *Recorder) finish() {
	for _, t := range r.threads {
		now := host.Monotonic()
		r.drain(t)
		r.end(t, now)
		r.remove(t)
	}
	r.sayUnread()
	for why, n := range r.without {
		r.Remark(fmt.Sprintf("what %s did outside of CUDA calls is not recorded: %s", figures.Count(n, "thread", "threads"),
			why))
	}
	if r.resters > 0 {
		r.Remark(fmt.Sprintf("%s switched more often than %s times a second: what %s did is not recorded for %s, which "+
			"keeps the cost low",
			figures.Count(r.resters, "thread was", "threads were"), figures.Group(uint64(r.switchRate)),
			map[bool]string{true: "it", false: "they"}[r.resters == 1], figures.Duration(uint64(r.rested))))
	}
	if n := r.natives.without; n > 0 {
		r.Remark(fmt.Sprintf("%s no native frames: the programs ran more code than is kept",
			figures.Count(n, "sample of threads has", "samples of threads have")))
	}
}

// lookForPython looks at processes that may have loaded an interpreter since the last look.
func (r *Recorder) lookForPython() {
	if !r.Python {
		return
	}
	for _, p := range r.processes {
		if p.Walker != nil || time.Since(p.looked) < lookFor {
			continue
		}
		p.looked = time.Now()
		size, err := procfs.CodeSize(int(p.PID))
		if err != nil || size == p.code {
			continue
		}
		p.code = size
		go func() {
			if in, err := pyframes.Find(int(p.PID)); err == nil && in != nil {
				w := pyframes.NewWalker(int(p.PID), in)
				r.do(func() {
					p.Walker = w
					for _, t := range r.threads {
						if t.process == p {
							r.attach(t)
						}
					}
				})
			}
		}()
	}
}

// python returns the ID of the Python stack of a thread, 0 if it has none.
func (r *Recorder) python(t *thread) (id uint32, err error) {
	w := t.process.Walker
	if w == nil {
		return 0, nil
	}
	frames, cut, err := w.Stack(t.local, r.stack[:0])
	r.stack = frames
	if err != nil {
		return 0, err
	}
	return r.stackID(frames, cut)
}

func (r *Recorder) stackID(frames []pyframes.Frame, cut bool) (id uint32, err error) {
	return StackID(r.Stack, frames, cut)
}

// StackID returns the ID of a Python stack, 0 without frames. cut says that there are more frames. stack returns that
// of a frame with its callers.
func StackID(stack func(uint32, tracelog.PythonFrame) (uint32, bool), frames []pyframes.Frame, cut bool) (id uint32,
	err error) {
	if len(frames) == 0 {
		return 0, nil
	}
	ok := true
	if cut {
		id, ok = stack(0, tracelog.PythonFrame{Function: "(frames further out are left out)"})
	}
	for i := len(frames) - 1; i >= 0 && ok; i-- {
		line := frames[i].Line()
		if c := frames[i].Code; line > 0 {
			id, ok = stack(id, tracelog.PythonFrame{
				File: c.File, Function: c.Function, FirstLine: uint32(max(c.FirstLine, 0)), Line: uint32(line),
			})
		}
	}
	if !ok {
		return 0, errNoRoom
	}
	return id, nil
}

var errNoRoom = errors.New("the log has no room for more Python stacks")

// mayNotRead notes that what blocks threads cannot be read.
func (r *Recorder) mayNotRead(err error) {
	if !r.unreason && errors.Is(err, fs.ErrPermission) {
		r.unreason = true
		r.Remark("why threads are blocked is not recorded: /proc does not show the system calls of the program's " +
			"threads to user " + fmt.Sprint(os.Geteuid()))
	}
}
