package perfetto

import (
	"testing"

	"github.com/cudatrace/cudatrace/perfetto/tptest"
)

// templated writes with templates and shapes, which tracks and queues share, and with
// arguments that each event has of its own, also where names and kernels come up for the
// first time.
func templated(w *Writer) {
	w.Process(Process{PID: 5, Name: "app"})
	a, b := w.Thread(Thread{PID: 5, TID: 5}), w.Thread(Thread{PID: 5, TID: 6})
	q, r := w.Queue(QueueInfo{PID: 5, Context: 1, Stream: 7, Name: "Stream 07"}), w.Queue(QueueInfo{PID: 5, Context: 1, Stream: 8, Name: "Stream 08"})
	var launch, copy, step TrackEventTemplate
	var kernel, plain RenderStageTemplate
	launch.Encode(w, "cudaLaunchKernel", "runtime", []Arg{Pointer("func", 0xabc), String("mode", "fast")})
	copy.Encode(w, "cudaMemcpy", "runtime", nil)
	step.Encode(w, "cudaMemcpy", "runtime", []Arg{Uint("step", 3), String("note", "first")})
	k := w.Kernel(Kernel{Name: "_Z1kv", Demangled: "k()", Args: []Arg{Uint("registers_per_thread", 32)}})
	kernel.Encode(w, &RenderStageEvent{Name: "k", Kernel: k, Grid: [3]uint32{2, 1, 1}, Block: [3]uint32{32, 1, 1}, Args: []Arg{Uint("thread_count", 64)}})
	plain.Encode(w, &RenderStageEvent{Stage: StageMemcpy, Name: "Memcpy HtoD"})
	for i, t := range []*Track{a, b} {
		at, id := uint64(1000+i), uint64(2*i+1)
		t.Begin(at, &launch, Links{Submitted: []uint64{id}}, Uint("correlation", 100+id))
		t.Begin(at+10, &copy, Links{})
		t.Instant(at+20, &step)
		t.End(at + 30)
		t.End(at + 40)
		t.Begin(at+40, &copy, Links{Submitted: []uint64{id + 1}}, Uint("size", 1<<40), Float("rate", 0.5)) // begins as the one before ends
		t.EndWith(at+40, []uint64{id})
		queue := []*Queue{q, r}[i]
		queue.Event(&kernel, id, at+50, 5, Uint("correlation", 100+id))
		queue.Event(&plain, id+1, at+60, 5, Uint("bytes", 1<<40), Float("rate", 0.25), String("direction", "HtoD"))
	}
}

func TestTemplatesInProcessor(t *testing.T) {
	t.Parallel()
	tr := tptest.Open(t, save(t, Options{Start: 1000}, templated))
	tptest.NoErrors(t, tr)
	rows(t, tr, `select tid, s.name, s.ts, s.dur, s.depth, extract_arg(s.arg_set_id, 'debug.correlation'), extract_arg(s.arg_set_id, 'debug.mode'), extract_arg(s.arg_set_id, 'debug.note')
		from slice s join thread_track k on s.track_id = k.id join thread using (utid) where tid = 6 order by s.ts, s.depth`,
		row{int64(6), "cudaLaunchKernel", int64(1001), int64(40), int64(0), int64(103), "fast", nil},
		row{int64(6), "cudaMemcpy", int64(1011), int64(20), int64(1), nil, nil, nil},
		row{int64(6), "cudaMemcpy", int64(1021), int64(0), int64(2), nil, nil, "first"},
		row{int64(6), "cudaMemcpy", int64(1041), int64(0), int64(0), nil, nil, nil})
	rows(t, tr, `select name, ts, extract_arg(arg_set_id, 'correlation'), extract_arg(arg_set_id, 'stream'), extract_arg(arg_set_id, 'kernel_name'), extract_arg(arg_set_id, 'bytes'), extract_arg(arg_set_id, 'rate'),
		extract_arg(arg_set_id, 'launch.grid_size.x') from gpu_slice order by ts, name`,
		row{"k", int64(1050), int64(101), int64(7), "_Z1kv", nil, nil, int64(2)},
		row{"k", int64(1051), int64(103), int64(8), "_Z1kv", nil, nil, int64(2)},
		row{"Memcpy HtoD", int64(1060), nil, int64(7), nil, int64(1 << 40), 0.25, nil},
		row{"Memcpy HtoD", int64(1061), nil, int64(8), nil, int64(1 << 40), 0.25, nil})
	rows(t, tr, `select count(*) from flow`, row{int64(6)})
}
