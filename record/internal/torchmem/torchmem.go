// Package torchmem records the blocks of GPU memory that PyTorch's caching allocator hands out and takes back, and when
// it found no memory. Input: processes that have mapped libc10. Output: torch_memory records, and the python_stack
// records that they name.
//
// The allocator calls an exported function of libc10 at each of these, profiler or not. A probe at that function's
// entry reads its arguments and, where memory is handed out, the thread's Python frames (bpf/python.bpf.c).
package torchmem

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/internal/elfsym"
	"github.com/cudatrace/cudatrace/record/internal/probe"
	"github.com/cudatrace/cudatrace/record/internal/pyframes"
	"github.com/cudatrace/cudatrace/record/internal/threads"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Bounds of a recording.
const (
	processesMost = 256
	stacksMost    = 1 << 16 // of a process, of which it is remembered which they are

	tick  = 5 * time.Millisecond
	looks = time.Second // between counts of losses, and looks for processes that have ended
)

// The functions of libc10, with the arguments that the eBPF program reads: those of the block, two sums, the device.
const (
	memoryUsage = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
	outOfMemory = "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"
)

var library = regexp.MustCompile(`^libc10[-.].*so[.0-9]*$`)

// Options are the options of a recorder.
type Options struct {
	Log *tracelog.Writer
	// Stack returns the ID of a Python frame with its callers. ok is false without room for it. nil: there are no frames.
	Stack func(parent uint32, f tracelog.PythonFrame) (id uint32, ok bool)
	Note  func(text string)
}

// A Recorder records what PyTorch's allocators do.
type Recorder struct {
	Options
	program *probe.EntryProgram
	ring    *ringbuf.Reader
	paused  atomic.Bool
	stop    chan struct{}
	done    chan struct{}

	mu     sync.Mutex // of what follows
	slots  []*process
	record ringbuf.Record
	frames []pyframes.Frame
	seed   maphash.Seed
	looked uint64 // when losses were counted, ns
	lost   uint64 // events that had been lost by then
	known  uint64 // blocks that were handed out to Python programs
	unread uint64 // of these, without Python frames
	ended  bool
}

// A process is a process whose allocator is probed.
type process struct {
	pid    uint32
	start  procfs.StartTime
	probes io.Closer
	walker *pyframes.Walker
	stacks map[uint64]uint32 // IDs of Python stacks, by the hash of their frames
}

// Start loads the eBPF program. No process is probed yet.
func Start(o Options) (*Recorder, error) {
	spec, err := bpf.LoadPython()
	if err != nil {
		return nil, err
	}
	delete(spec.Programs, bpf.PythonProgReadPython)
	delete(spec.Maps, bpf.PythonMapPythonSamples)
	spec.Maps[bpf.PythonMapPythonThreads].MaxEntries = processesMost
	program, err := probe.LoadEntries(spec, bpf.PythonProgTorchMulti, bpf.PythonProgTorchSingle)
	if err != nil {
		return nil, err
	}
	r := &Recorder{Options: o, program: program, stop: make(chan struct{}), done: make(chan struct{}),
		slots: make([]*process, processesMost), seed: maphash.MakeSeed(), looked: host.Monotonic()}
	if r.ring, err = ringbuf.NewReader(program.Maps[bpf.PythonMapTorchEvents]); err != nil {
		program.Close()
		return nil, err
	}
	r.ring.SetDeadline(time.Unix(1, 0)) // it never waits
	go r.run()
	return r, nil
}

// Pause stops writing records, or goes on.
func (r *Recorder) Pause(paused bool) { r.paused.Store(paused) }

// Add probes the allocator of a process that has mapped libc10. found is false if it has not. in is the process's
// Python interpreter, nil if it is not known.
func (r *Recorder) Add(pid uint32, in *pyframes.Interpreter) (found bool, err error) {
	mapped, err := procfs.CodeFiles(int(pid))
	if err != nil {
		return false, nil // it has ended
	}
	for _, m := range mapped {
		if !library.MatchString(filepath.Base(m.Path)) {
			continue
		}
		file, err := m.Open(int(pid))
		if err != nil {
			return true, err
		}
		defer file.Close()
		return true, r.attach(pid, file, in)
	}
	return false, nil
}

// attach probes a file of a process.
func (r *Recorder) attach(pid uint32, file *os.File, in *pyframes.Interpreter) error {
	found, err := elfsym.Exported(file, memoryUsage, outOfMemory)
	if err != nil {
		return err
	}
	usage, ok := found[memoryUsage]
	if !ok {
		return errors.New("it lacks the function c10::reportMemoryUsageToProfiler(void *, int64_t, size_t, size_t, " +
			"c10::Device), which PyTorch has from release 1.10 on")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil
	}
	start, _ := procfs.Started(int(pid)) // 0 if it has just ended
	p := &process{pid: pid, start: start, stacks: map[uint64]uint32{}}
	slot := r.room(pid)
	if slot < 0 {
		return fmt.Errorf("more than %d processes at the same time", processesMost)
	}
	if err := r.configure(slot, p, in); err != nil {
		return err
	}
	entries := []probe.Entry{{Offset: usage, Cookie: uint64(slot)}}
	if at, ok := found[outOfMemory]; ok {
		entries = append(entries, probe.Entry{Offset: at, Cookie: uint64(slot) | bpf.TorchOutOfMemory})
	}
	if p.probes, err = r.program.Attach(file, int(pid), entries); err != nil {
		return err
	}
	r.slots[slot] = p
	return nil
}

// room returns a free slot, -1 if there is none. What ran under the PID before runs no more.
func (r *Recorder) room(pid uint32) int {
	for i, p := range r.slots {
		if p != nil && p.pid == pid {
			r.remove(i)
		}
	}
	return slices.Index(r.slots, nil)
}

