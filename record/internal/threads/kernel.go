package threads

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"runtime"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/internal/pyframes"
)

// A kernelReader reads Python frames in the kernel, at the samples themselves: an eBPF program runs when the perf event
// of a thread fires. It needs CAP_BPF and CAP_PERFMON, and Linux 5.15.
type kernelReader struct {
	objects struct {
		ReadPython    *ebpf.Program `ebpf:"read_python"`
		PythonThreads *ebpf.Map     `ebpf:"python_threads"`
		PythonSamples *ebpf.Map     `ebpf:"python_samples"`
	}
	ring   *ringbuf.Reader
	record ringbuf.Record
	slots  []*thread // by the number in the program's map
	frames []pyframes.Frame
}

// newKernelReader loads the program for a number of threads.
func newKernelReader(threads int) (*kernelReader, error) {
	spec, err := bpf.LoadPython()
	if err != nil {
		return nil, err
	}
	spec.Maps[bpf.PythonMapPythonThreads].MaxEntries = uint32(threads)
	spec.Maps[bpf.PythonMapPythonCodes].MaxEntries = 1 // samples have no use for it
	// Otherwise the library would look into this process's memory, which a process with file capabilities must not read.
	spec.Programs[bpf.PythonProgReadPython].KernelVersion = host.KernelVersion()
	k := &kernelReader{slots: make([]*thread, threads)}
	if err := spec.LoadAndAssign(&k.objects, nil); err != nil {
		return nil, err
	}
	if k.ring, err = ringbuf.NewReader(k.objects.PythonSamples); err != nil {
		k.closeObjects()
		return nil, err
	}
	k.ring.SetDeadline(time.Unix(1, 0)) // it never waits
	return k, nil
}

func (k *kernelReader) close() {
	_ = k.ring.Close()
	k.closeObjects()
}

func (k *kernelReader) closeObjects() {
	for _, o := range []io.Closer{k.objects.ReadPython, k.objects.PythonThreads, k.objects.PythonSamples} {
		_ = o.Close() // files of this process's own
	}
}

