package convert

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

const (
	// waitTolerance is by how much a GPU time may be behind a CPU time, in ns,
	// beside the error that the log states for CUPTI's clock.
	waitTolerance = 10_000

	// waitSteps bounds the look back from the end of a wait to the work that it
	// was for, over work that another thread launched meanwhile.
	waitSteps = 1024

	// waitStreams bounds the streams of a context that a wait is for.
	waitStreams = 1024

	noStream = 1<<32 - 1 // tracelog.Sync.Stream where there is none
)

// waitStats counts arrows from work to the calls that waited for it.
type waitStats struct {
	arrows    uint64
	ambiguous uint64 // Sync records that several calls may have made
	unmatched uint64 // Sync records that no call was found for
}

// waitJoiner finds for a process's Sync records the calls that made them and the
// work that these waited for.
type waitJoiner struct {
	calls     *callIndex
	threads   []waitList
	queues    map[streamKey]*Queue
	contexts  map[uint32][]*Queue
	tolerance uint64
	stats     *waitStats
}

// A waitList has the outermost waiting calls of a thread that no API record
// names, by time.
type waitList struct {
	slices []*Slice
	used   []bool
	next   int // the first that had not ended by the start of the latest record
}

func newWaitJoiner(p *Process, calls *callIndex, clockError uint64, stats *waitStats) *waitJoiner {
	j := &waitJoiner{
		calls: calls, stats: stats, tolerance: waitTolerance + min(clockError, 1e9),
		queues: make(map[streamKey]*Queue), contexts: make(map[uint32][]*Queue),
	}
	for _, q := range p.Queues {
		j.queues[streamKey{q.Context, q.Stream}] = q
		if list := j.contexts[q.Context]; len(list) < waitStreams {
			j.contexts[q.Context] = append(list, q)
		}
	}
	for _, th := range p.Threads {
		var list waitList
		covered := uint64(0) // by the wait before
		for i := range th.Slices {
			if sl := &th.Slices[i]; sl.wait != 0 && sl.Start >= covered {
				list.slices = append(list.slices, sl)
				covered = sl.End
			}
		}
		if len(list.slices) > 0 {
			list.used = make([]bool, len(list.slices))
			j.threads = append(j.threads, list)
		}
	}
	return j
}

// join goes through the records by their start. Streams that wait for events make
// no call wait.
func (j *waitJoiner) join(syncs []tracelog.Sync) {
	slices.SortStableFunc(syncs, func(a, b tracelog.Sync) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Dur, b.Dur))
	})
	for i := range syncs {
		s := &syncs[i]
		if s.Type != syncEvent && s.Type != syncStream && s.Type != syncContext {
			continue
		}
		call := j.call(s)
		if call == nil {
			j.stats.unmatched++
			continue
		}
		if len(call.Work) > 0 { // a copy that waits for itself
			continue
		}
		for _, w := range j.work(s, call) {
			w.awaited = true
			call.Waits = append(call.Waits, w.ID)
			j.stats.arrows++
		}
	}
}

// call finds the call that made a record: by the correlation ID where an API
// record has it, else by time.
func (j *waitJoiner) call(s *tracelog.Sync) *Slice {
	if s.Correlation != 0 {
		if sl := j.calls.find(s.Correlation); sl != nil {
			return sl
		}
	}
	var best *Slice
	var bestList *waitList
	bestAt, fitting := 0, 0
	for n := range j.threads {
		list := &j.threads[n]
		at := list.candidate(s, j.tolerance)
		if at < 0 {
			continue
		}
		sl := list.slices[at]
		if sl.wait == s.Type {
			fitting++
		}
		if best == nil || better(sl, best, s) {
			best, bestList, bestAt = sl, list, at
		}
	}
	if best == nil {
		return nil
	}
	if fitting > 1 {
		j.stats.ambiguous++
	}
	bestList.used[bestAt] = true
	return best
}

// candidate returns the place of the call of a thread that fits a record best,
// -1 for none.
func (l *waitList) candidate(s *tracelog.Sync, tolerance uint64) int {
	until := end(s.Start, s.Dur)
	for l.next < len(l.slices) && end(l.slices[l.next].End, tolerance) < s.Start {
		l.next++
	}
	best := -1
	for i := l.next; i < len(l.slices) && l.slices[i].Start <= end(until, tolerance) && i < l.next+waitSteps; i++ {
		sl := l.slices[i]
		holds := sl.Start <= end(s.Start, tolerance) && end(sl.End, tolerance) >= until
		held := s.Start <= end(sl.Start, tolerance) && end(until, tolerance) >= sl.End
		if (holds || held) && !l.used[i] && (best < 0 || better(sl, l.slices[best], s)) {
			best = i
		}
	}
	return best
}

// better says whether a call fits a record better than another: its function
// makes such records, it has more of its time in common, it lasts less beyond.
func better(a, b *Slice, s *tracelog.Sync) bool {
	if (a.wait == s.Type) != (b.wait == s.Type) {
		return a.wait == s.Type
	}
	if x, y := common(a, s), common(b, s); x != y {
		return x > y
	}
	return a.End-a.Start < b.End-b.Start
}

// common is the time that a call and a record share.
func common(sl *Slice, s *tracelog.Sync) uint64 {
	from, to := max(sl.Start, s.Start), min(sl.End, end(s.Start, s.Dur))
	return to - min(from, to)
}

// work returns what a call waited for: the last work of the stream. Of several
// streams those count whose work ended within the wait.
func (j *waitJoiner) work(s *tracelog.Sync, call *Slice) []*Work {
	if s.Stream != noStream && s.Type != syncContext {
		q := j.queues[streamKey{s.Context, s.Stream}]
		if q == nil {
			return nil
		}
		if w := j.last(q, s, call); w != nil && (w.end() > s.Start || !w.awaited) {
			return []*Work{w}
		}
		return nil
	}
	var all []*Work
	for _, q := range j.contexts[s.Context] {
		if w := j.last(q, s, call); w != nil && (w.end() > s.Start || s.Type == syncContext && !w.awaited) {
			all = append(all, w)
		}
	}
	// An event is of one stream, which the record does not tell.
	if s.Type == syncEvent && len(all) > 1 {
		return nil
	}
	return all
}

// last returns a stream's last work that was launched before a wait and ended
// before it did, nil if there is none.
func (j *waitJoiner) last(q *Queue, s *tracelog.Sync, call *Slice) *Work {
	limit := end(end(s.Start, s.Dur), j.tolerance)
	i, _ := slices.BinarySearchFunc(q.Work, limit, func(w Work, limit uint64) int {
		if w.Start <= limit {
			return -1
		}
		return 1
	})
	var found *Work
	for steps := 0; i > 0 && steps < waitSteps; steps++ {
		i--
		w := &q.Work[i]
		switch {
		case found != nil && w.Correlation != found.Correlation:
			return found
		case w.end() > limit || w.launch > call.Start:
		case found == nil || w.end() > found.end(): // nodes of a graph overlap
			found = w
		}
	}
	return found
}
