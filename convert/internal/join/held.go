package join

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/pipeline"
	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A heldKey names memory that is live. Memory of the program that was registered may have the address of an allocation.
type heldKey struct {
	process *processMemory
	address uint64
	kind    uint32
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
	j.events.memoryFrom = o.memoryBefore
	earlier := New(before, pipeline.New(nil), o)
	if err := earlier.Run(open, func(float64) {}); err != nil {
		return err
	}
	for _, p := range j.programs {
		_, ended := j.catalog.Outcome.EndOf(p.Program)
		if (ended || p.Until != 0) && p.horizon < o.memoryBefore {
			continue
		}
		same := slices.IndexFunc(earlier.byPID[p.PID], func(q *program) bool { return q.Start == p.Start && q.Until == p.Until })
		if same < 0 || earlier.byPID[p.PID][same].memory == nil {
			continue
		}
		j.events.memoryOf(p).inherit(earlier.byPID[p.PID][same].memory, o.memoryBefore, func(a *timeline.Allocation) { j.adopt(p, a) })
	}
	j.events.memory.Room.Dropped += earlier.events.memory.Room.Dropped
	return nil
}

// adopt names a program's allocation by what this joiner's catalog has.
func (j *Joiner) adopt(p *program, a *timeline.Allocation) {
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
	}
}

// inherit takes over what another tracker of the process had live at a time, and shows it as allocated at that time.
func (p *processMemory) inherit(from *processMemory, at uint64, adopt func(*timeline.Allocation)) {
	p.live = from.live.Clone(&p.usage.Room, p.changed)
	for _, b := range p.live.Alive() {
		a := timeline.Allocation{Process: p.out, Address: b.Address, Bytes: b.Bytes, Kind: b.Kind}
		if known := from.usage.held[heldKey{from, b.Address, b.Kind}]; known != nil {
			a = *known
			adopt(&a)
		}
		a.Allocated, a.Time, a.Bytes, a.GPU = max(a.Time, 1), at, b.Bytes, p.gpu(b.Device)
		p.usage.out.Emit(&a)
		c := p.counter(b.Kind, a.GPU)
		p.set(c, at, c.live+b.Bytes)
	}
}
