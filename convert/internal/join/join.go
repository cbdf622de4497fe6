package join

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/pipeline"
	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/internal/selection"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/pattern"
	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// Options are the options for joining a log.
type Options struct {
	Selection *selection.Selection // selects the part that is shown; nil for everything
	Steps     pattern.Ranges       // names the NVTX ranges that are steps
	FirstStep int64                // number of the first of those whose names have none, in each process
	OfCalls   bool                 // show only GPU work that has a call
	Filter    *tracelog.Filter     // selects the part of the log that is read; nil for everything
	Threads   read.Threads         // selected by the filter
	Offset    uint32               // added to PIDs and TIDs, so that they differ from those of other logs
	IDs       *WorkIDs             // shared by all logs of the timeline
	Budget    *Budget              // shared by all logs of the timeline
	Damaged   bool                 // parts of the log are missing
	Clock     *timeline.Clock      // that will convert the times of the log

	Collectives CollectiveBounds // what was beyond them, for Found

	// Patience is the time, in ns, after which a call is shown without its work where the work has not
	// come; 0 to wait as long as memory allows. A view of a log that is followed has a patience.
	Patience uint64

	memoryBefore uint64 // see Inherit; 0 for no such time
}

// A Joiner joins the records of a log.
type Joiner struct {
	Found    Found
	programs []*program
	byPID    map[uint32][]*program

	catalog   *read.Catalog
	options   Options
	out       *pipeline.Pipeline
	unread    int // records in the mergers of threads
	pending   int // calls and pieces of work that wait for each other
	wanted    read.Wanted
	threads   *threads
	streams   *streams
	work      *workJoiner
	events    *events
	memory    *memoryUsage
	coming    map[uint32]*coming // by process
	callMerge *read.Calls
	workMerge *read.Works
}

// New returns a joiner for the log with this catalog, whose programs are resolved. The joiner
// hands events to a pipeline.
func New(c *read.Catalog, out *pipeline.Pipeline, o Options) *Joiner {
	j := &Joiner{catalog: c, options: o, out: out, wanted: read.Wanted{Filter: o.Filter, Threads: o.Threads}}
	j.byPID = newPrograms(c, o.Offset, &j.Found)
	for _, pid := range c.Processes.PIDs {
		j.programs = append(j.programs, j.byPID[pid]...)
	}
	lacks := o.Damaged || c.Outcome.LacksWork()
	lacksWork := lacks || o.Filter != nil && len(o.Filter.Kinds)+len(o.Filter.Streams) > 0
	for _, p := range j.programs {
		p.graphs.off, p.lacks = lacksWork, lacks
		p.graphs.one = c.GPUs.ContextsOf(p.PID) == 1
		p.graphs.certain = p.correlated && o.Filter == nil && wholeRecording(c, p.PID)
	}
	j.callMerge, j.workMerge = read.NewCalls(c, &j.wanted, &j.Found.Calls.Counts), read.NewWorks(c, &j.wanted)
	j.work = &workJoiner{out: out, selection: o.Selection, found: &j.Found, ids: o.IDs, ofCalls: o.OfCalls}
	spans := spanOutput{
		emitter: out, selection: o.Selection, steps: o.Steps, first: o.FirstStep, budget: o.Budget, found: &j.Found,
	}
	if f := o.Filter; f != nil {
		spans.from, spans.to = f.From, f.To
	}
	j.memory = newMemoryUsage(&spans, o.memoryBefore)
	j.events = newEvents(c, j.programs, j.byPID, &j.wanted, &j.Found, out, spans, j.memory)
	j.threads = newThreads(c, j.byPID, &stackOutput{out: out, selection: o.Selection, found: &j.Found,
		functions: &c.Functions, calls: j.callMerge, work: j.work, memory: j.memory})
	j.streams = newStreams(c, j.byPID, j.workMerge, out)
	j.work.streams, j.work.spans = j.streams, &j.events.spans
	j.coming = make(map[uint32]*coming)
	j.addComing(c.Processes.PIDs)
	return j
}

// wholeRecording reports whether CUPTI recorded a process from its start to its end, on the clock of the calls.
func wholeRecording(c *read.Catalog, pid uint32) bool {
	off := func(x tracelog.CUPTI) bool { return x.PID == pid && x.Status != "on" }
	return c.Meta[tracelog.MetaPID] != "" && c.Outcome.ClockError() == 0 && !slices.ContainsFunc(c.Outcome.CUPTI, off)
}

