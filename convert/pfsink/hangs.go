package pfsink

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// hangs draw kernels that had not ended to the end of the recording.
type hangs struct {
	held  map[*timeline.Stream]heldWork
	count uint64 // of held works so far
	drawn uint64 // number of kernels that were drawn without a record
}

// A heldWork is the last work of a stream, where that is a kernel without a length: CUPTI handed it
// over before it had ended.
type heldWork struct {
	timeline.Work
	nth uint64
}

// firstHang is the number of the first piece of work without a record, more than any record's.
const firstHang = 1 << 62

// workList writes work of a stream.
func (s *Sink) workList(l *timeline.WorkList) {
	if len(l.List) == 0 {
		return
	}
	if len(s.hangs.held) > 0 {
		s.release(l.Stream)
	}
	if last := &l.List[len(l.List)-1]; last.Kind == timeline.KernelWork && last.Dur == 0 {
		s.hangs.count++
		s.hangs.held[l.Stream] = heldWork{*last, s.hangs.count}
		l = &timeline.WorkList{Stream: l.Stream, List: l.List[:len(l.List)-1]}
	}
	s.writeWork(l)
}

// release writes the work of a stream that is held, if there is any.
func (s *Sink) release(t *timeline.Stream) {
	if w, held := s.hangs.held[t]; held {
		delete(s.hangs.held, t)
		s.writeWork(&timeline.WorkList{Stream: t, List: []timeline.Work{w.Work}})
	}
}

// releaseAll writes all work that is held.
func (s *Sink) releaseAll() {
	held := s.hangs.held
	for _, t := range slices.SortedFunc(maps.Keys(held), func(a, b *timeline.Stream) int { return cmp.Compare(held[a].nth, held[b].nth) }) {
		s.release(t)
	}
}

// hang draws a kernel that had not ended.
func (s *Sink) hang(h *timeline.Hang) {
	t := s.tracks.stream(h)
	if t == nil {
		return // a filter left the stream out
	}
	w := timeline.Work{Shape: &timeline.Shape{Kernel: timeline.KernelShape{Name: h.Kernel}}}
	if held, ok := s.hangs.held[t]; ok && (h.Kernel == "" || held.Shape.Kernel.Name == h.Kernel) {
		w = held.Work
		delete(s.hangs.held, t)
	} else {
		s.hangs.drawn++
		w.ID = firstHang + s.hangs.drawn
	}
	w.Start, w.Dur, w.Untimed, w.Unfinished = h.Start, max(h.End, h.Start)-h.Start, false, true
	s.works.hang = h.Text
	s.writeWork(&timeline.WorkList{Stream: t, List: []timeline.Work{w}})
}
