package threads

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/internal/blocked"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/recordtest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A recording is a recorder with its log.
type recording struct {
	*Recorder
	t   *testing.T
	log bytes.Buffer
	w   *tracelog.Writer

	mu    sync.Mutex
	notes []string
}

func record(t *testing.T) *recording {
	t.Helper()
	r := &recording{t: t}
	var err error
	if r.w, err = tracelog.NewWriter(&r.log, tracelog.Options{}); err != nil {
		t.Fatal(err)
	}
	r.Recorder = Start(Options{Log: r.w, Rate: RateDefault, Python: true,
		Stack: func(uint32, tracelog.PythonFrame) (uint32, bool) { return 1, true },
		Note:  r.note, Remark: r.note})
	t.Cleanup(r.End)
	return r
}

func (r *recording) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, text)
}

// A written is what a recording has written.
type written struct {
	states  []tracelog.ThreadState
	samples []tracelog.ThreadSample
	threads []tracelog.Thread
	frames  map[uint32]tracelog.NativeFrame
	stacks  map[uint32]tracelog.NativeStack
}

// end ends the recording and reads its log.
func (r *recording) end() (w written) {
	r.t.Helper()
	r.End()
	must.Do(r.t, r.w.Close(tracelog.End{Time: 1}))
	for _, n := range r.notes {
		if strings.HasPrefix(n, notRecorded) {
			r.t.Skip(n)
		}
	}
	w.frames, w.stacks = map[uint32]tracelog.NativeFrame{}, map[uint32]tracelog.NativeStack{}
	recordtest.Each(r.t, recordtest.InMemory(r.t, r.log.Bytes()), func(x tracelog.Record) {
		switch x := x.(type) {
		case *tracelog.ThreadState:
			w.states = append(w.states, *x)
		case *tracelog.ThreadSample:
			w.samples = append(w.samples, *x)
		case *tracelog.Thread:
			w.threads = append(w.threads, *x)
		case *tracelog.NativeFrame:
			w.frames[x.ID] = *x
		case *tracelog.NativeStack:
			w.stacks[x.ID] = *x
		}
	})
	return w
}

// check checks that the states of each thread follow each other without a gap.
func (w *written) check(t *testing.T) {
	t.Helper()
	until := map[uint32]uint64{}
	for _, s := range w.states {
		if last := until[s.TID]; s.Dur == 0 || last != 0 && s.Start != last {
			t.Errorf("thread %d: a state from %d on, of %d ns, behind one that ends at %d", s.TID, s.Start, s.Dur, last)
		}
		until[s.TID] = s.Start + s.Dur
	}
}

// program starts a program that writes what it reads.
func program(t *testing.T, flags uintptr, name string, args ...string) (pid int, in io.Writer, out *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	w := must.Get(cmd.StdinPipe())(t)
	r := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // by that signal
	})
	return cmd.Process.Pid, w, bufio.NewReader(r)
}

// state asks the recorder's goroutine about a thread.
func (r *recording) state(pid, tid int, about func(*thread) bool) bool {
	answer := make(chan bool, 1)
	r.do(func() {
		t := r.threads[threadKey{uint32(pid), uint32(tid)}]
		answer <- t != nil && about(t)
	})
	select {
	case a := <-answer:
		return a
	case <-r.done:
	case <-time.After(time.Minute):
	}
	return false
}

// await waits until something holds for a thread.
func (r *recording) await(pid, tid int, what string, about func(*thread) bool) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); !r.state(pid, tid, about); time.Sleep(time.Millisecond) {
		r.mu.Lock()
		notes := slices.Clone(r.notes)
		r.mu.Unlock()
		for _, n := range notes {
			if strings.HasPrefix(n, notRecorded) {
				r.t.Skip(n)
			}
		}
		if time.Now().After(end) {
			r.t.Fatalf("thread %d of process %d is never %s", tid, pid, what)
		}
	}
}

func isSeen(t *thread) bool { return t.known && t.off && t.seen }

