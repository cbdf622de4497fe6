package convert

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Build reads a log and joins it into a timeline. Damage in the log is in the
// summary; the error is for what can't be read at all.
func Build(r *tracelog.Reader) (*Timeline, error) {
	l, err := load(r)
	if err != nil {
		return nil, err
	}
	t := &Timeline{Clock: l.clock, Start: l.first, End: l.last}
	found := &findings{}
	for _, s := range l.order {
		t.Processes = append(t.Processes, s.Process)
	}
	l.threadsOf(found)
	l.join(found)
	l.finishQueues(t)
	l.annotate(t, found)
	t.Marks = l.sortedMarks()
	t.Summary = l.summarize(t, r, found)
	return t, nil
}

// findings are the numbers of what was joined.
type findings struct {
	stack    stackStats
	alone    uint64 // calls that create GPU work and have no API record although CUPTI was on
	work     workStats
	waits    waitStats
	nvtx     nvtxStats
	overhead uint64 // ns
	peak     uint64 // bytes of device memory
}

// annotate adds what is neither a call nor GPU work.
func (l *loader) annotate(t *Timeline, found *findings) {
	for _, s := range l.order {
		s.nameLaunches()
		l.nvtx(s, &found.nvtx)
		found.overhead += s.overhead()
		l.poolEvents(t, s)
	}
	found.peak = l.memory(t)
}

// sortedMarks puts marks of unknown time at the end of the recording.
func (l *loader) sortedMarks() []Mark {
	for i := range l.marks {
		if l.marks[i].Time == 0 {
			l.marks[i].Time = l.last
		}
	}
	slices.SortStableFunc(l.marks, func(a, b Mark) int { return cmp.Compare(a.Time, b.Time) })
	return l.marks
}

// threadsOf gives each process its threads with their slices.
func (l *loader) threadsOf(found *findings) {
	for _, s := range l.order {
		for i := range s.markers {
			s.thread(s.markers[i].TID) // a thread may mark ranges and make no call
		}
		order := slices.SortedFunc(maps.Values(s.threads), func(a, b *rawThread) int {
			return cmp.Or(compareBool(b.tid == s.PID, a.tid == s.PID), cmp.Compare(a.tid, b.tid))
		})
		correlated := l.correlated(s)
		for _, raw := range order {
			th := &Thread{PID: s.PID, TID: raw.tid, Name: l.threadName(s.PID, raw.tid)}
			var stats stackStats
			th.Slices, stats = stack(raw, l.horizon(s))
			found.stack.add(stats)
			if correlated {
				found.alone += stats.alone
			}
			s.Threads = append(s.Threads, th)
		}
		s.threads = nil
	}
}

// correlated says whether every call of a program that creates GPU work should
// have an API record: CUPTI was on all the time and said its last word.
func (l *loader) correlated(s *session) bool {
	on := false
	for _, c := range l.cupti {
		if c.PID == s.PID {
			on = c.Status == "on"
		}
	}
	return on && l.ends[s.PID].Complete != 0 && l.meta[tracelog.MetaSchedule] == ""
}

// horizon is the time at which what a program left unfinished is cut off.
func (l *loader) horizon(s *session) uint64 {
	if s.cut != 0 {
		return s.cut
	}
	if e, ok := l.ends[s.PID]; ok && e.Time != 0 {
		return e.Time
	}
	return l.last
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// workStats counts GPU work and how much of it found its call.
type workStats struct {
	kernels, copies, sets, graphs uint64
	matched, unmatched            uint64
	early                         uint64 // started before the call that caused it
	untimed                       uint64
	ids                           []uint64 // room for the ids that calls hold
}

// join gives every piece of GPU work an id and its call the ids of its work, and
// the calls that wait those of the work that they waited for.
func (l *loader) join(found *findings) {
	var next, clockError uint64
	for _, c := range l.cupti {
		clockError = max(clockError, c.ClockError)
	}
	for _, s := range l.order {
		calls := newCallIndex(s.Process)
		s.Queues = slices.SortedFunc(maps.Values(s.queues), func(a, b *Queue) int {
			return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Context, b.Context), cmp.Compare(a.Stream, b.Stream))
		})
		s.queues = nil
		for _, q := range s.Queues {
			next = found.work.queue(q, calls, next)
		}
		newWaitJoiner(s.Process, calls, clockError, &found.waits).join(s.syncs)
		s.syncs = nil
	}
}

