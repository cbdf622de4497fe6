package stats

import (
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A Sink collects the reports of a timeline.
type Sink struct {
	clock   clock
	names   timeline.KernelNames
	calls   calls
	threads threads
	waits   waits
	work    work
	busy    busy
	memory  memory
	ranges  ranges
}

// A clock converts the times of a timeline.
type clock struct{ start uint64 }

// since returns a time in ns from the start of the recording.
func (c *clock) since(at uint64) uint64 { return at - min(at, c.start) }

// New returns a sink without events.
func New() *Sink {
	s := &Sink{names: make(timeline.KernelNames)}
	s.calls = newCalls(&s.clock)
	s.threads = newThreads()
	s.waits = newWaits()
	s.work = newWork(s.names)
	s.busy = newBusy(&s.clock)
	s.memory = newMemory(&s.clock)
	s.ranges = newRanges()
	return s
}

// Take takes events.
func (s *Sink) Take(events []timeline.Event) error {
	for _, e := range events {
		s.event(e)
	}
	return nil
}

// End ends the timeline.
func (s *Sink) End(error) error { return nil }

func (s *Sink) event(e timeline.Event) {
	switch e := e.(type) {
	case *timeline.Slices:
		s.slices(e)
	case *timeline.WorkList:
		s.workList(e)
	case *timeline.SpanBegin:
		s.ranges.begin(e)
	case *timeline.SpanEnd:
		s.ranges.end(e)
	case *timeline.Instant:
		s.ranges.mark(e)
	case *timeline.Allocation:
		s.memory.take(e)
	case *timeline.Recording:
		s.clock.start = e.Start
	case *timeline.GPUs:
		s.busy.gpus(e.List)
	case *timeline.Process:
		s.threads.process(e)
	case *timeline.Thread:
		s.threads.of(e)
	case *timeline.Stream:
		s.busy.stream(e)
	}
}

func (s *Sink) slices(l *timeline.Slices) {
	thread := s.threads.of(l.Thread)
	for i := range l.List {
		sl := &l.List[i]
		inner := thread.call(sl)
		s.calls.take(l.Thread, sl, inner)
		if len(sl.Waits()) > 0 {
			s.waits.take(l.Thread, sl)
		}
	}
}

func (s *Sink) workList(l *timeline.WorkList) {
	stream := s.busy.stream(l.Stream)
	process := s.threads.process(l.Stream.Context.Process)
	for i := range l.List {
		w := &l.List[i]
		s.work.take(w)
		stream.take(w)
		process.count(w)
		if w.Call.Thread != nil {
			s.threads.of(w.Call.Thread).work++
		}
	}
}

// Facts say what the recording of the logs lacks: why a report has no rows.
type Facts struct {
	GPU     string // why there is no GPU work, "" if it was recorded
	Callers string // why no call has a caller, "" if callers were recorded
	// Filtered says that a filter selected a part of the logs.
	Filtered bool
}

// Tables returns all reports, with the largest rows first.
func (s *Sink) Tables(f Facts) []*table.Table {
	streams, devices := s.busy.tables()
	kernels, shapes := s.work.kernelTables()
	calls, callers := s.calls.tables(s.threads.inCalls())
	memory, unfreed := s.memory.tables()
	threads, processes := s.threads.tables()
	all := []*table.Table{
		kernels, shapes, calls, callers, s.work.copyTable(), s.work.setTable(), s.work.graphTable(),
		s.waits.table(), s.work.launchTable(), devices, streams, memory, unfreed, s.calls.errorTable(),
		s.ranges.table(), threads, processes,
	}
	for _, t := range all {
		t.Reason = ""
		if len(t.Rows) == 0 {
			t.Reason = reason(t.Name, f)
		}
	}
	return all
}

// Names are the names of all reports, in the order of Tables.
func Names() []string {
	return []string{
		"kernels", "kernel_shapes", "calls", "callers", "copies", "sets", "graphs", "waits", "launches",
		"devices", "streams", "memory", "unfreed", "errors", "nvtx", "threads", "processes",
	}
}

// IsDetail says whether a report goes into what another report sums up.
func IsDetail(name string) bool {
	return name == "kernel_shapes" || name == "callers" || name == "graphs" || name == "unfreed"
}