// A thread that reads from a pipe is blocked there, and runs when there is something.
func TestBlocked(t *testing.T) {
	t.Parallel()
	r := record(t)
	pid, in, out := program(t, 0, "cat")
	r.Begin(uint32(pid), nil)
	since := uint64(0)
	for range 3 {
		r.await(pid, pid, "seen blocked again", func(t *thread) bool {
			again := isSeen(t) && t.since != since
			if again {
				since = t.since
			}
			return again
		})
		must.Get(io.WriteString(in, "line\n"))(t)
		must.Get(out.ReadString('\n'))(t)
	}
	w := r.end()
	w.check(t)
	count := map[string]int{}
	for _, s := range w.states {
		switch s.State {
		case tracelog.StateBlocked:
			count[s.Call+" "+s.On]++
		case tracelog.StateRunning:
			count["runs"]++
		}
	}
	if count["read pipe"] < 3 || count["runs"] < 3 {
		t.Errorf("states are %v", count)
	}
}

// A thread that computes has samples with native frames, in the program's file.
func TestSamples(t *testing.T) {
	t.Parallel()
	r := record(t)
	pid, _, _ := program(t, 0, "sh", "-c", "while :; do :; done")
	r.Begin(uint32(pid), nil)
	samples := 0
	r.await(pid, pid, "sampled", func(t *thread) bool { samples = len(r.natives.stacks); return samples > 3 })
	w := r.end()
	w.check(t)
	placed := 0
	for _, s := range w.samples {
		f, ok := w.frames[w.stacks[s.Native].Frame]
		if s.Native != 0 && !ok {
			t.Errorf("sample %+v has no frame", s)
		}
		if f.Module != "" {
			placed++
		}
	}
	if len(w.samples) == 0 || placed == 0 {
		t.Errorf("%d samples, %d with a file", len(w.samples), placed)
	}
}

// A thread in a PID namespace is found by its ID there, and recorded under that of the host.
func TestNamespace(t *testing.T) {
	must.BeRoot(t)
	t.Parallel()
	r := record(t)
	pid, _, _ := program(t, unix.CLONE_NEWPID, "cat")
	r.Begin(uint32(pid), nil)
	r.AddLocal(uint32(pid), 1)
	r.await(pid, pid, "seen blocked", isSeen)
	r.state(pid, pid, func(*thread) bool {
		p := r.processes[uint32(pid)]
		if got := p.Host(1); got != uint32(pid) || len(r.threads) != 1 || p.Host(99) != 0 {
			t.Errorf("thread 1 is %d, of %d; thread 99 is %d", got, len(r.threads), p.Host(99))
		}
		return true
	})
	w := r.end()
	if len(w.threads) != 1 || w.threads[0].TID != uint32(pid) || w.threads[0].NamespaceTID != 1 {
		t.Errorf("threads are %+v", w.threads)
	}
	for _, s := range w.states {
		if s.TID != uint32(pid) || s.PID != uint32(pid) {
			t.Errorf("a state of another thread: %+v", s)
		}
	}
}

// Locks and threads that others wait for are named: the program says which thread has it.
func TestHolder(t *testing.T) {
	t.Parallel()
	r := record(t)
	const source = `import ctypes, sys, threading, os
c = ctypes.CDLL(None)
m = ctypes.create_string_buffer(64)
ready = threading.Event()
def hold():
    c.pthread_mutex_lock(m)
    ready.set()
    os.read(0, 1)
t = threading.Thread(target=hold, daemon=True)
t.start()
ready.wait()
print(t.native_id, flush=True)
c.pthread_mutex_lock(m)`
	pid, _, out := program(t, 0, "python3", "-c", source)
	line, err := out.ReadString('\n')
	if err != nil {
		t.Skip("no python3 here")
	}
	r.Begin(uint32(pid), nil)
	var got blocked.Cause
	r.await(pid, pid, "blocked by a lock", func(t *thread) bool { got = t.why; return isSeen(t) && got.Call == "futex" && got.Holder != 0 })
	if got.On != blocked.OnLock || line != fmt.Sprintln(got.Holder) {
		t.Errorf("it waits for %s of thread %d, not of %s", got.On, got.Holder, line)
	}
}

