package timeline

// A Collective is a collective of NCCL: one kernel on each rank of a communicator.
type Collective struct {
	ID           uint32 // the timeline's own, from 0
	Communicator uint32 // number in the timeline, from 0
	Number       uint64 // in the communicator, from 0
	Ranks        int    // that have a part of it in the logs
	Operation    string // "AllReduce"
	// a send or a receive: nothing tells which kernels of other ranks belong to it, and ID to Ranks mean nothing
	Alone bool

	// Last is the rank that entered last, "rank 3", and Entered is when. Both are zero for a collective in which a rank
	// need not wait for all others: a broadcast, a reduction.
	Last    string
	Entered uint64
	// ns by which the clocks of hosts may be wrong, where that leaves open which rank was the last; Never if not known
	Doubt uint64
}

// A Part is the part of a rank in a collective.
type Part struct {
	Collective
	Waited uint64 // ns that the rank waited for the last one
	IsLast bool
	Awaits bool // it has waited certainly, whatever the clocks are wrong
}
