package perfetto

import (
	"fmt"
	"testing"

	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/goldentest"
)

// rows compares the result of a query with the rows wanted.
func rows(t *testing.T, tr *tptest.Trace, sql string, want ...[]any) {
	t.Helper()
	goldentest.Same(t, want, tr.Values(sql), "%s", sql)
}

type row = []any

// What a person sees of the sample: slices, arrows, names and arguments.
func TestSample(t *testing.T) {
	t.Parallel()
	tr := tptest.Open(t, save(t, sampleOptions(), sample))
	tptest.NoErrors(t, tr)
	sampleSlices(t, tr)
	sampleArrows(t, tr)
	sampleNames(t, tr)
	sampleArgs(t, tr)
}

// sampleSlices checks times down to the nanosecond.
func sampleSlices(t *testing.T, tr *tptest.Trace) {
	t.Helper()
	const u = int64(uptime)
	rows(t, tr, `select tid, s.name, category, s.ts, s.dur, depth from slice s join thread_track k on s.track_id = k.id join thread using (utid) order by s.ts`,
		row{int64(4000), "cudaMemcpyAsync", "cuda.runtime", u + 1000, int64(2001), int64(0)},
		row{int64(4001), "cudaLaunchKernel", "cuda.runtime", u + 1500, int64(200), int64(0)},
		row{int64(4001), "cuLaunchKernel", "cuda.driver", u + 1501, int64(99), int64(1)},
		row{int64(4100), "cudaMemsetAsync", "cuda.runtime", u + 2000, int64(500), int64(0)},
		row{int64(4000), "cudaGraphLaunch", "cuda.runtime", u + 4000, int64(100), int64(0)},
		row{int64(4000), "cudaDeviceSynchronize", "cuda.runtime", u + 4200, int64(4800), int64(0)})
	rows(t, tr, `select k.name, s.name, s.ts, s.dur from slice s join track k on s.track_id = k.id where k.type like '%merged_track_event' order by s.ts`,
		row{"cudatrace", "recording starts", u + 1, int64(0)},
		row{"notes", "step 1", u + 100, int64(9400)})
	rows(t, tr, `select g.name, k.name, pid, g.ts, g.dur, g.context_id, render_stage_category from gpu_slice g join gpu_track k on g.track_id = k.id join process using (upid) order by g.ts`,
		row{"Memset", "worker Stream 07", int64(4100), u + 2600, int64(64), int64(2), int64(0)},
		row{"Memcpy HtoD", "Stream 07", int64(4000), u + 3500, int64(500), int64(1), int64(0)},
		row{"axpy", "Stream 13", int64(4000), u + 4500, int64(1001), int64(1), int64(2)},
		row{"axpy", "Stream 07", int64(4000), u + 5000, int64(3000), int64(1), int64(2)},
		row{"axpy", "Stream 07", int64(4000), u + 6000, int64(1000), int64(1), int64(2)})
	rows(t, tr, `select start_ts, end_ts from trace_bounds`, row{u + 1, u + 9500})
	rows(t, tr, `select clock_name, clock_value from clock_snapshot where snapshot_id = 0 order by clock_name`,
		row{"BOOTTIME", u + 86_400_000_000_000}, row{"MONOTONIC", u}, row{"REALTIME", int64(1_760_000_000_000_000_000 - 5_000_000)})
}

// sampleArrows checks every arrow by the events at its ends.
func sampleArrows(t *testing.T, tr *tptest.Trace) {
	t.Helper()
	const u = int64(uptime)
	rows(t, tr, `select o.name, o.ts, i.name, i.ts from flow join slice o on slice_out = o.id join slice i on slice_in = i.id order by o.ts, i.ts`,
		row{"cudaMemcpyAsync", u + 1000, "Memcpy HtoD", u + 3500},
		row{"cudaLaunchKernel", u + 1500, "axpy", u + 4500},
		row{"cudaMemsetAsync", u + 2000, "Memset", u + 2600},
		row{"Memcpy HtoD", u + 3500, "cudaDeviceSynchronize", u + 4200},
		row{"cudaGraphLaunch", u + 4000, "axpy", u + 5000},
		row{"cudaGraphLaunch", u + 4000, "axpy", u + 6000},
		row{"axpy", u + 4500, "cudaDeviceSynchronize", u + 4200},
		row{"axpy", u + 5000, "cudaDeviceSynchronize", u + 4200},
		row{"axpy", u + 6000, "cudaDeviceSynchronize", u + 4200})
}