// A thread that ends gives its event back.
func TestThreadEnds(t *testing.T) {
	t.Parallel()
	r := record(t)
	pid, in, _ := program(t, 0, "cat")
	r.Begin(uint32(pid), nil)
	r.await(pid, pid, "seen blocked", isSeen)
	in.(io.Closer).Close()
	left := func() bool { return !r.state(pid, pid, func(*thread) bool { return true }) }
	must.Wait(t, left, func() string { return "the thread stays" })
	r.Add(uint32(pid), uint32(pid)) // it is gone, or somebody else's
	r.end()
	if len(r.notes) > 0 {
		t.Errorf("notes: %q", r.notes)
	}
}

// Times without a processor are divided by what the scheduler has counted.
func TestShare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		durs []uint64
		time uint64
		want []uint64
	}{
		{[]uint64{100}, 30, []uint64{30}},
		{[]uint64{100}, 300, []uint64{100}},
		{[]uint64{100, 100}, 60, []uint64{30, 30}},
		{[]uint64{10, 100, 100}, 110, []uint64{10, 50, 50}},
		{[]uint64{5, 5, 5}, 1000, []uint64{5, 5, 5}},
		{[]uint64{10, 10, 10}, 2, []uint64{1, 1, 0}},
	} {
		var among []*change
		for _, d := range c.durs {
			among = append(among, &change{ThreadState: tracelog.ThreadState{Dur: d}})
		}
		if got := share(among, c.time); !slices.Equal(got, c.want) {
			t.Errorf("%d among %d: %d, not %d", c.time, c.durs, got, c.want)
		}
	}
}

// A thread that is switched more often than there is room for has the sums of short times.
func TestSums(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := must.Get(tracelog.NewWriter(&log, tracelog.Options{}))(t)
	r := &Recorder{Options: Options{Log: w}}
	th := &thread{process: &sampledProcess{WatchedProcess: blocked.NewProcess(1)}, tid: 1, opened: 100, room: 3}
	for at := uint64(200); at < 2200; at += 200 {
		th.switched(stamp{time: at - 50}, true, at%400 == 0)
		th.switched(stamp{time: at}, false, false)
	}
	r.write(th)
	must.Do(t, w.Close(tracelog.End{Time: 1}))
	var got []uint64
	for _, s := range recordtest.Of[tracelog.ThreadState](t, recordtest.InMemory(t, log.Bytes())) {
		got = append(got, uint64(s.State), s.Start, s.Dur)
	}
	if want := []uint64{tracelog.StateRunning, 100, 1400, tracelog.StateRunnable, 1500, 250, tracelog.StateBlocked, 1750, 250}; !slices.Equal(got, want) {
		t.Errorf("states are %d, not %d", got, want)
	}
}

func TestCheckRate(t *testing.T) {
	t.Parallel()
	for rate, good := range map[int]bool{-1: false, 0: false, 1: true, 99: true, 1000: true, 1001: false} {
		if err := CheckRate(rate); (err == nil) != good {
			t.Errorf("%d: %v", rate, err)
		}
	}
}

// kernelRecord writes a record as the kernel does.
func kernelRecord(kind uint32, misc uint16, body []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, kind)
	b = binary.LittleEndian.AppendUint16(b, misc)
	b = binary.LittleEndian.AppendUint16(b, uint16(recordHeader+len(body)))
	return append(b, body...)
}

func switchBody(at uint64) []byte {
	b := make([]byte, stampBytes)
	binary.LittleEndian.PutUint64(b[8:], at)
	return b
}

