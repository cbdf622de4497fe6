package join

import (
	"github.com/cudatrace/cudatrace/convert/internal/pipeline"
	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// events pass the records that are neither calls nor GPU work to their takers.
type events struct {
	catalog  *read.Catalog
	wanted   *read.Wanted
	programs []*program
	byPID    map[uint32][]*program
	found    *Found
	spans    spanOutput
	memory   *memoryUsage

	markers inOrder[marker]
	samples samples
	times   threadTimes

	functions functions
	torch     torchMemory
	operators operators
	takers    map[tracelog.Kind]func(b *tracelog.Block, i int) // takers of a record, by kind
}

// A marker is an NVTX marker of a program, or the arguments of a call of NCCL before the marker at which its range
// begins.
type marker struct {
	program *program
	tracelog.Marker
	call *tracelog.NCCLCall // a call of NCCL in place of a marker; nil for a marker
}

func newEvents(c *read.Catalog, programs []*program, byPID map[uint32][]*program, wanted *read.Wanted, found *Found,
	out *pipeline.Pipeline, spans spanOutput, memory *memoryUsage) *events {
	e := &events{
		catalog: c, wanted: wanted, programs: programs, byPID: byPID, found: found, spans: spans, memory: memory,
		markers: newInOrder(&spans.budget.Records, &found.Late, func(m *marker) uint64 { return m.Time },
			func(a, b *marker) bool { return markerBefore(&a.Marker, &b.Marker) }),
	}
	for _, p := range e.programs {
		if p.hasMarkers {
			p.nvtx(&e.spans)
		}
	}
	e.samples = newSamples(c, byPID, out, &e.spans)
	e.times = newThreadTimes(c, e.program, out, &e.spans)
	e.functions = newFunctions(c, e.program, &e.spans)
	e.operators = operators{catalog: c, program: e.program, out: &e.spans, lanes: make(map[*timeline.Thread]*overlapLanes)}
	e.torch = newTorchMemory(c, e.program, &e.operators, &e.spans)
	e.takers = map[tracelog.Kind]func(b *tracelog.Block, i int){
		tracelog.KindOverhead:     e.overhead,
		tracelog.KindMarker:       e.marker,
		tracelog.KindNCCLCall:     e.ncclCall,
		tracelog.KindMemory:       e.allocation,
		tracelog.KindMemoryPool:   e.pool,
		tracelog.KindSample:       e.samples.readSample,
		tracelog.KindThreadState:  e.times.readState,
		tracelog.KindThreadSample: e.times.readSample,

		tracelog.KindFunctionEvent: e.functions.readEvent,
		tracelog.KindTorchMemory:   e.torch.readBlock,
		tracelog.KindOperatorSpan:  e.operators.readSpan,
	}
	return e
}

// program returns the program that ran under a PID at a time.
func (e *events) program(pid uint32, at uint64) *program {
	return e.byPID[pid][e.catalog.Processes.Get(pid).Programs.At(at)]
}

// dispatch gives each wanted record of a block to the taker of its kind.
func (e *events) dispatch(b *tracelog.Block) {
	take := e.takers[b.Kind]
	if take == nil {
		return
	}
	for i := range b.N {
		if e.wanted.Match(b, i) {
			take(b, i)
		}
	}
}

// newLanes returns the tracks of a program for spans of a category that have no thread.
func (e *events) newLanes(p *program, c timeline.Category) *overlapLanes {
	return newOverlapLanes(&e.spans, &e.spans.budget.Records, timeline.Track{Process: p.out, Category: c})
}

func (e *events) overhead(b *tracelog.Block, i int) {
	var x tracelog.Overhead
	x.Read(b, i)
	start := e.catalog.KnownTime(x.Start)
	p := e.program(x.PID, start)
	if p.overheads == nil {
		p.overheads = e.newLanes(p, timeline.CUPTI)
	}
	sp := timeline.Span{Name: cudaapi.OverheadName(x.OverheadKind), Start: start, End: timeline.End(start, x.Dur)}
	if x.TID != 0 {
		sp.Args = []timeline.Detail{{Name: "thread", Value: uint64(e.catalog.Names.HostTID(x.PID, x.TID))}}
	}
	p.overheads.addSpan(sp)
	e.found.OverheadNS = timeline.End(e.found.OverheadNS, x.Dur)
}

func (e *events) marker(b *tracelog.Block, i int) {
	var m marker
	m.Marker.Read(b, i)
	m.Time, m.TID = e.catalog.KnownTime(m.Time), e.catalog.Names.HostTID(m.PID, m.TID)
	m.program = e.program(m.PID, m.Time)
	e.markers.add(m)
}

// ncclCall takes the arguments of a call of NCCL. On another clock than CUPTI's, the range that follows is not known.
func (e *events) ncclCall(b *tracelog.Block, i int) {
	call := new(tracelog.NCCLCall)
	call.Read(b, i)
	if e.catalog.Outcome.ClockError() != 0 {
		return
	}
	call.TID = e.catalog.Names.HostTID(call.PID, call.TID)
	e.markers.add(marker{program: e.program(call.PID, call.Time), Marker: tracelog.Marker{Time: call.Time}, call: call})
}

// allocation takes a record of memory.
func (e *events) allocation(b *tracelog.Block, i int) {
	if e.catalog.WithoutMemory() != "" {
		return
	}
	var m tracelog.Memory
	m.Read(b, i)
	at := e.catalog.KnownTime(m.Time)
	e.program(m.PID, at).memoryIn(e.memory).addRecord(&m, at)
}

// memoryLow is a lower bound for the times of later events of memory.
func (e *events) memoryLow() uint64 {
	low := min(e.low(tracelog.KindMemory), e.low(tracelog.KindMemoryPool))
	if e.catalog.MemoryFromCalls() {
		for _, p := range e.programs {
			low = min(low, p.correlation.calls)
		}
	}
	return low
}

func (e *events) pool(b *tracelog.Block, i int) {
	var m tracelog.MemoryPool
	m.Read(b, i)
	at := e.catalog.KnownTime(m.Time)
	p := e.program(m.PID, at)
	if p.pools == nil {
		p.pools = e.newLanes(p, timeline.Memory)
	}
	gpu, _ := e.catalog.GPUs.Index(m.PID, m.Device)
	p.memoryIn(e.memory).addPool(&m, at, gpu)
	p.pools.addInstant(timeline.Span{
		Name: "pool " + cudaapi.PoolOperationName(m.Operation), Start: at, End: at,
		Args: []timeline.Detail{
			{Name: "pool", Value: m.Address, Hex: true},
			{Name: "gpu", Value: uint64(gpu)},
			{Name: "size", Value: m.Size},
			{Name: "used", Value: m.Used},
			{Name: "release_threshold", Value: m.ReleaseThreshold},
			{Name: "min_bytes_to_keep", Value: m.MinBytesToKeep},
			{Name: "correlation", Value: uint64(m.Correlation)},
		},
	})
}

// low is a lower bound for the times of later events of a kind.
func (e *events) low(k tracelog.Kind) uint64 { return e.catalog.Watermarks.Kind(k).Low() }

// markersUntil is the time up to which takeMarkers takes markers.
func (e *events) markersUntil() uint64 { return e.low(tracelog.KindMarker) }

// takeMarkers takes the NVTX markers whose order is known; with all, every marker. The calls of that
// time may be stacked afterwards.
func (e *events) takeMarkers(all bool) {
	low := e.markersUntil()
	e.markers.drain(low, all, func(m *marker) {
		if r := m.program.nvtx(&e.spans); m.call != nil {
			r.ncclCall(m.call)
		} else {
			r.marker(&m.Marker)
		}
	})
	if all {
		low = timeline.Never
	}
	for _, p := range e.programs {
		if p.ranges != nil {
			p.ranges.until = low
			p.ranges.relieve()
		}
	}
}

// advance shows the events whose order is known; with all, every event.
func (e *events) advance(all bool) {
	low := e.memoryLow()
	e.memory.advance(low, all)
	e.samples.advance(all)
	e.times.advance(all)
	e.functions.advance(all)
	inOperators := min(e.low(tracelog.KindTorchMemory), e.low(tracelog.KindOperatorSpan))
	e.torch.advance(inOperators, all)
	e.operators.advance(inOperators, all)
	for _, p := range e.programs {
		e.advanceProgram(p, low, all)
	}
}

func (e *events) advanceProgram(p *program, memoryLow uint64, all bool) {
	switch {
	case p.ranges == nil:
	case all:
		p.ranges.finish()
	default:
		p.ranges.advance(false)
	}
	if p.overheads != nil {
		p.overheads.advance(e.low(tracelog.KindOverhead), all)
	}
	if p.pools != nil {
		p.pools.advance(e.low(tracelog.KindMemoryPool), all)
	}
	switch {
	case p.memory == nil:
	case all:
		p.memory.finish()
	case e.catalog.Follows():
		p.memory.emitUntil(memoryLow)
	}
}