// Update takes over what the catalog of a log that is followed has learnt: new processes, what they
// run since, and which have ended.
func (j *Joiner) Update() {
	c := j.catalog
	c.Processes.Update()
	for _, pid := range c.Processes.PIDs {
		of := c.Processes.Get(pid)
		for i := len(j.byPID[pid]); i < len(of.Programs); i++ {
			p := newProgram(c, of, of.Programs[i], j.options.Offset, &j.Found)
			p.work.patience = j.options.Patience
			j.byPID[pid], j.programs = append(j.byPID[pid], p), append(j.programs, p)
			p.out.Clock = j.options.Clock
			j.out.Emit(p.out)
		}
		if j.coming[pid] == nil {
			j.addComing([]uint32{pid})
		}
	}
	j.events.programs = j.programs
	lacksWork := c.Outcome.LacksWork()
	for _, p := range j.programs {
		p.graphs.off, p.lacks = p.graphs.off || lacksWork, p.lacks || lacksWork
		if _, ended := c.Outcome.EndOf(p.Program); ended || p.Until != 0 {
			p.horizon = c.Horizon(p.Program)
			p.endMemory()
		}
	}
}

// coming has lower bounds for the times of the events of a process that come in later blocks. They are asked for with
// each stream, and are the least of all its threads or streams: each steps looks for them once.
type coming struct {
	ofCalls, ofWork read.Lows
	calls, work     uint64 // calls and API records; GPU work
}

func (j *Joiner) addComing(pids []uint32) {
	calls := j.catalog.Watermarks.Processes(pids, tracelog.KindCall, tracelog.KindAPI)
	work := j.catalog.Watermarks.Processes(pids, tracelog.KindKernel)
	for _, pid := range pids {
		j.coming[pid] = &coming{ofCalls: calls[pid], ofWork: work[pid]}
	}
}

// Describe hands on the processes: those with a rank first, in the order of their ranks. Then come the
// processes outside the recording that used its GPUs.
func (j *Joiner) Describe() {
	byRank := func(a, b *program) int { return a.Rank.Compare(b.Rank) }
	programs := slices.SortedStableFunc(slices.Values(j.programs), byRank)
	for _, p := range programs {
		p.out.Clock = j.options.Clock
		j.out.Emit(p.out)
	}
	for _, u := range j.catalog.Users() {
		j.out.Emit(&u)
	}
}

const (
	// stepRows is the number of records that are read between two steps.
	stepRows = 1 << 14

	// workAhead is the time, in ns, by which work is read ahead of its process's calls.
	workAhead = 10e6
)

// Run reads the log again and hands on its events. It reports progress from 0 to 1.
func (j *Joiner) Run(open read.Opener, progress func(share float64)) error {
	rs, err := read.OpenReaders(open, j.catalog.Contents, j.options.Filter)
	if err != nil {
		return err
	}
	defer rs.Close()
	j.callMerge.AddOpen(j.threads.merger)
	rows := 0
	for r := rs.Next(); r != nil; r = rs.Next() {
		rows += r.Block().N
		j.Take(r)
		if rows >= stepRows {
			rows = 0
			j.steps()
			progress(rs.Share(j.catalog.First(), j.catalog.Last()))
			if err := j.out.Err(); err != nil {
				return err
			}
		}
	}
	if err := rs.Err(); err != nil {
		return err
	}
	j.steps()
	j.Finish()
	return nil
}

// Advance hands on the events of a log that is followed as far as their order is known.
func (j *Joiner) Advance() {
	j.steps()
	for _, e := range j.catalog.TakeRemarks() {
		j.out.Emit(e)
	}
}

// Take takes the block that a reader has read. The catalog has the block already.
func (j *Joiner) Take(r *tracelog.Reader) {
	b := r.Block()
	j.catalog.Watermarks.Passed(b)
	switch {
	case b.Kind == tracelog.KindCall || b.Kind == tracelog.KindAPI:
		j.callMerge.Add(r, j.threads.merger)
	case b.Kind.IsWork():
		j.workMerge.Add(r, j.streams.merger)
	default:
		j.events.dispatch(b)
	}
}

