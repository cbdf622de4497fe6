package join

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// joinRecord finds the call that made a Sync record and the work for which the call waited. It
// reports false when the call is not closed.
func (j *waitJoiner) joinRecord(w *wait, all bool) bool {
	call, ambiguous := j.callOf(w)
	if call == nil {
		j.stats.Unmatched++
		return true
	}
	if !call.closed && !all && j.pending.Len() <= maxPendingWaits {
		return false
	}
	call.used = true
	if ambiguous {
		j.stats.Ambiguous++
	}
	if !call.HasWork() { // a call with work is a copy that waits for itself
		j.waited(call, j.workOf(w, call))
	}
	return true
}

// callOf finds the call that made a record: by correlation ID if an API record has it, else by
// time. It reports whether several calls fit.
func (j *waitJoiner) callOf(w *wait) (best *waitingCall, ambiguous bool) {
	if w.correlation != 0 {
		if call := j.byCorrelation(w.correlation); call != nil {
			return call, false
		}
	}
	fitting := 0
	for _, t := range j.threads {
		call := t.candidate(w, j.tolerance)
		if call == nil {
			continue
		}
		if call.Type == w.typ {
			fitting++
		}
		if best == nil || fitsBetter(call, best, w) {
			best = call
		}
	}
	return best, fitting > 1
}

// candidate returns the call of a thread that fits a record best, nil for none.
func (t *waitThread) candidate(w *wait, tolerance uint64) (best *waitingCall) {
	first, _ := slices.BinarySearchFunc(t.calls, w.start, func(c *waitingCall, at uint64) int {
		return cmp.Compare(timeline.End(c.End, tolerance), at)
	})
	for i := first; i < len(t.calls) && t.calls[i].Start <= timeline.End(w.end, tolerance) && i < first+waitLookBack; i++ {
		call := t.calls[i]
		holds := call.Start <= timeline.End(w.start, tolerance) && timeline.End(call.End, tolerance) >= w.end
		held := w.start <= timeline.End(call.Start, tolerance) && timeline.End(w.end, tolerance) >= call.End
		if (holds || held) && !call.used && (best == nil || fitsBetter(call, best, w)) {
			best = call
		}
	}
	return best
}

// fitsBetter reports whether a call fits a record better than another call: its function makes such
// records, it shares more time with the record, it has less time outside the record.
func fitsBetter(a, b *waitingCall, w *wait) bool {
	if (a.Type == w.typ) != (b.Type == w.typ) {
		return a.Type == w.typ
	}
	if x, y := sharedTime(a, w), sharedTime(b, w); x != y {
		return x > y
	}
	return a.End-a.Start < b.End-b.Start
}

// sharedTime is the time that a call and a record share.
func sharedTime(c *waitingCall, w *wait) uint64 {
	from, to := max(c.Start, w.start), min(c.End, w.end)
	return to - min(from, to)
}

// workOf returns the work for which a call waited, by its record: the last work of the stream.
// Of several streams those count whose work ended within the wait.
func (j *waitJoiner) workOf(w *wait, call *waitingCall) (list []lastWork) {
	if w.stream != noStream && w.typ != cudaapi.ContextWait {
		s := j.streams[waitStreamKey{w.context, w.stream}]
		if s == nil {
			return nil
		}
		if r := j.last(s, w, call); r != nil && (r.end() > w.start || !r.awaited) {
			return []lastWork{{r, s}}
		}
		return nil
	}
	for _, s := range j.contexts[w.context] {
		if r := j.last(s, w, call); r != nil && (r.end() > w.start || w.typ == cudaapi.ContextWait && !r.awaited) {
			list = append(list, lastWork{r, s})
		}
	}
	// An event belongs to one stream, but the record does not say to which.
	if w.typ == cudaapi.EventWait && len(list) > 1 {
		return nil
	}
	return list
}
