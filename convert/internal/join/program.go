package join

import (
	"fmt"

	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A program is one program in one process.
type program struct {
	*read.Program
	out     *timeline.Process
	names   *read.Names
	offset  uint32 // added to the log's PIDs and TIDs for those of the timeline
	threads map[uint32]*timeline.Thread
	callers int // number of threads that made calls
	streams int // number of streams with work

	horizon    uint64 // when unfinished calls and ranges are cut off
	correlated bool   // see read.Catalog.Correlated
	handedOver uint64 // see read.Catalog.HandedOver
	hasWork    bool
	probed     bool // calls come from probes
	hasMarkers bool
	python     bool // the log has Python stacks
	lacks      bool // records may be missing

	correlation correlationTable
	work        workProgress
	log         *streams // of the log
	graphs      graphs
	captures    *captures   // nil without nodes of graphs
	waits       *waitJoiner // nil without GPU work
	unclosed    uint64      // start of the first open call that may create work

	ranges      *nvtxRanges // this field and those below are nil until there are records for them
	projections *projections
	overheads   *overlapLanes
	pools       *overlapLanes
	memory      *processMemory
	memoryEnds  bool // the end of the process is among the events of memory
}

// newPrograms makes the programs of a log.
func newPrograms(c *read.Catalog, offset uint32, found *Found) map[uint32][]*program {
	all := make(map[uint32][]*program)
	for _, pid := range c.Processes.PIDs {
		p := c.Processes.Get(pid)
		for _, g := range p.Programs {
			all[pid] = append(all[pid], newProgram(c, p, g, offset, found))
		}
	}
	return all
}

func newProgram(c *read.Catalog, of *read.Process, g *read.Program, offset uint32, found *Found) *program {
	p := &program{
		Program: g, names: &c.Names, offset: offset, threads: make(map[uint32]*timeline.Thread),
		horizon: c.Horizon(g), correlated: c.Correlated(g), handedOver: c.HandedOver(g),
		probed: of.Has(tracelog.KindCall), hasWork: of.HasWork() || c.Follows(), hasMarkers: of.Has(tracelog.KindMarker), python: c.Pythons.Any(),
	}
	host := c.Meta[tracelog.MetaHost]
	p.out = &timeline.Process{PID: g.PID + offset, PPID: g.PPID, Name: g.Name, Args: g.Args, Host: host, Start: g.Start, Midway: c.Midway(of, g), Circumstances: g.Circumstances}
	if g.Rank.Known {
		p.out.Name = fmt.Sprintf("%v: %s", g.Rank, g.Name)
	}
	p.out.End, p.out.Exit = c.Ending(g)
	p.out.Communicators = c.Communicators.Sizes(g.PID)
	if offset != 0 {
		p.out.Name += fmt.Sprintf(" (%s, PID %d)", host, g.PID)
	}
	if p.hasWork {
		if c.Nodes.Any() {
			lack := timeline.CapturedBefore
			if !of.Has(tracelog.KindCall) || c.Filtered() {
				lack = timeline.CaptureUnseen
			}
			p.captures = newCaptures(&c.Nodes, p, lack)
		}
		p.waits = newWaitJoiner(c.Outcome.ClockError(), &found.Waits)
	}
	return p
}

// thread returns a thread by its host TID.
func (p *program) thread(tid uint32) *timeline.Thread {
	t := p.threads[tid]
	if t == nil {
		t = &timeline.Thread{Process: p.out, TID: tid + p.offset, Name: p.names.Thread(p.PID, tid), Main: tid == p.PID, Python: p.python}
		p.threads[tid] = t
	}
	return t
}

// endMemory releases the program's memory at its end.
func (p *program) endMemory() {
	if p.memory != nil && !p.memoryEnds {
		p.memoryEnds = true
		p.memory.endsAt(p.horizon)
	}
}

// nvtx returns the program's NVTX ranges.
func (p *program) nvtx(out *spanOutput, found *Found) *nvtxRanges {
	if p.ranges == nil {
		p.ranges = newNVTXRanges(out, &found.NVTX, p.out, p.horizon, p.thread)
	}
	return p.ranges
}

// rangesAt returns the NVTX ranges in which a thread makes a call.
func (p *program) rangesAt(tid uint32, at uint64, found *Found) *timeline.RangeStack {
	if p.ranges == nil {
		return nil
	}
	stack, known := p.ranges.at(tid, at)
	if !known {
		found.Unranged++
	}
	return stack
}

// project puts the NVTX ranges around the launch of a piece of work onto its stream.
func (p *program) project(out *spanOutput, s *timeline.Stream, w *timeline.Work) {
	if p.projections == nil {
		if w.Call.Ranges == nil {
			return
		}
		p.projections = newProjections(out, p.out)
	}
	p.projections.work(s, w)
}

// register joins a closed call with its work. If the work has not come, the call waits for it.
func (p *program) register(c *call, found *workJoiner) {
	p.graphs.called(c)
	p.captures.called(c)
	if c.Correlation == 0 || !p.hasWork {
		return
	}
	if c.fn.MakesStream && c.stream != 0 && p.waits != nil {
		p.made(c)
	}
	t := &p.correlation
	slot := t.fresh(c.Correlation)
	if slot != nil {
		slot.call = c
		c.state |= awaiting
		return
	}
	if slot = t.slot(c.Correlation); slot == nil {
		found.found.Forced++
		return
	}
	if slot.holdsCause(c) {
		return
	}
	c.state |= awaiting
	slot.insertCall(c)
	t.reverse(slot)
	for slot.first != 0 {
		w := t.popOrphan(slot)
		p.adopt(c.Correlation, &w, found)
	}
}

// adopt joins work with its call: now, when the call comes, or when it is certain which call it is.
func (p *program) adopt(correlation uint32, w *orphan, found *workJoiner) {
	if correlation == 0 {
		return
	}
	t := &p.correlation
	switch slot := t.slot(correlation); {
	case slot == nil:
		found.found.Forced++
	case slot.call == nil:
		t.keep(slot, *w)
	case w.body || w.start == 0 || slot.certain() != nil:
		found.attach(w, slot.cause(w.start))
	default:
		t.held = append(t.held, heldWork{*w, correlation})
	}
}

// joinHeld joins the held work that begins before a time up to which all calls of its call's thread are known; with all,
// all of it. Calls with one correlation ID have one thread.
func (p *program) joinHeld(found *workJoiner, all bool) {
	t := &p.correlation
	rest := t.held[:0]
	for i := range t.held {
		w := &t.held[i]
		switch slot := t.find(w.correlation); {
		case slot == nil || slot.call == nil: // the call has been shown
			p.adopt(w.correlation, &w.orphan, found)
		case all || w.start < min(slot.call.stack.known, slot.call.stack.opened(w.correlation)):
			found.attach(&w.orphan, slot.cause(w.start))
		default:
			rest = append(rest, *w)
		}
	}
	clear(t.held[len(rest):])
	t.held = rest
}

// made notes that a call made a stream, if it did.
func (p *program) made(c *call) {
	if key, ok := p.streamOf(c.Correlation); ok {
		p.waits.made(handleUser{c.stream, c.stack.tid}, waitStreamKey{key.Context, key.Stream})
		c.Stream = p.log.made(p, key)
	}
}

// madeUnseen notes that a call made a stream whose handle is not known: no probe saw it.
func (p *program) madeUnseen(correlation uint32) {
	if key, ok := p.streamOf(correlation); ok && p.waits != nil {
		if h := &p.waits.handles; len(h.unseen) < maxUnseenStreams {
			h.unseen = append(h.unseen, waitStreamKey{key.Context, key.Stream})
		}
	}
}

// streamOf returns the stream that the call with a correlation ID made.
func (p *program) streamOf(correlation uint32) (key read.StreamKey, ok bool) {
	key, ok = p.log.catalog.GPUs.Made[read.MadeKey{PID: p.PID, Correlation: correlation}]
	return key, ok
}
