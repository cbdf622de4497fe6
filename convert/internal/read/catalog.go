package read

import (
	"fmt"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Catalog is the result of the first reading of a log.
type Catalog struct {
	Meta          map[string]string // the facts of the recording, by the keys of Meta records
	Clocks        Clocks
	Functions     Functions
	Callers       Callers
	Pythons       Pythons
	Operators     Operators
	Natives       Natives
	Processes     Processes
	Names         Names
	GPUs          GPUs
	Nodes         GraphNodes // none for a log that is followed
	Metrics       Metrics
	Communicators Communicators
	OpenCalls     tracelog.OpenCalls
	Outcome       Outcome
	Watermarks    Watermarks
	Totals        [256]uint64 // records by kind
	// records of kinds that this version does not know, by the name of the kind; they are left out
	Unknown    map[string]uint64
	Contents   *tracelog.Contents // the blocks that were read, for the second reading
	Unfinished bool               // there are calls that had not returned when recording ended
	NCCL       bool               // there may be kernels of NCCL
	Began      uint64             // the first GPU work of the log, which a filter may leave out; 0 when not known

	first, last uint64 // earliest and latest time in the log
	filter      *tracelog.Filter
	follows     bool
}

// NewCatalog returns the catalog of the records that a filter selects; nil selects all records.
func NewCatalog(filter *tracelog.Filter) *Catalog {
	return &Catalog{
		Meta:       make(map[string]string),
		Functions:  newFunctions(),
		Callers:    Callers{distinct: make(map[tracelog.Caller]*Caller)},
		Pythons:    newStacks[timeline.PythonFrame, timeline.Python, pythonKind](),
		Natives:    newStacks[timeline.NativeFrame, timeline.Native, nativeKind](),
		Operators:  newOperators(),
		Processes:  newProcesses(),
		Names:      newNames(),
		GPUs:       newGPUs(),
		Outcome:    newOutcome(),
		Watermarks: newWatermarks(),
		first:      timeline.Never,
		filter:     filter,
	}
}

// NewFollowing returns the catalog of a log that still grows and is read once: a block goes to the
// catalog and then to the joiner. So that it takes no more memory the longer the log is, it keeps
// no blocks. Where the log says nothing of how far it is complete, watermarks follow the newest
// statement (Outcome.known).
func NewFollowing() *Catalog {
	c := NewCatalog(nil)
	c.follows = true
	c.Watermarks.follow(c.Outcome.known)
	return c
}

// Follows reports whether the log still grows and is read once.
func (c *Catalog) Follows() bool { return c.follows }

// First is the earliest time in the log, 0 where it has none.
func (c *Catalog) First() uint64 {
	if c.last == 0 {
		return 0
	}
	return c.first
}

// Last is the latest time in the log, 0 where it has none.
func (c *Catalog) Last() uint64 { return c.last }

// Filtered reports whether a filter left records out.
func (c *Catalog) Filtered() bool { return c.filter != nil }

// Read takes the intact blocks that a reader has left. The reader reports damage; Read returns
// only errors of reading the file. Now and then it calls progress with the share of the file
// that has been read.
func (c *Catalog) Read(r *tracelog.Reader, progress func(share float64)) error {
	r.Remember()
	for n := 0; ; n++ {
		if more, err := c.Next(r); err != nil {
			return err
		} else if !more {
			break
		}
		if n%64 == 0 {
			progress(float64(r.BytesRead()) / float64(max(r.Size(), 1)))
		}
	}
	c.Contents = r.Contents()
	c.NCCL = r.HasText(isNCCL)
	if err := r.Err(); err != nil && !tracelog.IsDamage(err) {
		return err
	}
	c.endOpenCalls()
	return nil
}

// Next takes the next block of a reader, if there is one. The error says that the log is beyond the
// limits of a catalog.
func (c *Catalog) Next(r *tracelog.Reader) (bool, error) {
	more := r.Next()
	if !more || c.follows {
		c.Outcome.refuse(r.Refused())
	}
	if !more {
		return false, nil
	}
	c.Take(r.Block())
	if err := c.excess(); err != nil {
		return false, fmt.Errorf("%s %w", r.Name(), err)
	}
	return true, nil
}

// Take takes a block.
func (c *Catalog) Take(b *tracelog.Block) {
	c.Totals[b.Kind] += uint64(b.N)
	if !b.Known() {
		c.leaveOut(b)
		return
	}
	c.Metrics.Take(b)
	if p := PlacementOf(b.Kind); p != nil {
		c.events(b, p)
		return
	}
	for i := range b.N {
		if c.filter == nil || c.filter.Match(b, i) || b.Kind == tracelog.KindEnd {
			c.record(b, i)
		}
	}
}

// leaveOut notes a block of a kind that this version does not know.
func (c *Catalog) leaveOut(b *tracelog.Block) {
	if c.Unknown == nil {
		c.Unknown = make(map[string]uint64)
	}
	c.Unknown[b.Name()] += uint64(b.N)
}

// record takes a record of a kind that is not an event.
func (c *Catalog) record(b *tracelog.Block, i int) {
	switch b.Kind {
	case tracelog.KindMeta:
		var m tracelog.Meta
		m.Read(b, i)
		c.Meta[m.Key] = m.Value
	case tracelog.KindFunction:
		c.Functions.learn(b, i)
	case tracelog.KindCaller:
		c.Callers.learn(b, i)
	case tracelog.KindPythonFrame, tracelog.KindPythonStack, tracelog.KindNativeFrame, tracelog.KindNativeStack:
		c.takeFrames(b, i)
	case tracelog.KindOperatorStack:
		c.Operators.take(b, i)
	case tracelog.KindProcess, tracelog.KindSymbol:
		c.see(c.Processes.learn(b, i))
	case tracelog.KindThread, tracelog.KindName:
		c.Names.learn(b, i)
	case tracelog.KindClock:
		c.see(c.Clocks.learn(b, i))
	case tracelog.KindDevice, tracelog.KindContext, tracelog.KindStream:
		c.GPUs.learn(b, i)
	case tracelog.KindGPUUser:
		c.Metrics.takeUser(b, i)
	case tracelog.KindOpenCall:
		c.see(c.OpenCalls.Learn(b, i))
	default:
		c.see(c.Outcome.learn(b, i))
	}
}

// see extends the time span of the log to a known time.
func (c *Catalog) see(at uint64) {
	if at != 0 {
		c.first, c.last = min(c.first, at), max(c.last, at)
	}
}

// events takes a block of events, which the second reading will go through.
func (c *Catalog) events(b *tracelog.Block, p *Placement) {
	pid := keyOf(b, "pid")
	if b.Kind != tracelog.KindSample { // most samples are those of a GPU
		c.Processes.seen(b.Kind, pid)
	}
	if p.device != "" {
		devices := b.Column(p.device)
		c.GPUs.used(pid, &devices)
	}
	if b.Kind.IsWork() {
		c.GPUs.ran(b)
	}
	if b.Kind.IsWork() && !c.follows {
		c.Nodes.take(b)
	}
	low, high := c.span(b, p)
	if p.as == tracelog.KindKernel && high != 0 {
		c.GPUs.worked(b, timeline.Extent{Start: low, End: high})
	}
	c.Watermarks.noteBlock(b, p, low)
	if b.Kind == tracelog.KindNCCLCall {
		c.ncclCalls(b)
	}
	if b.Kind == tracelog.KindCall || b.Kind == tracelog.KindAPI {
		c.Unfinished = c.Unfinished || unfinished(b)
		c.OpenCalls.Take(b)
	}
}

func (c *Catalog) ncclCalls(b *tracelog.Block) {
	for i := range b.N {
		if c.filter == nil || c.filter.Match(b, i) && c.filter.InTime(b, i) {
			c.Communicators.learn(b, i)
		}
	}
}

// unfinished reports whether a block has calls that had not returned when recording ended.
func unfinished(b *tracelog.Block) bool {
	flags := b.Column("flags")
	if all, same := flags.Const(); same {
		return all&tracelog.CallUnfinished != 0
	}
	for i := range b.N {
		if flags.At(i)&tracelog.CallUnfinished != 0 {
			return true
		}
	}
	return false
}

// span extends the time span of the log to that of a block. It returns the block's earliest
// start and its latest end, 0 without a known time.
func (c *Catalog) span(b *tracelog.Block, p *Placement) (low, high uint64) {
	starts := b.Column(p.Start)
	var durs tracelog.Column
	if p.Dur != "" {
		durs = b.Column(p.Dur)
	}
	low = timeline.Never
	for i := range b.N {
		start := starts.At(i)
		if p.zero || start != 0 {
			low = min(low, start)
		}
		if start == 0 {
			continue
		}
		until := start
		if p.Dur != "" {
			until = timeline.End(start, durs.At(i))
		}
		c.first, high = min(c.first, start), max(high, until)
		if c.filter == nil || c.filter.InTime(b, i) {
			c.last = max(c.last, until)
		}
	}
	return low, high
}

// KnownTime returns a time, or the beginning of the log for 0, which stands for a time that is
// not known.
func (c *Catalog) KnownTime(at uint64) uint64 {
	if at == 0 {
		return c.First()
	}
	return at
}
