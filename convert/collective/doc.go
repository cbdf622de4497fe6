// Package collective finds the collectives of NCCL in logs: an all-reduce is one kernel on each rank.
//
// Input: the kernels of logs. Output: for each communicator, the streams on which its ranks ran it, and for each of
// its collectives when its part on each of them started and ended. A [Stream] has
// the kernels of NCCL of one stream in order, and [Match] puts those streams into one communicator that ran the same kernels from
// their first one on, and of whose parts the ends agree much better than the starts: each rank starts when it gets there, and
// nobody ends before the last one has started. Where NCCL's own words name the communicator ([Stream.Say]), they decide in
// place of the times.
//
// Memory is bounded: of a stream with many collectives one of two is kept, one of four and so on, the same ones on all ranks.
//
// A caller fills streams itself, by [NewStream], [NameOf], [Stream.Add], [Stream.Say] and [Stream.Finish], or has package
// collective/inlog fill them from a log.
package collective
