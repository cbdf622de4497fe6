package logtest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A workload makes launches like those of a program with four threads, eight streams and 64
// kernels. A launch is the uprobe pair of the driver call, an API record, and the kernel, with
// scattered times. The API record is the runtime's, around the pair, or, where pairs name their
// caller, the driver's, inside the pair. Each hundredth launch is in an NVTX range of its own,
// with an allocation before and a wait after.
type workload struct {
	rnd     *rand.Rand
	w       *tracelog.Writer
	names   []string
	now     [4]uint64 // of each thread
	step    [4]int
	streams [8]uint64 // when each is free
	next    uint32    // correlation ID
	called  bool      // calls name their caller
	records uint64
}

func newWorkload(w *tracelog.Writer, called bool) *workload {
	l := &workload{rnd: rand.New(rand.NewPCG(1, 2)), w: w, called: called}
	for i := range 64 {
		l.names = append(l.names,
			fmt.Sprintf("_ZN2at6native29vectorized_elementwise_kernelILi%dENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
				i))
	}
	const start = 1_000_000_000_000
	for i := range l.now {
		l.now[i] = start
	}
	w.Add(&tracelog.Clock{Monotonic: start, Realtime: 1_700_000_000_000_000_000, Boottime: start})
	w.Add(&tracelog.Function{ID: 1, Name: "cuLaunchKernel", Library: "driver",
		Args: "function:handle gridX:u32 gridY:u32 gridZ:u32 blockX:u32 blockY:u32 blockZ:u32 shared:u32 stream:handle"})
	w.Add(&tracelog.Function{ID: 2, Name: "cudaStreamSynchronize", Library: "runtime", Args: "stream:handle"})
	w.Add(&tracelog.Process{PID: 10, Start: start, Exe: "/bin/app", Args: "app"})
	w.Add(&tracelog.Device{PID: 10, Name: "NVIDIA H200", UUID: "00112233445566778899aabbccddeeff"})
	w.Add(&tracelog.CUPTI{PID: 10, Status: "on"})
	if called {
		w.Add(&tracelog.Caller{ID: 1, Function: "cudaLaunchKernel", Module: "/usr/lib/libtorch_cuda.so",
			BuildID: "0123456789abcdef0123456789abcdef01234567", Address: 0x1234545, Symbol: "_ZN2at6native3addEPKfi",
			SymbolOffset: 69})
	}
	return l
}

// about returns a duration near d, now and then a much longer one.
func (l *workload) about(d float64) uint64 {
	d *= 1 + 0.03*l.rnd.NormFloat64()
	if l.rnd.IntN(200) == 0 {
		d *= 5
	}
	return uint64(max(d, 1))
}

func (l *workload) launch() {
	tid := 0
	for i := range l.now {
		if l.now[i] < l.now[tid] {
			tid = i
		}
	}
	l.step[tid]++
	l.next++
	stream, which := tid*2+l.step[tid]%2, l.step[tid]%len(l.names)
	start := l.now[tid] + l.about(500)
	enter := start + l.about(1200)
	leave := enter + l.about(1900)
	l.now[tid] = leave + l.about(1000)
	id, caller := uint32(10+tid), uint32(0)
	if l.called {
		caller = 1
		begin := enter + l.about(300)
		l.w.Add(&tracelog.API{PID: 10, TID: id, Domain: tracelog.DomainDriver, CBID: 307, Name: "cuLaunchKernel",
			Start: begin, Dur: max(leave-min(leave, begin+l.about(300)), 1), Correlation: l.next})
	} else {
		l.w.Add(&tracelog.API{PID: 10, TID: id, Domain: tracelog.DomainRuntime, CBID: 211, Name: "cudaLaunchKernel",
			Start: start, Dur: l.now[tid] - start, Correlation: l.next})
	}
	l.w.Add(&tracelog.Call{PID: 10, TID: id, Func: 1, Enter: enter, Dur: leave - enter, Caller: caller, NArgs: 9,
		Args: [tracelog.MaxArgs]uint64{0x7fe662b00000 + uint64(which)*0x150, uint64(which%4) + 1, 1, 1, 32, 1, 1, 0,
			handle(stream)}})
	at := max(l.streams[stream], leave) + l.about(1000)
	dur := l.about(2000)
	l.streams[stream] = at + dur
	l.w.Add(&tracelog.Kernel{
		GPU:  tracelog.GPU{PID: 10, Context: 1, Stream: uint32(7 + stream), Correlation: l.next, Start: at, Dur: dur},
		Name: l.names[which], Grid: [3]uint32{uint32(which%4) + 1, 1, 1}, Block: [3]uint32{32, 1, 1},
		Registers: uint32(16 + which%40),
	})
	l.records += 3
	if l.next%100 == 0 {
		l.more(id, stream, start)
	}
}

