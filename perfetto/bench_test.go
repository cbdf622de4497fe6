package perfetto

import (
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// launchTemplates are those of a call with nine arguments and of a kernel.
func launchTemplates(w *Writer) (call TrackEventTemplate, work RenderStageTemplate) {
	args := []Arg{Pointer("function", 0x7fe662b00000), Uint("gridX", 3), Uint("gridY", 1), Uint("gridZ", 1), Uint("blockX", 32),
		Uint("blockY", 1), Uint("blockZ", 1), Uint("shared", 0), Pointer("stream", 0x7fe66bb24000), Uint("stream_id", 14)}
	call.Encode(w, "cuLaunchKernel", "driver", args)
	kernel := w.Kernel(Kernel{Name: "k", Demangled: "k()", Args: []Arg{Uint("registers_per_thread", 16)}})
	work.Encode(w, &RenderStageEvent{Name: "k", Kernel: kernel, Grid: [3]uint32{3, 1, 1}, Block: [3]uint32{32, 1, 1},
		Args: []Arg{Uint("shared_mem_dynamic", 0), Uint("thread_count", 96), Uint("device", 0), Uint("context", 1), Uint("stream", 14)}})
	return call, work
}

// BenchmarkWriter writes launches: a call, its end, and a piece of work.
func BenchmarkWriter(b *testing.B) {
	out := &countingWriter{}
	w := NewWriter(out, Options{})
	name := w.ArgName("correlation")
	call, work := launchTemplates(w)
	track, queue := w.Thread(Thread{PID: 1, TID: 1}), w.Queue(QueueInfo{PID: 1, Context: 1, Stream: 14, Name: "Stream 14"})
	ts, id := uint64(0), uint64(0)
	b.Run("begin", func(b *testing.B) {
		measured(b, out, func() { ts += 3000; track.Begin(ts, &call, 0, UintArgs{name.Value(ts / 64)}); track.depth-- })
	})
	b.Run("begin-work", func(b *testing.B) {
		measured(b, out, func() {
			ts += 3000
			id++
			track.Begin(ts, &call, id, UintArgs{name.Value(ts / 64)})
			track.depth--
		})
	})
	b.Run("end", func(b *testing.B) {
		measured(b, out, func() { ts += 3000; track.End(ts) })
	})
	b.Run("work", func(b *testing.B) {
		measured(b, out, func() { ts += 3000; id++; queue.Event(&work, id, ts, 2000, UintArgs{name.Value(ts / 64)}) })
	})
	must.Do(b, w.Close())
}

func measured(b *testing.B, out *countingWriter, event func()) {
	b.ReportAllocs()
	before := out.n
	for b.Loop() {
		event()
	}
	b.SetBytes((out.n - before) / int64(b.N))
}
