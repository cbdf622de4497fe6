package join

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// join finds the work for which a call waited.
func (j *waitJoiner) join(w *wait) {
	if w.call.shown || w.call.HasWork() {
		return
	}
	var list []lastWork
	var ambiguous bool
	switch w.call.Type {
	case cudaapi.ContextWait:
		list, ambiguous = j.ofContext(w)
	case cudaapi.StreamWait:
		list, ambiguous = j.ofStream(w)
	default:
		list, ambiguous = j.onlyOne(w, j.all())
	}
	if ambiguous {
		j.stats.Ambiguous++
	}
	j.waited(w.call, list)
}

// all returns the program's streams, by context.
func (j *waitJoiner) all() (streams []*waitStream) {
	for _, context := range j.order {
		streams = append(streams, j.contexts[context]...)
	}
	return streams
}

// ofStream returns the work for which a call with a stream's handle waited: the stream's last
// work. A handle may have stood for several streams, one after the other.
func (j *waitJoiner) ofStream(w *wait) (list []lastWork, ambiguous bool) {
	streams := j.handles.of(w.call)
	last := j.lastOf(w, streams)
	if last.recentWork == nil {
		last = j.unseen(w)
	}
	if len(streams) == 0 && last.recentWork == nil {
		return j.onlyOne(w, j.handles.unnamed(j.all()))
	}
	if w.call.Stream <= read.ThreadStream && !oneContext(streams) {
		return j.onlyOne(w, streams)
	}
	if last.recentWork == nil || last.end() <= w.start && last.awaited {
		return nil, false
	}
	return []lastWork{last}, false
}

// lastOf returns the last work of some streams before a wait.
func (j *waitJoiner) lastOf(w *wait, streams []*waitStream) (last lastWork) {
	for _, s := range streams {
		if r := j.last(s, w); r != nil && (last.recentWork == nil || r.end() > last.end()) {
			last = lastWork{r, s}
		}
	}
	return last
}

// unseen returns the last work before a wait of the only stream that had some then and whose handle nobody saw.
func (j *waitJoiner) unseen(w *wait) (last lastWork) {
	if h := w.call.Stream; h <= read.ThreadStream || j.handles.idle[h] {
		return lastWork{} // the default stream, or one that was made and has no work
	}
	if len(j.handles.unseen) == maxUnseenStreams {
		return lastWork{}
	}
	for _, s := range j.handles.unnamed(j.all()) { // one that was made while nothing was recorded
		key := waitStreamKey{s.out.Context.ID, s.out.ID}
		if !s.out.Default && !slices.Contains(j.handles.unseen, key) && j.last(s, w) != nil {
			return lastWork{}
		}
	}
	for _, key := range j.handles.unseen {
		if s := j.streams[key]; s != nil {
			if r := j.last(s, w); r != nil {
				if last.recentWork != nil {
					return lastWork{}
				}
				last = lastWork{r, s}
			}
		}
	}
	return last
}

// onlyOne returns the last work of the only stream whose work ended within the wait. With
// several such streams nothing tells which one the call waited for.
func (j *waitJoiner) onlyOne(w *wait, streams []*waitStream) (list []lastWork, ambiguous bool) {
	for _, s := range streams {
		if r := j.last(s, w); r != nil && r.end() > w.start {
			list = append(list, lastWork{r, s})
		}
	}
	if len(list) > 1 {
		return nil, true
	}
	return list, false
}

// ofContext returns the work for which a call waited that waits for a whole context without
// naming it. The context is that of the thread, if its launches tell it, or else the only
// context that had work and has none left at the end.
func (j *waitJoiner) ofContext(w *wait) (list []lastWork, ambiguous bool) {
	if len(j.order) == 1 {
		return j.ends(w, j.order[0]), false
	}
	if own, known := j.handles.callers[w.call.TID]; known && !own.several {
		return j.ends(w, own.context), false
	}
	fitting := 0
	for _, context := range j.order {
		if r := j.ends(w, context); len(r) > 0 && !j.contextBusy(w, context) {
			list = r
			fitting++
		}
	}
	if fitting > 1 {
		return nil, true
	}
	return list, false
}

// ends returns the last work before a wait, for each stream of a context.
func (j *waitJoiner) ends(w *wait, context uint32) (list []lastWork) {
	for _, s := range j.contexts[context] {
		if r := j.last(s, w); r != nil && (r.end() > w.start || !r.awaited) {
			list = append(list, lastWork{r, s})
		}
	}
	return list
}

func (j *waitJoiner) contextBusy(w *wait, context uint32) bool {
	for _, s := range j.contexts[context] {
		if j.busy(s, w) {
			return true
		}
	}
	return false
}
