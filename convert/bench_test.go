package convert

import (
	"bytes"
	"io"
	"runtime"
	"testing"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// benchLaunches is the number of launches in a benchmark's log.
const benchLaunches = 100_000

// launchLog is the log of a program that launches kernels from four threads on
// eight streams: per launch a runtime API record, the uprobe pair of the driver
// call inside it, and the kernel; each hundredth in an NVTX range of its own, with
// an allocation before and a wait after.
func launchLog(b *testing.B) []byte {
	b.Helper()
	var log bytes.Buffer
	w, err := tracelog.NewWriter(&log, tracelog.Options{})
	if err != nil {
		b.Fatal(err)
	}
	w.Function(&tracelog.Function{ID: 1, Name: "cuLaunchKernel", Library: "driver",
		Args: "function:handle gridX:u32 gridY:u32 gridZ:u32 blockX:u32 blockY:u32 blockZ:u32 shared:u32 stream:handle"})
	w.Function(&tracelog.Function{ID: 2, Name: "cudaStreamSynchronize", Library: "runtime", Args: "stream:handle"})
	w.Process(&tracelog.Process{PID: 10, Start: 1, Exe: "/bin/app", Args: "app"})
	w.Device(&tracelog.Device{PID: 10, Name: "NVIDIA H200", UUID: "00112233445566778899aabbccddeeff"})
	for i := range uint64(benchLaunches) {
		launch(w, i)
		if i%100 == 0 {
			step(w, i)
		}
	}
	if err := w.Close(tracelog.End{Time: 1 << 40, Complete: 1}); err != nil {
		b.Fatal(err)
	}
	return log.Bytes()
}

func launch(w *tracelog.Writer, i uint64) {
	at := 1_000_000 + i*3000
	tid, stream, corr := uint32(10+i%4), uint32(7+i%8), uint32(i+1)
	w.API(&tracelog.API{PID: 10, TID: tid, Domain: tracelog.DomainRuntime, CBID: 211, Name: "cudaLaunchKernel",
		Start: at, Dur: 2000 + i%7, Correlation: corr})
	w.Call(&tracelog.Call{PID: 10, TID: tid, Func: 1, Enter: at + 200, Dur: 1500 + i%5, NArgs: 9,
		Args: [tracelog.MaxArgs]uint64{0x5500_0000 + i%64, uint64(i%16) + 1, 1, 1, 256, 1, 1, 0, 0x7700_0000 + i%8}})
	w.Kernel(&tracelog.Kernel{
		GPU:  tracelog.GPU{PID: 10, Context: 1, Stream: stream, Correlation: corr, Start: at + 2500, Dur: 1500},
		Name: "_Z6kernel" + string(rune('a'+i%26)), Grid: [3]uint32{uint32(i%16) + 1, 1, 1}, Block: [3]uint32{256, 1, 1}, Registers: 32,
	})
}

func step(w *tracelog.Writer, i uint64) {
	at := 1_000_000 + i*3000
	tid, stream, id := uint32(10+i%4), uint32(7+i%8), uint32(i+1)
	w.Marker(&tracelog.Marker{PID: 10, TID: tid, Flags: tracelog.MarkerStart, ID: id, Time: at - 100, Name: "step"})
	w.Memory(&tracelog.Memory{PID: 10, TID: tid, Operation: 1 + uint32(i/100%2), MemoryKind: 3, Time: at - 50, Address: i / 200, Bytes: 4096})
	w.Call(&tracelog.Call{PID: 10, TID: tid, Func: 2, Enter: at + 2300, Dur: 500, NArgs: 1})
	w.Sync(&tracelog.Sync{PID: 10, Type: syncStream, Context: 1, Stream: stream, Correlation: 1 << 30, Start: at + 2400, Dur: 350})
	w.Marker(&tracelog.Marker{PID: 10, TID: tid, Flags: tracelog.MarkerEnd, ID: id, Time: at + 2900})
}

func benchReader(b *testing.B, log []byte) *tracelog.Reader {
	b.Helper()
	r, err := tracelog.NewReader(bytes.NewReader(log), int64(len(log)), "bench")
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func perLaunch(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchLaunches, "ns/launch")
}

// BenchmarkBuild reads a log and joins it. The held bytes are what the timeline
// keeps in memory for a launch.
func BenchmarkBuild(b *testing.B) {
	log := launchLog(b)
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	var t *Timeline
	for b.Loop() {
		var err error
		if t, err = Build(benchReader(b, log)); err != nil {
			b.Fatal(err)
		}
	}
	perLaunch(b)
	b.ReportMetric(float64(heldBytes(&t))/benchLaunches, "held-B/launch")
}

// heldBytes is the size of the heap that goes when t does.
func heldBytes(t **Timeline) uint64 {
	var with, without runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&with)
	runtime.KeepAlive(*t)
	*t = nil
	runtime.GC()
	runtime.ReadMemStats(&without)
	return with.HeapAlloc - min(with.HeapAlloc, without.HeapAlloc)
}

type countingWriter struct{ n int64 }

func (c *countingWriter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

var _ io.Writer = (*countingWriter)(nil)

// BenchmarkPerfetto writes a timeline as a trace.
func BenchmarkPerfetto(b *testing.B) {
	t, err := Build(benchReader(b, launchLog(b)))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var out countingWriter
	for b.Loop() {
		out.n = 0
		if err := Perfetto(t, &out); err != nil {
			b.Fatal(err)
		}
	}
	perLaunch(b)
	b.ReportMetric(float64(out.n)/benchLaunches, "B/launch")
}
