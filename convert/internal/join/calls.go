package join

import (
	"cmp"

	"github.com/cudatrace/cudatrace/convert/internal/pipeline"
	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/internal/selection"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/livemem"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// threads have the calls of the threads of a log.
type threads struct {
	owners[read.ThreadKey, read.Call, *stack]
	programs map[uint32][]*program
	output   *stackOutput
	lows     read.ThreadLows
}

type threadCalls = owner[read.ThreadKey, read.Call, *stack]

func newThreads(c *read.Catalog, programs map[uint32][]*program, o *stackOutput) *threads {
	l := &threads{programs: programs, output: o, lows: c.Watermarks.Threads(c)}
	l.byKey = make(map[read.ThreadKey]*threadCalls)
	l.open = func(key read.ThreadKey) (*read.Merger[read.Call], read.Lows) {
		return o.calls.Thread(c.Processes.Get(key.PID)), l.lows.Of(key)
	}
	l.waits = func(s *stack) bool { return s.pending.len() > 0 || len(s.open) > 0 || s.entered }
	return l
}

// merger returns the merger of a thread by its host TID.
func (l *threads) merger(pid, tid uint32) *read.Merger[read.Call] {
	return l.get(read.ThreadKey{PID: pid, TID: tid}).merger
}

// each calls f with every stack of the active threads.
func (l *threads) each(f func(*stack)) {
	for _, t := range l.active {
		for _, s := range t.parts.values {
			f(s)
		}
	}
}

// advance stacks the calls of a thread that begin before low; with all, every call.
func (l *threads) advance(t *threadCalls, low uint64, all bool) {
	t.merger.Until(low, all)
	for r := t.merger.Next(); r != nil; r = t.merger.Next() {
		s := t.parts.get(r.Program, func() *stack {
			return newStack(l.output, l.programs[t.key.PID][r.Program], t.key.TID)
		})
		s.place(r)
	}
	for _, s := range t.parts.values {
		s.known = low
		if !all {
			s.settleEntry(low)
			s.closeUntil(low)
		}
	}
}

// held is the number of records that all threads hold back for later blocks.
func (l *threads) held() (n int) {
	for _, t := range l.active {
		n += t.merger.Held()
	}
	return n
}

// relieve stacks the older half of the records that are held back. A call that lasted for
// hours, or a lost return, holds back everything that its thread did meanwhile.
func (l *threads) relieve() {
	for _, t := range l.active {
		if x := t.merger.Extent(timeline.Never); x.Rows > 0 {
			l.advance(t, x.From+(x.To-x.From)/2+1, false)
		}
	}
}

// A stack rebuilds the call stacks of one thread of a program from records of calls in the
// order of nesting.
type stack struct {
	*stackOutput
	thread
	program *program
	pending queue[call]
	entry   read.Call // the record of a call's entry, if entered
	entered bool      // the record of the same call has not come
	last    uint64    // latest start
	begun   bool      // the sink knows the thread
	launch  int32     // depth of the open launching call, deepest without one
	unnamed bool      // that call is a part of CallStats.Unnamed
	joined  int32     // depth of the outermost call with work, deepest without one
	behind  uint64    // launches with an API record and without a kernel since the thread's latest call with work
	seen    seen
}

// stackOutput has the fields that all stacks share.
type stackOutput struct {
	out       *pipeline.Pipeline
	selection *selection.Selection
	found     *Found
	functions *read.Functions
	calls     *read.Calls
	work      *workJoiner
	memory    *memoryUsage
	chunks    pool[chunk[call]]
}

const deepest = 1<<31 - 1

func newStack(o *stackOutput, p *program, tid uint32) *stack {
	p.callers++
	t := p.thread(tid)
	return &stack{stackOutput: o, thread: thread{Thread: t, tid: tid}, program: p, launch: deepest, joined: deepest,
		pending: queue[call]{pool: &o.chunks}, seen: newSeen(t, p)}
}

// place puts a record on the stack: into the slice of its call if the other source has made
// that slice, else as a new slice.
func (s *stack) place(r *read.Call) {
	switch {
	case r.Ret == cudaapi.OutOfMemory:
		s.join(r)
		s.outOfMemory(r)
		return
	case r.Function.Memory == nil:
		s.join(r)
		return
	}
	allocates := s.memoryCall(r)
	s.join(r)
	s.describe(allocates)
}

// describe has the innermost open call described when it is closed and all that belongs to it is known.
func (s *stack) describe(in *timeline.Call) {
	if in == nil {
		return
	}
	if c := s.open[len(s.open)-1]; c.allocates == nil {
		c.allocates = in
	} else { // the driver's call within a runtime's call
		*in = c.asCause()
	}
}

// outOfMemory takes a call that failed because there was no memory, if it is one that allocates. What it asked for is
// known from its arguments, which an API record lacks.
func (s *stack) outOfMemory(r *read.Call) {
	if !s.program.catalog.MemoryFromCalls() || r.Function.Memory == nil || r.Rank != read.Pair {
		return
	}
	asked, allocates := r.Function.Memory.Requested(r.Arguments.Args)
	if !allocates {
		return
	}
	s.program.locate(&asked)
	if cudaapi.MemoryUseOf(asked.Kind) == cudaapi.DeviceMemory && s.memory.counts(r.End) && len(s.open) > 0 {
		by := new(timeline.Call)
		s.program.memoryIn(s.memory).addRefused(s.tid, &asked, r.End, by)
		s.describe(by)
	}
}

// memoryCall takes a call of a function that allocates, frees, or sets where memory is. It returns where to
// describe a call that allocates, nil for any other one.
func (s *stack) memoryCall(r *read.Call) *timeline.Call {
	if r.Flags&(tracelog.CallUnfinished|tracelog.CallNoReturn|tracelog.CallEntry) != 0 || r.Rank != read.Pair ||
		!s.program.catalog.MemoryFromCalls() {
		return nil
	}
	c, ok := r.Function.Memory.Read(r.Arguments.Args, r.Ret)
	if !ok || !s.memory.counts(livemem.At(&c, r.Start, r.End)) {
		return nil
	}
	s.program.locate(&c)
	return s.program.memoryIn(s.memory).addCall(s.tid, &c, r.Start, r.End)
}

// An entry waits this long for the API record of its call, which begins a few microseconds later, in ns: more, if the
// thread gets no processor in between.
const entryWait = 100e6

// join merges a record with the slice of its call, or begins a slice. A record of an entry belongs to the slice of its
// API record, or waits for it. Without one the begin alone is known of the call.
func (s *stack) join(r *read.Call) {
	s.settleEntry(r.Start)
	s.closeUntil(r.Start)
	if r.Rank == read.Pair || s.entered && !r.Function.Same(s.entry.Function) {
		s.joinEntry()
	}
	entered := s.entered
	s.entered = false
	s.joinNext(r)
	if n := len(s.open); entered && n > 0 {
		s.merge(s.open[n-1], &s.entry, fromPair)
	}
}

// joinEntry begins the slice of a call of which only the entry has a record.
func (s *stack) joinEntry() {
	if s.entered {
		s.entered, s.entry.Flags = false, 0
		s.joinNext(&s.entry)
	}
}

// settleEntry gives up waiting for the API record of an entry, if all records before a time have come.
func (s *stack) settleEntry(at uint64) {
	if s.entered && at > s.entry.Start+entryWait {
		s.joinEntry()
	}
}

func (s *stack) joinNext(r *read.Call) {
	if r.Start < s.last {
		r.Start, r.End = s.last, max(r.End, s.last)
		s.found.Late++
	}
	s.last = r.Start
	s.closeUntil(r.Start)
	if n := len(s.open); n == maxDepth {
		s.open[n-1].End = r.Start
		s.found.TooDeep++
		s.closeUntil(r.Start)
	}
	from := fromAPI
	if r.Rank == read.Pair {
		from = fromPair
	}
	if r.Python != nil || r.Operator != nil { // the calls around it have the same frames
		for _, o := range s.open {
			o.Python, o.Operator = cmp.Or(o.Python, r.Python), cmp.Or(o.Operator, r.Operator)
		}
	}
	if len(s.open) > 0 {
		top := s.open[len(s.open)-1]
		if s.merge(top, r, from) {
			return
		}
		if r.End > top.End {
			r.End = top.End
			s.found.Calls.Clipped++
		}
	}
	if r.Flags&tracelog.CallEntry != 0 {
		s.entry, s.entered = *r, true
		return
	}
	if len(s.open) > 0 {
		from |= s.partner(r, from)
		s.inherit(r)
	}
	if from == fromAPI && r.Function.MakesStream && s.program.probed {
		s.work.madeUnseen(s.program, r.Correlation)
		return // recorded for the stream's sake
	}
	s.push(r, from)
}

func (s *stack) push(r *read.Call, from state) {
	c, _ := s.pending.push()
	fn, flags := r.Function, r.Flags
	c.Caller, c.Python, c.Operator = nil, r.Python, r.Operator
	if r.Caller != nil {
		fn, c.Caller = s.shown(fn, r.Caller, r.Ret), r.Caller.Place
		if len(s.open) == 0 && fn == r.Function && r.Caller.Prepares(fn, r.Ret) {
			flags |= timeline.Prepares
		}
	}
	if fn.Launches {
		from |= launching
	}
	ranges := s.program.rangesAt(s.tid, r.Start, s.found)
	if g := ranges.Group(); g != nil && from&launching != 0 && flags&timeline.Prepares == 0 && !s.withinLaunch() {
		g.Launched()
	}
	// Assign each field: a literal would be built elsewhere and copied.
	c.Function, c.Arguments, c.Start, c.End = &fn.Function, r.Arguments, r.Start, r.End
	c.Stream, c.Kernel, c.Launched, c.Ranges = nil, nil, nil, ranges
	c.Forget()
	c.allocates = nil
	c.Depth, c.Correlation, c.Ret, c.Flags = int32(len(s.open)), r.Correlation, r.Ret, flags
	c.fn, c.stream, c.thread, c.state, c.wait, c.next = fn, fn.StreamHandle(r.Arguments.Args), &s.thread, from, nil, nil
	if fn.Waits != 0 && s.program.waits != nil && !s.withinWait() {
		c.wait = &wait{slice: &c.Slice, kind: fn.Waits, tid: s.tid}
	}
	s.open = append(s.open, c)
}

// withinLaunch reports whether the function of an open call launches a kernel.
func (s *stack) withinLaunch() bool {
	for _, o := range s.open {
		if o.state&launching != 0 {
			return true
		}
	}
	return false
}

// withinWait reports whether the function of an open call waits.
func (s *stack) withinWait() bool {
	for _, o := range s.open {
		if o.fn.Waits != 0 {
			return true
		}
	}
	return false
}

// closeUntil closes the calls that end by a time.
func (s *stack) closeUntil(at uint64) {
	if n := len(s.open); n > 0 && s.open[n-1].End <= at {
		s.joinEntry()
	}
	for n := len(s.open); n > 0 && s.open[n-1].End <= at; n-- {
		s.close(s.open[n-1])
		s.open = s.open[:n-1]
	}
}

func (s *stack) closeAll() {
	s.joinEntry()
	s.closeUntil(timeline.Never)
}

// close finishes a call.
func (s *stack) close(c *call) {
	if c.allocates != nil {
		*c.allocates = c.asCause()
	}
	if c.state&committed == 0 {
		s.work.register(s.program, c)
		if c.wait != nil {
			s.program.waits.closeWait(c.wait, c.stream)
		}
	}
	c.state |= closed
}

// commit shows the open calls, because too many calls within them are held back.
func (s *stack) commit() {
	for _, c := range s.open {
		if c.state&committed == 0 {
			s.work.register(s.program, c)
			c.state |= committed
		}
	}
}

// unclosed is the start of the first open call that may create work. A call is joined with its
// work only when it is closed.
func (s *stack) unclosed() uint64 {
	for _, c := range s.open {
		if c.fn.Waits == 0 && c.state&committed == 0 {
			return c.Start
		}
	}
	return timeline.Never
}

// merge adds another record of a call to the call's slice. It reports false for a record of
// another call.
func (s *stack) merge(c *call, r *read.Call, from state) bool {
	// CUPTI may take the time of a call's end before its callback or behind it.
	same := c.state&from == 0 && c.fn.Same(r.Function)
	switch {
	case c.state&committed != 0 || r.End > c.End && !(same && s.program.catalog.CallsFromCallbacks()):
		return false
	case same:
		s.completeCall(c, r, from)
	case s.isInner(c, r, from):
		s.addInner(c, r, from)
	default:
		return false
	}
	if r.Caller != nil && c.Caller == nil {
		c.Caller = r.Caller.Place
	}
	return true
}

// completeCall adds the record of the other source, uprobe or CUPTI, to a call.
func (s *stack) completeCall(c *call, r *read.Call, from state) {
	renamed := c.fn.Renamed()
	if from == fromAPI {
		c.Correlation = r.Correlation
	} else {
		c.fn, c.Arguments, c.stream = r.Function, r.Arguments, r.Function.StreamHandle(r.Arguments.Args)
		if r.Flags&tracelog.CallEntry == 0 {
			c.Ret, c.Flags = r.Ret, r.Flags|c.Flags&timeline.Prepares
		}
	}
	switch {
	case renamed && from == fromPair:
		c.fn = s.functions.As(c.fn, c.Name)
	case !renamed && r.Caller != nil:
		c.fn = s.shown(c.fn, r.Caller, c.Ret)
	}
	c.Function = &c.fn.Function
	c.state |= from
	s.found.Calls.Joined++
}

// partner notes that a driver call's pair lies within the runtime record around it. It returns
// isPartner if there is such a record.
func (s *stack) partner(r *read.Call, from state) (mark state) {
	if from != fromPair || !r.Function.Driver {
		return 0
	}
	for _, o := range s.open {
		if o.state&fromAPI == 0 || !o.fn.Runtime {
			continue
		}
		mark = isPartner
		if o.stream == 0 {
			o.stream = r.Function.StreamHandle(r.Arguments.Args)
		}
		// A record with a pair of its own was counted when the two were merged.
		if o.state&(fromPair|hasPartner) == 0 {
			o.state |= hasPartner
			s.found.Calls.Joined++
		}
	}
	return mark
}

// emit shows the settled calls, in pre-order; with force all closed calls, with all every call.
func (s *stack) emit(force, all bool) {
	if force && s.pending.len() > len(s.open) && s.pending.front()[0].state&(closed|committed) == 0 {
		s.commit()
	}
	for s.pending.len() > 0 {
		list := s.pending.front()
		n := 0
		for n < len(list) && s.settled(&list[n], force, all) {
			s.show(&list[n])
			n++
		}
		if n == 0 {
			break
		}
		s.pending.pop(n)
	}
	if all && s.begun {
		s.seen.end(s.out)
		s.out.Emit(&timeline.ThreadEnd{Thread: s.Thread})
	}
}

// settled reports whether a call may be shown: it is closed, and its work and its wait have been
// joined or will not come.
func (s *stack) settled(c *call, force, all bool) bool {
	switch {
	case c.state&(closed|committed) == 0:
		return false
	case c.state&awaiting == 0 && c.wait == nil || all:
		return true
	case force:
		s.found.Forced++
		return true
	case c.wait != nil && !s.program.waits.settled(c.wait):
		return false
	}
	return c.state&awaiting == 0 || s.program.work.past(c)
}

// show hands a call on.
func (s *stack) show(c *call) {
	if !s.begun {
		s.begun = true
		s.out.Emit(s.Thread)
	}
	s.finish(c)
	if s.selection.Slice(&c.Slice) {
		s.seen.see(&c.Slice, s.out)
		s.out.Slice(s.Thread, &c.Slice)
	}
	if c.state&closed == 0 { // the stack still needs the open call
		open := *c
		s.open[c.Depth] = &open
	}
}

// kernel returns the kernel that a call without GPU work launched, nil if it is unknown.
func (s *stack) kernel(c *call) *timeline.Kernel {
	if handle, ok := c.fn.KernelHandle(c.Args); ok {
		if k := s.program.Handles.Kernel(handle, c.Start); k != nil {
			return k
		}
	}
	if c.fn.Launches && c.Caller != nil {
		return c.Caller.Stub
	}
	return nil
}

// finish names the kernel of a launch and counts the call.
func (s *stack) finish(c *call) {
	s.program.correlation.release(c)
	if c.fn.LaunchesGraph {
		if o := s.program.captures.origin(c); o != nil {
			c.SetGraph(o)
		}
	}
	if c.wait != nil {
		c.wait.slice = nil
	}
	if c.Depth <= s.joined {
		s.joined = deepest
		if c.HasWork() {
			s.joined = c.Depth
		} else {
			c.Kernel = s.kernel(c)
		}
	}
	if c.Depth <= s.launch {
		s.launch = deepest
		if c.fn.Launches {
			s.launch = c.Depth
			if s.unnamed = c.Ret == 0; s.unnamed {
				s.found.Calls.Launches++
				s.found.Calls.Unnamed++
			}
		}
	}
	switch {
	case c.HasWork() || c.fn.Role == cudaapi.CaptureEnd:
		s.behind = 0
	case c.fn.Launches && c.state&fromAPI != 0 && c.Ret == 0 && c.Depth <= s.launch:
		s.behind++
	}
	if s.unnamed && c.Depth >= s.launch && (c.HasWork() || c.Kernel != nil || s.program.hasWork) {
		s.unnamed = false
		s.found.Calls.Unnamed--
	}
	s.found.Span.widen(c.Start, c.End)
	s.count(c)
}

// count counts a call that is about to be shown.
func (s *stack) count(c *call) {
	n, p := &s.found.Calls, s.program
	// A call may fail before it reaches the probed function.
	if c.state&source == fromAPI && c.Ret == 0 {
		n.Unprobed++
	}
	if p.correlated && c.state&source == fromPair && c.fn.GPUWork && c.Ret == 0 && c.Flags == 0 {
		switch {
		case c.End <= p.handedOver:
			n.Uncorrelated++
		case p.Until != 0:
			n.AtExec++
		default:
			n.AtEnd++
		}
	}
	if c.Flags&timeline.Unfinished != 0 {
		n.Unfinished++
	}
	if c.Depth > 0 || c.Flags&timeline.Prepares != 0 {
		return
	}
	n.Calls++
	n.countFunction(c.Function)
	if c.Caller != nil {
		n.Located++
	}
	if !c.Failed() {
		return
	}
	n.Failed++
	if n.Errors == nil {
		n.Errors = make(map[Failure]uint64)
	}
	n.Errors[Failure{c.Name, c.Library, c.Ret}]++
}

// countUnrun counts the kernels that had not run when a program handed over its last records, before it ended: their
// launches have API records. A kernel that is captured into a graph has no record either: launches count only where the
// thread made no call with work, and ended no capture, after them.
func (s *stack) countUnrun() {
	p := s.program
	switch {
	case s.behind == 0 || !p.correlated || p.handedOver == timeline.Never || p.lacks || !p.hasWork:
	case p.Until != 0:
		s.found.Calls.AtExec += s.behind
	default:
		s.found.Calls.AtEnd += s.behind
	}
}

// The caller record of a driver call may name the runtime's function that the program called. If
// that function was recorded too, both records belong to one call of the program.
//
//	around the driver call                  what is shown
//	nothing recorded                        one slice: the driver's interval, the runtime's name
//	a uprobe pair of the runtime function   one slice: the runtime's interval and name, the arguments of both
//	an API record of the runtime function   two slices with their own names, one inside the other

// shown returns the function for the slice of a call of f. A driver call bears the name of the
// runtime's function that the program called, unless a slice around it bears that name.
func (s *stack) shown(f *read.Function, at *read.Caller, ret int32) *read.Function {
	if at.Function == "" || s.around(at) != nil {
		return f
	}
	return s.functions.Called(f, at, ret)
}

// around returns the open call of the runtime's function that the program called at a place, nil
// if there is none.
func (s *stack) around(at *read.Caller) *call {
	for _, o := range s.open {
		if o.fn.Around(at) {
			return o
		}
	}
	return nil
}

// inherit gives the slice of a runtime call the caller of its driver call.
func (s *stack) inherit(r *read.Call) {
	if r.Caller == nil || r.Caller.Function == "" {
		return
	}
	if o := s.around(r.Caller); o != nil && o.Caller == nil {
		o.Caller = r.Caller.Place
	}
}

// isInner reports whether a driver's record is part of the probed runtime call c: the driver call
// creates the work of c, or its failure made the runtime refuse c, or it carries out c.
func (s *stack) isInner(c *call, r *read.Call, from state) bool {
	switch {
	case c.state&fromPair == 0 || from == fromPair && c.state&innerPair != 0 || from == fromAPI && c.state&innerAPI != 0:
		return false
	case c.state&(innerPair|innerAPI) != 0:
		return c.state&fromAPI == 0 && c.fn.Holds(r.Function)
	case (r.Function.Beside || from == fromAPI && !r.Function.MayWork) &&
		c.fn.Runtime && s.functions.CarriesOut(r.Function, c.fn):
		return true
	case c.state&fromAPI != 0:
		return false
	case r.Caller == nil || !r.Function.Driver || !c.fn.Runtime || !c.fn.Around(r.Caller):
		return false
	}
	return r.Function.MayWork || r.Caller.Refused(r.Function, r.Ret) && r.Ret == c.Ret
}

// addInner makes a driver's record part of the probed runtime call c.
func (s *stack) addInner(c *call, r *read.Call, from state) {
	if from == fromPair || !c.fn.Holds(r.Function) {
		c.fn = s.functions.Joined(c.fn, r.Function)
		c.Function = &c.fn.Function
	}
	if from == fromAPI {
		c.Correlation = r.Correlation
		c.state |= innerAPI
		s.found.Calls.Joined++
		return
	}
	c.Arguments = s.calls.NewArguments(c.fn.JoinedArguments(r.Arguments.Args, c.Arguments.Args))
	c.stream = c.fn.StreamHandle(c.Arguments.Args)
	c.state |= innerPair
}
