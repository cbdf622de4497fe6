package perfetto

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/perfetto/tracetest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

func TestGoldenOdd(t *testing.T) {
	t.Parallel()
	got := must.Get(tracetest.Text(encode(t, Options{Start: 1000}, odd)))(t)
	goldentest.Hold(t, filepath.Join("testdata", "odd.txt"), got)
}

// odd writes what a normal trace doesn't have: text that is not UTF-8, messages
// longer than 127 bytes, times that go back, values at the ends of their range.
func odd(w *Writer) {
	w.Process(Process{PID: 1, Name: "a\xffb\x00c", Args: []string{"", "\xf0\x28", strings.Repeat("long ", 30)}, Rank: -1})
	w.Process(Process{PID: 2})
	w.Process(Process{PID: 3, Args: []string{"/bin/unnamed"}})
	t := w.Thread(Thread{PID: 1, TID: 1, Name: "first name"})
	w.Thread(Thread{PID: 1, TID: 1, Name: "ß\xc3"})
	begin(t, 900, "", "", nil, []Arg{Uint("", ^uint64(0)), Int("min", -1<<63), String("s", ""), String("s", "\xff"), Pointer("null", 0)})
	instant(t, 800, strings.Repeat("n", 128), "c\x00", []Arg{String("v", strings.Repeat("v", longestValue+1))})
	t.End(2000)
	q := w.Queue(QueueInfo{PID: 9, GPU: 3, Context: 1<<32 - 1, Stream: 1<<32 - 1, Name: "\xfe"})
	k := w.Kernel(Kernel{Name: strings.Repeat("k", 200), Args: []Arg{Pointer("p", 255), Float("f", 0.5)}})
	work(q, 1, 3000, 0, RenderStageEvent{Kernel: k, Grid: [3]uint32{1<<32 - 1, 1, 1}, Args: []Arg{Uint("device", 8), String("stream", "own")}})
	work(q, 2, 2500, 1, RenderStageEvent{Stage: StageMemset, Name: "x"})
}

// A Thread that is described twice stays one track.
func TestThreadTwice(t *testing.T) {
	t.Parallel()
	encode(t, Options{}, func(w *Writer) {
		a := w.Thread(Thread{PID: 1, TID: 2, Name: "a"})
		b := w.Thread(Thread{PID: 1, TID: 2, Name: "b"})
		if a != b {
			t.Error("the second description made a second track")
		}
	})
}

// threadStates writes states of two threads that share a processor.
func threadStates(w *Writer) {
	w.Process(Process{PID: 4000, Name: "train"})
	w.Thread(Thread{PID: 4000, TID: 4000, Name: "python3"})
	w.Thread(Thread{PID: 4000, TID: 4001, Name: "loader"})
	a, b := w.ThreadStates(4000, "python3"), w.ThreadStates(4001, "loader")
	a.State(uptime+100, ThreadRunning, 3)
	a.State(uptime+150, ThreadRunning, 3) // goes on
	a.State(uptime+200, ThreadSleeps, 3)
	a.State(uptime+400, ThreadRunnable, 3)
	a.State(uptime+450, ThreadRunning, 1)
	a.State(uptime+500, ThreadWaits, 1)
	b.State(uptime+200, ThreadRunning, 3)
	b.State(uptime+300, ThreadRunnable, 3)
	b.State(uptime+350, ThreadStopped, 3)
	b.State(uptime+350, ThreadRunnable, 3) // at the same time
	b.State(uptime+600, ThreadRunning, 2)
	b.State(uptime+650, ThreadSleeps, 5) // was moved while it ran
	b.State(uptime+700, ThreadRunning, 2)
}

// States are those that the UI draws, on their processors.
func TestThreadStates(t *testing.T) {
	t.Parallel()
	tr := tptest.Open(t, save(t, sampleOptions(), threadStates))
	tptest.NoErrors(t, tr)
	const u = int64(uptime)
	rows(t, tr, `select s.ts, s.dur, s.state, s.cpu, tid, t.name, pid from thread_state s join thread t using (utid) join process using (upid) order by tid, s.ts`,
		row{u + 100, int64(100), "Running", int64(3), int64(4000), "python3", int64(4000)},
		row{u + 200, int64(200), "S", nil, int64(4000), "python3", int64(4000)},
		row{u + 400, int64(50), "R", nil, int64(4000), "python3", int64(4000)},
		row{u + 450, int64(50), "Running", int64(1), int64(4000), "python3", int64(4000)},
		row{u + 500, int64(-1), "D", nil, int64(4000), "python3", int64(4000)},
		row{u + 200, int64(100), "Running", int64(3), int64(4001), "loader", int64(4000)},
		row{u + 300, int64(50), "R", nil, int64(4001), "loader", int64(4000)},
		row{u + 350, int64(1), "T", nil, int64(4001), "loader", int64(4000)},
		row{u + 351, int64(249), "R", nil, int64(4001), "loader", int64(4000)},
		row{u + 600, int64(50), "Running", int64(2), int64(4001), "loader", int64(4000)},
		row{u + 650, int64(50), "S", nil, int64(4001), "loader", int64(4000)},
		row{u + 700, int64(-1), "Running", int64(2), int64(4001), "loader", int64(4000)})
	const prio = int64(prioNormal)
	rows(t, tr, `select ts, dur, tid, priority from sched_slice join thread using (utid) order by ts`,
		row{u + 100, int64(100), int64(4000), prio}, row{u + 200, int64(100), int64(4001), prio}, row{u + 450, int64(50), int64(4000), prio},
		row{u + 600, int64(50), int64(4001), prio}, row{u + 700, int64(-1), int64(4001), prio})
}