// steps shows the events whose order is known, in steps of time. The steps are small, so that
// little memory holds the events between a block and the sink.
func (j *Joiner) steps() {
	for _, c := range j.coming {
		c.calls, c.work = c.ofCalls.Low(), c.ofWork.Low()
	}
	whole := read.NoExtent
	for _, t := range j.threads.active {
		whole.Join(t.merger.Extent(j.callsLow(t.lows.Low())))
	}
	heldWork := 0
	for _, s := range j.streams.active {
		heldWork += s.merger.Held()
		whole.Join(s.merger.Extent(j.workLow(s, heldWork)))
	}
	if whole.Rows > 0 {
		n := uint64(whole.Rows/stepRows + 1)
		for i := range n - 1 {
			j.step(whole.From+(whole.To-whole.From)/n*(i+1), heldWork)
		}
	}
	j.step(timeline.Never, heldWork)
}

// callsLow is the time up to which calls may be stacked: no call before calls will come, and the NVTX
// ranges around these calls are known.
func (j *Joiner) callsLow(calls uint64) uint64 {
	return min(calls, j.events.markersUntil())
}

// workLow is the time up to which the work of a stream may be read: no earlier work will come,
// and the calls of its process have been read nearly as far.
func (j *Joiner) workLow(s *streamWork, held int) uint64 {
	low := s.lows.Low()
	if held > j.options.Budget.Records.Most/2 {
		return low
	}
	return min(low, j.workKnown(s.key.PID))
}

// workKnown is the time up to which all work of a process is read, as far as the log has it. Work waits for calls,
// so it is read little ahead of them. But where the records of one thread come late, the calls of the other threads
// pile up: then their work is read whatever that thread has done.
func (j *Joiner) workKnown(pid uint32) uint64 {
	if j.pending > j.options.Budget.Calls.Most/4 {
		return j.coming[pid].work
	}
	return timeline.End(j.callsLow(j.coming[pid].calls), workAhead)
}

// step shows the events before a time. Later blocks have no events before this time.
func (j *Joiner) step(before uint64, heldWork int) {
	j.events.takeMarkers(false)
	for _, t := range j.threads.active {
		j.threads.advance(t, min(before, j.callsLow(t.lows.Low())), false)
	}
	records := &j.options.Budget.Records
	if records.set(&j.unread, j.threads.held()); records.over() {
		j.threads.relieve()
		records.set(&j.unread, j.threads.held())
	}
	j.noteOpen()
	j.settleCaptures(before)
	for _, s := range j.streams.active {
		j.readWork(s, min(before, j.workLow(s, heldWork)), false)
	}
	force := j.mark(before, false)
	for _, p := range j.programs {
		if p.waits != nil {
			p.waits.joinUntil(j.waitsLow(p, before), force)
		}
	}
	j.events.advance(false)
	j.emit(force, false)
	j.passRanges(before)
	j.threads.rest()
	j.streams.rest()
}

// noteOpen notes up to which time the calls that may create work are closed, for each program.
func (j *Joiner) noteOpen() {
	for _, p := range j.programs {
		p.unclosed = timeline.Never
	}
	j.threads.each(func(s *stack) { s.program.unclosed = min(s.program.unclosed, s.unclosed()) })
}

// settleCaptures gives captured calls to their captures, as far as all calls of their program are known.
func (j *Joiner) settleCaptures(before uint64) {
	for _, p := range j.programs {
		p.captures.settle(min(before, j.callsLow(j.coming[p.PID].calls), p.unclosed))
	}
}

// passRanges forgets the NVTX ranges before the calls that come next, up to a time.
func (j *Joiner) passRanges(before uint64) {
	for _, p := range j.programs {
		if p.ranges != nil {
			p.ranges.passed(func(tid uint32) uint64 {
				return min(before, j.callsLow(j.threads.lows.Of(read.ThreadKey{PID: p.PID, TID: tid}).Low()))
			})
		}
	}
}

// readWork reads the work of a stream that begins before low; with all, all of it.
func (j *Joiner) readWork(s *streamWork, low uint64, all bool) {
	s.merger.Until(low, all)
	for w := s.merger.Next(); w != nil; w = s.merger.Next() {
		j.work.joinWork(j.byPID[s.key.PID][w.Program], j.streams.stream(s, w.Device, w.Program), &w.Work)
	}
}

