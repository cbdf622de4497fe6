package perfetto

import (
	"testing"

	"github.com/cudatrace/cudatrace/perfetto/tptest"
)

// tracks writes what is neither a call nor usual GPU work: tracks under threads
// and processes, counters, and a piece of work.
func tracks(w *Writer) {
	w.Process(Process{PID: 50, PPID: 49, Name: "app", Args: []string{"app", "-v"}})
	th := w.Thread(Thread{PID: 50, TID: 51, Name: "worker"})
	waiter := w.Thread(Thread{PID: 50, TID: 52, Name: "waiter"})
	nvtx := w.Track(TrackInfo{Name: "NVTX", PID: 50, Thread: th})
	// Ranges that overlap are on tracks of their own with one name.
	first := w.Track(TrackInfo{Name: "NVTX: io", PID: 50, Rank: 2})
	second := w.Track(TrackInfo{Name: "NVTX: io", PID: 50, Rank: 2})
	memory := w.Counter(TrackInfo{Name: "device memory (GPU 0)", PID: 50, Rank: 1}, Bytes)
	change := w.Counter(TrackInfo{Name: "change"}, "%")
	group := w.Group(TrackInfo{Name: "GPU 0", PID: 50})
	flying := w.Counter(TrackInfo{Name: "a: kernels in flight", Group: group, Rank: 2}, Count)
	busy := w.Counter(TrackInfo{Name: "b: busy", Group: group, Rank: 1}, "%")
	notes := w.Track(TrackInfo{Name: "c: notes", Group: group, Rank: 0})
	q := w.Queue(QueueInfo{PID: 50, Context: 1, Stream: 7, Name: "Stream 07 (copy-in)"})

	begin(nvtx, 1000, "step", "nvtx", nil, nil)
	begin(nvtx, 1100, "forward", "nvtx", nil, []Arg{String("domain", "torch")})
	instant(nvtx, 1150, "mark", "nvtx", nil)
	nvtx.EndWith(1200, nil, Uint("launches", 3), String("end", "late"))
	nvtx.End(2000)
	begin(first, 1000, "load", "nvtx", nil, nil)
	first.End(1500)
	begin(second, 1200, "decode", "nvtx", nil, nil)
	second.End(1800)
	begin(first, 1600, "store", "nvtx", nil, nil)
	first.End(2100)
	begin(th, 1050, "cuGraphLaunch", "driver", []uint64{1}, nil)
	th.End(1080)
	begin(th, 1200, "cuStreamSynchronize", "driver", nil, nil) // before the work begins
	th.EndWith(2500, []uint64{1})
	begin(th, 2600, "cuCtxSynchronize", "driver", nil, nil)
	th.EndWith(2700, []uint64{1})
	begin(waiter, 1250, "cuEventSynchronize", "driver", nil, nil)
	waiter.EndWith(2450, []uint64{1}, Uint("waited_ns", 1150))
	memory.Value(1000, 4096)
	memory.Value(1500, 1<<40)
	memory.Value(1600, 0)
	change.Value(1000, -3)
	flying.Value(1000, 3)
	busy.Fraction(1000, 12.5)
	instant(notes, 1000, "note", "", nil)
	work(q, 1, 1300, 1100, RenderStageEvent{Stage: StageMemset, Name: "set 3", Args: []Arg{Uint("graph", 3)}})
}

func TestTracksInProcessor(t *testing.T) {
	t.Parallel()
	tr := tptest.Open(t, save(t, Options{Start: 1000}, tracks))
	tptest.NoErrors(t, tr)
	// The track under a thread is the thread's, beside the one of its calls.
	rows(t, tr, `select tid, k.name, s.name, s.ts, s.dur, depth from slice s join thread_track k on s.track_id = k.id join thread using (utid) where k.name is not null order by s.ts`,
		row{int64(51), "NVTX", "step", int64(1000), int64(1000), int64(0)},
		row{int64(51), "NVTX", "forward", int64(1100), int64(100), int64(1)},
		row{int64(51), "NVTX", "mark", int64(1150), int64(0), int64(2)})
	rows(t, tr, `select key, display_value from args join slice using (arg_set_id) where name = 'forward' and key glob 'debug.*' order by key`,
		row{"debug.domain", "torch"}, row{"debug.end", "late"}, row{"debug.launches", "3"})
	// Ranges that overlap keep their own times, under one name.
	rows(t, tr, `select pid, k.name, s.name, s.ts, s.dur, depth from slice s join process_track k on s.track_id = k.id join process using (upid) where k.parent_id is null order by s.ts`,
		row{int64(50), "NVTX: io", "load", int64(1000), int64(500), int64(0)},
		row{int64(50), "NVTX: io", "decode", int64(1200), int64(600), int64(0)},
		row{int64(50), "NVTX: io", "store", int64(1600), int64(500), int64(0)})
	rows(t, tr, `select k.name, unit, ts, value from counter c join counter_track k on c.track_id = k.id order by k.name, ts`,
		row{"a: kernels in flight", "count", int64(1000), 3.0},
		row{"b: busy", "%", int64(1000), 12.5},
		row{"change", "%", int64(1000), -3.0},
		row{"device memory (GPU 0)", "bytes", int64(1000), 4096.0},
		row{"device memory (GPU 0)", "bytes", int64(1500), float64(1 << 40)},
		row{"device memory (GPU 0)", "bytes", int64(1600), 0.0})
	rows(t, tr, `select pid, count(*) from process_counter_track k join process using (upid) group by pid`, row{int64(50), int64(3)})
	rows(t, tr, `include perfetto module viz.summary.track_event;
		select g.name, pid from _track_event_tracks_ordered_groups g join track p on g.parent_id = p.id join process using (upid)
		where p.name = 'GPU 0' order by order_id`,
		row{"c: notes", int64(50)}, row{"b: busy", int64(50)}, row{"a: kernels in flight", int64(50)})
	rows(t, tr, `select p.pid, p.cmdline, parent.pid from process p join process parent on p.parent_upid = parent.upid`,
		row{int64(50), "app -v", int64(49)})
	rows(t, tr, `select g.name, ts, dur, extract_arg(g.arg_set_id, 'graph'), k.name from gpu_slice g join gpu_track k on g.track_id = k.id`,
		row{"set 3", int64(1300), int64(1100), int64(3), "Stream 07 (copy-in)"})
	// Several calls may wait for one piece of work, two of them from before it begins.
	rows(t, tr, `select o.name, i.name from flow join slice o on slice_out = o.id join slice i on slice_in = i.id order by i.ts, i.name`,
		row{"set 3", "cuStreamSynchronize"},
		row{"set 3", "cuEventSynchronize"},
		row{"cuGraphLaunch", "set 3"},
		row{"set 3", "cuCtxSynchronize"})
}
