package ring

import "github.com/cudatrace/cudatrace/record/tracelog"

// earlier finds the GPU work in a window whose call returned before the window began. Correlation IDs
// of a process rise from call to call: a call that began in the window has a larger one than all before.
type earlier struct {
	first map[uint32]uint64          // by process: the smallest correlation ID of calls that began in the window
	under map[uint32]map[uint64]bool // by process: correlation IDs of calls that were under way when it began
	found uint64
}

// calls notes the calls of a segment that are in a window.
func (e *earlier) calls(of *segment, f *tracelog.Filter) error {
	return of.each(tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindAPI}, From: f.From, To: f.To},
		func(b *tracelog.Block) {
			e.block(b, f)
		})
}

func (e *earlier) block(b *tracelog.Block, f *tracelog.Filter) {
	pids, starts, ids := b.Column("pid"), b.Column("start"), b.Column("correlation")
	for i := range b.N {
		pid, id := uint32(pids.At(i)), ids.At(i)
		switch first, known := e.first[pid]; {
		case !f.InTime(b, i):
		case starts.At(i) < f.From:
			if e.under[pid] == nil {
				e.under[pid] = map[uint64]bool{}
			}
			e.under[pid][id] = true
		case !known || id < first:
			e.first[pid] = id
		}
	}
}

// work counts row i of a block if its call returned before the window.
func (e *earlier) work(b *tracelog.Block, i int) {
	pids, ids := b.Column("pid"), b.Column("correlation")
	pid, id := uint32(pids.At(i)), ids.At(i)
	first, known := e.first[pid]
	if id != 0 && (!known || id < first) && !e.under[pid][id] {
		e.found++
	}
}