// mark notes how far the work of each program has been read, and joins held work. It reports whether too
// many calls and pieces of work wait for each other.
func (j *Joiner) mark(before uint64, all bool) (force bool) {
	pending := 0
	j.streams.each(func(_ *program, s *stream) { pending += s.pending.len() })
	for _, p := range j.programs {
		pending += p.captures.unsettledCalls() + p.graphs.unsettledWork()
	}
	j.threads.each(func(s *stack) { pending += s.pending.len() })
	calls := &j.options.Budget.Calls
	calls.set(&j.pending, pending)
	force = calls.over()
	for _, p := range j.programs {
		p.correlation.calls = min(before, j.callsLow(j.coming[p.PID].calls))
		low := min(before, j.coming[p.PID].work, j.workKnown(p.PID))
		j.work.joinHeld(p, false)
		p.work.mark(low)
		if low = min(low, p.correlation.calls, p.unclosed); force {
			low = max(low, p.graphs.newestWork())
			p.captures.settle(p.captures.newestCall())
		}
		p.graphs.settle(low, func(o *waitingWork, launch uint32) { j.work.launched(p, o, launch) })
		if force || all {
			j.work.joinHeld(p, true)
		}
	}
	return force
}

// waitsLow is a time up to which a program's calls and work are known.
func (j *Joiner) waitsLow(p *program, before uint64) uint64 {
	return min(before, j.coming[p.PID].work, j.callsLow(j.coming[p.PID].calls), p.unclosed)
}

// emit shows the finished work and calls.
func (j *Joiner) emit(force, all bool) {
	j.work.showLate(force || all)
	j.streams.each(func(p *program, s *stream) {
		j.work.emit(p, s, min(p.correlation.calls, p.unclosed), force || all)
	})
	for _, t := range j.threads.active {
		t.merger.Trim()
	}
	j.threads.each(func(s *stack) { s.emit(force, all) })
	for _, p := range j.programs {
		switch {
		case p.projections == nil:
		case all:
			p.projections.finish()
		default:
			p.projections.advance()
		}
	}
}

// Finish shows everything left, at the end of the log.
func (j *Joiner) Finish() {
	j.threads.active = j.threads.all
	j.events.takeMarkers(true)
	for _, t := range j.threads.active {
		j.threads.advance(t, timeline.Never, true)
	}
	j.noteOpen()
	j.settleCaptures(timeline.Never)
	for _, s := range j.streams.active {
		j.readWork(s, timeline.Never, true)
	}
	j.threads.each((*stack).closeAll)
	j.noteOpen()
	j.settleCaptures(timeline.Never)
	j.mark(timeline.Never, true)
	for _, p := range j.programs {
		if p.waits != nil {
			p.waits.joinUntil(timeline.Never, true)
		}
	}
	j.events.advance(true)
	j.emit(false, true)
	if j.options.Selection == nil {
		j.threads.each((*stack).countUnrun)
	}
	j.options.Budget.Records.set(&j.unread, 0)
	j.options.Budget.Calls.set(&j.pending, 0)
	j.streams.announceIdle()
	j.events.samples.finish(j.catalog.Last())
	for _, e := range j.catalog.Remarks() {
		j.out.Emit(e)
	}
	f := &j.Found
	for _, p := range j.programs {
		if p.captures != nil {
			f.Uncaptured += p.captures.beyond
		}
	}
	f.Collectives = j.options.Collectives
	f.Taken, f.PeakDevice, f.Untracked = j.wanted.Taken, j.memory.Peak, j.memory.Room.Dropped+j.events.torch.beyond
	f.Metrics = j.events.samples.figures()
	if s := j.options.Selection; s != nil {
		f.LeftOut += s.LeftOut
	}
	for _, text := range f.Notes() {
		j.out.Emit(&timeline.Note{Time: j.catalog.Last(), Text: text})
	}
}

// BeforeTime returns the filter of the records that tell what was live when the time of a filter began; nil where the
// filter has no such time.
func BeforeTime(f *tracelog.Filter) *tracelog.Filter {
	if f == nil || f.From <= 1 {
		return nil
	}
	before := *f
	before.From, before.To, before.Anytime = 0, f.From-1, nil
	before.Kinds = []tracelog.Kind{tracelog.KindCall, tracelog.KindAPI, tracelog.KindMemory}
	for _, t := range schema.Records() {
		if t.Role != schema.Event {
			before.Kinds = append(before.Kinds, t.Kind)
		}
	}
	return &before
}

