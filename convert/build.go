package convert

import (
	"cmp"
	"fmt"
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
	if l.last == 0 { // nothing in the log has a time
		l.first = 0
	}
	t := &Timeline{Clock: l.clock, Start: l.first, End: l.last, Processes: l.order}
	stats := l.threadsOf(t)
	work := l.join(t)
	l.finishQueues(t)
	t.Marks = l.sortedMarks()
	t.Summary = l.summarize(t, r, stats, work)
	return t, nil
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
func (l *loader) threadsOf(t *Timeline) stackStats {
	var total stackStats
	raws := make([]*rawThread, 0, len(l.threads))
	for _, raw := range l.threads {
		raws = append(raws, raw)
	}
	slices.SortFunc(raws, func(a, b *rawThread) int {
		return cmp.Or(cmp.Compare(a.pid, b.pid), compareBool(b.tid == b.pid, a.tid == a.pid), cmp.Compare(a.tid, b.tid))
	})
	for _, raw := range raws {
		p := l.process(raw.pid)
		th := &Thread{PID: raw.pid, TID: raw.tid, Name: l.names[threadKey{raw.pid, raw.tid}]}
		var stats stackStats
		th.Slices, stats = stack(raw, l.horizon(raw.pid))
		raw.calls, raw.apis = nil, nil
		total.add(stats)
		p.Threads = append(p.Threads, th)
	}
	t.Processes = l.order
	return total
}

// horizon is the time at which a process's unfinished calls are cut off.
func (l *loader) horizon(pid uint32) uint64 {
	if e, ok := l.ends[pid]; ok && e.Time != 0 {
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
	kernels, copies, sets uint64
	matched, unmatched    uint64
	early                 uint64 // started before the call that caused it
	untimed               uint64
}

// sliceRef names a slice by its thread and place.
type sliceRef struct {
	thread *Thread
	index  uint32
}

// join gives every piece of GPU work an id and its call the ids of its work.
func (l *loader) join(t *Timeline) workStats {
	var stats workStats
	var next uint64
	for _, p := range t.Processes {
		calls := correlations(p)
		slices.SortFunc(p.Queues, func(a, b *Queue) int {
			return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Context, b.Context), cmp.Compare(a.Stream, b.Stream))
		})
		for _, q := range p.Queues {
			for i := range q.Work {
				w := &q.Work[i]
				next++
				w.ID = next
				ref, ok := calls[w.Correlation]
				stats.count(w, ok)
				if ok {
					stats.attach(w, &ref.thread.Slices[ref.index])
				}
			}
			slices.SortStableFunc(q.Work, func(a, b Work) int { return cmp.Compare(a.Start, b.Start) })
		}
	}
	return stats
}

// correlations finds a process's calls by correlation ID.
func correlations(p *Process) map[uint32]sliceRef {
	calls := make(map[uint32]sliceRef)
	for _, th := range p.Threads {
		for i := range th.Slices {
			if c := th.Slices[i].Correlation; c != 0 {
				calls[c] = sliceRef{th, uint32(i)}
			}
		}
	}
	return calls
}

func (s *workStats) count(w *Work, matched bool) {
	switch w.Kind {
	case WorkKernel:
		s.kernels++
	case WorkMemcpy:
		s.copies++
	case WorkMemset:
		s.sets++
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
	sl.Work = append(sl.Work, w.ID)
	if w.Start == 0 {
		w.Start, w.Dur, w.Untimed = sl.End, 0, true
		return
	}
	if w.Start < sl.Start {
		s.early++
	}
}

// finishQueues numbers the GPUs, names the queues and drops work that has
// neither a time nor a call.
func (l *loader) finishQueues(t *Timeline) {
	index := make(map[string]uint32)
	for _, p := range t.Processes {
		for _, q := range p.Queues {
			q.Work = slices.DeleteFunc(q.Work, func(w Work) bool { return w.Start == 0 })
			d, ok := l.devices[threadKey{q.PID, q.Device}]
			id := strings.Trim(d.UUID, "0")
			if !ok || id == "" {
				d.PID, d.ID = q.PID, q.Device
				id = fmt.Sprintf("%d/%d", q.PID, q.Device)
			}
			gpu, seen := index[id]
			if !seen {
				gpu = uint32(len(t.GPUs))
				index[id] = gpu
				t.GPUs = append(t.GPUs, GPU{Device: d, Index: gpu})
			}
			q.GPU = gpu
			if c, ok := l.contexts[threadKey{q.PID, q.Context}]; ok {
				q.Default = c.NullStream == q.Stream
			}
			q.Priority = l.streams[queueKey{q.PID, q.Context, q.Stream}].Priority
		}
	}
}
