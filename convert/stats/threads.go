package stats

import (
	"cmp"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/stats/table"
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
	calls, failed uint64 // that lie in no other call
	work          uint64
	open          uint64         // end of the last call that lies in no other one
	in            activity.Cover // time in calls
	waiting       activity.Cover // time in calls that waited for GPU work
	history       *activity.History
	habits        *findings.Thread
	path          *critical.Thread
}

// A processRow has what a process did.
type processRow struct {
	*timeline.Process
	workCount
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
		s.process(t.Process)
	}
	return r
}

func (s *threads) process(p *timeline.Process) *processRow {
	r := s.byProcess[p]
	if r == nil {
		r = &processRow{Process: p}
		s.byProcess[p] = r
		s.processes = append(s.processes, r)
	}
	return r
}

// call takes a call. It reports whether the call lies within another one.
func (r *threadRow) call(sl *timeline.Slice) (inner bool) {
	inner = sl.Start < r.open
	r.open = max(r.open, sl.End)
	if !inner {
		r.calls++
		if sl.Failed() {
			r.failed++
		}
	}
	if sl.Flags&timeline.Unfinished != 0 {
		return inner
	}
	r.in.Add(sl.Start, sl.End)
	if len(sl.Waits()) > 0 {
		r.waiting.Add(sl.Start, sl.End)
	}
	return inner
}

// inCalls is the time that all threads spent in calls.
func (s *threads) inCalls() (ns uint64) {
	for _, r := range s.threads {
		ns = sketch.Sum(ns, r.in.Total)
	}
	return ns
}

// onGPU is the time of all GPU work.
func (s *threads) onGPU() (ns uint64) {
	for _, r := range s.processes {
		ns = sketch.Sum(ns, r.time)
	}
	return ns
}

// title is the name of a thread for people.
func (r *threadRow) title() string {
	if r.Main {
		return r.Title()
	}
	return cmp.Or(r.Title(), "(unnamed)")
}

var threadsReport = Report{
	Name: "threads", Title: "threads that made calls",
	whyEmpty: "no calls",
	table:    func(s *Sink, _ Facts) *table.Table { return s.threads.threadTable() },
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
}

// threadTable returns the report of threads.
func (s *threads) threadTable() *table.Table {
	var rows []threadCells
	for _, r := range s.threads {
		if r.used() {
			rows = append(rows, threadCells{
				r.title(), r.Process.PID, r.TID, r.calls, r.failed, r.in.Total, r.waiting.Total, r.work,
			})
		}
	}
	t := table.Of(rows)
	t.Sort("in_calls_ns")
	return t
}

// used reports whether the thread made calls or launched work. Others made NVTX ranges alone.
func (r *threadRow) used() bool { return r.calls > 0 || r.work > 0 }

var processesReport = Report{
	Name: "processes", Title: "processes",
	whyEmpty: "no processes",
	table:    func(s *Sink, _ Facts) *table.Table { return s.threads.processTable() },
}

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
}

// processTable returns the report of processes.
func (s *threads) processTable() *table.Table {
	rows, of := make([]ProcessCells, len(s.processes)), make(map[*timeline.Process]*ProcessCells)
	for i, p := range s.processes {
		rows[i] = ProcessCells{
			Name: p.Name, PID: p.PID, Host: p.Host, Kernels: p.Kernels, Copies: p.Copies, Sets: p.Memsets, Work: p.time,
		}
		of[p.Process] = &rows[i]
	}
	for _, r := range s.threads {
		if r.used() {
			x := of[r.Process]
			x.Threads++
			x.Calls, x.Failed, x.InCalls = x.Calls+r.calls, x.Failed+r.failed, sketch.Sum(x.InCalls, r.in.Total)
		}
	}
	t := table.Of(rows)
	t.Sort("gpu_work_ns")
	return t
}
