package join

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/pattern"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// nvtxRanges join the markers of a program into ranges. A range that ends on another thread, or
// crosses the end of a range around it, is put on a track of the process.
type nvtxRanges struct {
	rangeStacks
	out     *spanOutput
	process *timeline.Process
	thread  func(tid uint32) *timeline.Thread
	horizon uint64
	open    map[uint32]*openRange // by marker ID
	lanes   map[laneKey]*domainLane
	order   []*domainLane
	crossed map[string]*overlapLanes // by domain
	domains []string                 // keys of crossed, sorted
	counted int64                    // number of the next step whose name has none
}

// A laneKey identifies a thread's track for a domain.
type laneKey struct {
	tid    uint32
	domain string
}

// A domainLane is a thread's track for a domain, with the spans that are not on it yet, by
// start.
type domainLane struct {
	lane
	pending []*span
}

// An openRange is a range that has not ended.
type openRange struct {
	*span
	laneKey
	of *timeline.Range
}

// maxOpenRanges bounds the ranges that have begun but not ended. Further ones are not shown.
const maxOpenRanges = 1 << 18

// newNVTXRanges returns the ranges of a process. Unended ranges end at the horizon. thread
// finds a thread by its host TID.
func newNVTXRanges(out *spanOutput, p *timeline.Process, horizon uint64,
	thread func(tid uint32) *timeline.Thread) *nvtxRanges {
	return &nvtxRanges{out: out, process: p, thread: thread, horizon: horizon, rangeStacks: rangeStacks{output: out},
		counted: out.first, open: make(map[uint32]*openRange), lanes: make(map[laneKey]*domainLane),
		crossed: make(map[string]*overlapLanes)}
}

// markerBefore is the order in which Marker takes markers: by time; at one time, beginnings
// before ends, and the beginning with the smaller ID first.
func markerBefore(a, b *tracelog.Marker) bool {
	return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Flags&tracelog.MarkerEnd, b.Flags&tracelog.MarkerEnd),
		cmp.Compare(a.ID, b.ID)) < 0
}

// ncclCall takes the arguments of a call of NCCL, before the marker at which the call's range begins. Its TID is a
// host TID.
func (r *nvtxRanges) ncclCall(c *tracelog.NCCLCall) { r.of(c.TID).nccl.call(c) }

// marker takes the next marker. Its TID is a host TID.
func (r *nvtxRanges) marker(m *tracelog.Marker) {
	switch {
	case m.Flags&tracelog.MarkerStart != 0:
		r.start(m)
	case m.Flags&tracelog.MarkerEnd != 0:
		o, ok := r.open[m.ID]
		if !ok { // the range began before recording did
			r.out.found.NVTX.Unmatched++
			return
		}
		delete(r.open, m.ID)
		r.end(o, m)
	default:
		r.out.found.NVTX.Marks++
		sp := r.begin(m)
		sp.End, sp.instant, sp.Ranges = m.Time, true, r.innermost(m.TID)
	}
}

func (r *nvtxRanges) start(m *tracelog.Marker) {
	if earlier, ok := r.open[m.ID]; ok { // the end of the earlier range was lost
		r.popRange(earlier.tid, earlier.of, m.Time)
		r.unfinished(earlier)
	} else if len(r.open) >= maxOpenRanges {
		r.out.found.NVTX.Unmatched++
		r.out.found.Unopened++
		return
	}
	sp := r.begin(m)
	sp.Open = true
	if m.Flags&tracelog.MarkerBefore != 0 {
		sp.Flags = timeline.CutBefore
	}
	l := r.lanes[laneKey{m.TID, m.Domain}]
	of := &timeline.Range{Thread: l.track.Thread, Name: sp.Name, Domain: m.Domain, Step: r.step(m)}
	if m.Domain == timeline.NCCLDomain {
		r.of(m.TID).nccl.begin(of)
		sp.Args = of.NCCL.Details(sp.Args)
	}
	sp.Ranges = r.pushRange(m.TID, of, m.Time)
	r.open[m.ID] = &openRange{sp, laneKey{m.TID, m.Domain}, of}
}

// step returns the step that a range is, nil for none. One that began before the recording is not whole.
func (r *nvtxRanges) step(m *tracelog.Marker) *timeline.Step {
	if m.Flags&tracelog.MarkerBefore != 0 || !r.out.steps.Match(m.Name, m.Domain) {
		return nil
	}
	_, n := pattern.Stem(m.Name)
	if n == pattern.Counted {
		n = r.counted
		r.counted++
	}
	return &timeline.Step{Number: n}
}