// handle returns the handle of a stream.
func handle(stream int) uint64 { return 0x7fe66bb24000 + uint64(stream)*0x260 }

func (l *workload) more(tid uint32, stream int, start uint64) {
	at := l.now[tid-10]
	l.w.Add(&tracelog.Marker{PID: 10, TID: tid, Flags: tracelog.MarkerStart, ID: l.next, Time: start, Name: "step"})
	l.w.Add(&tracelog.Marker{PID: 10, TID: tid, Flags: tracelog.MarkerEnd, ID: l.next, Time: at + 3000})
	l.w.Add(&tracelog.Memory{
		PID: 10, TID: tid, Operation: 1 + l.next/100%2, MemoryKind: 3, Time: start, Address: uint64(l.next / 200),
		Bytes: 4096,
	})
	l.w.Add(&tracelog.Call{
		PID: 10, TID: tid, Func: 2, Enter: at + 500, Dur: 2000, NArgs: 1, Args: [tracelog.MaxArgs]uint64{handle(stream)},
	})
	l.now[tid-10] = at + 3000
	l.records += 4
}

// flushed is the time between two flushes, ns on the launches' clock. As many launches lie
// between two flushes as in half a second of a program that launches 170,000 a second.
const flushed = 100e6

// WriteLaunches writes the log of n launches, flushed as a recorder does. Each is recorded
// at the runtime and at the driver.
func WriteLaunches(tb testing.TB, out io.Writer, n int) (records uint64) {
	tb.Helper()
	return writeLaunches(tb, out, n, false)
}

// WriteCalledLaunches writes the log of n launches, flushed as a recorder does. Each is
// recorded at the driver, with its caller.
func WriteCalledLaunches(tb testing.TB, out io.Writer, n int) (records uint64) {
	tb.Helper()
	return writeLaunches(tb, out, n, true)
}

func writeLaunches(tb testing.TB, out io.Writer, n int, called bool) (records uint64) {
	tb.Helper()
	w := must.Get(tracelog.NewWriter(out, tracelog.Options{}))(tb)
	l := newWorkload(w, called)
	last := l.now[0]
	for range n {
		l.launch()
		if l.now[0]-last > flushed {
			last = l.now[0]
			must.Do(tb, w.Flush())
		}
	}
	must.Do(tb, w.Close(tracelog.End{Time: l.now[0] + 1e6, Complete: 1}))
	return l.records
}

// WriteCrowd writes the log of launches on a number of threads and a number of streams. Each thread and each stream has
// one launch, in turn, as in a program that makes one for each request.
func WriteCrowd(tb testing.TB, out io.Writer, threads, streams int) {
	tb.Helper()
	w := must.Get(tracelog.NewWriter(out, tracelog.Options{}))(tb)
	l := newWorkload(w, false)
	const each, begun = 20e3, 1000
	at := l.now[0]
	for i := range max(threads, streams) {
		at += each
		tid, stream, id := uint32(10+i%threads), uint32(7+i%streams), uint32(i+1)
		w.Add(&tracelog.API{
			PID: 10, TID: tid, Domain: tracelog.DomainRuntime, CBID: 211, Name: "cudaLaunchKernel", Start: at, Dur: 5000,
			Correlation: id,
		})
		w.Add(&tracelog.Call{PID: 10, TID: tid, Func: 1, Enter: at + begun, Dur: 2000, NArgs: 1})
		w.Add(&tracelog.Kernel{
			GPU:  tracelog.GPU{PID: 10, Context: 1, Stream: stream, Correlation: id, Start: at + each, Dur: 3000},
			Name: l.names[0],
		})
		if at-l.now[0] > flushed {
			l.now[0] = at
			must.Do(tb, w.Flush())
		}
	}
	must.Do(tb, w.Close(tracelog.End{Time: at + 1e6, Complete: 1}))
}