// attach has the program read the frames of a thread, or forget its interpreter. A thread keeps its slot until it is
// released.
func (k *kernelReader) attach(t *thread) error {
	if t.slot < 0 {
		for i, of := range k.slots {
			if of == nil {
				t.slot, k.slots[i] = i, t
				break
			}
		}
		if t.slot < 0 {
			return errors.New("too many threads")
		}
	}
	var config bpf.PythonPythonThread
	if w := t.process.Walker; w != nil {
		config = ReaderConfig(w.Interpreter(), t.local)
	}
	if err := k.objects.PythonThreads.Update(uint32(t.slot), &config, ebpf.UpdateAny); err != nil {
		return err
	}
	if t.link >= 0 || config.Runtime == 0 {
		return nil
	}
	attr := struct { // the part of union bpf_attr that links a program to a perf event
		program, target, attachType, flags uint32
		cookie                             uint64
	}{program: uint32(k.objects.ReadPython.FD()), target: uint32(t.event.fd), attachType: bpfPerfEvent,
		cookie: uint64(t.slot)}
	fd, _, code := unix.Syscall(unix.SYS_BPF, unix.BPF_LINK_CREATE, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(k)
	if code != 0 {
		return os.NewSyscallError("bpf", code)
	}
	t.link = int(fd)
	return nil
}

const bpfPerfEvent = 41 // BPF_PERF_EVENT of linux/bpf.h

// ReaderConfig returns what the eBPF programs need to read the frames of a thread, or of the threads of a process.
func ReaderConfig(in *pyframes.Interpreter, tid uint32) bpf.PythonPythonThread {
	l := in.Layout
	place := func(at int) uint32 { return uint32(int32(at)) } // pyframes.None is NONE
	return bpf.PythonPythonThread{
		Runtime: in.Runtime, CodeType: in.CodeType, Tid: tid,
		Finalizing: place(l.Runtime.Finalizing), Interpreters: place(l.Runtime.Interpreters), Threads: place(l.Threads),
		Next: place(l.Thread.Next), Id: place(l.Thread.ID), NativeId: place(l.Thread.NativeID), Frame: place(l.Thread.Frame),
		Cframe: place(l.Thread.CFrame),
		Code:   place(l.Frame.Code), Previous: place(l.Frame.Previous), Instruction: place(l.Frame.Instruction),
		Unit:  uint32(l.Frame.InstructionUnit),
		Owner: place(l.Frame.Owner), FrameSize: uint32(l.Frame.Size()),
		First: place(l.Code.First), File: place(l.Code.File), Name: place(l.Code.Name), LineTable: place(l.Code.LineTable),
		FirstLine: place(l.Code.FirstLine), Version: place(l.Code.Version), CodeSize: uint32(l.Code.Size()),
	}
}

// release gives back what a thread has of the reader. Its event is still open.
func (k *kernelReader) release(t *thread) {
	t.unlink()
	if t.slot >= 0 {
		k.slots[t.slot], t.slot = nil, -1
	}
}

// unlink takes the program from the thread's event.
func (t *thread) unlink() {
	if t.link >= 0 {
		_ = unix.Close(t.link) // the event closes, too
		t.link = -1
	}
}

// A reading is the frames of a thread at a sample.
type reading struct {
	time   uint64
	python uint32 // stack; 0 without frames
	ok     bool
}

// readKernel takes the frames that the program has read, and resolves their names while the code is there.
func (r *Recorder) readKernel() {
	k := r.kernel
	if k == nil || k.ring.AvailableBytes() == 0 {
		return
	}
	for k.ring.ReadInto(&k.record) == nil { // it ends with the deadline
		b := k.record.RawSample
		if len(b) < bpf.PythonHead {
			continue
		}
		slot, count := binary.LittleEndian.Uint32(b[8:]), int(binary.LittleEndian.Uint16(b[12:]))
		cut, failed := b[14] != 0, b[15] != 0
		if slot >= uint32(len(k.slots)) || k.slots[slot] == nil || len(b) < bpf.PythonHead+count*bpf.PythonFrameSize {
			continue
		}
		t := k.slots[slot]
		read := reading{time: binary.LittleEndian.Uint64(b)}
		if w := t.process.Walker; w != nil && !failed {
			var err error
			k.frames = k.frames[:0]
			for b = b[bpf.PythonHead:]; count > 0 && err == nil; count-- {
				var f pyframes.Frame
				f, err = w.Frame(binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]),
					binary.LittleEndian.Uint64(b[16:]))
				k.frames = append(k.frames, f)
				b = b[bpf.PythonFrameSize:]
			}
			if err == nil {
				read.python, err = r.stackID(k.frames, cut)
			}
			read.ok = err == nil
		}
		t.readings = append(t.readings, read)
	}
}

// takeReading returns the reading of a sample. The kernel makes both within one interrupt.
func (t *thread) takeReading(at uint64) (id uint32, ok bool) {
	for len(t.readings) > 0 {
		read := t.readings[0]
		if read.time > at+uint64(maxAge) {
			break
		}
		t.readings = t.readings[1:]
		if read.time+uint64(maxAge) >= at {
			return read.python, read.ok
		}
	}
	return 0, false
}

// useKernel loads the program when the first Python interpreter is known.
func (r *Recorder) useKernel() {
	if r.kernelAsked || !r.mayUseKernel {
		return
	}
	r.kernelAsked = true
	k, err := newKernelReader(r.most)
	if err != nil {
		r.withoutKernel(err)
		return
	}
	r.kernel = k
}

func (r *Recorder) withoutKernel(err error) {
	why := "it refuses to; CAP_BPF and CAP_PERFMON give the right"
	if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) {
		why = errno.Words(err) + "; it does so from Linux 5.15 on"
	}
	r.Note("Python lines of samples are read from outside of the program, since the kernel does not read them: " + why)
}

// attach has the kernel read the Python frames of a thread, if it can. Otherwise they are read from outside.
func (r *Recorder) attach(t *thread) {
	if t.process.Walker != nil {
		r.useKernel()
	}
	if r.kernel == nil || t.resting != 0 {
		return
	}
	if err := r.kernel.attach(t); err != nil {
		r.kernel.release(t)
		if !r.attachFailed {
			r.attachFailed = true
			r.withoutKernel(err)
		}
	}
}