// Inherit joins the calls before the time of the joiner's filter, and takes over the memory that they left live. The
// catalog is that of the records that BeforeTime selects.
func (j *Joiner) Inherit(before *read.Catalog, open read.Opener) error {
	o := j.options
	o.Filter, o.Selection, o.IDs, o.Budget, o.Offset = BeforeTime(o.Filter), nil, new(WorkIDs), DefaultBudget(), 0
	o.memoryBefore = j.options.Filter.From
	j.memory.from = o.memoryBefore
	earlier := New(before, pipeline.New(nil), o)
	if err := earlier.Run(open, func(float64) {}); err != nil {
		return err
	}
	for _, p := range j.programs {
		_, ended := j.catalog.Outcome.EndOf(p.Program)
		if (ended || p.Until != 0) && p.horizon < o.memoryBefore {
			continue
		}
		programs := earlier.byPID[p.PID]
		same := slices.IndexFunc(programs, func(q *program) bool { return q.Start == p.Start && q.Until == p.Until })
		if same < 0 || programs[same].memory == nil {
			continue
		}
		p.memoryIn(j.memory).inherit(programs[same].memory, o.memoryBefore, func(a *timeline.Allocation) {
			j.describe(p, a)
		})
	}
	j.memory.Room.Dropped += earlier.memory.Room.Dropped
	return nil
}

// describe describes a program's allocation by what this joiner's catalog has.
func (j *Joiner) describe(p *program, a *timeline.Allocation) {
	a.Process = p.out
	if c := &a.Call; c.Function != nil {
		if c.Thread != nil {
			c.Thread = p.thread(c.Thread.TID)
		}
		if c.Caller != nil {
			if known := j.catalog.Callers.ByID(c.Caller.ID); known != nil {
				c.Caller = known.Place
			}
		}
		if c.Python != nil {
			c.Python = cmp.Or(j.catalog.Pythons.ByID(c.Python.ID), c.Python)
		}
		if c.Operator != nil {
			c.Operator = cmp.Or(j.catalog.Operators.ByID(c.Operator.ID), c.Operator)
		}
	}
}

// ProcessCounts are the counts of a process.
type ProcessCounts struct {
	PID     uint32 // as in the log
	Name    string // of the program
	Args    []string
	Threads int    // number of threads that made calls
	Streams int    // number of streams with work
	Exit    string // as that of timeline.Process
	timeline.Circumstances
}

// Processes returns the counts of each process, in the order of first sight.
func (j *Joiner) Processes() []ProcessCounts {
	list := make([]ProcessCounts, 0, len(j.programs))
	for _, p := range j.programs {
		args := slices.Clone(p.Args)
		list = append(list, ProcessCounts{p.PID, p.Name, args, p.callers, p.streams, p.out.Exit, p.Circumstances})
	}
	return list
}

// Notes says for people what is not shown, or not as it was, because a bound was met: one line for each bound.
func (f *Found) Notes() (notes []string) {
	for _, of := range []struct {
		n               uint64
		one, many, what string
	}{
		{f.Forced, "call was", "calls were",
			"shown before everything that may belong to a call was read: arrows and NVTX ranges may be missing"},
		{f.Late, "call or other record", "calls and other records",
			"came too late in the log to be shown in order: slices may begin later"},
		{f.TooDeep, "call, range or function", "calls, ranges and functions", "inside too many others: cut off or left out"},
		{f.Untracked, "allocation or memory pool is", "allocations and memory pools are",
			"not counted: there were more than " + figures.Group(MaxAllocations)},
		{f.Waits.Partial, "wait was", "waits were",
			"looked at with a part of the streams, their handles or their work: there were too many, and arrows may be missing"},
		{f.Unopened, "NVTX range is", "NVTX ranges are",
			"not shown: more than " + figures.Group(maxOpenRanges) + " were open"},
		{f.Uncaptured, "captured call or graph was", "captured calls and graphs were",
			"not kept: there were more than " + figures.Group(maxCaptured) + ", and work of their graphs has no captured call"},
		{f.Collectives.LeftOut, "kernel of NCCL is", "kernels of NCCL are",
			fmt.Sprintf("in no collective: of a log %d processes count, of each %d streams and communicators",
				maxSourceProcesses, maxSequences)},
		{f.Collectives.Unnamed, "call of NCCL and of CUDA in it does", "calls of NCCL and of CUDA in them do",
			"not name the communicators of kernels: there were more than " + figures.Group(mostOfNCCL)},
	} {
		if of.n > 0 {
			notes = append(notes, figures.Count(of.n, of.one, of.many)+" "+of.what)
		}
	}
	return notes
}
