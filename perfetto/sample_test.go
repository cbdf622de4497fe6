package perfetto

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// Three weeks of uptime: times need 51 bits.
const uptime = 1_814_400_000_000_000

func sampleOptions() Options {
	return Options{
		Monotonic: uptime + 5_000_000, // read after the start
		Boottime:  uptime + 5_000_000 + 86_400_000_000_000,
		Realtime:  1_760_000_000_000_000_000,
		Start:     uptime,
	}
}

// sample writes a process with two threads, two streams on one GPU and a second
// process with a stream of the same number on another.
func sample(w *Writer) {
	w.Process(Process{PID: 4000, Name: "train", Args: []string{"python3", "train.py", "--lr=1e-3"}, Start: uptime, Rank: 1})
	w.Process(Process{PID: 4100, Name: "worker", Args: []string{"worker"}, Start: uptime + 10, Rank: 2})
	w.GPUs([]GPU{
		{ID: 0, Name: "NVIDIA H200", Vendor: "NVIDIA", Model: "H200", Architecture: "sm_90",
			UUID: []byte("0123456789abcdef"), Extra: []string{"memory_bytes", "150754820096", "multiprocessors", "132"}},
		{ID: 1, Name: "NVIDIA L4", Vendor: "NVIDIA", Architecture: "sm_89"},
	})
	main := w.Thread(Thread{PID: 4000, TID: 4000, Name: "python3", Rank: 2})
	loader := w.Thread(Thread{PID: 4000, TID: 4001, Name: "loader", Rank: 1})
	other := w.Thread(Thread{PID: 4100, TID: 4100, Name: "worker", Rank: 1})
	own := w.Track(TrackInfo{Name: "cudatrace"})
	notes := w.Track(TrackInfo{Name: "notes", PID: 4000, Rank: 3})
	q7 := w.Queue(QueueInfo{PID: 4000, GPU: 0, Context: 1, Stream: 7, Name: "Stream 07", Description: "context 1, default stream"})
	q13 := w.Queue(QueueInfo{PID: 4000, GPU: 0, Context: 1, Stream: 13, Name: "Stream 13"})
	r7 := w.Queue(QueueInfo{PID: 4100, GPU: 1, Context: 1, Stream: 7, Name: "worker Stream 07"})
	axpy := w.Kernel(Kernel{Name: "_Z4axpyfPfS_", Demangled: "axpy(float, float*, float*)",
		Args: []Arg{Uint("registers_per_thread", 24), Uint("shared_mem_static", 1024), String("function", "axpy")}})

	instant(own, uptime+1, "recording starts", "cudatrace", nil)
	begin(main, uptime+1000, "cudaMemcpyAsync", "cuda.runtime", []uint64{1}, []Arg{Pointer("dst", 0x7f00_0000_0200), Uint("count", 4096), String("kind", "HostToDevice")})
	main.End(uptime + 3001)
	begin(loader, uptime+1500, "cudaLaunchKernel", "cuda.runtime", []uint64{2}, nil)
	begin(loader, uptime+1501, "cuLaunchKernel", "cuda.driver", nil, []Arg{Int("ret", -1), Float("share", 0.25)})
	loader.End(uptime + 1600)
	loader.End(uptime + 1700)
	begin(main, uptime+4000, "cudaGraphLaunch", "cuda.runtime", []uint64{3, 4}, nil)
	main.End(uptime + 4100)
	begin(main, uptime+4200, "cudaDeviceSynchronize", "cuda.runtime", nil, nil)
	main.EndWith(uptime+9000, []uint64{1, 2, 3, 4})
	begin(other, uptime+2000, "cudaMemsetAsync", "cuda.runtime", []uint64{5}, nil)
	other.End(uptime + 2500)
	begin(notes, uptime+100, "step 1", "", nil, nil)
	notes.End(uptime + 9500)

	work(q7, 1, uptime+3500, 500, RenderStageEvent{Stage: StageMemcpy, Name: "Memcpy HtoD", Args: []Arg{Uint("bytes", 4096), String("direction", "HtoD")}})
	work(q13, 2, uptime+4500, 1001, RenderStageEvent{Stage: StageKernel, Name: "axpy", Kernel: axpy, Grid: [3]uint32{132, 2, 1}, Block: [3]uint32{256, 1, 1}, Args: []Arg{Uint("shared_mem_dynamic", 512), Uint("correlation", 77)}})
	work(q7, 3, uptime+5000, 3000, RenderStageEvent{Stage: StageKernel, Name: "axpy", Kernel: axpy, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}})
	work(q7, 4, uptime+6000, 1000, RenderStageEvent{Stage: StageKernel, Name: "axpy", Kernel: axpy, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}})
	work(r7, 5, uptime+2600, 64, RenderStageEvent{Stage: StageMemset, Name: "Memset", Args: []Arg{Uint("bytes", 1<<40), Uint("value", 255)}})
}

// encode returns the trace that write makes.
func encode(t testing.TB, o Options, write func(w *Writer)) []byte {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out, o)
	write(w)
	must.Do(t, w.Close())
	return out.Bytes()
}

// save writes the trace that write makes to a file of the test.
func save(t testing.TB, o Options, write func(w *Writer)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.pftrace")
	must.Do(t, os.WriteFile(path, encode(t, o, write), 0o644))
	return path
}
