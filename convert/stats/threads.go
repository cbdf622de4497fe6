package stats

import (
	"cmp"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/convert/internal/query"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// threads are the reports of threads and processes.
type threads struct {
	byThread  map[*timeline.Thread]*threadRow
	byProcess map[*timeline.Process]*processRow
	threads   []*threadRow
	processes []*processRow
	room      *activity.Room
	findings  *findings.Collector
	path      *critical.Collector
}

// A threadRow has the calls of a thread.
type threadRow struct {
	*timeline.Thread
	process *processRow
	open    uint64         // end of the last call that lies in no other one
	in      activity.Cover // time in calls
	waiting activity.Cover // time in calls that waited for GPU work
	history *activity.History
	habits  *findings.Thread
	path    *critical.Thread
}

// A processRow has what a process did.
type processRow struct {
	*timeline.Process
	staged
}

func newThreads(f *findings.Collector, path *critical.Collector) threads {
	return threads{
		findings: f, path: path, byThread: make(map[*timeline.Thread]*threadRow),
		byProcess: make(map[*timeline.Process]*processRow), room: activity.NewRoom(),
	}
}

func (s *threads) of(t *timeline.Thread) *threadRow {
	r := s.byThread[t]
	if r == nil {
		r = &threadRow{Thread: t, history: s.room.NewHistory(t), habits: s.findings.Thread(t)}
		r.path = s.path.Thread(t, r.history)
		s.byThread[t] = r
		s.threads = append(s.threads, r)
		r.process = s.process(t.Process)
	}
	return r
}

func (s *threads) process(p *timeline.Process) *processRow {
	r := s.byProcess[p]
	if r == nil {
		r = &processRow{Process: p, staged: staged{stages: s.findings.Stages(p)}}
		s.byProcess[p] = r
		s.processes = append(s.processes, r)
	}
	return r
}

// call takes a call. It reports whether the call lies within another one.
func (r *threadRow) call(sl *timeline.Slice) (inner bool) {
	inner = sl.Start < r.open
	r.open = max(r.open, sl.End)
	if sl.Flags&timeline.Unfinished != 0 {
		return inner
	}
	r.in.Add(sl.Start, sl.End)
	if len(sl.Waits()) > 0 {
		r.waiting.Add(sl.Start, sl.End)
	}
	return inner
}

// titleOf is the name of a thread for people.
func titleOf(r *timeline.Thread) string {
	if r.Main {
		return r.Title()
	}
	return cmp.Or(r.Title(), "(unnamed)")
}

// threadCells is a row of threads.
type threadCells struct {
	Name    string `key:"name" title:"thread"`
	PID     uint32 `key:"pid" title:"process" rank:"3" unit:"id"`
	TID     uint32 `key:"tid" title:"TID" rank:"1" unit:"id"`
	Calls   uint64 `key:"calls" title:"calls" rank:"1"`          // outermost calls, and those that failed
	Failed  uint64 `key:"failed" title:"failed" rank:"5"`        // =
	InCalls uint64 `key:"in_calls_ns" title:"in calls" rank:"1"` // time in CUDA calls; nested calls count once
	Waiting uint64 `key:"waiting_ns" title:"waiting" rank:"2"`   // time in calls that waited for GPU work
	Work    uint64 `key:"gpu_work" title:"GPU work" rank:"4"`    // pieces of GPU work that the thread's calls caused

	thread *timeline.Thread // nil for those beyond table.MaxRows
}

var threadsReport = declare(grouped[*timeline.Thread, threadCells]{
	Report: Report{Name: "threads", Title: "threads that made calls", whyEmpty: "no calls"},
	order:  "in_calls_ns",
	things: calls,
	sums:   [2]string{"calls", "in_calls_ns"},
	row:    func(t *timeline.Thread) threadCells { return threadCells{thread: t} },
	from: func(s *section, rows *query.Rows[*timeline.Thread, threadCells]) {
		s.calls.Each(func(c *call) {
			r := rows.Of(c.thread)
			if !c.inner && c.Flags&timeline.Prepares == 0 {
				r.Calls++
				if c.Failed() {
					r.Failed++
				}
			}
			r.InCalls, r.Waiting = sketch.Sum(r.InCalls, c.took), sketch.Sum(r.Waiting, c.waited)
		})
		for kind := range s.work {
			s.work[kind].Each(func(w *piece) {
				if t := w.Call.Thread; t != nil {
					rows.Of(t).Work++
				}
			})
		}
	},
	merge: func(r, later *threadCells) {
		r.Calls, r.Failed, r.Work = r.Calls+later.Calls, r.Failed+later.Failed, r.Work+later.Work
		r.InCalls, r.Waiting = sketch.Sum(r.InCalls, later.InCalls), sketch.Sum(r.Waiting, later.Waiting)
	},
	fill: func(_ *view, r *threadCells, _ uint64) {
		if r.thread == nil {
			r.Name = other
			return
		}
		r.Name, r.PID, r.TID = titleOf(r.thread), r.thread.Process.PID, r.thread.TID
	},
})

// ProcessCells is a row of processes.
type ProcessCells struct {
	Name    string `key:"name" title:"process"`
	PID     uint32 `key:"pid" title:"PID" rank:"1" unit:"id"`
	Host    string `key:"host" title:"host" rank:"6"`
	Threads uint64 `key:"threads" title:"threads" rank:"3"`      // threads that made calls, and the sums over them
	Calls   uint64 `key:"calls" title:"calls" rank:"1"`          // =
	Failed  uint64 `key:"failed" title:"failed" rank:"5"`        // =
	InCalls uint64 `key:"in_calls_ns" title:"in calls" rank:"2"` // =
	Kernels uint64 `key:"kernels" title:"kernels" rank:"1"`      // pieces of GPU work
	Copies  uint64 `key:"copies" title:"copies" rank:"4"`        // =
	Sets    uint64 `key:"sets" title:"sets" rank:"4"`            // =
	Work    uint64 `key:"gpu_work_ns" title:"GPU work" rank:"2"` // sum of the times of all GPU work

	process *timeline.Process // nil for those beyond table.MaxRows
	work    workCount
}

var processesReport = declare(grouped[*timeline.Process, ProcessCells]{
	Report: Report{Name: "processes", Title: "processes", whyEmpty: "no processes"},
	order:  "gpu_work_ns",
	things: calls,
	sums:   [2]string{"calls", "in_calls_ns"},
	row:    func(p *timeline.Process) ProcessCells { return ProcessCells{process: p} },
	from: func(s *section, rows *query.Rows[*timeline.Process, ProcessCells]) {
		for kind := range s.work {
			s.work[kind].Each(func(w *piece) { rows.Of(w.on.Context.Process).work.count(w.Work) })
		}
	},
	ready: func(s *section, rows *query.Rows[*timeline.Process, ProcessCells]) {
		for _, p := range s.threads.processes { // those without work, too
			rows.Of(p.Process)
		}
	},
	merge: func(r, later *ProcessCells) { r.work.join(&later.work) },
	fill: func(v *view, r *ProcessCells, _ uint64) {
		w := &r.work
		r.Name, r.Kernels, r.Copies, r.Sets, r.Work = other, w.Kernels, w.Copies, w.Memsets, w.time
		if r.process != nil {
			r.Name, r.PID, r.Host = r.process.Name, r.process.PID, r.process.Host
		}
		r.Threads, r.Calls, r.Failed, r.InCalls = 0, 0, 0, 0
		for _, t := range threadsReport.rowsOf(v).List {
			if t.thread != nil && t.thread.Process == r.process {
				r.Threads++
				r.Calls, r.Failed, r.InCalls = r.Calls+t.Calls, r.Failed+t.Failed, sketch.Sum(r.InCalls, t.InCalls)
			}
		}
	},
})
