package pfsink

import "github.com/cudatrace/cudatrace/convert/timeline"

// hangs draw kernels that had not ended to the end of the recording.
type hangs []*hang

// A hang is a kernel that had not ended.
type hang struct {
	timeline.Hang
	id    uint64        // of its work, where no work has the kernel's record
	call  timeline.Call // its launch, where no work has it
	drawn bool
}

// firstHang is the number of the first piece of work without a record, more than any record's.
const firstHang = 1 << 62

// appendHang appends a kernel that had not ended.
func (h *hangs) appendHang(of *timeline.Hang) {
	*h = append(*h, &hang{Hang: *of, id: firstHang + 1 + uint64(len(*h))})
}

// launched gives the launch of a kernel that has no record the kernel's work.
func (h hangs) launched(t *timeline.Thread, sl *timeline.Slice) *timeline.Slice {
	for _, k := range h {
		if k.LaunchStart == sl.Start && k.LaunchTID == t.TID && k.PID == t.Process.PID && k.call.Function == nil &&
			!sl.HasWork() {
			k.call = timeline.Call{
				Function: sl.Function, Thread: t, Caller: sl.Caller, Python: sl.Python, Operator: sl.Operator, Ranges: sl.Ranges, Start: sl.Start,
				End: sl.End,
			}
			with := *sl
			with.AddWork(k.id)
			return &with
		}
	}
	return sl
}

// of returns the kernel whose record a piece of work is, nil if that had ended.
func (h hangs) of(on *timeline.Stream, w *timeline.Work) *hang {
	for _, k := range h {
		if w.Kind == timeline.KernelWork && w.Dur == 0 && w.Correlation == k.Correlation && w.GraphNode == k.GraphNode &&
			k.LaunchStart == 0 && k.on(on) && !k.drawn {
			return k
		}
	}
	return nil
}

func (k *hang) on(s *timeline.Stream) bool {
	return s.ID == k.Stream && s.Context.ID == k.Context && s.Context.Process.PID == k.PID
}

// guessed reports whether the start of a piece of work is not known: the kernel had not ended, and begins where its
// launch does, or returns.
func guessed(w *timeline.Work) bool {
	return w.Unfinished && (w.ID > firstHang || w.Start <= w.Call.End)
}

// draw makes a piece of work the kernel's.
func (k *hang) draw(w *timeline.Work) {
	k.drawn = true
	w.Start, w.Dur, w.Untimed, w.Unfinished = k.Start, max(k.End, k.Start)-k.Start, false, true
}

// workList writes work of a stream.
func (s *Sink) workList(l *timeline.WorkList) {
	if len(l.List) == 0 {
		return
	}
	for i := 0; len(s.hangs) > 0 && i < len(l.List); i++ {
		if k := s.hangs.of(l.Stream, &l.List[i]); k != nil {
			s.writeWork(&timeline.WorkList{Stream: l.Stream, List: l.List[:i]})
			s.hang(k, l.Stream, l.List[i])
			l, i = &timeline.WorkList{Stream: l.Stream, List: l.List[i+1:]}, -1
		}
	}
	s.writeWork(l)
}

// hang writes a piece of work as a kernel that had not ended.
func (s *Sink) hang(k *hang, on *timeline.Stream, w timeline.Work) {
	k.draw(&w)
	s.works.hang = k.Text
	s.writeWork(&timeline.WorkList{Stream: on, List: []timeline.Work{w}})
}

// drawHangs draws the kernels without a record.
func (s *Sink) drawHangs() {
	for _, k := range s.hangs {
		if on := s.tracks.stream(&k.Hang); on != nil && !k.drawn { // a filter may have left the stream out
			s.hang(k, on, timeline.Work{
				ID: k.id, Call: k.call, Shape: &timeline.Shape{Kernel: timeline.KernelShape{Name: k.Kernel}},
			})
		}
	}
}