// queue joins the work of a queue, numbers it from next on, and sorts it.
func (s *workStats) queue(q *Queue, calls *callIndex, next uint64) uint64 {
	sorted := true
	for i := range q.Work {
		w := &q.Work[i]
		next++
		w.ID = next
		call := calls.find(w.Correlation)
		s.count(w, call != nil)
		if call != nil {
			s.attach(w, call)
			call.Queue = q
		}
		sorted = sorted && (i == 0 || q.Work[i-1].Start <= w.Start)
	}
	if !sorted {
		slices.SortStableFunc(q.Work, func(a, b Work) int { return cmp.Compare(a.Start, b.Start) })
	}
	return next
}

func (s *workStats) count(w *Work, matched bool) {
	switch w.Kind {
	case WorkKernel:
		s.kernels++
	case WorkMemcpy:
		s.copies++
	case WorkMemset:
		s.sets++
	case WorkGraph:
		s.graphs++
	}
	if w.Start == 0 {
		s.untimed++
	}
	if matched {
		s.matched++
	} else {
		s.unmatched++
	}
}

// attach ties work to its call. Work that CUPTI gave no times is placed at its
// call's return, with no length.
func (s *workStats) attach(w *Work, sl *Slice) {
	if sl.Work == nil {
		sl.Work = s.room()
	}
	sl.Work = append(sl.Work, w.ID)
	w.launch = sl.Start
	if w.Start == 0 {
		w.Start, w.Dur, w.Untimed = sl.End, 0, true
		return
	}
	if w.Start < sl.Start {
		s.early++
	}
}

// room returns a slice with room for one id, which is what nearly all calls need.
func (s *workStats) room() []uint64 {
	if len(s.ids) == 0 {
		s.ids = make([]uint64, 4096)
	}
	room := s.ids[:0:1]
	s.ids = s.ids[1:]
	return room
}

// finishQueues numbers the GPUs, names the queues and drops work that has
// neither a time nor a call.
func (l *loader) finishQueues(t *Timeline) {
	for _, p := range t.Processes {
		for _, q := range p.Queues {
			q.Work = slices.DeleteFunc(q.Work, func(w Work) bool { return w.Start == 0 })
			q.GPU = l.gpu(t, q.PID, q.Device)
			if c, ok := l.contexts[threadKey{q.PID, q.Context}]; ok {
				q.Default = c.NullStream == q.Stream
			}
			q.Priority = l.streams[objectKey{q.PID, q.Context, q.Stream}].Priority
			l.nameQueue(q)
		}
	}
}

// gpu returns the number of a process's device in the trace. Devices of one UUID
// are one GPU.
func (l *loader) gpu(t *Timeline, pid, device uint32) uint32 {
	key := threadKey{pid, device}
	if gpu, ok := l.gpus[key]; ok {
		return gpu
	}
	d := l.devices[key]
	if strings.Trim(d.UUID, "0") == "" { // not known: a GPU of its own
		d.UUID = ""
	} else if gpu, ok := l.byUUID[d.UUID]; ok {
		l.gpus[key] = gpu
		return gpu
	}
	d.PID, d.ID = pid, device
	l.nameGPU(&d)
	gpu := uint32(len(t.GPUs))
	t.GPUs = append(t.GPUs, GPU{Device: d, Index: gpu})
	l.gpus[key] = gpu
	if d.UUID != "" {
		l.byUUID[d.UUID] = gpu
	}
	return gpu
}
