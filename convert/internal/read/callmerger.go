package read

import (
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Call is a uprobe pair or a CUPTI API record.
type Call struct {
	Start, End  uint64
	Function    *Function
	Arguments   *timeline.Arguments
	Caller      *Caller            // nil if unknown
	Python      *timeline.Python   // nil if unknown
	Operator    *timeline.Operator // nil if unknown
	Correlation uint32             // 0 for a pair
	Ret         int32
	Flags       uint16 // tracelog.CallUnfinished, tracelog.CallNoReturn, tracelog.CallEntry
	Program     uint16 // index of the program in the process
	Rank        Rank
}

// A Rank orders equal intervals by nesting: a runtime call contains the pair of the driver call
// that it makes, and a pair contains the driver's API record of its call.
type Rank uint8

// The ranks.
const (
	RuntimeAPI Rank = iota
	Pair
	DriverAPI
)

// before is the order of nesting: outer intervals come first.
func (c *Call) before(o *Call) bool {
	if c.Start != o.Start {
		return c.Start < o.Start
	}
	if c.End != o.End {
		return c.End > o.End
	}
	return c.Rank < o.Rank
}

// Calls merge the calls and API records of each thread.
type Calls struct {
	counts    *Counts
	kind      mergedKind[Call]
	catalog   *Catalog
	wanted    *Wanted
	arguments argumentTable
}

// Counts are the numbers of records so far.
type Counts struct {
	Pairs uint64 // uprobe pairs
	APIs  uint64 // CUPTI API records

	CallerIDs uint64 // pairs and API records with the ID of a caller
}

// NewCalls returns mergers for the calls of a log. They count the records.
func NewCalls(c *Catalog, w *Wanted, counts *Counts) *Calls {
	l := &Calls{catalog: c, wanted: w, counts: counts}
	l.kind = mergedKind[Call]{
		start:  func(c *Call) uint64 { return c.Start },
		before: (*Call).before,
		decode: func() decoder[Call] { return &callDecoder{calls: l} },
	}
	return l
}

// Thread returns the merger of a thread of a process.
func (l *Calls) Thread(p *ProcessRecords) *Merger[Call] { return l.kind.merger(p) }

// Add passes the block that a reader has read to the merger of its thread, by host TID.
func (l *Calls) Add(r *tracelog.Reader, thread func(pid, tid uint32) *Merger[Call]) {
	b := r.Block()
	pid := keyOf(b, "pid")
	thread(pid, l.hostTID(b, pid, keyOf(b, "tid"))).push(r.Keep(), true)
}

// keyOf is the number that all records of a block have in a field.
func keyOf(b *tracelog.Block, field string) uint32 {
	c := b.Column(field)
	return uint32(c.At(0))
}

// NewArguments returns an argument list with an ID of its own.
func (l *Calls) NewArguments(args []uint64) *timeline.Arguments {
	l.arguments.lists++
	return &timeline.Arguments{Args: args, ID: l.arguments.lists}
}

func (l *Calls) hostTID(b *tracelog.Block, pid, tid uint32) uint32 {
	if b.Kind == tracelog.KindAPI || l.catalog.CallsFromCallbacks() {
		return l.catalog.Names.HostTID(pid, tid)
	}
	return tid
}

// A callDecoder decodes rows into Calls.
type callDecoder struct {
	calls     *Calls
	block     *tracelog.Block
	process   *ProcessRecords
	rank      Rank // of all calls of the block
	function  tracelog.Column
	start     tracelog.Column
	dur, ret  tracelog.Column
	flags     tracelog.Column
	corr      tracelog.Column
	caller    tracelog.Column
	callers   bool            // rows may have a caller
	python    tracelog.Column // of API records
	operators tracelog.Column // likewise
	arguments argumentColumns

	fn *Function // function of the latest row
	id uint64    // the number of its name
}

func (d *callDecoder) open(b *tracelog.Block, p *ProcessRecords) {
	d.block, d.process, d.fn, d.rank = b, p, nil, DriverAPI
	d.dur, d.ret, d.caller, d.flags = b.Column("dur"), b.Column("ret"), b.Column("caller"), b.Column("flags")
	id, same := d.caller.Const()
	d.callers = !same || id != 0
	if b.Kind == tracelog.KindCall {
		d.rank, d.function, d.start = Pair, b.Column("func"), b.Column("enter")
		d.arguments.open(b)
		return
	}
	d.function, d.start, d.corr, d.python, d.operators = b.Column("name"), b.Column("start"), b.Column("correlation"),
		b.Column("python"), b.Column("operators")
	if keyOf(b, "domain") == tracelog.DomainRuntime {
		d.rank = RuntimeAPI
	}
}

func (d *callDecoder) before(a, b *uint32) bool {
	i, j := int(*a), int(*b)
	if x, y := d.start.At(i), d.start.At(j); x != y {
		return x < y
	}
	return timeline.End(d.start.At(i), d.dur.At(i)) > timeline.End(d.start.At(j), d.dur.At(j))
}

func (d *callDecoder) rows(rows *Rows, into []Call, starts []uint64) (n int) {
	for n < len(into) {
		i, ok := rows.Next()
		if !ok {
			break
		}
		if d.calls.wanted.Match(d.block, i) {
			d.row(i, &into[n])
			starts[n] = into[n].Start
			n++
		}
	}
	return n
}

func (d *callDecoder) row(i int, c *Call) {
	if d.rank == Pair {
		d.pairRow(i, c)
	} else {
		d.apiRow(i, c)
	}
	c.Caller = nil
	if d.callers {
		d.locate(c, uint32(d.caller.At(i)))
	}
}

// locate sets the caller of a record, by its ID.
func (d *callDecoder) locate(c *Call, id uint32) {
	if id != 0 {
		d.calls.counts.CallerIDs++
		c.Caller = d.calls.catalog.Callers.ByID(id)
	}
}

func (d *callDecoder) pairRow(i int, c *Call) {
	l := d.calls
	if d.fn == nil {
		d.fn = l.catalog.Functions.ByID(uint32(d.function.At(i)))
	}
	c.Start = d.start.At(i)
	c.End = timeline.End(c.Start, d.dur.At(i))
	c.Function, c.Arguments, c.Correlation = d.fn, l.arguments.row(&d.arguments, i), 0
	c.Ret, c.Flags, c.Rank, c.Python, c.Operator = int32(d.ret.Int(i)), uint16(d.flags.At(i)), Pair, nil, nil
	d.finish(c)
	l.counts.Pairs++
}

// finish finds the program of a call, and the end of one that has not returned.
func (d *callDecoder) finish(c *Call) {
	c.Program = d.program(c.End)
	if c.Flags&tracelog.CallUnfinished != 0 {
		c.End = max(d.calls.catalog.Horizon(d.process.Programs[c.Program]), c.Start)
	}
}

func (d *callDecoder) apiRow(i int, c *Call) {
	l := d.calls
	if id := d.function.At(i); d.fn == nil || id != d.id {
		d.fn, d.id = l.catalog.Functions.ByCallback(d.block, d.rank == RuntimeAPI, id), id
	}
	c.Start = d.start.At(i)
	c.End = timeline.End(c.Start, d.dur.At(i))
	c.Function, c.Arguments, c.Correlation = d.fn, noArguments, uint32(d.corr.At(i))
	c.Ret, c.Flags, c.Rank, c.Python, c.Operator = int32(d.ret.At(i)), uint16(d.flags.At(i)), d.rank, nil, nil
	if id := uint32(d.python.At(i)); id != 0 {
		c.Python = l.catalog.Pythons.ByID(id)
	}
	if id := uint32(d.operators.At(i)); id != 0 {
		c.Operator = l.catalog.Operators.ByID(id)
	}
	c.Operator = l.catalog.Operators.in(c.Python, c.Operator)
	d.finish(c)
	l.counts.APIs++
}

// program is the index of the program that ran at a time.
func (d *callDecoder) program(at uint64) uint16 {
	if len(d.process.Programs) == 1 {
		return 0
	}
	return uint16(d.process.Programs.At(at))
}