// sampleNames checks processes, threads, GPUs, contexts and queues.
func sampleNames(t *testing.T, tr *tptest.Trace) {
	t.Helper()
	rows(t, tr, `select pid, name, cmdline, start_ts from process where pid > 0 order by pid`,
		row{int64(4000), "train", "train train.py --lr=1e-3", int64(uptime)},
		row{int64(4100), "worker", "worker", int64(uptime + 10)})
	rows(t, tr, `select tid, thread.name, pid, is_main_thread from thread join process using (upid) where tid > 0 order by tid`,
		row{int64(4000), "python3", int64(4000), int64(1)},
		row{int64(4001), "loader", int64(4000), int64(0)},
		row{int64(4100), "worker", int64(4100), int64(1)})
	rows(t, tr, `select gpu, name, vendor, model, architecture, uuid, extract_arg(arg_set_id, 'multiprocessors') from gpu order by gpu`,
		row{int64(0), "NVIDIA H200", "NVIDIA", "H200", "sm_90", "30313233343536373839616263646566", "132"},
		row{int64(1), "NVIDIA L4", "NVIDIA", nil, "sm_89", nil, nil})
	rows(t, tr, `select context_id, pid, api from __intrinsic_gpu_context order by context_id`,
		row{int64(1), int64(4000), "CUDA"}, row{int64(2), int64(4100), "CUDA"})
	rows(t, tr, `select distinct name, description, extract_arg(dimension_arg_set_id, 'gpu') from gpu_track order by name`,
		row{"Stream 07", "context 1, default stream", int64(0)},
		row{"Stream 13", nil, int64(0)},
		row{"worker Stream 07", nil, int64(1)})
}

// sampleArgs checks the arguments of calls and of GPU work.
func sampleArgs(t *testing.T, tr *tptest.Trace) {
	t.Helper()
	args := func(where string, want ...[]any) {
		t.Helper()
		rows(t, tr, `select key, value_type, display_value from args where arg_set_id = (select arg_set_id from slice where `+where+`)
			and key not in ('render_target', 'render_target_name', 'render_pass', 'render_pass_name', 'render_subpasses', 'command_buffer',
				'command_buffer_name', 'submission_id', 'description', 'context_id', 'hw_queue_id', 'upid') order by id`, want...)
	}
	args(`name = 'cudaMemcpyAsync'`,
		row{"gpu_correlation.render_stage_submission_event_ids[0]", "uint", "1"},
		row{"debug.dst", "pointer", "0x7f0000000200"},
		row{"debug.count", "uint", "4096"},
		row{"debug.kind", "string", "HostToDevice"})
	args(`name = 'cuLaunchKernel'`,
		row{"debug.ret", "int", "-1"},
		row{"debug.share", "real", "0.25"})
	args(`name = 'Memcpy HtoD'`,
		row{"render_stage_category", "int", "0"},
		row{"bytes", "uint", "4096"},
		row{"direction", "string", "HtoD"},
		row{"device", "uint", "0"},
		row{"stream", "uint", "7"})
	args(fmt.Sprintf(`name = 'axpy' and ts = %d`, uptime+4500),
		row{"render_stage_category", "int", "2"},
		row{"kernel_name", "string", "_Z4axpyfPfS_"},
		row{"kernel_demangled_name", "string", "axpy(float, float*, float*)"},
		row{"registers_per_thread", "uint", "24"},
		row{"shared_mem_static", "uint", "1024"},
		row{"function", "string", "axpy"},
		row{"launch.grid_size.x", "uint", "132"},
		row{"launch.grid_size.y", "uint", "2"},
		row{"launch.grid_size.z", "uint", "1"},
		row{"launch.workgroup_size.x", "uint", "256"},
		row{"launch.workgroup_size.y", "uint", "1"},
		row{"launch.workgroup_size.z", "uint", "1"},
		row{"shared_mem_dynamic", "uint", "512"},
		row{"correlation", "uint", "77"},
		row{"device", "uint", "0"},
		row{"stream", "uint", "13"})
}

