package join

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// projections put the NVTX ranges of a program onto the streams where their work ran: a range lies
// from the start of its first piece of work on the stream to the end of its last one. The ranges of
// each thread have tracks of their own beside a stream, where they nest as on the thread.
type projections struct {
	out     *spanOutput
	process *timeline.Process
	rows    map[rowKey]*projectedRow
	order   []*projectedRow
	latest  *projectedRow
}

// A rowKey identifies the ranges of a thread on a stream.
type rowKey struct {
	stream *timeline.Stream
	thread *timeline.Thread
}

// A projectedRow has the ranges of a thread on a stream.
type projectedRow struct {
	rowKey
	lanes   []*lane
	within  *timeline.RangeStack // of the latest work
	path    []*timeline.RangeStack
	open    []*projection // the ranges of path
	before  []*projection // the value of open before the latest work
	pending []*projection // by start
}

// A projection is a range on a stream.
type projection struct {
	span
	of         *timeline.Range
	outer      *projection
	lane       *lane  // where it lies, nil while it is pending
	busy       uint64 // ns in which work of the range ran
	launch     uint64 // start of the call of the latest work
	launches   uint64 // calls that caused the work
	operations uint64 // pieces of work
}

// newProjections returns the projections of a process's ranges.
func newProjections(out *spanOutput, p *timeline.Process) *projections {
	return &projections{out: out, process: p, rows: make(map[rowKey]*projectedRow)}
}

// work takes the next work of a stream, with its call.
func (p *projections) work(s *timeline.Stream, w *timeline.Work) {
	if w.Call.Thread == nil || w.Untimed {
		return
	}
	r := p.row(rowKey{s, w.Call.Thread}, w.Call.Ranges != nil)
	if r == nil {
		return
	}
	if r.within != w.Call.Ranges {
		p.out.budget.Spans.held += r.enter(w.Call.Ranges, w.Start)
	}
	for _, x := range r.open {
		x.project(w)
	}
}

// row returns the row of a thread on a stream. A row that is not there is made on request.
func (p *projections) row(key rowKey, wanted bool) *projectedRow {
	if p.latest != nil && p.latest.rowKey == key {
		return p.latest
	}
	r := p.rows[key]
	if r == nil {
		if !wanted {
			return nil
		}
		r = &projectedRow{rowKey: key}
		p.rows[key] = r
		p.order = append(p.order, r)
	}
	p.latest = r
	return r
}

// enter ends the projections of ranges that are not in a stack, and begins those of the other
// ranges of the stack. It returns the number of projections that began.
func (r *projectedRow) enter(stack *timeline.RangeStack, at uint64) (begun int) {
	r.within, r.path = stack, stack.Path(r.path[:0])
	r.open, r.before = r.before[:0], r.open
	for _, s := range r.path {
		i := slices.IndexFunc(r.before, func(x *projection) bool { return x != nil && x.of == s.Range })
		if i >= 0 {
			r.open = append(r.open, r.before[i])
			r.before[i] = nil
			continue
		}
		x := &projection{of: s.Range}
		x.Name, x.Start, x.End, x.Open, x.Ranges = s.Name, at, at, true, s
		if n := len(r.open); n > 0 {
			x.outer = r.open[n-1]
		}
		r.open, r.pending = append(r.open, x), append(r.pending, x)
		begun++
	}
	r.closeBefore()
	return begun
}

// closeBefore closes the projections that are left in before.
func (r *projectedRow) closeBefore() {
	for _, x := range r.before {
		if x != nil {
			x.close()
		}
	}
	clear(r.before)
}

// project adds work to the range's projection on the GPU.
func (x *projection) project(w *timeline.Work) {
	end := timeline.End(w.Start, w.Dur)
	if end > x.End {
		x.busy += end - max(w.Start, x.End)
		x.End = end
	}
	if x.operations == 0 || x.launch != w.Call.Start {
		x.launch = w.Call.Start
		x.launches++
	}
	x.operations++
}

// close ends a projection at the end of its work.
func (x *projection) close() {
	x.Open = false
	if x.of.Domain != "" {
		x.Args = append(x.Args, timeline.Detail{Name: "domain", Text: x.of.Domain})
	}
	if dur, known := x.of.Duration(); known {
		x.Args = append(x.Args, timeline.Detail{Name: "cpu_duration_ns", Value: dur})
	} else {
		x.Args = append(x.Args, timeline.Detail{Name: "unfinished", Text: "had not ended when recording did"})
	}
	x.Args = append(x.Args,
		timeline.Detail{Name: "gpu_busy_ns", Value: x.busy},
		timeline.Detail{Name: "launches", Value: x.launches},
		timeline.Detail{Name: "gpu_operations", Value: x.operations})
	if x.lane != nil {
		x.lane.cutWithin(&x.span)
	}
}

// advance puts the ranges on their tracks whose place is known. A range that stays open holds back
// the ranges in it, until too many spans are held back: then it is put on its track as containing
// everything until its end.
func (p *projections) advance() {
	force := p.out.budget.Spans.over()
	for _, r := range p.order {
		p.lay(r, force)
	}
}

// finish ends all ranges.
func (p *projections) finish() {
	for _, r := range p.order {
		r.enter(nil, 0)
		p.lay(r, false)
		for _, l := range r.lanes {
			l.endAll()
		}
	}
}

// lay puts the first ranges of a row on its tracks, up to one that has not ended.
func (p *projections) lay(r *projectedRow, force bool) {
	laid := 0
	for laid < len(r.pending) {
		n := together(r.pending[laid:], force)
		if n == 0 {
			break
		}
		for _, x := range r.pending[laid : laid+n] {
			p.place(r, x)
		}
		laid += n
	}
	p.out.budget.Spans.held -= laid
	rest := copy(r.pending, r.pending[laid:])
	clear(r.pending[rest:])
	r.pending = r.pending[:rest]
}

// together puts the first ranges of a list, all that begin at one time, in the order of nesting. It
// returns their number, or 0 if one of them has not ended. With force that does not matter.
func together(list []*projection, force bool) (n int) {
	for n < len(list) && list[n].Start == list[0].Start {
		if list[n].Open && !force {
			return 0
		}
		n++
	}
	slices.SortStableFunc(list[:n], func(a, b *projection) int { return nesting(&a.span, &b.span) })
	return n
}

// place puts a range on a track: on that of the range around it, else on the first where it fits.
func (p *projections) place(r *projectedRow, x *projection) {
	x.lane = r.lane(x)
	switch {
	case x.lane != nil:
		x.lane.beginSpan(&x.span)
	case len(r.lanes) == maxLanes:
		x.lane = r.lanes[maxLanes-1]
		x.lane.cut(&x.span)
	default:
		x.lane = &lane{out: p.out, track: &timeline.Track{
			Process: p.process, Thread: r.thread, Stream: r.stream, Category: timeline.GPURanges}}
		r.lanes = append(r.lanes, x.lane)
		x.lane.beginSpan(&x.span)
	}
}

// lane returns a lane where a range fits, nil if there is none.
func (r *projectedRow) lane(x *projection) *lane {
	if x.outer != nil && x.outer.lane != nil && x.outer.lane.fits(&x.span) {
		return x.outer.lane
	}
	for _, l := range r.lanes {
		if l.fits(&x.span) {
			return l
		}
	}
	return nil
}