// begin makes a span at its marker's place.
func (r *nvtxRanges) begin(m *tracelog.Marker) *span {
	sp := &span{Span: timeline.Span{Name: cmp.Or(m.Name, "(unnamed)"), Start: m.Time}}
	l := r.lane(laneKey{m.TID, m.Domain})
	l.pending = append(l.pending, sp)
	r.out.budget.Spans.held++
	return sp
}

func (r *nvtxRanges) lane(key laneKey) *domainLane {
	l := r.lanes[key]
	if l == nil {
		track := &timeline.Track{Process: r.process, Domain: key.domain, Category: timeline.NVTX}
		if key.tid != 0 {
			track.Thread = r.thread(key.tid)
		}
		l = &domainLane{lane: lane{out: r.out, track: track}}
		r.lanes[key] = l
		r.order = append(r.order, l)
	}
	return l
}

func (r *nvtxRanges) end(o *openRange, m *tracelog.Marker) {
	r.out.found.NVTX.Ranges++
	sp := o.span
	o.of.Ended(m.Time - min(m.Time, sp.Start))
	r.popRange(o.tid, o.of, m.Time)
	if o.domain == timeline.NCCLDomain {
		r.of(o.tid).nccl.end(o.of, m.Time)
	}
	if !sp.Open { // the span was cut where the span around it ended
		return
	}
	sp.Open, sp.End = false, m.Time
	if l := r.lanes[o.laneKey]; slices.Contains(l.lane.open, sp) {
		l.cutWithin(sp)
		return
	}
	if m.TID != o.tid {
		sp.Args = append(sp.Args, timeline.Detail{Name: "start_thread", Value: uint64(o.tid)},
			timeline.Detail{Name: "end_thread", Value: uint64(m.TID)})
		sp.moved = true
	}
}

func (r *nvtxRanges) unfinished(o *openRange) {
	r.out.found.NVTX.Unmatched++
	r.out.found.NVTX.Ranges++
	if !o.Open {
		return
	}
	o.Open, o.End, o.Flags = false, max(r.horizon, o.Start), o.Flags|timeline.Unfinished
}

// finish ends the unended ranges and puts all spans on their tracks.
func (r *nvtxRanges) finish() {
	for _, id := range slices.Sorted(maps.Keys(r.open)) {
		r.unfinished(r.open[id])
	}
	clear(r.open)
	r.advance(true)
	for _, l := range r.order {
		l.endAll()
	}
	r.hold(-r.waiting)
}

// advance puts the spans on their tracks whose place is known; with all, those that overlap others, too.
func (r *nvtxRanges) advance(all bool) {
	force := r.out.budget.Spans.over()
	for _, l := range r.order {
		for r.layNext(l, force) {
		}
	}
	for _, domain := range r.domains {
		low := timeline.Never
		for _, l := range r.order {
			if l.track.Domain == domain && len(l.pending) > 0 && !force {
				low = min(low, l.pending[0].Start)
			}
		}
		r.crossed[domain].advance(low, all)
	}
}

// layNext puts the first spans of a lane on their tracks: all that begin at one time. It
// reports false when one of them has not ended. With force an unended span is put on its track
// as containing everything until its end.
func (r *nvtxRanges) layNext(l *domainLane, force bool) bool {
	n := 0
	for n < len(l.pending) && l.pending[n].Start == l.pending[0].Start {
		if l.pending[n].Open && !force {
			return false
		}
		n++
	}
	if n == 0 {
		return false
	}
	first := l.pending[:n]
	slices.SortStableFunc(first, nesting)
	for _, sp := range first {
		if sp.moved || l.track.Thread == nil || !l.fits(sp) {
			r.aside(l.track.Domain).pending.add(r.ended(sp))
			continue
		}
		l.beginSpan(sp)
	}
	l.pending = l.pending[n:]
	r.out.budget.Spans.held -= n
	return true
}

// ended ends a span at the program's end, if it has not ended but holds back too many others.
func (r *nvtxRanges) ended(sp *span) *span {
	if sp.Open {
		sp.Open, sp.End = false, max(r.horizon, sp.Start)
		sp.Args = append(sp.Args, timeline.Detail{Name: "end", Text: "not known: shown before it ended"})
	}
	return sp
}

