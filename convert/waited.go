package convert

import (
	"cmp"
	"slices"
)

// closed takes a call that waited, where there are no Sync records to tell.
func (j *waitJoiner) closed(list *waitList, sl *Slice) {
	if j.records || sl.Ret != 0 || sl.Flags != 0 {
		return
	}
	j.pending = append(j.pending, syncRecord{start: sl.Start, end: sl.End, typ: sl.wait, call: sl, list: list})
}

// has says whether a call that began at a time is not shown yet.
func (l *waitList) has(sl *Slice, start uint64) bool {
	i, _ := slices.BinarySearchFunc(l.calls, start, func(a waitCall, at uint64) int { return cmp.Compare(a.Start, at) })
	for ; i < len(l.calls) && l.calls[i].Start == start; i++ {
		if l.calls[i].Slice == sl {
			return true
		}
	}
	return false
}

// joinCall finds what a call waited for from the call alone.
func (j *waitJoiner) joinCall(c *converter, s *syncRecord) {
	if !s.list.has(s.call, s.start) || s.call.first[0] != 0 {
		return
	}
	var work []*recentWork
	var ambiguous bool
	switch s.typ {
	case syncContext:
		work, ambiguous = j.ofContext(s)
	case syncStream:
		work, ambiguous = j.ofStream(s)
	default:
		work, ambiguous = j.only(s, j.all())
	}
	if ambiguous {
		c.found.waits.ambiguous++
	}
	c.waited(s.call, work)
}

// all are the session's queues, by context.
func (j *waitJoiner) all() (queues []*workQueue) {
	for _, context := range j.order {
		queues = append(queues, j.contexts[context]...)
	}
	return queues
}

// ofStream is what a call waited for that names a stream: the stream's last work. A
// handle may have stood for several streams, one after the other.
func (j *waitJoiner) ofStream(s *syncRecord) (work []*recentWork, ambiguous bool) {
	queues := j.streams.of(s.call)
	if len(queues) == 0 {
		return j.only(s, j.streams.unnamed(j.all()))
	}
	if s.call.stream <= threadStream && !oneContext(queues) {
		return j.only(s, queues)
	}
	var last *recentWork
	for _, q := range queues {
		if w := j.last(q, s, s.call); w != nil && (last == nil || w.end() > last.end()) {
			last = w
		}
	}
	if last == nil || last.end() <= s.start && last.awaited {
		return nil, false
	}
	return []*recentWork{last}, false
}

// only is the last work of that queue of several whose work ended within the wait. Where
// there are more of them nothing tells which it was.
func (j *waitJoiner) only(s *syncRecord, queues []*workQueue) (work []*recentWork, ambiguous bool) {
	for _, q := range queues {
		if w := j.last(q, s, s.call); w != nil && w.end() > s.start {
			work = append(work, w)
		}
	}
	if len(work) > 1 {
		return nil, true
	}
	return work, false
}

// ofContext is what a call waited for that waits for a whole context and does not name
// it: the thread's, as far as is known from its launches, or the only one that had work
// and has none left at the end.
func (j *waitJoiner) ofContext(s *syncRecord) (work []*recentWork, ambiguous bool) {
	if len(j.order) == 1 {
		return j.ends(s, j.order[0]), false
	}
	if caller, known := j.streams.callers[s.call.tid]; known && !caller.several {
		return j.ends(s, caller.context), false
	}
	fitting := 0
	for _, context := range j.order {
		if w := j.ends(s, context); len(w) > 0 && !j.busy(s, context) {
			work = w
			fitting++
		}
	}
	if fitting > 1 {
		return nil, true
	}
	return work, false
}

// ends returns the last work before a wait of each stream of a context.
func (j *waitJoiner) ends(s *syncRecord, context uint32) (work []*recentWork) {
	for _, q := range j.contexts[context] {
		if w := j.last(q, s, s.call); w != nil && (w.end() > s.start || !w.awaited) {
			work = append(work, w)
		}
	}
	return work
}

// overlapping is how many pieces of work of a stream may run at once, those of a graph.
const overlapping = 16

// busy says whether a context had work from before a wait that went on after it.
func (j *waitJoiner) busy(s *syncRecord, context uint32) bool {
	limit := end(s.end, j.tolerance)
	for _, q := range j.contexts[context] {
		i, _ := slices.BinarySearchFunc(q.recent, limit, func(w recentWork, at uint64) int { return cmp.Compare(w.start, at) })
		for i = max(i-overlapping, 0); i < len(q.recent); i++ {
			w := &q.recent[i]
			if w.launch != 0 && w.launch < s.start && w.end() > limit {
				return true
			}
			if w.start > limit {
				break
			}
		}
	}
	return false
}
