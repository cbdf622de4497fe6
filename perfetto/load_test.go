package perfetto

import (
	"fmt"
	"io"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// A load makes events as a program does that launches kernels from several
// threads: a runtime call, a driver call inside it, the kernel.
type load struct {
	threads []*Track
	queues  []*Queue
	driver  []TrackEventTemplate // by queue
	runtime TrackEventTemplate
	kernels []RenderStageTemplate
	n       uint64 // launches made
	work    [1]uint64
}

func newLoad(w *Writer, threads, queues, kernels int) *load {
	l := &load{driver: make([]TrackEventTemplate, queues), kernels: make([]RenderStageTemplate, kernels)}
	l.runtime.Encode(w, "cudaLaunchKernel", "cuda.runtime", nil)
	for i := range threads {
		l.threads = append(l.threads, w.Thread(Thread{PID: 1000, TID: uint32(1000 + i), Name: "launcher", Rank: i}))
	}
	for i := range queues {
		l.queues = append(l.queues, w.Queue(QueueInfo{PID: 1000, Context: 1, Stream: uint32(i), Name: fmt.Sprintf("Stream %02d", i)}))
	}
	for i := range queues {
		l.driver[i].Encode(w, "cuLaunchKernel", "cuda.driver", []Arg{Pointer("f", 0x5555_1234_5678), Uint("sharedMemBytes", 0),
			Pointer("stream", 0x5555_0000_0000+uint64(i)*64), String("ret", "CUDA_SUCCESS")})
	}
	for i := range kernels {
		k := w.Kernel(Kernel{Name: fmt.Sprintf("_Z7kernel%dv", i), Demangled: fmt.Sprintf("kernel%d()", i),
			Args: []Arg{Uint("registers_per_thread", 32), Uint("shared_mem_static", 0)}})
		l.kernels[i].Encode(w, &RenderStageEvent{Name: fmt.Sprintf("kernel%d", i), Kernel: k, Grid: [3]uint32{128, 1, 1}, Block: [3]uint32{256, 1, 1},
			Args: []Arg{Uint("shared_mem_dynamic", 0)}})
	}
	return l
}

// launch makes one launch: three slices in five packets, and an arrow.
func (l *load) launch() {
	i := l.n
	l.n++
	ts := uptime + i*3000
	t, q := l.threads[i%uint64(len(l.threads))], i%uint64(len(l.queues))
	l.work[0] = i + 1
	t.Begin(ts, &l.runtime, Links{Submitted: l.work[:]}, Uint("correlation", i))
	t.Begin(ts+100, &l.driver[q], Links{})
	t.End(ts + 1900)
	t.End(ts + 2000)
	l.queues[q].Event(&l.kernels[i%uint64(len(l.kernels))], i+1, ts+2500+i%7*10, 1500, Uint("correlation", i))
}

func (l *load) run(launches int) {
	for range launches {
		l.launch()
	}
}

// A countingWriter counts the bytes that are written to it.
type countingWriter struct{ n int64 }

func (c *countingWriter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

var _ io.Writer = (*countingWriter)(nil)

// Events cost no allocation once their names are interned.
func TestNoAllocations(t *testing.T) {
	w := NewWriter(io.Discard, Options{Start: uptime, Monotonic: uptime})
	l := newLoad(w, 4, 8, 64)
	l.run(1000)
	if n := testing.AllocsPerRun(1000, l.launch); n != 0 {
		t.Errorf("a launch allocates %v times", n)
	}
	must.Do(t, w.Close())
}
