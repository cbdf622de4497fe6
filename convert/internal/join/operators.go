package join

import (
	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// operators show PyTorch's operators with their own times, on tracks of their threads.
type operators struct {
	catalog *read.Catalog
	program func(pid uint32, at uint64) *program
	out     *spanOutput
	lanes   map[*timeline.Thread]*overlapLanes
	order   []*overlapLanes // in the order of first sight
}

// readSpan queues the operator of a row.
func (o *operators) readSpan(b *tracelog.Block, i int) {
	var r tracelog.OperatorSpan
	r.Read(b, i)
	op := o.catalog.Operators.ByID(r.Operators)
	if op == nil {
		return // it found no room, which is counted
	}
	p := o.program(r.PID, r.Start)
	t := p.thread(o.catalog.Names.HostTID(r.PID, r.TID))
	lanes := o.lanes[t]
	if lanes == nil {
		track := timeline.Track{Process: p.out, Thread: t, Category: timeline.Operators}
		lanes = newOverlapLanes(o.out, &o.out.budget.Records, track)
		o.lanes[t], o.order = lanes, append(o.order, lanes)
	}
	p.operators++
	sp := timeline.Span{Name: op.Name, Start: r.Start, End: timeline.End(r.Start, r.Dur), Operator: op,
		Number: p.operators}
	if op.Forward != nil {
		sp.Args = []timeline.Detail{{Name: "forward_operator", Text: op.Forward.Stack()}}
	}
	lanes.addSpan(sp)
}

// at returns the innermost operator of a thread at a time; nil for none or an unknown one. All operators that began
// before low are known. Times come in order, and none is before what advance has shown.
func (o *operators) at(t *timeline.Thread, at, low uint64) (in *timeline.Operator) {
	lanes := o.lanes[t]
	if lanes == nil || at >= low {
		return nil
	}
	if lanes.advance(at+1, false); lanes.pending.taken > at {
		return nil // too many were held back
	}
	start := uint64(0)
	for _, l := range lanes.lanes {
		l.endUntil(at)
		if n := len(l.open); n > 0 && l.open[n-1].Start >= start {
			in, start = l.open[n-1].Operator, l.open[n-1].Start
		}
	}
	return in
}

func (o *operators) advance(low uint64, all bool) {
	for _, lanes := range o.order {
		lanes.advance(low, all)
	}
}
