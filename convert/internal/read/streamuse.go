package read

import (
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A streamUse notes the kinds of work that ran on a stream.
type streamUse struct {
	copies  bool // also memsets
	nccl    bool // NCCL's kernels
	kernels bool // other kernels, and graphs
}

// maxStreamUses bounds the streams whose kinds of work are kept. Programs have a few hundred. A
// stream beyond it lacks the words behind its number, such as "copies".
const maxStreamUses = 1 << 16

// ran notes the kinds of work of a block.
func (g *GPUs) ran(b *tracelog.Block, pids *tracelog.Column) {
	if !b.Kind.IsWork() {
		return
	}
	contexts, streams, names := b.Column("context"), b.Column("stream"), tracelog.Column{}
	if b.Kind == tracelog.KindKernel {
		names = b.Column("name")
	}
	_, onePID := pids.Const()
	_, oneContext := contexts.Const()
	_, oneStream := streams.Const()
	same := onePID && oneContext && oneStream
	var use *streamUse
	var latest StreamKey
	for i := range b.N {
		key := StreamKey{uint32(pids.At(i)), uint32(contexts.At(i)), uint32(streams.At(i))}
		if use == nil || key != latest {
			use, latest = g.useOf(key), key
		}
		use.noteWork(b, &names, i)
		if same && (use.kernels || b.Kind != tracelog.KindKernel) {
			return // the other rows say no more
		}
	}
}

func (g *GPUs) useOf(key StreamKey) *streamUse {
	u := g.uses[key]
	if u == nil && len(g.uses) >= maxStreamUses {
		return new(streamUse)
	}
	if u == nil {
		u = new(streamUse)
		g.uses[key] = u
		g.largest[key.PID] = max(g.largest[key.PID], key.Stream)
	}
	return u
}

// LargestStream returns the largest number of a process's streams that had work.
func (g *GPUs) LargestStream(pid uint32) uint32 { return g.largest[pid] }

// noteWork notes a row of a block.
func (u *streamUse) noteWork(b *tracelog.Block, names *tracelog.Column, i int) {
	switch {
	case b.Kind == tracelog.KindMemcpy || b.Kind == tracelog.KindMemset:
		u.copies = true
	case b.Kind == tracelog.KindKernel && isNCCL(b.Text(names.At(i))):
		u.nccl = true
	default:
		u.kernels = true
	}
}

// Only says what ran on a stream, where nothing else did; "" otherwise.
func (g *GPUs) Only(key StreamKey) string {
	switch u := g.uses[key]; {
	case u == nil || u.kernels:
		return ""
	case u.nccl:
		return timeline.OnlyNCCL
	}
	return timeline.OnlyCopies
}

func isNCCL(kernel string) bool { return timeline.CommunicationLibrary(kernel) == timeline.NCCLLibrary }