// configure tells the eBPF program how the frames of a process are read.
func (r *Recorder) configure(slot int, p *process, in *pyframes.Interpreter) error {
	config := bpf.PythonPythonThread{Tid: p.pid}
	if in != nil && r.Stack != nil {
		config, p.walker = threads.ReaderConfig(in, p.pid), pyframes.NewWalker(int(p.pid), in)
	}
	return r.program.Maps[bpf.PythonMapPythonThreads].Update(uint32(slot), &config, ebpf.UpdateAny)
}

// SetPython takes the interpreter of a process in which none was known.
func (r *Recorder) SetPython(pid uint32, in *pyframes.Interpreter) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, p := range r.slots {
		if p != nil && p.pid == pid && p.walker == nil && !r.ended {
			return r.configure(i, p, in)
		}
	}
	return nil
}

// remove takes the probes from a process, once its events have been read.
func (r *Recorder) remove(slot int) {
	r.read()
	_ = r.slots[slot].probes.Close() // a link of this process's own
	r.slots[slot] = nil
}

// End removes the probes, writes the last records, and says what is missing. A second call does nothing.
func (r *Recorder) End() {
	r.mu.Lock()
	ended := r.ended
	r.ended = true
	r.mu.Unlock()
	if ended {
		<-r.done
		return
	}
	close(r.stop)
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, p := range r.slots {
		if p != nil {
			r.remove(i)
		}
	}
	r.read()
	r.count()
	_ = r.ring.Close()
	r.program.Close()
	if r.unread > 0 {
		r.Note(fmt.Sprintf("line not seen: %s of %s of PyTorch's allocator have no Python frames", figures.Group(r.unread),
			figures.Count(r.known, "block", "blocks")))
	}
}

// run is the goroutine that reads events.
func (r *Recorder) run() {
	defer close(r.done)
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-ticks.C:
		}
		r.mu.Lock()
		r.read()
		if host.Monotonic()-r.looked > uint64(looks) {
			r.count()
			r.forget()
		}
		r.mu.Unlock()
	}
}

// count logs the events that were lost since the last time.
func (r *Recorder) count() {
	var lost uint64
	now := host.Monotonic()
	err := r.program.Maps[bpf.PythonMapTorchLost].Lookup(uint32(0), &lost)
	if err == nil && lost > r.lost {
		r.Log.Add(&tracelog.Lost{Cause: tracelog.LostTorchMemory, Count: lost - r.lost, From: r.looked, To: now})
		r.lost = lost
	}
	r.looked = now
}

// forget removes the probes from processes that have ended.
func (r *Recorder) forget() {
	for i, p := range r.slots {
		if p == nil {
			continue
		}
		if start, ok := procfs.Started(int(p.pid)); !ok || start != p.start {
			r.remove(i)
		}
	}
}

// read writes records of the events that have come.
func (r *Recorder) read() {
	if r.ring.AvailableBytes() == 0 {
		return
	}
	for r.ring.ReadInto(&r.record) == nil { // it ends with the deadline
		r.take(r.record.RawSample)
	}
}

// take writes the record of an event.
func (r *Recorder) take(b []byte) {
	le := binary.LittleEndian
	if len(b) < bpf.TorchHead+bpf.PythonHead || r.paused.Load() {
		return
	}
	m := tracelog.TorchMemory{Time: le.Uint64(b), Address: le.Uint64(b[8:]), Bytes: int64(le.Uint64(b[16:])),
		Allocated: le.Uint64(b[24:]), Reserved: le.Uint64(b[32:]), PID: le.Uint32(b[40:]), TID: le.Uint32(b[44:]),
		Device: le.Uint32(b[48:])}
	if le.Uint32(b[52:]) != 0 {
		m.Flags |= tracelog.TorchOutOfMemory
	}
	sample := b[bpf.TorchHead:]
	if slot := le.Uint32(sample[8:]); slot < processesMost && r.slots[slot] != nil && m.Bytes > 0 {
		m.Python = r.python(slot, sample)
	}
	m.AddTo(r.Log)
}

// python returns the ID of the Python stack of an event, 0 if it has none.
func (r *Recorder) python(slot uint32, b []byte) (id uint32) {
	p := r.slots[slot]
	if p.walker == nil {
		return 0
	}
	r.known++
	le := binary.LittleEndian
	count, cut, failed := int(le.Uint16(b[12:])), b[14] != 0, b[15] != 0
	if b = b[bpf.PythonHead:]; failed || len(b) < count*bpf.PythonFrameSize {
		r.unread++
		return 0
	}
	b = b[:count*bpf.PythonFrameSize]
	key := maphash.Bytes(r.seed, b)
	if id, ok := p.stacks[key]; ok {
		return id
	}
	r.frames = r.frames[:0]
	for ; len(b) > 0; b = b[bpf.PythonFrameSize:] {
		code := le.Uint64(b)
		f, err := p.walker.Frame(code, le.Uint64(b[8:]), le.Uint64(b[16:]))
		if err != nil { // the eBPF program is not to give it the same identity again
			key := uint64(slot)<<48 ^ code
			_ = r.program.Maps[bpf.PythonMapPythonCodes].Delete(key) // it may not have it
			r.unread++
			return 0
		}
		r.frames = append(r.frames, f)
	}
	id, err := threads.StackID(r.Stack, r.frames, cut)
	if err != nil {
		r.unread++
		return 0
	}
	if len(p.stacks) >= stacksMost {
		clear(p.stacks)
	}
	p.stacks[key] = id
	return id
}
