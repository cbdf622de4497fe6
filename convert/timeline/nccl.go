package timeline

// NCCLDomain is the NVTX domain of NCCL's ranges.
const NCCLDomain = "NCCL"

// NCCL is what calls of NCCL say about their work, in the payloads of their NVTX ranges.
type NCCL struct {
	Communicator uint64 // the communicator's hash, which all of its ranks have; 0 where it is not known
	Bytes        uint64 // elements times the size of one, as the calls have them
	HasBytes     bool   // Bytes are known
	Call         string // the function, where the work is that of one call: "ncclAllReduce"
}

// Details are the arguments of a slice that say so.
func (n *NCCL) Details(list []Detail) []Detail {
	if n == nil {
		return list
	}
	if n.Communicator != 0 {
		list = append(list, Detail{Name: "communicator", Value: n.Communicator, Hex: true})
	}
	if n.HasBytes {
		list = append(list, Detail{Name: "bytes", Value: n.Bytes})
	}
	return list
}

// An NCCLGroup is the calls of NCCL that launch their kernels together: a call alone, or those between ncclGroupStart
// and ncclGroupEnd.
type NCCLGroup struct {
	all      NCCL
	calls    int
	mixed    bool   // the calls are of several communicators, or one is not known
	launches int    // of kernels
	end      uint64 // when the group had launched them; 0 before
}

// Add adds a call, whose own words are nil where it has said nothing.
func (g *NCCLGroup) Add(said *NCCL) {
	var call NCCL
	if said != nil {
		call = *said
	}
	if g.calls++; g.calls == 1 {
		g.all = call
		return
	}
	g.all.Call = ""
	g.mixed = g.mixed || call.Communicator != g.all.Communicator
	g.all.HasBytes = g.all.HasBytes && call.HasBytes
	g.all.Bytes += call.Bytes
}

// Launched counts the launch of a kernel.
func (g *NCCLGroup) Launched() { g.launches++ }

// Ended says that the group has launched its kernels by a time.
func (g *NCCLGroup) Ended(at uint64) { g.end = max(at, 1) }

// Settled reports whether all launches of the group have been counted: those of all calls before a time have.
func (g *NCCLGroup) Settled(until uint64) bool { return g.end != 0 && g.end < until }

// Communicator is the communicator of all calls, 0 where that is not certain. All calls of the group have been added.
func (g *NCCLGroup) Communicator() uint64 {
	if g.mixed {
		return 0
	}
	return g.all.Communicator
}

// OfKernel is what the calls say about a kernel that they launched: their communicator, if it is one, and their bytes,
// if they launched no other kernel. until is as for Settled. Nil where nothing is certain.
func (g *NCCLGroup) OfKernel(until uint64) *NCCL {
	if g.mixed || g.calls == 0 {
		return nil
	}
	n := &NCCL{Communicator: g.Communicator(), Call: g.all.Call}
	if g.all.HasBytes && g.launches == 1 && g.Settled(until) {
		n.Bytes, n.HasBytes = g.all.Bytes, true
	}
	if n.Communicator == 0 && !n.HasBytes {
		return nil
	}
	return n
}
