package join

import (
	"fmt"

	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/livemem"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A program is one program in one process.
type program struct {
	*read.Program
	out     *timeline.Process
	catalog *read.Catalog
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
	python     bool   // the log has Python stacks
	spans      bool   // it has PyTorch's operators with their times
	pythons    uint64 // Python functions that were shown
	operators  uint64 // likewise PyTorch's operators
	lacks      bool   // records may be missing

	correlation correlationTable
	work        workProgress
	graphs      graphs
	captures    *captures   // nil without nodes of graphs
	waits       *waitJoiner // nil without GPU work
	unclosed    uint64      // start of the first open call that may create work

	ranges      *nvtxRanges // this field and those below are nil until there are records for them
	projections *projections
	overheads   *overlapLanes
	pools       *overlapLanes
	memory      *programMemory
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

func newProgram(c *read.Catalog, of *read.ProcessRecords, g *read.Program, offset uint32, found *Found) *program {
	p := &program{
		Program: g, catalog: c, offset: offset, threads: make(map[uint32]*timeline.Thread),
		horizon: c.Horizon(g), correlated: c.Correlated(g), handedOver: c.HandedOver(g),
		// In a log that grows, the first of the probed calls may be still to come.
		probed:  (of.Has(tracelog.KindCall) || c.Follows() && c.MemoryFromCalls()) && !c.CallsFromCallbacks(),
		hasWork: of.HasWork() || c.Follows(), hasMarkers: of.Has(tracelog.KindMarker),
		python: c.Pythons.Any(), spans: c.Processes.Have(tracelog.KindOperatorSpan),
	}
	host := c.Meta[tracelog.MetaHost]
	p.out = &timeline.Process{PID: g.PID + offset, PPID: g.PPID, Name: g.Name, Args: g.Args, Host: host, Start: g.Start,
		Midway: c.Midway(of, g), Circumstances: g.Circumstances}
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
			if !of.Has(tracelog.KindCall) || c.CallsFromCallbacks() || c.Filtered() {
				lack = timeline.CaptureUnseen
			}
			p.captures = newCaptures(&c.Nodes, g, lack)
		}
		p.waits = newWaitJoiner(c.Outcome.ClockError(), &found.Waits)
	}
	return p
}

// thread returns a thread by its host TID.
func (p *program) thread(tid uint32) *timeline.Thread {
	t := p.threads[tid]
	if t == nil {
		t = &timeline.Thread{Process: p.out, TID: tid + p.offset, Name: p.catalog.Names.Thread(p.PID, tid),
			Main: tid == p.PID, Python: p.python, Spans: p.spans}
		p.threads[tid] = t
	}
	return t
}

// locate finds the device of a call by the thread's context. Of one that was made before the recording nothing is
// known, but where the process works on one GPU alone.
func (p *program) locate(c *cudaapi.MemoryCall) {
	if of, known := p.catalog.GPUs.Contexts[read.ContextKey{PID: p.PID, Context: c.Context}]; known {
		livemem.Locate(c, of.Device)
	} else if device, only := p.catalog.GPUs.OnlyDevice(p.PID); only && c.Context != 0 {
		livemem.Locate(c, device)
	}
}

// memoryIn returns the program's part of the usage of memory.
func (p *program) memoryIn(u *memoryUsage) *programMemory {
	if p.memory == nil {
		p.memory = u.process(p.out, func(device uint32) uint32 { return p.catalog.GPUs.IndexOrOwn(p.PID, device) })
		if _, ended := p.catalog.Outcome.EndOf(p.Program); (ended || p.Until != 0) && u.before == 0 {
			p.endMemory()
		}
	}
	return p.memory
}

// endMemory releases the program's memory at its end.
func (p *program) endMemory() {
	if p.memory != nil && !p.memoryEnds {
		p.memoryEnds = true
		p.memory.endsAt(p.horizon)
	}
}

// nvtx returns the program's NVTX ranges.
func (p *program) nvtx(out *spanOutput) *nvtxRanges {
	if p.ranges == nil {
		p.ranges = newNVTXRanges(out, p.out, p.horizon, p.thread)
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
		found.Forced++
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
