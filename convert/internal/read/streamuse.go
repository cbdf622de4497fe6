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
func (g *GPUs) ran(b *tracelog.Block) {
	use := g.useOf(StreamKey{keyOf(b, "pid"), keyOf(b, "context"), keyOf(b, "stream")})
	if b.Kind != tracelog.KindKernel {
		use.copies = true
		return
	}
	names := b.Column("name")
	for i := 0; i < b.N && !use.kernels; i++ {
		if isNCCL(b.Text(names.At(i))) {
			use.nccl = true
		} else {
			use.kernels = true
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
