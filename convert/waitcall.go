package convert

import (
	"cmp"
	"slices"
)

// call finds the call that made a record: by the correlation ID where an API
// record has it, else by time. It says whether several fit.
func (j *waitJoiner) call(s *syncRecord) (best *waitCall, ambiguous bool) {
	if s.correlation != 0 {
		if slot := j.s.join.find(s.correlation); slot != nil && slot.call != nil {
			return &waitCall{Slice: slot.call}, false
		}
	}
	fitting := 0
	for _, list := range j.threads {
		call := list.candidate(s, j.tolerance)
		if call == nil {
			continue
		}
		if call.wait == s.typ {
			fitting++
		}
		if best == nil || better(call.Slice, best.Slice, s) {
			best = call
		}
	}
	return best, fitting > 1
}

// candidate returns the call of a thread that fits a record best, nil for none.
func (l *waitList) candidate(s *syncRecord, tolerance uint64) (best *waitCall) {
	first, _ := slices.BinarySearchFunc(l.calls, s.start, func(a waitCall, at uint64) int {
		return cmp.Compare(end(a.End, tolerance), at)
	})
	for i := first; i < len(l.calls) && l.calls[i].Start <= end(s.end, tolerance) && i < first+waitSteps; i++ {
		call := &l.calls[i]
		holds := call.Start <= end(s.start, tolerance) && end(call.End, tolerance) >= s.end
		held := s.start <= end(call.Start, tolerance) && end(s.end, tolerance) >= call.End
		if (holds || held) && !call.used && (best == nil || better(call.Slice, best.Slice, s)) {
			best = call
		}
	}
	return best
}

// better says whether a call fits a record better than another: its function
// makes such records, it has more of its time in common, it lasts less beyond.
func better(a, b *Slice, s *syncRecord) bool {
	if (a.wait == s.typ) != (b.wait == s.typ) {
		return a.wait == s.typ
	}
	if x, y := common(a, s), common(b, s); x != y {
		return x > y
	}
	return a.End-a.Start < b.End-b.Start
}

// common is the time that a call and a record share.
func common(sl *Slice, s *syncRecord) uint64 {
	from, to := max(sl.Start, s.start), min(sl.End, s.end)
	return to - min(from, to)
}

// work returns what a call waited for: the last work of the stream. Of several
// streams those count whose work ended within the wait.
func (j *waitJoiner) work(s *syncRecord, call *Slice) []*recentWork {
	if s.stream != noStream && s.typ != syncContext {
		q := j.queues[streamKey{s.context, s.stream}]
		if q == nil {
			return nil
		}
		if w := j.last(q, s, call); w != nil && (w.end() > s.start || !w.awaited) {
			return []*recentWork{w}
		}
		return nil
	}
	var all []*recentWork
	for _, q := range j.contexts[s.context] {
		if w := j.last(q, s, call); w != nil && (w.end() > s.start || s.typ == syncContext && !w.awaited) {
			all = append(all, w)
		}
	}
	// An event is of one stream, which the record does not tell.
	if s.typ == syncEvent && len(all) > 1 {
		return nil
	}
	return all
}

// last returns a stream's last work that was launched before a wait and ended
// before it did, nil if there is none.
func (j *waitJoiner) last(q *workQueue, s *syncRecord, call *Slice) *recentWork {
	limit := end(s.end, j.tolerance)
	i, _ := slices.BinarySearchFunc(q.recent, limit, func(w recentWork, limit uint64) int {
		if w.start <= limit {
			return -1
		}
		return 1
	})
	var found *recentWork
	for steps := 0; i > 0 && steps < waitSteps; steps++ {
		i--
		w := &q.recent[i]
		switch {
		case found != nil && w.correlation != found.correlation:
			return found
		case w.end() > limit || w.launch > call.Start:
		case found == nil || w.end() > found.end(): // nodes of a graph overlap
			found = w
		}
	}
	return found
}
