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

func (o *operators) advance(low uint64, all bool) {
	for _, lanes := range o.order {
		lanes.advance(low, all)
	}
}