// Text that is not UTF-8, times before the start and going back: nothing is lost.
func TestOddInProcessor(t *testing.T) {
	t.Parallel()
	tr := tptest.Open(t, save(t, Options{Start: 1000}, odd))
	tptest.NoErrors(t, tr)
	rows(t, tr, `select ts, dur, length(name), depth from slice where track_id in (select id from thread_track) order by ts`,
		row{int64(800), int64(0), int64(128), int64(0)},
		row{int64(900), int64(1100), int64(0), int64(0)})
	rows(t, tr, `select ts, dur, name from gpu_slice order by ts`,
		row{int64(2500), int64(1), "x"},
		row{int64(3000), int64(0), "Kernel"})
	rows(t, tr, `select name from process where pid = 1`, row{"a\uFFFDb\uFFFDc"})
	rows(t, tr, `select name from thread where tid = 1`, row{"ß\uFFFD"})
	rows(t, tr, `select key, display_value from args where key glob 'debug.*' and arg_set_id = (select arg_set_id from slice where ts = 900) order by key`,
		row{"debug.", "18446744073709551615"},
		row{"debug.min", "-9223372036854775808"},
		row{"debug.null", "0x0"},
		row{"debug.s", "\uFFFD"}) // of two with one name the later stays
}

// Kernels that overlap on a queue, begin together, contain one another or take
// no time at all: all are there with their own times.
func TestOverlap(t *testing.T) {
	t.Parallel()
	const n = 500
	tr := tptest.Open(t, save(t, Options{Start: uptime, Monotonic: uptime}, func(w *Writer) {
		q := w.Queue(QueueInfo{PID: 1, Name: "Stream 00"})
		for i := range uint64(n) {
			work(q, i+1, uptime+i/5*100, i%7*90, RenderStageEvent{Name: "k"})
		}
	}))
	tptest.NoErrors(t, tr)
	got := tr.Values(`select ts, dur from gpu_slice order by ts, dur, id`)
	if len(got) != n {
		t.Fatalf("%d slices, want %d", len(got), n)
	}
	seen := make(map[[2]int64]int)
	for _, r := range got {
		seen[[2]int64{r[0].(int64) - uptime, r[1].(int64)}]++
	}
	for i := range int64(n) {
		seen[[2]int64{i / 5 * 100, i % 7 * 90}]--
	}
	for k, v := range seen {
		if v != 0 {
			t.Errorf("%+d slices at %d of %d ns", v, k[0], k[1])
		}
	}
	if lanes := tr.Int(`select count(distinct track_id) from gpu_slice`); lanes < 2 {
		t.Errorf("overlapping kernels are on %d tracks", lanes)
	}
}

// A process may be described late or never; its tracks are there.
func TestLateProcess(t *testing.T) {
	t.Parallel()
	tr := tptest.Open(t, save(t, Options{}, func(w *Writer) {
		for pid := range uint32(2) {
			pid += 10
			instant(w.Thread(Thread{PID: pid, TID: pid}), 1, "on a thread", "", nil)
			instant(w.Track(TrackInfo{PID: pid, Name: "notes"}), 2, "on a track", "", nil)
		}
		w.Process(Process{PID: 10, Name: "late"})
	}))
	tptest.NoErrors(t, tr)
	rows(t, tr, `select s.name, pid, process.name from slice s join process_track k on s.track_id = k.id join process using (upid) order by pid`,
		row{"on a track", int64(10), "late"}, row{"on a track", int64(11), nil})
	rows(t, tr, `select s.name, pid, process.name from slice s join thread_track k on s.track_id = k.id join thread using (utid) join process using (upid) order by pid`,
		row{"on a thread", int64(10), "late"}, row{"on a thread", int64(11), nil})
}

// What is needed for an event to have a place in time is there without a reading
// of the clocks too, at every uptime.
func TestClocks(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"nothing known":         {},
		"start only":            {Start: uptime},
		"read before the start": {Start: uptime, Monotonic: uptime - 1e9, Boottime: uptime, Realtime: 1.7e18},
		"read after the end":    {Start: uptime, Monotonic: uptime + 1e12, Boottime: uptime + 1e12, Realtime: 1.7e18},
		"start long before":     {Start: 1, Monotonic: uptime, Boottime: uptime, Realtime: 1.7e18},
		"start after":           {Start: uptime + 1e12, Monotonic: uptime, Boottime: uptime, Realtime: 1.7e18},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := tptest.Open(t, save(t, o, func(w *Writer) {
				th := w.Thread(Thread{PID: 1, TID: 1})
				begin(th, uptime+5, "call", "c", []uint64{1}, nil)
				th.End(uptime + 10)
				work(w.Queue(QueueInfo{PID: 1, Name: "Stream 00"}), 1, uptime+20, 30, RenderStageEvent{})
			}))
			tptest.NoErrors(t, tr)
			rows(t, tr, `select ts, dur from slice order by ts`,
				row{int64(uptime + 5), int64(5)}, row{int64(uptime + 20), int64(30)})
			rows(t, tr, `select count(*) from flow`, row{int64(1)})
		})
	}
}
