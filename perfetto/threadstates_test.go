package perfetto

import (
	"testing"

	"github.com/cudatrace/cudatrace/perfetto/tptest"
)

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

func TestGoldenThreadStates(t *testing.T) {
	t.Parallel()
	golden(t, "threadstates", encode(t, sampleOptions(), threadStates))
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
	rows(t, tr, `select ts, dur, tid from sched_slice join thread using (utid) order by ts`,
		row{u + 100, int64(100), int64(4000)}, row{u + 200, int64(100), int64(4001)}, row{u + 450, int64(50), int64(4000)},
		row{u + 600, int64(50), int64(4001)}, row{u + 700, int64(-1), int64(4001)})
}