// aside returns the process's tracks for the ranges of a domain that do not fit on a thread's
// track.
func (r *nvtxRanges) aside(domain string) *overlapLanes {
	l := r.crossed[domain]
	if l == nil {
		track := timeline.Track{Process: r.process, Domain: domain, Category: timeline.NVTX}
		l = newOverlapLanes(r.out, &r.out.budget.Spans, track)
		r.crossed[domain] = l
		r.domains = append(r.domains, domain)
		slices.Sort(r.domains)
	}
	return l
}

// rangeStacks know which ranges of a program were open on each thread at which time. Markers come
// ahead of the calls that are looked up.
type rangeStacks struct {
	threads map[uint32]*threadRanges // by host TID
	until   uint64                   // all markers before this time are known
	waiting int                      // changes that wait for calls
	output  *spanOutput
}

// threadRanges are the open ranges of a thread: latest is the stack after all markers, now the stack
// at the latest call, changes the stacks after now.
type threadRanges struct {
	latest  stackChange
	depth   int // of latest
	now     stackChange
	changes []stackChange
	next    int // the first of changes that is after now
	nccl    ncclThread
}

// A stackChange is the stack of a thread from a time on.
type stackChange struct {
	at    uint64
	stack *timeline.RangeStack
}

// of returns the ranges of a thread.
func (s *rangeStacks) of(tid uint32) *threadRanges {
	t := s.threads[tid]
	if t == nil {
		if s.threads == nil {
			s.threads = make(map[uint32]*threadRanges)
		}
		t = new(threadRanges)
		s.threads[tid] = t
	}
	return t
}

// pushRange puts a range onto its thread's stack and returns the stack.
func (s *rangeStacks) pushRange(tid uint32, r *timeline.Range, at uint64) *timeline.RangeStack {
	if tid == 0 {
		return &timeline.RangeStack{Range: r}
	}
	t := s.of(tid)
	stack := &timeline.RangeStack{Range: r, Outer: t.latest.stack}
	if t.depth == maxDepth {
		s.output.found.TooDeep++
		return stack
	}
	t.depth++
	s.change(t, at, stack)
	return stack
}

// popRange takes a range from its thread's stack.
func (s *rangeStacks) popRange(tid uint32, r *timeline.Range, at uint64) {
	t := s.threads[tid]
	if t == nil {
		return
	}
	if rest, found := without(t.latest.stack, r); found {
		t.depth--
		s.change(t, at, rest)
	}
}

// without returns a stack without one of its ranges.
func without(s *timeline.RangeStack, r *timeline.Range) (rest *timeline.RangeStack, found bool) {
	switch {
	case s == nil:
		return nil, false
	case s.Range == r:
		return s.Outer, true
	}
	outer, found := without(s.Outer, r)
	if !found {
		return s, false
	}
	return &timeline.RangeStack{Range: s.Range, Outer: outer}, true
}

func (s *rangeStacks) change(t *threadRanges, at uint64, stack *timeline.RangeStack) {
	t.latest = stackChange{max(at, t.latest.at), stack}
	t.changes = append(t.changes, t.latest)
	s.hold(1)
}

func (s *rangeStacks) hold(changes int) {
	s.output.budget.Records.set(&s.waiting, s.waiting+changes)
}

// relieve passes the older half of the changes where too many records are held back: the ranges of calls before these
// changes will not be known.
func (s *rangeStacks) relieve() {
	if !s.output.budget.Records.over() {
		return
	}
	for _, t := range s.threads {
		if rest := t.changes[t.next:]; len(rest) > 0 {
			s.pass(t, rest[len(rest)/2].at)
		}
	}
}

// innermost is the stack of a thread after the latest marker.
func (s *rangeStacks) innermost(tid uint32) *timeline.RangeStack {
	if t := s.threads[tid]; t != nil {
		return t.latest.stack
	}
	return nil
}

// passed applies the changes before the time that low returns for a thread: at is asked for no earlier time.
func (s *rangeStacks) passed(low func(tid uint32) uint64) {
	if s.waiting == 0 {
		return
	}
	for tid, t := range s.threads {
		if t.next < len(t.changes) {
			if at := low(tid); at > 0 {
				s.pass(t, at-1)
			}
		}
	}
}

