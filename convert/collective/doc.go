// Package collective finds the collectives of NCCL, which are one kernel on each rank: who takes part, who enters last,
// and how the clocks of their hosts run against each other.
//
// Input: the kernels of logs. Output: for each communicator, the sequences in which its ranks ran it, and for each of
// its collectives when its part on each of them started and ended. A [Sequence] has the kernels of NCCL of one
// communicator of a rank in order, where NCCL's own words name the communicator, whatever streams they are on. Where
// NCCL does not name it, a sequence has the kernels of a stream. [Match] puts sequences with one hash into one
// communicator. Others belong to one if they ran the same kernels from their first one on, and if the ends of their
// parts agree much better than the starts: each rank starts when it gets there, and nobody ends before the last one has
// started.
//
// Memory is bounded: of a sequence with many collectives one of two is kept, one of four and so on, the same ones on
// all ranks.
//
// A caller fills sequences itself, by [NewSorter], [NameOf], [Sorter.Add] and [Sorter.Finish], or has package join fill
// them from a log. [AlignClocks] fits clocks by collectives. [Arrivals] give the kernels of a timeline their parts in
// collectives.
package collective