// FuzzRing gives what no kernel has written, around the end of the ring, too.
func FuzzRing(f *testing.F) {
	lost := append(make([]byte, 16), switchBody(60)...)
	f.Add(slices.Concat(kernelRecord(unix.PERF_RECORD_SWITCH, unix.PERF_RECORD_MISC_SWITCH_OUT, switchBody(50)),
		kernelRecord(unix.PERF_RECORD_LOST, 0, lost), kernelRecord(unix.PERF_RECORD_SWITCH, 0, switchBody(70)),
		kernelRecord(unix.PERF_RECORD_SAMPLE, 1, append(switchBody(80), 1, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9))), uint16(4090))
	f.Add([]byte{9, 0, 0, 0, 1, 0, 4, 0}, uint16(0))
	w := must.Get(tracelog.NewWriter(io.Discard, tracelog.Options{}))(f)
	f.Fuzz(func(t *testing.T, b []byte, from uint16) {
		e := &perfEvent{page: &unix.PerfEventMmapPage{}, data: make([]byte, 4096)}
		b = b[:min(len(b), len(e.data))]
		for i, c := range b {
			e.data[(int(from)+i)%len(e.data)] = c
		}
		e.page.Data_tail, e.page.Data_head = uint64(from), uint64(from)+uint64(len(b))
		r := &Recorder{Options: Options{Log: w}, natives: newNatives(w)}
		th := &thread{process: &sampledProcess{WatchedProcess: blocked.NewProcess(1 << 30), space: newSpace(1 << 30)}, event: e, opened: 40, room: statesAtOnce}
		r.drain(th)
		if e.page.Data_tail != e.page.Data_head {
			t.Errorf("%d of %d bytes are read", e.page.Data_tail-uint64(from), len(b))
		}
		r.natives.finish()
	})
}

// TestLost follows a thread through lost records: what it did meanwhile is not known.
func TestLost(t *testing.T) {
	t.Parallel()
	th := &thread{process: &sampledProcess{WatchedProcess: blocked.NewProcess(1)}, opened: 40}
	at := func(at uint64, out bool) { th.switched(stamp{time: at}, out, false) }
	at(50, true)
	th.missed(append(make([]byte, 16), switchBody(60)...))
	at(70, false)
	at(80, true)
	at(95, false)
	var got []uint64
	for _, c := range th.pending {
		got = append(got, uint64(c.State), c.Start, c.Dur)
	}
	if want := []uint64{tracelog.StateRunning, 40, 10, tracelog.StateRunning, 70, 10, tracelog.StateBlocked, 80, 15}; !slices.Equal(got, want) {
		t.Errorf("states are %d, not %d", got, want)
	}
	if th.lost != (lost{1, 50, 60}) {
		t.Errorf("lost: %+v", th.lost)
	}
}

// A thread that is switched too often rests: what it does is recorded for a part of the time, and the rest is said.
func TestRests(t *testing.T) {
	t.Parallel()
	r := record(t)
	r.do(func() { r.switchRate = 10 })
	var to, from [2]int
	for _, p := range [][]int{to[:], from[:]} {
		must.Do(t, unix.Pipe2(p, unix.O_CLOEXEC))
	}
	tid := make(chan int)
	var echo sync.WaitGroup
	echo.Go(func() {
		runtime.LockOSThread()
		tid <- unix.Gettid()
		for b := []byte{1}; ; {
			if n, err := unix.Read(to[0], b); n == 0 || err != nil {
				_ = unix.Close(from[1])
				return
			}
			_, _ = unix.Write(from[1], b) // the other side sees what is missing
		}
	})
	pid, id := os.Getpid(), <-tid
	r.Begin(uint32(pid), nil)
	r.Add(uint32(pid), uint32(id))
	// The thread is switched a few times until it rests, and then once at a time until it is recorded again. Between these bursts the
	// recorder sees all of them: how long the thread rests depends on how often it was switched before that.
	rested, again := false, false
	for !again {
		for range map[bool]int{false: 20, true: 1}[rested] {
			b := []byte{1}
			_, _ = unix.Write(to[1], b)
			_, _ = unix.Read(from[0], b)
		}
		at := host.Monotonic()
		r.await(pid, id, "looked at", func(t *thread) bool {
			rested = rested || t.resting != 0
			again = t.rested > 0 && t.known
			return again || t.resting == 0 && t.counted >= at
		})
	}
	_ = unix.Close(to[1])
	w := r.end()
	echo.Wait()
	i := slices.IndexFunc(r.notes, func(n string) bool { return strings.Contains(n, "switched more often than 10 times a second") })
	if i < 0 {
		t.Errorf("notes are %q", r.notes)
	}
	if len(w.states) == 0 {
		t.Error("there are no states")
	}
}