// pass applies the changes of a thread up to a time.
func (s *rangeStacks) pass(t *threadRanges, at uint64) {
	n := t.next
	for n < len(t.changes) && t.changes[n].at <= at {
		n++
	}
	if n == t.next {
		return
	}
	s.hold(t.next - n)
	t.now, t.next = t.changes[n-1], n
	if rest := len(t.changes) - n; n > rest {
		copy(t.changes, t.changes[n:])
		clear(t.changes[rest:])
		t.changes, t.next = t.changes[:rest], 0
	}
}

// at returns the stack of a thread at a time. It is not known if markers before that time have not
// been read, or if changes after that time have been passed. The times of a thread rise.
func (s *rangeStacks) at(tid uint32, at uint64) (stack *timeline.RangeStack, known bool) {
	t := s.threads[tid]
	if t == nil {
		return nil, at < s.until
	}
	s.pass(t, at)
	if at >= s.until || at < t.now.at {
		return nil, false
	}
	return t.now.stack, true
}

// A ncclThread finds the calls of NCCL of a thread that launch their kernels together. Such calls follow each other
// between ncclGroupStart and ncclGroupEnd. A group may be within another one, and then launches nothing. A call may
// make others: their arguments are part of its own.
type ncclThread struct {
	next  *tracelog.NCCLCall // whose range has not begun
	depth int                // groups that have begun
	group *timeline.NCCLGroup
	open  *timeline.Range // the outermost open call that is no beginning or end of a group
}

// call takes the arguments of a call just before its range begins.
func (t *ncclThread) call(c *tracelog.NCCLCall) { t.next = c }

// begin takes a range of NCCL that begins.
func (t *ncclThread) begin(r *timeline.Range) {
	call := t.next
	if t.next = nil; call != nil && call.Name == r.Name {
		r.NCCL = describeNCCL(call)
	}
	switch {
	case r.Name == "ncclGroupStart":
		t.starts()
	case endsGroup(r.Name):
		if t.depth == 1 {
			r.Group = t.group
		}
	case launchesNCCL(r.Name):
		t.callBegins(r)
	}
}

// describeNCCL returns the communicator and the bytes of a call, nil where neither is known.
func describeNCCL(call *tracelog.NCCLCall) *timeline.NCCL {
	n := &timeline.NCCL{Call: call.Name}
	if call.Known&tracelog.NCCLCommunicator != 0 {
		n.Communicator = call.Communicator
	}
	if call.Known&tracelog.NCCLBytes != 0 {
		n.Bytes, n.HasBytes = call.Bytes, true
	}
	if n.Communicator == 0 && !n.HasBytes {
		return nil
	}
	return n
}

func endsGroup(name string) bool { return name == "ncclGroupEnd" || name == "ncclGroupSimulateEnd" }

// launchesNCCL reports whether a function of NCCL may launch a kernel. Those for communicators and memory launch
// none with others.
func launchesNCCL(name string) bool {
	for _, other := range []string{"ncclComm", "ncclGet", "ncclMem", "ncclRedOp"} {
		if strings.HasPrefix(name, other) {
			return false
		}
	}
	return true
}

func pointToPoint(name string) bool { return name == "ncclSend" || name == "ncclRecv" }

func (t *ncclThread) starts() {
	t.depth++
	if t.group == nil {
		t.group = new(timeline.NCCLGroup)
	}
}

// callBegins takes the range of a call.
func (t *ncclThread) callBegins(r *timeline.Range) {
	if t.open != nil && (!pointToPoint(r.Name) || pointToPoint(t.open.Name)) {
		*t = ncclThread{} // recording was off at the end of the open call
	}
	inner := t.open != nil
	if t.group == nil {
		t.group = new(timeline.NCCLGroup)
	}
	if !inner {
		t.open = r
		t.group.Add(r.NCCL)
	}
	if t.depth == 0 {
		r.Group = t.group
	}
}

// end takes the end of a range of NCCL that began on the thread.
func (t *ncclThread) end(r *timeline.Range, at uint64) {
	t.next = nil // of a range whose beginning was lost
	switch {
	case endsGroup(r.Name):
		t.depth = max(0, t.depth-1)
	case r == t.open:
		t.open = nil
	}
	if t.depth == 0 && t.open == nil && t.group != nil {
		t.group.Ended(at)
		t.group = nil
	}
}
